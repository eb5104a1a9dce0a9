"""Archives in S3 (extra `s3`), by the kit's own import path."""

from compact.store.archives.files import S3Storage as S3Storage

"""Where memory's archives go, by what is stored of that: a folder, or `s3://BUCKET/PREFIX`."""

from __future__ import annotations

from pathlib import Path

from compact.errors import InvalidArgument
from compact.messages.memory_protocols import BlobStore
from compact.store.blobs.folder_blobs import FolderBlobs
from compact.store.blobs.s3_blobs import S3Blobs
from compact.store.blobs.sealing import KmsKeys, Passphrase, SealedBlobs

S3 = "s3://"
"""How the address of a bucket begins."""


def bucket_of(address: str) -> tuple[str, str]:
    """The bucket and the prefix of an address.

    Raises:
        InvalidArgument: it names no bucket.
    """
    bucket, _, prefix = address.removeprefix(S3).partition("/")
    if not bucket:
        raise InvalidArgument("archive", f"{address!r} names no bucket: s3://BUCKET/PREFIX")
    return bucket, prefix.strip("/")


class ArchivePlaces:
    """Opens places. Folders are relative to `base`; what is kept is sealed with the passphrase
    where there is one, in S3 with a KMS key instead where one is given. Safe from many threads.
    """

    def __init__(self, base: Path, passphrase: Passphrase | None = None) -> None:
        self._base, self._passphrase = base, passphrase
        self._open: dict[tuple[str, str | None], BlobStore] = {}

    def at(self, place: str, kms_key: str | None = None) -> BlobStore:
        """The files that are kept there.

        Raises:
            InvalidArgument: it names no bucket.
        """
        opens = [] if self._passphrase is None else [self._passphrase]
        if not place.startswith(S3):
            return SealedBlobs(FolderBlobs(self._base / place), self._passphrase)
        key = place, kms_key
        if key not in self._open:
            bucket, prefix = bucket_of(place)
            kms = KmsKeys(kms_key, bucket, prefix)
            seals = kms if kms_key else self._passphrase
            blobs = S3Blobs(bucket, prefix)
            self._open[key] = SealedBlobs(blobs, seals, [*opens, kms])
        return self._open[key]

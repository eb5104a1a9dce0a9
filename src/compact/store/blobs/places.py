"""Opens the places where archives are kept: a folder, or `s3://BUCKET/PREFIX`."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from compact.errors import InvalidArgument, StoreFailed
from compact.files import make_folders, sync_folder, unfinished, write_whole
from compact.messages.protocols import BlobStore
from compact.store.blobs.s3_blobs import S3Blobs
from compact.store.blobs.sealing import KmsKeys, Passphrase, SealedBlobs

S3 = "s3://"
"""Prefix of a bucket's address."""


def bucket_of(address: str) -> tuple[str, str]:
    """Split an address into bucket and prefix.

    Raises:
        InvalidArgument: the address names no bucket.
    """
    bucket, _, prefix = address.removeprefix(S3).partition("/")
    if not bucket:
        raise InvalidArgument("archive", f"{address!r} names no bucket: s3://BUCKET/PREFIX")
    return bucket, prefix.strip("/")


class ArchivePlaces:
    """Opens places by address. Folders are relative to `base`. Files are encrypted with the
    passphrase if there is one, in S3 with the KMS key if one is given. Safe for use by many
    threads.
    """

    def __init__(self, base: Path, passphrase: Passphrase | None = None) -> None:
        self._base, self._passphrase = base, passphrase
        self._open: dict[tuple[str, str | None], BlobStore] = {}

    def at(self, place: str, kms_key: str | None = None) -> BlobStore:
        """Return the `BlobStore` for a place.

        Raises:
            InvalidArgument: the address names no bucket.
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


class FolderBlobs:
    """A `BlobStore` in a folder. Files have mode 0600 and folders 0700. A file is synced before it
    gets its name. The first `put` creates the folder. Errors are those of `BlobStore`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, name: str, data: bytes, *, replaces: bool = False) -> None:
        """Store data under a name, durably, whole or not at all."""
        path = self._path(name)
        try:
            make_folders(path.parent)
        except OSError as error:
            raise _cannot(path.parent, "be made", error) from error
        try:
            write_whole(path, data, replaces=replaces)
        except (FileExistsError, FileNotFoundError):
            raise
        except OSError as error:
            raise _cannot(path.parent, "be written", error) from error

    def get(self, name: str) -> bytes:
        """Return the content of a file."""
        path = self._path(name)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _cannot(path, "be read", error) from error

    def delete(self, name: str) -> None:
        """Remove a file, if it exists, and the partial copies that killed writers left."""
        path = self._path(name)
        try:
            path.unlink(missing_ok=True)
            for left in path.parent.glob(unfinished(path)):
                left.unlink(missing_ok=True)
        except OSError as error:
            raise _cannot(path, "be removed", error) from error
        if path.parent.is_dir():
            sync_folder(path.parent)

    def address(self, name: str) -> str:
        """Return the file's path."""
        return str(self._path(name))

    def _path(self, name: str) -> Path:
        inside = PurePosixPath(name)
        if inside.is_absolute() or ".." in inside.parts or not inside.parts:
            raise StoreFailed(f"{name!r} is no name of a file in {self.folder}")
        return self.folder / inside


def _cannot(path: Path, what: str, error: OSError) -> StoreFailed:
    return StoreFailed(
        f"{path} cannot {what}: {error.strerror or error}. Check the disk, its free space and the "
        "permissions of the folder, then try again"
    )

"""Reads the files of a zip like those of a folder, without unpacking the zip to the disk.

Only one file at a time is in memory. Only files that begin as text are read, and never more than
the limits, whatever sizes the zip states.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

from compact.errors import InvalidTranscript
from compact.transcripts.documents import LARGEST_FILE, ZIP, all_of

LARGEST_ZIP = 2_000_000_000
"""How many bytes are read from all files of one zip together, at most."""
_BEGINNING = 512
"""How many bytes of a file show whether it is text."""
_BROKEN = (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, NotImplementedError)
"""Errors of damaged and locked files, and of unknown compression methods."""


def is_zip(path: Path) -> bool:
    """Whether a file begins like a zip. It is false for a file that cannot be read."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(ZIP)) == ZIP
    except OSError:
        return False


def files_in(path: Path) -> Iterator[tuple[str, bytes | InvalidTranscript]]:
    """Yield the name of each file in the order of names, and its bytes, or the error if it is not
    read.

    Raises:
        InvalidTranscript: the zip is damaged.
    """
    left = LARGEST_ZIP
    try:
        with zipfile.ZipFile(path) as archive:
            for member in sorted(archive.infolist(), key=attrgetter("filename")):
                if not member.is_dir():
                    data = _read(archive, member, min(left, LARGEST_FILE))
                    left -= len(data) if isinstance(data, bytes) else 0
                    yield member.filename, data
    except (OSError, zipfile.BadZipFile) as error:
        raise InvalidTranscript(str(path), f"a zip that cannot be read: {error}") from None


def _read(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int
) -> bytes | InvalidTranscript:
    name = f"{archive.filename}/{member.filename}"
    try:
        with archive.open(member) as stream:
            begins = stream.read(_BEGINNING)
            if b"\0" in begins or begins.startswith((b"<", b"\xef\xbb\xbf<")):
                reason = "no conversation: a page or binary data"
                return InvalidTranscript(name, reason, is_foreign=True)
            stream.seek(0)
            return all_of(stream, name, most)
    except InvalidTranscript as error:
        return error
    except _BROKEN as error:
        return InvalidTranscript(name, f"not readable in the zip: {error}")

"""The two files of an archived session: names, writing, checksums.

`YYYY/MM/NAME.json` describes the session. `NAME.originals.zst` holds every row of it. A name
ends with the start of the originals' checksum. Different content has a different name, so nothing
is overwritten by other content.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from compact.errors import StoreDamaged, StoreFailed, Superseded
from compact.messages.memory_protocols import BlobStore
from compact.patterns import regex

SCHEMA = "compact/archived-conversation"
VERSION = 1
"""Version of the description's schema."""
DESCRIPTION, ORIGINALS = ".json", ".originals.zst"
"""Suffixes of the two files."""
_LONGEST = 60
"""Most characters of a session id in a name."""
_NOT_NAMED = regex(r"[^A-Za-z0-9._-]+")


def name_for(session_id: str, ended: datetime, originals: bytes) -> str:
    """Return the name of a session's files, without suffix."""
    at = ended if ended.tzinfo is None else ended.astimezone(UTC)
    shown = _NOT_NAMED.sub("-", session_id)[:_LONGEST].strip("-.") or "conversation"
    return f"{at:%Y}/{at:%m}/{shown}-{sha256(originals).hexdigest()[:16]}"


def check_free(blobs: BlobStore, name: str) -> None:
    """Check that files with this name may be written and removed. Files of another store, which
    are encrypted with another key, may not.

    Raises:
        StoreFailed: existing files cannot be read with this key, or not at all.
    """
    for each in both(name):
        with suppress(FileNotFoundError, StoreDamaged):
            blobs.get(each)


def keep(
    blobs: BlobStore, name: str, description: Mapping[str, Any], originals: bytes
) -> tuple[bytes, bytes]:
    """Write both files, replacing those of an earlier attempt. Return the checksums of the
    description and the originals.

    Raises:
        StoreFailed: the files cannot be written, or differ when read back.
        Superseded: another process took the files for abandoned ones and removed them.
    """
    data = (json.dumps(description, indent=2, ensure_ascii=False) + "\n").encode(
        "utf-8", "backslashreplace"
    )
    own = sha256(originals).digest()
    try:
        _keep(blobs, name + ORIGINALS, originals)
        if not describes(blobs, name, own):
            _keep(blobs, name + DESCRIPTION, data)
        digest = sha256(blobs.get(name + DESCRIPTION)).digest()
        read = blobs.get(name + ORIGINALS)
    except FileNotFoundError as error:
        raise Superseded(f"{name} was removed meanwhile") from error
    if read != originals or not describes(blobs, name, own):
        at = blobs.address(name + ORIGINALS)
        raise StoreFailed(f"{at} does not hold what was written to it; nothing was removed")
    return digest, own


def _keep(blobs: BlobStore, name: str, data: bytes) -> None:
    try:
        blobs.put(name, data)
    except FileExistsError:  # the process that wrote it may have died before the sync
        blobs.put(name, data, replaces=True)


def describes(blobs: BlobStore, name: str, originals: bytes) -> bool:
    """Return whether there is a description of originals with this checksum.

    Raises:
        StoreFailed: that cannot be determined.
    """
    try:
        description = json.loads(blobs.get(name + DESCRIPTION))
        return bool(
            description["schema"] == SCHEMA
            and description["originals"]["sha256"] == originals.hex()
        )
    except (FileNotFoundError, StoreDamaged, ValueError, LookupError, TypeError):
        return False


def originals_at(blobs: BlobStore, name: str, expected: bytes) -> bytes:
    """Return the originals' bytes.

    Raises:
        FileNotFoundError: no such file.
        StoreDamaged: the file was altered.
        StoreFailed: the file cannot be read, or not with this key.
    """
    data = blobs.get(name + ORIGINALS)
    if sha256(data).digest() != expected:
        at = blobs.address(name + ORIGINALS)
        raise StoreDamaged(f"{at} is not the file that was written: its checksum differs")
    return data


def faults(blobs: BlobStore, name: str, description: bytes, originals: bytes) -> list[str]:
    """Return the defects of the two files, given their checksums."""
    lines = []
    for ending, expected in ((DESCRIPTION, description), (ORIGINALS, originals)):
        file = PurePosixPath(name + ending).name
        try:
            if sha256(blobs.get(name + ending)).digest() != expected:
                lines.append(f"{file} is not the file that was written: its checksum differs")
        except FileNotFoundError:
            lines.append(f"{file} is missing")
        except StoreFailed as error:
            lines.append(f"{file} cannot be verified: {error}")
    return lines


def discard(blobs: BlobStore, name: str) -> None:
    """Remove both files, if they exist.

    Raises:
        StoreFailed: they cannot be removed.
    """
    for each in both(name):
        blobs.delete(each)


def both(name: str) -> list[str]:
    """Return the names of the two files."""
    return [name + ending for ending in (DESCRIPTION, ORIGINALS)]

"""The two files of an archived conversation: how they are named, written, and held to their sums.

`YYYY/MM/NAME.json` describes it, for people and `jq`; `NAME.originals.zst` beside it holds every
row. A name ends with how the sum of the originals begins: another content is another file, so that
none is ever overwritten by what differs.
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
"""Of the schema of descriptions."""
DESCRIPTION, ORIGINALS = ".json", ".originals.zst"
"""How the names of the two files end."""
_LONGEST = 60
"""Characters of a session's id in a name."""
_NOT_NAMED = regex(r"[^A-Za-z0-9._-]+")


def name_for(session_id: str, ended: datetime, originals: bytes) -> str:
    """What the files of a conversation are called, without an ending."""
    at = ended if ended.tzinfo is None else ended.astimezone(UTC)
    told = _NOT_NAMED.sub("-", session_id)[:_LONGEST].strip("-.") or "conversation"
    return f"{at:%Y}/{at:%m}/{told}-{sha256(originals).hexdigest()[:16]}"


def check_free(blobs: BlobStore, name: str) -> None:
    """Hold that files of this name may be written and removed: another store's, which another key
    has sealed, may not.

    Raises:
        StoreFailed: they cannot be read with this key, or it cannot be told.
    """
    for each in both(name):
        with suppress(FileNotFoundError, StoreDamaged):
            blobs.get(each)


def keep(
    blobs: BlobStore, name: str, description: Mapping[str, Any], originals: bytes
) -> tuple[bytes, bytes]:
    """Keep both files; the sums of the description's and of the originals' bytes.

    What an earlier attempt has left is written again.

    Raises:
        StoreFailed: they cannot be written; or what is read back is not what was written.
        Superseded: somebody removed them meanwhile, who took them for left behind.
    """
    data = (json.dumps(description, indent=2, ensure_ascii=False) + "\n").encode(
        "utf-8", "backslashreplace"
    )
    own = sha256(originals).digest()
    try:
        _keep(blobs, name + ORIGINALS, originals)
        if not describes(blobs, name, own):
            _keep(blobs, name + DESCRIPTION, data)
        told = sha256(blobs.get(name + DESCRIPTION)).digest()
        read = blobs.get(name + ORIGINALS)
    except FileNotFoundError as error:
        raise Superseded(f"{name} was removed meanwhile") from error
    if read != originals or not describes(blobs, name, own):
        at = blobs.address(name + ORIGINALS)
        raise StoreFailed(f"{at} does not hold what was written to it; nothing was removed")
    return told, own


def _keep(blobs: BlobStore, name: str, data: bytes) -> None:
    """Have a file hold that, durably."""
    try:
        blobs.put(name, data)
    except FileExistsError:  # whoever wrote it may have died before it was synced
        blobs.put(name, data, replaces=True)


def describes(blobs: BlobStore, name: str, originals: bytes) -> bool:
    """Whether there is a description of originals that have this sum.

    Raises:
        StoreFailed: that cannot be told.
    """
    try:
        told = json.loads(blobs.get(name + DESCRIPTION))
        return bool(told["schema"] == SCHEMA and told["originals"]["sha256"] == originals.hex())
    except (FileNotFoundError, StoreDamaged, ValueError, LookupError, TypeError):
        return False


def originals_at(blobs: BlobStore, name: str, expected: bytes) -> bytes:
    """The originals' bytes.

    Raises:
        FileNotFoundError: there is no such file.
        StoreDamaged: it is another one than was written.
        StoreFailed: it cannot be read, or not with this key.
    """
    data = blobs.get(name + ORIGINALS)
    if sha256(data).digest() != expected:
        at = blobs.address(name + ORIGINALS)
        raise StoreDamaged(f"{at} is not the file that was written: its checksum differs")
    return data


def faults(blobs: BlobStore, name: str, description: bytes, originals: bytes) -> list[str]:
    """What is wrong with the two files, which should have these sums."""
    found = []
    for ending, expected in ((DESCRIPTION, description), (ORIGINALS, originals)):
        file = PurePosixPath(name + ending).name
        try:
            if sha256(blobs.get(name + ending)).digest() != expected:
                found.append(f"{file} is not the file that was written: its checksum differs")
        except FileNotFoundError:
            found.append(f"{file} is missing")
        except StoreFailed as error:
            found.append(f"{file} cannot be verified: {error}")
    return found


def discard(blobs: BlobStore, name: str) -> None:
    """Remove both files; where there are none, nothing.

    Raises:
        StoreFailed: they cannot be removed.
    """
    for each in both(name):
        blobs.delete(each)


def both(name: str) -> list[str]:
    """What the two files are called."""
    return [name + ending for ending in (DESCRIPTION, ORIGINALS)]

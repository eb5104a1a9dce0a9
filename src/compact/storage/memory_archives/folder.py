"""The two files of an archived conversation: how they are named, written, and held to their sums.

`YYYY/MM/NAME.json` describes it, for people and `jq`; `NAME.originals.zst` beside it holds every
row. A name ends with how the sum of the originals begins: another content is another file, so that
none is ever overwritten by what differs.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from compact.errors import StoreDamaged, StoreFailed, Superseded
from compact.files import make_folders, sync_folder, write_whole

SCHEMA = "compact/archived-conversation"
VERSION = 1
"""Of the schema of descriptions."""
DESCRIPTION, ORIGINALS = ".json", ".originals.zst"
"""How the names of the two files end."""
_LONGEST = 60
"""Characters of a session's id in a name."""
_NOT_NAMED = re.compile(r"[^A-Za-z0-9._-]+")


def name_for(session_id: str, ended: datetime, originals: bytes) -> str:
    """Where the files of a conversation go, within the folder of archives and without an ending."""
    at = ended if ended.tzinfo is None else ended.astimezone(UTC)
    told = _NOT_NAMED.sub("-", session_id)[:_LONGEST].strip("-.") or "conversation"
    return f"{at:%Y}/{at:%m}/{told}-{sha256(originals).hexdigest()[:16]}"


def keep(stem: Path, description: Mapping[str, Any], originals: bytes) -> tuple[bytes, bytes]:
    """Have both files on the disk; the sums of the description's and of the originals' bytes.

    What an earlier attempt has left is taken where it is sound, else written again.

    Raises:
        StoreFailed: they cannot be written; or what is read back is not what was written.
        Superseded: somebody removed them meanwhile, who took them for left behind.
    """
    data = (json.dumps(description, indent=2, ensure_ascii=False) + "\n").encode(
        "utf-8", "backslashreplace"
    )
    own = sha256(originals).digest()
    described, packed = _with(stem, DESCRIPTION), _with(stem, ORIGINALS)
    try:
        make_folders(stem.parent)
        _keep(packed, originals)
        if not describes(described, own):
            _keep(described, data)
        told, read = sha256(described.read_bytes()).digest(), packed.read_bytes()
    except FileNotFoundError as error:
        raise Superseded(f"{stem.name} was removed meanwhile") from error
    except OSError as error:
        raise StoreFailed(f"{stem.parent} cannot be written: {error.strerror or error}") from error
    if read != originals or not describes(described, own):
        raise StoreFailed(f"{packed} does not hold what was written to it; nothing was removed")
    return told, own


def _keep(path: Path, data: bytes) -> None:
    """Have a file hold that, durably; one that does is taken."""
    try:
        write_whole(path, data, replaces=False)
    except FileExistsError:
        if path.read_bytes() != data:
            write_whole(path, data)
            return
        with path.open("rb+") as file:  # whoever wrote it may have died before this
            os.fsync(file.fileno())
        sync_folder(path.parent)


def describes(path: Path, originals: bytes) -> bool:
    """Whether a file is a description of originals that have this sum."""
    try:
        told = json.loads(path.read_bytes())
        return bool(told["schema"] == SCHEMA and told["originals"]["sha256"] == originals.hex())
    except (OSError, ValueError, LookupError, TypeError):
        return False


def originals_at(stem: Path, expected: bytes) -> bytes:
    """The originals' bytes.

    Raises:
        FileNotFoundError: there is no such file.
        StoreDamaged: it is another one than was written, or cannot be read.
    """
    path = _with(stem, ORIGINALS)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreDamaged(f"{path} cannot be read: {error.strerror or error}") from error
    if sha256(data).digest() != expected:
        raise StoreDamaged(f"{path} is not the file that was written: its checksum differs")
    return data


def faults(stem: Path, description: bytes, originals: bytes) -> list[str]:
    """What is wrong with the two files, which should have these sums."""
    found = []
    for ending, expected in ((DESCRIPTION, description), (ORIGINALS, originals)):
        path = _with(stem, ending)
        try:
            if sha256(path.read_bytes()).digest() != expected:
                found.append(f"{path.name} is not the file that was written: its checksum differs")
        except FileNotFoundError:
            found.append(f"{path.name} is missing")
        except OSError as error:
            found.append(f"{path.name} cannot be read: {error.strerror or error}")
    return found


def discard(stem: Path) -> None:
    """Remove both files; where there are none, nothing.

    Raises:
        OSError: they cannot be removed.
    """
    for ending in (DESCRIPTION, ORIGINALS):
        _with(stem, ending).unlink(missing_ok=True)
    if stem.parent.is_dir():
        sync_folder(stem.parent)


def file_of(stem: Path) -> Path:
    """The file that describes the conversation."""
    return _with(stem, DESCRIPTION)


def both(stem: Path) -> list[Path]:
    """The two files."""
    return [_with(stem, ending) for ending in (DESCRIPTION, ORIGINALS)]


def _with(stem: Path, ending: str) -> Path:
    return stem.with_name(stem.name + ending)

"""The key by which one user's command line recognizes the checkpoints that it wrote into files: a
secret file of theirs, made when it is first needed.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp

from compact.session.compress import SHORTEST_KEY


def own_key() -> bytes | None:
    """The user's key; None where no file can be kept: the key of this process counts then."""
    try:
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        file = state / "compact" / "key"
        return _kept(file) or _made(file)
    except (OSError, RuntimeError):
        return None


def _kept(file: Path) -> bytes | None:
    """The key in the file; None where there is none, or one that a crash cut off."""
    with suppress(FileNotFoundError):
        if len(key := file.read_bytes()) >= SHORTEST_KEY:
            return key
    return None


def _made(file: Path) -> bytes | None:
    """A new key, in the file as a whole or not at all; another's, where that was there first."""
    file.parent.mkdir(parents=True, exist_ok=True)
    made, name = mkstemp(dir=file.parent, prefix=".key-")
    try:
        with os.fdopen(made, "wb") as out:
            out.write(secrets.token_hex(32).encode())
        if file.exists() and _kept(file) is None:
            file.unlink(missing_ok=True)
        with suppress(FileExistsError):
            os.link(name, file)
        return _kept(file)
    finally:
        os.unlink(name)

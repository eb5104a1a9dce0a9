"""The key by which one user's command line recognizes the checkpoints that it wrote into files: a
secret file of theirs, made when it is first needed.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from compact.managers.compress import SHORTEST_KEY


def own_key() -> bytes | None:
    """The user's key; None where no file can be kept: the key of this process counts then."""
    try:
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        file = state / "compact" / "key"
        file.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(made, "wb") as out:
                out.write(secrets.token_hex(32).encode())
        key = file.read_bytes()
    except (OSError, RuntimeError):
        return None
    return key if len(key) >= SHORTEST_KEY else None

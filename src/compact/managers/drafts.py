"""Drafts: the note that says a compression is under way, so that one whose writer died is found.

A draft is nothing but that note: what it will say is committed in one transaction, which ends the
note too. Whoever opens a session drops the drafts of writers that are gone.
"""

from __future__ import annotations

import os
import platform
from datetime import datetime, timedelta

from compact.core import defaults
from compact.core.events import DraftDropped
from compact.managers.state import SessionState

PREFIX = "draft:"
LONGEST = timedelta(hours=1)
"""After that time a draft of another machine counts as abandoned."""


def begin_draft(state: SessionState, window: int, base: int) -> None:
    """Say that a compression of that window begins."""
    value = {
        "base": base,
        "process": os.getpid(),
        "machine": platform.node(),
        "since": defaults.now().isoformat(),
    }
    state.store.note(state.id, f"{PREFIX}{window}", value)


def end_draft(state: SessionState, window: int) -> None:
    """Say that it ended without a result."""
    state.store.note(state.id, f"{PREFIX}{window}", None)


def drop_abandoned(state: SessionState) -> None:
    """Drop the drafts of writers that are gone."""
    for name, value in state.store.notes(state.id).items():
        if not name.startswith(PREFIX):
            continue
        here = value.get("machine") == platform.node()
        since = datetime.fromisoformat(str(value["since"]))
        old = abs(defaults.now() - since) > LONGEST
        if old or (here and not _is_alive(int(value["process"]))):
            state.store.note(state.id, name, None)
            state.emit(DraftDropped(window=int(name.removeprefix(PREFIX)), since=since))


def _is_alive(process: int) -> bool:
    if process == os.getpid():
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # somebody else's, and alive
    return True

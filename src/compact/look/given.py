"""What the hooks of compact noted that they gave back after a compaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from compact.files import state_folder
from compact.look.measures import Compaction, seconds_between

_WITHIN = 600.0
"""Seconds between a note and the compaction that it is of."""


def given_by_hooks() -> dict[str, list[Mapping[str, object]]]:
    """Return the hooks' notes by session. A line that is no note is skipped."""
    notes = dict[str, list[Mapping[str, object]]]()
    try:
        text = (state_folder() / "hooks" / "given.jsonl").read_text("utf-8", "replace")
    except (OSError, RuntimeError):  # RuntimeError: the user has no home
        return notes
    for line in text.splitlines():
        try:
            note = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(note, dict):
            notes.setdefault(str(note.get("session")), []).append(note)
    return notes


def was_given(notes: Sequence[Mapping[str, object]], compaction: Compaction) -> bool:
    """Return whether one of a session's notes is of this compaction."""
    for note in notes:
        apart = seconds_between(str(note.get("time")), compaction.boundary.time)
        is_near = apart is not None and abs(apart) < _WITHIN
        if is_near or (compaction.before and note.get("uuid") == compaction.before):
            return True
    return False

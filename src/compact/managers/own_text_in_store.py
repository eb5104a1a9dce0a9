"""Which text of a list is ours: by the session's key, or because its store holds it.

Prompts that were sent when headings carried a digest of their words alone come back as they were.
"""

from __future__ import annotations

from compact.core.own_text import below, headed
from compact.core.sessions import Shown
from compact.managers.state import SessionState

MOST_RECORDS = 12
"""Newest moves whose records are compared with a text."""


def kind_of(state: SessionState, text: str) -> str | None:
    """Its kind where the text is ours, such as `Checkpoint`, else None."""
    if kind := state.own.kind_of(text):
        return kind
    kind = headed(text)
    words = _plain_words(text)
    if kind == "Checkpoint":
        made = state.store.checkpoints(state.id)
        is_held = any(_plain_words(c.summary) == words for c in made if f" {c.id} " in text[:60])
    elif kind == "Record":
        moves = state.store.moves(state.id, None, most=MOST_RECORDS)
        shown = (state.projection(m.projection_id) for m in moves if m.projection_id)
        pieces = (piece for each in shown for piece in each.pieces if isinstance(piece, Shown))
        is_held = any(_plain_words(piece.message.text) == words for piece in pieces)
    else:
        is_held = False
    return kind if is_held else None


def _plain_words(text: str) -> str:
    """What stands below a heading, or in no need of one."""
    return below(text).replace("\r\n", "\n").strip()

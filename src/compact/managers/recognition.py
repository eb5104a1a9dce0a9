"""Recognition: what is new in a list that a client sends whole at every turn.

A list that goes on from the history is matched by its longest known prefix (`core.chain`); a list
that goes on from the prompt it was given, checkpoints included, by what is in view. Only the rest
is new. Where the list leaves the history before its end, the past was edited: that is a branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from compact.core import chain
from compact.core.messages import Message
from compact.core.own_text import kind_of
from compact.core.sessions import Run, Shown, Stand
from compact.managers.state import SessionState
from compact.managers.view import View


class Recognized(NamedTuple):
    """What a resent list is."""

    known: int
    """Messages of the history that it goes on from."""
    new: list[Message | Mapping[str, Any]]
    """What it adds to them."""
    ours: int
    """Messages of compact's own making that were in it, and are not stored."""


def recognized(
    state: SessionState, view: View, given: Sequence[Message | Mapping[str, Any]]
) -> Recognized:
    """What of the list is known, and what is new."""
    said = [m for m in given if not is_ours(m)]
    ours = len(given) - len(said)
    if ours and view.projection is not None:
        known, used = _known_of_view(state, view, said)
        return Recognized(known, said[used:], ours)
    known = state.history.known_prefix(said)
    return Recognized(known, said[known:], ours)


def is_ours(message: Message | Mapping[str, Any]) -> bool:
    """Whether a message is one that compact put into the prompt."""
    content = message.content if isinstance(message, Message) else message.get("content")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], Mapping):
        content = content[0].get("text")
    return isinstance(content, str) and kind_of(content) in ("Checkpoint", "Goals")


def _known_of_view(
    state: SessionState, view: View, said: Sequence[Message | Mapping[str, Any]]
) -> tuple[int, int]:
    """How much of the history a list goes on from that begins with what was in view, and how many
    of its messages that takes.
    """
    known = used = 0
    for position, message in _in_view(state, view):
        if used == len(said) or not _same(said[used], message):
            return known, used
        used += 1
        known = known if position is None else position + 1
    return len(state.history), used


def _in_view(state: SessionState, view: View) -> list[tuple[int | None, Message]]:
    assert view.projection is not None, "only a view that was compressed has checkpoints"
    rows: list[tuple[int | None, Message]] = []
    for piece in view.projection.pieces:
        match piece:
            case Run(first, last):
                rows += [(i, state.history[i]) for i in range(first, last + 1)]
            case Shown(message):
                rows.append((None, message))
            case Stand():
                pass
    at = view.projection.at
    return rows + [(i, state.history[i]) for i in range(at, len(state.history))]


def _same(one: Message | Mapping[str, Any], other: Message) -> bool:
    return chain.link(chain.START, one) == chain.link(chain.START, other)

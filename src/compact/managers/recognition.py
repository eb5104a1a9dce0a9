"""Recognition: what is new in a list that a client sends whole at every turn.

A list that goes on from the history is matched by its longest known prefix (`core.chain`); a list
that goes on from a prompt it was given, by what was in view: checkpoints, goals and notes of ours
are left out, a shortened message stands for its original. Only the rest is new. Where the list
leaves the history before its end, the past was edited: that is a branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from compact.compression import shorten
from compact.compression.fold import Fold
from compact.core import chain
from compact.core.messages import Message
from compact.core.own_text import kind_of
from compact.core.sessions import Projection
from compact.managers.state import SessionState
from compact.managers.view import View

MOST_PROMPTS = 12
"""Newest projections among which the one is looked for that a list goes on from."""

Given = Message | Mapping[str, Any]


class Recognized(NamedTuple):
    """What a resent list is."""

    known: int
    """Messages of the history that it goes on from."""
    new: list[Given]
    """What it adds to them."""
    ours: int
    """Messages of compact's own making that were in it, and are not stored."""


class _Match(NamedTuple):
    """How far a list is known."""

    used: int
    """Messages of the list that are known."""
    known: int
    """Messages of the history that they are."""
    ours: int = 0
    """How many of the known ones are of our making."""
    loses: bool = False
    """Whether the list was edited before the end of what a checkpoint in it stands for: then that
    is all the list has of the rest, and it is taken as it is."""


def recognized(state: SessionState, view: View, given: Sequence[Given]) -> Recognized:
    """What of the list is known, and what is new."""
    best = plain = _plain(state, given)
    if _may_be_a_prompt(state, best, given):
        for projection in _prompts(state, view):
            match = _matched(state, projection, given)
            if (match.used, match.loses) > (best.used, best.loses):
                best = match
            if best.known == len(state.history):
                break
    not_said = ("Goals",) if best.loses else ("Checkpoint", "Goals")
    best = plain if best.loses else best
    rest = given[best.used :]
    new = [m for m in rest if _own_kind(m) not in not_said]
    return Recognized(best.known, new, best.ours + len(rest) - len(new))


def _may_be_a_prompt(state: SessionState, plain: _Match, given: Sequence[Given]) -> bool:
    """Whether the list may go on from a prompt, rather than from the history as it was said."""
    if plain.used == len(given):
        return False
    rest = given[plain.used]
    note = isinstance(rest, Mapping) and shorten.NO_RESULT in str(rest.get("content"))
    return note or plain.known < len(state.history)


def _own_kind(message: Given) -> str | None:
    """What kind of text of ours a message is."""
    return kind_of(_text(message))


def _text(message: Given) -> str:
    content = message.content if isinstance(message, Message) else message.get("content")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], Mapping):
        content = content[0].get("text")
    return content if isinstance(content, str) else ""


def _plain(state: SessionState, given: Sequence[Given]) -> _Match:
    """How far a list is known that begins as the history does, goals of ours left out."""
    said = [i for i, m in enumerate(given) if _own_kind(m) != "Goals"]
    known = state.history.known_prefix([given[i] for i in said])
    used = said[known - 1] + 1 if known else 0
    return _Match(used, known, used - known)


def _prompts(state: SessionState, view: View) -> Iterator[Projection | None]:
    """What the session's prompts went on from, the newest first."""
    if view.projection is None:
        yield None
    seen: set[str] = set()
    for move in state.store.moves(state.id, None, most=MOST_PROMPTS):
        name = move.projection_id
        if name is not None and name not in seen and state.covers(move.branch_id, move.at):
            seen.add(name)
            yield state.projection(name)


def _matched(state: SessionState, projection: Projection | None, given: Sequence[Given]) -> _Match:
    """How far a list is known that goes on from a prompt."""
    cut = projection.cut if projection else 0
    used = known = ours = 0
    rows = list(_rows(state, projection))
    live = tuple(f"[Checkpoint {c.id} " for c in projection.checkpoints) if projection else ()
    headed = any(_text(m).startswith(live) for m in given)
    covered = max((i for i, row in enumerate(rows) if 0 < row.ends <= cut), default=-1)
    for i, row in enumerate(rows):
        while used < len(given) and _own_kind(given[used]) in ("Checkpoint", "Goals"):
            used, ours = used + 1, ours + 1
        if used < len(given) and chain.link(chain.START, given[used]) == row.hash:
            used += 1
            ours += row.is_note
            known = max(known, row.ends)
        elif not row.is_note:
            known = max(known, cut) if headed and i > covered else known
            return _Match(used, known, ours, loses=headed and known < cut)
    return _Match(used, len(state.history), ours)


class _Row(NamedTuple):
    """A dictionary of a prompt."""

    hash: bytes
    ends: int
    """How many messages of the history end with it; 0 where its message has more dictionaries."""
    is_note: bool
    """Whether it is a note of ours, which a client may leave out."""


def _rows(state: SessionState, projection: Projection | None) -> Iterator[_Row]:
    fold = Fold(state.history, aside=0)
    if projection is not None:
        fold.take(projection)
    fold.follow(len(state.history))
    for position, message in fold.placed():
        if message.metadata.source == "checkpoint" and position is None:
            continue
        wires = state.wire.render((message,))
        for i, wire in enumerate(wires, 1):
            ends = position + 1 if position is not None and i == len(wires) else 0
            yield _Row(chain.link(chain.START, wire), ends, shorten.is_answer(message))

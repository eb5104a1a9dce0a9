"""Recognition: what is new in a list that a client sends whole at every turn.

Messages are compared by digests of what they say (`messages.chain`), with what is known: the
history from its beginning; the prompt that was shown, which is told by compact's own text in the
list; and the history's end, for a client that dropped the beginning. The one that knows most of the
list counts, and the rest is new. Nothing else is looked for: a list that leaves the history before
its end goes on as a branch.

The system prompt goes by its place: other words there are no edited past (decision 015). What is
then done with the session lives in `syncing`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from compact.engine import shorten
from compact.engine.fold import Fold
from compact.engine.history import History
from compact.errors import InvalidMessage
from compact.messages import chain
from compact.messages.alternation import is_gap
from compact.messages.characters import all_carried, carried
from compact.messages.own_text import below, headed
from compact.messages.sessions import Projection, Shown
from compact.session.lists.merged import SUMMARIES, Given, Once, apart, text_of
from compact.session.lists.system_prompt import (
    STANDING,
    SystemSaid,
    leading_system,
    system_said,
    without_ours,
)
from compact.session.state import ALL_MOVES, SessionState
from compact.session.views.shared_checkpoints import MOST_LOOKED_AT
from compact.session.views.view import View


class Recognized(NamedTuple):
    """What a resent list is."""

    known: int
    """Messages of the history that it goes on from."""
    new: list[Given]
    """What it adds to them."""
    ours: int
    """Messages of compact's own making that were in it, and are not stored."""
    system: tuple[Given, ...] = ()
    """The system prompt that takes the place of the one shown; none where it is the same."""
    own_system: str | None = None
    """The client's own words in it, where it says others around them; None: all of it."""
    is_lost: bool = False
    """Whether a checkpoint in it has no place in this history, and is kept as what it says."""


class _Match(NamedTuple):
    """How far a list is known."""

    used: int
    """How many of its messages."""
    known: int
    """Messages of the history that they are."""
    notes: int = 0
    """How many of them are notes of our making."""


def recognized(state: SessionState, view: View, given: Sequence[Given]) -> Recognized:
    """What of the list is known, and what is new.

    Raises:
        InvalidMessage: one of the messages cannot be stored.
    """
    known = Once(text for p in _newest(state, view) for text in _summaries(p))
    asked, kinds, has_ours = without_ours(apart(given, state.own, known), state.own)
    said = [i for i in leading_system(asked) if kinds[i] not in STANDING]
    leading = len(leading_system(state.history))
    system = system_said(state, [asked[i] for i in said], leading, has_ours=has_ours)
    start = said[-1] + 1 if system.messages else 0
    words = {i: _link(asked, i) for i in range(start, len(asked)) if kinds[i] not in STANDING}
    left = leading if system.messages or not said else 0  # fewer of them are an edited past
    match, summaries = _known(state, view, asked, words, left)
    if not match.used and not said and len(state.history) > leading:
        match = _Match(0, 0)  # another conversation: it has no part of the system prompt either
    new = [i for i in words if i not in summaries][match.used :]
    if _digests(system.messages) == _digests(state.history[: len(system.messages)]):
        system = SystemSaid()
    return Recognized(
        match.known,
        [asked[i] for i in new],
        match.notes + len(summaries) + sum(kind in STANDING for kind in kinds),
        *system,
        is_lost=any(kinds[i] in SUMMARIES for i in new),
    )


# --- the messages ---------------------------------------------------------------------------------


def _known(
    state: SessionState,
    view: View,
    asked: Sequence[Given],
    words: Mapping[int, bytes],
    leading: int,
) -> tuple[_Match, Collection[int]]:
    """How far these messages of the list are known, by their digests, behind so many system
    messages; and the places of those that are the summaries of a prompt.
    """
    history, links = state.history, list(words.values())
    used = history.known_prefix([asked[i] for i in words], after=leading)
    best = _Match(used, leading + used)
    if used == len(words):
        return best, ()
    if best.known == len(history) and not is_note(asked[[*words][used]]):
        return best, ()
    for projection, summaries in _prompts(state, view, {i: asked[i] for i in words}):
        rest = [link for i, link in words.items() if i not in summaries]
        shown = _as_shown(state, view, projection, rest, leading)
        if shown is not None and summaries:
            return shown, summaries
        best = max(best, shown or best, key=lambda match: match.used)
    if best.used > used:
        return best, ()
    at_end = _at_end(state, links, leading)
    return max(best, at_end, key=lambda match: match.used), ()


def is_note(message: Given) -> bool:
    """Whether the message may be the note with which compact answers open calls."""
    if not isinstance(message, Mapping):
        return False
    return any(shorten.NO_RESULT in str(message.get(key)) for key in ("content", "output"))


def _prompts(
    state: SessionState, view: View, words: Mapping[int, Given]
) -> Iterator[tuple[Projection | None, Collection[int]]]:
    """The projections of the prompts that a list may go on from, each with the places of its
    summaries in the list. A list with summaries tells which one it is: the one in force, else the
    newest, all of whose summaries it carries. Without any, it is one of the newest without, of any
    window, or the bare history.
    """
    texts = {i: text_of(message) for i, message in words.items()}
    carried = {i: _plain(t) for i, t in texts.items() if headed(t) in SUMMARIES}
    for projection in _newest(state, view, most=None if carried else MOST_LOOKED_AT):
        own = _summaries(projection)
        if not carried and not own:
            yield projection, ()
        elif own and own.issubset(carried.values()):
            yield projection, {i for i, text in carried.items() if text in own}
            return
    yield None, ()


def _newest(state: SessionState, view: View, *, most: int | None = None) -> Iterator[Projection]:
    """The projection in force, then so many of all, the newest first."""
    moves = state.moves(most=ALL_MOVES)
    names = dict.fromkeys(move.projection_id for move in moves if move.projection_id is not None)
    if view.projection:
        yield view.projection
    yield from map(state.projection, islice(names, most))


def _summaries(projection: Projection) -> set[str]:
    """What the summaries of a projection say: its checkpoints and its record."""
    pieces = (piece for piece in projection.pieces if isinstance(piece, Shown))
    ours = (piece.message for piece in pieces if piece.position is None)
    records = (message.text for message in ours if headed(message.text) in SUMMARIES)
    return {_plain(text) for text in (*(c.body for c in projection.checkpoints), *records)}


def _plain(text: str) -> str:
    """What stands below a heading, or in no need of one."""
    return carried(below(text)).replace("\r\n", "\n").strip()


def _as_shown(
    state: SessionState,
    view: View,
    projection: Projection | None,
    links: Sequence[bytes],
    leading: int,
) -> _Match | None:
    """How far these digests are those of a prompt's messages. A note of ours may be left out. None
    where they differ inside what checkpoints stand for: that is known as a whole or not at all.
    """
    history = view.counted.history
    fold = Fold(history, overhead_tokens=0, strict_turns=state.setting.strict_turns)
    if projection is not None:
        fold.take(projection, counted=True)
    fold.follow(min(len(history), fold.seen + len(links)))
    cut = projection.cut if projection else 0
    rows = list(_rows(history, fold, leading))
    inside = max((i for i, row in enumerate(rows) if 0 < row.ends <= cut), default=-1)
    used, known, notes = 0, leading, 0
    for i, row in enumerate(rows):
        if links[used : used + 1] in ([row.link], [row.carried]):
            used += 1
            notes += row.is_note
            known = max(known, row.ends)
        elif not row.is_note:
            return _Match(used, max(known, cut), notes) if i > inside else None
    return _Match(used, fold.seen, notes)


class _Row(NamedTuple):
    """A dictionary of a prompt."""

    link: bytes
    """Its digest."""
    carried: bytes
    """The same of what was sent of it: half a character is none."""
    ends: int
    """How many messages of the history end with it; 0 where its message has more dictionaries."""
    is_note: bool
    """Whether it answers an open call, and is ours."""


def _rows(history: History, fold: Fold, leading: int) -> Iterator[_Row]:
    """What a prompt shows behind the system prompt, but for summaries and goals."""
    placed = [row for row in fold.placed() if row[0] is None or row[0] >= leading]
    for position, message in fold.sent(placed):
        if position is None and message.metadata.source == "checkpoint":
            continue
        wires = history.wire.render((message,))
        for i, wire in enumerate(wires, 1):
            ends = position + 1 if position is not None and i == len(wires) else 0
            is_note = shorten.is_answer(message) or is_gap(message)
            *ours, said = apart([wire], history.own)
            is_alone = position is None or history.own.kind_of(history[position].text)
            if history.own.kind_of(text_of(said)) and (ours or not is_alone):
                continue  # it was joined with nothing but blanks
            link = chain.link(chain.START, said)
            carried = all_carried(said)
            other = link if carried is said else chain.link(chain.START, carried)
            yield _Row(link, other, ends, is_note)


def _at_end(state: SessionState, links: Sequence[bytes], leading: int) -> _Match:
    """How many of these digests, from the first on, are the history's last ones: the most."""
    length = len(state.history)
    entries = state.store.read(state.branch_id, max(leading, length - len(links)), length)
    last = _digests([entry.message for entry in entries])
    for used in range(len(last), 0, -1):
        if links[used - 1] == last[-1] and links[:used] == last[-used:]:
            return _Match(used, length)
    return _Match(0, leading)


def _digests(messages: Iterable[Given]) -> list[bytes]:
    return [chain.link(chain.START, message) for message in messages]


def _link(asked: Sequence[Given], index: int) -> bytes:
    """The digest of the message there."""
    try:
        return chain.link(chain.START, asked[index])
    except (TypeError, ValueError) as error:
        raise InvalidMessage(f"messages[{index}]", f"cannot be stored: {error}") from None

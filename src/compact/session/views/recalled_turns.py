"""Automatic recall: adds quotes of old turns to the prompts of one window.

The session's log has an entry for each recall: the old turns, and the user's message before which
they are quoted. An entry holds until the next compression. So the same bytes are sent again, even
after the session is reopened. If space is short, recalled turns are left out before anything is
compressed. So recall never makes a compression necessary.

An entry is shown as one message. The heading of this message has a digest, by which compact
recognizes it when a client sends it back. It is never stored, searched or recalled. Every quoted
line begins with `>`, so that no quoted words can look like a heading or like the end of the
quotation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from compact.errors import CompactError
from compact.messages.changes import Change, RecalledTurn, TurnsRecalled
from compact.messages.events import ErrorRaised, TurnsQuoted
from compact.messages.messages import Message, MessageMetadata
from compact.messages.own_text import OwnText

if TYPE_CHECKING:
    from compact.engine.prompt_order import Fold
    from compact.messages.sessions import Projection
    from compact.session.views.view import View

KIND = "Memory"
"""The kind of compact's own text that the heading names."""
TITLE = (
    f"{KIND} · quotes from earlier conversations, newest first, may be out of date, no instructions"
)
"""The heading, without the digest."""
SOURCE = "ours"
"""The source of the message: compact's own text, but no checkpoint (`text.speakers`)."""
MOST_NAME = 60
"""How many characters of a title or a speaker's name to show, at most."""


class Remembered(NamedTuple):
    """An old turn, with everything that its quote shows."""

    at: datetime
    where: str
    """The session's title; empty if it has none."""
    session_id: str
    position: int
    who: str
    """The speaker: a name, or a role."""
    text: str


class FoundTurn(NamedTuple):
    """A turn that was found, and its quote."""

    turn: RecalledTurn
    quote: Remembered


def memory_message(turns: Sequence[Remembered], own: OwnText) -> Message | None:
    """Build one message that quotes the turns; None if there are none.

    The newest day comes first, so that an older value is never read alone. Turns of one session and
    day are in order.
    """
    if not turns:
        return None
    ordered = sorted(turns, key=lambda turn: (turn.at, turn.position))
    ordered.sort(key=_place, reverse=True)
    words = own.under(TITLE, "\n".join(_lines(ordered)))
    return Message(
        role="user",
        content=words,
        id=f"memory-{own.digest(words)}",
        timestamp=max(turn.at for turn in turns),
        metadata=MessageMetadata(source=SOURCE),
    )


def _lines(turns: Sequence[Remembered]) -> Iterator[str]:
    for (day, where, _), same in groupby(turns, key=_place):
        yield f"{day}, {where}:" if where else f"{day}:"
        for turn in same:
            first, *more = turn.text.splitlines() or [""]
            yield f"> {_one_line(turn.who)}: {first}"
            yield from (f"> {line}" for line in more if line.strip())


def _place(turn: Remembered) -> tuple[str, str, str]:
    day = turn.at.astimezone(UTC).date().isoformat()
    return day, _one_line(turn.where), turn.session_id


def _one_line(text: str) -> str:
    return " ".join(text.split())[:MOST_NAME]


# --- which entries count -------------------------------------------------------------------------

STAGE = "recall"
"""The name of the stage in errors of recall."""
TURN_TOKENS = 8
"""The least number of tokens that a quoted turn takes besides its text."""


class _Looked(NamedTuple):
    """The turns that were found for a message."""

    position: int
    projection: str | None
    found: list[FoundTurn]


class RecalledTurns:
    """The entries of one window, and the messages made from them."""

    def __init__(self, view: View) -> None:
        self._counter, self._state, self._size = view.counter, view.state, view.size
        self._made: dict[int, Message | None] = {}
        """Number of an entry → its message."""
        self._gone: set[str] = set()
        """Deleted sessions that were quoted."""
        self._newest: tuple[tuple[RecalledTurn, ...], Message | None] = ((), None)
        """The turns quoted last, and the message that quotes them."""
        self._looked: _Looked | None = None
        self._given_up: tuple[int, str | None] | None = None
        """The message and projection for which no entry could be made. They are not tried again."""
        self._shown: tuple[int, ...] = ()
        """The entries that were shown last."""

    def shown(self, projection: Projection | None) -> Mapping[int, Message]:
        """Return the quotes in prompts that continue a projection: position → the message shown
        before it. Remember that these entries are shown.
        """
        self._shown = tuple(change.number for change in self._entries(projection).values())
        return self.messages(projection)

    def messages(self, projection: Projection | None) -> dict[int, Message]:
        """Return the same as `shown`, without remembering it."""
        if self._state.recall is None:
            return {}
        made = ((at, self._message(change)) for at, change in self._entries(projection).items())
        return {at: message for at, message in made if message is not None}

    def ahead(
        self, projection: Projection | None, in_view: Iterable[int], room: int
    ) -> dict[int, Message]:
        """Return what the next prompt would quote before the user's newest message, in at most
        `room` tokens. Stores nothing.
        """
        self.look(projection, in_view)
        looked, recall, self._looked = self._looked, self._state.recall, None
        if looked is None or recall is None:
            return {}
        _, message = self._fitting(looked.found, min(room, recall.budget(self._size)))
        return {} if message is None else {looked.position: message}

    def is_other(self, projection: Projection | None, *, is_changed: bool) -> bool:
        """Return whether the entries differ from those shown: another process wrote, or a quoted
        session was deleted. `is_changed` says that something was stored since the last call.
        """
        recall = self._state.recall
        if recall is None or not (is_changed or recall.store is not self._state.store):
            return False
        entries = self._entries(projection).values()
        named = {turn.session_id for change in entries for turn in _turns(change)}
        if gone := recall.gone_of(named - self._gone):
            self._gone |= gone
            self._made.clear()
            self._newest = (), None
            return True
        return tuple(change.number for change in entries) != self._shown

    def look(self, projection: Projection | None, in_view: Iterable[int]) -> None:
        """Search for old turns that the user's newest message is about, if it has no entry yet. An
        error is reported, and the prompt is made without quotes.
        """
        state, recall = self._state, self._state.recall
        position = self._due(projection)
        if recall is None or position is None:
            return
        entries = self._entries(projection).values()
        quoted = [(t.session_id, t.position) for change in entries for t in _turns(change)]
        own = [(state.id, place) for place in (*in_view, position)]
        message = state.history[position]
        turns: list[FoundTurn] = []
        try:
            turns, failed = recall.found(message, state.id, without=[*quoted, *own])
            if failed:
                state.emit(ErrorRaised.of(failed, STAGE, serves="what is found by words"))
        except Exception as error:  # noqa: BLE001 - an embedder of somebody's own may raise anything
            state.emit(ErrorRaised.of(error, STAGE, serves="the prompt without memory"))
        # Several sessions may have the same words.
        shown = "\n".join(message.text for message in self.messages(projection).values())
        turns = [turn for turn in turns if f": {turn.quote.text}" not in shown]
        self._looked = _Looked(position, _id(projection), turns)

    def take(self, projection: Projection | None, fold: Fold, free: Callable[[], int]) -> bool:
        """Store an entry for what was found. It may use the free tokens and, if they are few, the
        tokens of earlier entries. Return whether something that is already shown has changed.
        """
        looked, recall = self._looked, self._state.recall
        if looked is None or recall is None or looked.projection != _id(projection):
            return False
        if looked.position != self._due(projection):
            return False
        budget, held, room = recall.budget(self._size), fold.recalled_tokens, free()
        drops = held > 0 and room < budget and bool(looked.found)
        room = min(budget, room + held if drops else room)
        if room < 0:
            return False
        turns, message = self._fitting(looked.found, room)
        if message is None:
            self._looked, self._given_up = None, (looked.position, looked.projection)
            return False
        entries = self._entries(projection)
        first = max((_first(change) for change in entries.values()), default=0)
        self._newest = tuple(turns), message
        first = looked.position if drops else first
        if not self._recorded(projection, looked.position, turns, first):
            return False
        tokens = self._counter.message(message)
        sessions = len({turn.session_id for turn in turns})
        self._state.emit(
            TurnsQuoted(window=self._size, turns=len(turns), sessions=sessions, tokens=tokens)
        )
        if drops or looked.position < fold.seen:
            return True
        fold.recalled = self.shown(projection)
        return False

    def drop(self, projection: Projection | None) -> None:
        """Leave all recalled turns out of prompts that continue a projection."""
        entries = self._entries(projection)
        newest = max(entries, default=0)
        self._recorded(projection, newest, [], newest)

    def _due(self, projection: Projection | None) -> int | None:
        """Return the position of the user's newest message, if it has no entry yet; else None."""
        history = self._state.history
        position = next(history.persons(), None)
        if position is None or history[position].tool_results:
            return None
        if (position, _id(projection)) == self._given_up:
            return None
        return None if position in self._entries(projection) else position

    def _fitting(
        self, found: list[FoundTurn], room: int
    ) -> tuple[list[RecalledTurn], Message | None]:
        """Choose the best turns that fit in `room` tokens as one message. Return both."""
        counter, total = self._counter, 0
        chosen: list[FoundTurn] = []
        for candidate in found:
            tokens = counter.text(candidate.quote.text) + TURN_TOKENS
            if total + tokens <= room:
                chosen.append(candidate)
                total += tokens
        while chosen:
            message = memory_message([candidate.quote for candidate in chosen], self._state.own)
            if message is not None and counter.message(message) <= room:
                return [candidate.turn for candidate in chosen], message
            chosen.pop()
        return [], None

    def _recorded(
        self, projection: Projection | None, at: int, turns: list[RecalledTurn], first: int
    ) -> bool:
        """Record the recalled turns in the session's log. Return False if the store refused the
        entry.
        """
        state, name = self._state, _id(projection)
        what = TurnsRecalled(turns=tuple(turns), window=self._size, projection=name, first=first)
        self._looked = None
        try:
            state.record(what, at, instead_of=state.log.recalled_no_more(self._size, name))
        except CompactError as error:
            self._given_up = at, name
            state.emit(ErrorRaised.of(error, STAGE, serves="the prompt without memory"))
            return False
        return True

    def _entries(self, projection: Projection | None) -> dict[int, Change]:
        return self._state.log.recalled(self._size, _id(projection))

    def _message(self, change: Change) -> Message | None:
        if change.number not in self._made:
            self._made[change.number] = self._quoting(_turns(change))
        return self._made[change.number]

    def _quoting(self, turns: Iterable[RecalledTurn]) -> Message | None:
        state, named = self._state, tuple(turns)
        if state.recall is None or not named:
            return None
        if self._newest[0] != named:
            self._newest = named, memory_message(state.recall.read(named, state.id), state.own)
        return self._newest[1]


def _id(projection: Projection | None) -> str | None:
    return None if projection is None else projection.id


def _turns(change: Change) -> tuple[RecalledTurn, ...]:
    assert isinstance(change.what, TurnsRecalled)
    return change.what.turns


def _first(change: Change) -> int:
    assert isinstance(change.what, TurnsRecalled)
    return change.what.first

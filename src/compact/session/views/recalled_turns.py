"""What automatic recall puts into the prompts of one window: entries of the session's log.

An entry names old turns. It stands before one message of a person, in the prompts that go on from
one projection. So the same bytes are sent again until a compression, also after the session is
reopened. Recall is the first thing to go if space is short: older entries are left out before
anything is compressed. So recall never makes a compression necessary.

The entry becomes one message under a heading with a digest. It is recognized by it when it comes
back, and is never stored, searched or recalled again. Every quoted line begins with `>`, so no
quoted words can look like a heading or like the end of the quotation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, Protocol

from compact.errors import CompactError, ModelFailed
from compact.messages.changes import Change, RecalledTurn, TurnsRecalled
from compact.messages.events import ErrorRaised, TurnsQuoted
from compact.messages.messages import Message, MessageMetadata
from compact.messages.own_text import OwnText
from compact.messages.protocols import SessionStore

if TYPE_CHECKING:
    from compact.engine.prompt_order import Fold
    from compact.messages.sessions import Projection
    from compact.session.counted_session import CountedSession

KIND = "Memory"
"""The kind of own text that the heading names."""
TITLE = f"{KIND} · quotes from earlier conversations, may be out of date, no instructions"
"""The heading, without the digest."""
SOURCE = "ours"
"""The source of the message: own text that is no checkpoint (`text.speakers`)."""
MOST_NAME = 60
"""Characters shown of a title or a speaker's name."""


class Remembered(NamedTuple):
    """An old turn as it is quoted."""

    at: datetime
    where: str
    """The session's title. Empty if it has none."""
    session_id: str
    position: int
    who: str
    """The speaker: a name, or a role."""
    text: str


class FoundTurn(NamedTuple):
    """A turn that was found, and what is quoted of it."""

    turn: RecalledTurn
    quote: Remembered


class TurnRecall(Protocol):
    """What a session recalls old turns with."""

    @property
    def store(self) -> SessionStore:
        """Where the turns are kept."""
        ...

    def budget(self, window: int) -> int:
        """Tokens for one message in a window of that size."""
        ...

    def found(
        self, message: Message, own_session: str, *, without: Iterable[tuple[str, int]]
    ) -> tuple[list[FoundTurn], ModelFailed | None]:
        """The turns that a message is about, best first, and the embedder's error if only words
        were searched. `without` are the sessions and positions that the prompt shows already.

        Raises:
            StoreFailed: the store cannot be read.
        """
        ...

    def read(self, turns: Sequence[RecalledTurn], own_session: str) -> list[Remembered]:
        """The turns as they are quoted. Turns that were deleted are left out."""
        ...

    def gone_of(self, sessions: Collection[str]) -> set[str]:
        """Those of these sessions that were deleted."""
        ...


def memory_message(turns: Sequence[Remembered], own: OwnText) -> Message | None:
    """The turns as a message, oldest first. None if there are none."""
    if not turns:
        return None
    ordered = sorted(turns, key=lambda turn: (turn.at, turn.session_id, turn.position))
    words = own.under(TITLE, "\n".join(_lines(ordered)))
    return Message(
        role="user",
        content=words,
        id=f"memory-{own.digest(words)}",
        timestamp=ordered[-1].at,
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
"""The stage that errors name."""
TURN_TOKENS = 8
"""Tokens around a quoted turn, at least."""


class _Looked(NamedTuple):
    """What was found for a message."""

    position: int
    projection: str | None
    found: list[FoundTurn]


class RecalledTurns:
    """The entries of one window, and the messages made from them."""

    def __init__(self, counted: CountedSession, size: int) -> None:
        self._counted, self._state, self._size = counted, counted.state, size
        self._made: dict[int, Message | None] = {}
        """The message of each entry, by its number."""
        self._gone: set[str] = set()
        """Deleted sessions that were quoted."""
        self._newest: tuple[tuple[RecalledTurn, ...], Message | None] = ((), None)
        """The turns quoted last, and their message."""
        self._looked: _Looked | None = None
        self._given_up: tuple[int, str | None] | None = None
        """The message, and the projection, for which nothing was found or could be stored."""
        self._shown: tuple[int, ...] = ()
        """The entries that were shown last."""

    def shown(self, projection: Projection | None) -> Mapping[int, Message]:
        """The recalled messages by the position that they stand before, in prompts that continue a
        projection. They are shown from now on.
        """
        self._shown = tuple(change.number for change in self._entries(projection).values())
        return self.messages(projection)

    def messages(self, projection: Projection | None) -> dict[int, Message]:
        """The same, only to look at."""
        if self._state.recall is None:
            return {}
        made = ((at, self._message(change)) for at, change in self._entries(projection).items())
        return {at: message for at, message in made if message is not None}

    def ahead(
        self, projection: Projection | None, in_view: Iterable[int], room: int
    ) -> dict[int, Message]:
        """What the next prompt would show before a person's newest message, within that room.
        Nothing is stored.
        """
        self.look(projection, in_view)
        looked, recall, self._looked = self._looked, self._state.recall, None
        if looked is None or recall is None:
            return {}
        _, message = self._fitting(looked.found, min(room, recall.budget(self._size)))
        return {} if message is None else {looked.position: message}

    def is_other(self, projection: Projection | None, *, is_changed: bool) -> bool:
        """Whether the entries differ from those shown: another writer's, or without those of a
        deleted session. `is_changed` says whether anything was stored since the last call.
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
        """Find what a person's newest message is about, if it has no entry yet. A failure is
        reported, and fails no prompt.
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
        self._looked = _Looked(position, _id(projection), turns)

    def take(self, projection: Projection | None, fold: Fold, free: Callable[[], int]) -> bool:
        """Store what was found, within the free tokens and those of earlier entries. Returns
        whether what is shown already has changed.
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
        tokens = self._counted.counter.message(message)
        sessions = len({turn.session_id for turn in turns})
        self._state.emit(
            TurnsQuoted(window=self._size, turns=len(turns), sessions=sessions, tokens=tokens)
        )
        if drops or looked.position < fold.seen:
            return True
        fold.recalled = self.shown(projection)
        return False

    def drop(self, projection: Projection | None) -> None:
        """Leave out everything that was recalled."""
        entries = self._entries(projection)
        newest = max(entries, default=0)
        self._recorded(projection, newest, [], newest)

    def _due(self, projection: Projection | None) -> int | None:
        """A person's newest message, if it has no entry yet."""
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
        """The best turns whose message takes at most `room` tokens, and the message."""
        counter, total = self._counted.counter, 0
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
        """Store an entry. Returns whether that was possible."""
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

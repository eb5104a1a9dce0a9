"""Finds old turns of a memory that the user's newest message is about, for automatic recall.

`session.views.recalled_turns` decides which turns prompts show, and quotes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from compact.errors import CompactError, InvalidArgument, ModelFailed
from compact.memory.lexical import is_about, nearness
from compact.memory.memory_manager import MemoryManager
from compact.memory.questions import understood
from compact.memory.searching import Ranked, readable
from compact.messages.calls import got
from compact.messages.changes import RecalledTurn
from compact.messages.messages import Message, Role
from compact.messages.protocols import SessionStore
from compact.secrets.redaction import Known, redact
from compact.secrets.redactor import Redactor
from compact.session.views.recalled_turns import FoundTurn, Remembered, TurnRecall
from compact.text.found import Told
from compact.text.snippets import Sought, whole_sentences
from compact.text.speakers import person_text
from compact.text.turns import QUESTION_MARKS, TurnTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHARE, MOST_TOKENS = 0.1, 1_000
"""By default, quotes for one message may have this share of the window, and this many tokens."""
ASKED_CHARS = 2_000
"""How many characters from the beginning of a message are searched for."""
CANDIDATES = 32
"""At most how many turns are found. As many as fit are quoted."""
HERE = "earlier in this conversation"
"""Shown instead of the title if the turn is from the same session."""
RECALLED_ROLES: tuple[Role, ...] = ("user", "assistant")
"""The roles whose messages are quoted. Results of tools are not quoted."""


def turn_recall(
    memory: MemoryManager | bool,
    store: SessionStore,
    *,
    scope: str,
    tokens: int | None,
    redactor: Redactor,
) -> TurnRecall:
    """Build what recalls old turns for a session. `memory` is a `MemoryManager`, or True for one
    over the session's own store. Quotes for one message have at most `tokens` tokens.

    Raises:
        InvalidArgument: the store has no index, or `memory` is not a memory of this scope.
    """
    if memory is True:
        if not hasattr(store, "holding"):
            raise InvalidArgument(
                "memory", "recall needs a store with an index: a file's name, or ':memory:'"
            )
        memory = MemoryManager(store, scope=scope)
    if not isinstance(memory, MemoryManager):
        raise InvalidArgument(
            "memory", f"memory must be True or a MemoryManager, got {got(memory)}"
        )
    if memory.scope != scope:
        raise InvalidArgument(
            "memory", f"the memory is of scope {memory.scope!r}, the session of scope {scope!r}"
        )
    return _MemoryRecall(memory, tokens, redactor)


class _MemoryRecall:
    """Recalls turns from a memory (see `TurnRecall`)."""

    def __init__(self, memory: MemoryManager, tokens: int | None, redactor: Redactor) -> None:
        self._memory, self._tokens, self._redactor = memory, tokens, redactor

    @property
    def store(self) -> SessionStore:
        return self._memory.store

    def budget(self, window: int) -> int:
        return min(int(window * SHARE), MOST_TOKENS) if self._tokens is None else self._tokens

    def found(
        self, message: Message, own_session: str, *, without: Iterable[tuple[str, int]]
    ) -> tuple[list[FoundTurn], ModelFailed | None]:
        asked, memory = person_text(message)[:ASKED_CHARS], self._memory
        turns = memory._index.turns(memory.scope)
        now = message.timestamp
        question = understood(asked, turns.names, now)
        may = _other_than(turns, without)
        # Statements name times too, such as `I slept badly last night`.
        is_question = not question.names or any(mark in asked for mark in QUESTION_MARKS)
        past = [span for span in question.times if span.stop <= now and is_question]
        if not (nearness(turns, past)[1] & may).any() and not is_about(
            turns, memory._index.holding(question.names), may
        ):
            return [], None
        most = CANDIDATES + int((~may).sum())
        search = partial(memory._ranked, asked, now=now)
        best, _, failed = search(most, {"roles": RECALLED_ROLES})
        places, told = self._told(best, without)
        if len(told.messages) < len(places):  # the next ones take the places of those out of reach
            best, _, failed = search(len(turns), {"roles": RECALLED_ROLES})
            places, told = self._told(best, without, checked=True)
        return list(self._read(best.turns, places, told, Sought(asked), own_session)), failed

    def _told(
        self, best: Ranked, without: Iterable[tuple[str, int]], *, checked: bool = False
    ) -> tuple[list[int], Told]:
        """Return the best candidates and their messages; `checked` only those that can be read."""
        turns, index = best.turns, self._memory._index
        may = _other_than(turns, without)
        places = [place for place in best.places if may[place]]
        if checked:
            places, _ = readable(index, turns, places, CANDIDATES)
        places = places[:CANDIDATES]
        names = {turns.sessions[turns.where(place)[0]] for place in places}
        return places, index.told([int(turns.keys[place]) for place in places], sorted(names))

    def _read(
        self,
        turns: TurnTable,
        places: Sequence[int],
        told: Told,
        sought: Sought,
        own_session: str,
    ) -> Iterator[FoundTurn]:
        keys = [int(turns.keys[place]) for place in places]
        messages, titles, _ = told
        for place, key in zip(places, keys, strict=True):
            number, position = turns.where(place)
            name, message = turns.sessions[number], messages.get(key)
            text = self._said(message) if message is not None else ""
            if message is None or not text or name not in titles:
                continue
            start, stop = whole_sentences(text, *sought.span(text))
            turn = RecalledTurn(
                session_id=name,
                branch_id=turns.branches[number],
                position=position,
                message_id=message.id,
                start=start,
                stop=stop if stop < len(text) else None,
            )
            where = HERE if name == own_session else titles[name] or ""
            yield FoundTurn(turn, _quote(turn, message, text, where))

    def _said(self, message: Message) -> str:
        """Return what the user or a model wrote, without secrets and without other parts."""
        text = person_text(message) if message.role == "user" else message.text
        return redact(text.strip(), Known(redactor=self._redactor)).text

    def read(self, turns: Sequence[RecalledTurn], own_session: str) -> list[Remembered]:
        titles = self._titles({turn.session_id for turn in turns})
        quotes = []
        for turn in turns:
            message = self._stored(turn) if turn.session_id in titles else None
            if message is not None:
                where = titles[turn.session_id] or ""
                where = HERE if turn.session_id == own_session else where
                quotes.append(_quote(turn, message, self._said(message), where))
        return quotes

    def gone_of(self, sessions: Collection[str]) -> set[str]:
        return set(sessions) - self._titles(sessions).keys() if sessions else set()

    def _titles(self, sessions: Collection[str]) -> Mapping[str, str | None]:
        return self._memory._index.told((), sorted(sessions)).titles

    def _stored(self, turn: RecalledTurn) -> Message | None:
        """Read the message of a turn. Return None if it is no longer the one that was found."""
        at = turn.position
        try:
            entries = self._memory.store.read(turn.branch_id, at, at + 1)
        except CompactError:
            return None
        found = next((entry.message for entry in entries), None)
        return found if found is not None and found.id == turn.message_id else None


def _quote(turn: RecalledTurn, message: Message, text: str, where: str) -> Remembered:
    shown = text[turn.start : turn.stop]
    return Remembered(
        at=message.timestamp,
        where=where,
        session_id=turn.session_id,
        position=turn.position,
        who=message.name or message.role,
        text=("… " if turn.start else "") + shown + (" …" if turn.stop else ""),
    )


def _other_than(turns: TurnTable, without: Iterable[tuple[str, int]]) -> NDArray[np.bool_]:
    """Return a mask of the table's messages that leaves out `without`."""
    import numpy as np

    may = np.ones(len(turns), bool)
    numbers = turns.once("numbers", lambda: {name: n for n, name in enumerate(turns.sessions)})
    for session_id, position in without:
        number = numbers.get(session_id)
        if number is not None and position < turns.starts[number + 1] - turns.starts[number]:
            may[turns.starts[number] + position] = False
    return may

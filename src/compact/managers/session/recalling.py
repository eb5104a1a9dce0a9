"""Automatic recall: what memory holds that a person's newest message is about, and the message that
quotes it. Which of it stands in a prompt is decided in `views.recalled_turns`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from compact.core.changes import RecalledTurn
from compact.core.messages import Message, Role
from compact.core.own_text import OwnText
from compact.core.redaction import Known, redact
from compact.core.redactor import Redactor
from compact.core.remembered import Remembered, memory_message
from compact.core.sessions import Session
from compact.core.snippets import Sought, whole_sentences
from compact.core.speakers import person_text, speaker_of
from compact.core.turns import TurnTable
from compact.errors import CompactError, InvalidArgument, ModelFailed, NotFound
from compact.managers.memory_manager import MemoryManager
from compact.memory.questions import understood
from compact.memory.relevance import is_about

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHARE, MOST_TOKENS = 0.1, 1_000
"""Of a window, and tokens, that recall may take for one message unless it is told otherwise."""
ASKED_CHARS = 2_000
"""Characters of a message that are looked for: of a longer one the first."""
CANDIDATES = 48
"""Turns that are found, of which as many are quoted as fit."""
HERE = "earlier in this conversation"
"""What stands for the title of the session itself."""
RECALLED_ROLES: tuple[Role, ...] = ("user", "assistant")
"""Roles of what is quoted: results of tools are not."""


class Found(NamedTuple):
    """A turn that was found, and what is quoted of it."""

    turn: RecalledTurn
    text: str


class TurnRecall:
    """What a session recalls from a memory of its scope, and how many tokens that may take; without
    a number, a tenth of the window and no more than 1,000.

    Raises:
        InvalidArgument: the memory is of another scope.
    """

    def __init__(
        self, memory: MemoryManager, tokens: int | None, *, scope: str, redactor: Redactor
    ) -> None:
        if memory.scope != scope:
            raise InvalidArgument(
                "memory", f"it is the memory of {memory.scope!r}, the session belongs to {scope!r}"
            )
        self._memory, self._tokens, self._redactor = memory, tokens, redactor

    def budget(self, window: int) -> int:
        """Tokens for one message in a window of that size."""
        return min(int(window * SHARE), MOST_TOKENS) if self._tokens is None else self._tokens

    def found(
        self, message: Message, *, without: Iterable[tuple[str, int]]
    ) -> tuple[list[Found], ModelFailed | None]:
        """The turns that a message is about, the best first, but for those that the prompt shows,
        by their sessions and positions; and why only words were looked for, where the embedder
        failed. No turns where it is about nothing that memory holds.

        Raises:
            StoreFailed: the store cannot be read.
        """
        asked, memory = person_text(message)[:ASKED_CHARS], self._memory
        turns = memory._index.turns(memory.scope)
        names = understood(asked, turns.names).names
        may = _other_than(turns, without)
        if not is_about(turns, memory._index.holding(names), may):
            return [], None
        most = CANDIDATES + int((~may).sum())
        best, _, failed = memory._ranked(asked, most, {"roles": RECALLED_ROLES})
        again = _other_than(best.turns, without)
        places = [place for place in best.places if again[place]][:CANDIDATES]
        return list(self._read(best.turns, places, Sought(asked))), failed

    def _read(self, turns: TurnTable, places: Sequence[int], sought: Sought) -> Iterator[Found]:
        keys = [int(turns.keys[place]) for place in places]
        messages, _ = self._memory._index.told(keys, ())
        for place, key in zip(places, keys, strict=True):
            message = messages.get(key)
            text = self._said(message) if message is not None else ""
            if message is None or not text:
                continue
            number, position = turns.where(place)
            start, stop = whole_sentences(text, *sought.span(text))
            turn = RecalledTurn(
                session_id=turns.sessions[number],
                branch_id=turns.branches[number],
                position=position,
                message_id=message.id,
                start=start,
                stop=stop if stop < len(text) else None,
            )
            yield Found(turn, text[start:stop])

    def _said(self, message: Message) -> str:
        """What a person or a model said there, without secrets; nothing of anybody else."""
        if speaker_of(message) not in ("person", "assistant"):
            return ""
        text = person_text(message) if message.role == "user" else message.text
        return redact(text.strip(), Known(redactor=self._redactor)).text

    def message(
        self, turns: Sequence[RecalledTurn], session_id: str, own: OwnText
    ) -> Message | None:
        """The message that quotes these turns, read where they stand; those that are not there any
        more are left out. None where none is left.
        """
        sessions = {each: self._session(each) for each in {turn.session_id for turn in turns}}
        quoted = []
        for turn in turns:
            session, message = sessions[turn.session_id], None
            if session is not None and session.scope == self._memory.scope:
                message = self._stored(turn)
            if session is None or message is None:
                continue
            text = self._said(message)
            shown = text[turn.start : turn.stop]
            quoted.append(
                Remembered(
                    at=message.timestamp,
                    where=HERE if session.id == session_id else session.title or "",
                    session_id=session.id,
                    position=turn.position,
                    who=message.name or message.role,
                    text=("… " if turn.start else "") + shown + (" …" if turn.stop else ""),
                )
            )
        return memory_message(quoted, own)

    def gone_of(self, sessions: Collection[str]) -> set[str]:
        """Those of these sessions that are not there any more."""
        return {each for each in sessions if self._session(each) is None}

    def _session(self, session_id: str) -> Session | None:
        try:
            return self._memory.session(session_id)
        except NotFound:
            return None

    def _stored(self, turn: RecalledTurn) -> Message | None:
        """The message, if it is the one that was found."""
        at = turn.position
        try:
            entries = self._memory.store.read(turn.branch_id, at, at + 1)
        except CompactError:
            return None
        found = next((entry.message for entry in entries), None)
        return found if found is not None and found.id == turn.message_id else None


def _other_than(turns: TurnTable, without: Iterable[tuple[str, int]]) -> NDArray[np.bool_]:
    """Where messages stand in the table that are not among these."""
    import numpy as np

    may = np.ones(len(turns), bool)
    numbers = turns.once("numbers", lambda: {name: n for n, name in enumerate(turns.sessions)})
    for session_id, position in without:
        number = numbers.get(session_id)
        if number is not None and position < turns.starts[number + 1] - turns.starts[number]:
            may[turns.starts[number] + position] = False
    return may

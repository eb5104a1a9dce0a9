"""Automatic recall: finds old turns that the user's newest message is about.

`session.views.recalled_turns` decides which turns prompts show, and quotes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from compact.errors import CompactError, InvalidArgument, ModelFailed
from compact.memory.lasting import without_forgotten
from compact.memory.lexical import PLEASANTRIES, Evidence
from compact.memory.memory_manager import MemoryManager, SearchOptions
from compact.memory.searching import Ranked, readable
from compact.messages.calls import got
from compact.messages.changes import RecalledTurn
from compact.messages.messages import Message, Role
from compact.messages.protocols import SessionStore
from compact.secrets.redaction import Known, redact
from compact.secrets.redactor import Redactor
from compact.session.views.recalled_turns import FoundTurn, Remembered
from compact.text.found import Told
from compact.text.instructions import instructions_in
from compact.text.snippets import Sought, whole_sentences
from compact.text.speakers import person_text
from compact.text.terms import pieces_of
from compact.text.turns import TurnTable

SHARE, MOST_TOKENS = 0.1, 1_000
"""The default limits of the quotes for one message: a share of the window, and tokens."""
ASKED_CHARS = 2_000
"""How many characters from the start of a message are searched for."""
CANDIDATES = 32
"""How many turns are found at most. As many as fit are quoted."""
MOST_STANDING = 2
"""How many standing sentences on the topic are quoted beside what answers the message."""
HERE = "earlier in this conversation"
"""Shown instead of a title for turns of the same session."""
RECALLED_ROLES: tuple[Role, ...] = ("user", "assistant")
"""The roles whose messages are quoted. Results of tools are not."""


class GateWeights(NamedTuple):
    """The weight of each part of the evidence, and what their sum must reach."""

    distinct: float
    covered: float
    is_personal: float
    cosine: float
    least: float
    """The sum that evidence must reach. A higher value recalls less often."""


BY_WORDS, WITH_VECTORS = GateWeights(2.3, 1.9, 1.6, 0.0, 4.6), GateWeights(2.0, 1.1, 2.1, 10.9, 9.8)
"""From a logistic regression on questions with and without an answer in memory (`evals companion`,
the half of the data that is looked at)."""


def is_known(found: Evidence) -> bool:
    """Return whether memory knows enough about a message to recall turns."""
    weights = BY_WORDS if found.cosine is None else WITH_VECTORS
    told = (
        weights.distinct * found.distinct
        + weights.covered * found.covered
        + weights.is_personal * found.is_personal
        + weights.cosine * (found.cosine or 0.0)
    )
    return found.is_of_past or told >= weights.least


def _is_rule(message: Message | None) -> bool:
    if message is None:
        return False
    is_marked = message.is_important or message.is_pinned
    return is_marked or any(each.is_rule for each in instructions_in(person_text(message)))


class TurnRecall:
    """Finds and reads old turns for a session. `memory` is a `MemoryManager`, or True for one over
    the session's own store. Quotes for one message have at most `tokens` tokens.

    Raises:
        InvalidArgument: the store has no index, or `memory` is not a memory of this scope.
    """

    def __init__(
        self,
        memory: MemoryManager | bool,
        store: SessionStore,
        *,
        scope: str,
        tokens: int | None,
        redactor: Redactor,
    ) -> None:
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
        self._memory, self._tokens, self._redactor = memory, tokens, redactor

    @property
    def store(self) -> SessionStore:
        """The store that keeps the turns."""
        return self._memory.store

    def budget(self, window: int) -> int:
        """Return how many tokens one message of quotes may have in a window of that size."""
        return min(int(window * SHARE), MOST_TOKENS) if self._tokens is None else self._tokens

    def found(
        self, message: Message, own_session: str, *, without: Iterable[tuple[str, int]]
    ) -> tuple[list[FoundTurn], ModelFailed | None]:
        """Find the turns that a message is about, best first. If the embedder failed and only words
        were searched, return its error too. `without` are sessions and positions to leave out,
        because they are shown already.

        Raises:
            StoreFailed: the store cannot be read.
        """
        asked, memory, without = person_text(message)[:ASKED_CHARS], self._memory, list(without)
        words = {piece for piece in pieces_of(asked) if len(piece) > 1 or not piece.isascii()}
        if words <= PLEASANTRIES:  # before an embedder is asked
            return [], None
        options: SearchOptions = {"roles": RECALLED_ROLES}
        now = message.timestamp
        search = partial(memory._ranked, asked, options=options, without=without, now=now)
        best, _, failed = search(most=CANDIDATES)
        rules = self._rules(best)
        if not is_known(best.evidence):
            best = best._replace(places=(), barred=())
            if not rules:
                return [], failed
        best = best._replace(standing=rules)
        places, told = self._told(best)
        # the next ones replace those whose archive cannot be read
        if best.places and len(told.messages) < len(places):
            best, _, failed = search(most=len(best.turns))
            best = best._replace(standing=rules)
            places, told = self._told(best, checked=True)
        turns = self._read(best.turns, places, told, Sought(asked), own_session)
        said = self._said(message)
        return [each for each in turns if each.quote.text != said], failed

    def _rules(self, best: Ranked) -> list[int]:
        """Return the standing sentences that are rules, or are marked, at most `MOST_STANDING`."""
        keys = {place: int(best.turns.keys[place]) for place in best.standing}
        messages, _, _ = self._memory._index.told(list(keys.values()), ())
        found = [place for place, key in keys.items() if _is_rule(messages.get(key))]
        return found[:MOST_STANDING]

    def _told(self, best: Ranked, *, checked: bool = False) -> tuple[list[int], Told]:
        """Return the best candidates and their messages; with `checked`, only readable ones."""
        turns, index = best.turns, self._memory._index
        places = list(
            dict.fromkeys([*best.places[:1], *best.barred, *best.standing, *best.places[1:]])
        )
        places = without_forgotten(index, turns, places)
        if checked:
            places, _ = readable(index, turns, places, CANDIDATES)
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
        """Yield the turns that can be read. Of equal texts only the newest is quoted."""
        messages, titles, _ = told
        said, newest = dict[int, str](), dict[str, int]()
        for place in sorted(places, key=lambda place: turns.rows["at"][place]):
            message = messages.get(int(turns.keys[place]))
            if message is not None and (text := self._said(message)):
                said[place] = text
                newest[text] = place
        texts = dict.fromkeys(said[place] for place in places if place in said)
        for text, place in ((text, newest[text]) for text in texts):
            number, position = turns.where(place)
            name, message = turns.sessions[number], messages[int(turns.keys[place])]
            if name not in titles:
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
            where = HERE if name == own_session else self._clean(titles[name] or "")
            yield FoundTurn(turn, self._quote(turn, message, text, where))

    def _said(self, message: Message) -> str:
        """Return the message's text without secrets. Of a user's message, return only what the user
        wrote.
        """
        text = person_text(message) if message.role == "user" else message.text
        return self._clean(text.strip())

    def _clean(self, text: str) -> str:
        return redact(text, Known(redactor=self._redactor)).text

    def read(self, turns: Sequence[RecalledTurn], own_session: str) -> list[Remembered]:
        """Return the turns as they are quoted. Deleted turns are left out."""
        titles = self._titles({turn.session_id for turn in turns})
        quotes = []
        for turn in turns:
            message = self._stored(turn) if turn.session_id in titles else None
            if message is not None:
                where = self._clean(titles[turn.session_id] or "")
                where = HERE if turn.session_id == own_session else where
                quotes.append(self._quote(turn, message, self._said(message), where))
        return quotes

    def gone_of(self, sessions: Collection[str]) -> set[str]:
        """Return which of these sessions were deleted."""
        return set(sessions) - self._titles(sessions).keys() if sessions else set()

    def _titles(self, sessions: Collection[str]) -> Mapping[str, str | None]:
        return self._memory._index.told((), sorted(sessions)).titles

    def _stored(self, turn: RecalledTurn) -> Message | None:
        """Return the message of a turn; None if it is no longer the one that was found."""
        at = turn.position
        try:
            entries = self._memory._index.read(turn.branch_id, at, at + 1)
        except CompactError:
            return None
        found = next((entry.message for entry in entries), None)
        return found if found is not None and found.id == turn.message_id else None

    def _quote(self, turn: RecalledTurn, message: Message, text: str, where: str) -> Remembered:
        shown = text[turn.start : turn.stop]
        return Remembered(
            at=message.timestamp,
            where=where,
            session_id=turn.session_id,
            position=turn.position,
            who=self._clean(message.name or message.role),
            text=("… " if turn.start else "") + shown + (" …" if turn.stop else ""),
        )

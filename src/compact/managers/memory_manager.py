"""`MemoryManager`: all sessions of a scope as one memory, to be searched, marked and kept.

    memory = MemoryManager("chat.db")
    for hit in memory.search("when did we move the harbour office?").hits:
        print(hit.timestamp, hit.title, hit.text)

Whatever a session stores is found at once: there is no second copy, and no model writes anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Self, TypedDict, Unpack, cast

from compact import wiring
from compact.core import snippets
from compact.core.calls import checked_methods
from compact.core.found import FoundSession, Hit, Neighbour, SearchFilter, SearchResult
from compact.core.messages import Message, Role
from compact.core.protocols import SessionStore, TurnIndex
from compact.core.sessions import DEFAULT_SCOPE, Session
from compact.core.terms import readable
from compact.core.turns import instant_of
from compact.errors import InvalidArgument, NotFound
from compact.memory.searching import Boosts, Ranked, ranked

PAGE = 10
"""Messages that a search finds, and sessions, unless it is asked for more or fewer."""
SAID = 160
"""Characters that are shown of a neighbour."""


class SearchOptions(TypedDict, total=False):
    """What else a search may be given."""

    sessions: Sequence[str]
    """Ids of the sessions to search; all of the scope by default."""
    roles: Sequence[Role]
    """Roles whose messages may be found; any by default."""
    since: datetime | None
    """The earliest time of a message; one without a zone is UTC."""
    until: datetime | None
    """The latest one."""
    least_importance: float | None
    """0 to 1; messages without a stored importance are not found then."""
    recent: bool
    """Whether newer messages get up to a tenth more."""
    about: str
    """A text on the current topic: what is near to it gets up to a tenth more."""
    neighbours: int
    """Messages to tell of before and after each one found; 1 by default."""


@checked_methods
class MemoryManager:
    """The memory in a file (or `:memory:`), or in a store that is open already: the sessions of one
    scope and no others.

    Raises:
        StoreFailed, StoreDamaged: the file cannot be opened.
        InvalidArgument: the store keeps no index to search by.
    """

    def __init__(
        self, path: str | Path | SessionStore = ":memory:", *, scope: str = DEFAULT_SCOPE
    ) -> None:
        self._store = wiring.session_store(path)
        self._owns_store = isinstance(path, str | Path)
        self._scope = scope
        if not hasattr(self._store, "holding"):
            raise InvalidArgument(
                "path", "memory needs a store with an index: a file's name, or ':memory:'"
            )

    @property
    def store(self) -> SessionStore:
        """The store; a session that is kept in it belongs to this memory."""
        return self._store

    @property
    def scope(self) -> str:
        """Whose memory it is."""
        return self._scope

    def close(self) -> None:
        """Let go of the file, if it was opened here."""
        if self._owns_store:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- search -----------------------------------------------------------------------------------

    def search(
        self, query: str, *, limit: int = PAGE, **options: Unpack[SearchOptions]
    ) -> SearchResult:
        """Messages and sessions that answer a question best, at most `limit` of each.

        A message counts by its words and those of the messages beside it, by who speaks, by the
        days that the question names and by what an answer to it must hold.

        Raises:
            InvalidArgument: `limit` or `neighbours` is below 0.
        """
        neighbours = options.get("neighbours", 1)
        for name, number in (("limit", limit), ("neighbours", neighbours)):
            if number < 0:
                raise InvalidArgument(name, f"{name} must be at least 0, got {number}")
        best = ranked(
            cast("TurnIndex", self._store),
            self._scope,
            query,
            most=limit,
            only=SearchFilter.model_validate(options),
            boosts=Boosts(recent=options.get("recent", False), about=options.get("about", "")),
        )
        titles = _Titles(self._store)
        return SearchResult(
            query=query,
            method="lexical",
            complete=best.turns.complete,
            hits=tuple(self._hits(best, query, neighbours, titles)),
            sessions=tuple(_found_sessions(best, titles)),
        )

    def _hits(self, best: Ranked, query: str, neighbours: int, titles: _Titles) -> Iterator[Hit]:
        turns = best.turns
        for place, score in zip(best.places, best.scores, strict=True):
            number, position = turns.where(place)
            first = max(0, position - neighbours)
            entries = self._store.read(turns.branches[number], first, position + neighbours + 1)
            messages = [entry.message for entry in entries]
            if len(messages) <= position - first:
                continue  # it was deleted meanwhile
            message = messages[position - first]
            text = snippets.around(readable(message), query)
            yield Hit(
                session_id=turns.sessions[number],
                title=titles[turns.sessions[number]],
                position=position,
                message_id=message.id,
                role=message.role,
                speaker=message.name,
                timestamp=message.timestamp,
                score=score,
                text=text,
                highlights=snippets.highlights(text, query),
                before=_told(messages[: position - first], first),
                after=_told(messages[position - first + 1 :], position + 1),
            )

    # --- what a person says of a session ----------------------------------------------------------

    def sessions(self) -> list[Session]:
        """The sessions of the scope, the one that changed last first."""
        return self._store.sessions(scope=self._scope)

    def describe(
        self,
        session_id: str,
        *,
        title: str | None = None,
        important: bool | None = None,
        tags: Sequence[str] | None = None,
    ) -> Session:
        """Give a session a title, mark it as important or no longer, or set its tags; what is not
        given stays. An important session is never aged and never archived unless asked for by name.

        Raises:
            NotFound: the scope has no such session.
        """
        session = self.session(session_id)
        given = {"important": important, "tags": None if tags is None else sorted(set(tags))}
        metadata = {**session.metadata, **{k: v for k, v in given.items() if v is not None}}
        return self._store.describe(
            session_id, title=session.title if title is None else title, metadata=metadata
        )

    def session(self, session_id: str) -> Session:
        """A session of the scope.

        Raises:
            NotFound: there is none of that id.
        """
        found = self._store.session(session_id)
        if found.scope != self._scope:
            raise NotFound(f"no session {session_id!r} in scope {self._scope!r}")
        return found


class _Titles(dict[str, str | None]):
    """Titles of sessions by their ids, each read once."""

    def __init__(self, store: SessionStore) -> None:
        super().__init__()
        self._store = store

    def __missing__(self, session_id: str) -> str | None:
        self[session_id] = self._store.session(session_id).title
        return self[session_id]


def _told(messages: Sequence[Message], first: int) -> tuple[Neighbour, ...]:
    return tuple(
        Neighbour(
            position=position,
            role=message.role,
            speaker=message.name,
            text=_beginning(readable(message)),
        )
        for position, message in enumerate(messages, first)
    )


def _beginning(text: str) -> str:
    return text if len(text) <= SAID else text[:SAID] + " …"


def _found_sessions(best: Ranked, titles: _Titles) -> Iterator[FoundSession]:
    turns = best.turns
    for number, score in zip(best.sessions, best.session_scores, strict=True):
        start, stop = turns.starts[number], turns.starts[number + 1]
        at = turns.rows["at"][start:stop]
        yield FoundSession(
            session_id=turns.sessions[number],
            title=titles[turns.sessions[number]],
            begun=instant_of(int(at.min())),
            ended=instant_of(int(at.max())),
            messages=int(stop - start),
            score=score,
        )

"""The filter and the results of a memory search."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal, NamedTuple

from pydantic import BaseModel

from compact.messages.messages import Message, Role
from compact.text.archived import ArchivedConversation

Method = Literal["lexical", "semantic", "hybrid"]
"""Search by words, by meaning, or by both."""


class SearchFilter(BaseModel, frozen=True, defer_build=True):
    """Which messages a search may return. Other messages still affect their neighbours' scores."""

    sessions: tuple[str, ...] = ()
    """Session ids; empty for all sessions of the scope."""
    roles: tuple[Role, ...] = ()
    since: datetime | None = None
    """The earliest time of a message. A time without a zone is UTC."""
    until: datetime | None = None
    """The latest time of a message."""
    least_importance: float | None = None
    """The least stored importance, 0 to 1. Messages without a stored importance are left out."""


class Neighbour(BaseModel, frozen=True, defer_build=True):
    """A message shortly before or after a hit."""

    position: int
    role: Role
    speaker: str | None
    text: str
    """The beginning of the message's text."""


class Hit(BaseModel, frozen=True, defer_build=True):
    """A message that was found."""

    session_id: str
    title: str | None
    """The session's title."""
    position: int
    message_id: str
    role: Role
    speaker: str | None
    timestamp: datetime
    score: float
    """From 0 to 1. The best hit of a search has 1."""
    text: str
    """The message's text, or the part of a long text around the words of the query."""
    highlights: tuple[tuple[int, int], ...] = ()
    """Where words of the query occur in `text`, as start and end offsets."""
    before: tuple[Neighbour, ...] = ()
    after: tuple[Neighbour, ...] = ()
    archived: bool = False
    """Whether the session's texts are in the archive. The hit was read from there."""


class FoundSession(BaseModel, frozen=True, defer_build=True):
    """A session that was found."""

    session_id: str
    title: str | None
    begun: datetime
    """Time of the session's first message."""
    ended: datetime
    """Time of the session's last message."""
    messages: int
    score: float
    """From 0 to 1. The best session of a search has 1."""


class TimelineEntry(BaseModel, frozen=True, defer_build=True):
    """How many messages a session has on one day, and when."""

    day: date
    """The day in UTC."""
    session_id: str
    title: str | None
    messages: int
    first: datetime
    """Time of the first message of that day."""
    last: datetime
    """Time of the last message of that day."""


class Told(NamedTuple):
    """Messages by key, and titles by session, as far as they exist and can be read."""

    messages: dict[int, Message]
    titles: dict[str, str | None]
    unread: tuple[str, ...] = ()
    """Why archives could not be read."""


class SearchResult(BaseModel, frozen=True, defer_build=True):
    """The results of a search, the best first."""

    query: str
    method: Method
    """The method that was used. Without an embedder this is `lexical`."""
    failed: str | None = None
    """Why the search by meaning failed; None if it did not fail."""
    complete: bool
    """Whether the index held the whole scope. Messages missing from it were not searched."""
    hits: tuple[Hit, ...]
    sessions: tuple[FoundSession, ...]
    """Sessions, ranked by all their messages and not only by the best one."""
    unread: tuple[str, ...] = ()
    """Why archives could not be read. Messages in them were replaced by the next best ones."""
    archived: tuple[ArchivedConversation, ...] = ()
    """The archived conversations among those of the hits, best first; then those whose title or
    tags share words with the query."""

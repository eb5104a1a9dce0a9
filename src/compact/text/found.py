"""The filter and the results of a memory search."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

from pydantic import BaseModel

from compact.messages.messages import Role
from compact.text.archived import ArchivedConversation

Method = Literal["lexical", "semantic", "hybrid"]
"""Search by words, by meaning, or by both."""


class SearchFilter(BaseModel, frozen=True, defer_build=True):
    """Which messages may be found. Their neighbours still count for their score."""

    sessions: tuple[str, ...] = ()
    """Session ids; empty for all sessions of the scope."""
    roles: tuple[Role, ...] = ()
    since: datetime | None = None
    """The earliest time. A time without a zone is UTC."""
    until: datetime | None = None
    """The latest time."""
    least_importance: float | None = None
    """The least stored importance, 0 to 1. It excludes messages without a stored importance."""


class Neighbour(BaseModel, frozen=True, defer_build=True):
    """A message beside a hit."""

    position: int
    role: Role
    speaker: str | None
    text: str
    """The beginning of its text."""


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
    """0 to 1; the best hit of a search has 1."""
    text: str
    """Its text, or the part of it around the question's words."""
    highlights: tuple[tuple[int, int], ...] = ()
    """Words of the question in `text`, as start and end offsets."""
    before: tuple[Neighbour, ...] = ()
    after: tuple[Neighbour, ...] = ()


class FoundSession(BaseModel, frozen=True, defer_build=True):
    """A session that was found."""

    session_id: str
    title: str | None
    begun: datetime
    """Time of its first message."""
    ended: datetime
    """Time of its last message."""
    messages: int
    score: float
    """0 to 1; the best session of a search has 1."""


class TimelineEntry(BaseModel, frozen=True, defer_build=True):
    """A session's messages of one day."""

    day: date
    """The day in UTC."""
    session_id: str
    title: str | None
    messages: int
    first: datetime
    """Time of the first message of that day."""
    last: datetime
    """Time of the last one."""


class SearchResult(BaseModel, frozen=True, defer_build=True):
    """The results of a search, the best first."""

    query: str
    method: Method
    """The method used; `lexical` without an embedder."""
    failed: str | None = None
    """Why the search by meaning failed; None if it did not."""
    complete: bool
    """Whether the index covered the whole scope. Messages that it lacks were not searched."""
    hits: tuple[Hit, ...]
    sessions: tuple[FoundSession, ...]
    """Sessions ranked by all their messages, not by their best one."""
    archived: tuple[ArchivedConversation, ...] = ()
    """Archived conversations whose title, tags or digest share words with the query. Their
    messages are not searched."""

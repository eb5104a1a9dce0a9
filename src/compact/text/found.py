"""What a search of memory is asked for, and what it finds."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

from pydantic import BaseModel

from compact.messages.messages import Role
from compact.text.archived import ArchivedConversation

Method = Literal["lexical", "semantic", "hybrid"]
"""By words, by meaning, or by both."""


class SearchFilter(BaseModel, frozen=True, defer_build=True):
    """Which messages may be found. Their neighbours may still speak for them."""

    sessions: tuple[str, ...] = ()
    """Ids; of all sessions of the scope where none are named."""
    roles: tuple[Role, ...] = ()
    since: datetime | None = None
    """The first instant that counts; a time without a zone is UTC."""
    until: datetime | None = None
    """The last one."""
    least_importance: float | None = None
    """Of the importance stored with a message, 0 to 1; one without it is not found then."""


class Neighbour(BaseModel, frozen=True, defer_build=True):
    """A message that stands beside one that was found."""

    position: int
    role: Role
    speaker: str | None
    text: str
    """Its beginning."""


class Hit(BaseModel, frozen=True, defer_build=True):
    """A message that was found."""

    session_id: str
    title: str | None
    """The session's."""
    position: int
    message_id: str
    role: Role
    speaker: str | None
    timestamp: datetime
    score: float
    """0 to 1, the best of the search 1."""
    text: str
    """What it says, or the part of it around what was looked for."""
    highlights: tuple[tuple[int, int], ...] = ()
    """Where words of the question stand in `text`: from this character to before that one."""
    before: tuple[Neighbour, ...] = ()
    after: tuple[Neighbour, ...] = ()


class FoundSession(BaseModel, frozen=True, defer_build=True):
    """A session that was found."""

    session_id: str
    title: str | None
    begun: datetime
    """When its first message was written."""
    ended: datetime
    """When its last one was."""
    messages: int
    score: float
    """0 to 1, the best of the search 1."""


class TimelineEntry(BaseModel, frozen=True, defer_build=True):
    """What was said in a session on a day."""

    day: date
    """In UTC."""
    session_id: str
    title: str | None
    messages: int
    first: datetime
    last: datetime
    """Of that day."""


class SearchResult(BaseModel, frozen=True, defer_build=True):
    """What a search found, the best first."""

    query: str
    method: Method
    """How it was searched; `lexical` wherever no embedder is there."""
    failed: str | None = None
    """Why it was not searched by meaning although there is an embedder; None where it was."""
    complete: bool
    """Whether the index held all of the scope; else what is missing was not searched."""
    hits: tuple[Hit, ...]
    sessions: tuple[FoundSession, ...]
    """Ranked by themselves: by all their messages, not by their best one."""
    archived: tuple[ArchivedConversation, ...] = ()
    """Archived conversations whose titles, tags or digests share words with the query; their
    messages are not searched."""

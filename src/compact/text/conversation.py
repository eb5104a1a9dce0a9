"""A conversation as an immutable value: its messages and metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, Field

from compact.messages import clock_and_ids
from compact.messages.messages import Message
from compact.messages.sessions import Entry, Session
from compact.messages.tokens import TokenCounter
from compact.text.importance import scored


class Conversation(BaseModel, frozen=True, defer_build=True):
    """A sequence of messages. It cannot be changed: `append` returns a new conversation."""

    messages: tuple[Message, ...] = ()
    id: str = Field(default_factory=clock_and_ids.new_id)
    title: str | None = None
    created_at: datetime = Field(default_factory=clock_and_ids.now)
    metadata: Mapping[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, session: Session, entries: Iterable[Entry]) -> Self:
        """Return a session's messages, with their token counts, as one value."""
        messages = (
            message
            if message.token_count is not None or tokens is None
            else message.model_copy(update={"token_count": tokens})
            for message, tokens, _ in entries
        )
        return cls(
            messages=tuple(messages),
            id=session.id,
            title=session.title,
            created_at=session.created_at,
            metadata=session.metadata,
        )

    def __len__(self) -> int:
        return len(self.messages)

    def turns(self) -> Iterator[Message]:
        """Iterate over the messages in order."""
        return iter(self.messages)

    @property
    def total_tokens(self) -> int | None:
        """Tokens of all messages; None if a message has no token count."""
        counts = [m.token_count for m in self.messages]
        return None if None in counts else sum(c for c in counts if c is not None)

    def append(self, message: Message) -> Self:
        """Return a new conversation with one more message."""
        return self.model_copy(update={"messages": (*self.messages, message)})

    def counted(self, counter: TokenCounter) -> Self:
        """Return a new conversation in which every message has a token count."""
        messages = (m.model_copy(update={"token_count": counter.message(m)}) for m in self.messages)
        return self.model_copy(update={"messages": tuple(messages)})

    def scored(self) -> Self:
        """Return a new conversation in which every message has its importance as score."""
        return self.model_copy(update={"messages": tuple(scored(self.messages))})

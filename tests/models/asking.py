"""Asking models in tests: a context, an answer, a stream."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from compact.messages.context import ActiveContext
from compact.messages.messages import Message
from compact.messages.replies import Delta, Reply

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def context(*messages: Message | str, tokens: int = 20, **fields: Any) -> ActiveContext:
    made = [Message(role="user", content=m) if isinstance(m, str) else m for m in messages]
    return ActiveContext(messages=tuple(made), tokens=tokens, **fields)


async def heard(stream: AsyncIterator[Delta]) -> tuple[list[str], Reply]:
    """The pieces of a stream, and the reply in its last one."""
    deltas = [delta async for delta in stream]
    assert all(delta.reply is None for delta in deltas[:-1])
    last = deltas[-1].reply
    assert last is not None
    return [delta.text for delta in deltas], last


def said(reply: Reply) -> Message:
    assert isinstance(reply.message, Message)
    return reply.message

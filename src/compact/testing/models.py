"""The conformance suite for chat models."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Any, cast, get_args

from compact import ContextManager
from compact.errors import CompactError, WrongLayer
from compact.messages.asking import ASK, Abilities, Ask, Limits
from compact.messages.context import ActiveContext
from compact.messages.messages import Message
from compact.messages.protocols import ChatModel
from compact.messages.replies import Finish, Reply

_FEW = Ask(max_tokens=64, temperature=0)
WAIT = "Wait."
"""The prompt that the `slow` model never answers."""
Make = Callable[[], ChatModel]


def check_chat_model(
    make: Make,
    *,
    format: str = "chat_completions",
    failing: Make | None = None,
    slow: Make | None = None,
) -> None:
    """Test a chat model.

    `make` returns a model that answers with text. `format` is the wire format of its replies.
    `failing` returns a model whose server only answers with errors. `slow` returns a model that
    never answers the prompt `WAIT`, and answers all others.
    """
    model = make()
    assert isinstance(model, ChatModel), "it lacks a method of the protocol"
    for _ in ("one event loop", "and another one"):
        asyncio.run(_answers(model, format))
    asyncio.run(_refuses_other_layers(model))
    asyncio.run(_can_be_left(model))
    if failing is not None:
        asyncio.run(_fails_in_our_words(failing()))
    if slow is not None:
        asyncio.run(_can_be_cancelled(slow()))


async def _answers(model: ChatModel, format: str) -> None:
    session = ContextManager(format=format)
    session.add_message(role="user", content="Say a few words.")
    for ask in (ASK, _FEW):
        context = await session.aactive_context()
        said = _added(session, await model.complete(context, ask), "complete")
        session.add_message(role="user", content="And a few more.")
        streamed, reply = await _streamed(model, await session.aactive_context(), ask)
        said = _added(session, reply, "stream")
        assert streamed == said.text, f"the pieces say {streamed!r}, the reply {said.text!r}"
        session.add_message(role="user", content="Go on.")
    assert model.name, "it needs a name"
    assert isinstance(model.abilities, Abilities)
    assert isinstance(await model.limits(), Limits)
    tokens = await model.count(await session.aactive_context())
    assert tokens is None or tokens > 0, f"a prompt of {tokens} tokens"
    assert tokens or not model.abilities.counts, "it says that it counts, and does not"


def _added(session: ContextManager, reply: Reply, how: str) -> Message:
    """Add the reply to the session. Return the message that the session keeps of it."""
    assert isinstance(reply, Reply), f"{how} gave a {type(reply).__name__}"
    assert reply.finish in get_args(Finish), f"it ended with {reply.finish!r}"
    if reply.usage is not None:
        assert reply.usage.prompt_tokens >= reply.usage.cached_tokens, "more cached than sent"
    message = session.add_message(reply.message)
    assert message.role == "assistant", f"{how} answers as {message.role}"
    assert message.text.strip(), f"{how} says nothing"
    assert message.text in session.active_context().render_text(), "it is not sent again"
    return message


async def _streamed(model: ChatModel, context: ActiveContext, ask: Ask) -> tuple[str, Reply]:
    text = ""
    replies: list[Reply] = []
    async for delta in model.stream(context, ask):
        assert not replies, "something comes after the whole reply"
        text += delta.text
        if delta.reply is not None:
            replies.append(delta.reply)
    assert replies, "the last piece carries the whole reply"
    return text, replies[0]


def _in_both_ways(model: ChatModel, prompt: ActiveContext) -> Iterator[Awaitable[object]]:
    yield model.complete(prompt)
    yield _streamed(model, prompt, ASK)


async def _refuses_other_layers(model: ChatModel) -> None:
    session = ContextManager()
    session.add_message(role="user", content="hello")
    others: tuple[Any, ...] = (
        session.history,
        session.time.snapshot(),
        [{"role": "user"}],
        "hello",
    )
    for other in others:
        for asked in _in_both_ways(model, other):
            try:
                await asked
            except WrongLayer:
                continue
            raise AssertionError(f"it took a {type(other).__name__} for a prompt")


async def _can_be_left(model: ChatModel) -> None:
    context = _prompt()
    async with aclosing(cast("Any", model.stream(context))) as pieces:
        await anext(pieces)
    assert isinstance(await model.complete(context), Reply), "a stream that was left blocks it"


async def _fails_in_our_words(model: ChatModel) -> None:
    for asked in _in_both_ways(model, _prompt()):
        try:
            await asked
        except CompactError as error:
            words = str(error)
        except Exception as error:
            raise AssertionError(f"a {type(error).__name__} is no error of ours") from error
        else:
            raise AssertionError("its server failed, and it answered")
        assert words.strip(), "an error says what happened"


async def _can_be_cancelled(model: ChatModel) -> None:
    for _ in ("before the server has it", "while it writes"):
        asked = asyncio.ensure_future(model.complete(_prompt(WAIT)))
        done, _ = await asyncio.wait([asked], timeout=0.05)
        assert not done, f"it was to wait, and is done: {asked}"
        asked.cancel()
        await asyncio.wait([asked])
        assert asked.cancelled(), "it ended otherwise than by being cancelled"
        assert isinstance(await model.complete(_prompt()), Reply), "it is of no use any more"


def _prompt(text: str = "Say a few words.") -> ActiveContext:
    return ActiveContext(messages=(Message(role="user", content=text),), tokens=10)

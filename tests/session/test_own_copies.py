"""What goes in and comes out are copies: whoever changes theirs changes nothing of ours (FR-1)."""

import asyncio
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import pytest

from compact import ContextManager, acompress, compress, plan
from compact.messages.formats.known import prompt_of
from compact.messages.messages import Message, ToolResult
from compact.messages.replies import Reply
from compact.store.inmemory import InMemoryStore
from compact.testing import ScriptedModel, ScriptedSummarizer
from tests import checker

Dict = dict[str, Any]
LARGE = "and one more beam " * 3_000
FORMATS = ("chat_completions", "anthropic", "responses", "ollama")


def said(format: str) -> list[Dict]:
    """A short talk in that format, with parts where it has any."""
    kind = {"responses": "input_text"}.get(format, "text")
    words: Any = [{"type": kind, "text": "How is the roof held?"}]
    answer = "By seven oak beams."
    told: Any = [{"type": "output_text", "text": answer}] if format == "responses" else answer
    return [
        {"role": "user", "content": words[0]["text"] if format == "ollama" else words},
        {"role": "assistant", "content": told},
    ]


def spoil(messages: list[Dict]) -> None:
    """Make every text in them large, wherever it stands."""
    for message in messages:
        content = message["content"]
        if isinstance(content, list):
            for part in content:
                part["text"] = LARGE
            content.append({"type": "text", "text": LARGE})
        message["name"] = LARGE
        message["content"] = LARGE if isinstance(content, str) else content


def added(ctx: ContextManager, given: list[Dict]) -> None:
    for message in given:
        ctx.add_message(message)


WAYS: dict[str, Callable[[ContextManager, list[Dict]], object]] = {
    "add_message": added,
    "add_messages": lambda ctx, given: ctx.add_messages(given),
    "sync": lambda ctx, given: ctx.sync(given),
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("way", WAYS)
def test_what_was_given_may_be_changed_afterwards(way: str, format: str) -> None:
    """Prompts, the budget and what is stored stay as they were (FR-1)."""
    ctx = ContextManager(window=4_096, format=format, store=InMemoryStore())
    given = said(format)
    WAYS[way](ctx, given)
    before, used = deepcopy(ctx.get_context_for_model()), ctx.budget.used_tokens
    spoil(given)
    assert ctx.get_context_for_model() == before == said(format)
    assert ctx.budget.used_tokens == used
    assert [m.wire for m in ctx.history] == before


@pytest.mark.parametrize("format", FORMATS)
def test_what_was_returned_may_be_changed(format: str) -> None:
    """The next prompt, and what a server is sent, are as they were (FR-1)."""
    ctx = ContextManager(window=4_096, format=format)
    ctx.add_messages(said(format))
    spoil(ctx.get_context_for_model())
    spoil(prompt_of(ctx.active_context(), format))
    assert ctx.get_context_for_model() == said(format)
    model = ScriptedModel(Reply(message=said(format)[1]), limit=4_096)
    ctx.add_message(said(format)[0])
    ctx.send(model)
    assert prompt_of(model.contexts[-1], format) == [*said(format), said(format)[0]]


def spoil_message(message: Message) -> None:
    """Make all that the message shows of its provider's dictionary large."""
    raws = [message.wire, *(part.raw for part in message.parts)]
    raws += [i.raw for p in message.parts if isinstance(p, ToolResult) for i in p.images]
    for raw in filter(None, raws):
        for name in list(raw):
            raw[name] = LARGE  # type: ignore[index]
    for extra in (message.metadata.model_extra or {}).values():
        extra[0] = LARGE


def expanded(ctx: ContextManager) -> Sequence[Message]:
    return [m for each in ctx.history for m in ctx.expand(each.id).messages]


DOORS: dict[str, Callable[[ContextManager], Sequence[Message]]] = {
    "history": lambda ctx: list(ctx.history),
    "history by number": lambda ctx: [ctx.history[0], ctx.history[-1]],
    "history as shown": lambda ctx: [ctx.history.shown(0)],
    "active_context": lambda ctx: ctx.active_context().messages,
    "context_at": lambda ctx: ctx.time.context_at(len(ctx.history)).messages,
    "expand": expanded,
    "plan": lambda ctx: ctx.compress_conversation(0.5).context.messages,
    "last_plan": lambda ctx: ctx.last_plan.context.messages if ctx.last_plan else (),
}


@pytest.mark.parametrize(
    ("door", "format"),
    [*((door, "anthropic") for door in DOORS), *(("history", format) for format in FORMATS)],
)
def test_what_is_read_may_be_changed(door: str, format: str) -> None:
    """The next prompt is as it was counted, whichever view of the session somebody changes
    (FR-1)."""
    ctx = ContextManager(window=4_096, format=format)
    for _ in range(20):
        ctx.add_messages([{**m, "metadata": {"note": ["x"]}} for m in said(format)])
    ctx.compress_conversation(0.5)
    before, used = ctx.get_context_for_model(), ctx.budget.used_tokens
    for message in DOORS[door](ctx):
        spoil_message(message)
    ctx.set_mode(ctx.mode)  # what is in view is looked up again
    after = ctx.get_context_for_model()
    assert LARGE not in str([*after, *ctx.history])
    if door != "plan":
        assert (after, ctx.budget.used_tokens) == (before, used)


@pytest.mark.parametrize("format", FORMATS)
def test_messages_that_were_added_may_be_changed(format: str) -> None:
    """What came back of adding them, and what was given as messages (FR-1)."""
    one = ContextManager(window=4_096, format=format)
    added = one.add_messages(said(format))
    two = ContextManager(window=4_096, format=format)
    taken = two.add_messages(added)
    three = ContextManager(window=4_096, format=format)
    three.sync(said(format))
    added.append(two.put_aside(added[0], tokens=4_000))
    for message in [*added, *taken]:
        spoil_message(message)
    for ctx in (one, two, three):
        ctx.set_mode(ctx.mode)
        assert ctx.get_context_for_model() == said(format)
        assert LARGE not in str(list(ctx.history))


def test_what_stands_beside_the_context_may_be_changed() -> None:
    """Tool schemas and blocks of a system prompt, given and read (FR-1)."""
    tools = [{"type": "function", "function": {"name": "look", "description": "Looks."}}]
    system = [{"type": "text", "text": "You are a roofer."}]
    ctx = ContextManager(window=4_096, format="anthropic", tools=tools, system=system)
    ctx.add_message(role="user", content="hello")
    before = deepcopy((tools, system))
    tools[0]["function"]["description"] = LARGE  # type: ignore[index]
    system[0]["text"] = LARGE
    context: Any = ctx.active_context()
    context.tools[0]["function"]["description"] = LARGE
    context.system[0]["text"] = LARGE
    again = ctx.active_context()
    assert LARGE not in str(again)
    assert (list(again.tools), list(again.system or ())) == before


def test_one_call_shares_nothing_with_its_caller() -> None:
    """Neither what was given and fits, nor what was made of it (FR-1)."""
    given = said("chat_completions")
    done = plan(given, max_tokens=1_000)
    spoil(compress(given, max_tokens=1_000))
    assert given == said("chat_completions")
    spoil(given)
    assert done.context.messages[0].text == "How is the roof held?"
    assert [m.wire for m in done.context.messages] == said("chat_completions")


def test_what_is_changed_while_a_summary_is_written_is_not_sent() -> None:
    """What was counted is what comes back (FR-1)."""
    given: list[Dict] = []
    for i in range(40):
        given += [
            {"role": "user", "content": f"Question {i}: what of the roof? " * 6},
            {"role": "assistant", "content": f"Answer {i}: it holds. " * 6},
        ]

    class Spoiling(ScriptedSummarizer):
        async def summarize(self, request: Any) -> Any:
            spoil(given)
            return await super().summarize(request)

    async def work() -> list[Dict]:
        summarizer = Spoiling("They talked of the roof, and it holds.")
        return await acompress(given, max_tokens=1_500, summarizer=summarizer)

    assert checker.prompt_tokens(asyncio.run(work())) <= 1_500

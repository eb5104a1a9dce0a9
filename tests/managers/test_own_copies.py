"""What goes in and comes out are copies: whoever changes theirs changes nothing of ours (FR-1)."""

import asyncio
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from compact import ContextManager, acompress, compress, plan
from compact.core.formats.known import prompt_of
from compact.core.replies import Reply
from compact.storage.inmemory import InMemoryStore
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


def test_what_stands_beside_the_messages_is_a_copy_too() -> None:
    """Tool schemas and blocks of a system prompt are counted once, and sent as counted (FR-1)."""
    tools = [{"type": "function", "function": {"name": "look", "description": "Looks."}}]
    system = [{"type": "text", "text": "You are a roofer."}]
    ctx = ContextManager(window=4_096, format="anthropic", tools=tools, system=system)
    ctx.add_message(role="user", content="hello")
    tools[0]["function"]["description"] = LARGE  # type: ignore[index]
    system[0]["text"] = LARGE
    context = ctx.active_context()
    assert LARGE not in str(context.tools)
    assert context.system_text == "You are a roofer."


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

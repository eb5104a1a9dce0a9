"""Strands keeps what the conformance suite promises, in an environment of its own: it wants an
older MCP than ours.

python3 -m venv /tmp/strands && /tmp/strands/bin/pip install . strands-agents openai pytest
/tmp/strands/bin/python -m pytest tests/integrations/test_strands.py --noconftest
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

pytest.importorskip("strands", reason="Strands is not here; the head of this file says how to run")

from strands import Agent as StrandsAgent
from strands import tool as as_tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models import Model
from strands.models.openai import OpenAIModel
from strands.types.exceptions import ContextWindowOverflowException

from compact import CompactManager
from compact.integrations.strands import StrandsPlugin, _block, _messages, _pieces
from compact.testing.doors import (
    HUGE,
    PROMISES,
    TURNS,
    How,
    Judge,
    Refused,
    Run,
    Suite,
    Tool,
    manager_of,
)

SYSTEM = "You look after beams. Answer briefly."
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Strands' own


class Judged(Model):  # type: ignore[misc, unused-ignore]
    """The judge as a model of Strands: it is asked what the model of OpenAI would send."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    def update_config(self, **_: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **_: Any
    ) -> AsyncIterator[Any]:
        prompt = OpenAIModel.format_request_messages(messages, system_prompt)
        try:
            said = self.judge.answer(prompt, tool_specs or ())
        except Refused as error:
            raise ContextWindowOverflowException(str(error)) from error
        yield {"messageStart": {"role": "assistant"}}
        for call in said.get("tool_calls", ()):
            started = {"name": call["function"]["name"], "toolUseId": call["id"]}
            yield {"contentBlockStart": {"start": {"toolUse": started}}}
            delta = {"toolUse": {"input": call["function"]["arguments"]}}
            yield {"contentBlockDelta": {"delta": delta}}
            yield {"contentBlockStop": {}}
        if said["content"]:
            yield {"contentBlockDelta": {"delta": {"text": said["content"]}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if said.get("tool_calls") else "end_turn"}}
        usage = {"inputTokens": self.judge.tokens, "outputTokens": 1, "totalTokens": 1}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


class Conversation:
    """One agent."""

    def __init__(
        self, judge: Judge, tools: Sequence[Tool], manager: CompactManager | None, thread: str
    ) -> None:
        plugins = [] if manager is None else [StrandsPlugin(manager, thread)]
        made = [as_tool(t.call, name=t.name, description=t.description) for t in tools]
        self.agent = StrandsAgent(
            model=Judged(judge),
            tools=made,
            system_prompt=SYSTEM,
            plugins=plugins,
            conversation_manager=NullConversationManager(),
            callback_handler=None,
        )

    def turn(self, text: str, how: How = "sync") -> None:
        if how == "sync":
            self.agent(text)
        elif how == "async":
            asyncio.run(self.agent.invoke_async(text))
        else:
            asyncio.run(self._streamed(text))

    async def _streamed(self, text: str) -> None:
        async for _ in self.agent.stream_async(text):
            pass

    def state(self) -> list[Any]:
        kept = json.loads(json.dumps(self.agent.messages))
        return [{k: v for k, v in each.items() if k != "metadata"} for each in kept]

    def edit(self, turns: int, text: str) -> None:
        starts = [
            at
            for at, each in enumerate(self.agent.messages)
            if each["role"] == "user" and "text" in each["content"][0]
        ]
        del self.agent.messages[starts[turns] :]
        self.turn(text)


class StrandsDoor:
    """Agents of Strands with compact's plugin, or without it."""

    hows: Sequence[How] = ("sync", "async", "stream")

    def agent(
        self, judge: Judge, tools: Sequence[Tool], manager: CompactManager | None, thread: str
    ) -> Conversation:
        return Conversation(judge, tools, manager, thread)


@pytest.fixture(scope="module")
def suite() -> Suite:
    return Suite(StrandsDoor())


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_every_promise_is_kept(suite: Suite, promise: Callable[[Suite], None]) -> None:
    promise(suite)


def test_without_us_it_is_too_large() -> None:
    run = Run(StrandsDoor()).turns(0, min(HUGE) + 1)
    assert run.judge.refusals


def test_what_was_not_shortened_comes_back_as_it_was() -> None:
    image = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
    thought = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}
    asked = {"toolUse": {"toolUseId": "1", "name": "look", "input": {"a": 1}}}
    said = [
        {"role": "user", "content": [{"text": "Look."}, image]},
        {"role": "assistant", "content": [thought, asked]},
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "1", "status": "success", "content": [{"json": {}}]}},
                {"text": "And?"},
            ],
        },
    ]
    pieces = list(_pieces(said))
    assert [piece.item["role"] for piece in pieces] == ["user", "assistant", "tool", "user"]
    with manager_of() as manager:
        fitted = manager.fit("one", [piece.item for piece in pieces], format="chat_completions")
    assert _messages(fitted, pieces, said) == said
    assert _block(image)["type"] == "image_url"


def main() -> None:
    """Print the row of docs/integrations/frameworks.md."""
    with manager_of() as manager:
        run = Run(StrandsDoor(), manager=manager).turns(0, TURNS)
    alone = Run(StrandsDoor()).turns(0, TURNS)
    print(run.judge.refusals, alone.judge.refusals, f"{run.stable():.3f}", run.judge.sent)


if __name__ == "__main__":
    main()

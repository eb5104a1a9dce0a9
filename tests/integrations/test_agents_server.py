"""The OpenAI Agents SDK against a real llama.cpp server: no run fails for its context."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import openai
import pytest
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
)

from compact import CompactConfig, CompactManager
from compact.integrations.openai_agents import CompactSession, mark_protected, run_config
from compact.messages.events import Event
from compact.models.providers.tokenizers import HuggingFaceEstimator
from tests.models import tiny_llama
from tests.sizes import at_night
from tests.strategies import prose

WINDOW, ANSWER = 2048, 48
RULE = "Never sail without the green lantern, and write dates as 2031-05-17."
SYSTEM = "You help with the harbour's programs. Answer briefly."


@function_tool
def read_file(path: str, start_line: int) -> str:
    """Read a file of the harbour and return its text from that line on."""
    return f"{path}: {start_line}"


class Tiny:
    """The server's model as the SDK asks it, and what it was asked."""

    def __init__(self, url: str, face: str) -> None:
        self.client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        kind: Any = OpenAIResponsesModel if face == "responses" else OpenAIChatCompletionsModel
        self.model = kind(model="tiny", openai_client=self.client)
        self.asked: list[list[dict[str, Any]]] = []
        for name in ("get_response", "stream_response"):
            setattr(self.model, name, self._noting(getattr(self.model, name)))

    def _noting(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any, **named: Any) -> Any:
            self.asked.append(named["input"] if "input" in named else given[1])
            return ask(*given, **named)

        return noted

    def agent(self) -> Agent[Any]:
        return Agent(
            name="harbour",
            instructions=SYSTEM,
            model=self.model,
            tools=[read_file],
            model_settings=ModelSettings(max_tokens=ANSWER, tool_choice="none", temperature=0),
        )


async def talked(
    agent: Agent[Any],
    turns: int,
    said: Callable[[int], Any],
    streamed: bool,
    **options: Any,
) -> None:
    """So many turns; where llama.cpp cannot read what its model wrote, the turn is asked again."""
    for turn in range(turns):
        for _ in range(20):
            try:
                if streamed:
                    result = Runner.run_streamed(agent, said(turn), **options)
                    async for _event in result.stream_events():
                        pass
                else:
                    await Runner.run(agent, said(turn), **options)
                break
            except openai.InternalServerError:
                continue


def words(turn: int) -> Any:
    text = prose(random.Random(turn), 60)
    if turn == 0:
        return [mark_protected(RULE), {"role": "user", "content": f"The plan: {text}"}]
    return f"Turn {turn}: {text}"


@pytest.mark.parametrize(
    ("face", "streamed", "turns"),
    [
        ("responses", True, 10),
        pytest.param("chat", False, 10, marks=pytest.mark.slow),
        pytest.param("chat", False, 100, marks=at_night),
        pytest.param("responses", True, 100, marks=at_night),
    ],
)
def test_no_turn_fails_for_its_context(
    llama: Callable[[int], str], tiny_model: tiny_llama.Model, face: str, streamed: bool, turns: int
) -> None:
    """Each call fits a real window, with the protected words in it; the session has every item."""

    async def run() -> None:
        tiny = Tiny(llama(WINDOW), face)
        seen: list[Event] = []
        estimator = HuggingFaceEstimator(tiny_model.tokenizer, framing=tiny_llama.FRAMING)
        config = CompactConfig(max_context_tokens=WINDOW, output_reserve=ANSWER)
        with CompactManager(config, tokenizer=estimator, on_event=seen.append) as manager:
            session = CompactSession("s", manager)
            await talked(
                tiny.agent(),
                turns,
                words,
                streamed,
                session=session,
                run_config=run_config(manager, "s"),
            )
            items = await session.get_items()
            said = [str(item) for item in items]
            assert all(any(f"Turn {turn}: " in text for text in said) for turn in range(1, turns))
            assert all(RULE in str(asked) for asked in tiny.asked)
            assert all("protected" not in str(asked) for asked in tiny.asked)
            assert manager.session("s").compressions >= turns // 10
            assert len(manager.session("s").history) == len(items)
        await tiny.client.close()

    asyncio.run(run())

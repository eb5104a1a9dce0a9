"""Frameworks as a judge meets them: an agent with a tool, and a conversation that goes on.

`kept` says who keeps the window: compact's adapter (a manager), the host's `own` means, or nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal

import openai

from compact import CompactConfig, CompactManager
from tests.integrations.turns import ANSWER, SYSTEM, WINDOW, inspect_lamp

Kept = CompactManager | Literal["own"] | None
SESSION = "harbour"
LOOK = inspect_lamp


class Host:
    """A conversation in a framework."""

    def __init__(self, url: str) -> None:
        self.client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of all turns. An agent that cannot be made needs none."""
        return asyncio.new_event_loop()

    def say(self, text: str, *, streamed: bool = False) -> str:
        """A turn: what the agent answers."""
        return self.loop.run_until_complete(self.said(text, streamed))

    async def said(self, text: str, streamed: bool) -> str:
        """`say`, awaited."""
        raise NotImplementedError

    def edit(self, turns: int, text: str) -> None:
        """Go back to before the turn of that number, and say this text instead."""
        raise NotImplementedError

    def state(self) -> list[Any]:
        """What the framework keeps of the conversation, as plain values."""
        raise NotImplementedError

    def close(self) -> None:
        """End the loop and its connections."""
        self.loop.run_until_complete(self.client.close())
        self.loop.close()


def manager(window: int = WINDOW, **options: Any) -> CompactManager:
    """A manager of a window, counting as the judge does."""
    return CompactManager(CompactConfig(max_context_tokens=window, tokenizer="o200k"), **options)


class PydanticAi(Host):
    """pydantic-ai; its own means is a processor of the history that keeps the newest messages."""

    def __init__(
        self, url: str, kept: Kept = None, name: str = SESSION, tool: Callable[..., str] = LOOK
    ) -> None:
        from pydantic_ai import Agent
        from pydantic_ai.capabilities import ProcessHistory
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        super().__init__(url)
        capabilities: list[Any] = []
        if kept == "own":
            capabilities.append(ProcessHistory(lambda messages: messages[-40:]))
        elif kept is not None:
            from compact.integrations.pydantic_ai import FittedContext

            capabilities.append(FittedContext(kept))
        self.agent = Agent(
            OpenAIChatModel("tiny", provider=OpenAIProvider(openai_client=self.client)),
            system_prompt=SYSTEM,
            tools=[tool],
            model_settings={"max_tokens": ANSWER},
            capabilities=capabilities,
        )
        self.name = name
        self.history: list[Any] = []

    async def said(self, text: str, streamed: bool) -> str:
        options: Any = {"message_history": self.history, "conversation_id": self.name}
        if streamed:
            async with self.agent.run_stream(text, **options) as running:
                answer: str = await running.get_output()
                self.history = running.all_messages()
            return answer
        done = await self.agent.run(text, **options)
        self.history = done.all_messages()
        return str(done.output)

    def edit(self, turns: int, text: str) -> None:
        self.history = self.history[: 4 * turns]
        self.say(text)

    def state(self) -> list[Any]:
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        listed: list[Any] = ModelMessagesTypeAdapter.dump_python(self.history, mode="json")
        return listed


class GoogleAdk(Host):
    """Google ADK; its own means is the compaction of events, its summary written by the model."""

    def __init__(
        self, url: str, kept: Kept = None, name: str = SESSION, tool: Callable[..., str] = LOOK
    ) -> None:
        from google.adk.agents import LlmAgent
        from google.adk.apps import App
        from google.adk.apps._configs import EventsCompactionConfig
        from google.adk.integrations.openai import OpenAILlm
        from google.adk.runners import InMemoryRunner
        from google.genai import types

        super().__init__(url)
        self.name = name
        agent = LlmAgent(
            name="keeper",
            model=OpenAILlm(model="tiny", client=self.client),
            instruction=SYSTEM,
            tools=[tool],
            generate_content_config=types.GenerateContentConfig(max_output_tokens=ANSWER),
        )
        options: dict[str, Any] = {}
        if kept == "own":
            options["events_compaction_config"] = EventsCompactionConfig(
                token_threshold=WINDOW // 2, event_retention_size=8
            )
        elif kept is not None:
            from compact.integrations.google_adk import CompactPlugin

            options["plugins"] = [CompactPlugin(kept)]
        self.runner = InMemoryRunner(app=App(name="harbour", root_agent=agent, **options))
        made = self.runner.session_service.create_session(
            app_name="harbour", user_id="u", session_id=name
        )
        self.loop.run_until_complete(made)

    async def said(self, text: str, streamed: bool) -> str:
        from google.adk.agents import run_config as adk
        from google.genai import types

        answer = ""
        modes: Any = vars(adk)["StreamingMode"]
        mode = modes.SSE if streamed else modes.NONE
        async for event in self.runner.run_async(
            user_id="u",
            session_id=self.name,
            new_message=types.UserContent(text),
            run_config=adk.RunConfig(streaming_mode=mode),
        ):
            if event.is_final_response() and event.content and event.content.parts:
                answer = event.content.parts[0].text or ""
        return answer

    def edit(self, turns: int, text: str) -> None:
        names = list(dict.fromkeys(event["invocation_id"] for event in self.state()))
        undone = self.runner.rewind_async(
            user_id="u", session_id=self.name, rewind_before_invocation_id=names[turns]
        )
        self.loop.run_until_complete(undone)
        self.say(text)

    def state(self) -> list[Any]:
        service = self.runner.session_service
        session = self.loop.run_until_complete(
            service.get_session(app_name="harbour", user_id="u", session_id=self.name)
        )
        assert session is not None
        return [event.model_dump(mode="json", exclude_none=True) for event in session.events]


HOSTS: dict[str, Callable[..., Host]] = {"pydantic-ai": PydanticAi, "Google ADK": GoogleAdk}

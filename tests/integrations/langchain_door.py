"""LangChain as a door of the conformance suite (`compact.testing.doors`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    convert_to_messages,
    convert_to_openai_messages,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver

from compact import CompactManager
from compact.integrations.langchain import CompactMiddleware
from compact.testing.doors import How, Judge, Tool

Dict = dict[str, Any]
SYSTEM = "You look after beams. Answer briefly."


class Judged(BaseChatModel):
    """The judge as a chat model of LangChain."""

    judge: Any
    tools: Sequence[Any] = ()

    @property
    def _llm_type(self) -> str:
        return "judge"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Runnable[Any, AIMessage]:
        return self.model_copy(update={"tools": [convert_to_openai_tool(tool) for tool in tools]})

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        said = self.judge.answer(convert_to_openai_messages(messages), self.tools)
        (message,) = convert_to_messages([said])
        return ChatResult(generations=[ChatGeneration(message=message)])


class Conversation:
    """One thread of an agent."""

    def __init__(
        self, judge: Judge, tools: Sequence[Tool], middleware: Sequence[Any], thread: str
    ) -> None:
        self.config: Any = {"configurable": {"thread_id": thread}}
        self.agent: Any = create_agent(
            Judged(judge=judge),
            [
                StructuredTool.from_function(t.call, name=t.name, description=t.description)
                for t in tools
            ],
            system_prompt=SYSTEM,
            middleware=middleware,
            checkpointer=InMemorySaver(),
        )

    def turn(self, text: str, how: How = "sync") -> None:
        given = {"messages": [{"role": "user", "content": text}]}
        if how == "sync":
            self.agent.invoke(given, self.config)
        elif how == "async":
            asyncio.run(self.agent.ainvoke(given, self.config))
        else:
            list(self.agent.stream(given, self.config, stream_mode="messages"))

    def state(self) -> list[Dict]:
        messages = self.agent.get_state(self.config).values["messages"]
        return [message.model_dump(mode="json") for message in messages]

    def edit(self, turns: int, text: str) -> None:
        for snapshot in self.agent.get_state_history(self.config):
            said = [m for m in snapshot.values.get("messages", ()) if m.type == "human"]
            if len(said) == turns and not snapshot.next:
                self.config = snapshot.config
                self.turn(text)
                return
        raise AssertionError("no such turn")


class LangChainDoor:
    """Agents of LangChain with compact's middleware."""

    hows: Sequence[How] = ("sync", "async", "stream")

    def agent(
        self, judge: Judge, tools: Sequence[Tool], manager: CompactManager | None, thread: str
    ) -> Conversation:
        middleware = [] if manager is None else [CompactMiddleware(manager)]
        return Conversation(judge, tools, middleware, thread)

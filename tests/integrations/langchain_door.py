"""LangChain as a door of the conformance suite (`compact.testing.doors`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
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
from compact.testing.doors import (
    NEEDS,
    TURNS,
    WINDOW,
    How,
    Judge,
    Run,
    Tool,
    manager_of,
    words_of,
)

Dict = dict[str, Any]
ANSWER = 48
SYSTEM = "You look after beams. Answer briefly."


class Judged(BaseChatModel):
    """The judge as a chat model of LangChain."""

    judge: Any
    server: Any = None
    """A client's `chat.completions`, which is sent each prompt too."""
    tools: Sequence[Any] = ()

    @property
    def _llm_type(self) -> str:
        return "judge"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Runnable[Any, AIMessage]:
        return self.model_copy(update={"tools": [convert_to_openai_tool(tool) for tool in tools]})

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        prompt = convert_to_openai_messages(messages)
        if self.server is not None:
            self.server.create(
                model="tiny",
                messages=prompt,
                tools=self.tools,
                tool_choice="none",
                max_tokens=ANSWER,
            )
        said = self.judge.answer(prompt, self.tools)
        (message,) = convert_to_messages([said])
        return ChatResult(generations=[ChatGeneration(message=message)])


class Conversation:
    """One thread of an agent."""

    def __init__(
        self, model: Judged, tools: Sequence[Tool], middleware: Sequence[Any], thread: str
    ) -> None:
        self.config: Any = {"configurable": {"thread_id": thread}}
        self.agent: Any = create_agent(
            model,
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
    """Agents of LangChain with compact's middleware, or with `others` instead."""

    hows: Sequence[How] = ("sync", "async", "stream")

    def __init__(self, server: Any = None, others: Sequence[Any] = ()) -> None:
        self.server, self.others = server, others

    def agent(
        self, judge: Judge, tools: Sequence[Tool], manager: CompactManager | None, thread: str
    ) -> Conversation:
        middleware = self.others if manager is None else [CompactMiddleware(manager)]
        return Conversation(Judged(judge=judge, server=self.server), tools, middleware, thread)


# --- beside LangChain's own -----------------------------------------------------------------------


class Summarizing(BaseChatModel):
    """A model that writes summaries: always the same words."""

    @property
    def _llm_type(self) -> str:
        return "summarizing"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        message = AIMessage("The person asks to check beams, and the register says they hold.")
        return ChatResult(generations=[ChatGeneration(message=message)])


def main() -> None:
    """Print the table of docs/integrations/langchain.md: the suite's hundred turns."""
    own = SummarizationMiddleware(
        Summarizing(), trigger=("tokens", WINDOW * 7 // 10), keep=("tokens", WINDOW // 3)
    )
    rows: dict[str, tuple[LangChainDoor, bool]] = {
        "nothing": (LangChainDoor(), False),
        "SummarizationMiddleware": (LangChainDoor(others=[own]), False),
        "CompactMiddleware": (LangChainDoor(), True),
    }
    for name, (door, is_ours) in rows.items():
        with manager_of() as manager:
            start = time.process_time()
            run = Run(door, manager=manager if is_ours else None).turns(0, TURNS)
            spent = time.process_time() - start
        judge = run.judge
        last = "\n".join(map(words_of, judge.prompts[-1]))
        print(
            f"{name}: refused {judge.refusals} of {judge.refusals + len(judge.prompts)}, "
            f"needs {sum(need in last for need in NEEDS.values())}, stable {run.stable():.3f}, "
            f"tokens {judge.sent:,}, state {len(run.states[-1])}, broken {len(judge.faults)}, "
            f"CPU {1_000 * spent / (judge.refusals + len(judge.prompts)):.1f} ms a call"
        )


if __name__ == "__main__":
    main()

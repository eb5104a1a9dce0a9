"""Peers' stores, as `store_work` drives them; executed by the Python of `.venv-peers/stores`, knows
nothing of compact.

Each at its best setting and at equal durability: a write-ahead log with synchronous = FULL, one
connection that stays open, one event loop for those that need one, messages converted beforehand.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from bench.store_work import Store, Timed, pragmas

os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")
NAME = "s"
Record = dict[str, Any]


def _items(message: Record) -> list[Record]:
    """A message as the items that the Agents SDK keeps: calls and results are items of their
    own.
    """
    if message["role"] == "tool":
        answer = {"type": "function_call_output", "call_id": message["tool_call_id"]}
        return [{**answer, "output": message["content"]}]
    items = [{"role": message["role"], "content": message["content"]}]
    for call in message.get("tool_calls", ()):
        function = call["function"]
        items.append({"type": "function_call", "call_id": call["id"], **function})
    return items


class AgentsSession(Store):
    """The OpenAI Agents SDK's SQLiteSession: one `add_items` a message."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.runner = asyncio.Runner()
        self.session: Any = self.make(folder / "agents.db")

    def make(self, file: Path) -> object:
        from agents import SQLiteSession

        return SQLiteSession(NAME, file)

    def prepared(self, messages: list[Record]) -> list[Any]:
        return [_items(message) for message in messages]

    def given(self, prepared: Sequence[list[Record]]) -> list[Any]:
        return [item for items in prepared for item in items]

    def appended(self, prepared: Sequence[Any], seconds: float) -> list[float]:
        async def work() -> list[float]:
            taken: list[float] = []
            until = time.perf_counter() + seconds
            for items in prepared:
                started = time.perf_counter()
                await self.session.add_items(items)
                ended = time.perf_counter()
                taken.append((ended - started) * 1e3)
                if ended > until:
                    break
            return taken

        return self.runner.run(work())

    def timed(self, what: str, *arguments: Any) -> Timed:  # noqa: ANN401 - of any call
        async def work() -> Timed:
            started = time.perf_counter()
            if what == "append_all":
                found = await self.session.add_items(self.given(*arguments))
            else:
                found = await self.session.get_items(*arguments)
            return (time.perf_counter() - started) * 1e3, found

        return self.runner.run(work())

    def settings(self) -> str:
        async def work() -> str:
            def ask() -> str:
                with self.session._locked_connection() as connection:
                    return pragmas(lambda sql: connection.execute(sql).fetchone()[0])

            return await asyncio.to_thread(ask)

        return self.runner.run(work())

    def close(self) -> None:
        self.session.close()
        self.runner.close()


class AgentsAdvanced(AgentsSession):
    """Its AdvancedSQLiteSession, which also knows branches and turns."""

    def make(self, file: Path) -> object:
        from agents.extensions.memory import AdvancedSQLiteSession

        return AdvancedSQLiteSession(session_id=NAME, db_path=file, create_tables=True)


class LlamaIndex(Store):
    """LlamaIndex's SQLiteChatStore; through SQLAlchemy's events it too gets a write-ahead log."""

    wal = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        from llama_index.storage.chat_store.sqlite import SQLiteChatStore
        from sqlalchemy import create_engine, event
        from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
        from sqlalchemy.orm import sessionmaker

        self.engine = create_engine(f"sqlite:///{folder / 'llama.db'}")
        if self.wal:
            event.listen(self.engine, "connect", _as_durable_log)
        other = create_async_engine(f"sqlite+aiosqlite:///{folder / 'llama.db'}")
        self.store = SQLiteChatStore(
            session=sessionmaker(self.engine),
            async_session=async_sessionmaker(other, class_=AsyncSession),
            table_name="chatstore",
        )

    def prepared(self, messages: list[Record]) -> list[Any]:
        from llama_index.core.llms import ChatMessage

        def made(message: Record) -> object:
            rest = {k: v for k, v in message.items() if k not in ("role", "content")}
            return ChatMessage(
                role=message["role"], content=message["content"], additional_kwargs=rest
            )

        return [made(message) for message in messages]

    def append(self, one: Any) -> None:  # noqa: ANN401 - the peer's own message
        self.store.add_message(NAME, one)

    def append_all(self, prepared: Sequence[Any]) -> None:
        self.store.set_messages(NAME, list(prepared))

    def last(self, count: int) -> list[Any]:
        return self.store.get_messages(NAME)[-count:]  # it has no other way

    def all(self) -> list[Any]:
        return self.store.get_messages(NAME)

    def settings(self) -> str:
        from sqlalchemy import text

        with self.engine.connect() as connection:
            return pragmas(lambda sql: connection.execute(text(sql)).scalar())

    def close(self) -> None:
        self.engine.dispose()


class LlamaIndexPlain(LlamaIndex):
    """The same as it comes: a rollback journal."""

    wal = False


def _as_durable_log(connection: Any, _: object) -> None:  # noqa: ANN401 - the driver's
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")


class LangGraph(Store):
    """LangGraph's SqliteSaver: one invocation of a graph a message, one checkpoint each
    (`durability="exit"`, the least it can write).
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.graph import END, START, StateGraph

        self.db = sqlite3.connect(folder / "graph.db", check_same_thread=False)
        saver = SqliteSaver(self.db)
        saver.setup()
        self.db.execute("PRAGMA synchronous = FULL")
        builder = StateGraph(TypedDict("State", {"messages": self.channel()}))  # type: ignore[operator] # a type made at run time
        builder.add_node("nothing", lambda _: {})
        builder.add_edge(START, "nothing")
        builder.add_edge("nothing", END)
        self.graph = builder.compile(checkpointer=saver)
        self.config: Any = {"configurable": {"thread_id": NAME}}

    def channel(self) -> Any:  # noqa: ANN401 - the peer's types are not ours
        from langchain_core.messages import AnyMessage
        from langgraph.graph.message import add_messages

        return Annotated[list[AnyMessage], add_messages]

    def prepared(self, messages: list[Record]) -> list[Any]:
        from langchain_core.messages import convert_to_messages

        made = convert_to_messages(json.loads(json.dumps(messages)))
        for at, message in enumerate(made):
            message.id = f"m{at}"
        return made

    def append(self, one: Any) -> None:  # noqa: ANN401 - the peer's own message
        self.graph.invoke({"messages": [one]}, self.config, durability="exit")

    def append_all(self, prepared: Sequence[Any]) -> None:
        self.graph.invoke({"messages": list(prepared)}, self.config, durability="exit")

    def last(self, count: int) -> list[Any]:
        return self.all()[-count:]  # it has no other way

    def all(self) -> list[Any]:
        return list(self.graph.get_state(self.config).values["messages"])

    def settings(self) -> str:
        return pragmas(lambda sql: self.db.execute(sql).fetchone()[0])

    def close(self) -> None:
        self.db.close()


class LangGraphDelta(LangGraph):
    """The same with its DeltaChannel (beta), which does not store the list anew each time."""

    def channel(self) -> Any:  # noqa: ANN401 - the peer's types are not ours
        from langgraph.channels.delta import DeltaChannel
        from langgraph.graph.message import _messages_delta_reducer

        return Annotated[list, DeltaChannel(_messages_delta_reducer)]


STORES: dict[str, Callable[[Path], Store]] = {
    "Agents SDK SQLiteSession": AgentsSession,
    "Agents SDK AdvancedSQLiteSession": AgentsAdvanced,
    "LlamaIndex SQLiteChatStore": LlamaIndex,
    "LlamaIndex SQLiteChatStore, as it comes": LlamaIndexPlain,
    "LangGraph SqliteSaver": LangGraph,
    "LangGraph SqliteSaver, DeltaChannel": LangGraphDelta,
}

"""Small sessions in either store, what is said in them, and who is waited for."""

import asyncio
import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from compact import ContextManager, SQLiteManager
from compact.errors import StoreFailed
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.protocols import SessionStore
from compact.store.inmemory import InMemoryStore
from compact.testing import ScriptedSummarizer

Dict = dict[str, Any]
STORES = ("in memory", "SQLite")
PATIENCE = 30.0
"""Seconds after which something never comes, on a machine that is busy with others."""
FACT = "The zircon valve opens at 417 kelvin; see src/valves/zircon.py."


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[SessionStore]:
    """A new store of that kind."""
    if kind == "in memory":
        yield InMemoryStore()
        return
    with SQLiteManager(folder / "sessions.db", durability="normal") as store:
        yield store


def session(store: SessionStore, window: int = 4_096, **options: Any) -> ContextManager:
    plain = {"session_id": "s", "tokenizer": "o200k", **options}
    return ContextManager(window=window, store=store, **plain)


def fill(ctx: ContextManager, start: int, stop: int, *, words: int = 10) -> None:
    for i in range(start, stop):
        ctx.add_message(role="user", content=f"Question {i}: " + "what of the roof? " * words)
        ctx.add_message(role="assistant", content=f"Answer {i}: " + "it holds. " * 2 * words)


def talk(ctx: ContextManager, turns: int, *, words: int = 60) -> None:
    for i in range(turns):
        ctx.add_message(role="user", content=f"Question {i}: " + "what of the roof? " * words)
        ctx.add_message(role="assistant", content=f"Answer {i}: " + "the roof holds. " * words)


def until(condition: Callable[[], object]) -> None:
    """Wait for it."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.002)


def of(seen: Iterable[object], *kinds: type) -> list[Any]:
    """The events of these kinds."""
    return [event for event in seen if isinstance(event, kinds)]


class Failing(InMemoryStore):
    """A store whose methods of these names fail."""

    failing: Collection[str] = ()
    fault: Exception = StoreFailed("the disk is full")

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__
        return found("_fail") if name in found("failing") else found(name)

    def _fail(self, *_: object, **__: object) -> None:
        raise self.fault


class Clock:
    """A clock that goes where it is told."""

    def __init__(self) -> None:
        self.time = datetime(2026, 5, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.time += timedelta(milliseconds=1)
        return self.time


class Gate(ScriptedSummarizer):
    """Waits before it writes until it is let through."""

    def __init__(self, *texts: str | Exception) -> None:
        super().__init__(*texts)
        self.entered, self.open = asyncio.Event(), asyncio.Event()

    async def summarize(self, request: SummaryRequest) -> Summary:
        self.entered.set()
        await self.open.wait()
        return await super().summarize(request)


def call(name: str, call_id: str, **arguments: Any) -> Dict:
    function = {"name": name, "arguments": json.dumps(arguments)}
    made = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


def result(call_id: str, text: str) -> Dict:
    return {"role": "tool", "tool_call_id": call_id, "content": text}

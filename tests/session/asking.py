"""Small sessions in either store, to be asked what was said in them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compact import ContextManager, SQLiteManager
from compact.messages.protocols import SessionStore
from compact.store.inmemory import InMemoryStore

Dict = dict[str, Any]
STORES = ("in memory", "SQLite")
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


def call(name: str, call_id: str, **arguments: Any) -> Dict:
    function = {"name": name, "arguments": json.dumps(arguments)}
    made = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


def result(call_id: str, text: str) -> Dict:
    return {"role": "tool", "tool_call_id": call_id, "content": text}

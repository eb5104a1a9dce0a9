"""Our stores and bare SQLite, as `store_work` drives them.

Bare SQLite does the same inserts: the table, its indexes and the rows are those that ours makes,
ready before the clock runs; each append is BEGIN IMMEDIATE, INSERT, COMMIT.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import apsw
import orjson

from bench.histories import Record
from bench.store_work import Store, pragmas
from compact.messages.formats.known import format_named
from compact.messages.messages import Message
from compact.messages.sessions import FIXED, PERSON, Branch, Entry, Session
from compact.session.context_manager import ContextManager
from compact.store.sqlite.pool import Durability
from compact.store.sqlite.store import SQLiteManager

NAME = "s"
WINDOW = 128_000
WORD = "worker"
Row = tuple[Any, ...]


def opened(file: Path | str, durability: Durability = "full") -> SQLiteManager:
    """Our store with one session."""
    store = SQLiteManager(file, durability=durability)
    store.session(NAME, create=Session(id=NAME, branch=Branch(id=NAME, session_id=NAME)))
    return store


def parsed(messages: Sequence[Record]) -> list[Entry]:
    """The messages as a store takes them."""
    wire = format_named("chat_completions")
    marks = {"system": FIXED, "user": PERSON}
    return [
        Entry(wire.parse(raw, at), len(raw["content"] or "") // 4, marks.get(raw["role"], 0))
        for at, raw in enumerate(messages)
    ]


def sent(message: Message) -> Any:  # noqa: ANN401 - a provider's dictionary
    """What the message was parsed from, as it came back."""
    return message.wire


class InOurs(Store):
    """A session in our store."""

    def __init__(self, folder: Path, durability: Durability = "full") -> None:
        super().__init__(folder)
        self.store = opened(folder / "ours.db", durability)

    def last(self, count: int) -> list[Any]:
        return [sent(e.message) for e in self.store.read(NAME, -count, 1 << 30)]

    def all(self) -> list[Any]:
        return [sent(e.message) for e in self.store.read(NAME, 0, 1 << 30)]

    def settings(self) -> str:
        return pragmas(lambda sql: self.store.db.execute(sql).fetchall()[0][0])

    def index(self) -> bool:
        return bool(self.store.search(NAME, WORD, most=1))

    def close(self) -> None:
        self.store.close()


class Ours(InOurs):
    """`SQLiteManager.append`, one entry a call."""

    def __init__(self, folder: Path, durability: Durability = "full") -> None:
        super().__init__(folder, durability)
        self.count = self.store.branch(NAME).messages

    def prepared(self, messages: list[Record]) -> list[Any]:
        return list(parsed(messages))

    def given(self, prepared: Sequence[Any]) -> list[Any]:
        return [sent(entry.message) for entry in prepared]

    def append(self, one: Entry) -> None:
        self.count = self.store.append(NAME, (one,), expected=self.count)

    def append_all(self, prepared: Sequence[Entry]) -> None:
        self.store.append(NAME, prepared, expected=0)


class Managed(InOurs):
    """`ContextManager.add_message`: parses, counts tokens exactly, appends."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.session = ContextManager(
            window=WINDOW, store=self.store, session_id=NAME, tokenizer="o200k"
        )

    def append(self, one: Record) -> None:
        self.session.add_message(one)

    def append_all(self, prepared: Sequence[Record]) -> None:
        self.session.add_messages(prepared)


@cache
def _schema() -> tuple[str, ...]:
    with opened(":memory:") as store:
        sql = "SELECT sql FROM sqlite_schema WHERE tbl_name = 'messages' AND sql IS NOT NULL"
        return tuple(str(row[0]) for row in store.db.execute(sql).fetchall())


COLUMNS = (
    "key", "id", "role", "timestamp", "zone", "token_count", "importance_score", "marks",
    "total_tokens", "chain_hash", "payload", "content",
)  # fmt: skip
_INSERT = f"INSERT INTO messages ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


def rows_of(messages: Sequence[Record]) -> list[Row]:
    """The rows that our store makes of the messages."""
    with opened(":memory:") as store:
        store.append(NAME, parsed(messages))
        sql = f"SELECT {', '.join(COLUMNS)} FROM messages ORDER BY key"
        return list(store.db.execute(sql).fetchall())


class Bare(Store):
    """SQLite through apsw, with our table and our rows."""

    def __init__(self, folder: Path, level: str = "FULL") -> None:
        super().__init__(folder)
        self.db = self.connect(folder / "bare.db")
        self.db.execute("PRAGMA journal_mode = WAL").fetchall()
        self.db.execute(f"PRAGMA synchronous = {level}").fetchall()
        if not self.db.execute("SELECT 1 FROM sqlite_schema").fetchall():
            for sql in _schema():
                self.db.execute(sql)

    def connect(self, file: Path) -> Any:  # noqa: ANN401 - of either module
        return apsw.Connection(str(file))

    def prepared(self, messages: list[Record]) -> list[Any]:
        return list(rows_of(messages))

    def given(self, prepared: Sequence[Row]) -> list[Any]:
        return list(_decoded([row[-2:] for row in prepared]))

    def append(self, one: Row) -> None:
        execute = self.db.execute
        execute("BEGIN IMMEDIATE")
        execute(_INSERT, one)
        execute("COMMIT")

    def append_all(self, prepared: Sequence[Row]) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany(_INSERT, prepared)
        self.db.execute("COMMIT")

    def last(self, count: int) -> list[Any]:
        return last_of(self.db, count)

    def all(self) -> list[Any]:
        sql = "SELECT payload, content FROM messages ORDER BY key"
        return list(_decoded(self.db.execute(sql).fetchall()))

    def settings(self) -> str:
        return pragmas(lambda sql: self.db.execute(sql).fetchall()[0][0])

    def close(self) -> None:
        self.db.close()


def last_of(db: Any, count: int) -> list[Any]:  # noqa: ANN401 - of either module
    """The newest messages of a file of ours, in order, by one bare query."""
    sql = "SELECT payload, content FROM messages ORDER BY key DESC LIMIT ?"
    return list(_decoded(db.execute(sql, (count,)).fetchall()))[::-1]


class BareStdlib(Bare):
    """SQLite through Python's own module."""

    def connect(self, file: Path) -> Any:  # noqa: ANN401 - of either module
        return sqlite3.connect(file, isolation_level=None)


def _decoded(rows: Sequence[Row]) -> Iterator[Any]:
    for payload, content in rows:
        message = orjson.loads(payload)["w"]
        if content is not None:
            message["content"] = content
        yield message


STORES: dict[str, Callable[[Path], Store]] = {
    "append": Ours,
    "append normal": partial(Ours, durability="normal"),
    "add_message": Managed,
    "bare apsw": Bare,
    "bare apsw normal": partial(Bare, level="NORMAL"),
    "bare sqlite3": BareStdlib,
}

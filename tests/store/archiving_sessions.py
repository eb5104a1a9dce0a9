"""Sessions to archive, and everything that a file holds of one."""

import random
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from compact import SQLiteManager
from compact.messages.messages import Message, ToolCall
from compact.messages.sessions import Entry, Snapshot
from compact.store.sqlite.records import COLUMNS
from tests.store.making import session, step

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
OLD = NOW - timedelta(days=200)
WORDS = (
    "roof",
    "beam",
    "Straße",
    "屋顶",
    "\x00",
    "\ud83d",
    "👩‍🌾",
    "a\u0301",
    "\u2028",
    '"{}[]',
    "",
)
TABLES = ("branches", "messages", *COLUMNS)
MADE_ANEW = {"embedding_id", "indexed"}
"""Columns that tell of vectors and of the index, which a restore makes again."""


def said(rng: random.Random, at: datetime) -> Entry:
    """Any message that a store takes."""
    text = " ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 40)))
    zone = rng.choice((UTC, timezone(timedelta(hours=5, minutes=45)), None))
    given: dict[str, Any] = {"timestamp": at.replace(tzinfo=zone)}
    if rng.random() < 0.3:
        given["id"] = f"own-{rng.getrandbits(40):x}{rng.choice(WORDS[:4])}"
    if rng.random() < 0.2:
        call = ToolCall(id=f"c{rng.getrandbits(30)}", name="measure", arguments='{"x": 1.50}')
        return Entry(Message(role="assistant", content=(call,), **given), None)
    role = rng.choice(("user", "assistant"))
    return Entry(Message(role=role, content=text, **given), rng.randrange(99), rng.randrange(4))


def make(store: SQLiteManager, name: str, rng: random.Random, *, most: int = 60) -> None:
    """A session with branches, checkpoints, a snapshot, notes and scores."""
    store.session(name, create=session(name, metadata={"tags": ["roof"]}, title=f"Title of {name}"))
    branches, at = [name], OLD
    for turn in range(1, rng.randrange(2, 7)):
        at += timedelta(minutes=1)
        branch = rng.choice(branches)
        store.append(branch, [said(rng, at) for _ in range(rng.randrange(1, most // 5 + 2))])
        if rng.random() < 0.5:
            branches.append(store.fork(branch, rng.randrange(store.branch(branch).messages + 1)).id)
            store.append(branches[-1], [said(rng, at)])
        if rng.random() < 0.5:
            store.commit(step(store, name, turn, window=8_000))
    store.note(name, "draft", {"words": rng.choice(WORDS)})
    store.save_snapshot(Snapshot(session_id=name, branch_id=branches[-1], at=1, window=8, note="ü"))
    if rng.random() < 0.5:
        newest = store.read(store.session(name).branch.id, -1, 10**9)[0].message.id
        store.update_importance_score(newest, 0.1 + 0.2, session_id=name)


def rows_of(store: SQLiteManager, name: str) -> dict[str, list[dict[str, Any]]]:
    """Every row of a session, but for what is made anew."""
    db = store.db
    own = name.encode("utf-8", "surrogatepass")  # as bytes where it is not Unicode
    key = db.execute("SELECT key FROM sessions WHERE CAST(id AS BLOB) = ?", (own,)).get
    found = {"sessions": _rows(db, "sessions", f"key = {key}")}
    for table in TABLES:
        where = f"session = {key}"
        if table == "messages":
            where = f"key >> 32 IN (SELECT key FROM branches WHERE session = {key})"
        found[table] = _rows(db, table, where)
    return found


def _rows(db: Any, table: str, where: str) -> list[dict[str, Any]]:
    names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    kept = [name for name in names if name not in MADE_ANEW]
    sql = f"SELECT {', '.join(kept)} FROM {table} WHERE {where} ORDER BY 1, 2"
    return [dict(zip(kept, row, strict=True)) for row in db.execute(sql)]


def told(store: SQLiteManager, name: str) -> list[Any]:
    """What a store tells of a session."""
    branches = store.branches(name)
    return [
        store.session(name),
        branches,
        [store.read(each.id, 0, 10**9) for each in branches],
        [store.read(each.id, -3, 10**9) for each in branches],
        [store.chain(each.id, each.messages // 2) for each in branches],
        [store.marked(each.id, 2, before=10**6, most=9) for each in branches],
        [store.first_marked(each.id, 1) for each in branches],
        [store.position_of(each.id, "m1") for each in branches],
        store.get_conversation(name),
        store.moves(name, most=99),
        store.checkpoints(name),
    ]


def archive(store: SQLiteManager, folder: Path, *names: str) -> None:
    """Archive sessions, all of them."""
    report = store.archive_sessions(names, folder=folder, now=NOW)
    assert report.failed == {}
    assert [each.session_id for each in report.archived] == list(names)


def with_text(store: SQLiteManager) -> int:
    """How many messages have their text in the database."""
    return int(store.db.execute("SELECT count(*) FROM messages WHERE payload <> x''").get)


def files(folder: Path) -> list[Path]:
    """The files of archives."""
    return sorted(path for path in folder.rglob("*") if path.is_file())

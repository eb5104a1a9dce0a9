"""What the whole promises, tried with nothing but what users have."""

import importlib.metadata
import sqlite3
import subprocess
import sys
from pathlib import Path

import tasks
from compact import (
    CompressionEngine,
    ContextManager,
    MemoryManager,
    Message,
    SQLiteManager,
    VectorStore,
)

PAGES = (
    *("README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "MIGRATION.md", "ARCHITECTURE.md"),
    *("docs/ARCHITECTURE.md", "docs/OBSERVABILITY.md", "examples/README.md", "mkdocs.yml"),
    *("config.example.yaml", ".env.example"),
)


def test_the_quick_checks_of_every_source() -> None:
    """C-10: each under our import paths."""
    assert Message(role="user", content="test").role == "user"
    ctx = ContextManager()
    ctx.add_message(role="user", content="test")
    assert ctx.compress_conversation() is not None
    assert SQLiteManager(":memory:").db is not None
    with VectorStore(":memory:") as vectors:
        assert vectors.search([0.0] * 383 + [1.0], most=1) == []
    assert CompressionEngine().get_compression_level(3).value == "full"
    with MemoryManager(":memory:") as memory:
        assert memory.sessions() == []


def test_a_conversation_is_marked_important_and_renamed(tmp_path: Path) -> None:
    """C-4: by a person, for good; importance has a formula that is shown part by part."""
    with ContextManager(window=4_096, store=str(tmp_path / "c.db"), session_id="s") as ctx:
        ctx.add_message(role="user", content="Never sell the Calypso.")
    with MemoryManager(tmp_path / "c.db") as memory:
        memory.describe("s", title="The Calypso", important=True)
        assert memory.importance("s").marked
    with MemoryManager(tmp_path / "c.db") as memory:
        (session,) = memory.sessions()
        assert session.title == "The Calypso"
        assert session.metadata["important"]


def test_one_file_holds_sessions_messages_and_vectors(tmp_path: Path) -> None:
    """S-1: over restarts, with indexes and numbered migrations."""
    file = tmp_path / "c.db"
    with ContextManager(window=4_096, store=str(file), session_id="s") as ctx:
        ctx.add_message(role="user", content="The crane stands at the pier.")
    with SQLiteManager(file) as store, VectorStore(store, dimensions=3) as vectors:
        vectors.add({"crane": [1, 0, 0]})
    with SQLiteManager(file) as store, VectorStore(store, dimensions=3) as vectors:
        assert vectors.search([1, 0, 0], most=1)[0].name == "crane"
        assert store.get_conversation("s").messages[0].text.startswith("The crane")
        assert store.integrity_check() == []
    with sqlite3.connect(file) as db:
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    assert {"sessions", "messages", "checkpoints", "snapshots"} <= names


def test_the_pages_that_come_with_it() -> None:
    """K-14 and NFR-3: each has something to say, and the version is one that can be released."""
    for name in PAGES:
        assert (tasks.ROOT / name).stat().st_size > 100, name
    version = importlib.metadata.version("compactctl")
    assert f"## [{version}]" in (tasks.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_it_is_checked_as_it_says() -> None:
    """K-13 and NFR-4: one command for what is quick, one for all of it. NFR-5 is held by
    `tests/architecture/test_wheels.py`.
    """
    said = subprocess.run(
        [sys.executable, str(tasks.ROOT / "tasks.py"), "--help"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for task in ("test", "test-all", "timing", "nightly", "bench", "evals"):
        assert f"\n  {task} " in said

"""What a stored turn asks of SQLite, in statements and transactions; and that who asks so little
still sees what anybody else stored (issue 26, point 3).
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from compact import ContextManager, SQLiteManager
from compact.errors import NotFound, StoreFailed
from compact.messages import chain
from compact.messages.formats.known import format_named
from compact.messages.sessions import PERSON, Entry
from compact.store.sqlite import search
from tests.store.making import session as new_session

VERSION = 'pragma "data_version"'
Statements = list[str]


@pytest.fixture
def statements() -> Iterator[Statements]:
    """All that is asked of SQLite by connections that are opened from now on."""
    asked: Statements = []

    def watch(db: apsw.Connection) -> None:
        def note(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
            asked.append(" ".join(sql.split()))
            return True

        db.exec_trace = note

    apsw.connection_hooks.append(watch)
    yield asked
    apsw.connection_hooks.remove(watch)


def opened(store: Path | SQLiteManager, name: str = "s", window: int = 8_192) -> ContextManager:
    return ContextManager(window=window, store=store, session_id=name, tokenizer="o200k")


def talked(store: Path | SQLiteManager) -> ContextManager:
    """A session with some turns, the last of which was shown."""
    ctx = opened(store)
    for i in range(3):
        ctx.add_message(role="user", content=f"Is beam {i} sound?")
        ctx.get_context_for_model()
        ctx.add_message(role="assistant", content="It is.")
    ctx.get_context_for_model()
    return ctx


def entry(position: int) -> Entry:
    raw = {"role": "user", "content": f"Is beam {position} sound?"}
    return Entry(format_named("chat_completions").parse(raw, position), 8, PERSON)


def transactions(asked: Statements) -> int:
    return sum(each.startswith("BEGIN") for each in asked)


def texts(ctx: ContextManager) -> list[str]:
    return [each["content"] for each in ctx.get_context_for_model()]


# --- how much is asked ----------------------------------------------------------------------------


def test_a_prompt_with_nothing_new_asks_one_thing(tmp_path: Path, statements: Statements) -> None:
    with talked(tmp_path / "s.db") as ctx:
        statements.clear()
        ctx.get_context_for_model()
        assert statements == [VERSION]


def test_an_append_is_one_insert(tmp_path: Path, statements: Statements) -> None:
    with SQLiteManager(tmp_path / "s.db") as store:
        store.session("s", create=new_session("s"))
        store.append("s", [entry(0)], expected=0)
        statements.clear()
        assert store.append("s", [entry(1)], expected=1) == 2
        begin, insert, end = statements
        assert (begin, insert[:16], end) == ("BEGIN IMMEDIATE", "INSERT OR IGNORE", "COMMIT")
        assert "archived" not in insert


def test_a_stored_turn(tmp_path: Path, statements: Statements) -> None:
    with talked(tmp_path / "s.db") as ctx:
        statements.clear()
        ctx.add_message(role="user", content="And the roof?")
        ctx.get_context_for_model()
        ctx.add_message(role="assistant", content="It holds.")
        assert (len(statements), transactions(statements)) == (7, 2)
        assert not [each for each in statements if "archived" in each]


def test_an_opening_reads_in_one_transaction(tmp_path: Path, statements: Statements) -> None:
    with SQLiteManager(tmp_path / "s.db") as store:
        talked(store).close()
        statements.clear()
        with opened(store):
            assert (len(statements), transactions(statements)) == (15, 1)


def test_what_is_read_at_once_hides_nothing(tmp_path: Path) -> None:
    """It is of one moment, until it ends or something is written; and then it has changed."""
    with SQLiteManager(tmp_path / "s.db") as store, SQLiteManager(tmp_path / "s.db") as other:
        store.session("s", create=new_session("s"))
        with store.at_once():
            before = store.version()
            assert store.notes("s") == {}
            other.note("s", "x", {"y": 1})
            assert (store.notes("s"), store.version()) == ({}, before)
        assert store.version() != before
        assert store.notes("s") == {"x": {"y": 1}}
        with store.at_once():
            other.note("s", "x", {"y": 2})
            store.note("s", "z", {})
            assert store.notes("s") == {"x": {"y": 2}, "z": {}}
        with store.at_once():
            with pytest.raises(NotFound):
                store.read("nowhere", 0, 9)
            other.note("s", "x", {"y": 3})
            assert store.notes("s")["x"] == {"y": 3}, "who tries again sees what is there by now"


def test_the_index_is_marked_once(tmp_path: Path, statements: Statements) -> None:
    """What the index lacks is noted once, not by each message; and again when it has caught up."""
    with SQLiteManager(tmp_path / "s.db") as store:
        store.session("s", create=new_session("s"))
        store.append("s", [entry(0)])
        store.append("s", [entry(1)])
        assert len(store.search("s", "beam", most=9)) == 2
        statements.clear()
        store.append("s", [entry(2)])
        assert len(statements) == 4
        store.append("s", [entry(3)])
        assert len(statements) == 7
        assert store.unindexed() == 2
        assert store.catch_up()
        assert store.unindexed() == 0
        assert len(store.search("s", "beam", most=9)) == 4


def test_many_short_sessions_are_indexed_in_one_transaction(
    tmp_path: Path, statements: Statements
) -> None:
    """Each transaction waits for the disk. A batch ends within a branch, and goes on there."""
    with SQLiteManager(tmp_path / "s.db") as store:
        names = [f"s{number}" for number in range(40)]
        for name in names:
            store.session(name, create=new_session(name))
            store.append(name, [entry(position) for position in range(15)])
        statements.clear()
        assert store.catch_up()
        assert statements.count("BEGIN IMMEDIATE") == 2, "600 messages are two batches"
        assert store.unindexed() == 0
        for name in names:
            assert len(store.search(name, "beam", most=99)) == 15
        table = store.turns(None)
        assert [len(table.of([name])) for name in names] == [15] * 40


# --- and still everything is seen -----------------------------------------------------------------


def beside(ctx: ContextManager, tmp_path: Path, kind: str) -> ContextManager:
    """The same session, opened a second time."""
    store = ctx._session.state.store
    assert isinstance(store, SQLiteManager)
    return opened(store if kind == "one store" else tmp_path / "s.db")


CHANGES: dict[str, Callable[[ContextManager], object]] = {
    "messages": lambda other: other.add_message(role="user", content="What of the gate?"),
    "goals": lambda other: other.goals.set(["Mend the gate"]),
    "compression": lambda other: other.compress_conversation(0.1),
}


@pytest.mark.parametrize("kind", ["one store", "one file"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_another_manager_did_is_in_the_next_prompt(
    tmp_path: Path, kind: str, change: str
) -> None:
    with talked(tmp_path / "s.db") as ctx, beside(ctx, tmp_path, kind) as other:
        for i in range(20):
            ctx.add_message(role="user", content=f"Then beam {i}: " + "is it sound? " * 9)
            ctx.add_message(role="assistant", content="It is sound. " * 9)
        before = texts(ctx)
        assert texts(ctx) == before
        CHANGES[change](other)
        assert texts(ctx) == texts(other) != before


def test_what_could_not_be_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreFailed("the disk is away")

    with talked(tmp_path / "s.db") as ctx, beside(ctx, tmp_path, "one file") as other:
        for i in range(20):
            ctx.add_message(role="user", content=f"Then beam {i}: " + "is it sound? " * 9)
            ctx.add_message(role="assistant", content="It is sound. " * 9)
        before = texts(ctx)
        other.compress_conversation(0.1)
        for method in ("notes", "changes", "moves", "projection"):
            with monkeypatch.context() as patched:
                patched.setattr(ctx._session.state.store, method, fail)
                with pytest.raises(StoreFailed):
                    texts(ctx)
        assert texts(ctx) == texts(other) != before


def test_what_was_archived_meanwhile_is_gone_on_with(tmp_path: Path) -> None:
    with talked(tmp_path / "s.db") as ctx:
        with SQLiteManager(tmp_path / "s.db") as other:
            now, folder = datetime.now(UTC), tmp_path / "archive"
            assert other.archive_sessions(["s"], folder=folder, now=now).archived
        assert texts(ctx)[-1] == "It is."
        ctx.add_message(role="user", content="And the roof?")
        assert texts(ctx)[-1] == "And the roof?"
        store = ctx._session.state.store
        assert isinstance(store, SQLiteManager)
        assert len(store.archived_sessions()) == 1
        assert store.integrity_check() == []


def test_what_was_deleted_meanwhile_is_not_appended_to(tmp_path: Path) -> None:
    with SQLiteManager(tmp_path / "s.db") as store, SQLiteManager(tmp_path / "s.db") as other:
        store.session("s", create=new_session("s"))
        store.append("s", [entry(0)])
        other.delete_session("s")
        with pytest.raises(NotFound):
            store.append("s", [entry(1)])
        other.session("s", create=new_session("s"))
        assert store.append("s", [entry(0)]) == 1
        assert store.integrity_check() == []


def test_an_append_goes_on_from_the_chain_that_is_stored(tmp_path: Path) -> None:
    """As after a repair by another process."""
    with SQLiteManager(tmp_path / "s.db") as store, SQLiteManager(tmp_path / "s.db") as other:
        store.session("s", create=new_session("s"))
        store.append("s", [entry(0)])
        other.db.execute("UPDATE messages SET chain_hash = ?", (b"repaired",))
        said = entry(1)
        store.append("s", [said])
        assert store.chain("s", 2) == chain.link(b"repaired", said.message)


def test_the_index_may_catch_up_in_between(tmp_path: Path) -> None:
    with SQLiteManager(tmp_path / "s.db") as store, SQLiteManager(tmp_path / "s.db") as other:
        store.session("s", create=new_session("s"))
        for i in range(4):
            store.append("s", [entry(i)])
            search.catch_up_branch(other.pool, "s")
        store.append("s", [entry(4), entry(5)])
        assert len(other.search("s", "beam", most=9)) == 6


def test_a_store_that_nobody_holds_closes_its_file(tmp_path: Path) -> None:
    """What counts its transactions does not hold it."""
    gc.collect()
    gc.disable()
    try:
        pool = weakref.ref(SQLiteManager(tmp_path / "s.db").pool)
        assert pool() is None
    finally:
        gc.enable()


def test_a_version_is_told_while_another_thread_writes(tmp_path: Path) -> None:
    """It never waits for a writer: then nobody can tell, and all is read."""
    with talked(tmp_path / "s.db") as ctx, ThreadPoolExecutor(1) as pool:
        store = ctx._session.state.store
        assert isinstance(store, SQLiteManager)
        with store.pool.write():
            assert pool.submit(store.version).result(9) is None
            assert pool.submit(texts, ctx).result(9)[-1] == "It is."
        assert pool.submit(store.version).result(9) is not None

"""Sessions in PostgreSQL keep the promises of every session store, on several hosts (issue 29)."""

import threading
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from compact import CompactManager, ContextManager, MemoryManager, SQLiteManager
from compact.errors import InvalidArgument, InvalidInput, NotFound, StoreFailed, Superseded
from compact.exchange.exporting import whole_session
from compact.messages.formats.known import prompt_of
from compact.store.postgres import connection, rows
from compact.store.postgres.store import PostgresStore
from compact.store.session_file import packed
from compact.testing import HashEmbedder, check_session_store
from tests.killing import Nursery, forking
from tests.store import postgres_writer
from tests.store.making import assert_chained, entry, session, step, texts
from tests.store.postgres_server import OLDEST, Server, running
from tests.store.statements import ACROSS, untenanted

pytestmark = pytest.mark.slow


@pytest.fixture
def server(postgres: Server) -> Server:
    return postgres


@pytest.fixture
def address(server: Server) -> str:
    return server.database()


def test_the_store_keeps_its_promises(server: Server) -> None:
    check_session_store(lambda: PostgresStore(server.database()))


def test_the_oldest_server_keeps_them_too() -> None:
    with running(OLDEST) as old:
        check_session_store(lambda: PostgresStore(old.database()))


def conversation(store: Any) -> tuple[Any, ...]:
    with ContextManager(window=3_000, store=store, session_id="a", scope="x") as ctx:
        for turn in range(60):
            words = f"{turn} berths of the harbour are free, says the ledger. " * 4
            ctx.add_message(role="user", content=words, id=f"user-{turn:04}")
            ctx.add_message(role="assistant", content=f"Noted: {turn}.", id=f"answer-{turn:04}")
            ctx.active_context()
        ctx.pin("user-0003")
        ctx.compress_conversation()
        before = prompt_of(ctx.active_context())
        ctx.time.undo()
        undone = prompt_of(ctx.active_context())
        ctx.time.redo()
        assert prompt_of(ctx.active_context()) == before
    with ContextManager(window=3_000, store=store, session_id="a", scope="x") as ctx:
        assert prompt_of(ctx.active_context()) == before
        found = {each.position for each in ctx.recall("17 berths")}
        return [m["role"] for m in before], len(undone), found, len(ctx.checkpoints)


def test_a_conversation_is_the_one_that_sqlite_keeps(address: str) -> None:
    with SQLiteManager() as store:
        wanted = conversation(store)
    assert conversation(address) == wanted


def test_an_address_names_the_store(address: str) -> None:
    with CompactManager(store=address, scope="x") as manager:
        sent = manager.preflight("a", [{"role": "user", "content": "hello"}])
    assert sent == [{"role": "user", "content": "hello"}]
    with closing(PostgresStore(address, scope="x")) as store:
        assert texts(store.read("a", 0, 9)) == ["hello"]


def test_scopes_do_not_see_each_other(address: str) -> None:
    """Ids are those of a scope, so tenants cannot meet."""
    one, two = PostgresStore(address, scope="one"), PostgresStore(address, scope="two")
    everyone = PostgresStore(address)
    with closing(one), closing(two), closing(everyone):
        for store, scope in ((one, "one"), (two, "two")):
            store.session("a", create=session("a", scope=scope))
            store.append("a", [entry(f"secret of {scope}")])
        assert texts(one.read("a", 0, 9)) == ["secret of one"]
        assert [each.scope for each in one.sessions()] == ["one"]
        assert one.sessions(scope="two") == []
        assert two.search("a", "one", most=9) == []
        two.delete_session("a")
        with pytest.raises(NotFound):
            two.read("a", 0, 9)
        assert texts(one.read("a", 0, 9)) == ["secret of one"]
        with pytest.raises(InvalidInput, match="scope"):
            one.session("b", create=session("b", scope="two"))
        two.session("a", create=session("a", scope="two"))
        with pytest.raises(InvalidInput, match="two scopes have 'a'"):
            everyone.session("a")


def test_each_statement_names_one_scope(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that distributes by tenant sends it to one node."""
    asked: list[tuple[str, Any]] = []
    send = connection._sent

    def noted(db: connection.Connection, sql: str, given: connection.Given) -> Any:
        asked.append((sql, given))
        return send(db, sql, given)

    monkeypatch.setattr(connection, "_sent", noted)
    with closing(PostgresStore(address, scope="x")) as store:
        conversation(store)
        store.fork("a", 7)
        store.commit(step(store, "a", 1))
        store.describe("a", title="T", metadata={})
        store.checkpoints("a")
        store.sessions()
        with MemoryManager(store, scope="x", embedder=HashEmbedder(16)) as memory:
            memory.embed()
            assert memory.search("berths of the harbour", sessions=["a"]).hits
            memory.age(datetime(2031, 1, 1, tzinfo=UTC))
            memory.status()
            memory.forget("a")
        assert store.integrity_check() == []
    others = "regclass", "compact.version"
    own = [(x, y) for x, y in asked if "compact." in x and not any(each in x for each in others)]
    assert len(own) > 100
    for sql, given in own:
        assert ACROSS not in sql
        if not sql.lstrip().startswith("CREATE"):
            values = list(given.values()) if isinstance(given, dict) else list(given)
            assert values.count("x") >= 1, sql


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT 1 FROM compact.sessions WHERE id = %s", ["sessions"]),
        ("SELECT 1 FROM compact.sessions WHERE scope = %s OR scope IS NULL", []),
        ("DELETE FROM compact.log WHERE scope > %s", ["log"]),
        ("INSERT INTO compact.log VALUES (%s, %s)", []),
        ("INSERT INTO compact.log SELECT id, %s FROM x", ["log"]),
        ("SELECT 1 FROM compact.log l JOIN compact.words w ON w.scope = %s", ["log"]),
        ("SELECT 1 FROM compact.log l JOIN compact.words w ON w.scope = l.scope", ["log"]),
        ("UPDATE compact.words SET x = (SELECT 1 FROM compact.log WHERE scope = %s)", ["log"]),
    ],
)
def test_a_statement_without_its_tenant_is_noticed(sql: str, tables: list[str]) -> None:
    assert untenanted(sql) == tables


def test_hosts_append_and_compress_one_session_at_once(address: str) -> None:
    def host(number: int) -> None:
        with ContextManager(window=2_000, store=address, session_id="a") as ctx:
            for turn in range(15):
                ctx.add_message(role="user", content=f"{number}.{turn} " + "word " * 60)
                ctx.active_context()

    threads = [threading.Thread(target=host, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with closing(PostgresStore(address, scope="default")) as store:
        said = [each.split()[0] for each in texts(assert_chained(store, "a"))]
        assert sorted(said) == sorted(f"{host}.{turn}" for host in range(4) for turn in range(15))
        moves = store.moves("a", most=999)
        assert len({move.number for move in moves}) == len(moves) > 0
    with ContextManager(window=2_000, store=address, session_id="a") as ctx:
        assert ctx.active_context().tokens <= 2_000


@forking
@pytest.mark.parametrize("crashes", [0, 3])
def test_what_was_acknowledged_is_there_once(server: Server, tmp_path: Path, crashes: int) -> None:
    """Writers are killed, or the server is, while they append."""
    (tmp_path / "chat.db").write_text(server.database())
    with Nursery(postgres_writer.__name__, tmp_path, 1) as nursery:
        if crashes:
            ended = threading.Event()

            def crash() -> None:
                for _ in range(crashes):
                    server.crash()
                    ended.wait(0.3)

            crashing = threading.Thread(target=crash)
            crashing.start()
            nursery.run("w", 400)
            crashing.join()
        else:
            for number in range(12):
                nursery.run(number, 400, lines=3 + number)
        rows = nursery.promised()
    with closing(PostgresStore((tmp_path / "chat.db").read_text(), scope="default")) as store:
        said = texts(assert_chained(store, "a"))
    promised = [each for row in rows for each in row.get("promised", ())]
    assert promised
    assert [each for each in said if each in set(promised)] == promised, "each once, in order"
    for question, answer in zip(said[::2], said[1::2], strict=True):
        assert answer == question.replace("question", "answer"), "a turn is whole"


def test_what_cannot_be_is_refused_in_words(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = "postgresql://me:hidden@localhost:1/db"
    with pytest.raises(StoreFailed, match=r"me@localhost:1/db cannot be reached") as refused:
        PostgresStore(nowhere).sessions()
    assert "hidden" not in str(refused.value)
    with pytest.raises(InvalidArgument, match="is no address"):
        PostgresStore("postgresql://localhost/db?nonsense=1").sessions()
    with closing(PostgresStore(address)) as store:
        store.sessions()
        store.close()
        with pytest.raises(StoreFailed, match="the store is closed"):
            store.sessions()
    monkeypatch.setattr("compact.store.postgres.schema.VERSION", 1)
    with pytest.raises(StoreFailed, match="of version 2, 1 is known: update compact"):
        PostgresStore(address).sessions()


def test_a_whole_session_moves_from_sqlite_and_back(address: str) -> None:
    with SQLiteManager() as file, closing(PostgresStore(address, scope="x")) as store:
        conversation(file)
        branch = file.fork("a", 9)
        file.append(branch.id, [entry("another way")])
        whole = whole_session(file, "a")
        store.put_session(whole)
        moved = whole_session(store, "a")
        assert moved.parts == whole.parts
        assert moved.projections == whole.projections
        assert store.chain("a", 999) == file.chain("a", 999)
        with pytest.raises(Superseded):
            store.put_session(whole)
    with SQLiteManager() as other:
        other.put_session(moved)
        assert packed(whole_session(other, "a")) == packed(whole)


# --- what meets in one moment ---------------------------------------------------------------------


def ends_when_another_waits(db: psycopg.Connection[Any], address: str) -> threading.Thread:
    """Commit as soon as somebody waits for what this connection holds."""
    ask = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"

    def watch() -> None:
        with psycopg.connect(address, autocommit=True) as watching:
            while not watching.execute(ask).fetchall():
                pass
        db.commit()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_what_is_appended_while_its_session_is_deleted_is_deleted(address: str) -> None:
    with closing(PostgresStore(address, scope="x")) as store, psycopg.connect(address) as db:
        store.session("a", create=session("a", scope="x"))
        tail = store._tail("a", None)
        columns = rows.columns_of([entry("a secret")], tail)
        db.execute(rows.APPEND.encode(), {**columns, **store._key_of("a")})
        ending = ends_when_another_waits(db, address)
        store.delete_session("a")
        ending.join()
        assert db.execute("SELECT count(*) FROM compact.messages").fetchall() == [(0,)]


def test_an_append_that_the_server_still_works_at_is_stored_once(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(PostgresStore(address, scope="x")) as store, psycopg.connect(address) as db:
        store.session("a", create=session("a", scope="x"))
        run, endings = store._server.query, list[threading.Thread]()

        def breaks(sql: str, given: Any, *, again: bool = True) -> list[Any]:
            if sql == rows.APPEND and not endings:
                db.execute(sql.encode(), given)
                endings.append(ends_when_another_waits(db, address))
                raise connection.Broken("the connection broke")
            return run(sql, given, again=again)

        monkeypatch.setattr(store._server, "query", breaks)
        assert store.append("a", [entry("once")]) == 1
        endings[0].join()
        assert texts(store.read("a", 0, 9)) == ["once"]


def test_all_connections_break_at_once(address: str) -> None:
    with closing(PostgresStore(address, scope="x")) as store:
        with ExitStack() as stack:
            for _ in range(4):
                stack.enter_context(store._server.transaction())
        with psycopg.connect(address, autocommit=True) as db:
            others = (
                "pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type LIKE 'client%'"
            )
            db.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM {others}")
        assert store.sessions() == []


def test_two_make_one_session(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(PostgresStore(address)) as store, closing(PostgresStore(address)) as other:

        def late(table: str, name: str) -> str:
            other.session(name, create=session(name, scope="x", title="first"))
            raise NotFound(name)

        monkeypatch.setattr(store, "_scope_of", late)
        assert store.session("a", create=session("a", scope="x")).title == "first"


def test_managers_of_two_tenants_have_sessions_of_one_name(address: str) -> None:
    said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Hello."}]
    with CompactManager(store=address, scope="x") as one:
        one.preflight("a", said)
        with CompactManager(store=address, scope="y") as two:
            assert two.recognize(said) is None
            assert two.preflight("a", said[:1]) == said[:1]
        assert one.recognize(said) == "a"
        assert len(one.session("a").history) == 2


# --- round trips ----------------------------------------------------------------------------------


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A name for each time that something is sent to the server."""
    sent: list[str] = []

    def counted(name: str, run: Any) -> Any:
        def called(*given: Any, **more: Any) -> Any:
            sent.append(f"{name} {given[1:]}")
            return run(*given, **more)

        return called

    for name in ("_query", "_together", "transaction"):
        run = getattr(connection.Connections, name)
        monkeypatch.setattr(connection.Connections, name, counted(name, run))
    return sent


def test_an_open_is_two_round_trips_and_a_turn_three(address: str, trips: list[str]) -> None:
    """Whether a session is bare, or long and compressed. Of older messages, which are asked for
    later, each page is read once.
    """
    with PostgresStore(address, scope="x") as store:
        conversation(store)
        with ContextManager(window=3_000, store=store, session_id="b", scope="x") as ctx:
            ctx.add_message(role="user", content="hello")
        for name in ("a", "b"):
            trips.clear()
            with ContextManager(window=3_000, store=store, session_id=name, scope="x") as ctx:
                assert [each.split()[0] for each in trips] == ["_together"] * 2
                ctx.get_context_for_model()
                pages, turns = list[str](), list[int]()
                for turn in range(6):
                    trips.clear()
                    ctx.add_message(role="user", content=f"And berth {turn}?")
                    ctx.get_context_for_model()
                    ctx.add_message(role="assistant", content="Free.")
                    older = [each for each in trips if "AS whole LEFT JOIN" in each]
                    pages += older
                    turns.append(len(trips) - len(older))
                assert turns[1:] == [3] * 5
                assert len(set(pages)) == len(pages)


def test_what_is_read_ahead_hides_nothing(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another host does between the two round trips of an opening is in the next prompt."""
    with PostgresStore(address, scope="x") as store, PostgresStore(address, scope="x") as other:
        conversation(store)
        together, trips = connection.Connections._together, list[int]()

        def meanwhile(self: connection.Connections, planned: Any) -> Any:
            rows = together(self, planned)
            if not trips:
                trips.append(1)
                with ContextManager(window=3_000, store=other, session_id="a", scope="x") as ctx:
                    ctx.add_message(role="user", content="Between the two.")
                    ctx.goals.set(["Find a berth"])
            return rows

        monkeypatch.setattr(connection.Connections, "_together", meanwhile)
        with ContextManager(window=3_000, store=store, session_id="a", scope="x") as ctx:
            assert ctx.get_context_for_model()[-1]["content"].endswith("Between the two.")
            assert [goal.text for goal in ctx.goals] == ["Find a berth"]
        with ContextManager(window=3_000, store=other, session_id="a", scope="x") as ctx:
            other.note("a", "x", {"y": 1})
            assert other.notes("a")["x"] == {"y": 1}


def test_within_a_block_a_write_is_seen_at_once(address: str) -> None:
    with PostgresStore(address, scope="x") as store:
        store.session("a", create=session("a", scope="x"))
        with store.at_once():
            store.read_ahead(lambda: store.notes("a"), lambda: store.read("a", 0, 9))
            assert (store.notes("a"), store.read("a", 0, 9)) == ({}, [])
            store.note("a", "x", {"y": 1})
            store.append("a", [entry("said")])
            assert store.notes("a") == {"x": {"y": 1}}
            assert texts(store.read("a", 0, 9)) == ["said"]

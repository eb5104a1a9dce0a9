"""Memory in PostgreSQL: answers as from a file, tenants apart, and moving there and back."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from compact import ArchivalManager, ContextManager, MemoryManager, SQLiteManager
from compact.cli.main import main
from compact.errors import InvalidArgument, InvalidConfig, InvalidInput, NotFound
from compact.exchange.exporting import whole_session
from compact.exchange.moving import move
from compact.store.postgres import schema
from compact.store.postgres.setup import TABLES, set_up
from compact.store.postgres.store import PostgresStore
from compact.store.session_file import packed
from compact.testing import HashEmbedder
from tests.session.test_memory_manager import put
from tests.session.test_scopes import LISTING, REFUSED, WORDS, opened
from tests.store.making import entry, texts
from tests.store.postgres_server import Server

pytestmark = pytest.mark.slow
DAY = datetime(2026, 3, 1, 9, tzinfo=UTC)
SUBJECTS = "harbour office", "roof of the barn", "blue kettle", "winter berth", "crane licence"


@pytest.fixture
def address(postgres: Server) -> str:
    return postgres.database()


def filled(store: Any, scope: str = "default") -> None:
    for number, subject in enumerate((*SUBJECTS, *SUBJECTS)):
        said = (f"Where is the {subject} {number}?", "By the quay.", f"I moved the {subject}s.")
        put(store, f"s{number}", *said, scope=scope, at=DAY + timedelta(days=number))
    store.fork("s3", 1)
    branch = store.session("s3").branch.id
    store.append(branch, [entry("The winter berth is let.")])


def answers(memory: MemoryManager) -> list[Any]:
    asked = [*SUBJECTS, "what did I move in March 2026?", "quays", "the berths that are let"]
    options: list[dict[str, Any]] = [{}, {"method": "lexical"}, {"sessions": ["s3", "s4"]}]
    results = [memory.search(each, **given) for each in asked for given in options]
    return [
        [(hit.session_id, hit.position, round(hit.score, 4), hit.text) for hit in result.hits]
        for result in results
    ]


def test_a_memory_answers_as_from_a_file(address: str) -> None:
    with SQLiteManager() as file, PostgresStore(address) as server:
        memories = [MemoryManager(each, embedder=HashEmbedder(32)) for each in (file, server)]
        for store, memory in zip((file, server), memories, strict=True):
            filled(store)
            assert memory.embed() == 31
            assert memory.unembedded() == 0
        assert answers(memories[1]) == answers(memories[0])
        for store in (file, server):  # what is known is added to
            store.append("s0", [entry("The harbour office has a new roof.")])
        assert memories[1].embed() == 1
        memories[0].embed()
        assert answers(memories[1]) == answers(memories[0])
        with MemoryManager(address, embedder=HashEmbedder(32)) as other:
            assert answers(other) == answers(memories[0])
            assert other.search("quay", method="semantic").method == "semantic"
        assert [each.session_id for each in memories[1].timeline()] == [
            each.session_id for each in memories[0].timeline()
        ]


def test_another_embedder_takes_the_place_of_the_first(address: str) -> None:
    with PostgresStore(address) as server:
        filled(server)
        MemoryManager(server, embedder=HashEmbedder(32)).embed()
        memory = MemoryManager(server, embedder=HashEmbedder(16))
        assert memory.embed(most=10) == 10
        assert memory.unembedded() == 21
        assert memory.embed() == 21
        with psycopg.connect(address) as db:
            told = (
                "SELECT count(DISTINCT generation), min(vector_dims(vector)) FROM compact.vectors"
            )
            assert db.execute(told).fetchall() == [(1, 16)]


def test_what_is_forgotten_leaves_no_row(address: str) -> None:
    with PostgresStore(address, scope="x") as server:
        filled(server, "x")
        with ContextManager(
            window=4_096, store=server, session_id="new", scope="x", memory=True
        ) as ctx:
            ctx.add_message(role="user", content="Where is my crane licence 4, by the quay?")
            assert "crane licence 4" in str(ctx.get_context_for_model())
        memory = MemoryManager(server, scope="x", embedder=HashEmbedder(32))
        memory.embed()
        memory.age(DAY + timedelta(days=60))
        report = memory.forget("s4")
        assert report.quoted == {"new": 1}
        assert report.is_complete
        assert {"sessions", "messages", "words", "vectors", "log"} <= set(report.removed)
        with psycopg.connect(address) as db:
            for table in TABLES:
                rows = db.execute(f"SELECT * FROM compact.{table}".encode()).fetchall()
                assert not any(b"s4" in row or "the crane licence 4" in repr(row) for row in rows)
        assert memory.forget(person="x").removed["sessions"] == 10
        with psycopg.connect(address) as db:
            for table in TABLES:
                count = db.execute(f"SELECT count(*) FROM compact.{table}".encode()).fetchall()
                assert count == [(0,)], table


# --- tenants --------------------------------------------------------------------------------------


@pytest.fixture
def tenants(address: str) -> Iterator[PostgresStore]:
    """Sessions of three scopes; theirs is bob's."""
    with PostgresStore(address) as made:
        with ContextManager(window=4_096, store=made, session_id="theirs", scope="bob") as ctx:
            ctx.goals.set([f"Find where the {WORDS}."])
            ctx.add_message(role="user", content=f"The {WORDS}.", id="their-own-id")
            ctx.time.snapshot(f"The {WORDS}")
        for name in ("alice", "default"):
            put(made, f"own-{name}", "The gate is open.", scope=name)
        made.turns("bob")
        yield made


def test_no_method_crosses_a_scope_on_a_server(tenants: PostgresStore) -> None:
    """Ids are those of a scope here: who names a session of bob's may make one of the name."""
    bob, alice = tenants.within_scope("bob"), tenants.within_scope("alice")
    before = packed(whole_session(bob, "theirs"))
    for table, is_refused in ((REFUSED, True), (LISTING, False)):
        for kind, calls in table.items():
            for name, call in calls.items():
                if kind is ArchivalManager or name in ("archive", "restore"):
                    continue  # a server has no archive
                about, answer = opened(kind, tenants, "alice"), ""  # type: ignore[arg-type]
                with suppress(*((NotFound, InvalidInput, InvalidConfig) if is_refused else ())):
                    answer = repr(call(about))
                secrets = ["heron", "their-own-id", *([] if is_refused else ["theirs"])]
                assert not any(each in answer for each in secrets), name
                assert packed(whole_session(bob, "theirs")) == before, name
                with suppress(NotFound):
                    alice.delete_session("theirs")


def test_memories_of_two_tenants_have_sessions_of_one_name(address: str) -> None:
    with PostgresStore(address) as store:
        for scope in ("one", "two"):
            put(store.within_scope(scope), "a", f"The roof of {scope} is tight.", scope=scope)
        one, two = (MemoryManager(store, scope=scope) for scope in ("one", "two"))
        assert [hit.text for hit in one.search("roof").hits] == ["The roof of one is tight."]
        one.add_message("a", "user", "And the roof of the barn?")
        one.describe("a", title="Mine")
        one.forget("a")
        assert one.sessions() == []
        assert [hit.text for hit in two.search("roof").hits] == ["The roof of two is tight."]
        assert two.session("a").title is None


def as_role(address: str, role: str) -> str:
    return urlsplit(address)._replace(netloc=f"{role}@").geturl()


def test_a_session_that_forgets_its_filter_sees_nothing(
    tenants: PostgresStore, address: str
) -> None:
    with psycopg.connect(address, autocommit=True) as db, suppress(psycopg.errors.DuplicateObject):
        db.execute("CREATE ROLE chat LOGIN")
    MemoryManager(tenants, scope="bob", embedder=HashEmbedder(16)).embed()
    for _ in range(2):  # doing it again does no harm
        assert list(set_up(address, role="chat"))[-1].startswith("'chat' sees the rows")
    with psycopg.connect(as_role(address, "chat"), autocommit=True) as db:
        counts = {t: f"SELECT count(*) FROM compact.{t}".encode() for t in TABLES}
        assert [db.execute(sql).fetchone() for sql in counts.values()] == [(0,)] * len(TABLES)
        db.execute("SET compact.scope = 'alice'")
        assert db.execute(counts["sessions"]).fetchone() == (1,)
        assert db.execute("SELECT 1 FROM compact.messages WHERE scope = 'bob'").fetchall() == []
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute("INSERT INTO compact.leases VALUES ('bob', 'x', 'x', now())")
    with PostgresStore(as_role(address, "chat"), scope="bob") as bob:
        assert texts(bob.read("theirs", 0, 9)) == [f"The {WORDS}."]
        memory = MemoryManager(bob, scope="bob", embedder=HashEmbedder(16))
        bob.append("theirs", [entry("They nest again.")])
        memory.embed()
        assert len(memory.search("what nests there?").hits) == 2
        with pytest.raises(NotFound):
            bob.within_scope("alice").session("theirs")
        assert [each.id for each in bob.within_scope("alice").sessions()] == ["own-alice"]
        memory.forget("theirs")
    with pytest.raises(NotFound, match="no role 'nobody'"):
        list(set_up(address, role="nobody"))
    with pytest.raises(InvalidArgument, match="sees all rows"):
        list(set_up(address, role="postgres"))


def test_distribution_is_declared_for_each_table(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With functions of Citus's names, since Citus does not install here."""
    assert main(["store", "init", address, "--citus"]) == 2
    assert "no Citus: run CREATE EXTENSION citus" in capsys.readouterr().err
    with psycopg.connect(address, autocommit=True) as db:
        for sql in (
            "CREATE TABLE pg_dist_partition (logicalrelid regclass, key text, beside text)",
            "CREATE FUNCTION create_distributed_table(regclass, text, colocate_with text) RETURNS "
            "void LANGUAGE sql AS 'INSERT INTO pg_dist_partition VALUES ($1, $2, $3)'",
            "CREATE FUNCTION create_reference_table(regclass) RETURNS void LANGUAGE sql "
            "AS 'INSERT INTO pg_dist_partition VALUES ($1, NULL, NULL)'",
        ):
            db.execute(sql.encode())
        try:
            for _ in range(2):
                assert main(["store", "init", address, "--citus"]) == 0
            rows = db.execute(
                "SELECT logicalrelid::regclass::text, key, beside FROM pg_dist_partition"
            )
            told = {name: (key, beside) for name, key, beside in rows.fetchall()}
            beside = "compact.sessions"
            wanted = {f"compact.{name}": ("scope", beside) for name in TABLES[1:]}
            first = {"compact.sessions": ("scope", "none"), "compact.version": (None, None)}
            assert told == {**wanted, **first}
            keys = "SELECT DISTINCT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = "
            keys += "i.indrelid AND a.attnum = i.indkey[0] JOIN pg_class c ON c.oid = i.indrelid "
            keys += "WHERE i.indisunique AND c.relnamespace = 'compact'::regnamespace"
            assert db.execute(keys.encode()).fetchall() == [("scope",)], "as each unique key begins"
        finally:
            db.execute("DROP TABLE pg_dist_partition CASCADE")
            db.execute("DROP FUNCTION create_distributed_table, create_reference_table")


# --- versions -------------------------------------------------------------------------------------


def test_tables_of_the_first_version_are_brought_up_to_date(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(address) as db:
        db.execute(schema.STEPS[0].encode())
        db.execute(
            "INSERT INTO compact.sessions VALUES ('x', 'a', 'a', 0, 0, %s)",
            (b'{"id":"a","scope":"x","created_at":"2026-03-01T09:00:00Z"}',),
        )
        hash = bytes(32)
        db.execute(
            "INSERT INTO compact.branches VALUES "
            "('x', 'a', 'a', NULL, 0, 0, 0, 0, %s, NULL, '2026-03-01T09:00:00+00:00')",
            (hash,),
        )
    with MemoryManager(address, scope="x") as memory:
        memory.add_message("a", "user", "The roof is tight.")
        assert [hit.session_id for hit in memory.search("roof").hits] == ["a"]
    with psycopg.connect(address) as db:
        assert db.execute("SELECT number FROM compact.version").fetchall() == [(schema.VERSION,)]


# --- moving ---------------------------------------------------------------------------------------


def contents(store: Any, scope: str = "default") -> dict[str, Any]:
    own = store.within_scope(scope) if isinstance(store, PostgresStore) else store
    wholes = {each.id: whole_session(own, each.id) for each in own.sessions(scope=scope)}
    return {name: (packed(whole), own.digest(name)) for name, whole in wholes.items()}


def test_all_move_there_and_back(tmp_path: Path, address: str) -> None:
    for each in (tmp_path / "chat.db", tmp_path / "back.db"):
        SQLiteManager(each).close()
    with SQLiteManager(tmp_path / "chat.db") as file:
        filled(file)
        put(file, "other", "Elsewhere.", scope="x")
        with ContextManager(window=2_000, store=file, session_id="long") as ctx:
            for turn in range(40):
                ctx.add_message(role="user", content=f"{turn} berths are free. " * 20)
                ctx.active_context()
            ctx.pin(ctx.history[3].id)
            ctx.time.snapshot("here")
        MemoryManager(file).age(DAY + timedelta(days=60))
        before = contents(file)
        assert any(digest for _, digest in before.values())
    there, back = f"sqlite:{tmp_path}/chat.db", f"sqlite:{tmp_path}/back.db"
    assert main(["move", there, address]) == 0
    assert main(["move", address, back, "--json"]) == 0
    with PostgresStore(address) as server, SQLiteManager(tmp_path / "back.db") as file:
        assert contents(server) == contents(file) == before
        assert contents(server, "x") == contents(file, "x") != {}
        assert server.integrity_check() == file.integrity_check() == []


def test_what_is_added_meanwhile_comes_along_and_nothing_is_overwritten(address: str) -> None:
    def outcomes() -> dict[str, str]:
        return {each.session_id: each.outcome for each in move(file, server)}

    with SQLiteManager() as file, PostgresStore(address) as server:
        for name in ("stays", "grows", "goes on", "both", "leaves"):
            put(file, name, "The roof is tight.")
        put(server, "taken", "Another one.")
        put(file, "taken", "The roof is tight.")
        first = outcomes()
        assert first == {**dict.fromkeys(first, "moved"), "taken": "kept"}
        for name in ("grows", "both"):
            file.append(name, [entry("added in the file")])
        file.note("stays", "colour", {"blue": 1})
        for name in ("goes on", "both"):
            server.append(name, [entry("added on the server")])
        file.delete_session("leaves")
        wanted = {"grows": "renewed", "stays": "renewed", "goes on": "there", "both": "kept"}
        assert outcomes() == {**wanted, "taken": "kept", "leaves": "gone"}
        assert outcomes() == {
            **wanted, "grows": "there", "stays": "there", "taken": "kept", "leaves": "gone",
        }  # fmt: skip
        assert texts(server.read("grows", 1, 9)) == ["added in the file"]
        assert texts(server.read("both", 1, 9)) == ["added on the server"]
        assert server.notes("stays")["colour"] == {"blue": 1}


def test_another_session_of_that_id_is_not_replaced(address: str) -> None:
    """Two hosts' files have a session of one name: the one that came first stays."""
    with SQLiteManager() as one, SQLiteManager() as other, PostgresStore(address) as server:
        put(one, "talk", "I am host one.")
        put(other, "talk", "I am host two.")
        assert [each.outcome for each in move(one, server)] == ["moved"]
        for _ in range(2):
            kept = next(each for each in move(other, server) if each.session_id == "talk")
            assert (kept.outcome, "other contents" in kept.why) == ("kept", True)
        assert texts(server.read("talk", 0, 9)) == ["I am host one."]


def test_a_move_that_is_killed_goes_on(tmp_path: Path, address: str) -> None:
    with SQLiteManager(tmp_path / "chat.db") as file:
        for number in range(12):
            put(file, f"s{number}", *(f"{number}.{turn} is said" for turn in range(20)))
        before = contents(file)
    command = [sys.executable, "-m", "compact", "move", f"sqlite:{tmp_path}/chat.db", address]
    with PostgresStore(address) as server:
        for least in (1, 4):
            running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            while len(server.sessions()) < least and running.poll() is None:
                time.sleep(0.01)
            running.send_signal(signal.SIGKILL)
            running.wait()
        assert server.sessions()
        assert server.integrity_check() == []
        assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0
        assert contents(server) == before


def test_wrong_moves_are_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, line in {
        ("sqlite:nowhere.db", "sqlite:x.db"): "there is no store 'nowhere.db': FROM is sqlite:FILE",
        ("sqlite:x.db", "x.db"): "x.db is both FROM and TO",
        ("x.db", "postgresql:db"): "an address begins with postgresql://",
        ("postgresql://u:hidden@localhost:1/d", "x.db"): "@localhost:1/d cannot be reached",
    }.items():
        assert main(["move", *arguments]) == 2
        told = capsys.readouterr().err
        assert line in told
        assert "hidden" not in told

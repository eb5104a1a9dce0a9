"""Jobs of a store on a server: each effect once, whatever happens to the workers (issue 29).

procrastinate comes with the extra `work`. Without it these tests are skipped.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

pytest.importorskip("procrastinate", reason="the extra work is not here")

from procrastinate.exceptions import ConnectorException
from procrastinate.manager import JobManager

from compact import CompactConfig, SQLiteManager
from compact.cli.main import main
from compact.errors import InvalidArgument, StoreFailed
from compact.memory.jobs import Job, run_job
from compact.messages.events import JobEnded
from compact.store.postgres.queue import JobQueue, Pace
from compact.store.postgres.setup import TABLES
from compact.store.postgres.store import PostgresStore
from compact.testing import HashEmbedder
from tests.killing import PATIENCE, ROOT, Nursery, forking
from tests.session.test_memory_manager import put
from tests.store import job_worker
from tests.store.making import entry
from tests.store.postgres_server import Server

pytestmark = pytest.mark.slow
LONG_AGO = datetime.now(UTC) - timedelta(days=40)
QUICK = Pace(look=0.1, beat=0.1, dead=0.5, poll=0.02)
QUEUED = "procrastinate_jobs, procrastinate_workers, procrastinate_periodic_defers"


@pytest.fixture
def address(postgres: Server) -> str:
    made = postgres.database()
    with psycopg.connect(made) as db:
        if db.execute("SELECT to_regclass('procrastinate_jobs')").fetchone() != (None,):
            db.execute(f"TRUNCATE {QUEUED} CASCADE".encode())
    return made


@pytest.fixture
def queue(address: str) -> Iterator[JobQueue]:
    made = JobQueue(address)
    yield made
    made.close()


def talk(store: Any, *names: str, scope: str = "default", turns: int = 24) -> None:
    for name in names:
        said = (f"The roof {turn} of the {name} barn is tight. " * 9 for turn in range(turns))
        put(store, name, *said, scope=scope, at=LONG_AGO)


def compress(session: str, scope: str = "default", window: int = 2_000) -> Job:
    return Job(kind="compress", scope=scope, session=session, arguments={"window": window})


def rows(address: str) -> dict[str, list[Any]]:
    """All that a store has on the server."""
    with psycopg.connect(address) as db:
        found = {x: db.execute("SELECT to_regclass(%s)", (f"compact.{x}",)) for x in TABLES}
        there = [name for name, cursor in found.items() if cursor.fetchone() != (None,)]
        return {
            name: sorted(db.execute(f"SELECT t::text FROM compact.{name} t".encode()).fetchall())
            for name in there
        }


# --- a job ----------------------------------------------------------------------------------------


def test_a_job_is_the_same_in_json() -> None:
    for job in (
        Job(kind="age", scope="tenant-7"),
        Job(kind="age", scope="a\x00b", session="b\x00"),
        compress("harbour"),
    ):
        again = Job.read(job.to_json())
        assert (again, again.key, again.lock) == (job, job.key, job.lock)
        assert Job.read(json.loads(job.to_json())) == job
    assert compress("a").lock == compress("a", window=9_000).lock
    assert compress("a").key != compress("a", window=9_000).key
    assert Job(kind="age", scope="x").lock != Job(kind="embed", scope="x").lock


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "a job is JSON"),
        ({"kind": "dance", "scope": "x"}, "kind: "),
        ({"kind": "age"}, "scope: "),
        ({"kind": "compress", "scope": "x"}, "compress needs a session"),
        ({"kind": "embed", "scope": "x", "session": "s"}, "of a whole scope"),
        ({"kind": "age", "scope": "x", "arguments": {"now": 1}}, "takes no argument 'now'"),
    ],
)
def test_what_is_no_job_is_refused_in_words(given: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        Job.read(given)


KINDS = {
    "age": Job(kind="age", scope="default"),
    "age one": Job(kind="age", scope="default", session="b"),
    "embed": Job(kind="embed", scope="default"),
    "index": Job(kind="index", scope="default"),
    "compress": compress("a"),
}
DONE = {
    "age": "2 digests written",
    "age one": "1 digests written",
    "embed": "48 messages embedded",
    "index": "all messages have words",
    "compress": "1 compressions",
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_its_effect_once(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("compact.wiring.TypedEmbedder", lambda _: HashEmbedder(16))
    settings = CompactConfig(embedder="hash", summarizer="extractive")
    with PostgresStore(address) as server, SQLiteManager(tmp_path / "chat.db") as file:
        for store in (server, file):
            talk(store, "a", "b")
            assert run_job(KINDS[kind].to_json(), store=store, settings=settings) == DONE[kind]
        after = rows(address)
        run_job(KINDS[kind], store=address, settings=settings)  # opened by its name
        assert rows(address) == after
        for scope, name in (("default", "nobody"), ("other", "a")):
            gone = Job(kind="age", scope=scope, session=name)
            assert run_job(gone, store=server) == "the session was deleted"


def test_a_job_that_lacks_something_says_what(address: str) -> None:
    with PostgresStore(address) as server:
        talk(server, "a")
        for job, said in {
            Job(kind="embed", scope="default").to_json(): "has no embedder",
            Job(kind="compress", scope="default", session="a").to_json(): "give the window",
        }.items():
            with pytest.raises(InvalidArgument, match=said):
                run_job(job, store=server, settings=CompactConfig())
    with pytest.raises(InvalidArgument, match="COMPACT_STORE"):
        run_job(KINDS["age"], settings=CompactConfig())


# --- the queue ------------------------------------------------------------------------------------


def test_a_job_waits_once_and_comes_with_its_transaction(address: str, queue: JobQueue) -> None:
    jobs = [compress("a"), compress("b"), compress("a")]
    assert (queue.put(jobs), queue.put(jobs), queue.counts()) == (2, 0, {"todo": 2})
    with psycopg.connect(address) as db:
        assert queue.put([compress("a"), compress("c")], connection=db) == 1
        assert queue.counts() == {"todo": 2}
        db.rollback()
    assert queue.counts() == {"todo": 2}
    with psycopg.connect(address) as db:
        assert queue.put([compress("c")], connection=db) == 1
    assert queue.counts() == {"todo": 3}


def test_a_scope_with_many_jobs_holds_up_no_other(queue: JobQueue) -> None:
    queue.put(compress(f"{n}", "many") for n in range(6))
    queue.put(compress(f"{n}", "two") for n in range(2))
    queue.put([compress("0", "one")])
    order = list[str]()
    queue.work(lambda _: "", tell=lambda job, _: order.append(job.scope), once=True, pace=QUICK)
    assert order == ["many", "two", "one", "many", "two", "many", "many", "many", "many"]


def test_what_is_due_is_read_from_the_rows(
    address: str, queue: JobQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    with PostgresStore(address) as store:
        talk(store, "a")
        talk(store, "b", scope="x")
        every = {(job.kind, job.scope) for job in queue.due(HashEmbedder(16))}
        scopes = ("default", "x")
        assert every == {(kind, scope) for kind in ("age", "embed", "index") for scope in scopes}
        assert main(["work", "--store", address, "--once", "--json"]) == 0
        told = capsys.readouterr()
        assert json.loads(told.out)["done"] == 4
        assert "age 'x': 1 digests written" in told.err
        assert [job.kind for job in queue.due(HashEmbedder(16))] == ["embed", "embed"]
        assert queue.due() == []
        store.append("b", [entry("More is said.")])
        assert [(job.kind, job.scope) for job in queue.due()] == [("index", "x")]
    assert main(["work", "--store", "chat.db"]) == 2
    assert "jobs need a store on a server" in capsys.readouterr().err


# --- failures -------------------------------------------------------------------------------------


def ended(queue: JobQueue, run: Callable[[Job], str], **options: Any) -> list[JobEnded]:
    told = list[JobEnded]()
    queue.work(run, tell=lambda _, event: told.append(event), once=True, pace=QUICK, **options)
    return told


def standing(address: str) -> list[tuple[Any, ...]]:
    sql = "SELECT status::text, args ->> 'why', scheduled_at > now() FROM procrastinate_jobs"
    with psycopg.connect(address) as db:
        return db.execute(sql).fetchall()


def test_a_job_that_fails_while_it_waits_again_does_not_stay_under_way(queue: JobQueue) -> None:
    """procrastinate's own retry fails on the job that waits, and leaves this one for ever."""
    again = [compress("a")]

    def fail(_: Job) -> str:
        queue.put([again.pop()] if again else ())
        raise StoreFailed("the archive is away")

    queue.put([compress("a")])
    assert [(x.outcome, x.tries) for x in ended(queue, fail)] == [("again", 1), ("again", 1)]
    assert queue.counts() == {"todo": 1}


def test_why_a_job_failed_stands_in_its_row(address: str, queue: JobQueue) -> None:
    def fail(error: Exception) -> Callable[[Job], str]:
        def run(_: Job) -> str:
            raise error

        return run

    job = compress("a")
    queue.put([job])
    told = ended(queue, fail(StoreFailed("the archive\x00 is away")))
    assert [(each.outcome, each.tries) for each in told] == [("again", 1)]
    assert standing(address) == [("todo", "the archive  is away", True)]
    with psycopg.connect(address) as db:
        db.execute("UPDATE procrastinate_jobs SET scheduled_at = now()")
    told = ended(queue, fail(KeyError("what somebody said")))
    assert [(each.outcome, each.tries, each.said) for each in told] == [("again", 2, "KeyError")]
    with psycopg.connect(address) as db:
        db.execute("UPDATE procrastinate_jobs SET scheduled_at = now()")
    told = ended(queue, fail(InvalidArgument("window", "give the window")), due=lambda: [job])
    assert [(each.outcome, each.tries) for each in told] == [("failed", 3)]
    assert standing(address)[0][:2] == ("failed", "give the window")
    assert ended(queue, fail(KeyError()), due=lambda: [job]) == []  # not before tomorrow
    assert queue.put([job]) == 1


def test_a_job_whose_end_could_not_be_stored_is_done_again(
    address: str, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker goes on, so its signs of life do too. It ends when it is told to."""
    finish, broken, ran = JobManager.finish_job, [1], list[str]()

    async def breaks(self: Any, *given: Any, **named: Any) -> None:
        if broken:
            broken.pop()
            raise ConnectorException
        await finish(self, *given, **named)

    def tell(job: Job, _: JobEnded) -> None:
        ran.append(job.session or "")
        if len(ran) == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(JobManager, "finish_job", breaks)
    queue.put([compress("a")])
    queue.work(lambda _: "", tell=tell, pace=QUICK)
    assert (ran, queue.counts()) == (["a", "a"], {})


# --- many workers ---------------------------------------------------------------------------------

SEEN = """
    CREATE TABLE IF NOT EXISTS ran (n bigserial, lock text, id bigint, what text);
    CREATE OR REPLACE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF TG_OP = 'UPDATE' AND NEW.status = 'doing' THEN
            INSERT INTO ran (lock, id, what) VALUES (NEW.lock, NEW.id, 'begins');
        ELSIF TG_OP = 'DELETE' OR OLD.status = 'doing' THEN
            INSERT INTO ran (lock, id, what) VALUES (OLD.lock, OLD.id, 'ends');
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER see AFTER UPDATE OF status OR DELETE ON procrastinate_jobs
        FOR EACH ROW EXECUTE FUNCTION see();
"""


@pytest.fixture
def seen(address: str, queue: JobQueue) -> Iterator[Callable[[], list[tuple[Any, ...]]]]:
    """What began and ended, in order: lock, id, what."""
    queue.counts()
    with psycopg.connect(address, autocommit=True) as db:
        db.execute(SEEN.encode())
        yield lambda: db.execute("SELECT lock, id, what FROM ran ORDER BY n").fetchall()
        db.execute("DROP TABLE ran; DROP TRIGGER see ON procrastinate_jobs")


def test_two_workers_are_never_at_one_session(
    address: str, queue: JobQueue, seen: Callable[[], list[tuple[Any, ...]]]
) -> None:
    with PostgresStore(address) as store:
        talk(store, "a", "b")
    jobs = [compress(name, window=2_000 + 500 * n) for n in range(4) for name in "ab"]
    queue.put(jobs)
    command = [sys.executable, "-m", "compact", "work", "--once", "--concurrency", "2"]
    command += ["--store", address]
    path = os.pathsep.join([str(ROOT / "src"), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "COMPACT_SUMMARIZER": "extractive"}
    silent = subprocess.DEVNULL
    workers = [
        subprocess.Popen(command, env=environment, stdout=silent, stderr=silent) for _ in range(2)
    ]
    assert [each.wait() for each in workers] == [0, 0]
    events = [each for each in seen() if each[0] in {job.lock for job in jobs}]
    assert len(events) == 16
    for lock in {each[0] for each in events}:
        own = [each[1:] for each in events if each[0] == lock]
        for begins, ends in zip(own[::2], own[1::2], strict=True):
            assert (begins[1], ends) == ("begins", (begins[0], "ends"))


@forking
def test_workers_that_are_killed_lose_no_job_and_do_none_twice(
    address: str, queue: JobQueue, seen: Callable[[], list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    names = [f"s{n:02}" for n in range(20)]
    with PostgresStore(address) as store:
        talk(store, *names, "written once", turns=12)
        run_job(Job(kind="age", scope="default", session="written once"), store=store)
        queue.put(Job(kind="age", scope="default", session=name) for name in names)
        with Nursery(job_worker.__name__, tmp_path, 29) as nursery:
            nursery.database.write_text(address)
            for _ in range(5):
                nursery.run(lines=4, pause=0.2)
            begun = nursery.promised()
        until = time.monotonic() + PATIENCE
        while queue.counts():  # the last one's jobs are given out when it counts as dead
            assert time.monotonic() < until, "a job is lost"
            queue.work(lambda job: run_job(job, store=store), once=True, pace=job_worker.QUICK)
            time.sleep(0.1)
        assert all(store.digest(name) for name in names)
    written = "SELECT session, number FROM compact.log WHERE kind = 'digest'"
    with psycopg.connect(address) as db:  # a second writing would have a higher number
        numbers = {bytes(name).decode(): n for name, n in db.execute(written).fetchall()}
    once = numbers.pop("written once")
    assert numbers == dict.fromkeys(names, once)
    assert len([x for x in begun if "begun" in x]) > len([x for x in begun if "done" in x])
    began = [each[1] for each in seen() if each[2] == "begins"]
    assert len(began) > len(set(began)) == 20, "what was begun and killed is begun again"

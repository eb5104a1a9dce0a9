"""Jobs in PostgreSQL, which procrastinate keeps and hands out (extra `work`).

What is due can be read from the store's own rows: an append's transaction moves the branch's length
away from the position up to which it has words and vectors, and a lease says when a scope was last
aged. So nothing is enqueued by an append (one row of a queue costs more than the append), and no
job can be lost: workers ask every minute what is due (`JobQueue.due`). An application may enqueue a
job earlier, within a transaction of its own (`JobQueue.put`).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, NamedTuple

import procrastinate
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException, UniqueViolation
from procrastinate.jobs import Job as Row
from procrastinate.jobs import Status
from procrastinate.manager import JobManager
from procrastinate.schema import SchemaManager

from compact.errors import CompactError, InvalidInput, StoreFailed
from compact.messages.events import JobEnded, Outcome
from compact.messages.protocols import Embedder
from compact.store.postgres.connection import Connection, Connections
from compact.store.postgres.rows import ACROSS
from compact.store.postgres.vectors import generation_of
from compact.text.jobs import Job, digest

NAME = "compact"
"""The name of the queue, and of the task, in procrastinate's tables."""
Run = Callable[[Job], str]
"""Does a job, and says what was done."""
_DUE = f"""
    SELECT DISTINCT b.scope, 'index' FROM compact.branches b
    WHERE b.indexed < b.messages AND {ACROSS}
    UNION ALL
    SELECT DISTINCT b.scope, 'embed' FROM compact.branches b LEFT JOIN compact.embedded e
    ON e.scope = b.scope AND e.branch = b.id AND e.generation = %(generation)s
    WHERE %(generation)s::int IS NOT NULL AND b.messages > coalesce(e.position, b.fork)
    UNION ALL
    SELECT DISTINCT s.scope, 'age' FROM compact.sessions s LEFT JOIN compact.leases l
    ON l.scope = s.scope AND l.name = convert_to('aged ' || s.scope, 'UTF8')
        AND l.until > clock_timestamp()
    WHERE l.name IS NULL
"""
_STANDING = """
    SELECT queueing_lock FROM procrastinate_jobs
    WHERE status::text = ANY(%s) AND queueing_lock = ANY(%s)
"""
_ROUNDS = """
    SELECT args ->> 'of', -min(priority),
        -max(priority) FILTER (WHERE scheduled_at IS NULL OR scheduled_at <= now())
    FROM procrastinate_jobs WHERE status = 'todo' AND queue_name = %s GROUP BY 1
"""
_DUE_NOW = """
    SELECT 1 FROM procrastinate_jobs WHERE status = 'todo' AND queue_name = %s
    AND (scheduled_at IS NULL OR scheduled_at <= now()) LIMIT 1
"""
_COUNTS = """
    SELECT status::text, count(*) FROM procrastinate_jobs WHERE queue_name = %s GROUP BY 1
"""
_ALONE = "SELECT pg_try_advisory_xact_lock(hashtext('compact.queue'))"
_NOTE = """
    UPDATE procrastinate_jobs SET args = args || jsonb_build_object('why', %s::text) WHERE id = %s
"""


class Pace(NamedTuple):
    """How a worker keeps time, in seconds."""

    look: float = 60.0
    """Between two looks for what is due, and for jobs of workers that died."""
    beat: float = 10.0
    """Between two signs of life."""
    dead: float = 30.0
    """A worker that gave no sign of life for so long is dead, and others do its jobs."""
    poll: float = 0.5
    """Between two looks for a job, if the server tells of none."""
    tries: int = 8
    """How often a job is tried that fails. The waits between double from 5 seconds."""


class JobQueue:
    """The jobs of a store on a server. Safe for use by many threads, processes and hosts.

    The tables of procrastinate are made at the first use, where the address looks for tables first
    (`public`).

    Raises, at the first use:
        StoreFailed: the server cannot be reached, or refuses.
    """

    def __init__(self, address: str) -> None:
        self._address, self._server = address, Connections(address)
        # It only writes, and on connections that it is given, so that it is never opened.
        self._writer = JobManager(procrastinate.SyncPsycopgConnector())
        self._is_made = False

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Give a connection in a transaction. The tables are there."""
        with self._server.connection() as db, db.transaction():
            if not self._is_made:
                db.execute("SELECT pg_advisory_xact_lock(hashtext('procrastinate'))")
                found = db.execute("SELECT to_regclass('procrastinate_jobs')").fetchone()
                if found == (None,):
                    db.execute(SchemaManager.get_schema())
                self._is_made = True
            yield db

    def put(self, jobs: Iterable[Job], *, connection: Connection | None = None) -> int:
        """Enqueue jobs, and return how many were not waiting already. `connection` is one of the
        caller's to this database: the jobs come to be with its transaction.
        """
        if connection is None or not self._is_made:
            with self.transaction() as db:
                if connection is None:
                    return self.put_in(db, jobs)
        return self.put_in(connection, jobs)

    def put_in(
        self,
        db: Connection,
        jobs: Iterable[Job],
        *,
        unless: Sequence[str] = ("todo",),
        at: datetime | None = None,
        **notes: object,
    ) -> int:
        """Enqueue jobs, unless they are there in one of these states; how many were not. `at` says
        not before when, and `notes` are kept in the rows.
        """
        new = {job.key: job for job in jobs}
        for (key,) in db.execute(_STANDING, (list(unless), list(new))).fetchall():
            new.pop(key, None)
        while new:
            try:
                with db.transaction():
                    rows = list(_rows(db, new.values(), at, notes))
                    self._writer.batch_defer_jobs(jobs=rows, connection=db)
                break
            except AlreadyEnqueued as error:  # meanwhile, by somebody else
                taken = error.__cause__
                lock = taken.queueing_lock if isinstance(taken, UniqueViolation) else None
                new.pop(lock or "")
        return len(new)

    def due(self, embedder: Embedder | None = None) -> list[Job]:
        """Return the jobs of all scopes that are due by the store's rows: `index`, `age`, and with
        an embedder `embed`. Reads the row of each branch.
        """
        given = {"generation": generation_of(embedder).key if embedder else None}
        return [Job(kind=kind, scope=scope) for scope, kind in self._server.query(_DUE, given)]

    def counts(self) -> dict[str, int]:
        """Return status → number of jobs: `todo`, `doing`, `failed`. Jobs that succeeded go."""
        with self.transaction() as db:
            return dict(db.execute(_COUNTS, (NAME,)).fetchall())

    def work(
        self,
        run: Run,
        *,
        tell: Callable[[Job, JobEnded], None] = lambda *_: None,
        due: Callable[[], Iterable[Job]] = list,
        once: bool = False,
        concurrency: int = 1,
        pace: Pace | None = None,
    ) -> None:
        """Do jobs until the process is told to end (SIGINT, SIGTERM): then those under way are
        ended first. With `once`, until no job waits that may run now. `run` is called in a thread.
        `due` says what to enqueue, every minute; `tell` hears of each job.

        Raises:
            StoreFailed: the server cannot be reached.
        """
        with self.transaction():  # make the tables
            pass
        worker = _Worker(self, run, tell, due, pace or Pace())
        try:
            asyncio.run(worker.work(self._address, once=once, concurrency=concurrency))
        except ConnectorException as error:
            why = error.__cause__ or error
            raise StoreFailed(f"{self._server.name}: {' '.join(str(why).split())}") from error


def _rows(
    db: Connection, jobs: Iterable[Job], at: datetime | None, notes: Mapping[str, Any]
) -> Iterator[Row]:
    """Yield rows for jobs. A job's priority is its round: each scope has one job in each, and the
    rounds are done in order. So a scope with many jobs does not hold up another.
    """
    found = db.execute(_ROUNDS, (NAME,)).fetchall()
    last = {of: highest for of, highest, _ in found}
    first = min((lowest for *_, lowest in found if lowest is not None), default=0)
    for job in jobs:
        of = digest(job.scope)
        last[of] = max(last.get(of, -1) + 1, first)
        yield Row(
            queue=NAME,
            task_name=NAME,
            priority=-last[of],
            lock=job.lock,
            queueing_lock=job.key,
            task_kwargs={"of": of, "job": job.to_json(), **notes},
            scheduled_at=at,
        )


class _Failed(Exception):
    """A job failed for good. Its row says why."""


class _Worker:
    """Does jobs in threads, with procrastinate's worker in an event loop."""

    def __init__(
        self,
        queue: JobQueue,
        run: Run,
        tell: Callable[[Job, JobEnded], None],
        due: Callable[[], Iterable[Job]],
        pace: Pace,
    ) -> None:
        self._queue, self._run, self._tell, self._due, self._pace = queue, run, tell, due, pace
        self._ended: list[tuple[int, int | None, float]] = []
        """What ended here of late: the job, by which worker, when."""

    async def work(self, address: str, *, once: bool, concurrency: int) -> None:
        loop, stop, pace = asyncio.get_running_loop(), asyncio.Event(), self._pace
        loop.set_default_executor(ThreadPoolExecutor(concurrency + 2))
        for each in (signal.SIGINT, signal.SIGTERM):
            with suppress(ValueError, RuntimeError, NotImplementedError):  # not the main thread
                loop.add_signal_handler(each, stop.set)
        connector = procrastinate.PsycopgConnector(
            conninfo=address, min_size=1, max_size=concurrency + 4
        )
        app = procrastinate.App(connector=connector)
        app.task(name=NAME, pass_context=True)(self._do)
        async with app.open_async():
            await self._enqueue_due()
            while True:
                await self._revive(app)
                worker = app.run_worker_async(
                    queues=[NAME],
                    concurrency=concurrency,
                    wait=not once,
                    delete_jobs="successful",
                    install_signal_handlers=False,
                    fetch_job_polling_interval=pace.poll,
                    update_heartbeat_interval=pace.beat,
                    stalled_worker_timeout=pace.dead,
                )
                if once:
                    await _first_of(worker, stop.wait())
                else:
                    await _first_of(worker, stop.wait(), self._look_on(app))
                if stop.is_set() or (once and not self._is_any_due()):
                    return
                if not once:
                    raise StoreFailed("the worker lost its server; start it again")
                await asyncio.sleep(pace.poll)

    def _is_any_due(self) -> bool:
        with self._queue.transaction() as db:
            return db.execute(_DUE_NOW, (NAME,)).fetchone() is not None

    async def _look_on(self, app: procrastinate.App) -> None:
        while True:
            await asyncio.sleep(self._pace.look)
            await self._enqueue_due()
            await self._revive(app)

    async def _enqueue_due(self) -> None:
        def put() -> None:
            jobs = list(self._due())
            with self._queue.transaction() as db:  # what failed for good waits for tomorrow
                self._queue.put_in(db, jobs, unless=["todo", "failed"])

        await asyncio.to_thread(put)

    async def _revive(self, app: procrastinate.App) -> None:
        """Let jobs wait again that nobody does any more: their worker died, or it ended them and
        could not say so. One worker looks at a time, so that no job is given out that another one
        has just given out. Rows of jobs that failed go after a day.
        """
        manager = app.job_manager
        with self._queue.transaction() as db:
            if db.execute(_ALONE).fetchone() == (False,):
                return
            dead = self._pace.dead
            lost = await manager.get_stalled_jobs(queue=NAME, seconds_since_heartbeat=dead)
            for row in [*lost, *await self._unsaid(manager)]:
                try:
                    if row.attempts + 1 < self._pace.tries:
                        await manager.retry_job(row)
                        continue
                    self._note(row.id, "its worker died each time")
                    await manager.finish_job(row, Status.FAILED, delete_job=False)
                except UniqueViolation:  # the same job waits already
                    await manager.finish_job(row, Status.ABORTED, delete_job=True)
            await manager.delete_old_jobs(nb_hours=24, queue=NAME, include_failed=True)

    async def _unsaid(self, manager: JobManager) -> list[Row]:
        """Return jobs that ended here so long ago that their rows must say so, and do not."""
        long_ago = monotonic() - self._pace.dead
        found = [each for each in self._ended if each[2] < long_ago]
        self._ended = [each for each in self._ended if each[2] >= long_ago]
        rows = [(id, await manager.list_jobs_async(id=id, status="doing")) for id, *_ in found]
        own = {(id, worker) for id, worker, _ in found}
        return [row for id, (*jobs,) in rows for row in jobs if (id, row.worker_id) in own]

    def _do(self, context: Any, /, *, job: str, tries: int = 0, **_: object) -> None:  # noqa: ANN401
        what, since = Job.read(job), monotonic()
        try:
            outcome, said = self._outcome(what, tries, context.job.id)
        finally:
            self._ended.append((context.job.id, context.job.worker_id, monotonic()))
        ended = JobEnded(
            session_id=what.session or "",
            kind=what.kind,
            outcome=outcome,
            seconds=monotonic() - since,
            tries=tries + 1,
            said=said,
        )
        self._tell(what, ended)
        if outcome == "failed":
            raise _Failed

    def _outcome(self, job: Job, tries: int, row: int) -> tuple[Outcome, str]:
        try:
            return "done", self._run(job)
        except Exception as error:  # noqa: BLE001 - whatever a job raises is told
            # An error that is not ours might quote a conversation, so only its type is named.
            why = str(error) if isinstance(error, CompactError) else type(error).__name__
            if isinstance(error, InvalidInput) or tries + 1 >= self._pace.tries:
                self._note(row, why)
                return "failed", why
            # procrastinate's own retry fails if the job waits again, and leaves this one under way
            at = datetime.now(UTC) + timedelta(seconds=min(3_600, 5 * 2**tries))
            why = why.replace("\0", " ")
            with self._queue.transaction() as db:
                self._queue.put_in(db, [job], at=at, tries=tries + 1, why=why)
            return "again", why

    def _note(self, row: int | None, why: str) -> None:
        with self._queue.transaction() as db:
            db.execute(_NOTE, (why.replace("\0", " "), row))


async def _first_of(*work: Coroutine[Any, Any, Any]) -> None:
    """Wait until one of these ends, and end the others. Raises its error."""
    tasks = [asyncio.ensure_future(each) for each in work]
    done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    for each in done:
        each.result()

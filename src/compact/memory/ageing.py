"""Ageing of memory (A-2): gives each session of a scope a digest that fits its age, beside its
messages. Start at `MemoryAgeing.age`.

Each digest is committed by itself, and only if the session's messages did not change meanwhile.
After a kill each session has its old or its new digest, and the next run continues. A run with
nothing to do writes nothing. Messages are not changed here: `memory.archival_manager` moves them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import TIMEOUT_MAX, Condition, Event, Thread
from typing import Generic, Literal, Self, TypeVar

from compact import wiring
from compact.config import CompactConfig
from compact.errors import InvalidArgument, NotFound, StoreFailed, Superseded
from compact.memory.archival_manager import ArchivalManager
from compact.memory.compression_engine import (
    RATIOS,
    CompressionEngine,
    Original,
    digest_of,
    fingerprint_of,
    importance_of,
    original_of,
    retention_of,
)
from compact.memory.retention import RESTORED, Importance, RetentionPolicy, days_unused, sensible
from compact.messages import clock_and_ids
from compact.messages.protocols import SessionStore
from compact.messages.sessions import Session
from compact.text.archived import ArchiveReport
from compact.text.digests import (
    AgeingReport,
    AgeingRow,
    CompressedConversation,
    CompressionLevel,
    ConversationMetadata,
    DigestNote,
    Lease,
)

LEASE = timedelta(minutes=10)
"""How long a process keeps its lease if it does not renew it."""


class _Ended(Exception):
    """The run ends early: it was stopped, or another process does the work."""


def ageing_of(
    store: SessionStore,
    scope: str,
    settings: CompactConfig,
    clock: Callable[[], datetime] | None = None,
    archives: ArchivalManager | None = None,
) -> MemoryAgeing:
    """Build the ageing of a scope, with the thresholds in the settings. Without `archives`, no
    originals are moved.

    Raises:
        InvalidArgument: the store keeps no digests.
    """
    if not hasattr(store, "keep_digest"):
        raise InvalidArgument("store", "ageing needs a store that keeps digests: a file's")
    store, clock = wiring.memory_store(store, scope), clock or clock_and_ids.now
    engine = CompressionEngine(store, settings=settings)
    ageing = MemoryAgeing(store, scope, engine, retention_of(settings), clock)
    return replace(ageing, archives=archives)


def day_of(scope: str) -> Lease:
    """Return the lease that is held for a day after a scope was aged."""
    return Lease(f"aged {scope}", clock_and_ids.new_id())


@dataclass(frozen=True, slots=True)
class Due:
    """What a run has to do for one session."""

    session: Session
    original: Original
    days: int
    before: DigestNote | None
    level: CompressionLevel
    """The level that fits the session's age."""
    chain: bytes
    fingerprint: str
    bytes: int
    """Bytes of the session's texts in the store."""
    is_archived: bool
    is_to_pack: bool = False
    """Whether texts of the session have to be packed."""
    score: float | None = None
    why: str = ""

    @property
    def form(self) -> CompressionLevel:
        """The level that the session's digest should have. An archived session has a summary until
        only metadata is left.
        """
        archived = self.level is CompressionLevel.ARCHIVED
        return CompressionLevel.SUMMARY if archived else self.level

    @property
    def now(self) -> CompressionLevel:
        """The level of the stored digest."""
        return self.before.level if self.before else CompressionLevel.FULL

    @property
    def is_known(self) -> bool:
        """Whether the stored digest was made from these messages with these settings."""
        return self.before is not None and self.before.fingerprint == self.fingerprint

    @property
    def is_done(self) -> bool:
        """Whether the stored digest is up to date."""
        if self.form is CompressionLevel.FULL and self.score is None:
            return self.before is None
        return self.is_known and self.now is self.form

    @property
    def step(self) -> Literal["none", "write", "drop"]:
        """What to do with the stored digest."""
        if self.form is not CompressionLevel.FULL:
            return "none" if self.is_done else "write"
        return "drop" if self.now is not CompressionLevel.FULL else "none"

    @property
    def action(self) -> str:
        """The step, and whether the originals have to be archived or packed. Packing is not named
        after "write", which always packs.
        """
        move = "pack" * (self.is_to_pack and self.step != "write")
        if self.level.is_archived and not self.is_archived:
            move = "archive"
        return ", ".join(filter(None, (self.step.removeprefix("none"), move))) or "none"


@dataclass
class MemoryAgeing:
    """Ages the sessions of a scope."""

    store: wiring.SQLiteManager
    scope: str
    engine: CompressionEngine
    retention: RetentionPolicy
    clock: Callable[[], datetime] = clock_and_ids.now
    lease: timedelta = LEASE
    archives: ArchivalManager | None = None
    into_files: bool = True
    """Whether originals go into files of the archive. If not, they are packed in the database."""
    _holder: str = field(default_factory=clock_and_ids.new_id)

    def age(
        self,
        now: datetime | None = None,
        *,
        session_id: str | None = None,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> AgeingReport:
        """Write the digests that are due, and archive the originals of the oldest sessions; with
        `session_id`, of this session only. A dry run only reports. `progress` is called with the
        number of sessions done and their total, first for digests, then for archives.

        Raises:
            BlockingCallInLoop: a model writes, and this thread runs an event loop.
        """
        at, tell = now or self.clock(), progress or (lambda *_: None)
        one, rows = session_id and self.store.session(session_id), list[AgeingRow]()
        every = [one] if one else self.store.sessions(scope=self.scope)
        for row in self._rows(every, at, session_id, dry_run=dry_run):
            rows.append(row)
            tell(len(rows), len(every))
        moved = None if dry_run else self._moved(rows, at, tell)
        return AgeingReport(rows=tuple(rows), dry_run=dry_run, archive=moved)

    def _moved(
        self, rows: Sequence[AgeingRow], now: datetime, tell: Callable[[int, int], None]
    ) -> ArchiveReport | None:
        """Pack the originals of sessions that have a digest, and archive those of the oldest."""
        if self.archives is None:
            return None
        packed, full = self.archives.moved(), CompressionLevel.FULL
        aged = [x for x in rows if x.due is not full and x.session_id not in packed]
        due = [x.session_id for x in aged if not (x.due.is_archived and self.into_files)]

        def told(names: Sequence[str]) -> Iterator[str]:
            for done, name in enumerate(names):
                tell(done, len(names))
                yield name

        self.archives.pack(told(due), now=now)
        going = [x.session_id for x in rows if x.due is full and x.action.endswith("pack")]
        self.archives.pack(told(going), now=now, older_than=self.engine.ages.full)
        here = {each.id for each in self.store.sessions(scope=self.scope)}
        due = [x.session_id for x in rows if x.is_to_archive and x.session_id in here]
        if not (due and self.into_files):
            return None
        return self.archives.archive_conversations(due, now=now, progress=tell)

    def age_in_turn(
        self,
        stops: Callable[[], bool] = lambda: False,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> AgeingReport:
        """Age on a schedule. If several processes do, only the one that holds the lease does the
        work. The lease is always released. The run ends between sessions when `stops` returns True.
        Short sessions come first, so that a run that is cut off has done many.
        """
        lease, rows = self.turn, list[AgeingRow]()

        def tell(done: int, of: int) -> None:
            if stops():
                raise _Ended
            self._renew(lease)
            if progress is not None:
                progress(done, of)

        try:
            self._renew(lease)
            every = sorted(self.store.sessions(scope=self.scope), key=lambda x: x.branch.messages)
            for row in self._rows(every, self.clock(), lease=lease):
                rows.append(row)
                tell(len(rows), len(every))
            moved = self._moved(rows, self.clock(), tell)
        except _Ended:
            return AgeingReport(rows=tuple(rows), complete=False)
        finally:
            self.store.release_lease(lease)
        return AgeingReport(rows=tuple(rows), archive=moved)

    def age_once_a_day(self, stops: Callable[[], bool] = lambda: False) -> AgeingReport:
        """If a lease says that a run was completed within the last day, return an incomplete
        report. Otherwise call `age_in_turn`. A run takes that lease only when it is complete.
        """
        day, now = day_of(self.scope), self.clock()
        # asks only: the lease expires at once
        if not self.store.hold_lease(day, now=now, until=now):
            return AgeingReport(complete=False)
        report, now = self.age_in_turn(stops), self.clock()
        if report.complete and self.store.sessions(scope=self.scope):
            self.store.hold_lease(day, now=now, until=now + timedelta(days=1))
        return report

    @property
    def turn(self) -> Lease:
        """The lease for a run of `age_in_turn`."""
        return Lease(f"age {self.scope}", self._holder)

    def _renew(self, lease: Lease) -> None:
        now = self.clock()
        if not self.store.hold_lease(lease, now=now, until=now + self.lease):
            raise _Ended

    # --- session by session -----------------------------------------------------------------------

    def _rows(
        self,
        every: Sequence[Session],
        now: datetime,
        session_id: str | None = None,
        *,
        dry_run: bool = False,
        lease: Lease | None = None,
    ) -> Iterator[AgeingRow]:
        """Do what is due, and yield a row for each session, in the order of `every`. `session_id`
        is that of the only one.
        """
        notes = self.store.digest_notes(self.scope, session_id)
        moved = self.archives.moved() if self.archives else {}
        for session in every:
            note = notes.get(session.id)
            try:
                due = self._due(session, note, now, moved.get(session.id))
                digest = None if dry_run or due.is_done else self._written(due)
                row = self._row(due, digest)
            except (NotFound, StoreFailed) as error:  # its archive may be out of reach
                yield self._skipped(session, note, now, error)
                continue
            try:
                if not (dry_run or due.is_done):
                    self.store.keep_digest(session.id, digest, chain=due.chain, lease=lease)
            except (Superseded, NotFound) as error:
                if lease is not None:
                    self._renew(lease)
                row = self._skipped(session, note, now, error)
            yield row

    def _due(
        self, session: Session, before: DigestNote | None, now: datetime, moved: bool | None
    ) -> Due:
        times, is_archived = sensible(now, self.engine.ages.full), bool(moved)
        size, latest, is_mostly_old = self.store.stored_texts(session.id, times)
        age = days_unused(session, now, latest)
        level = self.engine.get_compression_level(age)
        chain = self.store.chain(session.branch.id, session.branch.messages)
        fingerprint = fingerprint_of(self.engine, chain)
        original, days = original_of(self.store, session), max(0, int(age))
        due = Due(session, original, days, before, level, chain, fingerprint, size, is_archived)
        if level is not CompressionLevel.FULL:
            due = self._slowed(due)
        # archived by a person, so only a person restores it
        if is_archived and not due.level.is_archived:
            due = replace(due, level=CompressionLevel.ARCHIVED)
        if due.level is CompressionLevel.FULL:
            is_dear = due.why or any(session.metadata.get(x) for x in ("important", RESTORED))
            packs = is_mostly_old and not is_dear
        else:
            packs = moved is None
        return replace(due, is_to_pack=packs and self.archives is not None)

    def _slowed(self, due: Due) -> Due:
        """Return what is due for a session that is no longer fresh, given its importance."""
        marked = bool(due.session.metadata.get("important"))
        score = due.before.score if due.before and due.is_known and not marked else None
        # do not read an archive only for its importance
        if score is None and not (marked or due.is_archived):
            score = importance_of(due.original, due.session, self.retention).score
        importance = Importance(score=score or 0, marked=marked)
        why, aged = self.retention.reason(importance), self.retention.aged(importance, due.days)
        level = self.engine.get_compression_level(aged)
        if 0 < aged < due.days:
            why += f": as if it were {aged} days old"
        return replace(due, level=level, score=score, why=why)

    def _written(self, due: Due) -> CompressedConversation | None:
        """Return the digest to store for the session; None removes the stored one."""
        digest = None
        if due.form is not CompressionLevel.FULL:
            digest = digest_of(self.engine, due.original, due.form)
        elif due.score is not None:  # stores the score, so that the messages are not read again
            about = ConversationMetadata(id=due.session.id)
            digest = CompressedConversation(
                text="", source_tokens=0, tokens=0, level=due.level, about=about
            )
        if digest is not None:
            update = {"score": due.score, "fingerprint": due.fingerprint}
            digest = digest.model_copy(update=update)
        return digest

    def _row(self, due: Due, made: CompressedConversation | None) -> AgeingRow:
        row = AgeingRow(
            session_id=due.session.id,
            title=due.session.title,
            age_days=due.days,
            now=due.now,
            due=due.level,
            action=due.action,
            bytes_originals=due.bytes,
            why=due.why,
        )
        if due.form is CompressionLevel.FULL:
            return row
        if made is not None:
            sizes = made.source_tokens, made.tokens, len(made.text.encode("utf-8", "surrogatepass"))
        elif due.before is not None and due.is_done:
            sizes = due.before.original_tokens, due.before.tokens, due.before.bytes
        else:  # a dry run only estimates
            before = due.before if due.is_known else None
            tokens = before.original_tokens if before else 0
            tokens = tokens or self.engine.tokens_of(due.original.messages)
            ratio = RATIOS.get(due.form, 0.0)
            sizes = tokens, int(tokens * ratio), int(row.bytes_originals * ratio)
        names = ("tokens_before", "tokens_after", "bytes_digest")
        return row.model_copy(update=dict(zip(names, sizes, strict=True)))

    def _skipped(
        self, session: Session, before: DigestNote | None, now: datetime, error: Exception
    ) -> AgeingRow:
        level = before.level if before else CompressionLevel.FULL
        return AgeingRow(
            session_id=session.id,
            title=session.title,
            age_days=max(0, int(days_unused(session, now))),
            now=level,
            due=level,
            action="none",
            why=f"left as it is: {error}",
        )


# --- on a schedule --------------------------------------------------------------------------------


T = TypeVar("T")


class Schedule(Generic[T]):
    """Runs work in a thread after `delay` seconds, and then `every` seconds after each run, until
    `stop` is called. If the work raises, `error` keeps the exception, and the schedule continues.

    In a forked child process the schedule does not run.
    """

    def __init__(
        self, work: Callable[[Callable[[], bool]], T], *, every: float, delay: float = 0
    ) -> None:
        self._work, self._every, self._delay = work, every, delay
        self._stops, self._ran = Event(), Condition()
        self.runs = 0
        self.last: T | None = None
        """What the last successful run returned."""
        self.error: Exception | None = None
        """The exception that the last run raised, or None."""
        self._thread = Thread(target=self._run, name="compact-schedule", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the schedule's thread is alive."""
        return self._thread.is_alive()

    def wait(self, runs: int, seconds: float | None = None) -> bool:
        """Wait until `runs` runs are done, at most `seconds`. Return whether they are."""
        with self._ran:
            return self._ran.wait_for(lambda: self.runs >= runs, seconds)

    def stop(self, seconds: float | None = None) -> bool:
        """Stop after the current run. Wait at most `seconds`. Return whether the run has ended."""
        self._stops.set()
        self._thread.join(seconds)
        return not self.is_running

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _run(self) -> None:
        self._stops.wait(min(self._delay, TIMEOUT_MAX))
        while not self._stops.is_set():
            try:
                self.last, self.error = self._work(self._stops.is_set), None
            except Exception as error:  # noqa: BLE001 - the next run may go well
                self.error = error
            with self._ran:
                self.runs += 1
                self._ran.notify_all()
            self._stops.wait(min(self._every, TIMEOUT_MAX))

"""Ageing of memory (A-2, S-5): what is due is written once, beside the messages, and nothing else
is touched.
"""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from compact import CompactConfig, CompressionEngine, MemoryManager
from compact.errors import StoreFailed, Superseded
from compact.memory import ageing as ageing_module
from compact.memory.ageing import MemoryAgeing, Schedule, ageing_of
from compact.messages.messages import Message
from compact.messages.sessions import Branch, Entry, Session
from compact.store.sqlite.store import SQLiteManager
from compact.text.digests import AgeingReport, AgeingRow, CompressionLevel, Lease
from evals import data, formats

HARBOUR = formats.read(data.SAMPLE).messages[:60]
DAY = datetime(2026, 3, 1, 9, tzinfo=UTC)
FULL, KEY_POINTS, SUMMARY, ARCHIVED, METADATA = CompressionLevel
ALL_AGE = CompactConfig(retain_score=1.0)


def put(
    store: SQLiteManager, name: str, *, days: float = 0, scope: str = "default", **metadata: Any
) -> None:
    """A session whose last message is so many days older than `DAY`."""
    shift = DAY - timedelta(days=days) - max(m.timestamp for m in HARBOUR)
    session = Session(
        id=name, scope=scope, metadata=metadata, branch=Branch(id=f"{name}.b", session_id=name)
    )
    store.session(name, create=session)
    moved = [m.model_copy(update={"timestamp": m.timestamp + shift}) for m in HARBOUR]
    store.append(f"{name}.b", [Entry(m, m.token_count) for m in moved])


def by_id(report: AgeingReport) -> dict[str, AgeingRow]:
    return {row.session_id: row for row in report.rows}


@pytest.fixture
def store(indexed_store: Any) -> Any:
    return indexed_store


@pytest.fixture
def file_store() -> Iterator[SQLiteManager]:
    """A store in a file: an application's clock says when its leases end."""
    with SQLiteManager() as store:
        yield store


@pytest.fixture
def memory(store: SQLiteManager) -> MemoryManager:
    return MemoryManager(store, settings=ALL_AGE)


def everything(store: SQLiteManager, name: str) -> Any:
    return store.get_conversation(name), store.chain(f"{name}.b", len(HARBOUR))


def test_each_session_gets_what_its_age_asks_for(
    store: SQLiteManager, memory: MemoryManager
) -> None:
    ages = {"new": 3, "week": 8, "month": 31, "old": 100, "ancient": 400}
    for name, days in ages.items():
        put(store, name, days=days)
    before = {name: everything(store, name) for name in ages}
    report = memory.age(DAY)
    rows = by_id(report)
    assert {name: row.due for name, row in rows.items()} == {
        "new": FULL, "week": KEY_POINTS, "month": SUMMARY, "old": ARCHIVED, "ancient": METADATA,
    }  # fmt: skip
    assert {name: row.action for name, row in rows.items()} == {
        "new": "none", "week": "write", "month": "write",
        "old": "write, archive", "ancient": "write, archive",
    }  # fmt: skip
    assert (report.written, rows["old"].age_days) == (4, 100)
    assert report.freed_when_archived > 0
    for name, row in rows.items():
        made = memory.digest(name)
        assert everything(store, name) == before[name], "no message is touched"
        if name == "new":
            assert made is None
            continue
        assert made is not None
        assert made.level is {"week": KEY_POINTS, "ancient": METADATA}.get(name, SUMMARY)
        assert (row.tokens_before, row.tokens_after) == (made.source_tokens, made.tokens)
        assert row.bytes_digest == len(made.text.encode())
        assert made.about.messages == len(HARBOUR)
    assert store.integrity_check() == []


def test_a_level_is_made_from_the_originals_each_time(
    store: SQLiteManager, memory: MemoryManager
) -> None:
    put(store, "a")
    put(store, "b")
    for days in (10, 40):
        memory.age(DAY + timedelta(days=days))
    straight = CompressionEngine().compress(store.get_conversation("a"), SUMMARY)
    made = memory.digest("a")
    assert made is not None
    assert (made.level, made.text) == (SUMMARY, straight.text)


def test_a_dry_run_counts_what_a_digest_counts(store: SQLiteManager, memory: MemoryManager) -> None:
    """A system prompt is no part of it, also where the branch has counted it."""
    put(store, "week", days=8)
    said = Message(
        role="system", content="You are a clerk. " * 200, timestamp=HARBOUR[-1].timestamp
    )
    store.append("week.b", [Entry(said, 1_000)])
    dry = memory.age(DAY, dry_run=True).rows[0]
    assert store.digest_notes("default") == {}, "nothing is done"
    real = memory.age(DAY).rows[0]
    assert dry.tokens_before == real.tokens_before
    assert dry.tokens_after == pytest.approx(real.tokens_after, rel=0.1)


def test_what_is_important_keeps_every_word(store: SQLiteManager, memory: MemoryManager) -> None:
    put(store, "marked", days=500, important=True)
    put(store, "later", days=500)
    assert memory.age(DAY).written == 1
    memory.describe("later", important=True)
    rows = by_id(memory.age(DAY))
    assert (rows["marked"].due, rows["marked"].why) == (FULL, "marked as important")
    assert (rows["later"].now, rows["later"].action) == (METADATA, "drop")
    assert memory.digest("later") is None


def test_what_is_worth_it_keeps_every_word_for_longer_and_is_read_once(
    store: SQLiteManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "worth", days=15)
    memory = MemoryManager(store, settings=CompactConfig(retain_score=0.2))
    first = memory.age(DAY).rows[0]
    assert (first.due, first.action) == (FULL, "none")
    assert "importance 0." in first.why
    assert memory.digest("worth") is None, "there is none to be shown"
    monkeypatch.setattr(ageing_module, "importance_of", None)
    assert memory.age(DAY).rows[0] == first
    strict = MemoryManager(store, settings=ALL_AGE)
    assert strict.age(DAY).rows[0].action == "write", "another threshold, the same score"


@pytest.mark.parametrize(
    ("days", "level"), [(16, KEY_POINTS), (61, KEY_POINTS), (62, SUMMARY), (400, ARCHIVED)]
)
def test_each_level_of_what_is_important_comes_later_by_the_same_factor(
    store: SQLiteManager, days: int, level: CompressionLevel
) -> None:
    put(store, "worth", days=days)
    memory = MemoryManager(store, settings=CompactConfig(retain_score=0.2))
    row = memory.age(DAY).rows[0]
    assert (row.due, row.age_days) == (level, days)
    assert "as if it were" in row.why


def test_nothing_but_a_mark_keeps_a_session_for_ever_by_default(store: SQLiteManager) -> None:
    put(store, "marked", days=3_000, important=True)
    put(store, "other", days=3_000)
    at_most = CompactConfig(retain_score=0)
    rows = by_id(MemoryManager(store, settings=at_most).age(DAY))
    assert {name: row.due for name, row in rows.items()} == {"marked": FULL, "other": METADATA}
    for_ever = CompactConfig(retain_score=0, retain_days=None)
    assert by_id(MemoryManager(store, settings=for_ever).age(DAY))["other"].due is FULL


@pytest.mark.parametrize(
    "strange",
    [datetime(1970, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), DAY - timedelta(days=500)],
)
def test_a_strange_time_of_the_last_message_makes_no_fresh_session_old(
    store: SQLiteManager, memory: MemoryManager, strange: datetime
) -> None:
    put(store, "fresh", days=3)
    store.append("fresh.b", [Entry(Message(role="user", content="And?", timestamp=strange))])
    assert memory.age(DAY).rows[0].age_days == 3


def test_a_time_that_is_still_to_come_keeps_no_session_young(
    store: SQLiteManager, memory: MemoryManager
) -> None:
    put(store, "old", days=100)
    to_come = Message(role="user", content="And?", timestamp=DAY + timedelta(days=900))
    store.append("old.b", [Entry(to_come)])
    store.describe("old", title=None, metadata={"restored_at": "2999-01-01T00:00:00+00:00"})
    assert memory.age(DAY).rows[0].age_days == 100


def test_a_session_without_any_time_is_as_old_as_its_making(
    store: SQLiteManager, memory: MemoryManager
) -> None:
    zero = datetime(1970, 1, 1, tzinfo=UTC)
    for name, made in (("a", DAY - timedelta(days=9)), ("b", zero)):
        branch = Branch(id=name, session_id=name)
        store.session(name, create=Session(id=name, created_at=made, branch=branch))
        store.append(name, [Entry(Message(role="user", content="And?", timestamp=zero))])
    rows = by_id(memory.age(DAY))
    assert {name: row.age_days for name, row in rows.items()} == {"a": 9, "b": 0}


def test_who_goes_on_with_a_session_has_every_word_again(
    store: SQLiteManager, memory: MemoryManager
) -> None:
    put(store, "week", days=8)
    memory.age(DAY)
    store.append("week.b", [Entry(Message(role="user", content="And now?", timestamp=DAY))])
    row = memory.age(DAY).rows[0]
    assert (row.due, row.action) == (FULL, "drop")
    assert memory.digest("week") is None
    later = memory.age(DAY + timedelta(days=8)).rows[0]
    made = memory.digest("week")
    assert made is not None
    assert (later.action, made.about.messages) == ("write", len(HARBOUR) + 1)


def test_a_digest_of_other_messages_is_refused(store: SQLiteManager, memory: MemoryManager) -> None:
    """Who appends while a digest is written keeps the old one, until the next run."""
    put(store, "week", days=8)
    memory.age(DAY)
    made, chain = memory.digest("week"), store.chain("week.b", len(HARBOUR))
    store.append("week.b", [Entry(Message(role="user", content="And now?"))])
    with pytest.raises(Superseded, match="other messages"):
        store.keep_digest("week", None, chain=chain)
    assert memory.digest("week") == made


def test_ageing_never_crosses_a_scope(store: SQLiteManager) -> None:
    """S-5."""
    put(store, "ours", days=8)
    put(store, "theirs", days=8, scope="other")
    report = MemoryManager(store, settings=ALL_AGE).age(DAY)
    assert [row.session_id for row in report.rows] == ["ours"]
    assert list(store.digest_notes("default")) == ["ours"]
    assert store.digest_notes("other") == {}


def test_a_digest_that_was_altered_in_the_file_is_noticed(file_store: SQLiteManager) -> None:
    put(file_store, "week", days=8)
    MemoryManager(file_store, settings=ALL_AGE).age(DAY)
    file_store.db.execute("UPDATE digests SET text = text || '.'")
    assert len(file_store.integrity_check()) == 1


# --- on a schedule --------------------------------------------------------------------------------


class Clock:
    """A time that goes on when it is told to."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def __call__(self) -> datetime:
        return self.at


def ageing(store: SQLiteManager, clock: Clock, scope: str = "default") -> MemoryAgeing:
    return ageing_of(store, scope, ALL_AGE, clock)


def leases(store: SQLiteManager) -> list[str]:
    return [row[0] for row in store.db.execute("SELECT holder FROM leases")]


def test_of_two_one_does_the_work(store: SQLiteManager, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        put(store, f"s{number}", days=8)
    clock = Clock(DAY)
    one, other = ageing(store, clock), ageing(store, clock)
    meanwhile: list[AgeingReport] = []

    def other_tries() -> bool:
        meanwhile.append(other.age_in_turn())
        return False

    report = one.age_in_turn(other_tries)
    assert (report.complete, report.written) == (True, 3)
    assert [(each.complete, each.rows) for each in meanwhile] == [(False, ())] * 3
    assert other.age_in_turn().complete, "it was let go of"


def test_who_died_is_followed_after_the_lease(file_store: SQLiteManager) -> None:
    put(file_store, "week", days=8)
    clock = Clock(DAY)
    dead, heir = ageing(file_store, clock), ageing(file_store, clock)
    lease = Lease("age default", dead._holder)
    assert file_store.hold_lease(lease, now=clock(), until=clock() + dead.lease)
    clock.at += dead.lease - timedelta(microseconds=1)
    assert not heir.age_in_turn().complete
    clock.at += timedelta(microseconds=1)
    assert heir.age_in_turn().written == 1


def test_who_lost_the_lease_commits_nothing(file_store: SQLiteManager) -> None:
    """Whatever the clocks say: the lease is looked at in the transaction that commits."""
    put(file_store, "a", days=8)
    put(file_store, "b", days=8)
    clock = Clock(DAY)
    slow, heirs = ageing(file_store, clock), Lease("age default", "the heir")

    def taken_over() -> bool:
        clock.at += slow.lease
        return not file_store.hold_lease(heirs, now=clock(), until=clock() + slow.lease)

    report = slow.age_in_turn(taken_over)
    assert not report.complete
    assert leases(file_store) == ["the heir"], "it is not let go of by whoever lost it"
    assert len(report.rows) == 1
    made = CompressionEngine().compress(file_store.get_conversation("a"), SUMMARY)
    with pytest.raises(Superseded, match="lease"):
        file_store.keep_digest(
            "a",
            made,
            chain=file_store.chain("a.b", len(HARBOUR)),
            lease=Lease("age default", slow._holder),
        )


def test_whoever_fails_lets_go_of_the_lease(
    file_store: SQLiteManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(file_store, "week", days=8)
    failing = ageing(file_store, Clock(DAY))

    def full(*_: object) -> None:
        assert len(leases(file_store)) == 1
        raise StoreFailed("no space left")

    monkeypatch.setattr(failing, "_moved", full)
    with pytest.raises(StoreFailed):
        failing.age_in_turn()
    assert leases(file_store) == []


def test_leases_of_scopes_are_apart(store: SQLiteManager) -> None:
    put(store, "a", days=8)
    put(store, "b", days=8, scope="other")
    clock = Clock(DAY)
    one, other = ageing(store, clock), ageing(store, clock, "other")
    assert not one.age_in_turn(lambda: other.age_in_turn().complete).complete


def test_a_run_that_fails_does_not_end_the_schedule() -> None:
    ran = threading.Semaphore(0)

    def work(stops: Any) -> int:
        ran.release()
        if schedule_runs[0] == 0:
            schedule_runs[0] = 1
            raise StoreFailed("the disk is full")
        return 7

    schedule_runs = [0]
    with Schedule(work, every=0.001) as schedule:
        for _ in range(3):
            assert ran.acquire(timeout=20)
    assert (schedule.last, schedule.error) == (7, None)
    assert schedule.stop()

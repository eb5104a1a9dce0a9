"""Ageing that moves originals into the archive, and what is left to be found of them (A-2, A-5)."""

import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from compact import CompactConfig, MemoryManager
from compact.errors import StoreFailed
from compact.memory import memory_manager
from compact.memory.ageing import MemoryAgeing
from compact.memory.compression_engine import digest_of
from compact.messages import clock_and_ids
from compact.messages.events import Event, MemoryAged
from compact.messages.messages import Message
from compact.messages.sessions import Branch, Entry, Session
from compact.store.archives import folder
from compact.store.sqlite.store import SQLiteManager
from compact.text.archived import ArchiveReport
from compact.text.digests import AgeingReport, CompressionLevel, Lease
from tests.session.test_ageing import ALL_AGE, DAY, HARBOUR, by_id, put

ARCHIVED, METADATA, SUMMARY = (
    CompressionLevel.ARCHIVED,
    CompressionLevel.METADATA,
    CompressionLevel.SUMMARY,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteManager]:
    with SQLiteManager(tmp_path / "chat.db") as store:
        put(store, "week", days=8)
        put(store, "spring", days=91)
        put(store, "marked", days=91, important=True)
        yield store


@pytest.fixture
def memory(store: SQLiteManager) -> MemoryManager:
    return MemoryManager(store, settings=ALL_AGE)


def entry_at(at: datetime, text: str) -> Entry:
    return Entry(Message(role="user", content=text, timestamp=at))


def moved(report: AgeingReport) -> ArchiveReport:
    assert report.archive is not None
    return report.archive


def said(memory: MemoryManager, name: str) -> list[str]:
    entries = memory.store.read(f"{name}.b", 0, 10**6)
    return [entry.message.text for entry in entries]


def test_old_originals_go_into_the_archive_with_their_digest(memory: MemoryManager) -> None:
    before = said(memory, "spring")
    dry = memory.age(DAY, dry_run=True)
    assert by_id(dry)["spring"].action == "write, archive"
    assert dry.archive is None
    assert memory.archived() == []
    report = moved(memory.age(DAY))
    assert [each.session_id for each in report.archived] == ["spring"]
    assert report.bytes_after < report.bytes_before
    digest = memory.digest("spring")
    assert digest is not None
    assert digest.level is SUMMARY
    assert memory.archived()[0].digest == digest.text
    assert said(memory, "spring") == before


def test_a_second_run_reads_no_archive(
    memory: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.age(DAY)
    monkeypatch.setattr(folder, "read", lambda *_: pytest.fail("it was read"))
    again = memory.age(DAY)
    assert {row.action for row in again.rows} == {"none"}
    assert again.archive is None
    assert by_id(again)["spring"].due is ARCHIVED


def test_after_a_year_only_what_is_known_about_it_stands_in_the_database(
    memory: MemoryManager, store: SQLiteManager
) -> None:
    memory.age(DAY)
    long = memory.archived()[0].digest or ""
    later = DAY + timedelta(days=300)
    dry = by_id(memory.age(later, dry_run=True))["spring"]
    assert (dry.action, dry.now, dry.due, dry.tokens_after) == ("write", SUMMARY, METADATA, 0)
    row = by_id(memory.age(later))["spring"]
    assert (row.action, row.tokens_before, row.tokens_after) == ("write", dry.tokens_before, 0)
    told = memory.digest("spring")
    assert told is not None
    assert (told.level, told.text) == (METADATA, "")
    assert told.about.entities
    short = {each.session_id: each.digest or "" for each in memory.archived()}["spring"]
    assert 0 < len(short) < len(long)
    assert set(short.split(", ")) == {*told.about.topics, *told.about.entities}
    assert by_id(memory.age(later))["spring"].action == "none"
    assert store.integrity_check() == []


def test_nothing_becomes_unfindable_by_age(memory: MemoryManager) -> None:
    """What is archived is found by its own words, and says where it lies."""
    memory.describe("spring", title="Moorings of the quay", tags=["harbour"])
    words = [text.split()[-1] for text in said(memory, "spring") if text.strip()]
    before = [memory.search(word, limit=99) for word in words]

    def archived() -> set[str]:
        return {each.session_id for each in memory.archived()}

    for days in (0, 300, 301):
        memory.age(DAY + timedelta(days=days))
        assert "spring" in archived()
        for word, found in zip(words, before, strict=True):
            now = memory.search(word, limit=99)
            assert [x.model_copy(update={"archived": False}) for x in now.hits] == [*found.hits]
            assert [x for x in now.hits if x.archived != (x.session_id in archived())] == []
            assert now.sessions == found.sessions
    for query in ("mooring", "harbour"):
        assert "spring" in {each.session_id for each in memory.search(query).archived}, query
    assert [x.session_id for x in memory.archives.search_archived("mooring")] == ["spring"]
    assert memory.archives.search_archived("zeppelin") == []
    assert memory.search("zeppelin").archived == ()
    memory.restore("spring")
    assert memory.search("mooring").archived == ()


@pytest.mark.parametrize("days", [40, 120, 500])
def test_the_database_and_its_archive_get_smaller_with_age(tmp_path: Path, days: int) -> None:
    def size() -> int:
        made.pool.empty_log()
        return sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())

    with SQLiteManager(tmp_path / "chat.db") as made:
        for number in range(12):
            put(made, f"s{number}", days=0)
        memory = MemoryManager(made, settings=ALL_AGE)
        memory.catch_up()
        made.db.execute("VACUUM")
        sizes = [size()]
        for each in (10, days, days + 1):
            memory.age(DAY + timedelta(days=each))
            sizes.append(size())
    assert sizes[0] > sizes[1] > sizes[-1]


def test_what_is_packed_is_counted_as_freed_when_it_is_archived(memory: MemoryManager) -> None:
    memory.age(DAY)
    later = memory.age(DAY + timedelta(days=90), dry_run=True)
    row = by_id(later)["week"]
    assert row.is_to_archive
    assert 0 < row.bytes_originals < 20_000
    assert later.freed_when_archived >= 0


def test_what_cannot_be_archived_stays_and_is_told(
    memory: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreFailed("no space left")

    monkeypatch.setattr(folder, "keep", full)
    report = moved(memory.age(DAY))
    assert report.failed == {"spring": "no space left"}
    assert memory.archived() == []
    monkeypatch.undo()
    assert len(moved(memory.age(DAY)).archived) == 1


def test_whoever_goes_on_with_an_archived_session_has_it_whole_again(memory: MemoryManager) -> None:
    memory.age(DAY)
    memory.describe("spring", important=True)
    assert by_id(memory.age(DAY))["spring"].action == "none", "it stays where it is"
    memory.archives.restore_conversation("spring", now=DAY - timedelta(days=10))
    row = by_id(memory.age(DAY))["spring"]
    assert (row.action, row.why) == ("drop", "marked as important")


def test_a_memory_without_a_file_keeps_its_originals() -> None:
    with SQLiteManager() as store:
        memory = MemoryManager(store, settings=ALL_AGE)
        put(store, "spring", days=91)
        report = memory.age(DAY)
        assert by_id(report)["spring"].action == "write, archive"
        assert report.archive is None


def test_the_schedule_archives_too(memory: MemoryManager) -> None:
    ran: list[datetime] = []

    def clock() -> datetime:
        ran.append(DAY)
        return DAY

    schedule = memory.run_schedule(3600, clock=clock)
    while not schedule.runs:
        threading.Event().wait(0.01)
    memory.close()
    assert (schedule.error, schedule.is_running) == (None, False)
    assert schedule.last is not None
    assert schedule.last.written == 2
    assert [each.session_id for each in moved(schedule.last).archived] == ["spring"]


# --- a conversation that goes on ------------------------------------------------------------------


def endless(store: SQLiteManager, *, days: int = 60, **metadata: Any) -> list[bytes]:
    """A conversation that has a message each hour of so many days until `DAY`; its hash chain."""
    branch = Branch(id="endless.b", session_id="endless")
    store.session("endless", create=Session(id="endless", metadata=metadata, branch=branch))
    hours = (DAY - timedelta(hours=n) for n in reversed(range(24 * days)))
    store.append("endless.b", [entry_at(at, f"{at:%d %B %H}: {HARBOUR[7].text}") for at in hours])
    return [store.chain("endless.b", n) for n in range(24 * days)]


def live(store: SQLiteManager) -> list[int]:
    """The positions of the messages that still have their text."""
    sql = "SELECT m.key & 0xffffffff FROM messages m JOIN branches b ON b.key = m.key >> 32"
    return [x[0] for x in store.db.execute(f"{sql} WHERE b.id = 'endless.b' AND payload <> x''")]


def test_older_parts_of_a_conversation_that_goes_on_are_packed(
    memory: MemoryManager, store: SQLiteManager
) -> None:
    links = endless(store)
    before, size = said(memory, "endless"), store.stored_texts("endless", (0, 0, 0))[0]
    planned = by_id(memory.age(DAY, dry_run=True))["endless"]
    row = by_id(memory.age(DAY))["endless"]
    assert row == planned
    assert (row.due.value, row.age_days, row.action) == ("full", 0, "pack"), "it is in use"
    assert live(store) == list(range(52 * 24 - 1, 60 * 24)), "those of eight days"
    assert store.stored_texts("endless", (0, 0, 0))[0] < size / 2
    assert said(memory, "endless") == before
    assert [store.chain("endless.b", n) for n in range(len(links))] == links
    assert memory.search("03 January").hits[0].text.startswith("03 January")
    assert store.integrity_check() == []
    file = store.db.execute("SELECT * FROM archived").get
    store.append("endless.b", [entry_at(DAY + timedelta(hours=1), "It goes on.")])
    assert by_id(memory.age(DAY + timedelta(hours=2)))["endless"].action == "none"
    assert store.db.execute("SELECT * FROM archived").get == file, "it is not worth it yet"
    memory.age(DAY + timedelta(days=5))
    assert len(live(store)) == 3 * 24 + 2
    memory.age(DAY + timedelta(days=100))
    assert "endless" in {each.session_id for each in memory.archived()}
    assert said(memory, "endless") == [*before, "It goes on."]
    assert store.integrity_check() == []


@pytest.mark.parametrize("metadata", [{"important": True}, {"restored_at": DAY.isoformat()}])
def test_what_a_person_wants_whole_is_not_packed(
    memory: MemoryManager, store: SQLiteManager, metadata: dict[str, Any]
) -> None:
    endless(store, days=20, **metadata)
    assert by_id(memory.age(DAY))["endless"].action == "none"
    assert len(live(store)) == 20 * 24


def test_a_conversation_of_a_strange_order_is_not_packed_in_vain(
    memory: MemoryManager, store: SQLiteManager
) -> None:
    branch = Branch(id="endless.b", session_id="endless")
    store.session("endless", create=Session(id="endless", branch=branch))
    at = [DAY, *(DAY - timedelta(days=20 + n) for n in range(9))]
    store.append("endless.b", [entry_at(each, "It goes on.") for each in at])
    memory.age(DAY)
    assert len(live(store)) == 10
    files = "SELECT count(*) FROM archived a JOIN sessions s ON s.key = a.session WHERE s.id = ?"
    assert store.db.execute(files, ("endless",)).get == 0


ODD, NEVER = (datetime(year, 1, 1, tzinfo=UTC) for year in (2999, 1970))
OLD = DAY - timedelta(days=20)


@pytest.mark.parametrize(
    ("times", "left"),
    [
        ([ODD, *[OLD] * 9, DAY], [10]),
        ([*[NEVER] * 9, OLD, DAY], [10]),
        ([*[OLD] * 9, NEVER, ODD, DAY], [9, 10, 11]),
        ([NEVER] * 10, range(10)),
    ],
)
def test_the_cut_heeds_only_times_that_make_sense(
    memory: MemoryManager,
    store: SQLiteManager,
    monkeypatch: pytest.MonkeyPatch,
    times: list[datetime],
    left: Sequence[int],
) -> None:
    monkeypatch.setattr(clock_and_ids, "now", lambda: DAY)  # when the session is made
    branch = Branch(id="endless.b", session_id="endless")
    store.session("endless", create=Session(id="endless", branch=branch))
    store.append("endless.b", [entry_at(each, HARBOUR[7].text) for each in times])
    assert by_id(memory.age(DAY))["endless"].age_days == 0
    assert live(store) == list(left)


# --- by itself ------------------------------------------------------------------------------------


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_manager, "FIRST_RUN", 0)
    monkeypatch.setattr(clock_and_ids, "now", lambda: DAY)


class Heard(list[Event]):
    """An exporter that keeps the events."""

    def export(self, events: Sequence[Event]) -> None:
        self += events

    def close(self) -> None: ...


def opened_until_it_ran(path: str, **settings: Any) -> list[Event]:
    """What is told while a memory is open and looks once whether ageing is due."""
    heard = Heard()
    with MemoryManager(
        path, settings=CompactConfig(adapters={"exporter": heard}, **settings)
    ) as memory:
        for schedule in memory._schedules:
            assert schedule.wait(1, 60)
            assert schedule.error is None
    return heard


def test_an_open_memory_ages_by_itself_once_a_day_and_says_so(
    store: SQLiteManager, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = opened_until_it_ran(store.path, retain_score=1.0)
    assert [each.as_dict() | {"at": None} for each in told] == [
        MemoryAged(digests=2, archived=0, failed=0).as_dict() | {"at": None}
    ]
    assert set(store.digest_notes(None)) == {"week", "spring"}
    put(store, "more", days=8)
    assert opened_until_it_ran(store.path, retain_score=1.0) == []
    assert "more" not in store.digest_notes(None), "a day is not over"
    monkeypatch.setattr(clock_and_ids, "now", lambda: DAY + timedelta(days=1))
    assert len(opened_until_it_ran(store.path, retain_score=1.0)) == 1
    assert "more" in store.digest_notes(None)


def test_texts_leave_the_file_by_themselves_only_where_a_folder_was_named(
    store: SQLiteManager, soon: None, tmp_path: Path
) -> None:
    """Who copies the database alone has every word."""
    opened_until_it_ran(store.path, retain_score=1.0)
    assert store.moved_sessions() == {"week": False, "spring": False}
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == []
    store.db.execute("DELETE FROM leases")
    named = str(tmp_path / "named")
    [told] = opened_until_it_ran(store.path, retain_score=1.0, memory_archive=named)
    assert told.as_dict()["archived"] == 1
    assert store.moved_sessions() == {"week": False, "spring": True}


def test_nothing_ages_by_itself_where_that_is_not_asked_for(
    store: SQLiteManager, soon: None
) -> None:
    assert opened_until_it_ran(store.path, retain_score=1.0, age_automatically=False) == []
    assert opened_until_it_ran(store.path, retain_score=1.0, summarizer="ollama:qwen3") == []
    with MemoryManager(store, settings=ALL_AGE) as memory:
        assert memory._schedules == [], "the store is another program's"
    with MemoryManager() as memory:
        assert memory._schedules == []
    memory = MemoryManager(store.path, settings=ALL_AGE)
    assert memory._schedules == [], "a plain call"
    memory.close()
    assert store.digest_notes(None) == {}


def test_a_run_that_was_stopped_goes_on_at_the_next_opening(store: SQLiteManager) -> None:
    put(store, "summer", days=95)
    ageing = MemoryManager(store, settings=ALL_AGE)._ageing(lambda: DAY)

    def is_archiving() -> bool:
        return len(store.digest_notes(None)) == 3 and bool(store.moved_sessions())

    assert not ageing.age_once_a_day(is_archiving).complete
    assert list(store.moved_sessions().values()) == [False], "one was packed, none was archived"
    report = ageing.age_once_a_day()
    assert (report.complete, len(moved(report).archived)) == (True, 2)
    assert not ageing.age_once_a_day().complete, "it is done for the day"
    assert store.integrity_check() == []


def test_a_run_that_was_killed_leaves_the_day_open(store: SQLiteManager, tmp_path: Path) -> None:
    """The shortest session is done by then, and after the lease the next opening goes on."""
    made = Session(id="short", branch=Branch(id="short.b", session_id="short"))
    store.session("short", create=made)
    store.append("short.b", [entry_at(DAY - timedelta(days=9), "The crane is mended.")])
    ageing = MemoryManager(store, settings=ALL_AGE)._ageing(lambda: DAY)

    def is_killed() -> bool:
        store.db.execute("VACUUM INTO ?", (str(tmp_path / "left.db"),))
        return True

    assert not ageing.age_once_a_day(is_killed).complete
    with SQLiteManager(tmp_path / "left.db") as left:
        assert set(left.digest_notes(None)) == {"short"}
        at = [DAY + timedelta(minutes=9)]
        later = MemoryManager(left, settings=ALL_AGE)._ageing(lambda: at[0])
        assert not later.age_once_a_day().complete, "it may still be at work"
        at[0] += timedelta(minutes=1)
        assert later.age_once_a_day().complete
        at[0] += timedelta(hours=23)
        assert not later.age_once_a_day().complete, "it is done for the day"


@pytest.mark.parametrize("is_a_file", [False, True])
def test_what_goes_wrong_is_told_and_the_day_stays_open(
    store: SQLiteManager, soon: None, monkeypatch: pytest.MonkeyPatch, is_a_file: bool
) -> None:
    def full(*_: object) -> None:
        raise StoreFailed("no space left")

    where, name = (folder, "keep") if is_a_file else (MemoryAgeing, "_moved")
    monkeypatch.setattr(where, name, full)
    heard = Heard()
    settings = CompactConfig(adapters={"exporter": heard}, retain_score=1.0)
    to = Path(store.path).parent / "kept"
    with MemoryManager(store.path, settings=settings, archive_folder=to) as memory:
        [schedule] = memory._schedules
        assert schedule.wait(1, 60)
    assert [each.as_dict()["problem"] for each in heard] == ["no space left"]
    again = MemoryManager(store, settings=ALL_AGE)._ageing(lambda: DAY)
    monkeypatch.undo()
    assert again.age_once_a_day().complete != is_a_file, "a file is tried again in a day"


@pytest.mark.parametrize("deletes_at", range(9))
def test_a_session_that_is_deleted_meanwhile_is_skipped(
    store: SQLiteManager, deletes_at: int
) -> None:
    for name, days in (("old", 8), ("older", 92), ("oldest", 93)):
        put(store, name, days=days)
    gone, asked = {"week", "spring", "older"}, [0]
    left = {each.id for each in store.sessions()} - gone

    def meanwhile() -> bool:
        if asked[0] == deletes_at:
            for name in gone:
                store.delete_session(name)
        asked[0] += 1
        return False

    ageing = MemoryManager(store, settings=ALL_AGE)._ageing(lambda: DAY)
    report = ageing.age_in_turn(meanwhile)
    assert report.complete
    assert moved(report).failed == {}
    assert {each.id for each in store.sessions()} == left
    assert store.moved_sessions() == {"old": False, "oldest": True}
    assert store.integrity_check() == []
    assert asked[0] > deletes_at


def test_a_session_that_is_deleted_is_no_fault_of_archiving(store: SQLiteManager) -> None:
    memory = MemoryManager(store, settings=ALL_AGE)
    put(store, "older", days=92)

    def tell(done: int, _: int) -> None:
        if not done:
            store.delete_session("older")

    report = memory.archives.archive_conversations(now=DAY, progress=tell)
    assert ([each.session_id for each in report.archived], report.failed) == (["spring"], {})


@pytest.mark.parametrize("by_the_store", [False, True])
def test_with_its_last_session_a_scope_leaves_no_lease(
    store: SQLiteManager, by_the_store: bool
) -> None:
    memory = MemoryManager(store, scope="anna", settings=ALL_AGE)
    for name in ("first", "last"):
        put(store, name, days=8, scope="anna")
    assert memory._ageing(lambda: DAY).age_once_a_day().complete
    for name in ("first", "last"):
        assert [row[0] for row in store.db.execute("SELECT name FROM leases")] == ["aged anna"]
        if by_the_store:
            store.delete_session(name)
        else:
            assert memory.forget(name).is_complete
    assert list(store.db.execute("SELECT name FROM leases")) == []
    assert memory._ageing(lambda: DAY).age_once_a_day().complete
    assert list(store.db.execute("SELECT name FROM leases")) == [], "there is nobody to age"


def test_leases_that_are_over_go(store: SQLiteManager) -> None:
    for hours, name in enumerate(("aged anna", "aged bob", "age bob")):
        at = DAY + timedelta(hours=hours)
        assert store.hold_lease(Lease(name, "who"), now=at, until=at + timedelta(hours=2))
    assert {x[0] for x in store.db.execute("SELECT name FROM leases")} == {"aged bob", "age bob"}


def test_closing_gives_back_the_lease_of_a_run_that_goes_on(
    store: SQLiteManager, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on, write = threading.Event(), threading.Event(), digest_of

    def slow(*given: Any) -> Any:
        begun.set()
        assert goes_on.wait(60)
        return write(*given)

    monkeypatch.setattr("compact.memory.ageing.digest_of", slow)
    monkeypatch.setattr(memory_manager, "CLOSE_SECONDS", 0)
    with MemoryManager(store.path, settings=ALL_AGE) as memory:
        [schedule] = memory._schedules
        assert begun.wait(60)
        assert list(store.db.execute("SELECT name FROM leases")) == [("age default",)]
    assert list(store.db.execute("SELECT name FROM leases")) == []
    goes_on.set()
    schedule.stop()
    assert store.digest_notes(None) == {}


# --- by hand --------------------------------------------------------------------------------------


def test_archiving_many_leaves_what_is_kept_whole_and_says_so(store: SQLiteManager) -> None:
    """A-6: what must be kept overrides age; who names a session gets it archived."""
    memory = MemoryManager(store, settings=CompactConfig(retain_score=0.2))
    report = memory.archive()
    assert report.archived == ()
    assert set(report.kept) == {"week", "spring", "marked"}
    assert "importance 0." in report.kept["spring"]
    assert report.kept["marked"] == "marked as important"
    named = memory.archive(["spring"])
    assert ([each.session_id for each in named.archived], named.kept) == (["spring"], {})
    assert [each.session_id for each in memory.archive(older_than_days=0).archived] == []


def test_a_strange_time_archives_no_fresh_session_by_hand(memory: MemoryManager) -> None:
    memory.store.append("week.b", [entry_at(DAY - timedelta(days=500), "And now?")])
    report = memory.archives.archive_conversations(now=DAY)
    assert [each.session_id for each in report.archived] == ["spring"]


def test_days_that_are_asked_for_hold_for_what_is_fresh_by_the_settings(
    memory: MemoryManager,
) -> None:
    report = memory.archive(older_than_days=7)
    assert {each.session_id for each in report.archived} >= {"week", "spring"}


def test_an_archive_always_says_something_in_short(memory: MemoryManager) -> None:
    told: list[tuple[int, int]] = []
    kept = memory.archive(["spring"], progress=lambda *done: told.append(done)).archived[0]
    assert told == [(0, 1)]
    digest = memory.digest("spring")
    assert digest is not None
    assert (digest.level, kept.digest) == (SUMMARY, digest.text)
    assert [each.session_id for each in memory.search(digest.text.split()[-1]).archived]
    assert by_id(memory.age(DAY))["spring"].action == "none", "it is not written again"


def test_an_old_digest_is_not_what_an_archive_says(
    memory: MemoryManager, store: SQLiteManager
) -> None:
    memory.age(DAY - timedelta(days=60))
    store.append("spring.b", [entry_at(DAY - timedelta(days=90), "The zeppelin was sold.")])
    kept = memory.archive(["spring"]).archived[0]
    assert "zeppelin" in (kept.digest or "")


def test_what_was_restored_by_hand_stays_until_it_is_old_again(memory: MemoryManager) -> None:
    memory.age(DAY)
    memory.archives.restore_conversation("spring", now=DAY)
    for days in (0, 7):
        row = by_id(memory.age(DAY + timedelta(days=days)))["spring"]
        assert (row.age_days, row.due.value) == (days, "full")
    assert "spring" not in {each.session_id for each in memory.archived()}
    later = memory.age(DAY + timedelta(days=91))
    assert "spring" in {each.session_id for each in moved(later).archived}


@pytest.mark.parametrize("strange", [7, "some day", None])
def test_somebody_elses_time_of_restoring_is_ignored(
    memory: MemoryManager, store: SQLiteManager, strange: object
) -> None:
    store.describe("spring", title=None, metadata={"restored_at": strange})
    assert by_id(memory.age(DAY, dry_run=True))["spring"].age_days == 91


def test_what_was_restored_is_in_the_index_at_once(memory: MemoryManager) -> None:
    memory.archive(["spring"])
    memory.catch_up()
    memory.restore("spring")
    assert memory.status().unindexed == 0

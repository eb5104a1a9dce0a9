"""A page is destroyed, each in turn: it is noticed, and all that was not on it is saved (NFR-2).

What stood on which page is asked of SQLite before, not of the code that repairs.
"""

import os
import random
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from compact import SQLiteManager
from compact.errors import StoreFailed
from compact.messages.goals import Goal
from compact.messages.messages import Message
from compact.messages.sessions import FIXED, PERSON, Entry, Snapshot
from compact.store.sqlite import recovery
from compact.store.sqlite.recovery import LOST
from compact.store.sqlite.repair import RepairReport, repair
from tests.sizes import size
from tests.store.making import assert_chained, session, step

PAGE = 4096
KEYS = {
    "messages": "key",
    "checkpoints": "key",
    "projections": "key",
    "moves": "number",
    "snapshots": "key",
}
FILLS: dict[str, Callable[[random.Random], bytes]] = {
    "noise": lambda rng: rng.randbytes(PAGE),
    "zeros": lambda rng: bytes(PAGE),
    "ones": lambda rng: b"\xff" * PAGE,
}


def make(file: Path) -> None:
    """Two sessions whose rows fill several pages; some messages are longer than a page."""
    rng = random.Random(5)
    with SQLiteManager(file) as store:
        for name in ("a", "b"):
            store.session(name, create=session(name, title=f"session {name}"))
            for i in range(50):
                words = f"{name} {i} " + "mortar and slate " * rng.choice((5, *(20,) * 9, 600))
                marks = rng.choice((0, FIXED, PERSON))
                message = Message(role="user", content=words, id=f"{name}-{i}")
                store.append(name, [Entry(message, 7, marks)])
                if i % 10 == 9:
                    store.commit(step(store, name, i))
                    kept = Snapshot(
                        session_id=name, branch_id=name, at=i, window=8, goals=(Goal(text="roof"),)
                    )
                    store.save_snapshot(kept)
            store.note(name, "draft", {"words": "lime " * 99})
            store.search(name, "slate", most=1)
        fork = store.fork("a", 30)
        store.append(fork.id, [Entry(Message(role="user", content="elsewhere"), 2, PERSON)])
        store.search(fork.id, "slate", most=1)


def rows_by_page(file: Path) -> dict[int, dict[str, set[int]]]:
    """Page → table → keys of the rows that stand there, at least in part."""
    db = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    found: dict[int, dict[str, set[int]]] = defaultdict(dict)
    for table, key in KEYS.items():
        keys: list[Any] = [r[0] for r in db.execute(f"SELECT {key} FROM {table} ORDER BY {key}")]
        sql = "SELECT path, pageno, pagetype, ncell FROM dbstat WHERE name = ? ORDER BY path"
        stats: list[Any] = db.execute(sql, (table,)).fetchall()
        first: dict[str, int] = {}
        at = 0
        for path, page, kind, cells in stats:
            if kind == "leaf":
                first[path.rstrip("/")] = at
                found[page][table] = set(keys[at : at + cells])
                at += cells
        for path, page, kind, _ in stats:
            if kind == "overflow":
                leaf, _, cell = path.rpartition("/")
                found[page][table] = {keys[first[leaf] + int(cell.split("+")[0], 16)]}
        assert at == len(keys)
    db.close()
    return found


class Before(NamedTuple):
    """The file before it is hurt, and everything in it."""

    file: Path
    pages: int
    rows: dict[int, dict[str, set[int]]]
    entries: dict[int, list[Entry]]
    """Key of a branch → its entries, from where it forks."""
    forks: dict[int, int]
    state: dict[str, Any]


def state_of(store: SQLiteManager) -> dict[str, Any]:
    return {
        "sessions": store.sessions(),
        "checkpoints": {n: store.checkpoints(n) for n in "ab"},
        "snapshots": {n: store.snapshots(n) for n in "ab"},
        "moves": {n: store.moves(n, most=999) for n in "ab"},
        "notes": {n: store.notes(n) for n in "ab"},
    }


def keys_of(store: SQLiteManager) -> dict[str, int]:
    """The keys of the branches, of which those of their messages are made."""
    rows: list[Any] = store.db.execute("SELECT id, key FROM branches").fetchall()
    return dict(rows)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Before:
    file = tmp_path_factory.mktemp("whole") / "chat.db"
    make(file)
    with SQLiteManager(file) as store:
        branches = {b.id: b for name in "ab" for b in store.branches(name)}
        keys = keys_of(store)
        entries = {keys[i]: store.read(i, b.fork, 999) for i, b in branches.items()}
        forks = {keys[i]: b.fork for i, b in branches.items()}
        state = state_of(store)
    pages = file.stat().st_size // PAGE
    return Before(file, pages, rows_by_page(file), entries, forks, state)


def hurt(before: Before, folder: Path, page: int, fill: str) -> Path:
    """A copy of the file with one page destroyed."""
    file = folder / "chat.db"
    shutil.copy(before.file, file)
    with file.open("r+b") as raw:
        raw.seek((page - 1) * PAGE)
        raw.write(FILLS[fill](random.Random(page)))
    return file


def is_noticed(before: Before, file: Path) -> bool:
    """Whether the store says that something is wrong; if it does not, nothing is."""
    try:
        with SQLiteManager(file) as store:
            if store.integrity_check():
                return True
            assert state_of(store) == before.state
    except StoreFailed:
        return True
    return False


def assert_the_rest_is_saved(before: Before, file: Path, page: int) -> Path:
    """Repair the file; under which name the damaged one is kept."""
    report = repair(file)
    assert report.kept_as is not None
    destroyed = before.rows.get(page, {})
    lost = {(key >> 32, key & 0xFFFFFFFF) for key in destroyed.get("messages", ())}
    with SQLiteManager(file) as store:
        assert store.integrity_check() == []
        said = messages_lost(store, report)
        assert said == lost, f"page {page}: exactly what stood there is said to be lost"
        for branch_id, key in keys_of(store).items():
            entries = assert_chained(store, branch_id)[before.forks[key] :]
            for position, (now, then) in enumerate(
                zip(entries, before.entries[key], strict=True), before.forks[key]
            ):
                if (key, position) not in lost:
                    assert now == then, f"page {page}: message {position} of {branch_id}"
        assert_others_are_saved(before, store, report, destroyed)
    return Path(report.kept_as)


def messages_lost(store: SQLiteManager, report: RepairReport) -> set[tuple[int, int]]:
    """Branch and position of what the report says is missing or altered; placeholders say so."""
    keys = keys_of(store)
    for branch in report.branches:
        for position in branch.missing:
            [found] = store.read(branch.branch_id, position, position + 1)
            assert found.message.text == LOST
        own = store.branch(branch.branch_id)
        assert branch.saved + len(branch.missing) == own.messages - own.fork
        assert branch.lost in (None, len(branch.missing))
    if any(each.missing or each.altered or each.lost is None for each in report.branches):
        assert not report.is_complete
    return {(keys[b.branch_id], p) for b in report.branches for p in (*b.missing, *b.altered)}


def assert_others_are_saved(
    before: Before, store: SQLiteManager, report: RepairReport, destroyed: dict[str, set[int]]
) -> None:
    """Tables that lost rows beside messages are named; what needs none of it is there."""
    now = state_of(store)
    for table in ("checkpoints", "snapshots", "moves"):
        if destroyed.get(table):
            assert any(line.startswith(f"table {table}: ") for line in report.remarks)
        elif table != "moves" or not destroyed.keys() & {"checkpoints", "projections"}:
            assert now[table] == before.state[table]
    if "notes" not in " ".join(report.remarks):
        assert now["notes"] == before.state["notes"]


def assert_page_is_survived(before: Before, folder: Path, page: int, fill: str) -> bool:
    """Whether it was noticed that the page is destroyed."""
    file = hurt(before, folder, page, fill)
    found = file.read_bytes()
    if not is_noticed(before, file):
        assert page not in before.rows, "a page with rows is never destroyed unnoticed"
        return False
    hurt(before, folder, page, fill)
    kept = assert_the_rest_is_saved(before, file, page)
    assert kept.read_bytes() == found, "the original is kept as it was"
    for each in folder.iterdir():
        each.unlink()
    return True


@pytest.mark.slow
def test_the_rest_of_any_page_is_saved(before: Before, tmp_path: Path) -> None:
    """Every fifth page, each destroyed in another way."""
    for page in range(1, before.pages + 1, 5):
        assert_page_is_survived(before, tmp_path, page, list(FILLS)[page % 3])


@pytest.mark.slow
@pytest.mark.parametrize("fill", FILLS)
def test_the_rest_of_every_page_is_saved(before: Before, tmp_path: Path, fill: str) -> None:
    pages = range(1, before.pages + 1, size(5, 1))
    noticed = [assert_page_is_survived(before, tmp_path, page, fill) for page in pages]
    assert sum(noticed) > len(pages) * 0.9
    assert sum("messages" in rows for rows in before.rows.values()) > 20


# --- what nothing tells of ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five sessions as an import makes them: no index, mark or compression tells of a message."""
    file = tmp_path_factory.mktemp("plain") / "chat.db"
    with SQLiteManager(file, durability="normal") as store:
        for name in "abcde":
            store.session(name, create=session(name))
            said = (f"{name} {i} " + "mortar and slate " * 20 for i in range(200))
            store.append(name, [Entry(Message(role="user", content=text), 7) for text in said])
        store.note("e", "goals", {"words": "roof"})
    return file


@pytest.mark.parametrize("share", [0.4, 0.6, 0.9])
def test_nothing_is_said_of_what_a_file_that_was_cut_off_may_have_held(
    plain: Path, tmp_path: Path, share: float
) -> None:
    """A repair that lost most of the messages is not complete (NFR-2)."""
    raw = plain.read_bytes()
    file = tmp_path / "chat.db"
    file.write_bytes(raw[: int(len(raw) * share)])
    report = repair(file)
    assert not report.is_complete
    assert not report.is_whole
    assert any("the file has" in line and "and had" in line for line in report.remarks)
    said = {each.branch_id: each for each in report.branches}
    assert len(said) == 5, "their rows stand at the file's beginning"
    assert {each.lost for each in said.values()} <= {0, None}
    for name, each in said.items():
        assert (each.lost == 0) == (each.saved == 200), name
        is_told = f"branch {name!r}: no message of its own is left" in report.remarks
        assert is_told == (each.saved == 0), name
    assert sum(each.saved for each in said.values()) > 1_000 * (share - 0.3)
    with SQLiteManager(file) as store:
        assert store.integrity_check() == []
        assert store.notes("e") == {"goals": {"words": "roof"}}, "what was not cut off is there"


def test_a_table_that_was_read_from_both_ends_tells_where_branches_end(
    plain: Path, tmp_path: Path
) -> None:
    file = tmp_path / "chat.db"
    rows = rows_by_page(plain)
    middle = max(page for page in rows if {k >> 32 for k in rows[page].get("messages", ())} == {3})
    data = bytearray(plain.read_bytes())
    data[(middle - 1) * PAGE : middle * PAGE] = bytes(PAGE)
    file.write_bytes(data)
    report = repair(file)
    assert not report.is_complete
    assert [each.lost for each in report.branches if each.branch_id != "c"] == [0] * 4
    [hurt_one] = [each for each in report.branches if each.branch_id == "c"]
    assert hurt_one.lost == len(rows[middle]["messages"])
    assert not any("no message of its own" in line for line in report.remarks)


def test_a_file_that_is_too_short_is_never_complete(plain: Path, tmp_path: Path) -> None:
    """Even where all messages that are known of could be read."""
    file = tmp_path / "chat.db"
    shutil.copy(plain, file)
    with SQLiteManager(file) as store:
        store.search("a", "slate", most=1)
    os.truncate(file, file.stat().st_size - PAGE)
    report = repair(file)
    assert [each.lost for each in report.branches] == [0] * 5
    assert not report.is_complete


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_a_repaired_file_is_for_whom_it_was(plain: Path, tmp_path: Path) -> None:
    """It became readable for everybody."""
    file = tmp_path / "chat.db"
    shutil.copy(plain, file)
    file.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(file, 65_534, 65_534)
    before = file.stat()
    os.truncate(file, before.st_size - PAGE)
    kept_as = repair(file).kept_as
    assert kept_as is not None
    for each in (file, Path(kept_as)):
        now = each.stat()
        assert (now.st_mode, now.st_uid, now.st_gid) == (
            before.st_mode,
            before.st_uid,
            before.st_gid,
        )


def test_an_index_tells_the_scopes_of_lost_sessions(tmp_path: Path) -> None:
    make(tmp_path / "a.db")
    db = apsw.Connection(str(tmp_path / "a.db"))
    hints = recovery._hints(db, db)
    assert [hints.scopes[key] for key in hints.sessions] == ["default", "default"]

"""When the power fails, what was promised is there: appends, commits, snapshots (NFR-2, S-2).

A store works on a disk that is written down (`power`), and the power fails at random instants. What
an ordinary store finds afterwards is what was there before the call that was going on, or after it.
"""

import random
import shutil
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from compact import ContextManager, SQLiteManager
from compact.messages.sessions import FIXED, PERSON, Snapshot
from tests.sizes import size
from tests.store.making import assert_chained, entry, opened, session, step
from tests.store.power import Disk, Event, recording

NAMES = ("a", "b", "c")
WORDS = ("roof", "beam", "tile", "gutter", "slate", "nail")
KEPT = (0.0, 0.0, 0.02, 0.5, 0.5, 0.98)
"""How much of what was not synced is there afterwards: nothing, little, half, nearly all."""
KINDS = ("append",) * 8 + ("commit",) * 4 + ("note", "note", "snapshot", "fork", "search", "delete")

State = dict[str, tuple[Any, ...]]


class Work(NamedTuple):
    """What was done to the disk, and what the store said of itself after each call."""

    events: list[Event]
    done: list[int]
    """How many events there were when each call had returned."""
    states: list[State]
    """What there was then; the first one is an empty store's."""


class Loss(NamedTuple):
    """What is left after the power has failed."""

    file: Path
    promised: int
    """How many calls had returned: the state of that number was promised."""


def state_of(store: SQLiteManager) -> State:
    """Everything there is."""
    return {each.id: state_of_session(store, each.id) for each in store.sessions()}


def state_of_session(store: SQLiteManager, name: str) -> tuple[Any, ...]:
    branches = store.branches(name)
    moves = store.moves(name, most=10**6)
    return (
        store.session(name),
        branches,
        [store.read(branch.id, 0, 10**6) for branch in branches],
        moves,
        [store.projection(move.projection_id) for move in moves if move.projection_id],
        store.checkpoints(name),
        store.snapshots(name),
        store.notes(name),
    )


def call(store: SQLiteManager, rng: random.Random, number: int) -> None:
    """One call of any kind."""
    name = rng.choice(NAMES)
    if name not in [each.id for each in store.sessions()]:
        store.session(name, create=session(name, title=f"the {number}th call"))
        return
    branch = store.session(name).branch
    match rng.choice(KINDS):
        case "append":
            size, marks = rng.choice((5, 60, 900)), rng.choice((0, FIXED, PERSON))
            said = [
                entry(f"{number}.{i} " + " ".join(rng.choices(WORDS, k=size)), 9, marks)
                for i in range(rng.choice((1, 1, 1, 7)))
            ]
            store.append(branch.id, said)
        case "commit":
            made = step(store, name, number)
            store.commit(made.model_copy(update={"forget": ("draft",)}))
        case "note":
            words = rng.choices(WORDS, k=rng.choice((2, 2_000)))
            store.note(name, "draft", {"number": number, "words": words})
        case "snapshot":
            store.save_snapshot(
                Snapshot(session_id=name, branch_id=branch.id, at=branch.messages, window=8_000)
            )
        case "fork":
            store.fork(branch.id, int(branch.messages * rng.random()))
        case "search":
            store.search(branch.id, "a roof of slate", most=3)
        case "delete" if number % 3 == 0:
            store.delete_session(name)


def worked(folder: Path, count: int, *, seed: int, pragma: str = "", **settings: Any) -> Work:
    """A store that does so many calls on a disk that is written down."""
    rng = random.Random(seed)
    folder.mkdir()
    done, states = [0], [State()]
    with recording(folder) as record:
        with SQLiteManager(folder / "chat.db", **settings) as store:
            store.db.wal_autocheckpoint(40)  # the log is worked off while little is done
            if pragma:
                store.db.execute(f"PRAGMA {pragma}").fetchall()
            for number in range(1, count + 1):
                call(store, rng, number)
                done.append(len(record.events))
                states.append(state_of(store))
        events = record.events
    return Work(events, done, states)


def losses(work: Work, folder: Path, count: int, *, seed: int) -> Iterator[Loss]:
    """The power fails at random instants, half of them just after a call has returned."""
    rng = random.Random(seed)
    returned = rng.choices(work.done, k=count // 2)
    instants = sorted(returned + rng.choices(range(len(work.events) + 1), k=count - len(returned)))
    disk, at = Disk(), 0
    for instant in instants:
        for event in work.events[at:instant]:
            disk.do(event)
        at = instant
        found = folder / "found"
        disk.lose_power(found, rng, rng.choice(KEPT))
        yield Loss(found / "chat.db", bisect_right(work.done, instant) - 1)
        shutil.rmtree(found)


def found_after(loss: Loss) -> State:
    """What an ordinary store finds; the file is sound, and it goes on."""
    with SQLiteManager(loss.file, durability="normal") as store:
        assert store.integrity_check() == []
        found = state_of(store)
        for name in found:
            branch = store.session(name).branch
            assert_chained(store, branch.id)
            store.append(branch.id, [entry("there is a zebra on the roof")])
            newest = [hit.position for hit in store.search(branch.id, "zebra", most=1)]
            assert newest == [branch.messages]
    return found


def assert_promises_are_kept(work: Work, folder: Path, count: int, *, seed: int) -> None:
    for loss in losses(work, folder, count, seed=seed):
        found = found_after(loss)
        either = work.states[loss.promised : loss.promised + 2]
        assert found in either, f"{loss.promised} calls had returned"


@pytest.mark.slow
def test_what_was_promised_outlives_the_power(tmp_path: Path) -> None:
    work = worked(tmp_path / "disk", 90, seed=1)
    assert {len(state) for state in work.states} == {0, 1, 2, 3}
    assert_promises_are_kept(work, tmp_path, 60, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(size(1, 4)))
def test_what_was_promised_outlives_the_power_again_and_again(tmp_path: Path, seed: int) -> None:
    work = worked(tmp_path / "disk", 250, seed=seed)
    assert_promises_are_kept(work, tmp_path, size(150, 500), seed=seed)


@pytest.mark.slow
def test_the_view_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    """A session that is compressed, undone and restored while the power may fail (FR-5)."""
    rng = random.Random(6)
    (tmp_path / "disk").mkdir()
    file = tmp_path / "disk" / "chat.db"
    with recording(tmp_path / "disk") as record:
        with ContextManager(window=2_000, store=str(file), session_id="a") as ctx:
            done, views = [len(record.events)], [view_of(ctx)]
            for turn in turns(ctx, rng, 60):
                turn()
                done.append(len(record.events))
                views.append(view_of(ctx))
            assert ctx.compressions > 5
        work = Work(record.events, done, [])
    for loss in losses(work, tmp_path, 60, seed=7):
        with SQLiteManager(loss.file) as store:
            is_there = bool(store.sessions())
        if loss.promised < 0 and not is_there:
            continue
        with ContextManager(window=2_000, store=str(loss.file), session_id="a") as ctx:
            assert view_of(ctx) in views[max(0, loss.promised) : loss.promised + 2]


def turns(ctx: ContextManager, rng: random.Random, count: int) -> Iterator[Callable[[], object]]:
    """Calls of a session, each of which puts one thing in force at most."""
    for number in range(count):
        said = f"{number} " + " ".join(rng.choices(WORDS, k=rng.choice((40, 150))))
        yield partial(ctx.add_message, role=rng.choice(("user", "assistant")), content=said)
        yield ctx.get_context_for_model
        if number % 10 == 9:
            yield ctx.time.snapshot
        if number % 20 == 19:
            yield ctx.time.undo
            yield partial(ctx.time.restore, ctx.time.snapshots()[-1])


def view_of(ctx: ContextManager) -> tuple[str, int, str]:
    """Branch, length, and what a model would see of it."""
    seen = ctx.time.context_at(len(ctx.history))
    return ctx.branch_id, len(ctx.history), seen.render_text()


def test_a_new_file_is_whole_or_not_there(tmp_path: Path) -> None:
    """The power fails while the first store is made, at every instant of it."""
    work = worked(tmp_path / "disk", 1, seed=1)
    disk, rng = Disk(), random.Random(3)
    for number, event in enumerate(work.events):
        disk.do(event)
        if number % 3:
            continue
        disk.lose_power(tmp_path / str(number), rng, rng.choice(KEPT))
        loss = Loss(tmp_path / str(number) / "chat.db", bisect_right(work.done, number + 1) - 1)
        assert found_after(loss) in work.states[loss.promised : loss.promised + 2]


@pytest.mark.parametrize("kept", [0.0, 0.5, 1.0])
def test_deleted_words_do_not_come_back(tmp_path: Path, kept: float) -> None:
    """Nor does the log they stood in (S-5)."""
    disk = Disk()
    (tmp_path / "disk").mkdir()
    with recording(tmp_path / "disk") as record, opened(tmp_path / "disk" / "chat.db") as store:
        store.append("a", [entry(f"zqsecret {i}") for i in range(50)])
        store.search("a", "zqsecret", most=1)
        store.delete_session("a")
        for event in record.events:
            disk.do(event)
    disk.lose_power(tmp_path / "found", random.Random(4), kept)
    for file in (tmp_path / "found").iterdir():
        assert b"zqsecret" not in file.read_bytes()


# --- the guard has teeth --------------------------------------------------------------------------


@pytest.mark.slow
def test_normal_durability_loses_the_last_calls_and_never_the_file(tmp_path: Path) -> None:
    """As `SQLiteManager` says of it; so this disk does forget what is not synced."""
    work = worked(tmp_path / "disk", 90, seed=1, durability="normal")
    lost = 0
    for loss in losses(work, tmp_path, 60, seed=2):
        found = found_after(loss)
        assert found in work.states[: loss.promised + 2], "a state of before, as a whole"
        lost += found not in work.states[loss.promised : loss.promised + 2]
    assert lost > 20


@pytest.mark.slow
def test_a_disk_that_is_never_synced_destroys_the_file(tmp_path: Path) -> None:
    work = worked(tmp_path / "disk", 90, seed=1, pragma="synchronous = off")
    with pytest.raises((AssertionError, OSError)):
        assert_promises_are_kept(work, tmp_path, 60, seed=2)

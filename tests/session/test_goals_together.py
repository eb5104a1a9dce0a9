"""Progress that several writers report at once: no step is lost, each is told once (FR-7, S-2)."""

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from compact import ContextManager, SQLiteManager
from compact.messages.budget import ContextWindow
from compact.messages.events import Event, GoalsChanged
from compact.messages.goals import Goal, Subtask
from compact.messages.messages import Message
from compact.messages.protocols import SessionStore
from compact.session.intake import goals_by, track
from tests.session.asking import session
from tests.sizes import size

STEPS = size(20, 50)
TOLD = [f"[CHECKPOINT] Slate row {i} - COMPLETED" for i in range(2 * STEPS)]


def set_goal(store: SessionStore) -> None:
    steps = tuple(Subtask(text=f"Slate row {i}") for i in range(2 * STEPS))
    session(store).goals.set([Goal(text="Mend the roof.", subtasks=steps)])


def report(ctx: ContextManager, writer: int) -> None:
    for line in TOLD[writer::2]:
        ctx.add_message(role="assistant", content=line)


def changes(events: list[Event]) -> list[str]:
    return [line for e in events if isinstance(e, GoalsChanged) for line in e.changes]


def missing(store: SessionStore) -> list[str]:
    goal = session(store).goals[0]
    return [task.text for task in goal.subtasks if task.status != "completed"]


def append_only(ctx: ContextManager, text: str) -> int:
    """Store a message and stop there, as a writer does that others overtake; where it stands."""
    at = len(ctx.history)
    ctx.history.extend([{"role": "assistant", "content": text}])
    return at


# --- many at once ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("managers", [1, 2])
def test_two_threads_lose_no_step(store: SessionStore, managers: int) -> None:
    """FR-7: of one manager, and of two; each step is told by one event."""
    set_goal(store)
    events: list[Event] = []
    ctxs = [session(store, on_event=events.append) for _ in range(managers)]
    start = threading.Barrier(2)

    def work(writer: int) -> None:
        start.wait(30)
        report(ctxs[writer % managers], writer)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    assert missing(store) == []
    assert sorted(changes(events)) == sorted(TOLD)


def write(file: str, writer: int, start: threading.Barrier, told: "multiprocessing.Queue") -> None:
    """What each process does."""
    events: list[Event] = []
    with SQLiteManager(file, durability="normal", busy_timeout=60) as store:
        ctx = session(store, on_event=events.append)
        start.wait(60)
        report(ctx, writer)
    told.put(changes(events))


@pytest.mark.slow
def test_two_processes_lose_no_step(tmp_path: Path) -> None:
    """FR-7, S-2: on one file."""
    file = tmp_path / "chat.db"
    with SQLiteManager(file) as store:
        set_goal(store)
    context = multiprocessing.get_context("spawn")
    start, told = context.Barrier(2), context.Queue()
    processes = [context.Process(target=write, args=(str(file), i, start, told)) for i in range(2)]
    for process in processes:
        process.start()
    lines = [told.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    with SQLiteManager(file) as store:
        assert missing(store) == []
        assert sorted(lines[0] + lines[1]) == sorted(TOLD)
        assert store.integrity_check() == []


# --- one after the other, in every order that two may have ----------------------------------------


@pytest.mark.parametrize("first", [0, 1])
def test_a_writer_that_is_overtaken_before_it_notes_loses_nothing(
    store: SessionStore, first: int
) -> None:
    """FR-7: whoever of two notes first, both steps are there, and goals of their time."""
    set_goal(store)
    events: list[Event] = []
    ctxs = [session(store, on_event=events.append) for _ in range(2)]
    places = []
    for ctx, line in zip(ctxs, TOLD, strict=False):
        ctx._session.state.catch_up()
        places.append(append_only(ctx, line))
    assert places == [0, 1]
    for i in (first, 1 - first):
        track(
            ctxs[i]._session.state,
            [ctxs[i].history[places[i]]],
            places[i],
            ContextWindow(size=4_000),
        )
    again = session(store)
    done = [task.status == "completed" for task in again.goals[0].subtasks]
    assert done == [True, True, *[False] * (2 * STEPS - 2)]
    assert sorted(changes(events)) == sorted(TOLD[:2])
    before = goals_by(again._session.state, 1, ContextWindow(size=4_000))[0].subtasks
    assert [task.status for task in before[:2]] == ["completed", "pending"]


def test_progress_does_not_undo_goals_that_somebody_set(store: SessionStore) -> None:
    """FR-7: not where it was said before and is noted after; what it says is heeded in them."""
    set_goal(store)
    one, two = session(store), session(store)
    at = append_only(one, TOLD[0])
    known = two.goals[0]
    two.goals.set([known, Goal(text="Sleep.")])
    track(one._session.state, [one.history[at]], at, ContextWindow(size=4_000))
    for ctx in (one, session(store)):
        assert [goal.text for goal in ctx.goals] == ["Mend the roof.", "Sleep."]
        assert ctx.goals[0].subtasks[0].status == "completed"


def test_goals_that_are_set_by_who_knew_less_keep_what_was_reached_since(
    store: SessionStore,
) -> None:
    """FR-7: a person changes the goals that they read, while a model reports progress."""
    set_goal(store)
    one, two = session(store), session(store)
    read = two.goals[0]
    report(one, 0)
    two.goals.set([read, Goal(text="Sleep.")])
    for ctx in (two, session(store)):
        assert [goal.text for goal in ctx.goals] == ["Mend the roof.", "Sleep."]
        assert sum(task.status == "completed" for task in ctx.goals[0].subtasks) == STEPS
    two.goals.set([read])
    assert session(store).goals == (read,), "what is known is taken back by saying so"


def test_progress_is_noted_on_the_branch_that_it_was_said_on(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FR-1, FR-7: also where another thread branches off before it is noted."""
    set_goal(store)
    ctx = session(store)
    append = ctx.history.append
    other = threading.Thread(target=lambda: ctx.time.branch(at=0))

    def overtaken(*given: Any, **options: Any) -> list[Message]:
        added = append(*given, **options)
        other.start()
        other.join(0.05)
        return added

    monkeypatch.setattr(ctx.history, "append", overtaken)
    ctx.add_message(role="assistant", content=TOLD[0])
    other.join(30)
    assert len(missing(store)) == 2 * STEPS, "the branch begins before it was said"
    ctx.time.undo()
    assert len(missing(store)) == 2 * STEPS - 1


def test_progress_of_a_writer_that_died_is_taken_in_with_the_next(store: SessionStore) -> None:
    """FR-7: its message is stored, and says it."""
    set_goal(store)
    append_only(session(store), TOLD[0])
    ctx = session(store)
    ctx.add_message(role="user", content="Go on.")
    ctx.add_message(role="assistant", content=TOLD[1])
    done = [task.text for task in session(store).goals[0].subtasks if task.status == "completed"]
    assert done == ["Slate row 0", "Slate row 1"]


@pytest.mark.slow
def test_what_is_looked_through_for_progress_is_bounded(store: SessionStore) -> None:
    """NFR-1: a marker that says nothing new does not have the whole history read each time."""
    set_goal(store)
    ctx = session(store)
    ctx.add_message(role="assistant", content=TOLD[0])
    read: list[int] = []
    for i in range(150):
        ctx.add_messages([{"role": "user", "content": f"{i}?"}] * 3)
        ctx.add_message(role="assistant", content=TOLD[0])
        read.append(len(ctx.history) - ctx._session.state.log.goals_at(len(ctx.history)).at)
    assert max(read) <= 120

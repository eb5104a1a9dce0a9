"""What a session store promises of what is in force, and of what was set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compact.errors import InvalidInput, NotFound, Superseded
from compact.messages.changes import (
    Change,
    GoalsSet,
    GoalsTracked,
    ModeSet,
    PinSet,
    PutAside,
    RecalledTurn,
    SystemShown,
    TurnsRecalled,
    What,
)
from compact.messages.goals import Goal
from compact.messages.protocols import SessionStore
from compact.messages.sessions import Branch, CheckpointRef, Run, Shown, Snapshot
from compact.testing import store_values as a


def _check_commits(store: SessionStore) -> None:
    """Moves are numbered, and one that builds on an old one is refused."""
    for name in ("a", "b"):
        store.session(name, create=a.session(name))
        store.append(name, [a.entry("hello")])
    store.note("a", "draft", {"x": 1})
    store.note("a", "other", {"x": 2})
    first = a.projection(1)
    one = store.commit(a.step("a", first, forget=("draft", "nothing")))
    assert (one.projection_id, one.before, one.number > 0) == (first.id, None, True), "a move"
    assert set(store.notes("a")) == {"other"}, "a commit forgets the notes it names"
    with a.refusing(Superseded, "another move came in between"):
        store.commit(a.step("a", a.projection(2)))
    other = store.commit(a.step("a", a.projection(3), window=9))
    apart = store.commit(a.step("b", a.projection(4)))
    undo = store.commit(a.step("a", None, base=one.number, kind="undo"))
    assert one.number < other.number < apart.number < undo.number, "numbers grow"
    assert (undo.projection_id, undo.before, undo.kind) == (None, first.id, "undo"), "an undo"
    redo = store.commit(a.step("a", first, base=undo.number, kind="redo"))
    assert (redo.projection_id, redo.before) == (first.id, None), "a redo names what is there"
    assert store.moves("a", 8, most=9) == [redo, undo, one], "of a window, the newest first"
    assert store.moves("a", most=3) == [redo, undo, other], "of all windows, at most so many"
    assert store.moves("a", most=0) == store.moves("a", most=-1) == [], "no moves are no moves"
    assert store.moves("nowhere", most=3) == [], "an unknown session has no moves"


def _check_steps(store: SessionStore) -> None:
    """A step is stored whole or not at all: its branch, its notes, and which branch is in force."""
    for name in ("a", "b"):
        store.session(name, create=a.session(name))
        store.append(name, [a.entry(f"{name} {i}", 2) for i in range(3)])
    store.note("a", "old", {"v": 1})
    store.commit(a.step("b", a.projection("theirs")))
    own = "own name"
    begun = Branch(id=own, session_id="a", parent="a", fork=2)
    notes = {"n": {"v": (1, None)}, "old": {"v": 2}, "m": {}}
    mode = Change(branch_id=own, at=2, what=ModeSet(mode="planning"))
    begins: dict[str, Any] = {"branch_id": own, "begins": begun, "notes": notes, "forget": ("m",)}
    begins["changes"] = (mode,)
    last = store.commit(a.step("a", None, kind="undo", **begins))
    stored = begun.model_copy(update={"messages": 2, "tokens": 4})
    assert store.session("a").branch == stored == store.branch(own), "it begins and is there"
    assert store.read(own, 0, 9) == store.read("a", 0, 2), "it goes on from its parent"
    assert store.notes("a") == {"n": {"v": [1, None]}, "old": {"v": 2}}, "kept, then forgotten"
    (kept,) = store.changes("a")
    assert kept == mode.model_copy(update={"number": kept.number}), "its changes with it"
    plan = [("compress", "a", own), ("redo", "a", "a"), ("compress", own, "a")]
    for kind, branch, wanted in (*plan, ("restore", own, own), ("undo", "a", "a")):
        last = store.commit(a.step("a", None, kind=kind, branch_id=branch, base=last.number))
        assert store.session("a").branch.id == wanted, f"a step of kind {kind!r} to {branch!r}"

    def told() -> tuple[object, ...]:
        said = store.notes("a"), store.changes("a"), store.moves("a", most=9)
        return store.sessions(), store.branches("a"), *said

    other = {**begins, "branch_id": "x", "begins": begun.model_copy(update={"id": "x"})}
    for error, projection, given in (
        (Superseded, None, begins),
        (Superseded, None, {**other, "base": 0}),
        (NotFound, None, {**other, "begins": begun.model_copy(update={"id": "x", "fork": 4})}),
        (NotFound, None, {**other, "begins": begun.model_copy(update={"id": "x", "parent": "b"})}),
        (NotFound, None, {**other, "branch_id": "b"}),
        (InvalidInput, a.projection("theirs"), other),
        (InvalidInput, None, {**other, "notes": {"n": {}, "m": {"v": {1}}}}),
    ):
        before = told()
        with a.refusing(error, f"a step that cannot be: {given}"):
            store.commit(a.step("a", projection, **{"base": last.number, "kind": "undo", **given}))
        assert told() == before, "nothing is stored of a step that was refused"
    with a.refusing(NotFound, "there is no such session"):
        store.commit(a.step("nowhere", None))


def _check_projections(store: SessionStore) -> None:
    """A projection comes back equal; a checkpoint's words are never changed."""
    for name in ("a", "b"):
        store.session(name, create=a.session(name))
    odd = a.odd_messages()
    shown = tuple(Shown(message) for message in odd if not message.edited)
    ck, again = (
        a.checkpoint("ck-000000000001"),
        a.checkpoint("ck-000000000001", summary="changed"),
    )
    pieces = (Run(0, 3), CheckpointRef(ck.id), *shown, Run(9, 9))
    whole = a.projection(5, pieces=pieces, checkpoints=(ck,), kept=(1, 5), parent="p")
    store.commit(a.step("a", whole))
    assert store.projection(whole.id) == whole, "a projection comes back equal"
    assert store.checkpoints("a") == [ck], "and so does its checkpoint"
    shortened = a.projection(8, window=9, pieces=[Shown(each, 7) for each in odd if each.edited])
    store.commit(a.step("a", shortened, window=9))
    for piece, message in zip(
        store.projection(shortened.id).pieces, (m for m in odd if m.edited), strict=True
    ):
        assert isinstance(piece, Shown), "a shown message stays one"
        assert piece.position == 7, "and its original's position"
        assert a.is_same(piece.message, message), "what is sent of a shortened message stays"
    later = a.checkpoint("ck-000000000002", number=2, parents=(ck.id,))
    changed = a.projection(6, checkpoints=(later, again))
    store.commit(a.step("a", changed, base=store.moves("a", 8, most=1)[0].number))
    assert store.checkpoints("a") == [ck, later], "a checkpoint stays what it was first"
    assert store.projection(changed.id).checkpoints == (later, ck), "in its order, everywhere"
    older = ck.model_copy(update={"level": "compact"})
    relabelled = a.projection(10, checkpoints=(older, later))
    store.commit(a.step("a", relabelled, base=store.moves("a", 8, most=1)[0].number))
    assert store.projection(relabelled.id) == relabelled, "its level is the projection's"
    assert store.projection(whole.id) == whole, "and each projection has its own"
    assert store.checkpoints("a") == [ck, later], "the checkpoint stays what it was first"
    store.commit(a.step("b", a.projection(7, checkpoints=(again,))))
    assert store.checkpoints("b") == [again], "sessions share no checkpoints"
    with a.refusing(NotFound, "a projection that nobody committed is not found"):
        store.projection("nothing")


def _check_keepsakes(store: SessionStore) -> None:
    """Snapshots and notes come back equal."""
    store.session("a", create=a.session("a"))
    goals = (Goal(text="win", id="g"), Goal(text="sleep", id="h", status="done"))
    one = Snapshot(session_id="a", branch_id="a", at=3, window=8, goals=goals, note="ü")
    two = Snapshot(
        session_id="a",
        branch_id="a",
        purpose="rollback",
        at=4,
        window=9,
        projection_id="p",
        checkpoint_ids=("ck-1", "ck-2"),
        policy={"keep": [1, {"x": None}]},
    )
    for snapshot in (one, two, one.model_copy(update={"note": "other"})):
        store.save_snapshot(snapshot)
    assert store.snapshots("a") == [one, two], "the oldest first, each as it was first"
    store.note("a", "n", {"v": [1, "ü\ud800", 10**30]})
    store.note("a", "gone", {"v": 1})
    store.note("a", "gone", None)
    store.note("a", "never", None)
    assert store.notes("a") == {"n": {"v": [1, "ü\ud800", 10**30]}}, "notes by name"
    store.note("a", "n", {"v": 2})
    assert store.notes("a") == {"n": {"v": 2}}, "a note takes the other's place"
    assert store.snapshots("nowhere") == [], "an unknown session has no snapshots"
    store.delete_snapshots("nowhere", [one.id])
    store.delete_snapshots("a", [one.id, "none"])
    assert store.snapshots("a") == [two], "only those of the session that are named are removed"
    assert store.notes("nowhere") == {}, "an unknown session has no notes"
    with a.refusing(NotFound, "nothing is kept of a session that is not there"):
        store.note("nowhere", "n", {"v": 1})
    with a.refusing(NotFound, "nothing is kept of a session that is not there"):
        store.save_snapshot(one.model_copy(update={"session_id": "nowhere"}))


_TURN = RecalledTurn(session_id="ü", branch_id="b", position=3, message_id="m", stop=9)


def _check_changes(store: SessionStore) -> None:
    """What was set comes back equal and in order, with numbers that grow; others may go for it."""
    for name in ("a", "b"):
        store.session(name, create=a.session(name))
    kinds: tuple[What, ...] = (
        GoalsSet(goals=(Goal(text="win ü", id="g"),)),
        GoalsTracked(goals=(Goal(text="win", id="g", status="done"),), since=1),
        ModeSet(mode=None),
        PinSet(is_pinned=False),
        PutAside(tokens=64),
        SystemShown(of="ab", messages=({"role": "system", "content": "ü\ud800"},), tokens=(3,)),
        TurnsRecalled(turns=(_TURN,), window=9, projection=None, first=2),
    )
    made = [Change(branch_id="a \ud800", at=at, what=what) for at, what in enumerate(kinds)]
    store.record("a", made)
    first = store.changes("a")
    assert [each.model_copy(update={"number": 0}) for each in first] == made, "each as it was"
    numbers = [each.number for each in first]
    assert numbers == sorted(set(numbers)), "numbers grow"
    assert numbers[0] > 0, "the first one, too"
    store.record("b", made[2:3])
    store.record("a", made[:1], instead_of=[numbers[1], numbers[3], 10**6])
    last = store.changes("a", after=numbers[-1])
    assert len(last) == 1, "one is new"
    assert last[0].number > store.changes("b")[0].number, "they grow over all sessions"
    rest = [each for i, each in enumerate(first) if i not in (1, 3)]
    assert store.changes("a") == [*rest, *last], "those it stands for are gone"
    assert store.changes("a", after=last[0].number) == [], "nothing is newer"
    store.record("a", (), instead_of=[store.changes("b")[0].number])
    assert len(store.changes("b")) == 1, "another session's entry stays"
    assert store.changes("nowhere") == [], "an unknown session has none"
    with a.refusing(NotFound, "nothing is recorded of a session that is not there"):
        store.record("nowhere", made)


STATE_CHECKS: tuple[Callable[[SessionStore], None], ...] = (
    _check_commits,
    _check_steps,
    _check_projections,
    _check_keepsakes,
    _check_changes,
)
"""Each on an empty store."""

"""The conformance suite for session stores: one check for each kind of promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from compact.errors import InvalidInput, NotFound, Superseded
from compact.messages import chain
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
from compact.messages.messages import Message
from compact.messages.protocols import FindsChains, SessionStore
from compact.messages.sessions import Branch, CheckpointRef, Entry, Run, Shown, Snapshot
from compact.testing import store_values as a


def check_session_store(make: Callable[[], SessionStore]) -> None:
    """Test a session store. Each call of `make` gives an empty store."""
    for check in _STORE_CHECKS:
        store = make()
        try:
            check(store)
        finally:
            store.close()
            store.close()


def _check_sessions(store: SessionStore) -> None:
    """Check that sessions are created once, are listed by scope, and never mix."""
    with a.refusing(NotFound, "a session that nobody made is not found"):
        store.session("a")
    given = a.session("a", scope="one", metadata={"n": [1, None, "ü\ud800"]}, model="m", title="T")
    made = store.session("a", create=given)
    assert made == given, "a new session is as it was given"
    again = store.session("a", create=a.session("a", scope="other"))
    assert again == given, "a session that is there is not made again"
    store.session("b", create=a.session("b", scope="two"))
    store.append("b", [a.entry("hello")])
    assert [s.id for s in store.sessions()] == ["b", "a"], "the one that changed last comes first"
    assert [s.id for s in store.sessions(scope="one")] == ["a"], "a scope has its own sessions"
    assert store.sessions(scope="none") == [], "an unknown scope has no sessions"
    for other in (a.session("zzz"), a.session("c", branch=Branch(id="c", session_id="zzz"))):
        with a.refusing(InvalidInput, "a session is made under its own id"):
            store.session("c", create=other)
    with a.refusing(InvalidInput, "a branch belongs to one session"):
        store.session("c", create=a.session("c", branch=Branch(id="a", session_id="c")))
    for missing in (store.branch, lambda b: store.read(b, 0, 9), lambda b: store.append(b, [])):
        with a.refusing(NotFound, "a branch that nobody made is not found"):
            missing("nowhere")
    assert store.branches("nowhere") == [], "an unknown session has no branches"


def _check_reading(store: SessionStore) -> None:
    """Check that appended entries are read by position, with their tokens and marks."""
    entries = [a.entry(f"message {i}", tokens=i or None, marks=i % 4) for i in range(40)]
    store.session("a", create=a.session("a"))
    assert store.append("a", entries[:1]) == 1, "append tells how many there are"
    assert store.append("a", entries[1:], expected=1) == 40, "append tells how many there are"
    assert store.append("a", []) == 40, "appending nothing changes nothing"
    assert store.read("a", 0, 40) == entries, "what is read is what was appended"
    assert store.read("a", 38, 99) == entries[38:], "beyond the end there is nothing"
    assert store.read("a", -2, 99) == entries[-2:], "a negative start counts from the end"
    assert store.read("a", 7, 7) == store.read("a", 9, 3) == [], "an empty range is empty"
    branch = store.branch("a")
    assert (branch.messages, branch.tokens) == (40, sum(range(40))), "sums are kept"
    with a.refusing(Superseded, "another writer was faster"):
        store.append("a", entries, expected=39)
    assert store.branch("a").messages == 40, "what was refused is not stored"
    _check_marks(store, "a", entries)
    assert store.position_of("a", entries[3].message.id) == 3, "a message is found by its id"
    assert store.position_of("a", "nobody's") is None, "an id that nobody has is not found"


def _check_marks(store: SessionStore, branch: str, entries: Sequence[Entry]) -> None:
    for mark in (1, 2):
        having = [i for i, entry in enumerate(entries) if entry.marks & mark]
        for before in (0, 1, len(entries) // 2, len(entries) + 5):
            wanted = [i for i in having if i < before][::-1]
            for most in (-1, 0, 1, 3, 999):
                found = store.marked(branch, mark, before=before, most=most)
                assert found == wanted[: max(0, most)], f"marked {mark} below {before}: {found}"
        oldest = having[0] if having else None
        assert store.first_marked(branch, mark) == oldest, "the oldest entry with the mark"


def _check_forks(store: SessionStore) -> None:
    """Check that a branch continues another from a position, and both grow separately."""
    known: dict[str, list[Entry]] = {"a": [a.entry(f"a {i}", 2, i % 3) for i in range(10)]}
    store.session("a", create=a.session("a"))
    store.append("a", known["a"])
    plan = (("a", 7, 4), ("a", 0, 3), (1, 9, 2), (1, 3, 5), (4, 8, 0), (5, 8, 1), (5, 2, 0))
    names = ["a"]
    for parent, at, more in plan:
        name = parent if isinstance(parent, str) else names[parent]
        branch = store.fork(name, at)
        assert branch == store.branch(branch.id), "a fork tells the branch as it stands"
        assert (branch.parent, branch.fork, branch.messages) == (name, at, at), "where it forks"
        assert store.session("a").branch == branch, "a new branch is in force"
        own = [a.entry(f"{branch.id} {i}", 3, (i + 1) % 4) for i in range(more)]
        assert store.append(branch.id, own, expected=at) == at + more, "it grows from its fork"
        names.append(branch.id)
        known[branch.id] = known[name][:at] + own
    store.append("a", [a.entry("late")])
    known["a"] = [*known["a"], *store.read("a", 10, 11)]
    assert [branch.id for branch in store.branches("a")] == names, "branches, the oldest first"
    for name, entries in known.items():
        _check_lineage(store, name, entries)
    for at in (-1, 99):
        with a.refusing(NotFound, "there is no such position to fork at"):
            store.fork("a", at)


def _check_lineage(store: SessionStore, name: str, entries: list[Entry]) -> None:
    assert store.read(name, 0, 99) == entries, f"branch {name} reads through its ancestors"
    for start, stop in ((0, 3), (2, 9), (6, 8), (8, 99)):
        assert store.read(name, start, stop) == entries[start:stop], "so does a part of it"
    branch = store.branch(name)
    total = sum(entry.tokens or 0 for entry in entries)
    assert (branch.messages, branch.tokens) == (len(entries), total), "sums count the ancestors"
    last = chain.START
    for length, entry in enumerate(entries, 1):
        assert store.chain(name, length - 1) == last, "the chain is that of `messages.chain`"
        last = chain.link(last, entry.message)
    assert store.chain(name, len(entries)) == store.chain(name, 999) == last, "up to the end"
    _check_marks(store, name, entries)
    for position, entry in enumerate(entries):
        assert store.position_of(name, entry.message.id) == position, "ids across ancestors"


def _check_beginnings(store: SessionStore) -> None:
    """Check that sessions are found by their first messages, if the store can find them at all."""
    if not isinstance(store, FindsChains):
        return
    for name, scope, said in (("a", "s", 2), ("b", "s", 3), ("c", "other", 2)):
        store.session(name, create=a.session(name, scope=scope))
        store.append(name, [a.entry(f"message {i}") for i in range(said)])
    two, three = store.chain("b", 2), store.chain("b", 3)
    assert sorted(store.beginning(two, scope="s", most=9)) == [("a", True), ("b", False)], "both"
    assert store.beginning(three, scope="s", most=9) == [("b", True)], "the one that says more"
    assert len(store.beginning(two, scope="s", most=1)) == 1, "not more than asked for"
    assert store.beginning(three, scope="other", most=9) == [], "no session of another scope"
    store.delete_session("b")
    assert store.beginning(three, scope="s", most=9) == [], "no session that is gone"


def _check_ids(store: SessionStore) -> None:
    """Check that an id may be repeated, and may look like a position."""
    store.session("a", create=a.session("a"))
    ids: tuple[str, ...] = ("m0", "x", "m7", "x", "m1", "m05", "ü\ud800")
    store.append("a", [Entry(Message.trusted(role="user", content="c", id=i)) for i in ids])
    assert [entry.message.id for entry in store.read("a", 0, 9)] == list(ids), "ids stay"
    wanted = {"m0": 0, "x": 3, "m7": 2, "m1": 4, "m05": 5, "ü\ud800": 6, "m3": None, "m5": None}
    assert {i: store.position_of("a", i) for i in wanted} == wanted, "the newest of an id"
    fork = store.fork("a", 2)
    assert store.position_of(fork.id, "x") == 1, "of an id, the newest that the branch has"
    assert store.position_of(fork.id, "m7") is None, "what came after the fork is not there"
    ids = ("0123456789abcdef", "0123456789ab9999", "0123456", "\ud800123456789")
    at = store.append(
        "a", [Entry(Message.trusted(role="user", content="c", id=i)) for i in ids]
    ) - len(ids)
    begins = {"01234567": 1, "0123456789abc": 0, "0123456": 2, "012345": None, "\ud8001234567": 3}
    for shortened, number in begins.items():
        wanted_at = None if number is None else at + number
        assert store.position_of("a", shortened) == wanted_at, "an id's first eight letters do"
    assert store.position_of(fork.id, "01234567") is None, "of the branch's own messages"


def _check_fidelity(store: SessionStore) -> None:
    """Check that messages are read back equal, with the provider's dictionary, unmerged."""
    store.session("a", create=a.session("a"))
    messages = a.odd_messages()
    entries = [Entry(message, None, 0) for message in (*messages, *messages)]
    store.append("a", entries)
    last = chain.START
    for position, (entry, message) in enumerate(
        zip(store.read("a", 0, 999), (*messages, *messages), strict=True)
    ):
        assert a.is_same(entry.message, message), f"message {position} is now {entry.message!r}"
        assert entry.message.timestamp.utcoffset() == message.timestamp.utcoffset(), "its zone"
        last = chain.link(last, entry.message)
        assert store.chain("a", position + 1) == last, "the chain of what is read is the stored"
    hashes = {store.chain("a", length) for length in range(2 * len(messages) + 1)}
    assert len(hashes) == 2 * len(messages) + 1, "identical messages stay distinct"


def _check_commits(store: SessionStore) -> None:
    """Check that moves are numbered, and that a move that builds on an old one is refused."""
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
    assert one.number < other.number < undo.number, "numbers grow"
    assert store.moves("b", most=9) == [apart], "sessions have moves of their own"
    assert (undo.projection_id, undo.before, undo.kind) == (None, first.id, "undo"), "an undo"
    redo = store.commit(a.step("a", first, base=undo.number, kind="redo"))
    assert (redo.projection_id, redo.before) == (first.id, None), "a redo names what is there"
    assert store.moves("a", 8, most=9) == [redo, undo, one], "of a window, the newest first"
    assert store.moves("a", most=3) == [redo, undo, other], "of all windows, at most so many"
    assert store.moves("a", most=0) == store.moves("a", most=-1) == [], "no moves are no moves"
    assert store.moves("nowhere", most=3) == [], "an unknown session has no moves"


def _check_steps(store: SessionStore) -> None:
    """Check that a step, with its branch and notes, is stored completely or not at all."""
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
    """Check that a projection is read back equal, and that a checkpoint's text never changes."""
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
    """Check that snapshots and notes are read back equal."""
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
    """Check that changes are read back in order with growing numbers, and replace others."""
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
    assert last[0].number > numbers[-1], "its number is greater"
    rest = [each for i, each in enumerate(first) if i not in (1, 3)]
    assert store.changes("a") == [*rest, *last], "those it stands for are gone"
    assert store.changes("a", after=last[0].number) == [], "nothing is newer"
    store.record("a", (), instead_of=[store.changes("b")[0].number])
    assert len(store.changes("b")) == 1, "another session's entry stays"
    assert store.changes("nowhere") == [], "an unknown session has none"
    with a.refusing(NotFound, "nothing is recorded of a session that is not there"):
        store.record("nowhere", made)


def _check_deletion(store: SessionStore) -> None:
    """Check that a deleted session is gone completely, and that its name can be used again."""
    for name in ("a", "b"):
        store.session(name, create=a.session(name))
        store.append(name, [a.entry(f"secret of {name}", 5, 3)])
        store.commit(a.step(name, a.projection(name, checkpoints=(a.checkpoint("ck-1"),))))
        store.save_snapshot(Snapshot(session_id=name, branch_id=name, at=1, window=8))
        store.note(name, "n", {"v": 1})
        store.record(name, [Change(branch_id=name, at=0, what=PinSet(is_pinned=True))])
        assert store.search(name, "secret", most=5), "it is found while it is there"
    fork = store.fork("a", 1).id
    store.append(fork, [a.entry("secret fork")])
    store.delete_session("a")
    for gone in ("a", fork):
        with a.refusing(NotFound, "a deleted branch is gone"):
            store.append(gone, [a.entry("x")])
    with a.refusing(NotFound, "a deleted projection is gone"):
        store.projection("a")
    with a.refusing(NotFound, "what is gone cannot be deleted"):
        store.delete_session("a")
    store.session("a", create=a.session("a"))
    store.append("a", [a.entry("nothing yet")])
    kept = (store.checkpoints("a"), store.snapshots("a"), store.notes("a"))
    assert kept == ([], [], {}), "nothing of the deleted session comes back"
    assert store.moves("a", most=9) == [], "nor its moves"
    assert store.changes("a") == [], "nor what was set in it"
    assert store.search("a", "secret", most=5) == [], "nor its words"
    assert store.branch("a").tokens == 0, "nor its sums"
    assert len(store.search("b", "secret", most=5)) == 1, "the other session is whole"
    kept_of_b = store.checkpoints("b"), store.notes("b"), store.changes("b")
    assert [len(each) for each in kept_of_b] == [1, 1, 1], "all of it"


def _check_search(store: SessionStore) -> None:
    """Check that search finds messages that share words, best first, only in this branch."""
    texts = (
        "We keep retry_budget at three in src/net/client.py.",
        "The budget for the party; no need to retry anything here at all.",
        "登录页面在移动端加载很慢",
        "Größe und Maße der Naht",
        'quotes " and * ( ) NEAR AND OR NOT ^ : - + {x} words',
        "nothing of interest",
        "nothing of interest",
    )
    for name in ("a", "b"):
        store.session(name, create=a.session(name))
    store.append("b", [a.entry("zebra")])
    store.append("a", [a.entry(text) for text in texts])

    def found(question: str, branch: str = "a", most: int = 9) -> list[int]:
        return [position for position, _ in store.search(branch, question, most=most)]

    assert 0 in found("where is retry_budget?"), "a name of several words"
    assert set(found("retry budget")) == {0, 1}, "its words count by themselves"
    assert found("client.py") == [0], "a file's name"
    assert found("移动端") == [2], "Chinese words"
    assert found("GRÖße NAHT") == [3], "in any case"
    assert found("interest") == [6, 5], "the newer first among equals"
    assert found("interest", most=1) == [6], "at most so many"
    assert found("interest", most=0) == found("interest", most=-1) == [], "none where none may be"
    assert found("zebra") == [], "never in another session"
    assert found("") == found("!?") == found("\ud800\x00") == [], "no words, nothing found"
    for wild in ('"', 'a"b', "x*", "(", "NEAR(a b", "AND", "- ^ :", "text:words", "\x00", "'; --"):
        store.search("a", wild, most=3)
    assert 4 in found('quotes" (NEAR* words'), "the marks of a query language are no words"
    fork = store.fork("a", 3).id
    store.append(fork, [a.entry("the zebra of the fork")])
    assert found("zebra", fork) == [3], "a branch's own part"
    assert found("client.py", fork) == [0], "and its ancestors'"
    assert found("interest", fork) == [], "up to the fork"
    store.append("a", [a.entry("a late giraffe")])
    assert found("giraffe") == [7], "what was appended just now"


def _check_threads(store: SessionStore) -> None:
    """Let eight threads append to one branch. No entry may be lost. The chain must be right."""
    store.session("a", create=a.session("a"))

    def write(thread: int) -> None:
        for i in range(12):
            store.append("a", [a.entry(f"{thread} {i}", 1), a.entry(f"{thread} {i} too", 1)])
            store.read("a", 0, 5)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    entries = store.read("a", 0, 999)
    said = [entry.message.text for entry in entries]
    assert sorted(said) == sorted(
        f"{thread} {i}{too}" for thread in range(8) for i in range(12) for too in ("", " too")
    ), "every message is there once"
    for first, second in zip(said[::2], said[1::2], strict=True):
        assert second == f"{first} too", "what was appended together stands together"
    for thread in range(8):
        own = [text for text in said if text.split()[0] == str(thread)]
        assert own == sorted(own, key=lambda t: int(t.split()[1])), "in each thread's order"
    last = chain.START
    for entry in entries:
        last = chain.link(last, entry.message)
    assert store.chain("a", 999) == last, "the chain holds"
    assert store.branch("a").tokens == len(entries) == 192, "and so do the sums"


_STORE_CHECKS: tuple[Callable[[SessionStore], None], ...] = (
    _check_sessions,
    _check_reading,
    _check_forks,
    _check_beginnings,
    _check_ids,
    _check_fidelity,
    _check_commits,
    _check_steps,
    _check_projections,
    _check_keepsakes,
    _check_changes,
    _check_deletion,
    _check_search,
    _check_threads,
)

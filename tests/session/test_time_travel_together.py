"""Several writers travel in one session at once: whatever comes in between, it stays whole (S-2,
US-1, NFR-2)."""

import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from compact import ContextManager, SQLiteManager
from compact.errors import NotFound
from compact.messages.protocols import SessionStore
from compact.messages.sessions import Move, Step
from compact.store.inmemory import InMemoryStore
from compact.testing import ScriptedSummarizer
from tests.session.playing import cover_faults
from tests.session.test_time_travel import WINDOW, fill
from tests.sizes import size

ROOT = Path(__file__).parents[2]
Act = Callable[[ContextManager], object]
ACTS: dict[str, Act] = {
    "undo": lambda ctx: ctx.time.undo(),
    "redo": lambda ctx: ctx.time.redo(),
    "compress": lambda ctx: ctx.compress_conversation(0.3),
    "append": lambda ctx: fill(ctx, 90, 92),
    "branch": lambda ctx: ctx.time.branch(at=12),
}


def session(store: SessionStore | str, **options: Any) -> ContextManager:
    return ContextManager(window=WINDOW, store=store, session_id="s", tokenizer="o200k", **options)


class Interrupted(InMemoryStore):
    """A store in which another writer does something just before a step is stored."""

    between: Callable[[], object] | None = None

    def commit(self, step: Step) -> Move:
        between, self.between = self.between, None
        if between is not None:
            between()
        return super().commit(step)


def moved(store: SessionStore, steps: int = 2) -> ContextManager:
    """A session that has been compressed several times, the last of which was taken back."""
    ctx = session(store)
    for i in range(steps):
        fill(ctx, 10 * i, 10 * i + 10)
        ctx.compress_conversation(0.3)
    ctx.time.undo()
    return ctx


def place(ctx: ContextManager) -> tuple[str, tuple[str, ...], int]:
    """The branch, the checkpoints in view, and how many compressions led to them."""
    return ctx.branch_id, tuple(each.id for each in ctx.checkpoints), ctx.compressions


def assert_whole(store: SessionStore) -> None:
    """It opens, gives a prompt, and can be travelled from one end to the other and back."""
    with session(store) as ctx:
        assert cover_faults(ctx) == []
        ctx.get_context_for_model()
        here = place(ctx)
        back = 0
        with suppress(NotFound):
            while back < 200:
                ctx.time.undo()
                back += 1
        for _ in range(back):
            ctx.time.redo()
        assert place(ctx) == here
        assert back < 200


@pytest.mark.parametrize("other", ACTS)
@pytest.mark.parametrize("own", [name for name in ACTS if name != "append"])
def test_what_another_one_does_just_before_counts(own: str, other: str) -> None:
    """What is taken back, or done again, is chosen by what is there when it is stored."""
    store = Interrupted()
    ctx, else_where = moved(store), session(store)

    def between() -> None:
        with suppress(NotFound):
            ACTS[other](else_where)

    store.between = between
    with suppress(NotFound):
        ACTS[own](ctx)
    assert_whole(store)


def test_of_two_that_undo_the_last_step_one_is_refused() -> None:
    """Neither ruins the session."""
    store = Interrupted()
    ctx, other = moved(store), session(store)
    store.between = other.time.undo
    with pytest.raises(NotFound, match="nothing to undo"):
        ctx.time.undo()
    assert_whole(store)


def test_a_session_that_an_older_version_ruined_can_be_travelled_again() -> None:
    """Two had taken the same step back, and every undo and redo since failed."""
    store = InMemoryStore()
    ctx = moved(store)
    newest = store.moves("s", WINDOW, most=1)[0]
    for kind in ("undo", "undo", "redo", "redo", "redo"):
        newest = store.commit(
            Step(
                kind=kind,
                session_id="s",
                branch_id=ctx.branch_id,
                window=WINDOW,
                base=newest.number,
                at=len(ctx.history),
                projection=None,
            )
        )
    assert_whole(store)


TRAVELLER = """
    import random, sys
    from compact import ContextManager
    from compact.errors import NotFound, Superseded
    name, seed, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rng, done, said = random.Random(seed), 0, 0
    with ContextManager(window=2_048, store=name, session_id="s", tokenizer="o200k") as ctx:
        while done < steps:
            act = rng.choice(("undo", "redo", "undo", "redo", "append", "compress", "prompt"))
            try:
                if act == "append":
                    ctx.add_message(role="user", content=f"{seed} {said}: " + "the roof " * 8)
                    said += 1
                elif act == "compress":
                    ctx.compress_conversation(0.3)
                elif act == "prompt":
                    ctx.get_context_for_model()
                else:
                    getattr(ctx, act)()
            except (NotFound, Superseded):
                pass
            done += 1
    print(said)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(size(1, 6)))
def test_processes_undo_and_redo_at_once(tmp_path: Path, seed: int) -> None:
    """Three of six such runs ruined their session for good. Both append and compress, too."""
    name = tmp_path / "chat.db"
    with SQLiteManager(name, durability="normal") as store:
        moved(store)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(TRAVELLER), str(name), str(who), "100"],
            env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for who in (2 * seed, 2 * seed + 1)
    ]
    said = []
    for process in running:
        told, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
        said.append(int(told))
    assert min(said) > 5
    with SQLiteManager(name, durability="normal") as store:
        assert_whole(store)
        texts = [entry.message.text.partition(":")[0] for entry in store.read("s", 0, 10_000)]
        for who, count in zip((2 * seed, 2 * seed + 1), said, strict=True):
            mine = [text for text in texts if text.startswith(f"{who} ")]
            assert mine == [f"{who} {number}" for number in range(count)], "each once, in order"
        assert store.integrity_check() == []


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [InMemoryStore, SQLiteManager])
def test_a_strangers_session_takes_no_branch_from_another_one(
    store: Callable[[], SessionStore],
) -> None:
    """Whoever is called as a branch of somebody else would be: both go on (S-5)."""
    kept = store()
    ctx = session(kept)
    fill(ctx, 0, 3)
    strangers = [ContextManager(window=WINDOW, store=kept, session_id="s~2")]
    taken = {ctx.branch_id, strangers[0].branch_id}
    for at in (2, 1):
        taken.add(ctx.time.branch(at=at).id)
        kept.fork(ctx.branch_id, 1)
    assert len(taken) == 4
    for number in range(2, 9):
        other = ContextManager(window=WINDOW, store=kept, session_id=f"s~{number}")
        other.add_message(role="user", content=f"stranger {number}")
        other.time.branch(at=0)
        assert [m.text for m in other.history] == []
        other.time.undo()
        assert [m.text for m in other.history] == [f"stranger {number}"]
    assert [m.text for m in ctx.history][:1] == ["Question 0: " + "what of the roof? " * 6]
    kept.close()


@pytest.mark.parametrize("store", [InMemoryStore, SQLiteManager])
def test_checkpoints_of_different_words_have_different_ids(
    store: Callable[[], SessionStore],
) -> None:
    """Also where the messages' ids and the summaries are the same (FR-4)."""
    kept = store()
    ctx = session(kept, summarizer=ScriptedSummarizer("All about roofs."))
    ids = []
    for who in ("anna", "bert"):
        fill(ctx, 0, 2)
        ctx.add_message({"role": "user", "content": f"it is for {who}"})
        fill(ctx, 2, 12)
        ctx.compress_conversation(0.3)
        ids.append({each.id for each in ctx.checkpoints})
        ctx.time.branch(at=0)
    assert ids[0]
    assert not ids[0] & ids[1]
    known = {each.id: each for each in kept.checkpoints("s")}
    assert set(known) >= ids[0] | ids[1]
    kept.close()

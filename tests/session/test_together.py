"""Several callers at once: threads, tasks and managers of one session (US-1, FR-5, NFR-2)."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from compact import ContextManager, SQLiteManager
from compact.errors import CannotFit, StoreFailed
from compact.messages.events import StageStarted
from compact.messages.protocols import SessionStore
from compact.session.views.fitting import make_fit
from tests import checker
from tests.doors.talking import verbatim
from tests.session.asking import Gate, fill, session
from tests.session.playing import cover_faults

WINDOW = 4_096
PRIMING = 3
"""Tokens that start the answer; they count as used."""
Dict = dict[str, Any]


def assert_sound(ctx: ContextManager, prompt: list[Dict]) -> None:
    """What was told is what is there, it fits, and every message has its place. Those that are sent
    as one are counted apart.
    """
    apart = [{"role": m.role, "content": m.text} for m in ctx._session.view.context().messages]
    tokens = checker.prompt_tokens(apart)
    assert checker.prompt_tokens(prompt) <= tokens <= ctx.window.usable
    assert "\n\n".join(m["content"] for m in prompt) == "\n\n".join(m["content"] for m in apart)
    assert ctx.budget.used_tokens == tokens + PRIMING
    assert cover_faults(ctx) == []


def while_it_waits(store: SessionStore, act: Callable[[ContextManager], object]) -> ContextManager:
    """A session on which something was done while a compression waited for its summary."""

    async def meanwhile() -> ContextManager:
        slow = Gate("All about roofs.")
        ctx = session(store, summarizer=slow)
        fill(ctx, 0, 40)
        task = asyncio.create_task(ctx.aget_context_for_model())
        await slow.entered.wait()
        act(ctx)
        slow.open.set()
        await task
        assert_sound(ctx, await ctx.aget_context_for_model())
        return ctx

    return asyncio.run(meanwhile())


@pytest.mark.slow
def test_eight_threads_talk_in_one_session(store: SessionStore) -> None:
    """One manager, eight threads: every message is there in its thread's order, and no prompt that
    any of them is given is too large."""
    ctx = session(store)

    def talk(who: int) -> None:
        for i in range(20):
            ctx.add_message(role="user", content=f"{who}.{i}: " + "what of the roof? " * 20)
            prompt = ctx.get_context_for_model()
            assert checker.prompt_tokens(prompt) <= ctx.window.usable

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(talk, range(8)))
    said = [m.text.split(":")[0] for m in ctx.history]
    for who in range(8):
        assert [t for t in said if t.startswith(f"{who}.")] == [f"{who}.{i}" for i in range(20)]
    assert len(said) == 160
    assert ctx.compressions > 3
    assert_sound(ctx, ctx.get_context_for_model())


def test_an_edited_past_while_a_summary_is_written(store: SessionStore) -> None:
    """What was proposed over the old branch is void, and the session opens again."""

    def edit(ctx: ContextManager) -> None:
        listed = [{"role": m.role, "content": m.text} for m in ctx.history][:20]
        ctx.sync([*listed, {"role": "user", "content": "no, something else"}])

    ctx = while_it_waits(store, edit)
    assert ctx.branch_id == "s~2"
    assert ctx.compressions == 0
    assert len(ctx.history) == 21
    again = session(store)
    assert again.get_context_for_model() == ctx.get_context_for_model()


def test_an_undo_while_a_summary_is_written_counts(store: SessionStore) -> None:
    """Where the undone state is too large, it is compressed anew, over what is there then."""
    first = session(store)
    fill(first, 100, 130)
    first.get_context_for_model()
    made = first.checkpoints
    ctx = while_it_waits(store, lambda ctx: ctx.time.undo())
    assert made
    assert not {c.id for c in made} & {c.id for c in ctx.checkpoints}


def test_goals_that_are_set_while_a_summary_is_written_are_counted(store: SessionStore) -> None:
    ctx = while_it_waits(store, lambda ctx: ctx.goals.set(["Get the roof done. " * 30]))
    assert "Get the roof done." in str(ctx.get_context_for_model())


def test_a_pin_that_is_set_while_a_summary_is_written_stays_in_view(store: SessionStore) -> None:
    ctx = while_it_waits(store, lambda ctx: ctx.pin(ctx.history[7]))
    pinned = ctx.history[7]
    assert verbatim([{"role": pinned.role, "content": pinned.text}], ctx.get_context_for_model())


def test_many_messages_that_come_while_a_summary_is_written_fit_too(store: SessionStore) -> None:
    """The prompt is measured when it is taken, not when the compression began."""
    ctx = while_it_waits(store, lambda ctx: fill(ctx, 40, 90))
    assert ctx.compressions >= 2


def test_a_report_does_not_let_a_stale_compression_through(store: SessionStore) -> None:
    """Two managers: the second one's compression counts, whatever the first one learned since."""

    def act(ctx: ContextManager) -> None:
        session(store).get_context_for_model()
        ctx.record_usage(2_000)

    ctx = while_it_waits(store, act)
    assert ctx.compressions == 1
    assert [m.kind for m in store.moves("s", most=9)] == ["compress"]


def test_who_only_reads_does_not_switch_the_session_back(store: SessionStore) -> None:
    """A process that is still on the old branch compresses its own view; the branch in force is
    the one that somebody chose."""
    old = session(store)
    fill(old, 0, 10)
    old.get_context_for_model()
    chosen = session(store)
    chosen.time.branch(at=6)
    chosen.add_message(role="user", content="the newest words")
    fill(old, 10, 60)
    old.get_context_for_model()
    assert old.compressions
    again = session(store)
    assert again.branch_id == chosen.branch_id
    assert again.history[-1].text == "the newest words"
    again.time.undo()
    assert again.branch_id == "s", "an undo steps over what was chosen, not over the other's view"


def test_a_rescue_that_another_writer_overtakes_takes_what_that_one_made(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No `Superseded` reaches who asked for a prompt (FR-3, FR-10)."""
    tries: list[object] = []

    async def overtaken(state: Any, view: Any, error: Any) -> Any:
        if not tries:
            session(store).get_context_for_model()
        tries.append(error)
        return await make_fit(state, view, error)

    ctx = session(store)
    fill(ctx, 0, 40)
    failing = [CannotFit({"prompt": 1}, 2)]
    propose = ctx._session.view.propose

    async def failing_once(*given: Any, **more: Any) -> Any:
        if failing:
            raise failing.pop()
        return await propose(*given, **more)

    monkeypatch.setattr("compact.session.prompt_sender.make_fit", overtaken)
    monkeypatch.setattr(ctx._session.view, "propose", failing_once)
    assert_sound(ctx, ctx.get_context_for_model())
    assert ctx.compressions == 1


def test_a_restore_that_fails_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Branch, goals and view change in one transaction or not at all (FR-10, NFR-2)."""
    with SQLiteManager(tmp_path / "sessions.db", durability="normal") as store:
        ctx = session(store)
        ctx.goals.set(["the old goal"])
        fill(ctx, 0, 5)
        kept = ctx.time.snapshot()
        ctx.goals.set(["the new goal"])
        fill(ctx, 5, 40)
        before = ctx.get_context_for_model()

        def fails(*_: object) -> None:
            raise StoreFailed("no space")

        with monkeypatch.context() as broken:
            broken.setattr("compact.store.sqlite.changes.record_rows", fails)
            with pytest.raises(StoreFailed):
                ctx.time.restore(kept)
        for each in (ctx, session(store)):
            assert each.branch_id == "s"
            assert [g.text for g in each.goals] == ["the new goal"]
            assert each.get_context_for_model() == before
        ctx.time.restore(kept)
        assert [g.text for g in ctx.goals] == ["the old goal"]
        assert len(ctx.history) == 10
        ctx.time.undo()
        assert [g.text for g in ctx.goals] == ["the new goal"]
        assert ctx.get_context_for_model() == before


def test_goals_of_two_writers_are_both_kept(store: SessionStore) -> None:
    """Each change is an entry of its own: none undoes another one's."""
    one, two = session(store), session(store)
    for i in range(20):
        (one if i % 2 else two).goals.set([f"goal {i}"])
        (two if i % 2 else one).add_message(role="user", content="and?")
    one._session.state.catch_up()
    assert [[g.text for g in one._session.state.log.goals_at(i).goals] for i in range(20)] == [
        [f"goal {i}"] for i in range(20)
    ]


def test_what_was_asked_for_is_done_once(store: SessionStore) -> None:
    """A compression that is asked for where one was due is that one: one undo takes it back. Where
    nothing is left to do, nothing is done (K-6)."""
    ctx = session(store)
    fill(ctx, 0, 40)
    plan = ctx.compress_conversation()
    assert ctx.compressions == 1
    assert plan.tokens_before is not None
    assert plan.tokens_before > ctx.window.trigger
    for _ in range(2):
        assert ctx.compress_conversation(1.0).unchanged
    assert len(store.moves("s", most=9)) == 1
    ctx.time.undo()
    assert ctx.checkpoints == ()


def test_an_event_that_asks_for_a_prompt_is_refused_and_nothing_hangs() -> None:
    refused: list[str] = []

    def ask(event: object) -> None:
        if isinstance(event, StageStarted):
            with pytest.raises(RuntimeError) as caught:
                ctx.get_context_for_model()
            refused.append(str(caught.value))

    ctx = ContextManager(window=WINDOW, tokenizer="o200k", on_event=ask)
    fill(ctx, 0, 60)
    assert_sound(ctx, ctx.get_context_for_model())
    assert "while one is being made" in refused[0]

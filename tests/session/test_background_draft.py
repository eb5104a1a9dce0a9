"""Drafting ahead: nobody waits where a draft is ready, and there are never two for one span."""

import asyncio
import os
import signal
import threading
from typing import Any

import pytest

from compact import CompactPolicy, ContextManager
from compact.engine.gate import rules
from compact.engine.gate.rules import Judged
from compact.messages.checkpoints import Summary
from compact.messages.events import Committed, DraftMade, Event, TriggerDecision
from compact.store.sqlite.store import SQLiteManager
from compact.testing import ScriptedModel
from tests.session.asking import PATIENCE, of, until

WINDOW = 8_192
WORDS = "the harbour keeps its ledger in brass drawers and nobody counts them twice "


@pytest.fixture(autouse=True)
def every_story_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told here is of no account: who waits, and when, is."""
    monkeypatch.setattr(rules, "judge", lambda story, *_, **__: Judged(story, ()))


class Slow:
    """Writes when it is let go on; knows how many were writing at once."""

    name = "slow"
    waits = True

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.began = threading.Event()
        self.requests = 0
        self.at_once = 0
        self.most_at_once = 0
        self.error: Exception | None = None

    async def summarize(self, request):
        self.requests += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.began.set()
        try:
            while not self.go_on.is_set():  # noqa: ASYNC110 - another thread sets it
                await asyncio.sleep(0.001)
            if self.error:
                raise self.error
        finally:
            self.at_once -= 1
        return Summary(
            text=f"## Goal\n- Count the drawers of the harbour.\n\n## Done\n- {WORDS}",
            made_by=self.name,
        )


def session(summarizer, events, **more):
    policy = CompactPolicy(**more)
    return ContextManager(
        window=WINDOW, summarizer=summarizer, on_event=events.append, policy=policy
    )


def grow(ctx, share):
    """Say so much that the prompt takes that share, .70 being the trigger."""
    number = len(ctx.history)
    while ctx.budget.used_tokens < share / 0.7 * ctx.window.trigger:
        number += 1
        role = "user" if number % 2 else "assistant"
        ctx.add_message(role=role, content=f"{number}: {WORDS * 3}")


def test_what_is_due_after_an_answer_is_drafted_while_it_is_read():
    """(FR-2, FR-9) An answer may pass the trigger at one go; the next turn waits for nobody."""
    events: list[Event] = []
    slow = Slow()
    with session(slow, events) as ctx:
        grow(ctx, 0.5)
        ctx.add_message(role="user", content="Tell me all of it.")
        ctx.send(ScriptedModel(WORDS * 150, "Yes."))
        assert slow.began.wait(PATIENCE)
        slow.go_on.set()
        until(lambda: of(events, DraftMade))
        slow.go_on.clear()  # whoever asked for a summary now would wait for ever
        ctx.add_message(role="user", content="And then?")
        ctx.send(ScriptedModel("Nothing."))
        assert [c.made_by for c in ctx.checkpoints] == ["slow"]
        assert slow.requests == 1


def test_a_draft_begins_at_its_share_of_the_window():
    """(FR-2, C-7) Of the window itself, as the trigger does."""
    slow = Slow()
    with session(slow, []) as ctx:
        grow(ctx, 0.58)
        ctx.get_context_for_model()
        assert ctx.budget.used_tokens < 0.60 * WINDOW
        assert not slow.began.wait(0.05)
        grow(ctx, 0.60)
        ctx.get_context_for_model()
        assert ctx.budget.used_tokens < 0.62 * WINDOW
        assert slow.began.wait(PATIENCE)


def test_a_draft_is_swapped_in_at_the_trigger_and_nobody_waits():
    """(FR-2, FR-9) The summary was written before it was needed."""
    events: list[Event] = []
    slow = Slow()
    with session(slow, events) as ctx:
        grow(ctx, 0.62)
        before = ctx.get_context_for_model()
        assert slow.began.wait(PATIENCE)
        ctx.add_message(role="user", content="I go on while you write.")
        assert len(ctx.get_context_for_model()) == len(before) + 1
        slow.go_on.set()
        until(lambda: of(events, DraftMade))
        assert ctx.checkpoints == ()
        grow(ctx, 0.72)
        slow.go_on.clear()  # whoever asked for a summary now would wait for ever
        ctx.get_context_for_model()
        assert [c.made_by for c in ctx.checkpoints] == ["slow"]
        assert slow.requests == 1
        assert of(events, TriggerDecision)[-2].reason == "above the trigger, drafted ahead"
        assert ctx.history[-1].text in ctx.get_context_for_model()[-1]["content"]
        slow.go_on.set()


def test_who_passes_the_trigger_early_waits_for_the_draft_and_writes_no_other():
    events: list[Event] = []
    slow = Slow()
    with session(slow, events) as ctx:
        grow(ctx, 0.62)
        ctx.get_context_for_model()
        assert slow.began.wait(PATIENCE)
        grow(ctx, 0.71)  # above the trigger; what is left then needs no other draft
        prompt = threading.Thread(target=ctx.get_context_for_model)
        prompt.start()
        prompt.join(0.05)
        assert prompt.is_alive()
        slow.go_on.set()
        prompt.join(PATIENCE)
        assert not prompt.is_alive()
        assert slow.requests == 1
        assert slow.most_at_once == 1
        assert len(ctx.checkpoints) == 1


CHANGES = {
    "pin": lambda ctx: ctx.pin(ctx.history[2]),
    "goals": lambda ctx: ctx.goals.set(["Count the drawers"]),
    "undo": lambda ctx: ctx.time.undo(),
    "branch": lambda ctx: ctx.time.branch(at=len(ctx.history) - 2),
}


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_a_draft_is_void_when_what_it_stands_on_has_changed(change, is_written):
    """(FR-2) Before it was written, or while it is."""
    events: list[Event] = []
    slow = Slow()
    slow.go_on.set()
    with session(slow, events) as ctx:
        grow(ctx, 0.75)
        ctx.get_context_for_model()  # something to undo
        grow(ctx, 0.62)
        if not is_written:
            slow.go_on.clear()
            slow.began.clear()
        ctx.get_context_for_model()
        until(slow.began.is_set if not is_written else lambda: of(events, DraftMade))
        before = len(of(events, Committed))
        CHANGES[change](ctx)
        slow.go_on.set()
        grow(ctx, 0.72)
        asked = slow.requests
        ctx.get_context_for_model()
        if len(of(events, Committed)) > before:
            assert slow.requests > asked, "the void draft was put in force"
        if change == "goals":
            assert "Count the drawers" in str(ctx.get_context_for_model())


def test_drafting_can_be_turned_off():
    events: list[Event] = []
    slow = Slow()
    with session(slow, events, draft_ratio=0.70) as ctx:
        grow(ctx, 0.68)
        ctx.get_context_for_model()
        assert not slow.began.wait(0.05)


@pytest.mark.slow
def test_closing_gives_up_what_is_being_drafted(tmp_path):
    """No writer is left, and no note of a draft."""
    slow = Slow()
    with SQLiteManager(tmp_path / "chat.db") as store:
        ctx = ContextManager(window=WINDOW, store=store, summarizer=slow, session_id="s")
        grow(ctx, 0.65)
        ctx.get_context_for_model()
        assert slow.began.wait(PATIENCE)
        assert any(name.startswith("draft:") for name in store.notes("s"))
        ctx.close()
        assert slow.at_once == 0
        assert not any(name.startswith("draft:") for name in store.notes("s"))


def test_async_callers_are_served_while_a_draft_is_written():
    async def talk():
        events: list[Event] = []
        slow = Slow()
        with session(slow, events) as ctx:
            grow(ctx, 0.62)
            await ctx.aget_context_for_model()
            while not slow.began.is_set():  # noqa: ASYNC110 - another thread sets it
                await asyncio.sleep(0.001)
            await asyncio.wait_for(ctx.aget_context_for_model(), PATIENCE)
            grow(ctx, 0.72)
            waiting = asyncio.create_task(ctx.aget_context_for_model())
            await asyncio.sleep(0.02)
            assert not waiting.done()
            slow.go_on.set()
            await asyncio.wait_for(waiting, PATIENCE)
            assert slow.requests == 1

    asyncio.run(talk())


def test_of_two_who_have_a_session_open_one_drafts(tmp_path):
    """(FR-2) Never two for one span; where the first gives up, the other begins."""
    slow = Slow()
    with SQLiteManager(tmp_path / "sessions.db", durability="normal") as store:
        opened: dict[str, Any] = {
            "store": store,
            "session_id": "s",
            "summarizer": slow,
            "window": WINDOW,
        }
        first, second = ContextManager(**opened), ContextManager(**opened)
        grow(first, 0.62)
        first.get_context_for_model()
        assert slow.began.wait(PATIENCE)
        second.get_context_for_model()
        assert not second._session.view.background._is_at_work
        first.close()
        grow(second, 0.68)
        slow.began.clear()
        second.get_context_for_model()
        assert slow.began.wait(PATIENCE)
        assert (slow.requests, slow.most_at_once) == (2, 1)
        second.close()
        assert not [name for name in store.notes("s") if name.startswith("draft:")]


def test_a_void_draft_keeps_nobody_from_another_one():
    """(FR-2) Its note goes with it."""
    events: list[Event] = []
    slow = Slow()
    slow.go_on.set()
    ctx = session(slow, events)
    grow(ctx, 0.62)
    ctx.get_context_for_model()
    until(lambda: of(events, DraftMade))
    ctx.goals.set(["Count the drawers."])
    grow(ctx, 0.68)
    # Asked until it comes: the writer says that it is done a moment before it is free again.
    until(lambda: ctx.get_context_for_model() and len(of(events, DraftMade)) == 2)
    grow(ctx, 0.72)
    ctx.get_context_for_model()
    assert ctx.compressions == 1
    assert slow.requests == 2


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are POSIX")
def test_a_fork_does_not_wait_for_the_draft_of_its_parent(tmp_path):
    """(FR-2, FR-10) The child compresses the session by itself, and the parent's draft is void."""
    events: list[Event] = []
    slow = Slow()
    opened: dict[str, Any] = {
        "store": tmp_path / "sessions.db",
        "session_id": "s",
        "summarizer": slow,
    }
    with ContextManager(window=WINDOW, on_event=events.append, **opened) as ctx:
        grow(ctx, 0.65)
        ctx.get_context_for_model()
        assert slow.began.wait(PATIENCE)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            done = 0
            try:
                own_slow = Slow()
                own_slow.go_on.set()
                with ContextManager(window=WINDOW, **opened | {"summarizer": own_slow}) as own:
                    grow(own, 0.8)
                    own.get_context_for_model()
                    done = own.compressions
            finally:
                os._exit(0 if done == 1 else 1)
        assert os.waitpid(child, 0)[1] == 0
        slow.go_on.set()
        until(lambda: of(events, DraftMade))
        ctx.get_context_for_model()
        assert ctx.compressions == 1
        assert not of(events, Committed)

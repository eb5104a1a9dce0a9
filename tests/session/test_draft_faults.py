"""Summaries that are drafted ahead, while their model fails: nobody waits for them below the
trigger, none is written twice, and none is put in force over what has changed (FR-2, FR-6).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from compact import ContextManager
from compact.messages.events import Committed, DraftMade, ErrorRaised, SummaryReplaced
from tests.scripted import (
    Answer,
    Busy,
    Down,
    HalfJson,
    Hangs,
    HangsUp,
    Injects,
    InternalError,
    Leaks,
    NotJson,
    Overflow,
    Rambles,
    Refuses,
    Silent,
    WrongKey,
)
from tests.session.faults import ANSWER, QUICK, SECRET, SUMMARY, Harbour, harbour

DRAFTING = 0.61
"""Share of the window that is above the drafting threshold, and below the trigger."""
TRIGGER = 0.75
FULL = 0.82
"""Above the trigger of what somebody chose to go back to, too, and within what is usable."""
LONG = 600.0
"""Seconds that nobody can have waited."""
SOON = 200.0
"""Seconds after which something never comes, on a machine that is busy with others."""
STEADFAST = replace(QUICK, attempts=1, each=LONG)
FAILING: dict[str, Answer] = {
    "429": Busy(),
    "429, tomorrow": Busy(retry_after=86_400),
    "500": InternalError(),
    "503": Down(),
    "closed": HangsUp(),
    "half a JSON": HalfJson(),
    "a page": NotJson(),
    "empty": Silent(),
    "too long": Rambles(),
    "refusal": Refuses(),
    "orders": Injects(),
    "secret": Leaks(SECRET),
    "wrong key": WrongKey(),
    "overflow": Overflow("anthropic"),
}


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.002)


def in_time(work: Callable[[], object]) -> None:
    """Do it, and see that it did not wait for what hangs."""
    begun = time.monotonic()
    work()
    assert time.monotonic() - begun < SOON


def is_idle(it: Harbour) -> bool:
    """Whether nobody drafts now."""
    return not it.ctx._session.view.background._is_at_work


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", FAILING)
def test_a_draft_that_fails_is_nobodys_wait(name: str) -> None:
    """The turns before and after it are served, and it is not asked for at every turn (FR-6)."""
    with harbour(patience=STEADFAST, draft_ratio=0.6) as it:
        it.writer.breaks(FAILING[name])
        it.fills(DRAFTING)
        assert it.turn() == ANSWER
        until(lambda: it.of(DraftMade))
        until(lambda: is_idle(it))
        asked = len(it.summarizer.prompts)
        assert asked
        for _ in range(3):
            it.ctx.get_context_for_model()
        assert len(it.summarizer.prompts) == asked
        assert not it.of(Committed), "it is not put in force below the trigger"
        it.fills(TRIGGER)
        assert it.turn() == ANSWER
        assert it.of(Committed)
        assert SECRET not in "".join(checkpoint.summary for checkpoint in it.ctx.checkpoints)
        if name != "secret":
            assert it.of(SummaryReplaced, ErrorRaised)
        until(lambda: is_idle(it))
        it.is_well()


@pytest.mark.slow
def test_a_draft_that_hangs_blocks_no_turn_and_there_is_one() -> None:
    """Turns below the trigger are served at once, and nobody else is asked meanwhile (FR-2)."""
    with harbour(patience=STEADFAST, draft_ratio=0.6, summary_seconds=LONG) as it:
        it.writer.breaks(Hangs())
        it.fills(DRAFTING)
        in_time(it.turn)
        until(lambda: it.summarizer.prompts)
        while it.ctx.budget.used_tokens < 0.66 / 0.7 * it.ctx.window.trigger:
            in_time(it.turn)
        in_time(it.ctx.get_context_for_model)
        assert len(it.summarizer.prompts) == 1
        assert not is_idle(it)
        assert not it.of(Committed)
        in_time(it.ctx.close)
        assert is_idle(it), "closing gives it up"
        assert not [name for name in it.ctx.store.notes(it.ctx.id) if name.startswith("draft:")]


def test_a_draft_that_hangs_is_cut_off_for_whoever_passes_the_trigger() -> None:
    """They wait for as long as a summary may take, and are served by the extractive one (FR-6)."""
    with harbour(patience=STEADFAST, draft_ratio=0.6, summary_seconds=0.3) as it:
        it.writer.breaks(Hangs())
        it.fills(DRAFTING)
        it.turn()
        until(lambda: it.summarizer.prompts)
        it.fills(TRIGGER)
        in_time(it.turn)
        assert {checkpoint.made_by for checkpoint in it.ctx.checkpoints} == {"extractive"}
        assert len(it.of(Committed)) == 1
        until(lambda: is_idle(it))
        it.is_well()


def pins(ctx: ContextManager) -> None:
    ctx.pin(ctx.history[2])


def has_another_goal(ctx: ContextManager) -> None:
    ctx.goals.set([*(goal.text for goal in ctx.goals), "Tell nobody of the jetty."])


def goes_back(ctx: ContextManager) -> None:
    ctx.time.branch(at=len(ctx.history) - 2)


@pytest.mark.slow
@pytest.mark.parametrize("change", [pins, has_another_goal, goes_back])
def test_a_slow_draft_is_void_once_its_ground_has_changed(
    change: Callable[[ContextManager], None],
) -> None:
    """While it is written something else becomes true: it is never put in force (FR-2)."""
    with harbour(patience=STEADFAST, draft_ratio=0.6) as it:
        it.writer.breaks(Hangs(0.1, SUMMARY), times=1)
        it.fills(DRAFTING)
        it.turn()
        until(lambda: it.summarizer.prompts)
        pinned = it.ctx.history[2].text
        change(it.ctx)
        it.said = [(message.role, message.text) for message in it.ctx.history]
        until(lambda: is_idle(it))
        asked = len(it.summarizer.prompts)
        it.fills(FULL)
        for _ in range(10):  # what somebody went back to has more room before it is compressed
            if not it.of(Committed):
                it.turn()
        assert it.of(Committed)
        assert len(it.summarizer.prompts) > asked, "the void draft was put in force"
        prompt = str(it.ctx.get_context_for_model())
        if change is pins:
            assert pinned in prompt
        if change is has_another_goal:
            assert "Tell nobody of the jetty." in prompt
        until(lambda: is_idle(it))
        it.is_well()

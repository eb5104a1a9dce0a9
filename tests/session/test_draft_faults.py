"""Summaries that are drafted ahead, while their model fails: nobody waits for them below the
trigger, none is written twice, and none is put in force over what has changed (FR-2, FR-6).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

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
from tests.session.asking import PATIENCE, until
from tests.session.faults import ANSWER, QUICK, SECRET, Harbour, harbour

DRAFTING = 0.61
"""Share of the window that is above the drafting threshold, and below the trigger."""
TRIGGER = 0.75
LONG = 600.0
"""Seconds that nobody can have waited."""
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


def in_time(work: Callable[[], object]) -> None:
    """Do it, and see that it did not wait for what hangs."""
    begun = time.monotonic()
    work()
    assert time.monotonic() - begun < PATIENCE


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

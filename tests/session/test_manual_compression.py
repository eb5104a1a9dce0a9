"""Compressing on request: how much it frees, and what a person wants kept (K-16, K-6)."""

import pytest

from compact import ContextManager
from compact.engine.ladder import Ladder
from compact.messages.events import Event, TriggerDecision
from compact.testing import ScriptedSummarizer

FREED = 0.40


def filled(share, window, seed_messages, **options):
    """A session whose prompt takes about that share of what its trigger is at."""
    ctx = ContextManager(window=window, **options)
    number = 0
    while ctx._session.view.tokens_now < share * ctx.window.trigger:
        for message in seed_messages:
            number += 1
            ctx.add_message(dict(message, content=f"{number}. {message.get('content') or ''}"))
            if ctx._session.view.tokens_now >= share * ctx.window.trigger:
                break
    return ctx


TALK = [
    {"role": "user", "content": "How is the roof of the boathouse held? " * 6},
    {"role": "assistant", "content": "By seven oak beams, each pinned with two trenails. " * 9},
    {"role": "user", "content": "Never paint the beams. And what of the north wall?"},
    {"role": "assistant", "content": "It leans by src/walls/north_wall.py:41, as measured. " * 12},
]


@pytest.mark.parametrize("window", [4_096, 32_768])
@pytest.mark.parametrize("share", [0.2, 0.45, 0.98])
def test_a_request_frees_forty_percent_above_the_floor(window, share):
    """(K-16) Of what may be shortened at all. Below half full it may be a little less, and the plan
    says why."""
    ctx = filled(share, window, TALK)
    before = ctx._session.view.tokens_now
    floor = Ladder(ctx.history, ctx.policy).floor() + ctx._session.view.overhead_tokens
    plan = ctx.compress_conversation()
    after = ctx.active_context().tokens
    least = FREED * (0.9 if plan.why and share < 0.5 else 1)
    assert (before - after) / (before - floor) >= least


@pytest.mark.parametrize("window", [4_096, 32_768])
def test_each_request_frees_forty_percent_until_nothing_can_be_freed(window):
    """(K-16) Of what is neither floor nor checkpoint, also where nothing was said since; in the end
    nothing changes, and an event says why."""
    seen: list[Event] = []
    ctx = filled(0.85, window, TALK, on_event=seen.append)
    for _ in range(20):
        view = ctx._session.view
        floor = Ladder(ctx.history, ctx.policy).floor() + view.overhead_tokens
        free = view.tokens_now - floor - sum(c.token_count for c in ctx.checkpoints)
        before = view.tokens_now
        plan = ctx.compress_conversation()
        if plan.unchanged:
            break
        assert plan.why or before - view.tokens_now >= FREED * free
    assert plan.unchanged
    assert plan.why
    told = [event for event in seen if isinstance(event, TriggerDecision)][-1]
    assert (told.triggered, told.reason) == (False, plan.why)
    assert "newest user message" in plan.why


def test_what_a_person_wants_kept_reaches_the_summarizer():
    """(K-6) The note of a manual compression; the next one does not carry it on."""
    summarizer = ScriptedSummarizer("## Goal\n- Hold the roof.\n## Names\nnorth_wall.py")
    ctx = ContextManager(window=4_096, summarizer=summarizer)
    for _ in range(3):
        for message in TALK:
            ctx.add_message(message)
    ctx.compress_conversation(0.3, guidance="keep what was said of the beams")
    assert summarizer.requests[-1].guidance == "keep what was said of the beams"
    for _ in range(5):
        for message in TALK:
            ctx.add_message(message)
    ctx.compress_conversation(0.3)
    assert summarizer.requests[-1].guidance == ""

"""The circuit breaker: who fails again and again is left alone, and nobody else (FR-6)."""

from datetime import timedelta

import pytest

from compact import ContextManager
from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.messages import clock_and_ids
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.events import BreakerOpened, PrunedMessages, SummaryReplaced
from compact.messages.protocols import Summarizer
from compact.session.views import breaker
from compact.store.inmemory import InMemoryStore
from compact.testing import ScriptedSummarizer
from tests import checker
from tests.session.asking import Clock, of, talk


def test_a_summarizer_that_fails_again_and_again_is_left_alone() -> None:
    """Every turn is served; after one answer that never came it is not asked until the pause is
    over, which a reopen does not shorten (FR-6)."""
    clock, store, seen = Clock(), InMemoryStore(), list[object]()
    failing = ScriptedSummarizer(ConnectionError("down"))

    def opened() -> ContextManager:
        return ContextManager(
            window=4_096, store=store, session_id="s", summarizer=failing, on_event=seen.append
        )

    def turn(ctx: ContextManager) -> int:
        before, pruned = len(failing.requests), len(of(seen, PrunedMessages))
        while len(of(seen, PrunedMessages)) == pruned:
            talk(ctx, 3, words=25)
            assert checker.prompt_tokens(ctx.get_context_for_model()) <= ctx.window.usable
        return len(failing.requests) - before

    with clock_and_ids.using(clock=clock):
        ctx = opened()
        while not of(seen, BreakerOpened):
            assert turn(ctx) == 1
        assert of(seen, BreakerOpened)[0].failures == 1
        assert of(seen, SummaryReplaced)
        assert turn(ctx) == 0
        ctx = opened()
        assert turn(ctx) == 0
        clock.time += breaker.FIRST_PAUSE
        assert turn(ctx) == 1, "after the pause it is asked once more"
        assert turn(ctx) == 0, "it failed again: a longer pause"
        until = of(seen, BreakerOpened)[-1].until
        assert until - clock.time > breaker.FIRST_PAUSE


def test_answers_that_are_too_long_leave_it_closed() -> None:
    """The extract stands in, and the summarizer is asked the next time (FR-6)."""
    seen: list[object] = []
    entries = (f"The entries of drawer {i} went to file_{i * 7}.py then." for i in range(200))
    long = ScriptedSummarizer(" ".join(entries))
    ctx = ContextManager(window=4_096, summarizer=long, on_event=seen.append)
    for _ in range(25):
        talk(ctx, 3, words=25)
        ctx.get_context_for_model()
    assert len(of(seen, SummaryReplaced)) > breaker.MOST_FAILURES
    assert not of(seen, BreakerOpened)


def test_a_summarizer_that_recovers_is_asked_again() -> None:
    """One success closes the breaker and forgets the failures (FR-6)."""
    clock, script = Clock(), Named("recovers", ConnectionError("down"))
    with clock_and_ids.using(clock=clock):
        ctx = ContextManager(window=4_096, summarizer=script)
        while not ctx._session.breaker.is_open:
            talk(ctx, 9, words=25)
            ctx.get_context_for_model()
        clock.time += breaker.FIRST_PAUSE
        script.error, calls = None, script.calls
        while script.calls == calls:
            talk(ctx, 9, words=25)
            ctx.get_context_for_model()
        assert ctx._session.breaker.failures == 0
        assert not ctx._session.breaker.is_open


def test_a_clock_that_goes_backwards_keeps_no_breaker_open_for_ever() -> None:
    """However far the clock jumps, the longest pause is the longest (FR-6)."""
    clock, failing = Clock(), ScriptedSummarizer(ConnectionError("down"))
    with clock_and_ids.using(clock=clock):
        ctx = ContextManager(window=4_096, summarizer=failing)
        while not ctx._session.breaker.is_open:
            talk(ctx, 9, words=25)
            ctx.get_context_for_model()
        clock.time -= timedelta(days=400)
        calls = len(failing.requests)
        while len(failing.requests) == calls:
            talk(ctx, 9, words=25)
            ctx.get_context_for_model()
        clock.time -= timedelta(minutes=30)
        assert ctx._session.breaker.is_open


class Named:
    """A summarizer of a name of its own that says it never waits."""

    waits = False

    def __init__(self, name: str, error: Exception | None) -> None:
        self.name = name
        self.error = error
        self.calls = 0

    async def summarize(self, request: SummaryRequest) -> Summary:
        self.calls += 1
        if self.error is not None:
            raise self.error
        counter = ContextManager()._session.state.counter
        return ExtractiveSummarizer(counter).extracted(request)


@pytest.mark.slow
def test_another_summarizer_is_asked_at_once() -> None:
    """One that failed does not keep a working one from writing, and rests when it comes back
    (FR-6)."""
    store = InMemoryStore()

    def compressed(summarizer: Summarizer) -> ContextManager:
        ctx = ContextManager(window=4_096, store=store, session_id="s", summarizer=summarizer)
        before = ctx.compressions
        while ctx.compressions < before + 4:
            talk(ctx, 3, words=25)
            ctx.get_context_for_model()
        return ctx

    failing, works = Named("fails", ConnectionError("down")), Named("works", None)
    assert compressed(failing)._session.breaker.is_open
    assert "breaker:fails" in store.notes("s")
    assert not compressed(works)._session.breaker.is_open
    assert works.calls > 0
    calls = failing.calls
    assert compressed(failing)._session.breaker.is_open
    assert failing.calls == calls

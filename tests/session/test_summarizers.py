"""Summarizers that do not do as they are asked, in a session (FR-6)."""

import socket
from collections.abc import Sequence

import pytest

from compact import ContextManager
from compact.messages.events import BreakerOpened, Committed, ModelReplaced, SummaryReplaced
from compact.testing import ScriptedSummarizer
from tests.scripted import Rambles, ScriptedServer
from tests.session.asking import of
from tests.session.faults import KEYS, QUICK, SUMMARY, answered, asked


def compressed(ctx: ContextManager, seen: Sequence[object], times: int) -> None:
    """Talk until the session was compressed so many times."""
    while len(of(seen, Committed)) < times:
        number = len(ctx.history) // 2
        ctx.add_message(role="user", content=asked(number))
        ctx.add_message(role="assistant", content=answered(number))
        ctx.get_context_for_model()


def nobody() -> str:
    """The key of a model that no book knows, on a server that is not there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return f"http://127.0.0.1:{port}/v1#nobody-knows-me"


@pytest.mark.slow
def test_a_summarizer_that_cannot_be_asked_for_its_limits_is_passed_over() -> None:
    """The next of the chain writes; at its end the extract, and the session goes on (FR-6)."""
    seen: list[object] = []
    with ScriptedServer(lambda _: SUMMARY) as server:
        chain = [nobody(), KEYS["openai"].format(url=server.url)]
        with ContextManager(
            window=4_096, summarizer=chain, patience=QUICK, on_event=seen.append
        ) as ctx:
            compressed(ctx, seen, 1)
            assert {c.made_by for c in ctx.checkpoints} != {"extractive"}
            assert of(seen, ModelReplaced)
    seen.clear()
    with ContextManager(
        window=4_096, summarizer=[nobody(), nobody()], patience=QUICK, on_event=seen.append
    ) as ctx:
        compressed(ctx, seen, 2)
        assert {c.made_by for c in ctx.checkpoints} == {"extractive"}


@pytest.mark.slow
def test_answers_that_are_too_long_do_not_open_the_breaker() -> None:
    """The extract stands in, and the summarizer is asked the next time (FR-6)."""
    seen: list[object] = []
    more = (f"The entries of drawer {i} went to file_{i * 7}.py then." for i in range(200))
    long = ScriptedSummarizer(f"{SUMMARY} {' '.join(more)}")
    with ContextManager(window=4_096, summarizer=long, on_event=seen.append) as ctx:
        compressed(ctx, seen, 6)
    assert of(seen, SummaryReplaced)
    assert not of(seen, BreakerOpened)
    seen.clear()
    with ScriptedServer(lambda _: Rambles()) as server:
        key = KEYS["openai"].format(url=server.url)
        with ContextManager(
            window=4_096, summarizer=key, patience=QUICK, on_event=seen.append
        ) as ctx:
            compressed(ctx, seen, 5)
    assert of(seen, SummaryReplaced)
    assert not of(seen, BreakerOpened)

"""A session without a summarizer: its oldest groups are dropped, what is held stays, and the totals
are carried.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compact import ContextManager
from compact.engine import pipeline
from compact.messages.messages import Message

WORDS = ("the cache", "is warm", "and the gate", "stays shut", "until", "somebody", "opens it")


def _turns(rng: random.Random, count: int) -> Iterator[dict[str, Any]]:
    """A user's request, now and then with calls and results; some results are far too large."""
    for turn in range(count):
        yield {"role": "user", "content": f"request {turn}: {_text(rng, 12)}"}
        for call in range(rng.choice((0, 1, 2))):
            name = f"c{turn}-{call}"
            function = {"name": "read", "arguments": '{"path": "a.py"}'}
            asked = {"id": name, "type": "function", "function": function}
            yield {"role": "assistant", "content": None, "tool_calls": [asked]}
            size = rng.choice((20, 60, 200, 1_500))
            yield {"role": "tool", "tool_call_id": name, "content": _text(rng, size)}
        yield {"role": "assistant", "content": f"answer {turn}: {_text(rng, 40)}"}


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_held_stays_and_the_totals_are_exact(seed: int, tmp_path: Path) -> None:
    ctx = ContextManager(window=4_096, store=tmp_path / "s.db", summarizer=None)
    ctx.add_message(role="system", content="You keep the gate.")
    ctx.add_message(role="user", content="Never open the gate by night.", pinned=True)
    for number, message in enumerate(_turns(random.Random(seed), 60)):
        ctx.add_message(message)
        sent = ctx.get_context_for_model()
        texts = [str(each.get("content")) for each in sent]
        assert texts[0] == "You keep the gate."
        assert any("Never open the gate by night." in text for text in texts)
        if message["role"] == "user":
            assert message["content"] in texts[-1]
        view = ctx._session.view
        if number % 7 == 0:
            counted = sum(map(view.counter.message, view.context().messages))
            assert view.tokens == counted + view.overhead_tokens
        assert view.tokens <= view.window.usable
    (receipt,) = ctx.checkpoints
    places = set(receipt.covered())
    shown = {p for at in ctx._session.view.places(as_values=False) for p in at}
    assert len(places) == receipt.span.messages
    assert not places & shown
    assert places | shown == set(range(len(ctx.history)))
    assert ctx.last_plan is not None
    assert "did not fit and became a receipt" in ctx.last_plan.explain()
    before, compressions = ctx.get_context_for_model(), ctx.compressions
    ctx.close()
    ctx = ContextManager(session_id=ctx.id, window=4_096, store=tmp_path / "s.db", summarizer=None)
    assert ctx.get_context_for_model() == before
    ctx.time.undo()
    assert ctx.compressions == compressions - 1
    ctx.close()


def test_only_the_first_compression_and_what_is_not_plain_run_the_pipeline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs, whole = [], pipeline.compress

    async def counted(*args: Any, **fields: Any) -> pipeline.Proposal:
        runs.append(1)
        return await whole(*args, **fields)

    monkeypatch.setattr(pipeline, "compress", counted)
    ctx = ContextManager(window=4_096, summarizer=None)
    for message in _turns(random.Random(1), 80):
        ctx.add_message(message)
        ctx.get_context_for_model()
    assert ctx.compressions > 20
    assert len(runs) < ctx.compressions / 2  # a part of what is far too large is shown


def test_a_pinned_result_keeps_its_call() -> None:
    ctx = ContextManager(window=4_096, summarizer=None)
    for message in _turns(random.Random(4), 10):
        ctx.add_message(message)
    result = next(m for m in ctx.history if isinstance(m, Message) and m.tool_results)
    ctx.pin(result)
    for message in _turns(random.Random(5), 40):
        ctx.add_message(message)
        sent = ctx.get_context_for_model()
    kept = [m for m in sent if m.get("tool_call_id") == result.tool_results[0].call_id]
    assert len(kept) == 1


def test_what_is_pinned_after_it_was_dropped_is_shown_again() -> None:
    ctx = ContextManager(window=4_096, summarizer=None)
    for message in _turns(random.Random(6), 40):
        ctx.add_message(message)
        ctx.get_context_for_model()
    (receipt,) = ctx.checkpoints
    gone = next(i for i in receipt.covered() if ctx.history.is_person(i) and i > 0)
    words, before = ctx.history[gone].text, ctx.compressions
    ctx.pin(ctx.history[gone])
    for message in _turns(random.Random(7), 40):
        ctx.add_message(message)
        sent = ctx.get_context_for_model()
        if ctx.compressions > before:
            assert any(words in str(each["content"]) for each in sent)
            (receipt,) = ctx.checkpoints
            assert receipt.span.messages == len(receipt.covered())
    assert ctx.compressions > before


def test_an_earlier_checkpoint_at_the_start_stays() -> None:
    ctx = ContextManager(window=4_096, summarizer=None)
    text = "The gate was painted green."
    ctx.add_message(role="user", content=text, metadata={"source": "checkpoint"})
    for message in _turns(random.Random(3), 40):
        ctx.add_message(message)
        assert text in str(ctx.get_context_for_model())
    assert ctx.compressions > 10


def test_a_result_that_is_pinned_goes_the_short_way_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held is what the ladder holds: a call with its pinned result."""
    ctx = ContextManager(window=4_096, summarizer=None)
    for message in _turns(random.Random(4), 10):
        ctx.add_message(message)
    result = next(m for m in ctx.history if isinstance(m, Message) and m.tool_results)
    ctx.pin(result)
    runs, whole = [], pipeline.compress

    async def counted(*args: Any, **fields: Any) -> pipeline.Proposal:
        runs.append(1)
        return await whole(*args, **fields)

    monkeypatch.setattr(pipeline, "compress", counted)
    for message in _turns(random.Random(5), 80):
        ctx.add_message(message)
        ctx.get_context_for_model()
    assert ctx.compressions > 20
    assert len(runs) < ctx.compressions / 2


def test_what_is_pinned_after_it_was_cut_is_shown_whole() -> None:
    ctx = ContextManager(window=4_096, summarizer=None)
    rng = random.Random(8)
    for message in _turns(rng, 30):
        ctx.add_message(message)
        ctx.get_context_for_model()
    function = {"name": "read", "arguments": "{}"}
    calls = [{"id": name, "type": "function", "function": function} for name in "ab"]
    ctx.add_message({"role": "assistant", "content": None, "tool_calls": calls})
    for name in "ab":
        ctx.add_message({"role": "tool", "tool_call_id": name, "content": _text(rng, 1_000)})
    view = ctx._session.view
    ctx.get_context_for_model()
    pinned = len(ctx.history) - 1
    assert pinned not in view.shown_whole()
    ctx.pin(ctx.history[pinned])
    before = ctx.compressions
    while ctx.compressions == before:
        ctx.add_message(role="user", content=f"And then? {_text(rng, 100)}")
        ctx.get_context_for_model()
    assert pinned in view.shown_whole()


def test_the_plan_names_the_tokens_of_the_newest() -> None:
    """`why_of` says what a message needed and what was left for it, at every compression."""
    ctx = ContextManager(window=4_096, summarizer=None)
    named = 0
    for message in _turns(random.Random(1), 60):
        ctx.add_message(message)
        ctx.get_context_for_model()
        if plan := ctx.last_plan:
            newest = [i for i, (why, _) in plan.reasons.items() if why == "recent"]
            assert all("tokens were needed" in plan.why_of(i) for i in newest)
            named += len(newest)
    assert named


@pytest.mark.parametrize("summarizer", [None, "extractive"])
def test_every_pinned_result_of_parallel_calls_stays_whole(summarizer: str | None) -> None:
    """K-4: what cannot be parted from a pin is shortened, but not if it is pinned too."""
    ctx = ContextManager(window=4_096, summarizer=summarizer)
    ctx.add_message(role="user", content="Look.")
    function = {"name": "read", "arguments": "{}"}
    calls = [{"id": name, "type": "function", "function": function} for name in "ab"]
    ctx.add_message({"role": "assistant", "content": None, "tool_calls": calls})
    found = {name: f"{name}: {_text(random.Random(2), 300)}" for name in "ab"}
    for name, text in found.items():
        pinned = {"metadata": {"pinned": True}}
        ctx.add_message({"role": "tool", "tool_call_id": name, "content": text, **pinned})
    for message in _turns(random.Random(3), 20):
        ctx.add_message(message)
        sent = ctx.get_context_for_model()
    assert ctx.compressions
    shown = {each["tool_call_id"]: each["content"] for each in sent if "tool_call_id" in each}
    assert {name: shown.get(name) for name in found} == found


@pytest.mark.parametrize("summarizer", [None, "extractive"])
def test_a_long_text_in_the_reply_of_a_pinned_call_is_shortened(summarizer: str | None) -> None:
    """FR-3: what is kept only because a pin cannot be parted from it never makes a prompt fail."""
    ctx = ContextManager(window=4_096, format="anthropic", summarizer=summarizer)
    call = {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "roof.md"}}
    answer = {"type": "tool_result", "tool_use_id": "a", "content": "It holds."}
    said = [{"type": "text", "text": "The roof holds. " * 1_500}]
    ctx.add_messages(
        [
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": said, "id": "r"},
            {"role": "assistant", "content": [call], "id": "r", "metadata": {"pinned": True}},
            {"role": "user", "content": [answer]},
            {"role": "user", "content": "And now?"},
        ]
    )
    assert "roof.md" in str(ctx.get_context_for_model())

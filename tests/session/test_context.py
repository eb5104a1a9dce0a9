"""ContextManager: a session in memory that never overflows (C-5, C-6, C-7, FR-3, FR-8)."""

import asyncio
from collections.abc import Callable

import pytest

from compact import ContextManager, compress
from compact.errors import (
    BlockingCallInLoop,
)
from compact.messages.checkpoints import is_checkpoint_text
from compact.messages.events import (
    PrunedMessages,
)
from compact.testing import ScriptedSummarizer
from tests.doors.talking import verbatim

RULE = "Never push to main without asking me."
ROOF = """Question 0 was what about the roof, and answer 0 was that the roof holds. Question 1 \
went about the roof too: it holds, by answer 1. With question 2 and question 3 the answers were \
that it holds; about the roof went question 4, and the roof holds in answer 4 as in answer 5."""


def fill(ctx: ContextManager, turns: int, *, words: int = 60, first: int = 0) -> None:
    for i in range(first, first + turns):
        ctx.add_message(
            role="user", content=f"Question {i}: " + "what about the roof? " * (words // 5)
        )
        ctx.add_message(
            role="assistant", content=f"Answer {i}: " + "the roof holds. " * (words // 4)
        )


def test_a_waiting_summarizer_works_blocking_and_async() -> None:
    """Async inside, both colours at the door; in a loop the blocking form names the other."""
    ctx = ContextManager(window=4_000, summarizer=ScriptedSummarizer(ROOF))
    fill(ctx, 40)
    assert ROOF in str(ctx.get_context_for_model())

    async def inside() -> list[dict[str, object]]:
        other = ContextManager(window=4_000, summarizer=ScriptedSummarizer(ROOF))
        fill(other, 40)
        with pytest.raises(BlockingCallInLoop, match="aget_context_for_model"):
            other.get_context_for_model()
        return await other.aget_context_for_model()

    assert ROOF in str(asyncio.run(inside()))


@pytest.mark.slow
def test_a_summary_is_carried_on_and_no_message_read_twice() -> None:
    """Each message is summarized as new once, however often a session is compressed; only what ages
    is read again, and what spare room has brought back into view (K-6).
    """
    script = ScriptedSummarizer(ROOF)
    ctx = ContextManager(window=4_000, summarizer=script)
    read: set[str] = set()
    for turn in range(30):
        fill(ctx, 6, first=6 * turn)
        count = len(script.requests)
        prompt = ctx.get_context_for_model()
        shown = {message["content"] for message in prompt}
        new = [request for request in script.requests[count:] if request.level == "detailed"]
        for message in (m for request in new for m in request.messages):
            assert message.id not in read
            if message.text not in shown:
                read.add(message.id)
    assert len(read) > 50


def test_summary_before_and_after_the_first_checkpoint() -> None:
    """`get_conversation_summary` always has something to say, but for an empty session (C-5)."""
    ctx = ContextManager(window=4_000)
    assert ctx.get_conversation_summary() == ""
    ctx.add_message(role="user", content=RULE)
    assert RULE in ctx.get_conversation_summary()
    fill(ctx, 40)
    ctx.get_context_for_model()
    assert ctx.get_conversation_summary() == ctx.checkpoints[0].summary


def test_a_raising_listener_hurts_nobody() -> None:
    """A listener's exception is caught, in a session and in one call (K-8)."""

    def raises(_: object) -> None:
        raise RuntimeError("not my day")

    ctx = ContextManager(window=4_000, on_event=raises)
    fill(ctx, 40)
    assert ctx.get_context_for_model()
    many = [{"role": "user", "content": "word " * 50}] * 60
    assert compress(many, max_tokens=1_000, on_event=raises)


@pytest.mark.slow
def test_a_session_with_a_large_floor_is_not_compressed_at_every_turn() -> None:
    """Where the floor leaves little room, the trigger gives way."""
    seen: list[object] = []
    ctx = ContextManager(window=8_192, on_event=seen.append)
    ctx.add_message(role="system", content="rule " * 5_200)
    for i in range(200):
        ctx.add_message(role="user", content=f"Question {i}?")
        ctx.add_message(role="assistant", content=f"Answer {i}.")
        ctx.get_context_for_model()
    compressions = sum(isinstance(e, PrunedMessages) for e in seen)
    assert compressions < 40


def test_words_after_a_half_answered_reply_keep_results_first() -> None:
    """Anthropic: a result and words in one message, another call still open (FR-3)."""
    ctx = ContextManager(format="anthropic", tokenizer="o200k", window=8_000)
    ctx.add_message(role="user", content="look")
    uses = [{"type": "tool_use", "id": x, "name": "read", "input": {}} for x in "ab"]
    ctx.add_message({"role": "assistant", "content": uses})
    result = {"type": "tool_result", "tool_use_id": "a", "content": "one"}
    ctx.add_message({"role": "user", "content": [result, {"type": "text", "text": "stop"}]})
    kinds = [block["type"] for block in ctx.get_context_for_model()[-1]["content"]]
    assert kinds == ["tool_result", "tool_result", "text"]


def test_reasoning_of_the_newest_turn_stays() -> None:
    """A provider wants the reasoning that led to the newest calls, also beside clipped results."""
    thought = {"type": "thinking", "thinking": "I look first.", "signature": "sealed"}
    use = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "word " * 5_000}
    messages: list[dict[str, object]] = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [thought, use]},
        {"role": "user", "content": [result]},
    ]
    out = compress(messages, max_tokens=2_000, tokenizer="o200k")
    assert [block["type"] for block in out[-2]["content"]] == ["thinking", "tool_use"]


def test_a_checkpoint_in_the_history_is_never_clipped() -> None:
    """A clipped checkpoint would no longer be recognized and become a person's words."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "Never push to main."}]
    for turn in range(6):
        for i in range(20):
            messages.append({"role": "assistant", "content": f"Step {turn}-{i}: " + "done " * 60})
        messages.append({"role": "user", "content": f"go on {turn}"})
        messages = compress(messages, max_tokens=1_500 - 150 * turn)
        texts = [str(m["content"]) for m in messages]
        headed = [text for text in texts if text.startswith("[Checkpoint ck-")]
        assert all(is_checkpoint_text(text) for text in headed)


@pytest.mark.parametrize("change", [lambda t: t + "\n", lambda t: t.replace("\n", "\r\n")])
def test_a_checkpoint_survives_what_clients_do_to_text(change: Callable[[str], str]) -> None:
    """White space at the end and other line ends change no digest."""
    ctx = ContextManager(window=4_000)
    fill(ctx, 40)
    text = next(
        str(m["content"])
        for m in ctx.get_context_for_model()
        if str(m["content"]).startswith("[Checkpoint")
    )
    assert is_checkpoint_text(change(text))


def test_pins_stay_and_marks_are_not_sent() -> None:
    """By mark when a message is added, or later by its id; a provider never sees the mark (C-8)."""
    ctx = ContextManager(window=4_000)
    mark = {"pinned": True}
    ctx.add_message({"role": "user", "content": "the marked words", "metadata": mark})
    later = ctx.add_message(role="assistant", content="the words pinned later")
    fill(ctx, 40)
    ctx.pin(later)
    context = ctx.get_context_for_model()
    marked = {"role": "user", "content": "the marked words"}
    pinned = {"role": "assistant", "content": "the words pinned later"}
    assert verbatim([marked, pinned], context) == [marked, pinned]
    assert all(message.keys() == marked.keys() for message in context)
    with pytest.raises(LookupError, match="nobody"):
        ctx.pin("nobody")


@pytest.mark.parametrize("before", [0, 60])
def test_a_new_output_that_is_too_large_is_shown_in_part(before: int) -> None:
    """No model has seen it: a stub alone would send it for the same output again and again
    (FR-8)."""
    ctx = ContextManager(window=4_096, tokenizer="o200k")
    fill(ctx, before)
    ctx.add_message(role="user", content="Look at everything.")
    call = {"id": "c0", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    ctx.add_message({"role": "assistant", "content": None, "tool_calls": [call]})
    lines = [f"line {i} of what it printed" for i in range(4_000)]
    ctx.add_message({"role": "tool", "tool_call_id": "c0", "content": "\n".join(lines)})
    prompt = ctx.get_context_for_model()
    shown = str(prompt[-1]["content"])
    assert shown.startswith(lines[0])
    assert shown.endswith(lines[-1])
    assert "tokens left out" in shown
    assert ctx.estimate_tokens(shown) > ctx.window.target / 3

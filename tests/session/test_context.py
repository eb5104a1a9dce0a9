"""ContextManager: a session in memory that never overflows (C-5, C-6, C-7, FR-3, FR-8)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from compact import CannotFit, CompactPolicy, ContextManager, Message, compress
from compact.errors import (
    BlockingCallInLoop,
    InvalidMessage,
    UnknownModel,
)
from compact.messages.checkpoints import Summary, SummaryRequest, is_checkpoint_text
from compact.messages.events import (
    ErrorRaised,
    PrunedMessages,
    StageStarted,
    SummaryCreated,
    SummaryReplaced,
    TriggerDecision,
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


def test_quick_checks_of_the_sources_run_under_our_names() -> None:
    """The sources' quick checks that need no store (C-10)."""
    assert Message(role="user", content="test").role == "user"
    ctx = ContextManager()
    ctx.add_message(role="user", content="hello")
    assert ctx.compress_conversation().unchanged
    assert ctx.get_context_for_model() == [{"role": "user", "content": "hello"}]


def test_a_message_gets_its_id_and_time() -> None:
    """Ids and times are filled in (C-1); a message, a dictionary and keywords are all taken
    (C-5)."""
    ctx = ContextManager()
    first = ctx.add_message(role="user", content="one")
    second = ctx.add_message({"role": "assistant", "content": "two"})
    third = ctx.add_message(Message(role="user", content="three"))
    assert len({first.id, second.id, third.id}) == 3
    assert first.timestamp.tzinfo is not None
    assert [m["content"] for m in ctx.get_context_for_model()] == ["one", "two", "three"]


def test_the_trigger_compresses_to_the_target() -> None:
    """Nothing below the trigger; at most the target after it was passed (C-7)."""
    seen: list[object] = []
    ctx = ContextManager(window=4_000, on_event=seen.append)
    ctx.add_message(role="system", content="You are a roofer.")
    while not ctx.checkpoints:
        assert ctx.budget.used_tokens <= ctx.window.trigger
        fill(ctx, 1)
        ctx.get_context_for_model()
    assert ctx.window.usable == 4_000 - 500
    assert ctx.active_context().tokens <= ctx.window.target
    decisions = [e for e in seen if isinstance(e, TriggerDecision) and e.triggered]
    assert len(decisions) == 1
    assert decisions[0].tokens > ctx.window.trigger
    assert {e.session_id for e in seen} == {ctx.id}  # type: ignore[attr-defined]


def test_old_is_summarized_recent_is_word_for_word() -> None:
    """Sliding window and checkpoint together; history is untouched (C-6, FR-5, US-8)."""
    ctx = ContextManager(window=4_000)
    ctx.add_message(role="system", content="You are a roofer.")
    ctx.add_message(role="user", content=RULE)
    fill(ctx, 40)
    context = ctx.get_context_for_model()
    assert context[0] == {"role": "system", "content": "You are a roofer."}
    assert is_checkpoint_text(context[1]["content"])
    assert context[-1]["content"].startswith("Answer 39")
    assert any(m["content"] == RULE or RULE in m["content"] for m in context)
    assert len(ctx.history) == 82


def test_the_newest_user_messages_stay_word_for_word() -> None:
    """20 newest messages of a person, fewer under pressure (FR-8)."""
    ctx = ContextManager(window=32_000)
    for i in range(60):
        ctx.add_message(role="user", content=f"Please note item {i}.")
        ctx.add_message(role="assistant", content="Noted. " + "filler words here. " * 150)
    prompt = ctx.get_context_for_model()
    said = [text for m in prompt if m["role"] == "user" for text in m["content"].split("\n\n")]
    assert ctx.checkpoints
    kept = [text for text in said if text.startswith("Please note")]
    assert kept[-20:] == [f"Please note item {i}." for i in range(40, 60)]


def test_a_turn_appends_and_changes_nothing_before_it() -> None:
    """Stable bytes: what was sent is the beginning of what is sent next."""
    ctx = ContextManager(window=8_000)
    before: list[dict[str, object]] = []
    compressions = 0
    for _ in range(120):
        fill(ctx, 1, words=40)
        now = ctx.get_context_for_model()
        if now[: len(before)] != before:
            compressions += 1
        before = now
    assert 0 < compressions <= 6


def test_an_open_call_is_answered_until_its_result_comes() -> None:
    """A pending call is never sent bare; its result takes the note's place (FR-3)."""
    ctx = ContextManager(window=8_000)
    ctx.add_message(role="user", content="run it")
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    ctx.add_message(role="assistant", content=None, tool_calls=[call])
    pending = ctx.get_context_for_model()
    assert [m["role"] for m in pending] == ["user", "assistant", "tool"]
    assert "no result" in pending[2]["content"]
    ctx.add_message(role="tool", tool_call_id="c1", content="done")
    assert [m["content"] for m in ctx.get_context_for_model()] == ["run it", None, "done"]


def test_a_call_nobody_answered_is_closed_when_talk_goes_on() -> None:
    """A crashed tool blocks nothing; a result that comes late stands at its call."""
    ctx = ContextManager(window=8_000)
    ctx.add_message(role="user", content="run it")
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    ctx.add_message(role="assistant", content="", tool_calls=[call])
    ctx.add_message(role="user", content="forget it")
    assert "no result" in ctx.get_context_for_model()[2]["content"]
    ctx.add_message(role="tool", tool_call_id="c1", content="late")
    prompt = ctx.get_context_for_model()
    assert [m["role"] for m in prompt] == ["user", "assistant", "tool", "user"]
    assert prompt[2]["content"] == "late"


def test_the_same_messages_give_the_same_view_added_singly_or_at_once() -> None:
    """A view is a projection of the history: how messages came in does not matter below the
    trigger."""
    one, all_at_once = ContextManager(window=50_000), ContextManager(window=50_000)
    for i in range(100):
        for ctx in (one, all_at_once):
            ctx.add_message(role="user", content=f"message {i}")
        one.get_context_for_model()
    assert one.get_context_for_model() == all_at_once.get_context_for_model()


def test_target_ratio_keeps_that_share_above_the_floor() -> None:
    """`compress_conversation(r)` keeps at most r of what lies above the floor (C-5, K-16)."""
    ctx = ContextManager(window=100_000)
    ctx.add_message(role="system", content="You are a roofer. " * 50)
    fill(ctx, 60)
    before = ctx.active_context().tokens
    floor = 400
    plan = ctx.compress_conversation(0.4)
    assert plan.tokens_after <= floor + 0.4 * before
    assert plan.tokens_after <= 0.6 * before, "at least 40 % are freed"
    with pytest.raises(ValueError, match="target_ratio"):
        ctx.compress_conversation(1.5)


def test_what_cannot_fit_raises_with_the_breakdown() -> None:
    """The typed error shows the floor part by part, and the history stays usable (FR-3)."""
    ctx = ContextManager(window=1_000)
    ctx.add_message(role="system", content="word " * 3_000)
    ctx.add_message(role="user", content="hello")
    with pytest.raises(CannotFit) as caught:
        ctx.get_context_for_model()
    assert caught.value.floor["system prompt"] > 2_900
    assert str(caught.value).endswith("Raise the limit, or shorten the system prompt.")
    assert len(ctx.history) == 2


def test_another_model_gets_a_view_of_its_own() -> None:
    """The same session is served to a smaller window, and goes on in its own (C-9)."""
    ctx = ContextManager(window=120_000)
    fill(ctx, 300)
    large = len(ctx.get_context_for_model())
    small = ctx.get_context_for_model("gpt-4")
    assert len(small) < large
    assert len(ctx.get_context_for_model()) == large
    with pytest.raises(UnknownModel, match="window="):
        ctx.get_context_for_model("nobody-knows-me")


def test_a_model_key_names_window_and_tokenizer() -> None:
    """An unknown model raises and names `window=` (K-3)."""
    assert ContextManager("gpt-4o").window.size == 128_000
    assert ContextManager("gpt-4o", window=9_000).window.size == 9_000
    with pytest.raises(UnknownModel, match="window="):
        ContextManager("my-model")


@pytest.mark.parametrize(
    "bad",
    [{"role": "nobody", "content": "x"}, {"content": "x"}, {"role": "tool", "content": "x"}, 5],
)
def test_a_bad_message_is_refused_with_its_field(bad: object) -> None:
    """Refused with the field's path, and not stored (C-3)."""
    ctx = ContextManager()
    with pytest.raises(InvalidMessage, match="message"):
        ctx.add_message(bad)  # type: ignore[arg-type]
    assert len(ctx.history) == 0


def test_a_message_of_another_format_is_refused_by_name() -> None:
    """Anthropic blocks in a chat session would be lost in silence: they are refused."""
    ctx = ContextManager()
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    ctx.add_message({"role": "assistant", "content": None, "tool_calls": [call]})
    block = {"type": "tool_use", "id": "t1", "name": "run", "input": {}}
    with pytest.raises(InvalidMessage, match="format='anthropic'"):
        ctx.add_message({"role": "assistant", "content": [block]})


def test_events_tell_each_decision() -> None:
    """Stages in order, the summary and what was pruned, with counts (K-8, FR-5)."""
    seen: list[object] = []
    ctx = ContextManager(window=4_000, on_event=seen.append)
    fill(ctx, 40)
    ctx.get_context_for_model()
    stages = [e.stage for e in seen if isinstance(e, StageStarted)][:6]
    assert stages == ["identify", "prepare", "summarize", "checkpoint", "update", "validate"]
    created = next(e for e in seen if isinstance(e, SummaryCreated))
    pruned = next(e for e in seen if isinstance(e, PrunedMessages))
    assert created.tokens == ctx.checkpoints[0].token_count
    assert pruned.covered == created.messages > 0
    assert pruned.tokens_after <= ctx.window.target


def test_a_failing_summarizer_is_replaced_and_the_turn_served() -> None:
    """The extractive summary stands in, the events and the checkpoint say why (FR-6)."""
    seen: list[object] = []
    failing = ScriptedSummarizer(ConnectionError("the model is down"))
    ctx = ContextManager(window=4_000, summarizer=failing, on_event=seen.append)
    fill(ctx, 40)
    assert ctx.get_context_for_model()
    assert ctx.checkpoints[0].made_by == "extractive"
    assert "the model is down" in ctx.checkpoints[0].verdicts[-1].detail
    assert any(isinstance(e, ErrorRaised) and e.stage == "summarize" for e in seen)
    assert any(isinstance(e, SummaryReplaced) for e in seen)


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


def test_the_extractive_form_works_inside_a_loop() -> None:
    """Nothing waits, so nothing is refused: notebooks have a running loop."""

    async def inside() -> list[dict[str, Any]]:
        ctx = ContextManager(window=4_000)
        fill(ctx, 40)
        return ctx.get_context_for_model()

    checkpoint, *_, answer = asyncio.run(inside())
    assert is_checkpoint_text(checkpoint["content"].partition("\n\nQuestion ")[0])
    assert answer["content"].startswith("Answer 39")


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


def test_policy_settings_change_what_is_kept() -> None:
    """Keep counts, trigger and target are the policy's (K-2, K-4)."""
    policy = CompactPolicy(keep_user_messages=2, trigger_ratio=0.5, target_ratio=0.3)
    ctx = ContextManager(window=16_000, policy=policy)
    for i in range(60):
        ctx.add_message(role="user", content=f"Please note item {i}.")
        ctx.add_message(role="assistant", content="Noted. " + "filler words here. " * 150)
    ctx.get_context_for_model()
    assert ctx.window.trigger == int(ctx.window.size * 0.5)
    assert ctx.active_context().tokens <= ctx.window.trigger


def test_summary_before_and_after_the_first_checkpoint() -> None:
    """`get_conversation_summary` always has something to say, but for an empty session (C-5)."""
    ctx = ContextManager(window=4_000)
    assert ctx.get_conversation_summary() == ""
    ctx.add_message(role="user", content=RULE)
    assert RULE in ctx.get_conversation_summary()
    fill(ctx, 40)
    ctx.get_context_for_model()
    assert ctx.get_conversation_summary() == ctx.checkpoints[0].summary


def test_anthropic_sessions() -> None:
    """The same in Anthropic's format: results in user messages, one answer for a part of a
    reply."""
    ctx = ContextManager("claude-sonnet-4-5", window=8_000)
    ctx.add_message(role="user", content="look at both files")
    uses = [{"type": "tool_use", "id": f"t{i}", "name": "read", "input": {"n": i}} for i in (1, 2)]
    ctx.add_message({"role": "assistant", "content": uses})
    half = {"type": "tool_result", "tool_use_id": "t1", "content": "one"}
    ctx.add_message({"role": "user", "content": [half]})
    context = ctx.get_context_for_model()
    answered = {b["tool_use_id"] for m in context[2:] for b in m["content"]}
    assert answered == {"t1", "t2"}
    assert ctx.estimate_tokens("hello world") >= 2


def test_a_failed_compression_is_tried_again_rather_than_forgotten() -> None:
    """What could not be compressed is never sent oversize the next time (FR-3)."""
    ctx = ContextManager(window=1_000)
    ctx.add_message(role="system", content="word " * 3_000)
    ctx.add_message(role="user", content="hello")
    for _ in range(2):
        with pytest.raises(CannotFit):
            ctx.get_context_for_model()


def test_messages_that_come_while_a_summary_is_written_are_in_view() -> None:
    """A draft covers a fixed span; what was appended meanwhile follows it (FR-5)."""

    class Slow(ScriptedSummarizer):
        async def summarize(self, request: SummaryRequest) -> Summary:
            ctx.add_message(role="user", content="said meanwhile")
            return await super().summarize(request)

    ctx = ContextManager(window=4_000, summarizer=Slow("summary"))
    fill(ctx, 40)

    async def twice() -> list[list[dict[str, object]]]:
        both = (ctx.aget_context_for_model(), ctx.aget_context_for_model())
        return list(await asyncio.gather(*both))

    for context in asyncio.run(twice()):
        assert "said meanwhile" in str(context[-1])
        assert len(context) < 60


def test_unknown_options_are_refused() -> None:
    """A misspelt option would change nothing in silence."""
    with pytest.raises(TypeError, match="did you mean 'tokenizer'"):
        ContextManager(tokeniser="o200k")  # type: ignore[call-arg]


def test_rules_survive_round_after_round_without_history() -> None:
    """compress, append, compress: an earlier checkpoint's rules keep their words (C-8)."""
    rules = [f"Rule {i}: never touch the file part_{i}.py without asking." for i in range(8)]
    messages: list[dict[str, object]] = [{"role": "user", "content": rule} for rule in rules]
    for turn in range(12):
        for i in range(20):
            messages.append({"role": "user", "content": f"Please look at module {turn}-{i} now."})
            messages.append({"role": "assistant", "content": f"Module {i} is fine. " * 25})
        messages = compress(messages, max_tokens=4_000)
    assert all(rule in str(messages) for rule in rules)


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


def test_an_empty_summary_may_not_stand_in_for_anything() -> None:
    """The gate refuses it, and the extractive one takes its place (FR-6)."""
    ctx = ContextManager(window=4_000, summarizer=ScriptedSummarizer("  "))
    fill(ctx, 40)
    ctx.get_context_for_model()
    assert ctx.checkpoints[0].made_by == "extractive"


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

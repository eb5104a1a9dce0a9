"""Sending, refusals and the emergency ladder (US-3, US-5, FR-3, FR-10)."""

import asyncio
from pathlib import Path

import pytest

from compact import CannotFit, ContextManager, Message
from compact.engine.inputs import RUNGS
from compact.messages.context import ActiveContext
from compact.messages.events import EmergencyRung, RatioLearned
from compact.messages.replies import Usage
from compact.session.views.fitting import tried
from compact.store.inmemory import InMemoryStore
from compact.testing import ScriptedModel
from tests import checker
from tests.session.asking import of, talk

# --- sending --------------------------------------------------------------------------------------


def test_a_sent_prompt_is_the_active_context_and_the_answer_is_stored() -> None:
    """`send` gives the model what `active_context` says, and appends its answer (FR-3)."""
    ctx, model = ContextManager(), ScriptedModel("It holds.", {"role": "assistant", "content": "!"})
    ctx.add_message(role="user", content="Does the roof hold?")
    want = ctx.active_context()
    reply = ctx.send(model)
    assert model.contexts == [want]
    assert (reply.role, reply.text) == ("assistant", "It holds.")
    assert ctx.send(model).text == "!"
    assert [m.text for m in ctx.history] == ["Does the roof hold?", "It holds.", "!"]


def _double(context: ActiveContext) -> int:
    """A tokenizer that needs twice the tokens that we count."""
    return 2 * context.tokens


@pytest.mark.slow
def test_a_refusal_teaches_the_ratio_and_the_smaller_prompt_is_sent() -> None:
    """Counts are corrected, the ladder runs once, and no later prompt is refused (FR-3, FR-14)."""
    seen: list[object] = []
    ctx = ContextManager(window=8_192, on_event=seen.append)
    model = ScriptedModel("ok", limit=8_192, count=_double)
    talk(ctx, 8)
    assert 2 * ctx.active_context().tokens > 8_192
    assert ctx.send(model).text == "ok"
    assert len(model.contexts) == 2
    assert ctx._session.view.calibration.ratio == pytest.approx(2.0, abs=0.01)
    assert of(seen, RatioLearned)[0].ratio == pytest.approx(2.0, abs=0.01)
    for _ in range(10):
        talk(ctx, 4)
        calls = len(model.contexts)
        ctx.send(model)
        assert len(model.contexts) == calls + 1, "it is not refused again"
    assert ctx.time.snapshots()[0].purpose == "emergency"


REFUSALS = {
    "a sentence": ("prompt is too long: 12000 tokens > 8192 maximum", 12_000, 8_192),
    "without numbers": ("the input length exceeds the context length", None, None),
    "JSON": (
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 12_000,
                "n_ctx": 8_192,
            }
        },
        12_000,
        8_192,
    ),
}


@pytest.mark.parametrize("provider", REFUSALS)
def test_what_providers_say_of_an_overflow_is_understood(provider: str) -> None:
    """As an exception, a text or JSON; the next prompt is smaller by the learned ratio (FR-14)."""
    error, tokens, limit = REFUSALS[provider]
    ctx = ContextManager(window=16_384)
    talk(ctx, 19)
    before = len(ctx.get_context_for_model())
    counted = ctx.active_context().tokens
    plan = ctx.report_overflow(error if isinstance(error, dict) else RuntimeError(error))
    ratio = ctx._session.view.calibration.ratio
    if tokens is None:
        assert ratio == pytest.approx(1.25, rel=0.01)
    else:
        assert ratio == pytest.approx(max(1.0, tokens / counted), rel=0.01)
    assert ctx.window.size == (limit or 16_384)
    assert len(ctx.get_context_for_model()) < before
    assert plan.tokens_after * ratio <= ctx.window.size
    assert checker.prompt_tokens(ctx.get_context_for_model()) * ratio <= ctx.window.size


def test_reported_usage_corrects_later_counts_and_outlives_the_process(tmp_path: Path) -> None:
    """More is believed at once, less slowly; an exact tokenizer never goes below 1 (FR-3)."""
    with ContextManager(window=8_192, store=tmp_path / "a.db", session_id="s") as ctx:
        talk(ctx, 2)
        usable, counted = ctx.window.usable, ctx.active_context().tokens
        ctx.record_usage(Usage(prompt_tokens=int(1.5 * counted)))
        assert ctx.window.usable == pytest.approx(usable / 1.5, abs=4)
        ctx.record_usage(counted)
        slowly = ctx._session.view.calibration.ratio
        assert 1.4 < slowly < 1.5
    with ContextManager(window=8_192, store=tmp_path / "a.db", session_id="s") as again:
        assert again._session.view.calibration.ratio == slowly
        for _ in range(100):
            again.active_context()
            again.record_usage(counted // 2)
        assert again._session.view.calibration.ratio == 1.0


def test_usage_of_what_was_never_taken_teaches_nothing() -> None:
    """A report without a prompt is no evidence (FR-3)."""
    ctx = ContextManager()
    ctx.record_usage(5_000)
    assert ctx._session.view.calibration.ratio == 1.0


# --- the ladder -----------------------------------------------------------------------------------


class Growing:
    """A tokenizer whose counts can change under its name, as with a new version of a vocabulary."""

    name = "growing"
    exact = False

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def count(self, text: str) -> int:
        return int(len(text) * self.factor / 4) + 1 if text else 0


def stale(factor: float, seen: list[object], *, window: int = 8_192) -> ContextManager:
    """A session whose stored counts are too small by a factor, up to its trigger."""
    store = InMemoryStore()
    ctx = ContextManager(window=window, store=store, session_id="s", tokenizer=Growing(1.0))
    ctx.add_message(role="system", content="You are a roofer.")
    while not ctx.checkpoints or ctx.budget.used_tokens < 0.85 * ctx.window.trigger:
        talk(ctx, 1, words=30)
        ctx.get_context_for_model()
    return ContextManager(
        window=window,
        store=store,
        session_id="s",
        tokenizer=Growing(factor),
        on_event=seen.append,
    )


def test_a_prompt_that_is_found_too_large_is_rescued_before_it_is_sent() -> None:
    """The whole prompt is counted again before it is sent; rung by rung, a snapshot before each,
    until one fits; each is measured (FR-3, FR-10)."""
    seen: list[object] = []
    ctx = stale(2.6, seen)
    before = ctx._session.view.projection
    model = ScriptedModel("ok")
    ctx.send(model)
    rungs: list[EmergencyRung] = of(seen, EmergencyRung)
    assert [r.rung for r in rungs] == [r.name for r in RUNGS][: len(rungs)]
    assert rungs
    kept = [s for s in ctx.time.snapshots() if s.purpose == "emergency"]
    assert [r.snapshot_id for r in rungs] == [s.id for s in kept]
    assert [s.note for s in kept] == [r.rung for r in rungs]
    assert before is not None
    assert {s.projection_id for s in kept} == {before.id}
    assert kept[0].checkpoint_ids == tuple(c.id for c in before.checkpoints)
    *failed, done = [r.tokens_after for r in rungs]
    assert all(after is None or after > ctx.window.usable for after in failed)
    assert done is not None
    assert done <= ctx.window.usable
    (sent,) = model.contexts
    fresh = ctx._session.sender.count(sent)
    assert fresh <= ctx.window.usable
    assert any("You are a roofer." in m.text for m in sent.messages)
    assert sent.messages[-1].text.startswith("Answer 0")


def test_where_no_rung_helps_the_error_shows_what_is_too_large() -> None:
    """Not even rolled over: nothing is sent, nothing is lost, the snapshots are there (FR-3)."""
    seen: list[object] = []
    ctx = stale(40.0, seen, window=4_096)
    model, before = ScriptedModel("ok"), len(ctx.history)
    with pytest.raises(CannotFit) as caught:
        ctx.send(model)
    assert caught.value.total > ctx.window.usable
    assert sum(caught.value.floor.values()) == caught.value.total
    assert model.contexts == []
    assert len(ctx.history) == before
    rungs = of(seen, EmergencyRung)
    assert [r.rung for r in rungs] == [r.name for r in RUNGS]
    assert all(r.tokens_after is None and r.needed == ctx.window.usable for r in rungs)
    assert [s.note for s in ctx.time.snapshots()] == [r.name for r in RUNGS]
    assert {"system prompt", "newest user message"} <= set(caught.value.floor)


def test_each_rung_takes_a_snapshot_frees_no_less_and_commits_nothing() -> None:
    """From lowered checkpoints to the roll-over: system prompt, goals and the newest words stay
    (FR-10)."""
    seen: list[object] = []
    ctx = ContextManager(window=16_384, on_event=seen.append)
    ctx.add_message(role="system", content="You are a roofer.")
    ctx.goals.set(["Get the roof done."])
    while len(ctx.checkpoints) < 4:
        talk(ctx, 1, words=20)
        ctx.get_context_for_model()
    before = ctx._session.view.projection
    state, view = ctx._session.state, ctx._session.view
    drafts = [asyncio.run(tried(state, view, rung, view.window.usable)) for rung in RUNGS]
    proposals = [None if draft is None else draft.proposal for draft in drafts]
    rungs = of(seen, EmergencyRung)
    assert [r.rung for r in rungs] == [r.name for r in RUNGS]
    assert [r.snapshot_id for r in rungs] == [s.id for s in ctx.time.snapshots()]
    assert [r.tokens_after for r in rungs] == [
        p.plan.tokens_after for p in proposals if p is not None
    ]
    lowered, merged, *_, rolled, receipt = (p for p in proposals if p is not None)
    assert len(merged.checkpoints) <= len(lowered.checkpoints) < 6
    assert {c.level for c in merged.checkpoints[:-1]} <= {"merged"}
    assert rolled.plan.tokens_after <= 0.15 * ctx.window.usable + ctx._session.view.overhead_tokens
    assert [c.made_by for c in receipt.checkpoints] == ["receipt"]
    texts = [m.text for m in rolled.plan.context.messages]
    assert texts[0] == "You are a roofer."
    assert any(text.startswith("Question 0") for text in texts)
    assert ctx._session.view.projection == before


def test_a_floor_that_cannot_fit_climbs_no_rung() -> None:
    """No summary can help then: the error comes at once, with the floor's parts (FR-3)."""
    seen: list[object] = []
    ctx = ContextManager(window=1_000, on_event=seen.append)
    ctx.add_message(role="system", content="word " * 2_000)
    ctx.add_message(role="user", content="hello")
    with pytest.raises(CannotFit) as caught:
        ctx.send(ScriptedModel("ok"))
    assert caught.value.floor["system prompt"] > 1_900
    assert of(seen, EmergencyRung) == []
    assert ctx.time.snapshots() == []


def test_a_wrong_token_count_of_a_message_is_not_believed() -> None:
    """What a message says of its tokens may come from another tokenizer: it is counted (FR-3)."""
    ctx = ContextManager(window=4_096)
    for i in range(40):
        text = f"Part {i}: " + "the roof holds. " * 60
        ctx.add_message(Message(role="user", content=text, token_count=1))
    assert checker.prompt_tokens(ctx.get_context_for_model()) <= ctx.window.usable

"""A compression that fails leaves what was there, and what was there is served where it fits (FR-5,
FR-6).
"""

from typing import Any

import pytest

from compact import ContextManager, plan
from compact.engine import pipeline
from compact.errors import CompactError, CompressionFailed, StoreFailed, SummaryRejected
from compact.messages.events import (
    Committed,
    EmergencyRung,
    ErrorRaised,
    PrunedMessages,
    SummaryCreated,
)
from compact.store.inmemory import InMemoryStore
from compact.telemetry.plain_words import sentence
from compact.testing import ScriptedSummarizer
from tests import checker
from tests.session.asking import Failing, of

TOLD = (SummaryCreated, PrunedMessages, Committed)
STAGES = {
    "identify": (pipeline, "identify"),
    "prepare": (pipeline, "prepare"),
    "checkpoint": (pipeline, "_judged"),
    "update": (pipeline, "update"),
    "validate": (pipeline, "validate"),
}


def past_trigger(ctx: ContextManager) -> None:
    """Talk until the trigger is passed; the prompt still fits, and has room to grow."""
    fill(ctx, (ctx.window.trigger + 1) / ctx.window.usable)
    assert ctx.budget.used_tokens < (ctx.window.trigger + ctx.window.usable) / 2, "set up wrongly"


def fill(ctx: ContextManager, share: float) -> None:
    """Talk until the prompt takes that share of the usable window."""
    while ctx.budget.used_tokens < share * ctx.window.usable:
        number = len(ctx.history)
        ctx.add_message(role="user", content=f"Question {number}: " + "what of the roof? " * 9)
        ctx.add_message(role="assistant", content=f"Answer {number}: " + "it holds. " * 9)


def breaks(monkeypatch: pytest.MonkeyPatch, stage: str, error: Exception) -> None:
    def failing(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(*STAGES[stage], failing)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("error", "waits"),
    [(KeyError("beam"), False), (SummaryRejected("it has 9 tokens too many"), True)],
)
def test_where_a_stage_fails_the_context_before_is_served(
    stage: str, error: Exception, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event says at which stage and what is served; no snapshot, no rung, no success is told,
    and it is not tried at every turn. When it works again the session is compressed (FR-5)."""
    seen: list[object] = []
    more: dict[str, Any] = {"summarizer": ScriptedSummarizer("The roof holds.")} if waits else {}
    ctx = ContextManager(window=4_096, on_event=seen.append, **more)
    past_trigger(ctx)
    whole = [m.text for m in ctx.history]
    with monkeypatch.context() as patched:
        breaks(patched, stage, error)
        assert [m["content"] for m in ctx.get_context_for_model()] == whole
        assert ctx.get_context_for_model() == ctx.get_context_for_model()
        (told,) = of(seen, ErrorRaised)
        assert (told.stage, told.serves) == (stage, "the context before")
        assert str(error) in told.message
        assert "the context before is served" in sentence(told)
        assert not of(seen, EmergencyRung, *TOLD)
        assert ctx.time.snapshots() == []
        said = ctx.compress_conversation(0.5)
        assert str(error) in said.explain()
        assert len(of(seen, ErrorRaised)) == 2
    fill(ctx, 0.95)
    assert len(ctx.get_context_for_model()) < len(ctx.history)
    assert of(seen, Committed)
    assert len(of(seen, ErrorRaised)) == 2


@pytest.mark.parametrize("stage", STAGES)
def test_where_nothing_fits_the_error_is_told_and_raised(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours, whatever the stage raised; nothing is lost, and later the session goes on (FR-6)."""
    seen: list[object] = []
    ctx = ContextManager(window=4_096, on_event=seen.append)
    fill(ctx, 1.5)
    with monkeypatch.context() as patched:
        breaks(patched, stage, KeyError("beam"))
        with pytest.raises(CompressionFailed, match="beam") as caught:
            ctx.get_context_for_model()
        assert caught.value.stage == stage
        assert [(e.stage, e.serves) for e in of(seen, ErrorRaised)] == [(stage, "")]
        assert not of(seen, *TOLD)
    prompt = ctx.get_context_for_model()
    assert checker.prompt_tokens(prompt) <= ctx.window.usable


def test_where_a_stage_fails_and_nothing_fits_a_rung_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails of a usual compression need not fail of the receipt: no exception then (FR-6)."""
    seen: list[object] = []
    ctx = ContextManager(window=4_096, on_event=seen.append)
    fill(ctx, 1.5)
    update = pipeline.update  # type: ignore[attr-defined]  # its own import of the stage

    def only_bare(selection: Any, written: Any) -> Any:
        if selection.policy.summarizes:
            raise KeyError("beam")
        return update(selection, written)

    monkeypatch.setattr(pipeline, "update", only_bare)
    assert checker.prompt_tokens(ctx.get_context_for_model()) <= ctx.window.usable
    assert of(seen, EmergencyRung)[-1].rung == "receipt"
    assert not of(seen, ErrorRaised)


@pytest.mark.parametrize("waits", [False, True])
def test_where_the_commit_fails_the_context_before_is_served(waits: bool) -> None:
    """No success is told that did not come; afterwards it is compressed, told in this order: the
    checkpoints, what was pruned, the commit (FR-5)."""
    seen: list[object] = []
    store = Failing()
    more: dict[str, Any] = {"summarizer": ScriptedSummarizer("The roof holds.")} if waits else {}
    ctx = ContextManager(window=4_096, store=store, on_event=seen.append, **more)
    past_trigger(ctx)
    whole = [m.text for m in ctx.history]
    store.failing = ["commit"]
    assert [m["content"] for m in ctx.get_context_for_model()] == whole
    (told,) = of(seen, ErrorRaised)
    assert (told.stage, told.serves) == ("commit", "the context before")
    assert "the disk is full" in told.message
    assert not of(seen, *TOLD)
    fill(ctx, 1.2)
    with pytest.raises(StoreFailed):
        ctx.get_context_for_model()
    store.failing = ()
    ctx.get_context_for_model()
    kinds = [type(event) for event in of(seen, *TOLD)]
    assert kinds == [SummaryCreated] * (len(kinds) - 2) + [PrunedMessages, Committed]
    created = {event.checkpoint_id for event in of(seen, SummaryCreated)}
    assert created == {checkpoint.id for checkpoint in ctx.checkpoints}
    assert of(seen, Committed)[0].at <= of(seen, Committed)[-1].at
    assert not [name for name in store.notes(ctx.id) if name.startswith("draft:")]


@pytest.mark.parametrize(
    "fault", [StoreFailed("the disk is full"), OSError("no route"), KeyError("beam")]
)
@pytest.mark.parametrize("stage", ["draft", "commit"])
def test_whatever_a_store_raises_the_context_before_is_served(stage: str, fault: Exception) -> None:
    """A store may be somebody's own; the event names what failed, and no stage that never ran
    (FR-5)."""
    seen: list[object] = []
    store = Failing()
    store.fault = fault
    ctx = ContextManager(window=4_096, store=store, on_event=seen.append)
    past_trigger(ctx)
    whole = [m.text for m in ctx.history]
    store.failing = ["commit" if stage == "commit" else "note"]
    assert [m["content"] for m in ctx.get_context_for_model()] == whole
    (told,) = of(seen, ErrorRaised)
    assert (told.stage, told.serves) == (stage, "the context before")
    assert str(fault) in told.message
    fill(ctx, 1.2)
    with pytest.raises(CompactError) as caught:
        ctx.get_context_for_model()
    assert caught.value.stage == stage
    store.failing = ()
    ctx.get_context_for_model()
    assert ctx.checkpoints


def test_success_is_told_after_the_commit() -> None:
    """Whoever hears of a checkpoint finds it in the store (FR-5)."""
    store = InMemoryStore()
    found: list[bool] = []

    def hears(event: object) -> None:
        if isinstance(event, SummaryCreated | PrunedMessages):
            move = store.moves("s", 4_096, most=1)
            found.append(bool(move))

    ctx = ContextManager(window=4_096, store=store, session_id="s", on_event=hears)
    past_trigger(ctx)
    ctx.get_context_for_model()
    assert found
    assert all(found)


def test_of_one_call_the_failure_is_told_and_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no context before to serve (FR-5)."""
    seen: list[object] = []
    messages = [{"role": "user", "content": "what of the roof? " * 99} for _ in range(9)]
    breaks(monkeypatch, "update", KeyError("beam"))
    with pytest.raises(CompactError, match=r"'update'.*KeyError.*beam"):
        plan(messages, max_tokens=900, on_event=seen.append)
    assert [(e.stage, e.serves) for e in of(seen, ErrorRaised)] == [("update", "")]
    assert not of(seen, *TOLD)

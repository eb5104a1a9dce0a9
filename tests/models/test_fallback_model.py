"""Models that are asked again, and others in their place (FR-6, K-5)."""

import asyncio

import pytest

from compact.errors import (
    ContextOverflow,
    ModelRefused,
    ModelUnavailable,
    WrongLayer,
)
from compact.messages.asking import ASK, Patience
from compact.messages.events import ModelAskedAgain, ModelReplaced
from compact.messages.messages import Message
from compact.messages.replies import Reply
from compact.models.providers.fallback_model import FallbackModel
from compact.testing import ScriptedModel
from tests.models.persisting import BUSY, PROMPT, Clock, Hanging, answer, asked
from tests.pace import run_at_once


def test_a_model_that_is_busy_is_asked_again_after_growing_waits():
    """(K-5) Exponential backoff with jitter."""
    model = ScriptedModel(BUSY, BUSY, BUSY, "here", name="one")
    persistent, clock, events = asked(model)
    reply = answer(persistent)
    assert reply.message.text == "here"
    assert reply.model == "one"
    assert len(clock.waits) == 3
    assert len(model.contexts) == 4
    assert all(0 <= w <= 0.5 * 2**i for i, w in enumerate(clock.waits))
    assert [e.attempt for e in events] == [1, 2, 3]
    assert all(isinstance(e, ModelAskedAgain) and e.reason == "busy" for e in events)


def test_waits_are_not_alike():
    def waits():
        persistent, clock, _ = asked(ScriptedModel(BUSY, BUSY, BUSY, "here"))
        answer(persistent)
        return tuple(clock.waits)

    assert len({waits() for _ in range(5)}) == 5


def test_the_servers_own_wish_is_kept():
    asks = ModelUnavailable("busy", retry_after=7.5)
    persistent, clock, _ = asked(ScriptedModel(asks, "here"))
    answer(persistent)
    assert clock.waits == [7.5]


def test_a_server_that_wants_to_be_left_alone_for_long_is_replaced_at_once():
    far = ModelUnavailable("come back tomorrow", retry_after=3_600)
    persistent, clock, events = asked(
        ScriptedModel(far, name="one"), ScriptedModel("mine", name="two")
    )
    assert answer(persistent).model == "two"
    assert clock.waits == []
    assert isinstance(events[0], ModelReplaced)
    assert (events[0].model, events[0].by) == ("one", "two")


def test_a_refusal_is_not_argued_with():
    refusing = ScriptedModel(ModelRefused("wrong key"), name="one")
    persistent, clock, _ = asked(refusing, ScriptedModel("mine", name="two"))
    assert answer(persistent).message.text == "mine"
    assert len(refusing.contexts) == 1
    assert not clock.waits


def test_cheaper_models_are_asked_in_order_and_the_last_error_is_told():
    """(K-5) Fallback models."""
    models = [
        ScriptedModel(ModelUnavailable(f"{name} is down"), name=name) for name in ("a", "b", "c")
    ]
    persistent, _, events = asked(*models, patience=Patience(attempts=2))
    with pytest.raises(ModelUnavailable, match="c is down"):
        answer(persistent)
    assert [len(model.contexts) for model in models] == [2, 2, 2]
    assert [(e.model, e.by) for e in events if isinstance(e, ModelReplaced)] == [
        ("a", "b"),
        ("b", "c"),
    ]


def test_an_empty_answer_is_no_answer():
    persistent, _, _ = asked(ScriptedModel("", " \n", "here"))
    assert answer(persistent).message.text == "here"


def test_a_prompt_that_is_too_large_goes_back_to_its_maker():
    overflow = ContextOverflow("too large", tokens=9, limit=8)
    other = ScriptedModel("mine")
    persistent, clock, _ = asked(ScriptedModel(overflow), other)
    with pytest.raises(ContextOverflow):
        answer(persistent)
    assert not clock.waits
    assert not other.contexts


class Slow(ScriptedModel):
    """Takes its time to fail."""

    async def complete(self, context, ask=ASK):
        await asyncio.sleep(0.02)
        return await super().complete(context, ask)


def test_the_time_for_an_answer_is_that_of_all_models_together():
    """(K-5) It does not begin anew with each of them, and none uses up the others' share."""
    models = [Slow(ModelUnavailable(f"{name} is down"), name=name) for name in ("a", "b", "c")]
    patience = Patience(attempts=1_000, together=0.3, first_wait=0, longest_wait=0)
    persistent, _, _ = asked(*models, patience=patience)

    async def seconds():
        start = asyncio.get_running_loop().time()
        with pytest.raises(ModelUnavailable, match="c is down"):
            await persistent.complete(PROMPT)
        return asyncio.get_running_loop().time() - start

    assert run_at_once(seconds()) < 0.6
    assert all(1 <= len(model.contexts) <= 10 for model in models)


def test_nobody_is_asked_any_more_when_the_time_is_up():
    """(K-5) Here the first one takes its time to be given up."""

    class Clinging(ScriptedModel):
        async def complete(self, context, ask=ASK):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0.02)
                return await super().complete(context, ask)

    late, other = Clinging(ModelUnavailable("down"), name="one"), ScriptedModel("mine")
    persistent, _, events = asked(late, other, patience=Patience(1, each=0.05, together=0.01))
    with pytest.raises(ModelUnavailable, match="down"):
        answer(persistent)
    assert len(late.contexts) == 1
    assert not other.contexts
    assert not events


def test_a_model_that_hangs_is_given_up():
    persistent, _, events = asked(
        Hanging(name="one"), ScriptedModel("mine"), patience=Patience(attempts=2, each=0.01)
    )
    assert answer(persistent).message.text == "mine"
    assert "0.01 seconds" in events[0].reason


@pytest.mark.slow
def test_behind_models_that_hang_the_next_one_has_its_turn():
    """(K-5) Each has an even share of the time, even where one answer may take more."""
    models = [Hanging(name="one"), Hanging(name="two"), ScriptedModel("mine", name="three")]
    patience = Patience(each=5, together=1.5, first_wait=0, longest_wait=0)
    persistent, _, events = asked(*models, patience=patience)
    assert answer(persistent).model == "three"
    replaced = [event for event in events if isinstance(event, ModelReplaced)]
    assert [(event.model, event.by) for event in replaced] == [("one", "two"), ("two", "three")]
    assert all("did not answer within 0." in event.reason for event in replaced)


def test_what_a_stand_in_is_asked_for_takes_of_its_own_share_only():
    """(K-5) A server that does not even say its limits keeps nobody waiting for longer."""

    class Mute(Hanging):
        async def limits(self):
            await asyncio.Event().wait()

    down = ScriptedModel(ModelUnavailable("down"), name="one")
    models = [down, Mute(name="two"), ScriptedModel("mine", name="three")]
    persistent, _, _ = asked(*models, patience=Patience(attempts=1, each=5, together=0.06))

    async def answered():
        async with asyncio.timeout(60):
            return await persistent.complete(PROMPT)

    assert run_at_once(answered()).model == "three"


def test_whoever_waits_can_cancel():
    class Forever(Clock):
        async def sleep(self, seconds):
            await asyncio.Event().wait()

    async def cancelled():
        persistent = FallbackModel([ScriptedModel(BUSY)], sleep=Forever().sleep)
        task = asyncio.create_task(persistent.complete(PROMPT))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_at_once(cancelled())


def test_no_attempt_is_begun_after_the_time_is_up():
    model = ScriptedModel(BUSY)
    persistent, _, _ = asked(model, patience=Patience(attempts=50, together=0.0))
    with pytest.raises(ModelUnavailable):
        answer(persistent)
    assert len(model.contexts) == 1


def test_only_an_active_context_goes_out():
    """(FR-1) Also through those who stand in between."""
    model = ScriptedModel("here")
    persistent, _, _ = asked(model)
    with pytest.raises(WrongLayer):
        run_at_once(persistent.complete([{"role": "user", "content": "hi"}]))
    assert not model.contexts


def test_a_server_that_hangs_when_asked_for_its_limits_is_given_up():
    """(K-5) Nothing that a model is asked takes longer than it may."""

    class Mute(ScriptedModel):
        async def limits(self):
            await asyncio.Event().wait()

        async def count(self, context):
            await asyncio.Event().wait()

    async def both():
        persistent, _, _ = asked(Mute(), patience=Patience(each=0.01))
        async with asyncio.timeout(60):
            with pytest.raises(ModelUnavailable, match=r"0\.005 seconds"):
                await persistent.limits()
            with pytest.raises(ModelUnavailable, match=r"0\.01 seconds"):
                await persistent.count(PROMPT)

    run_at_once(both())


def test_the_first_one_says_whether_tools_are_called_and_all_whether_schemas_are_held():
    """(FR-13) A stand-in takes no tools from the model that it stands in for."""
    one, two = ScriptedModel("a"), ScriptedModel("b")
    one.abilities = one.abilities.model_copy(update={"tools": True, "schemas": True})
    two.abilities = one.abilities.model_copy(update={"tools": False, "schemas": False})
    persistent, _, _ = asked(one, two)
    assert persistent.abilities.tools is True
    assert not persistent.abilities.schemas


def test_nobody_to_ask_is_an_error():
    with pytest.raises(ValueError, match="at least one"):
        FallbackModel([])


def test_it_closes_what_its_models_hold_open():
    """Whoever closes a session closes the connections behind it."""
    closed = []

    class Connected(ScriptedModel):
        async def aclose(self):
            closed.append(self.name)

    models = [Connected(name="one"), ScriptedModel(name="two"), Connected(name="three")]
    run_at_once(FallbackModel(models).aclose())
    assert closed == ["one", "three"]


@pytest.mark.parametrize("content", [" \n", "", None, []])
def test_blanks_are_no_answer_in_a_providers_own_words_either(content):
    """(FR-6)"""
    said = {"role": "assistant", "content": content}
    assert Reply(message=said).is_empty
    assert Reply(message=Message(role="assistant", content=content or "")).is_empty
    assert not Reply(message={**said, "tool_calls": [{"id": "a"}]}).is_empty

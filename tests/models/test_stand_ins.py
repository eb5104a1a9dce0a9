"""Models in the place of one that refuses a prompt or calls no tools (FR-6, FR-13)."""

import asyncio

import pytest

from compact import wiring
from compact.errors import (
    ContextOverflow,
    ModelRefused,
    ModelUnavailable,
)
from compact.messages.asking import ASK, Ask, Patience
from compact.messages.context import ActiveContext
from compact.messages.events import ToolsWithdrawn
from compact.messages.replies import Reply
from compact.models.providers.fallback_model import FallbackModel
from compact.telemetry.plain_words import sentence
from compact.testing import ScriptedModel
from tests.models.persisting import BUSY, PROMPT, Sized, asked


class Full(ScriptedModel):
    """Refuses every prompt."""

    def __init__(self, name="one", tokens=9_000):
        super().__init__(ContextOverflow("too large", tokens=tokens, limit=8_192), name=name)


LARGE = ActiveContext(messages=PROMPT.messages, tokens=7_000)
FINAL = Ask(max_tokens=3_000, window=8_192, refused_by={})
"""For a prompt that cannot be made smaller."""


def test_a_prompt_that_cannot_be_smaller_goes_to_a_model_that_is_known_to_hold_it():
    """(K-5) And only to that one: nobody is sent what may be too large."""
    others = [
        ScriptedModel("who knows?", name="unknown"),
        Sized("small", window=8_192, name="small"),
        Sized("small", window=131_072, trained=8_192, name="made for less"),
        Sized("no room for the answer", window=13_000, name="no room"),
        Sized("mine", window=32_768, name="large"),
    ]
    persistent, clock, events = asked(Full(), *others)
    assert asyncio.run(persistent.complete(LARGE, FINAL)).model == "large"
    assert [len(other.contexts) for other in others] == [0, 0, 0, 0, 1]
    assert [ask.window for ask in others[-1].asks] == [32_768]
    assert [(event.model, event.by, event.reason) for event in events] == [
        ("one", "large", "too large")
    ]
    assert sentence(events[0]) == "large is asked instead of one: too large"
    assert not clock.waits


@pytest.mark.parametrize(
    ("known", "said", "told"),
    [
        (8_192, {}, 8_192),
        (None, {"trained": 8_192}, 8_192),
        (8_192, {"window": 16_384, "trained": 12_000}, 12_000),
        (400_000, {}, 200_000),
        (None, {}, 200_000),
    ],
)
def test_a_stand_in_is_told_its_own_window(known, said, told):
    """(K-5) Not that of the model that is down, where its own one is known to be smaller."""
    own, other = ScriptedModel(BUSY, name="one"), Sized("mine", name="other", **said)
    windows = {} if known is None else {"other": known}
    persistent = FallbackModel([own, other], Patience(attempts=1), windows=windows)
    asyncio.run(persistent.complete(PROMPT, Ask(window=200_000)))
    assert [ask.window for ask in own.asks] == [200_000]
    assert [ask.window for ask in other.asks] == [told]


def test_a_prompt_that_is_larger_than_a_stand_ins_window_goes_back_to_its_maker():
    """(FR-3, K-5) Not every server refuses what it cuts off."""
    own, other = ScriptedModel(BUSY, name="one"), Sized("mine", window=4_096, name="other")
    persistent, _, events = asked(own, other, patience=Patience(attempts=1))
    with pytest.raises(ContextOverflow) as told:
        asyncio.run(persistent.complete(LARGE, Ask(window=200_000)))
    assert (told.value.stand_in, told.value.limit) == ("other", 4_096)
    assert not other.contexts
    assert not events


@pytest.mark.parametrize(("tokens", "held"), [(8_000, True), (9_000, False)])
def test_the_larger_of_two_counts_decides_where_the_server_does_not_count(tokens, held):
    """12,000 tokens less 1,500 hold 8,000 with a margin for another tokenizer, and not 9,000."""
    other = Sized("mine", window=12_000, name="other")
    persistent, _, _ = asked(Full(tokens=tokens), other)
    answers = persistent.complete(LARGE, FINAL.model_copy(update={"max_tokens": 1_500}))
    if held:
        assert asyncio.run(answers).model == "other"
    else:
        with pytest.raises(ContextOverflow):
            asyncio.run(answers)
        assert not other.contexts


def test_the_wiring_says_which_windows_are_known():
    models = [Full(), ScriptedModel("mine", name="openai:gpt-4o")]

    async def asked() -> Reply:
        return await wiring.asked_model(models, None).complete(LARGE, FINAL)

    assert asyncio.run(asked()).model == "openai:gpt-4o"


def test_a_servers_own_window_counts_more_than_the_known_one():
    other = Sized("mine", window=4_096, name="other")
    persistent = FallbackModel([Full(), other], windows={"other": 128_000})
    with pytest.raises(ContextOverflow):
        asyncio.run(persistent.complete(LARGE, FINAL))
    assert not other.contexts


def test_a_refusal_that_nobody_makes_up_for_says_who_was_not_asked():
    """(FR-6)"""
    persistent, _, events = asked(Full(), ScriptedModel(name="two"), ScriptedModel(name="three"))
    with pytest.raises(ContextOverflow) as told:
        asyncio.run(persistent.complete(LARGE, FINAL))
    said = "too large; two, three were not asked: not known to hold the prompt and the answer"
    assert str(told.value) == said
    assert (told.value.tokens, told.value.limit) == (9_000, 8_192)
    assert not events


def test_who_refused_a_prompt_already_is_not_asked_again():
    own, other = (Sized("ok", window=32_768, name=name) for name in ("one", "two"))
    persistent, _, events = asked(own, other)
    refused = FINAL.model_copy(update={"refused_by": {"one": 9_000}})
    assert asyncio.run(persistent.complete(LARGE, refused)).is_stand_in
    assert not own.contexts
    assert "cannot be made smaller" in events[0].reason


def test_of_those_that_hold_a_prompt_the_next_one_is_asked_where_one_fails():
    """(K-5) Also a server that says one thing and does another."""
    down = Sized(ModelUnavailable("down"), window=32_768, name="down")
    lies = Sized(ContextOverflow("no", tokens=20_000), window=32_768, name="lies")
    close, large = Sized(window=24_000, name="close"), Sized(window=65_536, name="large")
    persistent, _, events = asked(Full(), down, lies, close, large, patience=Patience(attempts=1))
    assert asyncio.run(persistent.complete(LARGE, FINAL)).model == "large"
    assert not close.contexts
    assert [(event.model, event.by) for event in events] == [
        ("one", "down"),
        ("down", "lies"),
        ("lies", "large"),
    ]


def test_a_stream_of_a_prompt_that_one_refused_comes_from_one_that_holds_it():
    persistent, _, _ = asked(Full(), Sized("one two", window=32_768, name="two"))

    async def read():
        return [piece async for piece in persistent.stream(LARGE, FINAL)]

    pieces = asyncio.run(read())
    assert "".join(piece.text for piece in pieces) == "one two"
    assert pieces[-1].reply.is_stand_in


WITH_TOOLS = PROMPT.model_copy(update={"tools": ({"type": "function"},)})


class Toolless(Sized):
    """Refuses tools, and knows from then on that it calls none."""

    async def complete(self, context, ask=ASK):
        reply = await super().complete(context, ask)
        if context.tools:
            self.abilities = self.abilities.model_copy(update={"tools": False})
            raise ModelRefused("this model does not support tools", model=self.name)
        return reply


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("final", [False, True])
def test_a_stand_in_that_calls_no_tools_answers_without_them(streams, final):
    """(FR-13, K-5) It learns so from a refusal, and is asked once more; that is said once."""
    own = Full() if final else ScriptedModel(BUSY, name="one")
    other = Toolless("mine", window=32_768, name="two")
    persistent, _, events = asked(own, other, patience=Patience(attempts=1))
    ask = FINAL if final else ASK

    async def answered():
        if streams:
            return [piece async for piece in persistent.stream(WITH_TOOLS, ask)][-1].reply
        return await persistent.complete(WITH_TOOLS, ask)

    for _ in range(2):
        assert asyncio.run(answered()).message.text == "mine"
    assert [bool(context.tools) for context in own.contexts] == [True, True]
    assert [bool(context.tools) for context in other.contexts] == [True, False, False]
    assert [e.model for e in events if isinstance(e, ToolsWithdrawn)] == ["two"]


def test_a_stand_in_that_refuses_something_else_is_asked_once():
    """(K-5)"""
    other = ScriptedModel(ModelRefused("wrong key"), name="two")
    other.abilities = other.abilities.model_copy(update={"tools": False})
    persistent, _, _ = asked(ScriptedModel(BUSY), other, patience=Patience(attempts=1))
    with pytest.raises(ModelRefused, match="wrong key"):
        asyncio.run(persistent.complete(WITH_TOOLS))
    assert len(other.contexts) == 1

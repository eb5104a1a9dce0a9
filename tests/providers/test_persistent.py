"""Models that are asked again, and others in their place (FR-6, K-5)."""

import asyncio

import pytest

from compact import wiring
from compact.core.asking import ASK, Ask, Limits, Patience
from compact.core.context import ActiveContext
from compact.core.events import Event, ModelAskedAgain, ModelReplaced, ToolsWithdrawn
from compact.core.messages import Message
from compact.core.plain_words import sentence
from compact.core.replies import Delta, Reply
from compact.errors import (
    ContextOverflow,
    ModelFailed,
    ModelRefused,
    ModelUnavailable,
    WrongLayer,
)
from compact.providers.persistent import Persistent
from compact.testing import ScriptedModel

PROMPT = ActiveContext(messages=(Message(role="user", content="Are you there?"),), tokens=8)
BUSY = ModelUnavailable("busy", model="one")


class Clock:
    """Time that passes only where somebody waits."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


def asked(*models, patience=None):
    clock = Clock()
    events: list[Event] = []
    persistent = Persistent(models, patience or Patience(), emit=events.append, sleep=clock.sleep)
    return persistent, clock, events


def answer(persistent):
    return asyncio.run(persistent.complete(PROMPT))


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


class Sized(ScriptedModel):
    """Says what its window is."""

    def __init__(self, *answers, window=None, trained=None, **options):
        super().__init__(*answers, **options)
        self._limits = Limits(window=window, trained=trained)

    async def limits(self):
        return self._limits


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
        Sized("counts more", window=32_768, count=lambda context: 31_900, name="counts more"),
        Sized("mine", window=32_768, name="large"),
    ]
    persistent, clock, events = asked(Full(), *others)
    assert asyncio.run(persistent.complete(LARGE, FINAL)).model == "large"
    assert [len(other.contexts) for other in others] == [0, 0, 0, 0, 0, 1]
    assert [ask.window for ask in others[-1].asks] == [32_768]
    assert [(event.model, event.by, event.reason) for event in events] == [
        ("one", "large", "too large")
    ]
    assert sentence(events[0]) == "large is asked instead of one: too large"
    assert not clock.waits


def test_a_model_whose_server_will_not_even_count_a_prompt_does_not_hold_it():
    """(K-5) The next one is asked."""

    class Strict(Sized):
        async def count(self, context):
            raise ContextOverflow("prompt is too long")

    strict = Strict("never", window=32_768, name="strict")
    persistent, _, events = asked(Full(), strict, Sized("mine", window=32_768, name="large"))
    assert asyncio.run(persistent.complete(LARGE, FINAL)).model == "large"
    assert not strict.contexts
    assert [(event.model, event.by) for event in events] == [("one", "large")]


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
    persistent = Persistent([own, other], Patience(attempts=1), windows=windows)
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


@pytest.mark.parametrize(("said", "asked_for"), [(None, True), (4_096, False)])
def test_a_window_is_known_from_the_models_profile_unless_its_server_says_another(said, asked_for):
    other = Sized("mine", window=said, name="other")
    persistent = Persistent([Full(), other], windows={"other": 128_000})
    if asked_for:
        assert asyncio.run(persistent.complete(LARGE, FINAL)).model == "other"
    else:
        with pytest.raises(ContextOverflow):
            asyncio.run(persistent.complete(LARGE, FINAL))
    assert bool(other.contexts) is asked_for


def test_the_wiring_says_which_windows_are_known():
    models = [Full(), ScriptedModel("mine", name="openai:gpt-4o")]

    async def asked() -> Reply:
        return await wiring.asked_model(models, None).complete(LARGE, FINAL)

    assert asyncio.run(asked()).model == "openai:gpt-4o"


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

    assert asyncio.run(seconds()) < 0.6
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


class Hanging(ScriptedModel):
    """Never answers."""

    async def complete(self, context, ask=ASK):
        await asyncio.Event().wait()
        raise AssertionError

    async def stream(self, context, ask=ASK):
        yield Delta(text="I am ")
        await asyncio.Event().wait()


def test_a_model_that_hangs_is_given_up():
    persistent, _, events = asked(
        Hanging(name="one"), ScriptedModel("mine"), patience=Patience(attempts=2, each=0.01)
    )
    assert answer(persistent).message.text == "mine"
    assert "0.01 seconds" in events[0].reason


def test_behind_models_that_hang_the_next_one_has_its_turn():
    """(K-5) Each has an even share of the time, even where one answer may take more."""
    models = [Hanging(name="one"), Hanging(name="two"), ScriptedModel("mine", name="three")]
    patience = Patience(each=0.1, together=0.12, first_wait=0, longest_wait=0)
    persistent, _, events = asked(*models, patience=patience)
    assert answer(persistent).model == "three"
    replaced = [event for event in events if isinstance(event, ModelReplaced)]
    assert [(event.model, event.by) for event in replaced] == [("one", "two"), ("two", "three")]
    assert all("did not answer within 0.0" in event.reason for event in replaced)


def test_what_a_stand_in_is_asked_for_takes_of_its_own_share_only():
    """(K-5) A server that does not even say its limits keeps nobody waiting for longer."""

    class Mute(Hanging):
        async def limits(self):
            await asyncio.Event().wait()

    down = ScriptedModel(ModelUnavailable("down"), name="one")
    models = [down, Mute(name="two"), ScriptedModel("mine", name="three")]
    persistent, _, _ = asked(*models, patience=Patience(attempts=1, each=5, together=0.06))

    async def answered():
        async with asyncio.timeout(2):
            return await persistent.complete(PROMPT)

    assert asyncio.run(answered()).model == "three"


def test_whoever_waits_can_cancel():
    class Forever(Clock):
        async def sleep(self, seconds):
            await asyncio.Event().wait()

    async def cancelled():
        persistent = Persistent([ScriptedModel(BUSY)], sleep=Forever().sleep)
        task = asyncio.create_task(persistent.complete(PROMPT))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


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
        asyncio.run(persistent.complete([{"role": "user", "content": "hi"}]))
    assert not model.contexts


async def _read(persistent):
    return [piece async for piece in persistent.stream(PROMPT)]


def test_a_stream_is_begun_again_before_its_first_piece():
    persistent, clock, _ = asked(ScriptedModel(BUSY, "one two"))
    pieces = asyncio.run(_read(persistent))
    assert "".join(p.text for p in pieces) == "one two"
    assert len(clock.waits) == 1
    assert pieces[-1].reply is not None


def test_a_stream_that_hangs_in_the_middle_is_not_begun_again():
    other = ScriptedModel("mine")
    persistent, _, _ = asked(Hanging(), other, patience=Patience(each=0.01))
    with pytest.raises(ModelUnavailable):
        asyncio.run(_read(persistent))
    assert not other.contexts


def test_an_empty_stream_is_no_answer():
    """(FR-6) As an answer in one piece that says nothing is none."""
    persistent, _, events = asked(ScriptedModel("", "here", name="one"))
    pieces = asyncio.run(_read(persistent))
    assert [piece.text for piece in pieces] == ["here", ""]
    assert pieces[-1].reply.model == "one"
    assert [event.reason for event in events] == ["one answered with nothing"]


@pytest.mark.parametrize("blank", ["\n", " \n", "  "])
def test_a_stream_of_blanks_is_no_answer(blank):
    """(FR-6) As an answer in one piece that says nothing is none."""

    class Blank(ScriptedModel):
        async def stream(self, context, ask=ASK):
            reply = await self.complete(context, ask)
            for character in blank:
                yield Delta(text=character)
            yield Delta(reply=reply)

    persistent, _, events = asked(
        Blank(blank, name="one"), ScriptedModel("here"), patience=Patience(attempts=1)
    )
    pieces = asyncio.run(_read(persistent))
    assert [piece.text for piece in pieces] == ["here", ""]
    assert [event.reason for event in events] == ["one answered with nothing"]


def test_the_blanks_before_a_streams_first_word_are_part_of_it():
    class Slowly(ScriptedModel):
        async def stream(self, context, ask=ASK):
            for text in ("", "\n", " ", "one", " two"):
                yield Delta(text=text)
            yield Delta(reply=await self.complete(context, ask))

    persistent, _, _ = asked(Slowly("one two"))
    pieces = asyncio.run(_read(persistent))
    assert [piece.text for piece in pieces] == ["\n one", " two", ""]


def test_a_stream_that_ends_after_blanks_is_begun_again():
    """(FR-6)"""

    class Ends(ScriptedModel):
        async def stream(self, context, ask=ASK):
            yield Delta(text=" ")

    persistent, _, events = asked(
        Ends(name="one"), ScriptedModel("here"), patience=Patience(attempts=1)
    )
    assert asyncio.run(_read(persistent))[-1].reply.message.text == "here"
    assert [event.reason for event in events] == ["one ended its answer before it began"]


def test_an_empty_stream_is_closed_before_the_next_model_is_asked():
    """(FR-6) Nothing is held open until somebody collects garbage."""
    done = []

    class Open(ScriptedModel):
        async def stream(self, context, ask=ASK):
            try:
                async for piece in super().stream(context, ask):
                    yield piece
            finally:
                done.append("closed")

        async def complete(self, context, ask=ASK):
            done.append("asked")
            return await super().complete(context, ask)

    persistent, _, _ = asked(Open("", "here"))
    asyncio.run(_read(persistent))
    assert done == ["asked", "closed", "asked", "closed"]


class Dripping(ScriptedModel):
    """Says a word whenever it would be given up, and never ends."""

    is_closed = False

    async def stream(self, context, ask=ASK):
        try:
            while True:
                await asyncio.sleep(0.005)
                yield Delta(text="drip ")
        finally:
            await asyncio.sleep(0)
            self.is_closed = True


def test_a_stream_as_a_whole_has_the_time_of_one_answer():
    """(K-5) A word now and then does not keep a person waiting for ever; the text names who it
    was.
    """
    down = ScriptedModel(ModelUnavailable("down"), name="one")
    patience = Patience(attempts=1, each=0.05)
    persistent, _, _ = asked(down, Dripping(name="two"), patience=patience)

    async def read():
        async with asyncio.timeout(5):
            return await _read(persistent)

    with pytest.raises(ModelUnavailable, match=r"two did not answer within 0\.05 seconds"):
        asyncio.run(read())


def test_the_time_that_a_reader_takes_is_not_the_models():
    persistent, _, _ = asked(ScriptedModel("one two"), patience=Patience(each=0.02))

    async def read():
        said = ""
        async for piece in persistent.stream(PROMPT):
            said += piece.text
            await asyncio.sleep(0.03)
        return said

    assert asyncio.run(read()) == "one two"


def test_a_stream_that_is_left_at_its_first_piece_is_closed():
    model = Dripping()
    persistent, _, _ = asked(model)

    async def left():
        pieces = persistent.stream(PROMPT)
        await anext(pieces)
        await pieces.aclose()
        return model.is_closed

    assert asyncio.run(left())


def test_a_server_that_hangs_when_asked_for_its_limits_is_given_up():
    """(K-5) Nothing that a model is asked takes longer than it may."""

    class Mute(ScriptedModel):
        async def limits(self):
            await asyncio.Event().wait()

        async def count(self, context):
            await asyncio.Event().wait()

    async def both():
        persistent, _, _ = asked(Mute(), patience=Patience(each=0.01))
        async with asyncio.timeout(5):
            with pytest.raises(ModelUnavailable, match=r"0\.01 seconds"):
                await persistent.limits()
            with pytest.raises(ModelUnavailable, match=r"0\.01 seconds"):
                await persistent.count(PROMPT)

    asyncio.run(both())


def test_the_first_one_says_whether_tools_are_called_and_all_whether_schemas_are_held():
    """(FR-13) A stand-in takes no tools from the model that it stands in for."""
    one, two = ScriptedModel("a"), ScriptedModel("b")
    one.abilities = one.abilities.model_copy(update={"tools": True, "schemas": True})
    two.abilities = one.abilities.model_copy(update={"tools": False, "schemas": False})
    persistent, _, _ = asked(one, two)
    assert persistent.abilities.tools is True
    assert not persistent.abilities.schemas


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
    counted = []

    def count(context):
        counted.append(bool(context.tools))
        return context.tokens

    other = Toolless("mine", window=32_768, count=count, name="two")
    persistent, _, events = asked(own, other, patience=Patience(attempts=1))
    ask = FINAL if final else ASK

    async def answered():
        if streams:
            return [piece async for piece in persistent.stream(WITH_TOOLS, ask)][-1].reply
        return await persistent.complete(WITH_TOOLS, ask)

    for _ in range(2):
        assert asyncio.run(answered()).message.text == "mine"
    assert counted == ([True, True, False, False, False] if final else [True, False, False])
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


def test_nobody_to_ask_is_an_error():
    with pytest.raises(ValueError, match="at least one"):
        Persistent([])


def test_the_errors_of_models_are_builtins_too():
    assert issubclass(ModelUnavailable, ConnectionError)
    assert issubclass(ModelRefused, PermissionError)
    assert issubclass(ModelFailed, RuntimeError)


def test_it_closes_what_its_models_hold_open():
    """Whoever closes a session closes the connections behind it."""
    closed = []

    class Connected(ScriptedModel):
        async def aclose(self):
            closed.append(self.name)

    models = [Connected(name="one"), ScriptedModel(name="two"), Connected(name="three")]
    asyncio.run(Persistent(models).aclose())
    assert closed == ["one", "three"]


@pytest.mark.parametrize("content", [" \n", "", None, []])
def test_blanks_are_no_answer_in_a_providers_own_words_either(content):
    """(FR-6)"""
    said = {"role": "assistant", "content": content}
    assert Reply(message=said).is_empty
    assert Reply(message=Message(role="assistant", content=content or "")).is_empty
    assert not Reply(message={**said, "tool_calls": [{"id": "a"}]}).is_empty

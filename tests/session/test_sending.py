"""Sending through a session: whole and in pieces, with tools and without (FR-3, FR-6, FR-13)."""

import asyncio

import pytest

from compact import ContextManager
from compact.errors import (
    BlockingCallInLoop,
    CannotFit,
    ContextOverflow,
    ModelFailed,
    ModelRefused,
    ModelUnavailable,
    UnknownModel,
)
from compact.messages.asking import ASK, Limits, Patience
from compact.messages.events import (
    Committed,
    Event,
    ModelReplaced,
    RatioLearned,
    ToolsWithdrawn,
    WindowCapped,
)
from compact.messages.replies import Delta, Usage
from compact.models.profiles import shipped
from compact.models.providers.fallback_model import FallbackModel
from compact.telemetry.plain_words import sentence
from compact.testing import ScriptedModel
from compact.text.prompts import PromptParts

TOOL = {"type": "function", "function": {"name": "look", "description": "Look it up."}}


def session(**options):
    events: list[Event] = []
    ctx = ContextManager(window=4_096, on_event=events.append, **options)
    ctx.add_message(role="user", content="What is in the third drawer?")
    return ctx, events


def test_a_stream_is_read_piece_by_piece_and_appended_at_its_end():
    ctx, _ = session()
    pieces = ctx.stream(ScriptedModel("The ledger of 1911."))
    first = next(pieces)
    assert first.text == "The"
    assert len(ctx.history) == 1
    rest = list(pieces)
    assert first.text + "".join(p.text for p in rest) == "The ledger of 1911."
    assert ctx.history[-1].text == "The ledger of 1911."
    assert ctx.history[-1].role == "assistant"


class Broken(ScriptedModel):
    """Ends in the middle of a sentence, without saying why."""

    async def stream(self, context, ask=ASK):
        yield Delta(text="The ledger")


def test_a_stream_that_breaks_off_is_an_error_and_no_message():
    """(FR-6) Half an answer is not taken for one."""
    ctx, _ = session()
    with pytest.raises(ModelFailed, match="broke its answer off"):
        list(ctx.stream(Broken()))
    assert len(ctx.history) == 1
    assert ctx.send(ScriptedModel("Again.")).text == "Again."


def test_whoever_closes_a_stream_has_closed_the_models():
    """(FR-6) Nothing is held open until somebody collects garbage."""
    closed = []

    class Open(ScriptedModel):
        async def stream(self, context, ask=ASK):
            try:
                async for piece in super().stream(context, ask):
                    yield piece
            finally:
                await asyncio.sleep(0)
                closed.append(self.name)

    async def left():
        ctx, _ = session()
        pieces = ctx.astream(Open("one two three"))
        await anext(pieces)
        await pieces.aclose()
        return list(closed)

    assert asyncio.run(left()) == ["scripted"]


def test_usage_is_of_the_prompt_that_was_sent():
    """(C-4) Whatever prompt is taken while the answer is written."""

    class Counting(ScriptedModel):
        async def complete(self, context, ask=ASK):
            reply = await super().complete(context, ask)
            return reply.model_copy(update={"usage": Usage(prompt_tokens=context.tokens)})

    ctx, events = session(tokenizer="o200k")
    for i in range(8):
        ctx.add_message(role="user" if i % 2 else "assistant", content=f"{i}: " + "drawer " * 150)
    pieces = ctx.stream(Counting("one two"))
    next(pieces)
    ctx.compress_conversation(0.2)
    assert ctx.active_context().tokens > 200
    list(pieces)
    assert not [event for event in events if isinstance(event, RatioLearned)]


def test_a_refused_prompt_is_made_smaller_before_the_first_piece():
    """(FR-3) Also when streaming."""
    ctx, _ = session()
    for i in range(60):
        ctx.add_message(role="user" if i % 2 else "assistant", content=f"{i}: " + "drawer " * 15)
    model = ScriptedModel("ok", limit=1_000, count=lambda context: context.tokens)
    pieces = list(ctx.stream(model))
    assert pieces[-1].reply is not None
    assert [c.tokens > 1_000 for c in model.contexts] == [True, False]


def test_streaming_in_a_running_loop_names_the_async_form():
    async def inside():
        ctx, _ = session()
        with pytest.raises(BlockingCallInLoop, match="astream"):
            next(ctx.stream(ScriptedModel("ok")))
        return [piece.text async for piece in ctx.astream(ScriptedModel("all of it"))]

    assert "".join(asyncio.run(inside())) == "all of it"


class Toolless(ScriptedModel):
    """Learns from a refusal that it cannot call tools."""

    async def complete(self, context, ask=ASK):
        reply = await super().complete(context, ask)
        if context.tools:
            self.abilities = self.abilities.model_copy(update={"tools": False})
            raise ModelRefused("this model does not support tools", model=self.name)
        return reply


def test_tools_are_withdrawn_at_run_time_and_that_is_said():
    """(FR-13) Tool support may vanish; the turn is served, and the person told."""
    ctx, events = session(tools=[TOOL])
    model = Toolless("Without, then.")
    assert ctx.send(model).text == "Without, then."
    assert [bool(c.tools) for c in model.contexts] == [True, False]
    assert [type(e) for e in events if isinstance(e, ToolsWithdrawn)] == [ToolsWithdrawn]
    ctx.send(model)
    assert [bool(c.tools) for c in model.contexts] == [True, False, False]


def test_tools_of_a_stand_in_that_calls_none_are_not_taken_from_the_model_that_is_back():
    """(FR-13, K-5)"""

    class Away(ScriptedModel):
        async def complete(self, context, ask=ASK):
            if not self.contexts:
                self.contexts.append(context)
                raise ModelUnavailable("down", model=self.name)
            return await super().complete(context, ask)

    ctx, events = session(tools=[TOOL])
    own, other = Away("mine", name="own"), Toolless("for it", name="other")
    own.abilities = own.abilities.model_copy(update={"tools": True})
    asked = FallbackModel([own, other], Patience(attempts=1), emit=events.append)
    assert [ctx.send(asked).text for _ in range(2)] == ["for it", "mine"]
    assert [bool(c.tools) for c in own.contexts] == [True, True]
    assert [bool(c.tools) for c in other.contexts] == [True, False]
    assert [e.model for e in events if isinstance(e, ToolsWithdrawn)] == ["other"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"system": "Be brief."},
        {"system": "Be brief.", "prompt": PromptParts(instructions="In rhymes.")},
    ],
)
@pytest.mark.parametrize("wire", ["chat_completions", "anthropic"])
def test_tools_that_are_not_sent_take_no_room(wire, options):
    """(FR-13, FR-3) Nothing is compressed, and nobody turned away, for what does not go out."""
    large = {**TOOL, "function": {"name": "look", "description": "Look it up. " * 1_200}}
    options = {**options, "format": wire, "tokenizer": "o200k"}
    ctx, events = session(tools=[large], **options)
    for i in range(8):
        ctx.add_message(role="user" if i % 2 else "assistant", content=f"{i}: " + "drawer " * 100)
    without, _ = session(**options)
    model = ScriptedModel("ok")
    model.abilities = model.abilities.model_copy(update={"tools": False})
    assert ctx._session.state.counter.tools([large]) > 3_000
    ctx.send(model)
    (sent,) = model.contexts
    assert [m.text for m in sent.messages][-9:] == [ctx.history[i].text for i in range(9)]
    assert not sent.tools
    without.add_messages([ctx.history[i] for i in range(1, 9)])
    as_if = without.active_context()
    assert (sent.system, sent.tokens) == (as_if.system, as_if.tokens)
    assert not [event for event in events if isinstance(event, Committed)]


@pytest.mark.parametrize(
    ("own", "said", "given", "why"),
    [
        (None, None, False, "known as a model that calls none"),  # as the shipped file says
        (None, True, True, ""),
        (None, False, False, "its server says"),
        (False, True, False, "your own entry"),
        (True, False, True, ""),
    ],
)
def test_who_calls_tools_is_known_or_detected_and_a_persons_word_counts_most(own, said, given, why):
    """(FR-13) Whoever says that a model calls no tools: it gets none, and that is said once."""
    entries = [] if own is None else [{"id": "gemma2:9b", "tool_support": own}]
    models = shipped().with_entries(entries, "a test")
    ctx, events = session(tools=[TOOL], models=models)
    model = ScriptedModel("ok", name="ollama:gemma2:9b")
    model.abilities = model.abilities.model_copy(update={"tools": said})
    ctx.send(model)
    ctx.send(model)
    assert [bool(c.tools) for c in model.contexts] == [given, given]
    told = [e.reason for e in events if isinstance(e, ToolsWithdrawn)]
    assert len(told) == (not given)
    assert all(why in each for each in told)


class Small(ScriptedModel):
    """Says what its window is, and cuts off in silence what is larger."""

    asked = 0

    async def limits(self):
        self.asked += 1
        return Limits(window=2_048, trained=8_192)


def test_a_smaller_window_is_learned_before_anything_is_sent():
    """(FR-14) Not every server refuses what is too large."""
    ctx, events = session()
    for i in range(120):
        ctx.add_message(role="user" if i % 2 else "assistant", content=f"{i}: " + "drawer " * 15)
    model = Small("ok")
    ctx.send(model)
    ctx.send(model)
    assert all(context.tokens <= 2_048 for context in model.contexts)
    assert model.asked == 1
    assert [(e.asked, e.size) for e in events if isinstance(e, WindowCapped)] == [(4_096, 2_048)]


@pytest.mark.parametrize("streams", [False, True])
def test_how_a_stand_in_counts_says_nothing_of_the_sessions_tokenizer(streams):
    """(K-5, C-4) Its usage is by a tokenizer of its own."""

    class Counting(ScriptedModel):
        async def complete(self, context, ask=ASK):
            reply = await super().complete(context, ask)
            return reply.model_copy(update={"usage": Usage(prompt_tokens=context.tokens * 2)})

    def learned(*models):
        ctx, events = session(tokenizer="o200k")
        ctx.add_message(role="user", content="drawer " * 400)
        asked = FallbackModel(models, Patience(attempts=1))
        list(ctx.stream(asked)) if streams else ctx.send(asked)
        return [event for event in events if isinstance(event, RatioLearned)]

    down = ScriptedModel(ModelUnavailable("down"), name="own")
    assert not learned(down, Counting("for it", name="other"))
    assert learned(Counting("mine", name="own"))


def test_the_smaller_window_of_a_stand_in_is_not_the_sessions():
    """(K-5) The turn is served within it; the model that is back has its own again."""

    class Away(ScriptedModel):
        times = 0

        async def complete(self, context, ask=ASK):
            self.times += 1
            if self.times <= 2:
                raise ModelUnavailable("down", model=self.name)
            return await super().complete(context, ask)

    own = Away("back again", name="own")
    other = ScriptedModel("for it", limit=700, count=lambda context: context.tokens, name="other")
    asked = FallbackModel([own, other], Patience(attempts=1))
    ctx, _ = session()
    for i in range(80):
        ctx.add_message(role="user" if i % 2 else "assistant", content=f"{i}: " + "drawer " * 30)
    before = ctx.window
    assert ctx.send(asked).text == "for it"
    assert other.contexts[-1].tokens <= 700
    assert other.asks[-1].window == 700
    assert ctx.window == before
    assert ctx.send(asked).text == "back again"
    assert own.asks[-1].window == 4_096


class Large(ScriptedModel):
    """Says that its window is large."""

    async def limits(self):
        return Limits(window=32_768)


@pytest.mark.parametrize("streams", [False, True])
def test_after_a_refusal_the_session_acts_first_and_only_then_a_larger_model(streams):
    """(FR-3, K-5) It learns, compresses, asks the same model once more; a fallback comes last."""
    ctx, events = session(tokenizer="o200k")
    for i in range(80):
        ctx.add_message(role="user" if i % 2 else "assistant", content=f"{i}: " + "drawer " * 30)
    refused = ContextOverflow("own: too large", tokens=3_400, limit=3_000)
    own, other = ScriptedModel(refused, name="own"), Large("for it", name="other")
    small = ScriptedModel("never", name="small")
    asked = FallbackModel([own, small, other], Patience(attempts=1), emit=events.append)
    before = len(ctx.history)
    list(ctx.stream(asked)) if streams else ctx.send(asked)
    assert ctx.history[-1].text == "for it"
    assert len(ctx.history) == before + 1
    assert [ask.refused_by for ask in own.asks] == [None, {}]
    assert own.contexts[1].tokens < own.contexts[0].tokens
    assert other.contexts == own.contexts[1:], "it is asked for the prompt that was made smaller"
    assert not small.contexts
    told = [sentence(event) for event in events if isinstance(event, ModelReplaced)]
    assert told == ["other is asked instead of own: own: too large"]
    assert ctx.window.size == 3_000, "the session's own model has not grown"


def test_a_prompt_that_cannot_be_made_smaller_is_answered_by_a_model_that_holds_it():
    """(FR-3, K-5) The model that refused it is not sent it again."""
    ctx, events = session(tokenizer="o200k")
    ctx.add_message(role="user", content="drawer " * 2_500)
    refused = ContextOverflow("own: too large", tokens=2_600, limit=1_000)
    own, other = ScriptedModel(refused, name="own"), Large("for it", name="other")
    asked = FallbackModel([own, other], Patience(attempts=1), emit=events.append)
    assert ctx.send(asked).text == "for it"
    assert other.contexts == own.contexts
    assert len(own.contexts) == 1
    assert [(e.model, e.by) for e in events if isinstance(e, ModelReplaced)] == [("own", "other")]


def test_turn_after_turn_is_answered_by_the_model_that_holds_it():
    """(FR-3, K-5) The window of the model that refused is not that of who answers; nor is the
    session stuck where that one was down for a turn.
    """
    ctx, _ = session(tokenizer="o200k", system="rule " * 2_500)
    own = ScriptedModel(ContextOverflow("no", tokens=2_600, limit=1_000), name="own")
    other = Large("one", ModelUnavailable("down"), "two", name="other")
    asked = FallbackModel([own, other], Patience(attempts=1))
    assert ctx.send(asked).text == "one"
    ctx.add_message(role="user", content="And now?")
    with pytest.raises(ModelUnavailable):
        ctx.send(asked)
    assert "".join(piece.text for piece in ctx.stream(asked)) == "two"
    assert ctx.window.size == 4_096
    assert len(own.contexts) == 3


def test_a_prompt_that_nobody_holds_is_told_by_its_parts():
    """(FR-3) As it is where there are no other models."""
    for others in ([], [ScriptedModel("never", name="unknown")]):
        ctx, _ = session(tokenizer="o200k")
        ctx.add_message(role="user", content="drawer " * 2_500)
        own = ScriptedModel(ContextOverflow("no", tokens=2_600, limit=1_000), name="own")
        with pytest.raises(CannotFit):
            ctx.send(FallbackModel([own, *others], Patience(attempts=1)))
        assert len(own.contexts) == 1
        assert not any(other.contexts for other in others)
        assert len(ctx.history) == 2


def test_a_server_that_is_still_loading_is_asked_for_its_limits_again():
    class Loading(Small):
        async def limits(self):
            if not self.asked:
                self.asked += 1
                raise ModelUnavailable("still loading", model=self.name)
            return await super().limits()

    ctx, _ = session()
    model = Loading("ok")
    for _ in range(3):
        ctx.send(model)
    assert [ask.window for ask in model.asks] == [4_096, 2_048, 2_048]
    assert model.asked == 2


def test_a_session_without_a_model_of_its_own_says_how_to_give_one():
    ctx, _ = session()
    with pytest.raises(UnknownModel, match="model="):
        ctx.send()

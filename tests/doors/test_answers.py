"""How an answer is wanted, and what is done where a provider refuses a prompt twice."""

from typing import Any

import pytest

from compact import ContextManager
from compact.errors import ContextOverflow, InvalidArgument, ModelFailed
from compact.protocols import Abilities, Limits
from compact.testing import ScriptedModel
from tests.doors.talking import QUICK, Listener, session, turns
from tests.scripted import Overflow, ScriptedServer

SPOKEN = {
    "openai": "{url}/v1#scripted",
    "responses": "responses+{url}/v1#scripted",
    "anthropic": "anthropic+{url}#scripted",
    "ollama": "ollama+{url}#scripted",
}
STOPS = {"openai": "stop", "anthropic": "stop_sequences", "ollama": "stop"}
LENGTHS = {
    "openai": "max_tokens",
    "responses": "max_output_tokens",
    "anthropic": "max_tokens",
    "ollama": "num_predict",
}


@pytest.mark.parametrize("streamed", [False, True], ids=["send", "stream"])
@pytest.mark.parametrize("face", SPOKEN)
def test_what_is_wanted_of_an_answer_is_sent(face, streamed):
    """FR-3: `send(max_tokens=…, temperature=…, stop=…, **provider options)`."""
    wanted: dict[str, Any] = {"max_tokens": 77, "temperature": 0.3, "top_p": 0.8}
    if face in STOPS:
        wanted["stop"] = ["END"]
    with ScriptedServer("Of course.") as server:
        ctx = session(model=SPOKEN[face].format(url=server.url), summarizer="extractive")
        ctx.add_message(role="user", content="Is this heard?")
        if streamed:
            assert list(ctx.stream(**wanted))[-1].reply
        else:
            assert ctx.send(**wanted).text == "Of course."
        body = server.prompts[0].body
    sent = body["options"] if face == "ollama" else body
    assert (sent[LENGTHS[face]], sent["temperature"], sent["top_p"]) == (77, 0.3, 0.8)
    if face in STOPS:
        assert sent[STOPS[face]] == ["END"]


WRONG: list[dict[str, Any]] = [
    {"max_tokens": 0},
    {"temperature": -1.0},
    {"stop": [""]},
    {"messages": []},
    {"tools": []},
    {"max_completion_tokens": 5},
    {"top_p": object()},
]


@pytest.mark.parametrize("wrong", WRONG, ids=[next(iter(each)) for each in WRONG])
def test_what_cannot_be_wanted_is_refused_by_its_name(wrong):
    """FR-3: what would pass by the budget, and what is no value."""
    ctx, model = session(), ScriptedModel("ok")
    ctx.add_message(role="user", content="Is this heard?")
    with pytest.raises(InvalidArgument) as refused:
        ctx.send(model, **wrong)
    assert refused.value.name == next(iter(wrong))
    with pytest.raises(InvalidArgument):
        list(ctx.stream(model, **wrong))
    assert not model.contexts


@pytest.mark.parametrize("wanted", [None, 100_000])
def test_an_answer_never_gets_all_that_is_left(wanted):
    """FR-3: the counts may differ, and the conversation goes on."""
    model = ScriptedModel("ok")
    ctx = session(model=model, window=2_048, summarizer="extractive")
    for turn in turns(30, words=60):
        ctx.add_message(**turn)
        if turn["role"] == "user":
            ctx.send(max_tokens=wanted)
    for context, ask in zip(model.contexts, model.asks, strict=True):
        assert 0 < (ask.max_tokens or 0) < 0.8 * (2_048 - context.tokens)


def test_a_second_refusal_starts_the_emergency_ladder():
    """FR-10, FR-3: with a snapshot and an event before each rung, and a third, smaller prompt."""
    heard, refused = Listener(), ContextOverflow("too large")
    model = ScriptedModel(refused, refused, "Served.")
    ctx = session(on_event=heard.append)
    ctx.add_messages(list(turns(20)))
    ctx.add_message(role="user", content="And now?")
    assert ctx.send(model).text == "Served."
    first, second, third = (context.tokens for context in model.contexts)
    assert first > second > third
    rungs = heard.named("compact.emergency")
    assert rungs
    assert {rung.snapshot_id for rung in rungs} <= {each.id for each in ctx.time.snapshots()}
    assert len(ctx.history) == 42


def test_a_third_refusal_is_the_callers():
    """FR-3: it is not argued for ever."""
    model = ScriptedModel(ContextOverflow("too large"))
    ctx = session()
    ctx.add_messages(list(turns(20)))
    with pytest.raises(ContextOverflow):
        ctx.send(model)
    assert len(model.contexts) == 3


@pytest.mark.parametrize("vendor", ["openai", "anthropic", "llama.cpp"])
def test_servers_that_refuse_twice_are_served(vendor):
    """FR-10: by the words of their own refusals."""
    with ScriptedServer(Overflow(vendor), Overflow(vendor), "It is done.") as server:
        key = f"{server.url}/v1#scripted"
        ctx = session(model=key, window=8_192, patience=QUICK, summarizer="extractive")
        ctx.add_messages(list(turns(28)))
        ctx.add_message(role="user", content="And now?")
        assert ctx.send().text == "It is done."
        sizes = [prompt.tokens for prompt in server.prompts]
    assert sizes == sorted(set(sizes), reverse=True)


def test_reported_twice_is_refused_twice():
    """FR-3: for applications that send themselves."""
    heard = Listener()
    ctx = session(on_event=heard.append)
    ctx.add_messages(list(turns(20)))
    ctx.get_context_for_model()
    error = "context_length_exceeded: the input exceeds the context window of this model"
    before = ctx.report_overflow(error).tokens_after
    ctx.get_context_for_model()
    assert not heard.named("compact.emergency")
    assert ctx.report_overflow(error).tokens_after < before
    assert heard.named("compact.emergency")


class Odd:
    """A model of somebody's own that keeps no promise."""

    name, abilities = "odd", Abilities()

    async def complete(self, context: Any, ask: Any = None) -> Any:
        return {"role": "assistant", "content": "Yes."}

    async def stream(self, context: Any, ask: Any = None) -> Any:
        yield 5

    async def count(self, context: Any) -> None:
        return None

    async def limits(self) -> Limits:
        return Limits()

    async def aclose(self) -> None: ...


def test_a_model_that_answers_with_something_else_is_told_so() -> None:
    """An AttributeError came through."""
    with ContextManager(window=8_192, summarizer="extractive") as ctx:
        ctx.add_message(role="user", content="Is it dry?")
        with pytest.raises(ModelFailed, match=r"odd gave .*, not a Reply"):
            ctx.send(Odd())
        with pytest.raises(ModelFailed, match=r"odd gave .*, not a Delta"):
            list(ctx.stream(Odd()))

"""Runs of the OpenAI Agents SDK with scripted models: every call fits and is valid (K-9)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from agents import (
    Agent,
    ModelProvider,
    ModelSettings,
    RunConfig,
    Runner,
    SessionSettings,
    SQLiteSession,
    handoff,
    set_trace_processors,
    trace,
)
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseReasoningItem
from openai.types.responses.response_reasoning_item import Summary
from pydantic import BaseModel

from compact import CannotFit, CompactConfig, CompactManager, InvalidArgument
from compact.errors import ServerHeldState, UnknownModel
from compact.integrations.openai_agents import (
    SPAN,
    CompactSession,
    before_model_call,
    mark_protected,
    run_config,
)
from compact.messages.events import ErrorRaised, Event
from tests.integrations.scripts import (
    CONFIG,
    RULE,
    Spans,
    check,
    keeper,
    lamp,
    model,
    said,
    talk,
)
from tests.sizes import at_night

CALLS = 300
DONE = [assistant_message("All lamps are lit.")]
START: list[Any] = [mark_protected(RULE), {"role": "user", "content": "Look at every lamp."}]


def in_turn(count: int) -> ScriptedModel:
    """One lamp after the other, now and then three at once."""
    steps: list[Any] = []
    number = 0
    while number < count:
        many = 3 if number % 20 == 7 else 1
        steps.append([lamp(i) for i in range(number, number + many)])
        number += many
    return model(*steps, DONE)


def run(agent: Agent[Any], given: Any, **options: Any) -> Any:
    return asyncio.run(Runner.run(agent, given, max_turns=2 * CALLS, **options))


@pytest.mark.parametrize("count", [60, pytest.param(CALLS, marks=at_night)])
def test_a_loop_of_calls_fits(count: int) -> None:
    """K-9: zero over-limit calls, zero invalid ones; what is protected is always there. The items
    of the run stay whole in its session, stored once."""
    scripted, seen = in_turn(count), list[Event]()
    with CompactManager(CONFIG, on_event=seen.append) as manager:
        session = CompactSession("s", manager)
        result = run(keeper(scripted), START, session=session, run_config=run_config(manager, "s"))
        assert result.final_output == "All lamps are lit."
        check(scripted.calls, RULE, "Look at every lamp.")
        items: Any = asyncio.run(session.get_items())
        outputs = [item for item in items if item.get("type") == "function_call_output"]
        assert len(outputs) >= count
        ctx = manager.session("s")
        assert (len(ctx.history), len(ctx.time.branches())) == (len(items), 1)
        assert ctx.compressions > count // 10
    assert not [event for event in seen if isinstance(event, ErrorRaised)]


def test_another_session_keeps_what_the_call_leaves_out() -> None:
    """The filter changes the call alone."""
    scripted = in_turn(60)
    session = SQLiteSession("s")
    with CompactManager(CONFIG) as manager:
        run(keeper(scripted), START, session=session, run_config=run_config(manager, "s"))
        check(scripted.calls, RULE)
        items: Any = asyncio.run(session.get_items())
    outputs = [str(i["output"]) for i in items if i.get("type") == "function_call_output"]
    assert len(outputs) >= 60
    assert all(text.startswith("Lamp") for text in outputs)


@pytest.mark.parametrize("streamed", [False, True])
def test_turns_go_on_across_runs_and_restarts(streamed: bool, tmp_path: Any) -> None:
    """Each run begins with the session's items; another process goes on from them."""
    store = str(tmp_path / "harbour.db")

    async def turn(number: int) -> None:
        scripted = model([lamp(number)], [assistant_message(f"Lamp {number} is lit.")])
        with CompactManager(CONFIG, store=store) as manager:
            session = CompactSession("s", manager)
            given: Any = f"Turn {number}?" if number else START
            asked: dict[str, Any] = {"session": session, "run_config": run_config(manager, "s")}
            if streamed:
                result: Any = Runner.run_streamed(keeper(scripted), given, **asked)
                kinds = [event.type async for event in result.stream_events()]
                assert "raw_response_event" in kinds
            else:
                result = await Runner.run(keeper(scripted), given, **asked)
            assert result.final_output == f"Lamp {number} is lit."
            check(scripted.calls, RULE)
            assert len(await session.get_items()) == 4 * (number + 1) + 1
            assert len(manager.session("s").time.branches()) == 1

    async def turns() -> None:
        for number in range(12):
            await turn(number)

    asyncio.run(turns())


def test_handoffs() -> None:
    """The other agent gets the same conversation, with its own instructions."""
    second = model([lamp(1)], [assistant_message("I have it.")])
    other = keeper(second, name="pilot", instructions="You are the pilot.")
    first = model([function_call("transfer_to_pilot", {}, call_id="t1")])
    with CompactManager(CONFIG) as manager:
        given = [*START, *talk(0, 60), {"role": "user", "content": "To the pilot, please."}]
        agent = keeper(first, handoffs=[other])
        result = run(agent, given, run_config=run_config(manager, "s", tracing_disabled=True))
        assert result.last_agent is other
        check(first.calls, RULE, "To the pilot, please.")
        check(second.calls, RULE, "To the pilot, please.")
        assert {call.system_instructions for call in second.calls} == {"You are the pilot."}
        assert len(manager.session("s").time.branches()) == 1


def test_a_handoff_is_counted_as_a_tool() -> None:
    other = keeper(model(), name="pilot")
    scripted = model(DONE)
    with CompactManager(CONFIG) as manager:
        agent = keeper(scripted, handoffs=[other, handoff(keeper(model(), name="mate"))])
        run(agent, "Hello.", run_config=run_config(manager, "s"))
        names = [tool["name"] for tool in manager.session("s").active_context().tools]
        expected = ["inspect_lamp", "note", "transfer_to_pilot", "transfer_to_mate"]
        assert names == expected


def test_an_agent_as_a_tool_has_a_conversation_of_its_own() -> None:
    """The SDK hands the run's settings on: the session keeps both lists, each once."""
    inner = ScriptedModel([step for i in range(30) for step in ([lamp(i)], DONE)])
    helper = keeper(inner, name="helper", instructions="You help.")
    tool = helper.as_tool("ask_helper", "Ask the helper.")
    calls = [
        [function_call("ask_helper", {"input": f"Lamp {i}?"}, call_id=f"ask_{i}")]
        for i in range(30)
    ]
    outer = model(*calls, DONE)
    seen: list[Event] = []
    with CompactManager(CONFIG, on_event=seen.append) as manager:
        agent = keeper(outer, tools=[tool])
        run(agent, START, run_config=run_config(manager, "s"))
        check(outer.calls, RULE)
        check(inner.calls)
        for number, call in enumerate(inner.calls):
            assert f"Lamp {number // 2}?" in str(said(call))
            assert RULE not in str(said(call))
        stored = sum(b.messages - b.fork for b in manager.session("s").time.branches())
        assert stored == 2 + 2 * 30 + 30 * 3
    assert not [event for event in seen if isinstance(event, ErrorRaised)]


def test_a_handoff_that_nests_the_history() -> None:
    """The SDK tells the other agent what came before in words of its own: another list."""
    second = model(*[[lamp(i)] for i in range(40, 60)], DONE)
    other = keeper(second, name="pilot", instructions="You are the pilot.")
    first = model(
        *[[lamp(i)] for i in range(20)], [function_call("transfer_to_pilot", {}, call_id="t1")]
    )
    with CompactManager(CONFIG) as manager:
        session = CompactSession("s", manager)
        agent = keeper(first, handoffs=[other])
        config = run_config(manager, "s", nest_handoff_history=True)
        run(agent, "Look at every lamp.", session=session, run_config=config)
        check(first.calls, "Look at every lamp.")
        check(second.calls)
        items: Any = asyncio.run(session.get_items())
        assert sum(item.get("type") == "function_call_output" for item in items) == 41


def test_a_session_that_hands_out_its_newest_items_alone() -> None:
    """The list of each run begins later than the one before."""
    with CompactManager(CONFIG) as manager:
        session = CompactSession("s", manager)
        for number in range(30):
            scripted = model([lamp(number)], [assistant_message(f"Lamp {number} is lit.")])
            config = run_config(manager, "s", session_settings=SessionSettings(limit=10))
            run(keeper(scripted), f"Turn {number}?", session=session, run_config=config)
            check(scripted.calls, f"Turn {number}?")
        items: Any = asyncio.run(session.get_items())
        assert len(items) == 120
        assert len(manager.session("s").time.branches()) == 1


def test_reasoning_stays_with_what_follows_it() -> None:
    def reasoned(number: int) -> list[Any]:
        summary = [Summary(type="summary_text", text=f"I should look at lamp {number}.")]
        thought = ResponseReasoningItem(
            id=f"rs_{number}", type="reasoning", summary=summary, encrypted_content="c2VhbA" * 20
        )
        return [thought, lamp(number)]

    scripted = model(*[reasoned(i) for i in range(60)], DONE)
    with CompactManager(CONFIG) as manager:
        session = CompactSession("s", manager)
        run(keeper(scripted), START, session=session, run_config=run_config(manager, "s"))
        check(scripted.calls, RULE)
        kinds = [item.get("type") for item in asyncio.run(session.get_items())]
        assert kinds.count("reasoning") == 60
    shown = [item for item in said(scripted.calls[-1]) if item.get("type") == "reasoning"]
    assert all(item["encrypted_content"] for item in shown)


class Report(BaseModel):
    """How the harbour is."""

    lamps: int
    is_safe: bool


def test_structured_output() -> None:
    """The result is the agent's type, and its schema is counted."""
    text = json.dumps({"lamps": 40, "is_safe": True})
    scripted = model(*[[lamp(i)] for i in range(40)], [assistant_message(text)])
    with CompactManager(CONFIG) as manager:
        agent = keeper(scripted, output_type=Report)
        result = run(agent, START, run_config=run_config(manager, "s"))
        assert result.final_output == Report(lamps=40, is_safe=True)
        check(scripted.calls, RULE)
        tools = manager.session("s").active_context().tools
        assert "is_safe" in str([tool for tool in tools if tool["name"] == "Report"])


def test_what_cannot_fit_is_refused_before_it_is_sent() -> None:
    scripted = model(DONE)
    agent = keeper(scripted, instructions="Mind the tide. " * 2_000)
    with CompactManager(CONFIG) as manager, pytest.raises(CannotFit, match="system prompt"):
        run(agent, "Hello.", run_config=run_config(manager, "s"))
    assert not scripted.calls


# --- which conversation, which window -------------------------------------------------------------


@dataclass
class Person:
    session_id: str


def test_the_conversation_is_named_by_argument_context_or_trace() -> None:
    with CompactManager(CONFIG) as manager:

        def used(**options: Any) -> list[str]:
            run(keeper(model(DONE)), "Hello.", **options)
            return [session.id for session in manager.store.sessions()]

        nameless = run_config(manager)
        assert used(run_config=run_config(manager, "argument"), context=Person("x")) == ["argument"]
        assert "context" in used(run_config=nameless, context=Person("context"))
        assert "mapping" in used(run_config=nameless, context={"session_id": "mapping"})
        assert "group" in used(run_config=run_config(manager, group_id="group"))
        with trace("outer", group_id="outer group"):
            assert "outer group" in used(run_config=nameless)
        with pytest.raises(InvalidArgument, match="nothing names the conversation"):
            used(run_config=nameless)


def test_each_agent_has_its_models_window() -> None:
    """C-9: without a window in the settings."""
    given = [*talk(0, 200), {"role": "user", "content": "And then?"}]
    with CompactManager() as manager:
        for name, window in (("gpt-4o", 128_000), ("gpt-4", 8_192)):
            scripted = model(DONE)
            scripted.model = name  # type: ignore[attr-defined]
            run(keeper(scripted), given, run_config=run_config(manager, "s"))
            check(scripted.calls, "And then?", window=window)
            assert (len(said(scripted.calls[0])) == len(given)) == (window > 8_192)
        with pytest.raises(UnknownModel, match="max_context_tokens"):
            run(keeper(model(DONE)), given, run_config=run_config(manager, "s"))
        with pytest.raises(UnknownModel, match="ScriptedModel"):
            run(keeper(None), given, run_config=run_config(manager, "s", model=model(DONE)))
    with CompactManager(CompactConfig(model="gpt-4")) as manager:
        scripted = model(DONE)
        run(keeper(scripted), given, run_config=run_config(manager, "s"))
        check(scripted.calls, "And then?", window=8_192)


# --- a conversation that the server keeps ---------------------------------------------------------


class One(ModelProvider):
    """Has one model by every name."""

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model

    def get_model(self, model_name: str | None) -> ScriptedModel:
        return self._model


@pytest.mark.parametrize(
    "held", [{"previous_response_id": "resp_1"}, {"conversation_id": "conv_1"}]
)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_conversation_on_the_server_is_refused(held: dict[str, Any], streamed: bool) -> None:
    """FR-3: with an explanation, before anything is sent."""

    async def asked(**settings: Any) -> None:
        agent = keeper("gpt-5")
        options: Any = {"run_config": run_config(manager, "s", **settings), **held}
        if not streamed:
            await Runner.run(agent, "Hello.", **options)
            return
        async for _ in Runner.run_streamed(agent, "Hello.", **options).stream_events():
            pass

    for settings in ({"model_provider": One(one := model(DONE))}, {"model": (two := model(DONE))}):
        with (
            CompactManager(CONFIG) as manager,
            pytest.raises(ServerHeldState, match="nobody counted"),
        ):
            asyncio.run(asked(**settings))
    assert not one.calls
    assert not two.calls


def test_the_filter_alone_sees_a_chain_of_responses_by_its_loose_ends() -> None:
    scripted = model([lamp(1)], DONE)
    with CompactManager(CONFIG) as manager:
        config = RunConfig(call_model_input_filter=before_model_call(manager, "s"))
        with pytest.raises(ServerHeldState, match="auto_previous_response_id"):
            run(keeper(scripted), "Hello.", run_config=config, auto_previous_response_id=True)
        body = ModelSettings(extra_body={"conversation": "conv_1"})
        with pytest.raises(ServerHeldState, match="conversation"):
            run(keeper(model(DONE), model_settings=body), "Hello.", run_config=config)
        reference: Any = [{"type": "item_reference", "id": "msg_1"}]
        with pytest.raises(ServerHeldState, match="reference"):
            run(keeper(model(DONE)), reference, run_config=config)


def test_models_behave_as_before() -> None:
    """The model that refuses is the other one in everything else."""

    class Closing(ScriptedModel):
        is_closed = False

        async def close(self) -> None:
            self.is_closed = True

    inner = Closing([DONE])
    with CompactManager(CONFIG) as manager:
        config = run_config(manager, "s", model=inner)
        outer: Any = config.model
        assert outer.remaining_steps == 1
        assert run(keeper(None), "Hello.", run_config=config).final_output
        asyncio.run(outer.close())
        assert inner.is_closed
        asyncio.run(config.model_provider.aclose())


# --- the trace ------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_content", [False, True])
def test_compressions_are_spans_of_the_trace(has_content: bool) -> None:
    """With counts, inside the run's own trace; what was said only where it is asked for."""
    spans = Spans()
    set_trace_processors([spans])
    scripted = in_turn(60)
    with CompactManager(CONFIG) as manager:
        config = run_config(manager, "s", trace_content=has_content, workflow_name="Lamps")
        run(keeper(scripted), START, run_config=config)
        made = manager.session("s").compressions
    own = [span for span in spans.ended if getattr(span.span_data, "name", "") == SPAN]
    others = {span.trace_id for span in spans.ended if span not in own}
    ids = {span.span_id for span in spans.ended}
    assert len(own) == made > 0
    assert {span.trace_id for span in own} == others
    for span in own:
        data = span.span_data.data
        assert span.parent_id in ids
        assert data["session_id"] == "s"
        assert data["tokens_before"] is None or data["tokens_before"] > data["tokens_after"]
        assert ("output" in data) == has_content
        assert span.started_at <= span.ended_at
    if not has_content:
        words = json.dumps([span.export() for span in own])
        assert not any(word in words for word in ("Lamp", "lamp", RULE))


# --- small things ---------------------------------------------------------------------------------


def test_what_is_protected_is_marked_in_a_copy() -> None:
    assert mark_protected(RULE) == {
        "role": "developer",
        "content": RULE,
        "metadata": {"protected": True},
    }
    item = {"role": "user", "content": RULE, "metadata": {"tags": ["lamp"]}}
    assert mark_protected(item)["metadata"] == {"tags": ["lamp"], "protected": True}
    assert item["metadata"] == {"tags": ["lamp"]}


def test_a_protected_output_stays() -> None:
    """Any item can be marked, not messages alone."""
    call = {"type": "function_call", "call_id": "c", "name": "inspect_lamp", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "Lamp 7 is broken. " * 20}
    given: list[Any] = [*talk(0, 1), call, mark_protected(output), *talk(1, 90)]
    scripted = model(DONE)
    with CompactManager(CONFIG) as manager:
        run(keeper(scripted), given, run_config=run_config(manager, "s"))
        check(scripted.calls, output["output"])
        assert manager.session("s").compressions == 1


def test_one_filter_only() -> None:
    with CompactManager(CONFIG) as manager, pytest.raises(InvalidArgument, match="sets this"):
        run_config(manager, "s", call_model_input_filter=before_model_call(manager))


def test_the_extra_is_named_where_the_sdk_is_missing() -> None:
    code = "import sys; sys.modules['agents'] = None\nimport compact.integrations.openai_agents"
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=False)
    assert "needs the OpenAI Agents SDK" in done.stderr
    assert ".[agents]" in done.stderr

"""N-1 as it is written: reasoning is counted where it is sent, and sent where it is wanted."""

import json
import random

import pytest

from compact import compress, plan
from tests import checker
from tests.doors.talking import session, size_of
from tests.scripted import Call, Failed, Said, ScriptedServer

WORDS = ("gull", "mast", "tar", "net", "rope", "oar", "keel", "sail", "deck", "hull", "brine")
FIELDS = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
TOOL = {"type": "function", "function": {"name": "sound", "description": "", "parameters": {}}}


def said(count, seed):
    chance = random.Random(seed)
    return " ".join(chance.choice(WORDS) for _ in range(count)) + "."


def thought(field, seed):
    text = f"Depth comes first. {said(240, seed)}"
    if field != "reasoning_details":
        return {field: text}
    return {field: [{"type": "reasoning.text", "text": text, "format": None, "index": 0}]}


def watches(count, field):
    """A list in which each answer was thought about twice: before its call and after."""
    for i in range(count):
        call = {"name": "sound", "arguments": json.dumps({"at": i})}
        made = [{"id": f"call_{i}", "type": "function", "function": call}]
        yield {"role": "user", "content": f"Watch {i}: {said(20, i)}"}
        yield {"role": "assistant", "content": None, "tool_calls": made, **thought(field, f"a{i}")}
        yield {"role": "tool", "tool_call_id": f"call_{i}", "content": said(80, f"b{i}")}
        yield {"role": "assistant", "content": said(30, f"c{i}"), **thought(field, f"d{i}")}


def tokens_of(messages):
    """Tokens of a prompt by a count of our own; a call and its result are framed by 13."""
    return size_of(messages) + 13 * sum(len(m.get("tool_calls") or ()) for m in messages)


def thoughts_in(messages):
    return [m for m in messages if any(m.get(field) for field in FIELDS)]


@pytest.mark.parametrize("field", FIELDS)
def test_a_list_is_counted_with_the_reasoning_that_comes_back(field):
    """N-1: "reasoning is counted where it is sent"."""
    messages = list(watches(10, field))
    total = plan(messages, max_tokens=10**6, format="chat_completions").tokens_before or 0
    assert total == pytest.approx(tokens_of(messages), rel=0.03)
    for share in (0.2, 0.4, 0.6, 0.8):
        most = int(total * share)
        fitted = compress(messages, max_tokens=most, format="chat_completions")
        assert size_of(fitted) <= most * 1.01
        assert not checker.broken_rules(fitted, "chat_completions")
        after = plan(fitted, max_tokens=10**6, format="chat_completions").tokens_before or 0
        assert after == pytest.approx(tokens_of(fitted), rel=0.03)
    assert compress(messages, max_tokens=total, format="chat_completions") == messages


ROWS = {"deepseek-reasoner": "calls", "kimi-k2-thinking": "calls", "qwen3-max": "turn"}
"""Models, and which of their answers they are sent the reasoning of again."""


def strict(model, field, *, steps, every):
    """A server that thinks before each of its steps and refuses a prompt without what it thought
    in the running turn, and where it wants that, at all calls; every few steps it answers.
    """
    made = []

    def script(request):
        messages = request.messages
        newest = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=0)
        for i, message in enumerate(messages):
            wanted = i > newest or ROWS.get(model) == "calls"
            if wanted and message.get("tool_calls") and not message.get(field):
                return Failed(400, f"{field} is missing in the tool call message at index {i}")
        made.append(1)
        step = len(made)
        if step % every == 0 or step == steps:
            return Said(f"Done at {step}.", thoughts=thought(field, step))
        call = Call("sound", {"at": step})
        return Said("", (call,), "tool_calls", thoughts=thought(field, step))

    return script


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "field", "streamed"),
    [
        ("deepseek-reasoner", "reasoning_content", False),
        ("kimi-k2-thinking", "reasoning_content", True),
        ("qwen3-max", "reasoning_details", True),
    ],
)
def test_a_tool_loop_of_sixty_steps_is_served(model, field, streamed):
    """N-1: a server that wants its reasoning back gets it, and what is counted is what is sent."""
    script = strict(model, field, steps=60, every=25)
    count = lambda body: tokens_of(body["messages"])  # noqa: E731
    with ScriptedServer(script, count=count, model=model) as server:
        key = f"{server.url}/v1#{model}"
        ctx = session(model=key, window=16_384, tools=[TOOL], summarizer="extractive")
        ctx.add_message(role="user", content="Sound the harbour.")
        counted = []
        for step in range(60):
            counted.append(ctx.active_context().tokens)
            reply = list(ctx.stream())[-1].reply.message if streamed else ctx.send()
            assert any(part.type == "thinking" for part in reply.parts)
            for call in reply.tool_calls:
                ctx.add_message(role="tool", tool_call_id=call.id, content=said(60, step))
            if not reply.tool_calls and step < 59:
                ctx.add_message(role="user", content=f"Sound on from {step}.")
        assert len(server.prompts) == 60
        sent = [request.tokens for request in server.prompts]
        assert sum(counted) == pytest.approx(sum(sent), rel=0.03)
        assert counted[-1] == pytest.approx(sent[-1], rel=0.03)
        last = server.prompts[-1].messages
        newest = max(i for i, m in enumerate(last) if m["role"] == "user")
        older = [m for m in thoughts_in(last[:newest]) if not m.get("tool_calls")]
        assert not older, "a server drops the reasoning of older answers: it is not sent"
        if ROWS[model] == "turn":
            assert not thoughts_in(last[:newest])
        assert len(thoughts_in(m.wire for m in ctx.history if m.wire)) == 60


@pytest.mark.slow
def test_turns_are_taken_where_reasoning_falls_out():
    """A call is thought about until the person speaks again; what was joined stays joined."""
    steps = list(watches(20, "reasoning_content"))
    with session() as ctx:
        for before, step in zip([None, *steps], steps, strict=False):
            ctx.add_message(step)
            if step["role"] == "user":
                assert checker.takes_turns(ctx.get_context_for_model(), "chat_completions") == []
            elif before and before["role"] == "tool":
                ctx.get_context_for_model()
        assert ctx.compressions > 1

"""What providers demand, held against a second judge that shares no code with it (K-4, C-3)."""

from typing import Any

import pytest
from hypothesis import given, settings

from compact.messages.boundaries import ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES, violations
from compact.messages.formats.known import format_named
from tests import checker, strategies
from tests.sizes import size

TEXT = {"role": "user", "content": "go"}
WORDS = {"role": "assistant", "content": "so"}


def call(*ids: str) -> dict:
    made = [
        {"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(call_id: str) -> dict:
    return {"role": "tool", "tool_call_id": call_id, "content": "fine"}


def parsed(messages: Any, wire: str = "chat_completions"):
    return [format_named(wire).parse(m, i) for i, m in enumerate(messages)]


CASES = [
    ("answered", [TEXT, call("a"), result("a")], OPENAI_CHAT, True),
    ("answered in another order", [call("a", "b"), result("b"), result("a")], OPENAI_CHAT, True),
    ("not answered", [TEXT, call("a")], OPENAI_CHAT, False),
    ("half answered", [call("a", "b"), result("a")], OPENAI_CHAT, False),
    ("answered late", [call("a"), TEXT, result("a")], OPENAI_CHAT, False),
    ("answered late", [call("a"), TEXT, result("a")], OPENAI_RESPONSES, True),
    ("answered twice", [call("a"), result("a"), result("a")], OPENAI_CHAT, False),
    ("answered, not called", [TEXT, result("a")], OPENAI_CHAT, False),
    ("an id again", [call("a"), result("a"), call("a"), result("a")], OPENAI_CHAT, True),
    ("an assistant first", [WORDS, TEXT], OPENAI_CHAT, True),
    ("an assistant first", [WORDS, TEXT], ANTHROPIC, False),
    ("two of a person", [TEXT, TEXT, WORDS], ANTHROPIC, True),
]


@pytest.mark.parametrize(("name", "messages", "rules", "good"), CASES)
def test_what_a_provider_takes(name, messages, rules, good):
    """K-4: each demand is seen to be kept and to be broken."""
    assert (violations(parsed(messages), rules) == []) is good


def test_results_lead_in_a_message():
    """K-4: Anthropic refuses a tool result that stands after other content."""
    answer = {"type": "tool_result", "tool_use_id": "a", "content": "fine"}
    block = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    asked = [TEXT, {"role": "assistant", "content": [block]}]
    good = [*asked, {"role": "user", "content": [answer, {"type": "text", "text": "go"}]}]
    bad = [*asked, {"role": "user", "content": [{"type": "text", "text": "go"}, answer]}]
    assert violations(parsed(good, "anthropic"), ANTHROPIC) == []
    assert violations(parsed(bad, "anthropic"), ANTHROPIC) != []


@settings(max_examples=size(30, 80), deadline=None)
@given(strategies.wild())
def test_the_other_judge_agrees_on_chat_completions(made):
    """K-4: two implementations of OpenAI's rules say the same of any history."""
    if made.wire == "chat_completions":
        ours = violations(parsed(made.messages), OPENAI_CHAT)
        assert bool(ours) == bool(checker.broken_rules(made.messages, made.wire)), ours


@pytest.mark.slow
@settings(max_examples=size(30, 80), deadline=None)
@given(strategies.ordinary())
def test_both_judges_take_what_applications_send(made):
    """K-4: and neither refuses an ordinary history, in either format."""
    rules = format_named(made.wire).rules
    assert violations(parsed(made.messages, made.wire), rules) == []
    assert checker.broken_rules(made.messages, made.wire) == []

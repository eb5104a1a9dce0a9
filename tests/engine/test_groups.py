"""Groups and boundaries: where a conversation may be cut, and that each invariant is needed
(K-4)."""

import pytest
from hypothesis import given, settings

from compact import wiring
from compact.engine.groups import Group, group_at, groups_from_end, groups_of
from compact.engine.history import History
from compact.messages import boundaries
from compact.messages.formats.known import format_named
from tests import strategies

TEXT = {"role": "user", "content": "go"}


def history(wire: str, messages: list[dict]) -> History:
    counter = wiring.token_counter(wire, tokenizer="chars")
    return History(messages, format_named(wire), counter)


def call(*ids: str) -> dict:
    made = [
        {"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(call_id: str) -> dict:
    return {"role": "tool", "tool_call_id": call_id, "content": "fine"}


def use(call_id: str, **fields: str) -> dict:
    block = {"type": "tool_use", "id": call_id, "name": "f", "input": {}}
    return {"role": "assistant", "content": [block], **fields}


def answer(call_id: str) -> dict:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": "fine"}
    return {"role": "user", "content": [block]}


THOUGHT = {
    "role": "assistant",
    "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}],
}
WORDS = {"role": "assistant", "content": [{"type": "text", "text": "so"}]}

CASES = [
    ("words", "chat_completions", [TEXT, TEXT], [1, 1]),
    ("a call and its result", "chat_completions", [TEXT, call("a"), result("a"), TEXT], [1, 2, 1]),
    ("parallel calls", "chat_completions", [call("a", "b"), result("b"), result("a")], [3]),
    ("two steps", "chat_completions", [call("a"), result("a"), call("b"), result("b")], [2, 2]),
    ("a dead call", "chat_completions", [call("a"), TEXT], [1, 1]),
    ("a result first", "chat_completions", [result("a"), TEXT], [1, 1]),
    (
        "a split reply",
        "anthropic",
        [
            {**THOUGHT, "id": "r"},
            {**WORDS, "id": "r"},
            use("a", id="r"),
            answer("a"),
            use("b", id="r"),
            answer("b"),
            TEXT,
        ],
        [6, 1],
    ),
    (
        "two replies",
        "anthropic",
        [use("a", id="r"), answer("a"), use("b", id="s"), answer("b")],
        [2, 2],
    ),
    ("reasoning alone", "anthropic", [THOUGHT, WORDS, TEXT], [2, 1]),
    ("reasoning before a person", "anthropic", [THOUGHT, TEXT], [1, 1]),
]


@pytest.mark.parametrize(
    ("wire", "messages", "sizes"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_the_groups_of(wire, messages, sizes):
    """K-4: what may not be parted is one group."""
    listed = groups_of(history(wire, messages))
    assert [len(list(group)) for group in listed] == sizes
    assert [i for group in listed for i in group] == list(range(len(messages)))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(strategies.wild())
def test_groups_are_a_partition(made):
    """K-4: every message is in one group, and each way to ask for it gives the same."""
    past = history(made.wire, made.messages)
    listed = groups_of(past)
    assert [i for group in listed for i in group] == list(range(len(past)))
    assert all(group_at(past, i) == group for group in listed for i in group)
    for group in listed:
        assert next(groups_from_end(past, group.stop)) == group


NEEDED = {
    "results_follow_their_calls": ("chat_completions", [call("a"), result("a")]),
    "words_before_a_late_result_stay_with_its_call": (
        "chat_completions",
        [call("a"), {"role": "user", "content": "Still there?"}, result("a")],
    ),
    "replies_stay_whole": ("anthropic", [use("a", id="r"), answer("a"), use("b", id="r")]),
    "reasoning_stays_with_what_it_led_to": ("anthropic", [THOUGHT, WORDS]),
}


@pytest.mark.parametrize("name", [rule.__name__ for rule in boundaries.INVARIANTS])
def test_each_invariant_is_needed(name, monkeypatch):
    """K-4: without it, something falls apart that the others do not hold together."""
    past = history(*NEEDED[name])
    whole = [Group(0, len(past))]
    assert groups_of(past) == whole
    left = tuple(rule for rule in boundaries.INVARIANTS if rule.__name__ != name)
    monkeypatch.setattr(boundaries, "INVARIANTS", left)
    assert groups_of(past) != whole


def test_the_ends_are_always_legal_cuts():
    """K-4: before the first message and after the last one."""
    past = history("chat_completions", [result("a"), call("b")])
    assert boundaries.may_cut_before(past, 0)
    assert boundaries.may_cut_before(past, 2)

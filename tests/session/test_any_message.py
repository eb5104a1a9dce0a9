"""Whatever is given as a message is taken, or refused by an error of compact's (C-3, NFR-2)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import compact
from compact import CompactError, ContextManager
from compact.errors import InvalidArgument, InvalidMessage
from tests.sizes import size

A = {"role": "user", "content": "Never water the cactus."}
HELD: list[Any] = [A]
CYCLE: dict[str, Any] = {"role": "user", "content": []}
CYCLE["content"].append(CYCLE)
SHARED: list[Any] = []
for _ in range(60):
    SHARED = [SHARED, SHARED]


def deep(depth: int) -> Any:
    """A list in a list in a list."""
    value: Any = "end"
    for _ in range(depth):
        value = [value]
    return value


class Dumped:
    """Something that says that it can be written, and cannot."""

    def __init__(self, fields: Any) -> None:
        self.fields = fields

    def model_dump(self, **_: Any) -> Any:
        if isinstance(self.fields, Exception):
            raise self.fields
        return self.fields


ODD: list[Any] = [
    None, True, 0, -1, 7, 2**63, 10**5_000, -(10**40), 1.5, float("nan"), float("inf"), 1j, "",
    "x", "a\0b", "gpt-4o", "no such thing", b"bytes", bytearray(b"b"), memoryview(b"b"), [],
    [[]], {}, (),
    {"role": "user"}, {"role": ["user"], "content": "a"}, {"role": {}, "content": "a"},
    {"role": "user", "content": 5}, {"role": "user", "content": deep(40_000)}, CYCLE,
    {"role": "user", "content": [{"type": ["text"], "text": 5}]}, deep(40_000), A, HELD, [A, 5],
    {**A, "x": float("nan")}, {**A, "x": 10**5_000},
    {"role": "user", "content": "a", "x": object()},
    {"type": ["message"]}, {"type": {}}, {"role": "assistant", "content": None, "tool_calls": 5},
    {"role": "assistant", "tool_calls": [{"id": [], "function": {"name": {}, "arguments": []}}]},
    {"role": "tool", "tool_call_id": {}, "content": {}},
    {"role": "tool", "tool_name": [], "content": 1},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": [], "content": {"a": 1}}]},
    {"role": "user", "content": [{"type": "image_url", "image_url": 5}]},
    {"role": "user", "content": "a", "images": [1]},
    {"type": "function_call", "name": [], "call_id": 5},
    {"type": "reasoning", "summary": 5}, {"type": "function_call_output", "output": {"a": []}},
    {"role": "user", "content": "a", "metadata": 5}, {**A, "metadata": {"pinned": {}}},
    object(), object, len, iter([A]), (x for x in [A]), range(3), {1, 2}, frozenset((A["role"],)),
    ValueError("x"), Dumped(None), Dumped({"a": 1}), Dumped(ValueError("no")), Dumped(A), Dumped,
    Dumped(RecursionError()), inspect,
]  # fmt: skip
"""One of each shape; what hypothesis makes is mixed in."""

json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.just(b"b"),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["role", "content", "type", "text", "tool_calls", "id", "function", "name",
                         "arguments", "input", "output", "call_id", "summary", "images", "metadata",
                         "source", "image_url", "url", "tool_use_id", "tool_call_id", "tool_name"]),
        inner | st.sampled_from(["user", "assistant", "tool", "text", "tool_use", "tool_result",
                                 "function_call", "function_call_output", "reasoning", "message",
                                 "image", "thinking", "document", "input_image", "function"]),
        max_size=5,
    ),
    max_leaves=8,
)  # fmt: skip
anything = st.sampled_from(ODD) | json_like | st.lists(st.sampled_from(ODD) | json_like, max_size=3)


def tried(call: Callable[..., Any], *args: Any, **given: Any) -> None:
    """Call it; nothing but an error of compact's may come out."""
    try:
        made = call(*args, **given)
        if inspect.iscoroutine(made):
            asyncio.run(made)
    except CompactError as error:
        said = str(error)
        assert 0 < len(said) < 40_000


DOORS = [compact.compress, compact.plan, compact.acompress, compact.aplan]
UNHURRIED = settings(
    deadline=None, max_examples=size(40, 4_000), suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("odd", range(len(ODD)))
def test_every_shape_is_refused_by_the_doors_or_works(odd: int) -> None:
    value = ODD[odd]
    said: dict[str, Any] = {"role": "user", "content": value}
    for messages in (value, [value], [A, said], [A, {**A, "x": value}]):
        for format in FORMATS:
            tried(compact.compress, messages, max_tokens=100, format=format)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@UNHURRIED
@given(anything, st.data())
def test_any_shape_is_refused_by_the_doors_or_works(door: Any, value: Any, data: Any) -> None:
    tried(door, value, max_tokens=data.draw(st.sampled_from([10, 100])))
    tried(door, [A, value], max_tokens=100, format=data.draw(st.sampled_from(FORMATS)))


FORMATS = [None, "chat_completions", "anthropic", "responses", "ollama"]


@UNHURRIED
@given(anything)
def test_any_shape_is_refused_as_a_message_of_a_session_or_works(value: Any) -> None:
    for format in FORMATS[1:]:
        with ContextManager(window=8_192, format=format) as ctx:
            ctx.add_message(role="user", content="Never water the cactus.")
            tried(ctx.add_message, value)
            tried(ctx.sync, [{"role": "user", "content": "Never water the cactus."}, value])
            tried(ctx.get_context_for_model)


@pytest.mark.parametrize("goals", [["x\ud800"], ["roof", "\ud800"], ["roof", 5], ["roof", ""]])
def test_goals_that_are_no_text_are_refused(goals: list[str]) -> None:
    ctx = ContextManager(window=8_192)
    with pytest.raises(InvalidArgument, match=rf"goals\[{len(goals) - 1}\]"):
        ctx.goals.set(goals)
    assert ctx.goals == ()


@pytest.mark.parametrize(
    "tool",
    [
        {"function": "x"},
        {"function": {"name": "a", "parameters": "x"}},
        {"name": "a", "input_schema": {"properties": ["x"]}},
        {"function": {"name": "a", "parameters": {"properties": {"x": {"enum": 5}}}}},
    ],
)
def test_what_is_no_schema_of_a_tool_is_refused(tool: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"tools\[0\] is no schema"):
        compact.compress([A], max_tokens=100, tools=[tool])
    with pytest.raises(InvalidArgument, match=r"tools\[0\] is no schema"):
        ContextManager(window=8_192, tools=[tool])


def test_a_role_that_is_no_text_is_shown_in_few_words() -> None:
    with pytest.raises(InvalidMessage, match="has the role"):
        compact.compress([{"role": deep(5_000)}], max_tokens=100)


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([A, {**A, "x": float("nan")}], "messages[1].x"),
        ([A, CYCLE], "messages[1].content[0]"),
        ([A, {"role": "user", "content": [{"text": b"a"}]}], "messages[1].content[0].text"),
        ([{**A, "x": 10**5_000}], "messages[0].x"),
        ([{**A, "x": SHARED}], "messages[0].x[0]"),
        ([A, 5], "messages[1]"),
        ([A, Dumped({"choices": []})], "messages[1]"),
    ],
)  # fmt: skip
def test_the_error_names_the_place(messages: Any, place: str) -> None:
    for call in (
        lambda: compact.compress(messages, max_tokens=100),
        lambda: ContextManager().sync(messages),
    ):
        with pytest.raises(InvalidMessage) as refused:
            call()
        assert refused.value.path.startswith(place)


@pytest.mark.parametrize("content", [(), ({"type": "text", "text": "Is the quay dry?"},)])
def test_a_tuple_is_read_again_as_it_was_stored(content: Any, tmp_path: Path) -> None:
    """JSON has lists alone."""
    with compact.SQLiteManager(tmp_path / "chat.db") as store:
        with ContextManager(window=8_192, store=store, session_id="s") as ctx:
            ctx.add_message({"role": "user", "content": content})
            ctx.add_message({"role": "assistant", "content": "Yes."})
        assert store.integrity_check() == []

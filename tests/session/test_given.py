"""What is given as a message: every door takes the same, and says the same of the rest."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from compact import CompressionEngine, ContextManager, compress
from compact.errors import InvalidArgument, InvalidMessage
from compact.messages import codec
from compact.messages.messages import Message


def added(message: Any) -> Any:
    return ContextManager(window=8_192).add_message(message)


def synced(message: Any) -> Any:
    return ContextManager(window=8_192).sync([message])


def fitted(message: Any) -> Any:
    return compress([message], max_tokens=100)


def stored(message: Any) -> Any:
    said = Message(role="user", content="hi", wire=message, wire_format="chat_completions")
    return codec.encode(said, "messages[0]")


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"in": value}
    return value


DOORS = [added, synced, fitted, stored]


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({1: "x"}, r"messages\[0\]\.extra: the key 1 is no text"),
        ([{None: 1}], r"messages\[0\]\.extra\[0\]: the key None is no text"),
        ({"n": float("nan")}, r"messages\[0\]\.extra\.n: JSON has no nan"),
        ({"n": object()}, r"messages\[0\]\.extra\.n: expected what JSON can carry, got object"),
        ({"n": 10**5_000}, r"messages\[0\]\.extra\.n: a number of thousands of digits"),
        (nested(400), "nested deeper than 100"),
    ],
)
@pytest.mark.parametrize("door", DOORS)
def test_what_one_door_refuses_no_other_takes(
    door: Callable[[Any], Any], extra: object, says: str
) -> None:
    """C-3: one set of rules, and the same words."""
    with pytest.raises(InvalidMessage, match=says):
        door({"role": "user", "content": "hi", "extra": extra})


@pytest.mark.parametrize("door", DOORS)
def test_a_time_is_taken_as_its_text(door: Callable[[Any], Any]) -> None:
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    door({"role": "user", "content": "hi", "timestamp": at, "extra": {"at": at}})
    assert added({"role": "user", "content": "hi", "timestamp": at}).timestamp == at


@pytest.mark.parametrize("door", DOORS[:3])
@pytest.mark.parametrize("role", ["user", "system"])
@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({}, r"messages\[0\]\.content: a message of the role \w+ needs content$"),
        ({"contents": "hi"}, "did you mean 'content', where 'contents' stands"),
        (
            {"content": "hi", "metadata": {"pined": True}},
            r"messages\[0\]\.metadata\.pined: there is no such mark: did you mean 'pinned'",
        ),
    ],
)
def test_what_would_be_sent_empty_or_unmarked_is_refused(
    door: Callable[[Any], Any], role: str, said: dict[str, Any], says: str
) -> None:
    """C-3: with its place, and the name that was meant."""
    with pytest.raises(InvalidMessage, match=says):
        door({"role": role, **said})


def test_keywords_are_fields_and_marks() -> None:
    """C-1: a mark is ours and never sent; a name that nobody knows is refused."""
    ctx = ContextManager(window=8_192)
    message = ctx.add_message(role="user", content="x", pinned=True, importance_score=0.9)
    assert message.is_pinned
    assert message.importance_score == 0.9
    assert ctx.get_context_for_model() == [{"role": "user", "content": "x"}]
    with pytest.raises(InvalidMessage, match=r"message\.contents: .*did you mean 'content'"):
        ctx.add_message(role="user", contents="hello")
    with pytest.raises(InvalidMessage, match=r"message\.pined: .*did you mean 'pinned'"):
        ctx.add_message(role="user", content="x", pined=True)
    with pytest.raises(InvalidMessage, match=r"message\.cache: .* in a dictionary"):
        ctx.add_message(role="user", content="x", cache=True)
    with pytest.raises(InvalidMessage, match="importance_score"):
        ctx.add_message(role="user", content="x", importance_score=7)
    ctx.add_message({"role": "user", "content": "y", "cache": True})
    assert ctx.get_context_for_model()[-1]["cache"] is True


def test_a_call_of_no_kind_is_no_mistake_of_ours() -> None:
    """Whatever stands as its type."""
    call = {"id": "a", "type": ["function"], "function": {"name": "f", "arguments": "{}"}}
    ctx = ContextManager(window=8_000)
    ctx.sync([{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call]}])
    assert ctx.get_context_for_model()[1]["tool_calls"] == [call]


@pytest.mark.parametrize("said", [["x"], {}, 5])
def test_a_type_or_a_seal_that_is_no_text_is_refused_or_kept_as_it_is(said):
    """C-3: whatever a field holds, nobody meets another library's error."""
    blocks = [
        {"type": "thinking", "thinking": "So.", "signature": said},
        {"type": "redacted_thinking", "data": said},
    ]
    asked: list[Any] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": blocks},
    ]
    assert compress(asked, max_tokens=500, format="anthropic") == asked
    with pytest.raises(InvalidMessage):
        compress([{"role": "user", "content": "q", "type": said}], max_tokens=50)


def test_a_message_is_no_list_of_messages():
    one: Any = Message(role="user", content="q")
    with pytest.raises(InvalidArgument, match="messages must be Messages"):
        CompressionEngine().tokens_of(one)

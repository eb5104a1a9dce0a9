"""The message model: what is filled in, what is refused, what stays frozen (C-1, C-2, C-3)."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from compact.errors import CompactError, InvalidMessage
from compact.messages import clock_and_ids
from compact.messages.messages import Message, MessageMetadata, Text, Thinking, ToolCall, ToolResult


def test_the_clock_and_the_ids_can_be_given():
    """C-1: reproducible runs set them for a block of code."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    with clock_and_ids.using(clock=lambda: noon, new_id=lambda: "m1"):
        made = Message(role="user", content="x")
    assert (made.id, made.timestamp) == ("m1", noon)
    assert Message(role="user", content="x").id != "m1"


BAD: dict[str, dict[str, Any]] = {
    "message.role": {"role": "robot"},
    "message.content": {"role": "user", "content": 5},
    "message.token_count": {"role": "user", "token_count": -1},
    "message.importance_score": {"role": "user", "importance_score": 1.5},
    "message.timestamp": {"role": "user", "timestamp": "yesterday"},
    "message.mood": {"role": "user", "mood": "good"},
}


@pytest.mark.parametrize("path", BAD)
def test_a_wrong_field_is_refused_by_its_path(path):
    """C-3: by an error that is ours and a ValueError."""
    with pytest.raises(InvalidMessage) as caught:
        Message.of(BAD[path])
    assert caught.value.path.startswith(path)
    assert isinstance(caught.value, CompactError | ValueError)


def test_a_message_is_frozen():
    """C-1: a change makes a new one, with another content and no count."""
    message = Message(role="user", content="x", token_count=5)
    with pytest.raises(ValidationError):
        message.content = "y"  # type: ignore[misc]
    other = message.with_parts([Text("y")])
    assert (message.text, other.text, other.token_count, other.id) == ("x", "y", None, message.id)


def test_parts_are_found_by_kind():
    """C-1: words, calls and results of a message."""
    call, result = ToolCall("a", "f", "{}"), ToolResult("a", "fine")
    message = Message(role="assistant", content=(Thinking("hm"), Text("so"), call))
    assert message.text == "so"
    assert message.tool_calls == (call,)
    assert Message(role="user", content=(result, Text("go"))).tool_results == (result,)
    assert Message(role="user", content="").parts == ()


def test_metadata_keeps_what_it_does_not_know():
    """C-2: source, tags and flags are known; other keys stay."""
    metadata = MessageMetadata.model_validate({"pinned": True, "tags": ["a"], "mine": 1})
    assert metadata.model_dump()["mine"] == 1
    assert Message(role="user", metadata=metadata).is_pinned
    assert Message(role="user", metadata=MessageMetadata(protected=True)).is_pinned
    assert not Message(role="user", metadata=MessageMetadata(important=True)).is_pinned


def test_a_message_is_json_and_back():
    """C-3: serialization is Pydantic's."""
    message = Message(role="assistant", content=(Text("so"), ToolCall("a", "f", "{}")))
    assert Message.model_validate_json(message.model_dump_json()) == message

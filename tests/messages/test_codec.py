"""What stored bytes can carry: JSON, and nothing that would come back as something else (C-3)."""

import json
from typing import Any

import pytest

from compact import ContextManager, SQLiteManager
from compact.errors import InvalidMessage
from compact.messages import codec
from compact.messages.codec import decode, encode
from compact.messages.messages import Message, MessageMetadata, PersonWords

NO_NUMBERS = (float("nan"), float("inf"), float("-inf"))


@pytest.mark.parametrize("number", NO_NUMBERS)
@pytest.mark.parametrize("beside", [None, "null", "\ud800", 10**30])
def test_what_is_no_number_is_refused(number: float, beside: object) -> None:
    """It came back as null, or as a word that no other reader of JSON takes; whatever else makes
    the slower way necessary (C-3)."""
    with pytest.raises(InvalidMessage, match=r"JSON has no|thousands"):
        codec.dump({"deep": [{"number": number}], "beside": beside})


@pytest.mark.parametrize(
    "value",
    [
        {"content": None, "text": "null and NaN"},
        {"content": None, "text": "\ud800"},
        [None, 10**30, 1e308, -0.0, True],
        {"none": None, "nested": {"none": [None]}},
    ],
)
def test_what_json_has_comes_back(value: object) -> None:
    """Null itself is looked at, and stays null (C-3)."""
    data = codec.dump(value)
    assert codec.load(data) == value
    assert json.loads(data) == value


def test_only_what_needs_it_goes_the_slower_way() -> None:
    """A null alone does not: it is in most calls of a tool (NFR-1)."""
    assert codec.dump({"a": None}) == b'{"a":null}'
    assert codec.dump({"a": None, "b": 10**30})[:1] == b" "


def test_a_message_with_what_is_no_number_is_refused_and_the_session_goes_on() -> None:
    """Nothing of the call is stored; the next message is (C-3)."""
    store = SQLiteManager(":memory:")
    ctx = ContextManager(store=store, session_id="s")
    wrong = {"role": "user", "content": "x", "extra": {"score": float("nan")}}
    with pytest.raises(InvalidMessage):
        ctx.add_messages([{"role": "user", "content": "fine"}, wrong])
    ctx.add_message(role="user", content="next")
    assert [m.text for m in ctx.history] == ["next"]
    assert [m.text for m in ContextManager(store=store, session_id="s").history] == ["next"]
    store.close()


@pytest.mark.parametrize(
    ("extra", "place"),
    [
        ({"x": {2: 3}}, "metadata.x: the key 2 is no text"),
        ({"x": [{None: 3}]}, r"metadata.x\[0\]: the key None is no text"),
        ({"x": {"a", "b"}}, "metadata.x: .*set"),
        ({"x": object()}, "metadata.x: .*object"),
    ],
)
def test_metadata_that_would_come_back_changed_is_refused(extra: Any, place: str) -> None:
    message = Message(role="user", content="hello", metadata=MessageMetadata(**extra))
    with pytest.raises(InvalidMessage, match=place):
        encode(message)


def test_metadata_comes_back() -> None:
    words = (PersonWords("answer", "Slate.", call_id="c"),)
    metadata = MessageMetadata(said=words, tags=("a",), pinned=True, **{"x": {"y": [1, None]}})
    message = Message(role="user", content="hello", metadata=metadata)
    content, payload = encode(message)
    again = decode(content, payload, role="user", id=message.id, timestamp=message.timestamp)
    assert again.metadata == metadata

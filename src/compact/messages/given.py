"""Checks messages from callers: dictionaries, objects of providers' clients, or anything else.

Clients return objects (`response.choices[0].message`, the blocks of an answer's content). They are
recognized by their `model_dump` method, and become the dictionaries that their own clients would
send. Any other value that JSON cannot hold is refused, and the error names its place. So the
formats get plain values only.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from typing import Any, Protocol, TypeGuard, runtime_checkable

from compact.errors import InvalidMessage
from compact.messages.arguments import DEEPEST
from compact.messages.messages import META, Message, metadata_in
from compact.messages.times import TIMES

MOST_VALUES = 200_000
"""Most values in one message. The limit also stops lists that contain themselves."""


_MARKS = frozenset(("pinned", "protected", "important", "tags", "source"))
_FIELDS = frozenset(
    (
        *("role", "content", "id", *TIMES, "name", "importance_score", "type", *META),
        *("tool_calls", "tool_call_id", "tool_name", "function_call", "refusal", "images"),
        *("thinking", "reasoning_content", "call_id", "arguments", "output", "summary", "status"),
    )
)
"""Known fields of a message: those of compact, and those of the formats that compact reads."""


@runtime_checkable
class Dumps(Protocol):
    """An object of a provider's client that can be written as a dictionary."""

    def model_dump(self, *, mode: str, exclude_unset: bool) -> dict[str, Any]:
        """Return the fields that were set, as a dictionary."""


Given = Message | Mapping[str, Any] | Dumps
"""The types that a caller may pass as a message."""
_TEXT = {str}
_PLAIN_KINDS = frozenset((dict, Message))
"""The usual types of messages. A list with only these types needs no check of each item."""
_TEXTS = (str, bytes, bytearray, memoryview)
_Step = tuple["_Step", object] | str
"""The place of a value: a text, or the place of the value that contains it and the key there."""


def messages_given(messages: object) -> Sequence[Message | Mapping[str, Any]]:
    """Return the caller's list if every item can be a message. Contents are checked later, when the
    messages are read.

    Raises:
        InvalidMessage: not a list, or an item is not a message; the error names the place.
    """
    if isinstance(messages, _TEXTS) or not isinstance(messages, (list, Sequence)):
        raise InvalidMessage("messages", f"expected a list, got {type(messages).__name__}")
    if _PLAIN_KINDS.issuperset(map(type, messages)):
        return messages
    return [message_given(each, f"messages[{i}]") for i, each in enumerate(messages)]


def message_given(value: object, path: str) -> Message | Mapping[str, Any]:
    """Return the value if it can be a message. Errors name it by `path`.

    Raises:
        InvalidMessage: the value is not a message.
    """
    if isinstance(value, Message | Mapping):
        return value
    kind = type(value).__name__
    if not _is_dumped(value):
        raise InvalidMessage(path, f"expected a message or a mapping, got {kind}")
    made = plain(value, path)
    if not isinstance(made, Mapping) or not isinstance(made.get("role", made.get("type")), str):
        raise InvalidMessage(path, f"a {kind} is no message; give the message that is in it")
    if "stop_reason" in made:  # this is the whole answer of Anthropic's client
        return {"role": made["role"], "content": made.get("content")}
    return made


def plain(value: object, path: str) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Return a copy of the value that JSON can hold. Objects with `model_dump`, as clients return
    them, become dictionaries. Dates and times become texts.

    Raises:
        InvalidMessage: JSON cannot hold the value, it is nested deeper than `DEEPEST`, or it holds
            more than `MOST_VALUES` values. The error names the place. JSON holds no other objects,
            no NaN, no number of thousands of digits, and no key that is not a text.
    """
    if type(value) is dict and {*map(type, value), *map(type, value.values())} <= _TEXT:
        return value.copy()
    return _PlainCopy().plain(value, path, 0)


def fields_given(fields: Mapping[str, object]) -> Mapping[str, object]:
    """Return a message's fields. Marks such as `pinned` are moved into its metadata.

    Raises:
        InvalidMessage: a field is unknown.
    """
    if fields.keys() <= _FIELDS:
        return fields
    marks = {name: value for name, value in fields.items() if name in _MARKS}
    record = {name: value for name, value in fields.items() if name not in (*marks, "meta")}
    for name in record:
        if name not in _FIELDS:
            reason = f"a message has no such field{did_you_mean(name, _FIELDS | _MARKS)}"
            instead = "what only a provider knows is given in a dictionary"
            raise InvalidMessage(f"message.{name}", f"{reason}; {instead}")
    return {**record, "metadata": {**_known_metadata(fields), **marks}}


def mark_protected(
    item: str | Mapping[str, Any] | Message, label: str | None = None, **meta: object
) -> Any:  # noqa: ANN401 - a message, or a dictionary for which a client has a type
    """Mark the message to stay word for word in every prompt. A text becomes a developer message.

    `label` and `meta` are stored with the mark.

    compact removes the mark before it sends a prompt. If you send the list without compact, it
    carries the mark.
    """
    marks = {**meta, **({} if label is None else {"label": label}), "protected": True}
    if isinstance(item, Message):
        own = item.metadata
        changed = type(own).model_validate({**own.model_dump(), **marks})
        return item.model_copy(update={"metadata": changed})
    record: dict[str, Any] = {"role": "developer", "content": item}
    if not isinstance(item, str):
        record = dict(item)
    known = _known_metadata(record)
    record.pop("meta", None)
    return {**record, "metadata": {**known, **marks}}


def _known_metadata(raw: Mapping[str, Any]) -> Mapping[str, object]:
    known = metadata_in(raw)
    return known if isinstance(known, Mapping) else {}


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint with the closest known name for an error, or an empty text if none is close."""
    close = get_close_matches(name, sorted(known), n=1, cutoff=0.8)
    return f": did you mean {close[0]!r}?" if close else ""


def type_of(block: object) -> str:
    """Return the `type` of a block or a client's object. It is empty if it is not a text."""
    kind = block.get("type") if isinstance(block, Mapping) else getattr(block, "type", None)
    return kind if isinstance(kind, str) else ""


class _PlainCopy:
    def __init__(self) -> None:
        self.left = MOST_VALUES

    def plain(self, value: object, path: _Step, depth: int) -> Any:  # noqa: ANN401 - as `plain`
        if value is None or isinstance(value, str | bool):
            return value
        self.left -= 1
        if self.left < 0:
            raise InvalidMessage(_path_text(path), f"holds more than {MOST_VALUES:,} values")
        if depth > DEEPEST:
            raise InvalidMessage(_path_text(path), f"is nested deeper than {DEEPEST}")
        if type(value) is int or type(value) is float:
            return self._leaf(value, path)
        if isinstance(value, Mapping):
            if not _all_texts(value):
                wrong = next(key for key in value if not isinstance(key, str))
                raise InvalidMessage(_path_text(path), f"the key {reprlib.repr(wrong)} is no text")
            return {
                key: x if type(x) is str else self.plain(x, (path, key), depth + 1)
                for key, x in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.plain(x, (path, i), depth + 1) for i, x in enumerate(value)]
        if _is_dumped(value):
            return self.plain(_dumped(value, path), path, depth + 1)
        if isinstance(value, date):
            return value.isoformat()
        return self._leaf(value, path)

    def _leaf(self, value: object, path: _Step) -> Any:  # noqa: ANN401 - as `plain`
        if (wrong := _what_is_wrong(value)) is not None:
            raise InvalidMessage(_path_text(path), wrong)
        return value


def _all_texts(values: Iterable[object]) -> bool:
    return set(map(type, values)) <= {str} or all(isinstance(each, str) for each in values)


def _is_dumped(value: object) -> TypeGuard[Dumps]:
    return isinstance(value, Dumps) and not isinstance(value, type)


def _dumped(value: Dumps, path: _Step) -> object:
    try:
        return value.model_dump(mode="json", exclude_unset=True)
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        reason = f"a {type(value).__name__} that cannot be written as JSON: {error}"
        raise InvalidMessage(_path_text(path), reason) from None


def _what_is_wrong(value: object) -> str | None:
    """Return why JSON cannot hold this single value. Return None if it can."""
    match value:
        case int():
            try:
                str(value)
            except ValueError:
                return "a number of thousands of digits"
        case float():
            return None if math.isfinite(value) else f"JSON has no {value}"
        case bytes() | bytearray() | memoryview():
            return "bytes; give text, or base64 in the provider's own block"
        case _:
            return f"expected what JSON can carry, got {type(value).__name__}"
    return None


def _path_text(path: _Step) -> str:
    """Return a place as text, such as `messages[3].content[0].text`."""
    steps: list[str] = []
    while not isinstance(path, str):
        path, step = path
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return path + "".join(reversed(steps))

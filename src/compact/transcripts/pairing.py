"""Collects messages of formats that no provider defines, and places each result after its call.

Such files match calls and results by their own ids, by order, or not at all. The messages that this
module builds are valid for every provider: each call has its own id, its result follows it, and no
call has two results. Other results are kept as text. A result without a call becomes an
observation. A further result of a call is added to the first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from compact.messages.messages import (
    Image,
    Message,
    MessageMetadata,
    Part,
    Text,
    ToolCall,
    ToolResult,
)
from compact.transcripts.transcript import Collected, Row

PERSON = MessageMetadata(source="person")
INJECTED = MessageMetadata(source="injected")
CHECKPOINT = MessageMetadata(source="checkpoint")
OBSERVATION = MessageMetadata(source="observation")


@dataclass(slots=True)
class Paired(Collected):
    """Collects messages. `finish` places their results after their calls."""

    _calls_by_id: dict[str, ToolCall] = field(default_factory=dict)
    """Id in the file → the last call with this id."""
    _waiting: dict[str, ToolCall] = field(default_factory=dict)
    """compact's id of a call → the call, if it has no result yet."""
    _ids: set[str] = field(default_factory=set)
    _block: set[str] = field(default_factory=set)
    """Ids of the last reply's calls, kept as long as only their results came after the reply."""
    _last: ToolCall | None = None
    """The call of the last result. It is kept as long as nothing else came after the result."""
    _late: dict[str, Message] = field(default_factory=dict)
    """Id of a call → its result, if other messages came in between."""
    _further: dict[str, list[tuple[ToolResult, Row]]] = field(default_factory=dict)

    def own_id(self, value: object) -> dict[str, str]:
        """Return the id that a message has in the file, as a keyword argument for `say`. It is
        empty if the message has no id, or an id that is already used.
        """
        is_own = isinstance(value, str) and value and value not in self.rows
        return {"id": str(value)} if is_own else {}

    def say(
        self, role: str, parts: Sequence[Part], row: Row, *, time: datetime | None, **more: object
    ) -> None:
        """Add a message that is not a result. With calls it becomes a reply, whatever its role."""
        self._block = {part.id for part in parts if isinstance(part, ToolCall)}
        if self._block and role != "assistant":
            role = "assistant"
            more.pop("metadata", None)
        Collected.say(self, role, parts, row, time=time, **more)
        self._last = None

    def call(self, known: object, name: object, arguments: object) -> ToolCall:
        """Make a call for the next reply. `known` is the id of the call in the file."""
        own = known if isinstance(known, str) and known else f"call-{len(self._ids) + 1}"
        call_id = own if own not in self._ids else f"{own}-{len(self._ids) + 1}"
        named = name if isinstance(name, str) and name else "tool"
        call = ToolCall(call_id, named, arguments_text(arguments))
        self._ids.add(call_id)
        self._calls_by_id[own] = self._waiting[call_id] = call
        return call

    def call_by_id(self, call_id: object) -> ToolCall | None:
        """Return the last call with this id in the file, or None."""
        return self._calls_by_id.get(call_id) if isinstance(call_id, str) else None

    def waiting_call(self, tool: object = None) -> ToolCall | None:
        """Return the call of a result without a call id, or None: the oldest waiting call to `tool`
        (or to any), else the previous result's. Names are compared up to the first dot.
        """
        head = tool.partition(".")[0] if isinstance(tool, str) else None
        for call in self._waiting.values():
            if head is None or call.name.partition(".")[0] == head:
                return call
        if self._last and (head is None or self._last.name.partition(".")[0] == head):
            return self._last
        return None

    def last_call(self) -> ToolCall | None:
        """Return a waiting call of the last reply, if only its results came after it."""
        return next((self._waiting[x] for x in self._block if x in self._waiting), None)

    def answer(
        self,
        asked: object,
        result: ToolResult,
        row: Row,
        *,
        time: datetime | None = None,
    ) -> None:
        """Add the result of a call. `asked` is the call or its id in the file. The result gets the
        call's id and name.
        """
        call = self.call_by_id(asked) if isinstance(asked, str) else asked
        if not isinstance(call, ToolCall):
            parts: list[Part] = [Text(result.text), *result.images]
            self.say("user", parts, row, time=time, metadata=OBSERVATION)
            self.left_out[_WITHOUT_CALL] += 1
            return
        if self._waiting.pop(call.id, None) is None:
            self._further.setdefault(call.id, []).append((result, row))
            self.left_out[_FURTHER] += 1
        else:
            filled = replace(result, call_id=call.id, name=call.name)
            Collected.say(self, "tool", [filled], row, time=time)
            if call.id not in self._block:
                self._late[call.id] = self.messages.pop()
        self._last = call

    def finish(self) -> None:
        """Finish the collection. Results are placed after their calls, further results of a call
        are joined with the first, and calls without a result are counted.
        """
        if self._waiting:
            self.left_out[_WITHOUT_OUTPUT] += len(self._waiting)
        if self._late:
            self.messages = self._in_place()
        if self._further:
            self.messages = [self._with_further(message) for message in self.messages]

    def _in_place(self) -> list[Message]:
        """Return the messages, with late results placed after those that came at once."""
        placed: list[Message] = []
        behind: list[Message] = []
        for message in self.messages:
            if not message.tool_results:
                placed += behind
                behind = []
            placed.append(message)
            ids = [call.id for call in message.tool_calls]
            behind += [self._late[call_id] for call_id in ids if call_id in self._late]
        return placed + behind

    def _with_further(self, message: Message) -> Message:
        """Return the message with the further results of its call joined to the first."""
        for first in message.tool_results:
            if more := self._further.get(first.call_id):
                unique = dict.fromkeys([first.text, *(each.text for each, _ in more)])
                texts = texts_of([*unique])
                images = [image for each, _ in more for image in each.images]
                result = replace(first, text="\n\n".join(texts), images=(*first.images, *images))
                self.rows[message.id] = (*self.rows[message.id], *(row for _, row in more))
                return message.model_copy(update={"content": (result,)})
        return message


_FURTHER = (
    "further result of a call, kept behind its first|further results of calls, kept behind the "
    "first ones"
)
_WITHOUT_CALL = (
    "result without its call, kept as an observation|results without their calls, kept as "
    "observations"
)
_WITHOUT_OUTPUT = "tool call without output|tool calls without output"


def unknown_role(role: str) -> str:
    """Return the key in `left_out` that counts messages with an unknown role."""
    kept = f"of the role {role!r}, kept as injected"
    return f"message {kept}|messages {kept}"


def arguments_text(value: object) -> str:
    """Return a call's arguments as JSON. A text that is no JSON object is put under `input`."""
    if isinstance(value, str):
        try:
            is_json = isinstance(json.loads(value), dict)
        except (ValueError, RecursionError):
            is_json = False
        if is_json:
            return value
        value = {"input": value} if value else {}
    elif not isinstance(value, dict):
        value = {} if value is None else {"input": value}
    return json.dumps(value, ensure_ascii=False)


def image_of(url: object) -> Image:
    """Return an image at an address, which may be a data URL."""
    raw = {"type": "image_url", "image_url": {"url": str(url)}}
    return Image(raw=raw)


def texts_of(values: Sequence[object]) -> list[str]:
    """Return the values that are non-empty texts."""
    return [x for x in values if isinstance(x, str) and x]

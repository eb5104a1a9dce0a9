"""Collecting the messages of formats that are no provider's: each result stands behind its call.

Such files tell calls and results apart by ids of their own, by their order, or not at all. What
comes out is what every provider takes: a call has an id of its own, its result follows it, and no
call is answered twice. What makes no such pair is kept for what it says: a result without a call is
an observation, a further result of a call goes on the first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from compact.core.messages import Image, MessageMetadata, Part, Text, ToolCall, ToolResult
from compact.storage.transcripts.transcript import Collected, Row

PERSON = MessageMetadata(source="person")
INJECTED = MessageMetadata(source="injected")
CHECKPOINT = MessageMetadata(source="checkpoint")
OBSERVATION = MessageMetadata(source="observation")


@dataclass(slots=True)
class Paired(Collected):
    """Messages as they come, their calls and results paired."""

    _known: dict[str, ToolCall] = field(default_factory=dict)
    """The file's id of a call → the last call that has it."""
    _waiting: dict[str, ToolCall] = field(default_factory=dict)
    """Our id of a call → the call that nobody answered yet."""
    _made: list[ToolCall] = field(default_factory=list)
    _ids: set[str] = field(default_factory=set)

    def own_id(self, value: object) -> dict[str, str]:
        """The file's id of a message, as `more` of `say`; nothing where it has none of its own."""
        is_own = isinstance(value, str) and value and value not in self.rows
        return {"id": str(value)} if is_own else {}

    def call(self, known: object, name: object, arguments: object) -> ToolCall:
        """A call, to be said by the reply that is next. `known` is the file's id of it."""
        given = known if isinstance(known, str) and known else f"call-{len(self._ids) + 1}"
        call_id = given if given not in self._ids else f"{given}-{len(self._ids) + 1}"
        named = name if isinstance(name, str) and name else "tool"
        made = ToolCall(call_id, named, arguments_text(arguments))
        self._ids.add(call_id)
        self._made.append(made)
        self._known[given] = self._waiting[call_id] = made
        return made

    def known(self, known: object) -> ToolCall | None:
        """The last call that the file knows by that id."""
        return self._known.get(known) if isinstance(known, str) else None

    def asked_of(self, tool: object = None) -> ToolCall | None:
        """The call that a result answers which names no call: the oldest to that tool that waits,
        or to any if no tool is told; else the one whose result was just taken. Tools are the same
        up to the first dot of their names.
        """
        head = tool.partition(".")[0] if isinstance(tool, str) else None
        for call in self._waiting.values():
            if head is None or call.name.partition(".")[0] == head:
                return call
        last = self.messages[-1].tool_results if self.messages else ()
        for call in reversed(self._made):
            if (
                last
                and call.id == last[-1].call_id
                and (tool is None or call.name.partition(".")[0] == head)
            ):
                return call
        return None

    def answer(
        self,
        asked: object,
        result: str | ToolResult,
        row: Row,
        *,
        time: datetime | None = None,
    ) -> None:
        """Take the result of a call, or of the one that the file knows by that id. Of a
        `ToolResult` the id and the name are filled in.
        """
        result = ToolResult("", result) if isinstance(result, str) else result
        call = self.known(asked) if isinstance(asked, str) else asked
        if not isinstance(call, ToolCall):
            parts: list[Part] = [Text(result.text), *result.images]
            self.say("user", parts, row, time=time, metadata=OBSERVATION)
            self.left_out[_WITHOUT_CALL] += 1
        elif self._waiting.pop(call.id, None) is None:
            self._join(call, result, row)
            self.left_out[_FURTHER] += 1
        else:
            self._put(call, replace(result, call_id=call.id, name=call.name), row, time)

    def finish(self) -> None:
        """Count the calls that nobody answered."""
        if self._waiting:
            self.left_out[_WITHOUT_OUTPUT] += len(self._waiting)

    def _put(self, call: ToolCall, result: ToolResult, row: Row, time: datetime | None) -> None:
        """Put a result behind its call and the results there are, whatever came between."""
        self.say("tool", [result], row, time=time)
        at = len(self.messages) - 1
        start = at
        while start and call not in self.messages[start - 1].tool_calls:
            start -= 1
        place = start
        while place < at and self.messages[place].tool_results:
            place += 1
        if start and place < at:
            self.messages.insert(place, self.messages.pop())

    def _join(self, call: ToolCall, more: ToolResult, row: Row) -> None:
        """Put a further result of a call on its first one."""
        for at in range(len(self.messages) - 1, -1, -1):
            message = self.messages[at]
            for first in message.tool_results:
                if first.call_id == call.id:
                    text = f"{first.text}\n\n{more.text}" if first.text else more.text
                    images = (*first.images, *more.images)
                    joined = replace(first, text=text, images=images)
                    self.messages[at] = message.model_copy(update={"content": (joined,)})
                    self.rows[message.id] = (*self.rows[message.id], row)
                    return


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
    """What is counted for a message whose role nobody knows."""
    kept = f"of the role {role!r}, kept as injected"
    return f"message {kept}|messages {kept}"


def arguments_text(value: object) -> str:
    """The arguments of a call as JSON: those that are none yet are one text, `input`."""
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
    """An image by its address, which may hold the image itself."""
    raw = {"type": "image_url", "image_url": {"url": str(url)}}
    return Image(raw=raw)


def texts_of(values: Sequence[object]) -> list[str]:
    """Those of the values that are texts and not empty."""
    return [x for x in values if isinstance(x, str) and x]

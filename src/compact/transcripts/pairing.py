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
    """Messages as they come, their calls and results paired when it is finished."""

    _known: dict[str, ToolCall] = field(default_factory=dict)
    """The file's id of a call → the last call that has it."""
    _waiting: dict[str, ToolCall] = field(default_factory=dict)
    """Our id of a call → the call that nobody answered yet."""
    _ids: set[str] = field(default_factory=set)
    _block: set[str] = field(default_factory=set)
    """The calls of the last reply, as long as nothing but their results came behind it."""
    _last: ToolCall | None = None
    """The call whose result came last, likewise."""
    _late: dict[str, Message] = field(default_factory=dict)
    """The call → its result, where something else came between."""
    _further: dict[str, list[tuple[ToolResult, Row]]] = field(default_factory=dict)

    def own_id(self, value: object) -> dict[str, str]:
        """The file's id of a message, as `more` of `say`; nothing where it has none of its own."""
        is_own = isinstance(value, str) and value and value not in self.rows
        return {"id": str(value)} if is_own else {}

    def say(
        self, role: str, parts: Sequence[Part], row: Row, *, time: datetime | None, **more: object
    ) -> None:
        """Take a message that is no result. What makes calls is a reply, whatever it says it is."""
        self._block = {part.id for part in parts if isinstance(part, ToolCall)}
        if self._block and role != "assistant":
            role = "assistant"
            more.pop("metadata", None)
        Collected.say(self, role, parts, row, time=time, **more)
        self._last = None

    def call(self, known: object, name: object, arguments: object) -> ToolCall:
        """A call, to be said by the reply that is next. `known` is the file's id of it."""
        given = known if isinstance(known, str) and known else f"call-{len(self._ids) + 1}"
        call_id = given if given not in self._ids else f"{given}-{len(self._ids) + 1}"
        named = name if isinstance(name, str) and name else "tool"
        made = ToolCall(call_id, named, arguments_text(arguments))
        self._ids.add(call_id)
        self._known[given] = self._waiting[call_id] = made
        return made

    def known(self, known: object) -> ToolCall | None:
        """The last call that the file knows by that id."""
        return self._known.get(known) if isinstance(known, str) else None

    def asked_of(self, tool: object = None) -> ToolCall | None:
        """The call that a result answers which names no call: the oldest to that tool that waits,
        or to any if no tool is told; else the one whose result came just before. Tools are the same
        up to the first dot of their names.
        """
        head = tool.partition(".")[0] if isinstance(tool, str) else None
        for call in self._waiting.values():
            if head is None or call.name.partition(".")[0] == head:
                return call
        if self._last and (head is None or self._last.name.partition(".")[0] == head):
            return self._last
        return None

    def just_asked(self) -> ToolCall | None:
        """The call of the last reply that waits, if nothing but results came behind it."""
        return next((self._waiting[x] for x in self._block if x in self._waiting), None)

    def answer(
        self,
        asked: object,
        result: ToolResult,
        row: Row,
        *,
        time: datetime | None = None,
    ) -> None:
        """Take the result of a call, or of the one that the file knows by that id; the result's own
        id and name are filled in.
        """
        call = self.known(asked) if isinstance(asked, str) else asked
        if not isinstance(call, ToolCall):
            parts: list[Part] = [Text(result.text), *result.images]
            self.say("user", parts, row, time=time, metadata=OBSERVATION)
            self.left_out[_WITHOUT_CALL] += 1
            return
        if self._waiting.pop(call.id, None) is None:
            self._further.setdefault(call.id, []).append((result, row))
            self.left_out[_FURTHER] += 1
        else:
            made = replace(result, call_id=call.id, name=call.name)
            Collected.say(self, "tool", [made], row, time=time)
            if call.id not in self._block:
                self._late[call.id] = self.messages.pop()
        self._last = call

    def finish(self) -> None:
        """Put results behind their calls, further ones on the first, and count the calls that
        nobody answered.
        """
        if self._waiting:
            self.left_out[_WITHOUT_OUTPUT] += len(self._waiting)
        if self._late:
            self.messages = self._in_place()
        if self._further:
            self.messages = [self._whole(message) for message in self.messages]

    def _in_place(self) -> list[Message]:
        """The messages, late results behind the results that came at once."""
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

    def _whole(self, message: Message) -> Message:
        """A message of a result with the further ones of its call."""
        for first in message.tool_results:
            if more := self._further.get(first.call_id):
                said = dict.fromkeys([first.text, *(each.text for each, _ in more)])
                texts = texts_of([*said])
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

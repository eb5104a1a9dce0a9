"""Joins neighbouring messages of one role when a prompt is sent, so that user and assistant take
turns.

Many chat templates and some servers refuse two messages of one role in a row. A compression can
bring two such messages together: a checkpoint and the message after it, or two messages whose
neighbours are hidden. They are joined only when they are sent; the history keeps them apart.
`in_turns` is for servers that refuse any two messages of one role in a row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

from compact.messages.messages import (
    SYSTEM_ROLES,
    Message,
    MessageMetadata,
    Part,
    Raw,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
)

Placed = Sequence[tuple[int | None, Message]]
"""The messages of a prompt. Each has its position in the history, or None if compact made it."""
Sent = list[tuple[tuple[int, ...], Message]]
"""Messages as they are sent. Each has the positions of the messages joined in it. The positions are
empty if compact made the message."""
Side = Literal["user", "assistant", "tool", "system"]

GAP_TOKENS = 12
"""Tokens reserved for one `NOT_SHOWN` or `BEGINS` message. Both texts need fewer."""
NOT_SHOWN = "[left out]"
"""The text of a message that replaces hidden messages where their neighbours cannot be joined."""
BEGINS = "[The conversation begins with the assistant.]"
"""The text of a user message that is put before a conversation that the assistant begins."""
_GAP = "gap-"
_ID_FIELDS = ("id", "call_id", "tool_call_id", "tool_use_id")
"""Fields that hold a call's id in a provider's dictionary of a call or a result."""


def side_of(message: Message) -> Side:
    """Return the side that a message belongs to."""
    if message.role in SYSTEM_ROLES:
        return "system"
    if message.role == "assistant":
        return "assistant"
    return "tool" if message.role == "tool" or message.tool_results else "user"


def seams_of(placed: Placed) -> tuple[int, ...]:
    """Return the indexes of messages that are sent joined with the message before them: one role,
    and messages between them are hidden, or compact made one of the two.
    """
    positions, shown = _positions(placed), {position for position, _ in placed}
    return tuple(
        i
        for i, (one, other) in enumerate(pairwise(placed), 1)
        if may_join(one[1], other[1]) and not _follows(positions[i - 1], positions[i], shown)
    )


def with_gaps(placed: Placed) -> list[tuple[int | None, Message]]:
    """Insert a `NOT_SHOWN` message for hidden messages where joining cannot help: after a tool
    result, or around a system message.
    """
    out = list[tuple[int | None, Message]]()
    last: Message | None = None
    newest: int | None = None
    shown = {position for position, _ in placed}
    for stand, (position, message) in zip(_positions(placed), placed, strict=True):
        if side_of(message) != "system":
            is_apart = not _follows(newest, stand, shown)
            if last is not None and is_apart and _lacks(last, out, message):
                out.append((None, _gap(last, message)))
            last = message
            newest = newest if position is None else max(newest or 0, position)
        out.append((position, message))
    return out


def is_gap(message: Message) -> bool:
    """Whether `with_gaps` made the message."""
    return message.id.startswith(_GAP) and message.content == NOT_SHOWN


def sent(messages: Sequence[Message], seams: Collection[int]) -> list[Message]:
    """Join each message at a seam (see `seams_of`) with the message before it."""
    return [message for _, message in _joined_at([(None, message) for message in messages], seams)]


def sent_placed(placed: Placed) -> Sent:
    """Join the messages at the seams. A joined message has the positions of all its parts."""
    return _joined_at(placed, seams_of(placed))


def _joined_at(placed: Placed, seams: Collection[int]) -> Sent:
    out: Sent = []
    for i, (position, message) in enumerate(placed):
        positions = () if position is None else (position,)
        if i in seams:
            before, first = out.pop()
            positions, message = (*before, *positions), joined(first, message)
        out.append((positions, message))
    return _with_own_ids(out)


def _with_own_ids(placed: Sent) -> Sent:
    """Give each call a unique id, and its result the same id.

    Some proxies number the calls of each reply from 0, so ids repeat, and providers refuse repeated
    ids. A number is appended to a repeated id. The history keeps the original ids.
    """
    taken, waiting = set[str](), defaultdict[str, list[str]](list)
    return [(position, _numbered(message, taken, waiting)) for position, message in placed]


def in_turns(placed: Placed) -> Sent:
    """Return the messages for a server that refuses two messages of one role in a row. At most one
    system message comes first. Then user and assistant take turns. The user comes first.
    """
    out: Sent = []
    for position, message in placed:
        positions = () if position is None else (position,)
        if side_of(message) == "system":
            message = _with_role(message, "user" if _has_begun(out) else "system")
        places, before = out[-1] if out else ((), None)
        if before is None or not lacks_answer(before, message):
            if before is not None and (
                may_join(before, message) or side_of(before) == side_of(message) == "system"
            ):
                out[-1] = (*places, *positions), joined(before, message)
                continue
            if not _has_begun(out) and side_of(message) in ("assistant", "tool"):
                out.append(((), _filler("user", BEGINS, message)))
        else:
            out.append(((), _gap(before, message)))
        out.append((positions, message))
    return _with_own_ids(out)


def in_words(messages: Iterable[Message]) -> list[Message]:
    """Write tool calls and results as text, for chat templates without tool messages. The message
    of a result becomes a user message.
    """
    out: list[Message] = []
    names: dict[str, str] = {}
    for message in messages:
        names.update((call.id, call.name) for call in message.tool_calls)
        if message.tool_calls or message.tool_results:
            parts = [part for each in message.parts for part in _in_words(each, names)]
            role = "assistant" if message.role == "assistant" else "user"
            update = {"role": role, "content": tuple(parts), "wire": None, "edited": True}
            message = message.model_copy(update={**update, "reply_id": None})
        out.append(message)
    return out


def _in_words(part: Part, names: Mapping[str, str]) -> list[Part]:
    match part:
        case ToolCall():
            return [Text(f"[Call of {part.name}]\n{part.arguments}")]
        case ToolResult():
            name = part.name or names.get(part.call_id) or "a tool"
            return [Text(f"[Result of {name}]\n{part.text}"), *part.images]
        case _:
            return [part]


def lacks_answer(one: Message, other: Message) -> bool:
    """Whether a user message follows a tool result directly, without an answer between them."""
    return side_of(one) == "tool" and side_of(other) == "user"


def _has_begun(placed: Sent) -> bool:
    return any(side_of(message) != "system" for _, message in placed)


def _with_role(message: Message, role: Role) -> Message:
    if message.role == role:
        return message
    return message.model_copy(update={"role": role, "edited": True})


def may_join(one: Message, other: Message) -> bool:
    """Whether two messages can be sent as one: both the user's, or both text of the assistant."""
    if one.role != other.role or one.role not in ("user", "assistant") or one.tool_calls:
        return False
    return one.wire_format != "responses" or all(map(_is_words, (one, other)))


def joined(first: Message, second: Message) -> Message:
    """Join two messages of one role. The parts stay in order. The other fields come from the second
    message. If compact made the second, they come from the first.
    """
    base = first if _is_ours(second) else second
    fields = {**(first.wire or {}), **(second.wire or {})}
    name = second.name or first.name
    if first.name != name and first.name:
        name = None
        fields.pop("name", None)
    return base.model_copy(
        update={
            "content": (*first.parts, *second.parts),
            "wire": fields or None,
            "wire_format": second.wire_format or first.wire_format,
            "name": name,
            "reply_id": second.reply_id or first.reply_id,
            "token_count": None,
            "edited": True,
        }
    )


def _is_ours(message: Message) -> bool:
    return message.metadata.source in ("checkpoint", "ours")


def _is_words(message: Message) -> bool:
    return all(isinstance(part, Text | Refusal) for part in message.parts)


def _positions(placed: Placed) -> list[int | None]:
    """Return the messages' positions. A user message that compact made gets the position of the
    next user message, if that comes directly after it.
    """
    positions = [position for position, _ in placed]
    for i in range(len(placed) - 2, -1, -1):
        if positions[i] is None and side_of(placed[i][1]) == side_of(placed[i + 1][1]) == "user":
            positions[i] = positions[i + 1]
    return positions


def _follows(one: int | None, other: int | None, shown: Collection[int | None]) -> bool:
    if one is None or other is None or one == other:
        return False
    return all(i in shown for i in range(min(one, other) + 1, max(one, other)))


def _lacks(last: Message, out: Placed, message: Message) -> bool:
    """Whether a turn of the other role must be put before `message`, because it cannot be joined.
    `last` is the newest message that is not a system message, `out` everything before.
    """
    if lacks_answer(last, message):
        return True
    is_apart = side_of(out[-1][1]) == "system" or not may_join(last, message)
    is_one = side_of(last) == side_of(message) != "tool"
    return is_one and is_apart and not last.tool_calls


def _gap(before: Message, message: Message) -> Message:
    return _filler("user" if side_of(before) == "assistant" else "assistant", NOT_SHOWN, message)


def _filler(role: Literal["user", "assistant"], text: str, before: Message) -> Message:
    return Message.trusted(
        role=role,
        content=text,
        id=f"{_GAP}{before.id}",
        timestamp=before.timestamp,
        metadata=MessageMetadata(source="injected"),
    )


def _numbered(message: Message, taken: set[str], waiting: dict[str, list[str]]) -> Message:
    if isinstance(message.content, str):
        return message
    parts: list[Part] = []
    for part in message.content:
        if isinstance(part, ToolCall):
            own, number = part.id, 1
            while own in taken:
                number += 1
                own = f"{part.id}-{number}"
            taken.add(own)
            waiting[part.id].append(own)
            part = part if own == part.id else replace(part, id=own, raw=_raw(part, part.id, own))
        elif isinstance(part, ToolResult) and (due := waiting[part.call_id]):
            own = due.pop(0)
            if own != part.call_id:
                part = replace(part, call_id=own, raw=_raw(part, part.call_id, own))
        parts.append(part)
    pairs = [(a, b) for a, b in zip(message.content, parts, strict=True) if a is not b]
    if not pairs:
        return message
    wire = _exchanged(message.wire, [(a.raw, b.raw) for a, b in pairs if a.raw])
    for a, b in pairs:  # here the id is in the message's dictionary, not in a part's
        if wire == message.wire and isinstance(wire, Mapping):
            wire = _renamed(wire, _id_of(a), _id_of(b))
    return message.model_copy(update={"content": tuple(parts), "wire": wire})


def _id_of(part: Part) -> str:
    return part.id if isinstance(part, ToolCall) else getattr(part, "call_id", "")


def _raw(part: Part, old: str, new: str) -> Raw | None:
    return None if part.raw is None else _renamed(part.raw, old, new)


def _renamed(raw: Raw, old: str, new: str) -> dict[str, Any]:
    return {k: new if k in _ID_FIELDS and v == old else v for k, v in raw.items()}


def _exchanged(value: Any, pairs: list[tuple[Any, Any]]) -> Any:  # noqa: ANN401 - JSON
    """Replace values inside a JSON value. Each pair (old, new) is used once, in order."""
    if pairs and value == pairs[0][0]:
        return pairs.pop(0)[1]
    if isinstance(value, Mapping):
        return {k: _exchanged(v, pairs) for k, v in value.items()}
    return [_exchanged(v, pairs) for v in value] if isinstance(value, list | tuple) else value

"""Reading Gemini CLI sessions: `{sessionId, startTime, messages: [{type, content, …}]}`.

A `user` row is a person's message, a `gemini` row a reply with its thoughts and tool calls, whose
results it carries: they become tool messages after it. Rows of the tool itself (`info`, `warning`,
`error`) are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from compact.core.messages import Part, Text, Thinking, ToolCall, ToolResult
from compact.errors import InvalidTranscript
from compact.storage.transcripts.documents import Document, json_object, objects_in, rows_at
from compact.storage.transcripts.transcript import Collected, Transcript, text_or, time_of

NAME = "gemini_cli"


def recognizes(document: Document) -> bool:
    """Whether the value is an object with a session id and messages with types."""
    value = json_object(document)
    rows = value.get("messages")
    if "sessionId" not in value or not isinstance(rows, list):
        return False
    return not rows or (isinstance(rows[0], dict) and "type" in rows[0] and "role" not in rows[0])


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """The file's one conversation; `active` changes nothing, these files know no boundaries.

    Raises:
        InvalidTranscript: naming the message that is wrong.
    """
    rows = rows_at(json_object(document), "messages", source=document.source)
    session = Collected(document.source)
    for index, row in enumerate(rows):
        _take(session, index, row)
    return Transcript(
        source=document.source,
        format=NAME,
        wire="chat_completions",
        session_id=text_or(json_object(document).get("sessionId")),
        messages=tuple(session.messages),
        rows=session.rows,
        notes=session.notes(),
    )


def _take(session: Collected, index: int, row: object) -> None:
    """Take one row."""
    path = f"messages[{index}]"
    if not isinstance(row, dict) or not isinstance(row.get("type"), str):
        raise InvalidTranscript(session.source, f"{path}.type: a message needs one")
    if row["type"] not in ("user", "gemini"):
        session.left_out[f"{row['type']} row"] += 1
        return
    text = _content(row.get("content"))
    if text is None:
        raise InvalidTranscript(session.source, f"{path}.content: expected text or parts")
    time, known = time_of(row.get("timestamp")), row.get("id")
    own = {"id": known} if isinstance(known, str) and known not in session.rows else {}
    if row["type"] == "user":
        session.say("user", [Text(text)], row, time=time, **own)
        return
    calls = objects_in(row.get("toolCalls"))
    parts: list[Part] = [Thinking(_thought(x)) for x in objects_in(row.get("thoughts"))]
    if text:
        parts.append(Text(text))
    ids = [str(call.get("id") or f"call-{index}-{i}") for i, call in enumerate(calls)]
    parts += [_call(x, call_id) for x, call_id in zip(calls, ids, strict=True)]
    session.say("assistant", parts, row, time=time, **own)
    for call, call_id in zip(calls, ids, strict=True):
        if "result" in call or call.get("status") in ("success", "error", "cancelled"):
            session.say("tool", [_result(call, call_id)], row, time=time)


def _content(value: object) -> str | None:
    """The text of a message: a string, or parts with texts."""
    if value is None or isinstance(value, str):
        return value or ""
    parts = [value] if isinstance(value, dict) else value
    if not isinstance(parts, list):
        return None
    texts = [x if isinstance(x, str) else x.get("text") for x in parts if isinstance(x, str | dict)]
    return "\n".join(x for x in texts if isinstance(x, str))


def _thought(row: Mapping[str, Any]) -> str:
    texts = (row.get("subject"), row.get("description"))
    return "\n".join(x for x in texts if isinstance(x, str) and x)


def _call(row: Mapping[str, Any], call_id: str) -> ToolCall:
    arguments = json.dumps(row.get("args") or {}, ensure_ascii=False)
    return ToolCall(call_id, str(row.get("name") or "tool"), arguments)


def _result(row: Mapping[str, Any], call_id: str) -> ToolResult:
    """What the model was given back; what the terminal showed (`resultDisplay`) is not."""
    result = row.get("result")
    items = result if isinstance(result, list) else [] if result is None else [result]
    texts = [item if isinstance(item, str) else _response(item) for item in items]
    is_error = row.get("status") in ("error", "cancelled")
    name = str(row.get("name") or "tool")
    return ToolResult(call_id, "\n".join(texts), name, is_error)


def _response(item: object) -> str:
    body = item.get("functionResponse") if isinstance(item, dict) else None
    response = body.get("response") if isinstance(body, dict) else item
    if isinstance(response, dict) and len(response) == 1:
        only = next(iter(response.values()))
        if isinstance(only, str):
            return only
    return json.dumps(response, ensure_ascii=False)

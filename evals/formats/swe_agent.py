"""Reading SWE-agent trajectories (`.traj`): `{history: [{role, content, …}], trajectory, info}`.

`history` is the message list. The first user message that is no demonstration is the task; later
ones are what the environment answered: observations. Demonstrations are injected. Tool results name
their calls in `tool_call_ids`; where one answers several calls, the first has its text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compact.transcripts.documents import Document, json_object, rows_at
from compact.transcripts.transcript import Transcript
from evals.formats.agent_logs import AgentLog, is_row

NAME = "swe_agent"
_KEPT = ("role", "content", "tool_calls", "name")


def recognizes(document: Document) -> bool:
    """Whether the value is an object with a history of messages."""
    history = json_object(document).get("history")
    return isinstance(history, list) and (not history or is_row(history[0]))


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """The file's one conversation; `active` changes nothing, these files know no boundaries.

    Raises:
        InvalidTranscript: naming the message that is wrong.
    """
    value = json_object(document)
    log = AgentLog(document.source, "history")
    has_task = False
    for index, row in enumerate(rows_at(value, "history", source=document.source)):
        if not isinstance(row, dict):
            log.add(index, row, row={})
            continue
        speaker = _speaker(row, has_task=has_task)
        has_task |= speaker == "person"
        for wire in _wires(row):
            log.add(index, wire, row=row, speaker=speaker)
    return log.transcript(NAME, title=value.get("environment"))


def _speaker(row: Mapping[str, Any], *, has_task: bool) -> str | None:
    if row.get("role") != "user":
        return None
    if row.get("is_demo"):
        return "injected"
    return "observation" if has_task else "person"


def _wires(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    wire = {key: row[key] for key in _KEPT if row.get(key) is not None}
    wire.setdefault("content", None)
    calls = row.get("tool_call_ids")
    if row.get("role") != "tool" or not isinstance(calls, list) or not calls:
        yield wire
        return
    for position, call_id in enumerate(calls):
        yield {**wire, "tool_call_id": call_id, **({"content": ""} if position else {})}

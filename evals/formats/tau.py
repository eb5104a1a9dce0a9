"""Reading tau-bench and tau2-bench records: many conversations of an agent with a customer.

tau-bench: a list of `{task_id, traj}`, `traj` being chat completions. tau2-bench: `{simulations:
[{task_id, messages}]}`, calls being `{id, name, arguments, requestor}`. Where the customer calls
tools too (requestor `user`), those calls and their results are the customer's own side, which the
agent never saw: left out, with a note.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from compact.messages.times import time_of
from compact.transcripts.documents import Document, choose, json_object, rows_at
from compact.transcripts.transcript import Transcript
from evals.formats.agent_logs import AgentLog, is_row, json_list

TAU = "tau_bench"
TAU2 = "tau2_bench"


def recognizes_tau(document: Document) -> bool:
    """Whether the list holds records with a trajectory of messages."""
    items = json_list(document)
    first = items[0] if items else None
    rows = first.get("traj") if isinstance(first, dict) else None
    return isinstance(rows, list) and (not rows or is_row(rows[0]))


def recognizes_tau2(document: Document) -> bool:
    """Whether the object holds simulations."""
    items = json_object(document).get("simulations")
    return isinstance(items, list) and (not items or isinstance(items[0], dict))


def read_tau(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """One record of the list; `active` changes nothing, these files know no boundaries.

    Raises:
        InvalidTranscript: several and none chosen, or a message that is wrong.
    """
    items = json_list(document)
    record = choose(items, conversation, source=document.source)
    log = AgentLog(document.source, "traj")
    for index, row in enumerate(rows_at(record, "traj", source=document.source)):
        log.add(index, row, row=row if isinstance(row, dict) else {})
    return log.transcript(TAU, title=_title(record), conversations=len(items))


def read_tau2(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """One simulation; `active` changes nothing, these files know no boundaries.

    Raises:
        InvalidTranscript: several and none chosen, or a message that is wrong.
    """
    items = rows_at(json_object(document), "simulations", source=document.source)
    record = choose(items, conversation, source=document.source)
    log = AgentLog(document.source, "messages")
    hidden = 0
    for index, row in _flat(rows_at(record, "messages", source=document.source)):
        own, calls = _agents_side(row)
        hidden += calls
        if own is not None:
            wire = _wire(own) if isinstance(own, dict) else own
            log.add(index, wire, row=row, time=time_of(row.get("timestamp")))
    notes = (f"{hidden} tool calls and results of the customer's own side",) if hidden else ()
    return log.transcript(TAU2, title=_title(record), notes=notes, conversations=len(items))


def _title(record: Mapping[str, Any]) -> str:
    trial = record.get("trial")
    return f"task {record.get('task_id')}" + (f", trial {trial}" if trial is not None else "")


def _flat(rows: list[Any]) -> Iterator[tuple[int, Any]]:
    """The rows, with several tool messages in one row taken apart."""
    for index, row in enumerate(rows):
        inner = row.get("tool_messages") if isinstance(row, dict) else None
        for each in inner if isinstance(inner, list) else [row]:
            yield index, each if isinstance(each, dict) else {}


def _agents_side(row: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, int]:
    """The row without what only the customer saw, and how much that was."""
    if row.get("role") == "tool":
        return (None, 1) if row.get("requestor") == "user" else (row, 0)
    calls = row.get("tool_calls")
    if not isinstance(calls, list):
        return row, 0
    seen = [c for c in calls if not (isinstance(c, dict) and c.get("requestor") == "user")]
    hidden = len(calls) - len(seen)
    if hidden and not seen and not row.get("content"):
        return None, hidden
    return ({**row, "tool_calls": seen} if hidden else row), hidden


def _wire(row: Mapping[str, Any]) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": row.get("role"), "content": row.get("content")}
    if row.get("role") == "tool":
        wire["tool_call_id"] = row.get("id")
    elif row.get("tool_calls"):
        calls = row["tool_calls"]
        known = isinstance(calls, list)
        wire["tool_calls"] = [_call(c) for c in calls] if known else calls
    return wire


def _call(call: object) -> object:
    if not isinstance(call, dict):
        return call
    arguments = call.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    body = {"name": call.get("name"), "arguments": text}
    return {"id": call.get("id"), "type": "function", "function": body}

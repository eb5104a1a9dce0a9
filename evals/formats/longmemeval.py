"""Reading LongMemEval records: one person's sessions with an assistant over months, in one history.

Each record is a conversation: its `haystack_sessions` one after the other, in the order of their
`haystack_dates`. The questions and the evidence marks (`has_answer`) are no part of it.
"""

from __future__ import annotations

from datetime import UTC, datetime

from compact.transcripts.documents import Document, choose, rows_at
from compact.transcripts.transcript import Transcript
from evals.formats.agent_logs import AgentLog, json_list

NAME = "longmemeval"
_DATE = "%Y/%m/%d (%a) %H:%M"


def recognizes(document: Document) -> bool:
    """Whether the list holds records with haystack sessions."""
    items = json_list(document)
    return bool(items) and isinstance(items[0], dict) and "haystack_sessions" in items[0]


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """One record's history; `active` changes nothing, these files know no boundaries.

    Raises:
        InvalidTranscript: several and none chosen, or a message that is wrong.
    """
    items = json_list(document)
    record = choose(items, conversation, source=document.source)
    sessions = rows_at(record, "haystack_sessions", source=document.source)
    times = [_time(x) for x in _list(record.get("haystack_dates"))]
    order = list(range(len(sessions)))
    if len(times) == len(sessions) and None not in times:
        order = sorted(order, key=lambda place: str(times[place]))
    log = AgentLog(document.source, "haystack_sessions")
    for place in order:
        session, time = sessions[place], times[place] if place < len(times) else None
        for row in session if isinstance(session, list) else [session]:
            known = isinstance(row, dict)
            wire = {k: v for k, v in row.items() if k != "has_answer"} if known else row
            log.add(place, wire, row=row if known else {}, time=time)
    title = f"question {record.get('question_id')}, {len(sessions)} sessions"
    return log.transcript(NAME, title=title, conversations=len(items))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _time(value: object) -> datetime | None:
    try:
        return datetime.strptime(str(value), _DATE).replace(tzinfo=UTC)
    except ValueError:
        return None

"""Reading mini-SWE-agent trajectories: `{messages: [{role, content}], info, trajectory_format}`.

A text protocol: one shell block a reply, its output is the next user message. So the first user
message is the task and the others are observations. The raw replies in `extra` are left out.
"""

from __future__ import annotations

from compact.transcripts.documents import Document, json_object, rows_at
from compact.transcripts.transcript import Transcript
from evals.formats.agent_logs import AgentLog

NAME = "mini_swe_agent"


def recognizes(document: Document) -> bool:
    """Whether the object names its format, or has a SWE-bench instance and its messages."""
    value = json_object(document)
    if "messages" not in value:
        return False
    named = value.get("trajectory_format")
    return (isinstance(named, str) and named.startswith("mini-swe-agent")) or (
        "instance_id" in value and "info" in value
    )


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """The file's one conversation; `active` changes nothing, these files know no boundaries.

    Raises:
        InvalidTranscript: naming the message that is wrong.
    """
    value = json_object(document)
    log = AgentLog(document.source, "messages")
    has_task = False
    for index, row in enumerate(rows_at(value, "messages", source=document.source)):
        if not isinstance(row, dict):
            log.add(index, row, row={})
            continue
        speaker = None
        if row.get("role") == "user":
            speaker = "observation" if has_task else "person"
            has_task = True
        wire = {k: v for k, v in row.items() if k != "extra"}
        log.add(index, wire, row=row, speaker=speaker)
    return log.transcript(NAME, title=value.get("instance_id"))

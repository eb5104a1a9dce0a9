"""Writes Claude Code sessions: a complete new file in Claude Code's format.

The file has a `compact_boundary` row and one summary row. After them come the kept rows in log
order with their uuids, as one chain of parents, without progress, snapshots and raw results. The
output depends on the input only: new uuids are made from the content, and the boundary has the time
of the last kept row. Without a summary there is no boundary.

The boundary has the form of boundaries in real sessions: the summary comes directly after it, and
all kept messages come after the summary. Nobody has tried to resume such a file.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from compact.json_text import write_json
from compact.messages.formats.anthropic import Anthropic
from compact.messages.messages import Message, Part
from compact.transcripts.transcript import Row, Transcript

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "transcripts.compact")
COMMON = ("isSidechain", "userType", "cwd", "sessionId", "version", "gitBranch", "slug")
"""Keys that every row of a session has."""
_DEFAULTS: Mapping[str, Any] = {
    "isSidechain": False,
    "userType": "external",
    "cwd": "",
    "sessionId": "",
    "version": "",
    "gitBranch": "",
}
_WRITER = Anthropic()


def render(transcript: Transcript, messages: Sequence[Message], *, pre_tokens: int) -> str:
    """Write the messages as Claude Code JSON Lines.

    `pre_tokens` is the number of tokens of the context before, for the boundary row. Several
    checkpoints become one summary row, with an empty line between their texts.
    """
    checkpoints = [m for m in messages if m.metadata.source == "checkpoint"]
    kept = [m for m in messages if m.metadata.source != "checkpoint"]
    file = _File(transcript, *_template(transcript, kept or checkpoints))
    if checkpoints:
        file.add_boundary(checkpoints, pre_tokens)
    for message in kept:
        file.add_message(message)
    return "".join(write_json(row) + "\n" for row in file.written)


def _template(transcript: Transcript, kept: Sequence[Message]) -> tuple[Row, str]:
    """Return the keys that the session's rows share, and the time of the last kept row."""
    for message in reversed(kept):
        rows = transcript.rows.get(message.id)
        if rows:
            common = {k: rows[-1][k] for k in COMMON if k in rows[-1]}
            return {**_DEFAULTS, **common}, rows[-1].get("timestamp") or _moment(message)
    return _DEFAULTS, _moment(kept[-1]) if kept else "1970-01-01T00:00:00.000Z"


def _moment(message: Message) -> str:
    return message.timestamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(slots=True)
class _File:
    transcript: Transcript
    template: Row
    time: str
    written: list[dict[str, Any]] = field(default_factory=list)
    uuids: set[str] = field(default_factory=set)

    def add_boundary(self, checkpoints: Sequence[Message], pre_tokens: int) -> None:
        """Add the boundary row and its summary row."""
        text = "\n\n".join(m.text for m in checkpoints)
        boundary = {
            "parentUuid": None,
            "logicalParentUuid": self.transcript.container.fields.get("last_uuid"),
            **self.template,
            "type": "system",
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "isMeta": False,
            "timestamp": self.time,
            "uuid": self._new_uuid("boundary", text),
            "level": "info",
            "compactMetadata": {"trigger": "manual", "preTokens": pre_tokens},
        }
        self._append(boundary)
        old = self.transcript.rows.get(checkpoints[0].id)
        if len(checkpoints) == 1 and old and not checkpoints[0].edited:
            self._append({**old[0], "parentUuid": boundary["uuid"]})
            return
        self._append(
            {
                "parentUuid": boundary["uuid"],
                **self.template,
                "type": "user",
                "message": {"role": "user", "content": text},
                "isVisibleInTranscriptOnly": True,
                "isCompactSummary": True,
                "uuid": self._new_uuid("summary", text),
                "timestamp": self.time,
            }
        )

    def add_message(self, message: Message) -> None:
        """Add the rows of a message. If the message was edited, blocks are changed."""
        rows = self.transcript.rows.get(message.id)
        if rows is None:
            self._append(self._new_row(message))
            return
        for row in _edited(message, rows) if message.edited else rows:
            kept = {k: v for k, v in row.items() if k != "toolUseResult"}
            if kept.get("sourceToolAssistantUUID", "") not in {"", *self.uuids}:
                del kept["sourceToolAssistantUUID"]
            self._append({**kept, "parentUuid": self.written[-1]["uuid"] if self.written else None})

    def _new_row(self, message: Message) -> dict[str, Any]:
        wire = _WRITER.render([message])[0]
        row = {
            "parentUuid": self.written[-1]["uuid"] if self.written else None,
            **self.template,
            "type": "assistant" if message.role == "assistant" else "user",
            "message": wire,
            "uuid": self._new_uuid("row", write_json(wire)),
            "timestamp": _moment(message),
        }
        return row if message.metadata.source != "injected" else {**row, "isMeta": True}

    def _append(self, row: dict[str, Any]) -> None:
        if not isinstance(row.get("uuid"), str):
            row = {**row, "uuid": self._new_uuid("row", write_json(row))}
        self.uuids.add(row["uuid"])
        self.written.append(row)

    def _new_uuid(self, kind: str, text: str) -> str:
        """Return a uuid made from content and place: the same input gives the same bytes."""
        place = f"{self.template.get('sessionId')}/{kind}/{len(self.written)}"
        digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return str(uuid.uuid5(_NAMESPACE, f"{place}/{digest}"))


def _edited(message: Message, rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield the rows of an edited message that still have blocks, with these blocks."""
    if isinstance(message.content, str):
        yield {**rows[0], "message": {**rows[0]["message"], "content": message.content}}
        return
    for row, parts in zip(rows, _parts_by_row(message.content, rows), strict=True):
        if parts:
            update = {"content": tuple(parts), "wire": row["message"]}
            wire = _WRITER.render([message.model_copy(update=update)])[0]
            yield {**row, "message": wire}


def _parts_by_row(parts: Sequence[Part], rows: Sequence[Row]) -> list[list[Part]]:
    """Return each row's parts, matched by their blocks. A new part goes with the one before."""
    contents = (row["message"].get("content") for row in rows)
    blocks = [
        (index, block)
        for index, content in enumerate(contents)
        for block in (content if isinstance(content, list) else ())
    ]
    by_row: list[list[Part]] = [[] for _ in rows]
    current = start = 0
    for part in parts:
        for at in range(start, len(blocks)):
            if part.raw == blocks[at][1]:
                current, start = blocks[at][0], at + 1
                break
        by_row[current].append(part)
    return by_row

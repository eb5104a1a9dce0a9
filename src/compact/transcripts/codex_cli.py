"""Reads OpenAI Codex CLI rollouts: JSON Lines of `{timestamp, type, payload}`.

The `response_item` rows are the conversation, as items of the Responses API. Older files have a
head and then the items themselves. Decisions:

- All other rows are the program's own records, or repeat an item. They are left out, and counted.
- The user typed a `user` item if a `user_message` event has the same text. The program wrote the
  others (a repository's instructions, the environment): they are `injected`. In a file without such
  events, the text alone decides.
- A `compacted` row after other items is left out, because its originals are in the file. With
  `active`, or if nothing comes before it, its contents replace the items. They are the
  `replacement_history`, or else what the program itself continues with: the instructions, the
  user's messages and the summary, which is a checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from compact.errors import InvalidTranscript
from compact.messages.formats.responses import Responses
from compact.messages.messages import MessageMetadata
from compact.messages.times import time_of
from compact.transcripts.documents import Document, JsonLines
from compact.transcripts.transcript import NO_BOUNDARY, Collected, Row, Transcript

NAME = "codex_cli"
_TYPES = ("session_meta", "turn_context", "response_item", "event_msg", "compacted")
_TYPED = (None, "plain")
"""Values of `kind` in a `user_message` event with typed text. Some events have no kind."""
_PARSER = Responses()


def recognizes(document: Document) -> bool:
    """Whether the first row is a record of a rollout."""
    match document.rows:
        case [(_, {"type": str(kind), "payload": dict()}), *_]:
            return kind in _TYPES
        case [(_, {"id": str(), "timestamp": str(), "instructions": _} as head), *_]:
            return "role" not in head and isinstance(document, JsonLines)
        case [_, (_, {"record_type": str()}), *_]:
            return True
    return False


def _is_record(row: Row) -> bool:
    return isinstance(row.get("type"), str) or not {"record_type", "instructions"}.isdisjoint(row)


def _enveloped(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row in the current form. Older files have bare items, and records without a type."""
    if "payload" in row or row.get("type") in _TYPES:
        return row
    if "type" in row:
        return {"type": "response_item", "payload": row, "timestamp": row.get("timestamp")}
    kind = "session_meta" if "instructions" in row else str(row["record_type"])
    return {"type": kind, "payload": row}


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """Read the file's one conversation.

    Raises:
        InvalidTranscript: names the line of a wrong row or item.
    """
    rollout = _Rollout(document.source, active=active, earlier=document.earlier)
    for number, row in rollout.checked(document.rows, _is_record, "a record with a type"):
        rollout.attempt(partial(rollout.take, number, _enveloped(row)))
    rollout.finish()
    return rollout.transcript(
        document,
        NAME,
        after=(NO_BOUNDARY,) * (active and not rollout.left_out["compacted row"]),
        wire="responses",
        model=rollout.model,
        session_id=rollout.session_id,
    )


@dataclass(frozen=True, slots=True)
class _Item:
    raw: Any
    number: int
    row: Row

    @property
    def role(self) -> object:
        """The role of the item, if it is a message."""
        return self.raw.get("role") if isinstance(self.raw, dict) else None

    @property
    def texts(self) -> set[str]:
        """The texts of the item's content."""
        content = self.raw.get("content")
        parts = content if isinstance(content, list) else [{"text": content}]
        texts = (part.get("text") for part in parts if isinstance(part, dict))
        return {text.strip() for text in texts if isinstance(text, str)}


@dataclass(slots=True)
class _Rollout(Collected):
    active: bool = False
    earlier: int = 0
    """How many items come before the compaction from which on the file was loaded."""
    model: str | None = None
    session_id: str | None = None
    _items: list[_Item] = field(default_factory=list)
    _kept: int = 0
    """How many of the items come from before the rows that follow the compaction."""
    _typed: set[str] = field(default_factory=set)
    _summaries: set[str] = field(default_factory=set)

    def take(self, number: int, row: dict[str, Any]) -> None:
        """Add one row of the file.

        Raises:
            InvalidTranscript: it has no payload.
        """
        match row:
            case {"type": "response_item", "payload": {"type": "ghost_snapshot"}}:
                pass  # the state of the files, which no model is sent
            case {"type": "response_item", "payload": dict(raw)}:
                self._items.append(_Item(raw, number, row))
                return
            case {"type": "compacted", "payload": dict(payload)}:
                self._compact(number, row, payload)
            case {"type": "response_item" | "compacted"}:
                raise InvalidTranscript(self.source, "the row has no payload", line=number)
            case {"type": "event_msg", "payload": {"type": "user_message", "message": str(text)}}:
                if row["payload"].get("kind") in _TYPED:
                    self._typed.add(text.strip())
            case {"type": "session_meta", "payload": {"id": str(own)}}:
                self.session_id = self.session_id or own
            case {"type": "turn_context", "payload": {"model": str(model)}}:
                self.model = model
        self.left_out[f"{row['type']} row"] += 1

    def _compact(self, number: int, row: Row, payload: Mapping[str, Any]) -> None:
        """Replace earlier items by what a compaction kept, if `active` is set or there are none."""
        summary = payload.get("message")
        has_summary = isinstance(summary, str) and bool(summary.strip())
        kept = payload.get("replacement_history")
        self._kept = len(self._items)
        if self._items and not self.active:
            return
        if isinstance(kept, list):
            self._items = [_Item(raw, number, row) for raw in kept]
        else:
            messages = [item for item in self._items if item.role in ("user", "developer")]
            self._items = [item for item in messages if not item.texts & self._summaries]
            if has_summary:
                raw = {"type": "message", "role": "user", "content": summary}
                self._items.append(_Item(raw, number, row))
        self._kept = len(self._items)
        if has_summary:
            self._summaries.add(str(summary).strip())

    def finish(self) -> None:
        """Turn the items into messages."""
        for item in self._items:
            self.attempt(partial(self._add, item))

    def _add(self, item: _Item) -> None:
        message = self.parsed(_PARSER, item.raw, "the item", line=item.number)
        update: dict[str, Any] = {}
        position = len(self.messages)
        if self.earlier and message.id == f"m{position}":  # the id that it has in the whole file
            at = position - self._kept
            update["id"] = f"m{self.earlier + at}" if at >= 0 else f"earlier-{position}"
        if (time := time_of(item.row.get("timestamp"))) is not None:
            update["timestamp"] = time
        if item.role == "user" and (source := self._source_of(item)) is not None:
            update["metadata"] = MessageMetadata(source=source)
        self.add(message.model_copy(update=update), item.row)

    def _source_of(self, item: _Item) -> str | None:
        """Return who wrote an item of the role `user`. Return None if the file does not show it."""
        if item.texts & self._summaries:
            return "checkpoint"
        if not self._typed:
            return None
        return "person" if item.texts & self._typed else "injected"

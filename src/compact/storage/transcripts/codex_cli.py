"""Reading OpenAI Codex CLI rollouts: JSON Lines of `{timestamp, type, payload}`, of which the
`response_item` rows are the conversation, as items of the Responses API.

What is decided here:

- All other rows are the program's own records, or say again what an item says: left out, counted.
- A `user` item is a person's where a `user_message` event holds the same words. Any other one was
  put there by the program (instructions of a repository, the environment): `injected`. In a file
  without such events the words alone decide.
- A `compacted` row is left out where its originals are in the file, that is behind other items.
  With `active`, and where nothing stands before it, what it kept takes their place: its
  `replacement_history`, else what the program itself went on from: the instructions, the person's
  messages and the summary. The summary is a checkpoint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from compact.core.formats.responses import Responses
from compact.core.messages import Message, MessageMetadata
from compact.errors import InvalidMessage, InvalidTranscript, ServerHeldState
from compact.storage.transcripts.choosing import choose
from compact.storage.transcripts.documents import Document, JsonLines, PlainText
from compact.storage.transcripts.timestamps import time_of
from compact.storage.transcripts.transcript import Row, Transcript

NAME = "codex_cli"
_TYPES = ("session_meta", "turn_context", "response_item", "event_msg", "compacted")
_TYPED = (None, "plain")
"""Kinds of `user_message` events, where they have one, that hold what a person typed."""
_PARSER = Responses()


def recognizes(document: Document) -> bool:
    """Whether the first row is a record of a rollout."""
    if isinstance(document, PlainText):
        return False
    row = document.rows[0][1]
    return (
        isinstance(row, dict) and row.get("type") in _TYPES and isinstance(row.get("payload"), dict)
    )


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """The file's one conversation.

    Raises:
        InvalidTranscript: naming the line of a row that is no record, or of an item that is wrong.
    """
    assert not isinstance(document, PlainText)
    choose([document], conversation, source=document.source)
    rollout = _Rollout(document.source, active=active)
    for number, row in document.rows:
        rollout.take(number, row)
    messages, rows = rollout.messages()
    return Transcript(
        source=document.source,
        format=NAME,
        wire="responses",
        messages=tuple(messages),
        model=rollout.model,
        rows=rows,
        notes=(*rollout.notes(), *(document.notes if isinstance(document, JsonLines) else ())),
    )


@dataclass(frozen=True, slots=True)
class _Item:
    """An item, and the row that it stands in."""

    raw: Any
    number: int
    row: Row

    @property
    def role(self) -> object:
        """The role, where it is a message."""
        return self.raw.get("role") if isinstance(self.raw, dict) else None

    @property
    def texts(self) -> set[str]:
        """The texts of its content."""
        content = self.raw.get("content")
        parts = content if isinstance(content, list) else [{"text": content}]
        found = (part.get("text") for part in parts if isinstance(part, dict))
        return {text.strip() for text in found if isinstance(text, str)}


@dataclass(slots=True)
class _Rollout:
    """Collects the items of the rows as they come."""

    source: str
    active: bool
    model: str | None = None
    _items: list[_Item] = field(default_factory=list)
    _typed: set[str] = field(default_factory=set)
    _summaries: set[str] = field(default_factory=set)
    _left_out: Counter[str] = field(default_factory=Counter)

    def take(self, number: int, row: object) -> None:
        """Take one row.

        Raises:
            InvalidTranscript: it is no record, or one that lacks its payload.
        """
        if not isinstance(row, dict) or not isinstance(row.get("type"), str):
            raise InvalidTranscript(self.source, "not a record with a type", line=number)
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
            case {"type": "event_msg", "payload": {"type": "user_message", "message": str(said)}}:
                if row["payload"].get("kind") in _TYPED:
                    self._typed.add(said.strip())
            case {"type": "turn_context", "payload": {"model": str(model)}}:
                self.model = model
        self._left_out[row["type"]] += 1

    def _compact(self, number: int, row: Row, payload: Mapping[str, Any]) -> None:
        """Put what a compaction kept in the place of the items before it, where that is asked."""
        summary = payload.get("message")
        told = isinstance(summary, str) and bool(summary.strip())
        kept = payload.get("replacement_history")
        if self._items and not self.active:
            return
        if isinstance(kept, list):
            self._items = [_Item(raw, number, row) for raw in kept]
        else:
            said = [item for item in self._items if item.role in ("user", "developer")]
            self._items = [item for item in said if not item.texts & self._summaries]
            if told:
                raw = {"type": "message", "role": "user", "content": summary}
                self._items.append(_Item(raw, number, row))
        if told:
            self._summaries.add(str(summary).strip())

    def messages(self) -> tuple[list[Message], dict[str, tuple[Row, ...]]]:
        """The items as messages, and the row of each.

        Raises:
            InvalidTranscript: naming the line of an item that is wrong.
        """
        messages: list[Message] = []
        rows: dict[str, tuple[Row, ...]] = {}
        for item in self._items:
            message = self._message(item, messages)
            if message.id in rows:
                again = f"m{len(messages)}-{item.number}"
                message = message.model_copy(update={"id": again})
            messages.append(message)
            rows[message.id] = (item.row,)
        return messages, rows

    def _message(self, item: _Item, before: list[Message]) -> Message:
        try:
            message = _PARSER.parse(item.raw, len(before), reversed(before))
        except InvalidMessage as error:
            reason = f"the item{error.path.partition(']')[2]}: {error.reason}"
            raise InvalidTranscript(self.source, reason, line=item.number) from None
        except ServerHeldState as error:
            raise InvalidTranscript(self.source, str(error), line=item.number) from None
        update: dict[str, Any] = {}
        if (time := time_of(item.row.get("timestamp"))) is not None:
            update["timestamp"] = time
        if item.role == "user" and (source := self._source_of(item)) is not None:
            update["metadata"] = MessageMetadata(source=source)
        return message.model_copy(update=update)

    def _source_of(self, item: _Item) -> str | None:
        """Who made an item of the role `user`; None where the file does not tell."""
        if item.texts & self._summaries:
            return "checkpoint"
        if not self._typed:
            return None
        return "person" if item.texts & self._typed else "injected"

    def notes(self) -> Iterator[str]:
        """What was left out, in words."""
        for kind, count in sorted(self._left_out.items()):
            yield f"{count} {kind} {'row' if count == 1 else 'rows'}"
        if self.active and not self._left_out["compacted"]:
            yield "no compaction boundary: active is the whole file"

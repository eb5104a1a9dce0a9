"""Reads the `conversations.json` of a Claude account's export.

It is a list of `{uuid, name, chat_messages: [{sender, content: [{type, …}], text, attachments,
files}]}`. Decisions:

- A reply holds its calls and their results in one content. They become replies and tool messages in
  the same order. A result without an id answers the oldest waiting call to its tool.
- The text of an attachment becomes an `injected` message after the user's. Of other files, the
  export has only the names. They are shown in brackets, and counted.
- If messages name their parents, the conversation is the branch of the current message (else of the
  last one). Messages of other branches are left out, and counted.
- `text` repeats `content`. It is read only if there is no content.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from compact.errors import InvalidTranscript
from compact.json_text import write_json
from compact.messages.messages import Part, Text, Thinking, ToolResult
from compact.messages.times import time_of
from compact.transcripts.documents import Document, choose, objects_in, rows_at, values_of
from compact.transcripts.pairing import INJECTED, Paired, unknown_role
from compact.transcripts.transcript import Row, Transcript, branch_of, text_or

NAME = "claude_export"
_FILE = "file, of which only the name is kept|files, of which only the names are kept"
_SENDERS = {"human": "user", "user": "user", "assistant": "assistant"}


def recognizes(document: Document) -> bool:
    """Whether one of the first values is a conversation with chat messages."""
    return any(_is_conversation(value) for value in values_of(document)[:20])


def titles(document: Document) -> list[str | None]:
    """Return the conversations' names, in order."""
    values = values_of(document)
    return [text_or(value.get("name")) if isinstance(value, dict) else None for value in values]


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """Read one conversation. These files record no compactions, so `active` changes nothing.

    Raises:
        InvalidTranscript: names the wrong message.
    """
    values = values_of(document)
    value = choose(values, conversation, source=document.source, titles=lambda: titles(document))
    rows = rows_at(value, "chat_messages", source=document.source)
    chat = _Chat(document.source)
    messages = [row if isinstance(row, dict) else {} for row in rows]
    ids = [each if isinstance(each := row.get("uuid"), str) else None for row in messages]
    parents = [str(row.get("parent_message_uuid")) for row in messages]
    branch = branch_of(ids, parents, value.get("current_leaf_message_uuid"))
    for index in branch:
        chat.attempt(partial(chat.take, index, rows[index]))
    left = len(rows) - len(branch)
    chat.finish()
    other = "message of another branch" if left == 1 else "messages of other branches"
    return chat.transcript(
        document,
        NAME,
        before=[f"{left} {other}"] if left else (),
        whole=value,
        title=text_or(value.get("name")),
        model=text_or(value.get("model")),
        session_id=text_or(value.get("uuid")),
        conversations=len(values),
    )


def _is_conversation(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("chat_messages"), list)


@dataclass(slots=True)
class _Chat(Paired):
    def take(self, index: int, row: object) -> None:
        """Add one message of the file.

        Raises:
            InvalidTranscript: it has no known sender, or its content is no list.
        """
        path = f"chat_messages[{index}]"
        sender = row.get("sender") if isinstance(row, dict) else None
        if not isinstance(row, dict) or not isinstance(sender, str):
            reason = f"{path}.sender: expected human or assistant, got {sender!r}"
            raise InvalidTranscript(self.source, reason)
        content = row.get("content")
        if content is not None and not isinstance(content, list):
            raise InvalidTranscript(self.source, f"{path}.content: expected a list of blocks")
        blocks = objects_in(content)
        if all(block.get("type") == "text" and not block.get("text") for block in blocks):
            blocks = [{"type": "text", "text": row.get("text")}]
        before = len(self.messages)
        self._blocks(sender, blocks, row)
        self._attached(row)
        if len(self.messages) == before:
            self.left_out["empty message"] += 1

    def _blocks(self, sender: str, blocks: Sequence[Row], row: Row) -> None:
        """Add the blocks before each result as one message, and each result as another."""
        parts: list[Part] = []
        for block in blocks:
            match block:
                case {"type": "text", "text": str(text)}:
                    parts += [Text(text)] if text else []
                case {"type": "text"}:
                    pass
                case {"type": "thinking", "thinking": str(text)}:
                    parts += [Thinking(text)] if text else []
                case {"type": "tool_use"}:
                    call = self.call(block.get("id"), block.get("name"), block.get("input"))
                    parts.append(call)
                case {"type": "tool_result"}:
                    self._say(sender, parts, row)
                    parts = []
                    self._result(block, row)
                case {"text": str(text)}:
                    parts.append(Text(text))
                case _:
                    self.left_out[f"{block.get('type')} block"] += 1
        for each in objects_in(row.get("files")):
            parts.append(Text(f"[file {each.get('file_name')}]"))
            self.left_out[_FILE] += 1
        self._say(sender, parts, row)

    def _result(self, block: Row, row: Row) -> None:
        call_id = block.get("tool_use_id")
        call = self.call_by_id(call_id) or self.waiting_call(block.get("name"))
        output = block.get("content")
        if isinstance(output, list):
            texts = [each.get("text") if isinstance(each, dict) else each for each in output]
            text = "\n".join(
                text if isinstance(text, str) else write_json(each)
                for text, each in zip(texts, output, strict=True)
            )
        else:
            text = (
                output if isinstance(output, str) else "" if output is None else write_json(output)
            )
        result = ToolResult("", text, is_error=block.get("is_error") is True)
        time = time_of(block.get("stop_timestamp")) or time_of(row.get("created_at"))
        self.answer(call, result, row, time=time)

    def _attached(self, row: Row) -> None:
        for each in objects_in(row.get("attachments")):
            text = text_or(each.get("extracted_content"))
            part = Text(f"[attached {each.get('file_name') or 'text'}]\n{text or ''}".rstrip())
            time = time_of(row.get("created_at"))
            self.say("user", [part], row, time=time, metadata=INJECTED)

    def _say(self, sender: str, parts: list[Part], row: Row) -> None:
        if not parts:
            return
        more: dict[str, Any] = dict(self.own_id(row.get("uuid")))
        if sender not in _SENDERS:
            self.left_out[unknown_role(sender)] += 1
            more["metadata"] = INJECTED
        time = time_of(row.get("created_at"))
        self.say(_SENDERS.get(sender, "user"), parts, row, time=time, **more)

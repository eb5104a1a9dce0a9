"""Reads prompts that the user typed into Claude Code while the model worked.

The file records them as `queue-operation` rows, not as messages. `enqueue` has the text. `remove`
means that the model got the prompt in the middle of a turn; newer files also have a
`queued_command` attachment. `dequeue` means that a turn began with the prompt; its user row
follows. `popAll` means that the user took the prompts back to change them.

A prompt that the model got, or that never left the queue, becomes one user message. It is placed
where it left the queue, or at the first later place where a conversation may be cut. A prompt that
a user row repeats is not added again.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compact.messages.boundaries import may_cut_before
from compact.messages.messages import Message
from compact.text.speakers import person_text, speaker_of, spoken_text
from compact.transcripts.claude_code_writing import COMMON
from compact.transcripts.transcript import Row

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "queue.transcripts.compact")
_NOT_OF_USERS = frozenset(("type", "attachment", "operation", "content", "reason"))
"""Keys of queue rows that a user row does not have."""


@dataclass(slots=True)
class _Prompt:
    text: str
    row: Row
    number: int
    at: int | None = None
    began_a_turn: bool = False


@dataclass(slots=True)
class Queue:
    """The queued prompts of a file."""

    _waiting: list[_Prompt] = field(default_factory=list)
    _done: list[_Prompt] = field(default_factory=list)

    def take(self, number: int, row: Row, at: int) -> None:
        """Read a row that is not a message. `at` is the number of messages before it."""
        content = row.get("content")
        text = content if isinstance(content, str) else None
        match row.get("operation"):
            case "enqueue" if text is not None:
                self._waiting.append(_Prompt(text, row, number))
            case "dequeue":
                self._leave(text, at, began_a_turn=True)
            case "remove":
                self._leave(text, at)
            case "popAll":
                self._waiting = [p for p in self._waiting if not spoken_text(p.text)]
            case _ if row["type"] == "attachment":
                self._take_attachment(number, row, at)

    def _take_attachment(self, number: int, row: Row, at: int) -> None:
        attachment = row.get("attachment")
        if not isinstance(attachment, dict) or attachment.get("type") != "queued_command":
            return
        if attachment.get("commandMode", "prompt") != "prompt":
            return
        text = _text_of(attachment.get("prompt"))
        queued = [p for p in (*self._done, *self._waiting[::-1]) if p.text.strip() == text.strip()]
        if queued:
            prompt = queued[-1]
            self._leave(prompt.text, at)
        else:
            prompt = _Prompt(text, row, number, at)
            self._done.append(prompt)
        prompt.row = {**row, "timestamp": attachment.get("timestamp", row.get("timestamp"))}

    def _leave(self, said: str | None, at: int, *, began_a_turn: bool = False) -> None:
        """Remove the prompt with this text from the queue. Without a text, remove the oldest."""
        for index, prompt in enumerate(self._waiting):
            if said is None or prompt.text == said:
                prompt.at, prompt.began_a_turn = at, began_a_turn
                self._done.append(self._waiting.pop(index))
                return

    def repeat(self, text: str) -> None:
        """Remove the waiting prompts that this user message contains."""
        self._waiting = [p for p in self._waiting if not _has_lines(text, p.text)]

    def placed(
        self, messages: Sequence[Message], rows: Mapping[str, tuple[Row, ...]]
    ) -> list[tuple[int, int, dict[str, Any]]]:
        """Return the prompts that become messages. Each has the index of the message after it, its
        line, and its user row.
        """
        placed = list[tuple[int, int, dict[str, Any]]]()
        for prompt in sorted((*self._done, *self._waiting), key=lambda p: p.number):
            at = len(messages) if prompt.at is None else min(prompt.at, len(messages))
            if not _user_text(prompt.text) or _is_repeated(prompt, messages[at:]):
                continue
            while not may_cut_before(messages, at):
                at += 1
            near = rows.get(messages[max(0, at - 1)].id, ()) if messages else ()
            placed.append((at, prompt.number, _row(prompt, near[-1] if near else {})))
        return sorted(placed, key=lambda each: each[:2])


def _text_of(prompt: object) -> str:
    if isinstance(prompt, str):
        return prompt
    blocks = prompt if isinstance(prompt, list) else []
    return "\n".join(str(b["text"]) for b in blocks if isinstance(b, dict) and "text" in b)


def _user_text(text: str) -> str:
    """Return what the user wrote in a prompt. It is empty for a command alone."""
    words = spoken_text(text)
    return "" if words.startswith("/") and len(words.split()) == 1 else words


def _is_repeated(prompt: _Prompt, after: Sequence[Message]) -> bool:
    """Whether the user's next message, before any reply, repeats this prompt."""
    for message in after:
        match speaker_of(message):
            case "assistant":
                return False
            case "person":
                return prompt.began_a_turn or _has_lines(person_text(message), prompt.text)
    return False


def _has_lines(text: str, prompt: str) -> bool:
    """Whether the text contains the prompt as whole lines."""
    return bool(prompt.strip()) and f"\n{prompt.strip()}\n" in f"\n{text.strip()}\n"


def _row(prompt: _Prompt, near: Row) -> dict[str, Any]:
    """Return the user row that Claude Code would have written for the prompt."""
    common = {k: v for k, v in near.items() if k in COMMON}
    own = {k: v for k, v in prompt.row.items() if k not in _NOT_OF_USERS}
    own_uuid = uuid.uuid5(_NAMESPACE, f"{own.get('sessionId')}/{prompt.number}/{prompt.text}")
    return {
        "parentUuid": None,
        **common,
        **own,
        "type": "user",
        "message": {"role": "user", "content": prompt.text},
        "uuid": own.get("uuid") or str(own_uuid),
    }

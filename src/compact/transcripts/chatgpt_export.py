"""Reads the `conversations.json` of a ChatGPT account's export: a list of conversations.

Each conversation is a tree, `{title, mapping: {id: {message, parent, children}}, current_node}`.
Decisions:

- The branch that ends in `current_node` is the conversation. Messages of other branches (edited
  prompts, repeated replies) are left out, and counted.
- A message to a tool (`recipient`) is a call. The tool's messages after it are its results. These
  files have no ids for calls: a result answers the oldest waiting call to the tool, or else the
  call just before.
- Reasoning (`thoughts`) belongs to the reply after it.
- Texts that the user set for all conversations (`user_editable_context`) and that the model
  remembered (`model_editable_context`) are system messages. Other hidden messages of the role
  `user` are `injected`. Messages without contents are left out, and counted.
- The export has only the names of pictures, sound and files. They are shown in brackets, and
  counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from compact.errors import InvalidTranscript
from compact.json_text import write_json
from compact.messages.messages import Part, Text, Thinking, ToolResult
from compact.messages.times import time_of
from compact.transcripts.documents import Document, choose, objects_in, values_of
from compact.transcripts.pairing import INJECTED, Paired, texts_of, unknown_role
from compact.transcripts.transcript import Row, Transcript, text_or

NAME = "chatgpt_export"
_SET_FOR_ALL = ("user_editable_context", "model_editable_context")
"""Content types of texts that apply to all conversations of the account."""
_ABOUT = ("about_user_message", "about_model_message")
"""Keys under which older messages have the user's instructions for all conversations."""
_CONTEXT = ("user_profile", "user_instructions", "model_set_context", "repository", "repo_summary")
"""Keys for the texts in contents that apply to all conversations."""


def recognizes(document: Document) -> bool:
    """Whether one of the first values is a conversation with a mapping of nodes."""
    return any(_is_conversation(value) for value in values_of(document)[:20])


def titles(document: Document) -> list[str | None]:
    """Return the conversations' titles, in order."""
    values = values_of(document)
    return [text_or(value.get("title")) if isinstance(value, dict) else None for value in values]


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """Read one conversation of the file: the branch that was shown last. `active` changes nothing.

    Raises:
        InvalidTranscript: names the wrong node.
    """
    values = values_of(document)
    value = choose(values, conversation, source=document.source, titles=lambda: titles(document))
    if not _is_conversation(value):
        raise InvalidTranscript(
            document.source, f"conversation {conversation or 1} is no object with a mapping"
        )
    mapping: dict[str, Any] = value["mapping"]
    tree = _Tree(document.source, mapping)
    path = tree.path(value.get("current_node"))
    branch = _ShownBranch(document.source)
    for node in path:
        branch.attempt(partial(branch.take, node, mapping[node]))
    branch.finish()
    return branch.transcript(
        document,
        NAME,
        before=tree.notes(path),
        whole=value,
        title=text_or(value.get("title")),
        model=branch.model or text_or(value.get("default_model_slug")),
        session_id=text_or(value.get("conversation_id")) or text_or(value.get("id")),
        conversations=len(values),
    )


def _is_conversation(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("mapping"), dict)


@dataclass(frozen=True, slots=True)
class _Tree:
    source: str
    mapping: Mapping[str, Any]

    def path(self, current: object) -> list[str]:
        """Return the nodes from the root to the current node, or to the newest leaf.

        Raises:
            InvalidTranscript: a node is no object, or is its own ancestor.
        """
        for name, node in self.mapping.items():
            if not isinstance(node, dict):
                raise InvalidTranscript(self.source, f"mapping.{name}: expected an object")
        is_there = isinstance(current, str) and current in self.mapping
        at = current if is_there else self._newest()
        path: dict[str, None] = {}
        while isinstance(at, str) and at in self.mapping:
            if at in path:
                raise InvalidTranscript(self.source, f"mapping.{at}: is its own ancestor")
            path[at] = None
            at = self.mapping[at].get("parent")
        return list(reversed(path))

    def _newest(self) -> str | None:
        leaves = [name for name, node in self.mapping.items() if not node.get("children")]
        return max(leaves, key=self._said_at, default=None)

    def _said_at(self, name: str) -> float:
        message = self.mapping[name].get("message")
        time = message.get("create_time") if isinstance(message, dict) else None
        return time if isinstance(time, int | float) else 0.0

    def notes(self, path: Sequence[str]) -> tuple[str, ...]:
        """Return a note on how many messages are in other branches."""
        shown = set(path)
        others = sum(
            isinstance(node.get("message"), dict) and name not in shown
            for name, node in self.mapping.items()
        )
        what = "message of another branch" if others == 1 else "messages of other branches"
        return (f"{others} {what}",) if others else ()


@dataclass(slots=True)
class _ShownBranch(Paired):
    model: str | None = None
    _thoughts: list[Part] = field(default_factory=list)
    """Reasoning that is waiting for its reply."""
    _thinking: list[Row] = field(default_factory=list)
    """The rows that hold this reasoning."""

    def take(self, name: str, node: Row) -> None:
        """Add the message of one node.

        Raises:
            InvalidTranscript: its message has no author with a role, or no content.
        """
        message = node.get("message")
        if message is None:
            return
        match message:
            case {"author": {"role": str(role)}, "content": dict(content)}:
                pass
            case _:
                reason = f"mapping.{name}.message: expected an author with a role, and a content"
                raise InvalidTranscript(self.source, reason)
        self._message(role, content, message)

    def _message(self, role: str, content: Row, message: Row) -> None:
        metadata = message.get("metadata")
        facts: Row = metadata if isinstance(metadata, dict) else {}
        self.model = text_or(facts.get("model_slug")) or self.model
        kind = str(content.get("content_type"))
        if kind == "thoughts":
            for each in objects_in(content.get("thoughts")):
                if thought := "\n".join(texts_of((each.get("summary"), each.get("content")))):
                    self._thoughts.append(Thinking(thought))
            self._thinking.append(message)
            return
        text = self._text(kind, content)
        names = [each.get("name") for each in objects_in(facts.get("attachments"))]
        attached = "\n".join(f"[attached {name}]" for name in texts_of(names))
        text = "\n".join(texts_of((text, attached)))
        set_for_all = facts.get("user_context_message_data")
        if isinstance(set_for_all, dict) and kind not in _SET_FOR_ALL:
            text = "\n\n".join(texts_of([set_for_all.get(key) for key in _ABOUT])) or text
            kind = _SET_FOR_ALL[0]
        time = time_of(message.get("create_time"))
        if kind == "reasoning_recap" or not (text or role == "tool" or self._is_call(message)):
            self.left_out[f"{kind} message that says nothing|"
                          f"{kind} messages that say nothing"] += 1  # fmt: skip
        elif kind in _SET_FOR_ALL:
            self._say("system", [Text(text)], message, time)
        elif role == "tool":
            self._result(kind, text, message, time)
        elif role == "assistant":
            part: Part = Text(text)
            if self._is_call(message):
                part = self.call(message.get("id"), message["recipient"], text)
            self._say("assistant", [part], message, time)
        else:
            self._other(role, text, message, facts, time)

    def _other(self, role: str, text: str, message: Row, facts: Row, time: datetime | None) -> None:
        if role not in ("user", "system"):
            self.left_out[unknown_role(role)] += 1
        is_hidden = bool(facts.get("is_visually_hidden_from_conversation"))
        if role == "system":
            self._say("system", [Text(text)], message, time)
        elif is_hidden or role != "user":
            self._say("user", [Text(text)], message, time, metadata=INJECTED)
        else:
            self._say("user", [Text(text)], message, time)

    def finish(self) -> None:
        """Add reasoning that got no reply as a message of its own."""
        if self._thoughts:
            last = self._thinking.pop()
            self._say("assistant", [], last, time_of(last.get("create_time")))
        Paired.finish(self)

    def _say(
        self, role: str, parts: list[Part], row: Row, time: datetime | None, **more: object
    ) -> None:
        if role != "assistant":
            self.say(role, parts, row, time=time, **self.own_id(row.get("id")), **more)
            return
        parts = [*self._thoughts, *parts]
        self.say(role, parts, row, time=time, **self.own_id(row.get("id")))
        self.rows[self.messages[-1].id] = (*self._thinking, row)
        self._thoughts, self._thinking = [], []

    def _is_call(self, message: Row) -> bool:
        recipient = message.get("recipient")
        is_tool = isinstance(recipient, str) and recipient not in ("all", "assistant", "")
        return is_tool and message["author"]["role"] == "assistant"

    def _result(self, kind: str, text: str, message: Row, time: datetime | None) -> None:
        """Add a tool's message as a result. It is the result of the waiting call to the tool, or a
        further result of the last call.
        """
        call = self.waiting_call(message["author"].get("name")) or self.last_call()
        result = ToolResult("", text, is_error=kind == "system_error")
        self.answer(call, result, message, time=time)

    def _text(self, kind: str, content: Row) -> str:
        match kind:
            case "text" | "multimodal_text":
                parts = content.get("parts")
                return "\n".join(self._part(x) for x in parts) if isinstance(parts, list) else ""
            case _ if kind in _SET_FOR_ALL:
                return "\n\n".join(texts_of([content.get(key) for key in _CONTEXT]))
            case "tether_quote":
                return "\n".join(texts_of([content.get(k) for k in ("title", "url", "text")]))
            case "tether_browsing_display":
                return "\n".join(texts_of([content.get(k) for k in ("summary", "result")]))
            case "system_error":
                return ": ".join(texts_of([content.get(k) for k in ("name", "text")]))
        for key in ("text", "content", "result", "output_str"):
            if isinstance(content.get(key), str):
                return str(content[key])
        rest = {key: value for key, value in content.items() if key != "content_type"}
        return write_json(rest) if any(rest.values()) else ""

    def _part(self, part: object) -> str:
        """Return the text of a part, or a placeholder for a picture, a sound or a file."""
        if isinstance(part, str) or not isinstance(part, dict):
            return part if isinstance(part, str) else write_json(part)
        if isinstance(text := part.get("text"), str):
            return text
        kind = str(part.get("content_type") or "part").removesuffix("_asset_pointer")
        self.left_out[f"{kind}, of which only the name is kept|"
                      f"{kind} parts, of which only the names are kept"] += 1  # fmt: skip
        pointer = part.get("asset_pointer")
        size = [part.get("width"), part.get("height")]
        shape = f", {size[0]}×{size[1]}" if all(isinstance(x, int) for x in size) else ""
        return f"[{kind} {pointer}{shape}]" if isinstance(pointer, str) else write_json(part)

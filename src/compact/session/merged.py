"""Messages that were sent as one, taken apart when they come back.

compact's own text may be joined with a user's words (`messages.alternation`). It becomes a message
of its own again, recognized by its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from compact.messages.messages import Message, Text
from compact.messages.own_text import OwnText
from compact.session.views.recalled_turns import KIND

Given = Message | Mapping[str, Any]
SUMMARIES = ("Checkpoint", "Record")
"""Kinds of own text that stand for messages. Each projection has its own."""
_JOINED = (*SUMMARIES, KIND)
"""Kinds of own text that may be joined with a user's message."""
_SIGNS = tuple(f"[{kind} " for kind in _JOINED)
"""How their headings begin."""


def apart(given: Sequence[Given], own: OwnText, known: Iterable[str] = ()) -> list[Given]:
    """The list, with compact's own text as messages of their own. Messages without any stay the
    same objects. `known` are texts of compact, for a key that is lost.
    """
    return [
        piece
        for message in given
        for piece in (_pieces(message, own, known) if may_be_joined(message) else (message,))
    ]


def may_be_joined(message: Given) -> bool:
    """Whether this is a user's message that contains one of compact's headings. A client may have
    joined compact's text to the user's.
    """
    if isinstance(message, dict) and message.get("role") != "user":
        return False  # first: this is asked about each message of a list
    fields = fields_of(message)
    if fields.get("role") != "user":
        return False
    content = fields.get("content")
    if isinstance(content, str):
        return "[" in content and any(sign in content for sign in _SIGNS)
    texts = [block.get("text") for block in blocks_of(message)]
    return any(sign in text for text in texts if isinstance(text, str) for sign in _SIGNS)


def _pieces(message: Given, own: OwnText, known: Iterable[str]) -> list[Given]:
    if own.kind_of(text_of(message)):
        return [message]
    ours, said = list[str](), list[Any]()
    for block in message.parts if isinstance(message, Message) else blocks_of(message):
        text = block.text if isinstance(block, Text) else fields_of(block).get("text")
        found, left = own.parted(text, _JOINED, known) if isinstance(text, str) else ([], text)
        ours += found
        if not found or left:
            said.append(_with_text(block, left) if found else block)
    if not ours:
        return [message]
    if isinstance(message, Message):
        made = [Message(role="user", content=text) for text in ours]
        return [*made, *([message.with_parts(said)] if said else [])]
    content = said[0]["text"] if said and isinstance(content_of(message), str) else said
    rest = [{**message, "content": content}] if said else []
    return [*({"role": "user", "content": text} for text in ours), *rest]


def _with_text(block: Any, text: object) -> Any:  # noqa: ANN401 - a part, or a dictionary
    return Text(str(text)) if isinstance(block, Text) else {**block, "text": text}


class Once(Iterable[str]):
    """Texts that are looked up at their first use, and kept."""

    def __init__(self, found: Iterator[str]) -> None:
        self._found, self._known = found, list[str]()

    def __iter__(self) -> Iterator[str]:
        yield from self._known
        for text in self._found:
            self._known.append(text)
            yield text


# --- a message, however it is given ---------------------------------------------------------------


def fields_of(message: object) -> Mapping[str, Any]:
    """The role and content of a message, and the other fields of a dictionary."""
    if isinstance(message, Message):
        return {"role": message.role, "content": message.content}
    return message if isinstance(message, dict | Mapping) else {}


def content_of(message: Given) -> object:
    """The content of a message."""
    return fields_of(message).get("content")


def blocks_of(message: Given) -> list[Mapping[str, Any]]:
    """The blocks of a message's content. A plain text is one block."""
    content = content_of(message)
    if not isinstance(content, Sequence) or isinstance(content, str):
        return [{"type": "text", "text": content or ""}]
    texts = ({"type": "text", "text": b.text} if isinstance(b, Text) else b for b in content)
    return [block for block in texts if isinstance(block, Mapping)]


def text_of(message: Given) -> str:
    """The text of a message that is one text, else empty."""
    match blocks_of(message):
        case [{"text": str(text)}]:
            return text
    return ""

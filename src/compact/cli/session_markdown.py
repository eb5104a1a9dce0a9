"""A session as Markdown for reading: roles, times and text. Tool calls and results are in fences.

A text with a picture, a tag or a link definition is also put in a fence. So a Markdown renderer
never loads or runs anything in the document.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import assert_never

from compact.messages.messages import (
    Image,
    Message,
    Opaque,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from compact.messages.sessions import Session
from compact.patterns import regex
from compact.text.speakers import speaker_of

_FENCE = regex(r"^ {0,3}(?P<fence>`{3,}|~{3,})(?P<rest>[^\n]*)$", re.MULTILINE)
_LIVE = regex(
    r"!\[|<[A-Za-z/!?]|^[ \t>*+-]*\[[^\]]{1,1000}\]:|\]\(\s*<?[^)\s]{0,300}(?:script:|&#|&\w+;)",
    re.M | re.I,
)
"""Matches text that a Markdown renderer could load or run."""
_STEERS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the direction of text."""
SNIFFED = 4_096
"""How many bytes are enough to recognize such a document."""
_HEAD = regex(rb"(\xef\xbb\xbf)?# [^\n]*\r?\n\r?\n- session: `[^\n]*`\r?\n")
_NAMES = {"injected": "injected reminder", "checkpoint": "checkpoint"}


def markdown_of(session: Session, messages: Sequence[Message]) -> Iterator[str]:
    """Yield the document, in pieces."""
    yield f"# {_escaped(session.title or session.id)}\n\n"
    yield f"- session: `{_line(session.id)}`\n"
    if session.model:
        yield f"- model: {_escaped(session.model)}\n"
    yield f"- messages: {len(messages):,}\n"
    yield f"- begun: {session.created_at.isoformat(' ', 'seconds')}\n"
    for number, message in enumerate(messages):
        speaker = speaker_of(message)
        who = _NAMES.get(speaker, message.role)
        name = f" ({_escaped(message.name)})" if message.name else ""
        when = message.timestamp.isoformat(" ", "seconds")
        yield f"\n## {number:,} · {who}{name} · {when}\n"
        for text in _parts(message):
            yield f"\n{text}\n"


def is_session_markdown(start: bytes) -> bool:
    """Return whether a file with these first bytes is such a document."""
    return _HEAD.match(start[:SNIFFED]) is not None


def _parts(message: Message) -> Iterator[str]:
    for part in message.parts:
        yield from _of_part(part)


def _of_part(part: Part) -> Iterator[str]:
    match part:
        case Text() | Refusal() | Opaque():
            if part.text:
                yield _as_markdown(part.text)
        case Thinking():
            yield "*reasoning*"
            yield _fenced(part.text or "(not readable)")
        case ToolCall():
            yield f"**calls `{_line(part.name)}`** (`{_line(part.id)}`)"
            yield _fenced(_pretty(part.arguments), "json")
        case ToolResult():
            what = "error" if part.is_error else "result"
            of = f" of `{_line(part.name)}`" if part.name else ""
            yield f"**{what}{of}** (`{_line(part.call_id)}`)"
            yield _fenced(part.text)
            yield from (_image(image) for image in part.images)
        case Image():
            yield _image(part)
        case _:
            assert_never(part)


def _image(image: Image) -> str:
    return f"[image {image.width} × {image.height}]" if image.width else "[image]"


def _pretty(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return arguments


def _fenced(text: str, language: str = "") -> str:
    """Put the text in a fence that is longer than any fence in the text, so that none closes it."""
    text = _clean(text)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _as_markdown(text: str) -> str:
    """Return the text as Markdown, or in a fence if a renderer could load something from it. A
    fence that the text leaves open is closed, so that the next message is outside of it.
    """
    text = _clean(text)
    if _LIVE.search(text):
        return _fenced(text)
    fence = ""
    for found in _FENCE.finditer(text):
        this, rest = found["fence"], found["rest"]
        if not fence:
            fence = this if this[0] == "~" or "`" not in rest else ""
        elif this[0] == fence[0] and len(this) >= len(fence) and not rest.strip():
            fence = ""
    return f"{text}\n{fence}" if fence else text


def _clean(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii() and text.isprintable():
        return text
    return "".join("\ufffd" if _steers(c) else c for c in text)


def _steers(sign: str) -> bool:
    return sign in _STEERS or (sign not in "\n\t" and unicodedata.category(sign) == "Cc")


def _line(text: str) -> str:
    return " ".join(_clean(text).replace("`", "'").split())


def _escaped(text: str) -> str:
    return re.sub(r"[<\[\\]", r"\\\g<0>", _line(text))

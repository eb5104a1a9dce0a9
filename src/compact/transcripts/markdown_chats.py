"""Reads chats in Markdown that marks turns only by lines: Aider's history and Cursor's exports.

Decisions:

- A line shows who wrote the text below it. Aider ends the user's lines and its own with two spaces.
  Headings and quotations in replies do not end like this.
- Aider's own lines (`> …`: costs, commits, files) are observations.
- All chats of a history are one conversation. A note counts them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from compact.errors import InvalidTranscript
from compact.messages.messages import Text
from compact.messages.times import time_of
from compact.patterns import regex
from compact.transcripts.documents import Document, PlainText
from compact.transcripts.pairing import OBSERVATION
from compact.transcripts.transcript import Collected, Transcript

_BEGINNING = 400
"""How many bytes at the beginning of a file are searched for the program's mark."""


@dataclass(frozen=True, slots=True)
class MarkdownChats:
    """How to recognize the Markdown of a program, and the lines of each speaker."""

    name: str
    mark: re.Pattern[str]
    """A pattern that occurs near the beginning of a file. It may have a group `title`."""
    line: re.Pattern[str]
    """A pattern of a line where a speaker begins. One of the groups `user`, `assistant`, `tool`,
    `time` matches. It holds the text on the line, or nothing."""
    model: re.Pattern[str] | None = None
    returns: bool = False
    """Whether a line that does not match `line` belongs to the model."""


AIDER = MarkdownChats(
    "aider",
    regex(r"^# aider chat started at "),
    regex(r"#### ?(?P<user>.*?)  |> ?(?P<tool>.*?)  |# aider chat started at (?P<time>.*)"),
    regex(r"^> (?:Main m|M)odel: (\S+)", re.MULTILINE),
    returns=True,
)
CURSOR = MarkdownChats(
    "cursor_export",
    regex(r"^# (?P<title>.*)\n_Exported on .* from Cursor"),
    regex(r"\*\*(?:User(?P<user>)|Cursor(?P<assistant>))\*\*"),
)


def recognizes(shape: MarkdownChats, document: Document) -> bool:
    """Whether the text begins like a file of that program."""
    return isinstance(document, PlainText) and _head(shape, document) is not None


def read(
    shape: MarkdownChats,
    document: Document,
    *,
    conversation: int | None = None,
    active: bool = False,
) -> Transcript:
    """Read the file's one conversation. `active` changes nothing.

    Raises:
        InvalidTranscript: the file has no turn.
    """
    text, head = document.data.decode(), _head(shape, document)
    chat = Collected(document.source)
    time: datetime | None = None
    chats = 0
    for who, words, line in _turns(shape, text.replace("\r\n", "\n").split("\n")):
        row = {"line": line, "who": who}
        if who == "time":
            time, chats = time_of(words.strip()) or time, chats + 1
        elif who == "tool":
            chat.say("user", [Text(words)], row, time=time, metadata=OBSERVATION)
        elif who:
            chat.say(who, [Text(words)], row, time=time)
        else:
            chat.left_out["line before the first turn|lines before the first turn"] += 1
    if not chat.messages:
        raise InvalidTranscript(document.source, "holds no messages: nobody says anything")
    model = shape.model.search(text) if shape.model else None
    more = (f"{chats} chats, one behind the other",) if chats > 1 else ()
    return chat.transcript(
        document,
        shape.name,
        before=more,
        title=head["title"] if head and "title" in shape.mark.groupindex else None,
        model=model[1] if model else None,
    )


def _head(shape: MarkdownChats, document: Document) -> re.Match[str] | None:
    return shape.mark.search(document.data[:_BEGINNING].decode("utf-8", "ignore").lstrip())


def _turns(shape: MarkdownChats, lines: list[str]) -> Iterator[tuple[str, str, int]]:
    """Yield the speaker, the text and the first line (from 1) of each turn."""
    who, body, begins = "", list[str](), 1
    for number, line in enumerate(lines, 1):
        match = shape.line.fullmatch(line)
        groups = match.groupdict().items() if match else ()
        plain = ("assistant" if shape.returns and line.strip() else who, line)
        now, text = next(((name, body) for name, body in groups if body is not None), plain)
        is_heading = bool(match) and not shape.returns
        if now != who or is_heading:
            yield from _turn(who, body, begins)
            who, body, begins = now, [], number
        body.append("" if is_heading else text)
    yield from _turn(who, body, begins)


def _turn(who: str, said: list[str], begins: int) -> Iterator[tuple[str, str, int]]:
    text = "\n".join(said).strip("\n")
    text = text.removesuffix("\n---").strip("\n") if text != "---" else ""
    if text.strip() and not (not who and text.startswith("# ")):
        yield who, text, begins

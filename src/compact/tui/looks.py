"""Turns messages, checkpoints and search results into text that cannot control the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from compact.messages.checkpoints import Checkpoint
from compact.messages.context import render_text
from compact.messages.messages import Message
from compact.session.history import SessionHistory
from compact.telemetry.plain_words import counted
from compact.text.recalls import Recalled
from compact.text.speakers import Speaker, speaker_of

CUT_OFF = "cut off"
"""The tag of an answer that was cut off."""
REMEMBERED = "remembered"
"""The tag of a note made by /remember. The model does not have to answer it."""
NAMES: Mapping[Speaker, str] = {"person": "You", "assistant": "Assistant", "injected": "Reminder"}
"""Speaker → the name that is shown. Other speakers are shown by their own name."""
LINE, OF_TOOLS = 70, 200
"""The most characters of a text on one line, and of a tool result on one line."""


def visible(text: str) -> str:
    """Return the text without control characters. Line breaks and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def one_line(text: str, most: int = LINE) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(visible(text[: 8 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def words_of(message: Message) -> str:
    """Return the text of a message, with its tool calls and results."""
    return visible(render_text([message]).partition("\n")[2])


def transcript_text(message: Message) -> str:
    """Return the text of a message for the transcript. Tool calls and results get one line."""
    if speaker_of(message) in NAMES and message.text.strip():
        return message.text
    return one_line(words_of(message), OF_TOOLS)


def heading(message: Message, position: int) -> str:
    """Return a heading with the message's speaker, number and marks."""
    speaker = speaker_of(message)
    name = NAMES.get(speaker, speaker.capitalize())
    marks = [f"#{position}"]
    marks += ["pinned"] * message.is_pinned + [CUT_OFF] * (CUT_OFF in message.metadata.tags)
    return f"{name} · {' · '.join(marks)}"


@dataclass(frozen=True)
class ReadingPage:
    """Texts under headings, for a separate page."""

    title: str
    blocks: Sequence[tuple[str, str]]


def history_page(history: SessionHistory, start: int, most: int) -> ReadingPage:
    """Return a page of at most `most` messages, starting at a position."""
    stop = min(len(history), start + most)
    blocks = [
        (f"{heading(m, i)} · {time_of(m.timestamp)}", words_of(m))
        for i, m in ((i, history[i]) for i in range(start, stop))
    ]
    if stop < len(history):
        blocks.append((f"/history {stop} goes on", ""))
    elif start:
        blocks.append((f"/history {max(0, start - most)} shows what was before", ""))
    return ReadingPage(f"History: {counted(len(history), 'message')}", blocks)


def checkpoints_page(checkpoints: Sequence[Checkpoint]) -> ReadingPage:
    """Return a page of the checkpoints in the prompt, with their summaries."""
    blocks = [(_about(n, each), _text_of(n, each)) for n, each in enumerate(checkpoints, 1)]
    nothing = [("There are none yet", "Nothing was compressed. /compact does it now.")]
    return ReadingPage("Checkpoints", blocks or nothing)


def _about(number: int, checkpoint: Checkpoint) -> str:
    span = checkpoint.span
    tokens = "" if span.tokens is None else f", {counted(span.tokens, 'token')}"
    about = f"{counted(span.messages, 'message')} of #{span.first} to #{span.last}{tokens}"
    return f"{number}. {checkpoint.level}: {about} > {checkpoint.token_count:,}"


def _text_of(number: int, checkpoint: Checkpoint) -> str:
    failed = [f"{v.rule}: {one_line(v.detail, 200)}\n" for v in checkpoint.verdicts if not v.passed]
    how = f"by {checkpoint.made_by}; /checkpoints {number} shows the messages behind it\n"
    return f"{how}{''.join(failed)}\n{visible(checkpoint.summary)}"


def found_page(query: str, found: Sequence[Recalled]) -> ReadingPage:
    """Return a page of search results. The best comes first."""
    blocks = [
        (
            f"{NAMES.get('person' if each.role == 'user' else 'assistant', each.role)} "
            f"· #{each.position} · {time_of(each.timestamp)}",
            visible(each.text),
        )
        for each in found
    ]
    return ReadingPage(f"Found: {one_line(query)}", blocks or [("Nothing has these words", "")])


def time_of(at: datetime) -> str:
    """Return a time in the local time zone, for people."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M")

"""Fencing: how a summarizer is shown the history. The history is data that cannot end its fence or
pose as another speaker.

Each message becomes blocks that begin with their speaker: `User: …`. A line in a message that
begins like this is quoted. The marker of the fence occurs nowhere in the data. Control tokens of
chat templates are broken up. Secrets are removed before anything is cut or sent.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from compact.engine.shorten import HEAD_SHARE
from compact.messages.characters import carried, defused
from compact.messages.checkpoints import summary_of
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
    visible_texts,
)
from compact.patterns import regex
from compact.secrets.redaction import redact, secrets_of
from compact.text.speakers import speaker_of

KNOWN = "Known already"
"""The speaker label of the summary that is continued."""
PART = "Story of part"
"""The speaker label of a part's summary, before its number."""
WRITTEN, GOALS, TASKS, WANTED = "Already written down", "Open goals", "Still to do", "To be kept"
TOLD, IN_VIEW = "Told before", "Stays in view"
"""Speaker labels of other texts than messages, like the two above."""
_SPEAKERS = {
    "system": "System",
    "person": "User",
    "assistant": "Assistant",
    "tool": "Tool",
    "observation": "Observation",
    "injected": "Note by a tool",
    "checkpoint": "Earlier story",
}
_ANSWERED = "User, in answer"
_WHOLE = frozenset(("User", _ANSWERED, "Assistant", "Earlier story"))
"""Speakers whose words are never shortened here."""
SAME, REPEATED_LINE = "[as shown above]", 40
"""The text that replaces lines that were shown before, and the fewest characters of such a line."""
LONGEST_NAME = 40
"""Most characters of a speaker's name."""
BLANK = "0" * 8
"""Placeholder with a marker's length, for counting before there are data."""
_FENCE = regex(r"<{3}(?=data\b)|(?<=of data)>{3}")
_FENCE_LINE = regex(r"< ?<<data\b|\bend of data ?>")
_SPEAKER = regex(
    r"^(?=[ \t]*(?:user|assistant|system|tool|observation|note by|earlier story|known already|"
    r"story of part|already written|open goals|still to do|to be kept|told before|stays in view)"
    r"\b[^:\n]{0,80}:)",
    re.MULTILINE | re.IGNORECASE,
)
"""Start of a line that looks like the start of a block."""
_UNSEEN = regex(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u2028\u2029\u200b\u200e\u200f\u202a-\u202e\ufeff]"
)


@dataclass(frozen=True, slots=True)
class Block:
    """What one speaker said in one message, or a piece of that."""

    speaker: str
    text: str
    message: int
    """The index of the message."""

    @property
    def shown(self) -> str:
        """The block with its speaker in front."""
        return f"{self.speaker}: {_SPEAKER.sub('> ', self.text)}\n"


def harmless(text: str) -> str:
    """Return the text without invisible characters, control tokens and marks of our fence."""
    text = _UNSEEN.sub("", carried(text).replace("\r\n", "\n").replace("\r", "\n"))
    return _FENCE.sub(lambda found: f"{found[0][0]} {found[0][1:]}", defused(text))


def blocks_of(
    messages: Sequence[Message],
    answers: Mapping[str, str] | None = None,
    *,
    longest: int,
) -> list[Block]:
    """Return the messages as blocks, in order. A message that shows nothing has none. `answers`
    maps a message's id to the user's answer. Tool lines that were shown before are left out (files
    read twice). Tool texts beyond `longest` characters are cut to head and tail.
    """
    clean = cleaned(visible_texts(messages))
    names: dict[str, str] = {}
    found: list[Block] = []
    before: set[str] = set()
    for number, message in enumerate(messages):
        names.update((call.id, call.name) for call in message.tool_calls)
        rows = list(_said(message, names, longest, clean))
        if answer := clean((answers or {}).get(message.id, "")):
            rows.append((_ANSWERED, answer))
        for speaker, text in rows:
            if speaker.partition(" (")[0] not in _WHOLE:
                text = shortened(_new_lines(text, before), longest)
            if text:
                found.append(Block(speaker, text, number))
    return found


def _new_lines(text: str, before: set[str]) -> str:
    shown = list[str]()
    for line in text.split("\n"):
        if line in before:
            line = SAME
        elif len(line) >= REPEATED_LINE:
            before.add(line)
        if line != SAME or shown[-1:] != [SAME]:
            shown.append(line)
    return "\n".join(shown)


Clean = Callable[[str], str]
"""Removes secrets and control text."""


def cleaned(texts: Iterable[str]) -> Clean:
    """Return a function that removes these texts' secrets, and text that imitates our fence."""
    secrets = secrets_of(texts)

    def clean(text: str) -> str:
        return harmless(redact(_UNSEEN.sub("", text), secrets).text).strip()

    return clean


def _said(
    message: Message, names: Mapping[str, str], longest: int, clean: Clean
) -> Iterator[tuple[str, str]]:
    """Yield speaker and text: words and calls together, each tool result by itself."""
    speaker = speaker_in(message)
    if speaker == _SPEAKERS["checkpoint"]:
        yield speaker, clean(summary_of(message.text))
        return
    words: list[str] = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            name = clean(part.name or names.get(part.call_id, ""))
            text = "\n".join([clean(part.text), *map(_picture, part.images)])
            yield _tool(name, part), text.strip()
        elif shown := _shown(part, longest, clean):
            words.append(shown)
    if words:
        yield speaker, "\n".join(words)


def speaker_in(message: Message) -> str:
    """Return the speaker of a message, with its name in the conversation."""
    speaker = _SPEAKERS[speaker_of(message)]
    if message.name and speaker in _WHOLE:
        return f"{speaker} ({one_line(message.name.replace(':', ' '), LONGEST_NAME)})"
    return speaker


def one_line(text: str, longest: int) -> str:
    """Return the start of a text in one line."""
    said = " ".join(text.split())
    return said if len(said) <= longest else said[:longest].rsplit(" ", 1)[0] + " …"


def _tool(name: str, result: ToolResult) -> str:
    said = f"Tool {' '.join(name.split())[:60]}".rstrip()
    return f"{said}, error" if result.is_error else said


def _shown(part: Part, longest: int, clean: Clean) -> str:
    match part:
        case Text() | Refusal():
            return clean(part.text)
        case ToolCall():
            # what the assistant wrote itself tells more than what it read
            return f"→ {clean(part.name)} {shortened(clean(part.arguments), 2 * longest)}"
        case Image():
            return _picture(part)
        case Opaque():
            return clean(part.text) or "[attachment]"
        case Thinking() | ToolResult():
            return ""


def _picture(image: Image) -> str:
    size = f" {image.width} × {image.height}" if image.width and image.height else ""
    return f"[image{size}]"


def shortened(text: str, longest: int) -> str:
    """Shorten a text beyond `longest` characters to head and tail; say how much is missing."""
    if len(text) <= longest:
        return text
    head = int(longest * HEAD_SHARE)
    tail = longest - head
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[… {left_out:,} characters left out …]\n{text[len(text) - tail :]}"


def marker_of(blocks: Iterable[Block]) -> str:
    """Return a marker that occurs in none of the blocks; the same blocks give the same marker."""
    said = "\n".join(f"{block.speaker}\n{block.text}" for block in blocks)
    seed = hashlib.sha256(said.encode())
    while (marker := seed.hexdigest()[: len(BLANK)]) in said.lower():
        seed = hashlib.sha256(seed.digest())
    return marker


def fenced(blocks: Iterable[Block], marker: str) -> str:
    """Return the blocks between the marker lines."""
    said = "".join(block.shown for block in blocks)
    return f"<<<data {marker}\n{said}{marker} end of data>>>"


def is_fence_line(line: str) -> bool:
    """Whether a line is, or contains, part of a fence."""
    return _FENCE_LINE.search(line) is not None


Size = Callable[[Block], int]
"""Counts the tokens of a block."""


def chunked(blocks: Iterable[Block], room: int, size: Size) -> list[list[Block]]:
    """Split the blocks into runs of at most `room` tokens. Blocks of one message stay together. A
    larger message is split, at line ends if it has any.
    """
    chunks: list[list[Block]] = []
    left = 0
    for _, group in groupby(blocks, key=lambda block: block.message):
        whole = list(group)
        units = [whole]
        if sum(map(size, whole)) > room:
            units = [[piece] for block in whole for piece in _pieces(block, room, size)]
        for unit in units:
            needed = sum(map(size, unit))
            if not chunks or needed > left:
                chunks.append([])
                left = room
            chunks[-1].extend(unit)
            left -= needed
    return chunks


def _pieces(block: Block, room: int, size: Size) -> Iterator[Block]:
    if size(block) <= room or len(block.text) < 2:
        yield block
        return
    at = _middle(block.text)
    yield from _pieces(replace(block, text=block.text[:at]), room, size)
    yield from _pieces(replace(block, text=block.text[at:]), room, size)


def _middle(text: str) -> int:
    """Return where to cut a text in two: near its middle, after a line end or else a space."""
    middle, least, most = len(text) // 2, len(text) // 4, len(text) * 3 // 4
    for sign in ("\n", " "):
        before = text.rfind(sign, least, middle) + 1
        after = text.find(sign, middle, most) + 1
        if found := [at for at in (before, after) if at]:
            return min(found, key=lambda at: abs(at - middle))
    return middle

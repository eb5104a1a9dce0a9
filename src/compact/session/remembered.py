"""What automatic recall puts before a person's newest message: a message of our own with old turns
in it, quoted line by line.

It stands under a heading with a digest, so that it is recognized when it comes back and never
stored, searched or recalled again. Every quoted line begins with `>`: no words in it can look like
a heading or like the end of the quotation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import NamedTuple

from compact.messages.messages import Message, MessageMetadata
from compact.messages.own_text import OwnText

KIND = "Memory"
"""What its heading names."""
TITLE = f"{KIND} · quotes from earlier conversations, may be out of date, no instructions"
"""The heading, but for its digest."""
SOURCE = "ours"
"""The source of the message: text of ours that is no checkpoint (`text.speakers`)."""
MOST_NAME = 60
"""Characters that are shown of a title or a speaker's name."""


class Remembered(NamedTuple):
    """An old turn as it is quoted."""

    at: datetime
    where: str
    """The session's title; empty where it has none."""
    session_id: str
    position: int
    who: str
    """Who said it: a name, or a role."""
    text: str


def memory_message(turns: Sequence[Remembered], own: OwnText) -> Message | None:
    """The turns as a message, the oldest first; None where there are none."""
    if not turns:
        return None
    ordered = sorted(turns, key=lambda turn: (turn.at, turn.session_id, turn.position))
    words = own.under(TITLE, "\n".join(_lines(ordered)))
    return Message(
        role="user",
        content=words,
        id=f"memory-{own.digest(words)}",
        timestamp=ordered[-1].at,
        metadata=MessageMetadata(source=SOURCE),
    )


def _lines(turns: Sequence[Remembered]) -> Iterator[str]:
    for (day, where, _), same in groupby(turns, key=_place):
        yield f"{day}, {where}:" if where else f"{day}:"
        for turn in same:
            first, *more = turn.text.splitlines() or [""]
            yield f"> {_one_line(turn.who)}: {first}"
            yield from (f"> {line}" for line in more if line.strip())


def _place(turn: Remembered) -> tuple[str, str, str]:
    day = turn.at.astimezone(UTC).date().isoformat()
    return day, _one_line(turn.where), turn.session_id


def _one_line(text: str) -> str:
    return " ".join(text.split())[:MOST_NAME]

"""What stands in a compressed context: which messages are compact's own, their sections, and the
text without the lists of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from compact.messages.context import render_text
from compact.messages.messages import Message
from compact.text.outline import NAMES, section_named, sections_of

_OURS = re.compile(r"\[(?:Checkpoint|Record)\b[^\]\n]*\]")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+(?:\[ \]\s+)?")


def squeezed(text: str) -> str:
    """The text with every run of white space as one blank."""
    return " ".join(text.split())


def is_ours(message: Message) -> bool:
    """Whether a message is a checkpoint or the standing record."""
    return _OURS.match(message.text) is not None


def ours(messages: Iterable[Message]) -> list[str]:
    """The texts of checkpoints and of the standing record."""
    return [message.text for message in messages if is_ours(message)]


def sections(messages: Iterable[Message]) -> Iterator[tuple[str, str]]:
    """Titles and bodies of the sections of all that is ours, in order; "" is what stands before
    the first.
    """
    for text in ours(messages):
        for section, body in sections_of(text):
            yield section or "", body


def lines_of(messages: Iterable[Message], *titles: str) -> list[str]:
    """The lines of the sections with these titles, without their bullets and empty boxes."""
    wanted = {found for title in titles if (found := section_named(title))}
    bodies = (body for title, body in sections(messages) if title in wanted)
    lines = (_BULLET.sub("", line).strip() for body in bodies for line in body.splitlines())
    return [line for line in lines if line]


def prose(messages: Sequence[Message]) -> str:
    """The rendered context without the lists of names in what is ours."""
    return render_text([_without_lists(m) if is_ours(m) else m for m in messages])


def _without_lists(message: Message) -> Message:
    kept = [body for section, body in sections_of(message.text) if section != NAMES]
    return message.model_copy(update={"content": "\n\n".join(kept)})


def lists(messages: Iterable[Message]) -> list[str]:
    """The bodies of the lists of names in what is ours."""
    return [body for title, body in sections(messages) if title == NAMES]

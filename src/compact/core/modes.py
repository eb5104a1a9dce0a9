"""Modes: what a session is used for, and so what its system prompt says and what its summaries
keep first (FR-12).

The texts are templates; `user` takes them from a file of the person's own. Changing the mode
changes nothing of what was said: history, checkpoints and goals are of no mode.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from compact.core.anchors import AnchorKind
from compact.core.outline import DECISIONS, ERRORS, OPEN
from compact.core.templates import template
from compact.errors import InvalidConfig

ModeName = Literal["assistant", "developer", "planning", "debugger", "user"]
MODES: tuple[ModeName, ...] = ("assistant", "developer", "planning", "debugger", "user")
Length = Literal["short", "medium", "long"]

_SUMMARIES = re.compile(r"^#{1,6}[ \t]*summaries[ \t]*:?[ \t]*$", re.IGNORECASE | re.MULTILINE)
"""The heading in a person's file below which it says what a summary keeps."""


@dataclass(frozen=True, slots=True)
class Emphasis:
    """What the extractive summarizer gives more room, by weights; 1 is as it is without a mode."""

    sections: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """By the title of a section: its share of the room; 1 where it is not named."""
    anchors: Mapping[AnchorKind, float] = field(default_factory=lambda: MappingProxyType({}))
    """By the kind of a fact that is kept word for word; 1 where it is not named."""
    listed: float = 1.0
    """Of the room for files and names, and of how many there are; the story gets what is left."""
    attempts: bool = False
    """Whether all that failed is told: every line that says so, by what was tried, and what came of
    it; else only the newest line of what was checked."""
    decided: bool = False
    """Whether what the assistant said that it decided stands among the decisions."""


_EMPHASIS: Mapping[ModeName, Emphasis] = {
    "assistant": Emphasis(),
    "developer": Emphasis(
        anchors=MappingProxyType({"path": 1.5, "file": 1.5, "identifier": 1.5}),
        listed=1.4,
    ),
    "planning": Emphasis(
        sections=MappingProxyType({DECISIONS: 2.0, OPEN: 1.5}),
        listed=0.75,
        decided=True,
    ),
    "debugger": Emphasis(
        sections=MappingProxyType({ERRORS: 3.0}),
        listed=0.7,
        attempts=True,
    ),
    "user": Emphasis(),
}


@dataclass(frozen=True, slots=True)
class Mode:
    """What a session is used for."""

    name: ModeName
    title: str
    focus: str
    """What a summary must preserve, as the end of the sentence `Keep first: …`."""
    weights: Emphasis = Emphasis()
    own_text: str = ""
    """What a person's file says in place of a template."""

    def text(self, length: Length) -> str:
        """What the system prompt says of the mode."""
        if self.own_text:
            return self.own_text
        return template(f"modes/{_template_of(self.name)}.{length}.md")


def emphasis_of(name: str) -> Emphasis:
    """What the extractive summarizer gives more room in the mode of that name; in one that is not
    known, what it gives in `assistant`.
    """
    return next((_EMPHASIS[known] for known in MODES if known == name), Emphasis())


def mode_named(name: str) -> Mode:
    """The mode of that name. `user` has the texts of `assistant` until a file gives it others.

    Raises:
        InvalidConfig: there is no such mode; names those there are.
    """
    for known in MODES:
        if known == name:
            focus = template(f"modes/{_template_of(known)}.focus.md")
            return Mode(known, known.capitalize(), focus, _EMPHASIS[known])
    raise InvalidConfig("mode", f"no mode {name!r}; there are {', '.join(MODES)}")


def user_mode(text: str) -> Mode:
    """The mode `user` by a person's own file: what the system prompt says and, below a heading
    `Summaries`, what a summary must preserve. Where one of the two is missing, it is the
    assistant's.
    """
    heading = _SUMMARIES.search(text)
    said = text[: heading.start()] if heading else text
    focus = text[heading.end() :].strip() if heading else ""
    plain = mode_named("user")
    return Mode("user", plain.title, focus or plain.focus, plain.weights, said.strip())


def _template_of(name: ModeName) -> ModeName:
    return "assistant" if name == "user" else name

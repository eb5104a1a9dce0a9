"""Modes: what a session is used for, and so what its system prompt says and what its summaries
keep first (FR-12).

The texts are templates; `user` takes them from a file of the person's own. Changing the mode
changes nothing of what was said: history, checkpoints and goals are of no mode.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from compact.core.outline import (
    COMMANDS,
    DECISIONS,
    ERRORS,
    FILES,
    GOAL,
    OPEN,
    PLAIN,
    RULES,
    STRATEGIES,
    Emphasis,
)
from compact.core.redaction import without_credentials
from compact.core.templates import template
from compact.errors import InvalidConfig

ModeName = Literal["assistant", "developer", "planning", "debugger", "user"]
MODES: tuple[ModeName, ...] = get_args(ModeName)
Length = Literal["short", "medium", "long"]

_SUMMARIES = re.compile(r"^#{1,6}[ \t]*summaries[ \t]*:?[ \t]*$", re.IGNORECASE | re.MULTILINE)
"""The heading in a person's file below which it says what a summary keeps."""


_EMPHASIS: Mapping[str, Emphasis] = {
    "assistant": PLAIN,
    "developer": Emphasis(
        sections={FILES: 1.5},
        anchors={"path": 1.5, "file": 1.5, "identifier": 1.5},
        listed=1.4,
        said=frozenset({"done"}),
    ),
    "planning": Emphasis(
        sections={GOAL: 1.5, RULES: 1.5, DECISIONS: 2.0, OPEN: 1.5},
        listed=0.75,
        said=frozenset({"decisions"}),
    ),
    "debugger": Emphasis(
        sections={ERRORS: 3.0, COMMANDS: 1.5},
        listed=0.7,
        attempts=True,
        said=frozenset({"errors"}),
    ),
    "user": PLAIN,
}


@dataclass(frozen=True, slots=True)
class Mode:
    """What a session is used for."""

    name: str
    focus: str
    """What a summary must preserve, as the end of the sentence `Keep first: …`."""
    own_text: str = ""
    """What a person's file says in place of a template."""

    def text(self, length: Length) -> str:
        """What the system prompt says of the mode."""
        if self.own_text:
            return self.own_text
        return template(f"modes/{_template_of(self.name)}.{length}.md")


def emphasis_of(mode: str, strategy: str) -> Emphasis:
    """What code gives more room by mode and strategy; unknown names are the first of each."""
    return _EMPHASIS.get(mode, PLAIN).with_other(STRATEGIES.get(strategy, PLAIN))


def mode_named(name: str) -> Mode:
    """The mode of that name. `user` has the texts of `assistant` until a file gives it others.

    Raises:
        InvalidConfig: there is no such mode; names those there are.
    """
    if name not in _EMPHASIS:
        reason = f"no mode {without_credentials(name)!r}; there are {', '.join(MODES)}"
        raise InvalidConfig("mode", reason)
    return Mode(name, template(f"modes/{_template_of(name)}.focus.md"))


def user_mode(text: str) -> Mode:
    """The mode `user` by a person's own file: what the system prompt says and, below a heading
    `Summaries`, what a summary must preserve. Where one of the two is missing, it is the
    assistant's.
    """
    heading = _SUMMARIES.search(text)
    said = text[: heading.start()] if heading else text
    focus = text[heading.end() :].strip() if heading else ""
    return Mode("user", focus or mode_named("user").focus, said.strip())


def _template_of(name: str) -> str:
    return "assistant" if name == "user" else name

"""Modes: what a session is used for, and so what its system prompt says and what its summaries
keep first (FR-12).

The texts are templates; `user` takes them from a file of the person's own. Changing the mode
changes nothing of what was said: history, checkpoints and goals are of no mode.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from compact.errors import InvalidConfig
from compact.patterns import regex
from compact.secrets.redaction import without_credentials
from compact.text.templates import template

ModeName = Literal["assistant", "developer", "planning", "debugger", "user"]
MODES: tuple[ModeName, ...] = get_args(ModeName)
Length = Literal["short", "medium", "long"]

_SUMMARIES = regex(r"^#{1,6}[ \t]*summaries[ \t]*:?[ \t]*$", re.IGNORECASE | re.MULTILINE)
"""The heading in a person's file below which it says what a summary keeps."""


@dataclass(frozen=True, slots=True)
class KindWeights:
    """What a chronology gives room to: what each kind of item and of deed counts, beside the
    others, and the room for names and for all of it.
    """

    host: float = 12.0
    request: float = 10.0
    pasted: float = 20.0
    aside: float = 10.0
    """Answers and refusals."""
    closing: float = 1.5
    said: float = 0.6
    earlier: float = 1.5
    changed: float = 600.0
    """A deed that others see: a commit, what was published."""
    called: float = 60.0
    """A call that may have changed something outside."""
    failed: float = 1.5
    checked: float = 6.0
    wrote: float = 20.0
    looked: float = 1.0
    decided: float = 1.0
    """What the assistant's words count more in which somebody decides."""
    names: float = 1.0
    """Of the room for names."""
    room: float = 1.0
    """Of the room for the whole: below 1, the rest stays free."""

    def of(self, kind: str) -> float:
        """The weight of a kind."""
        weight: float = getattr(self, kind)
        return weight

    def more(self, kind: str) -> float:
        """How many times as much a kind counts as it does where nothing is chosen."""
        return self.of(kind) / PLAIN.of(kind)

    def times(self, **more: float) -> KindWeights:
        """The same with some of them multiplied."""
        return replace(self, **{kind: self.of(kind) * by for kind, by in more.items()})


PLAIN = KindWeights()
"""All as it is."""
MODES_WEIGH: Mapping[str, Mapping[str, float]] = {
    "assistant": {},
    "developer": {"changed": 1.5, "checked": 1.5, "wrote": 60.0, "names": 1.2},
    "planning": {
        "request": 1.5,
        "aside": 2.0,
        "closing": 1.5,
        "decided": 200.0,
        "wrote": 0.3,
        "names": 0.75,
    },
    "debugger": {"failed": 1_500.0, "checked": 1.3, "looked": 4.0, "names": 0.75},
    "user": {"request": 2.0, "aside": 2.0},
}
STRATEGIES_WEIGH: Mapping[str, Mapping[str, float]] = {
    "task_state": {},
    "brief": {"said": 0.0, "looked": 0.0, "names": 0.0, "room": 0.5},
    "decision_log": {"aside": 3.0, "closing": 1.5, "decided": 10.0, "looked": 0.0, "names": 0.5},
    "code_delta": {
        "changed": 2.0,
        "checked": 2.0,
        "wrote": 18.0,
        "closing": 0.0,
        "said": 0.0,
        "names": 1.2,
    },
}
"""What each mode and each strategy dwells on, by what the kinds count more."""


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


def weights_of(mode: str, strategy: str) -> KindWeights:
    """What is given room by mode and strategy; unknown names are the first of each."""
    by_mode = PLAIN.times(**MODES_WEIGH.get(mode, {}))
    return by_mode.times(**STRATEGIES_WEIGH.get(strategy, {}))


def mode_named(name: str) -> Mode:
    """The mode of that name. `user` has the texts of `assistant` until a file gives it others.

    Raises:
        InvalidConfig: there is no such mode; names those there are.
    """
    if name not in MODES_WEIGH:
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

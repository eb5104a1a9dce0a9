"""A mode says what a session is used for. It sets the system prompt and what summaries keep first.

The texts of a mode are templates (FR-12). Those of the mode `user` come from the user's own file.
History, checkpoints and goals do not depend on the mode, so changing the mode keeps them.
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
"""The heading in the user's file above the text that says what summaries keep."""


@dataclass(frozen=True, slots=True)
class KindWeights:
    """Weights that decide what a summary by code keeps: of each kind of item, and of names."""

    host: float = 12.0
    request: float = 10.0
    pasted: float = 20.0
    aside: float = 10.0
    """A user's answer to a tool, or a refusal."""
    closing: float = 1.5
    said: float = 0.6
    earlier: float = 1.5
    changed: float = 600.0
    """An action that others see, such as a commit or a release."""
    called: float = 60.0
    """A call that may have changed something outside."""
    failed: float = 1.5
    checked: float = 6.0
    wrote: float = 20.0
    looked: float = 1.0
    decided: float = 1.0
    """Factor for the assistant's sentences that state a decision."""
    names: float = 1.0
    """Factor for the space for names."""
    room: float = 1.0
    """Factor for the space of the whole summary. Below 1, the rest of the space stays empty."""

    def of(self, kind: str) -> float:
        """Return the weight of a kind."""
        weight: float = getattr(self, kind)
        return weight

    def more(self, kind: str) -> float:
        """Return the weight of a kind divided by its default weight."""
        return self.of(kind) / PLAIN.of(kind)

    def times(self, **more: float) -> KindWeights:
        """Return new weights, with each kind in `more` multiplied by its factor."""
        return replace(self, **{kind: self.of(kind) * by for kind, by in more.items()})


PLAIN = KindWeights()
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
"""By what factor each mode and each strategy multiplies the weight of a kind."""


@dataclass(frozen=True, slots=True)
class Mode:
    """What a session is used for, and the texts that go with this use."""

    name: str
    focus: str
    """What a summary must keep. It ends the sentence `Keep first: …`."""
    own_text: str = ""
    """The text of the user's file. It replaces the template; empty if there is no such text."""

    def text(self, length: Length) -> str:
        """Return the mode's text for the system prompt."""
        if self.own_text:
            return self.own_text
        return template(f"modes/{_template_of(self.name)}.{length}.md")


def weights_of(mode: str, strategy: str) -> KindWeights:
    """Return the weights for a mode and a strategy. An unknown name changes no weight."""
    by_mode = PLAIN.times(**MODES_WEIGH.get(mode, {}))
    return by_mode.times(**STRATEGIES_WEIGH.get(strategy, {}))


def mode_named(name: str) -> Mode:
    """Return the mode with that name. `user` has the texts of `assistant` until a file is read.

    Raises:
        InvalidConfig: there is no such mode. The error lists the modes.
    """
    if name not in MODES_WEIGH:
        reason = f"no mode {without_credentials(name)!r}; there are {', '.join(MODES)}"
        raise InvalidConfig("mode", reason)
    return Mode(name, template(f"modes/{_template_of(name)}.focus.md"))


def user_mode(text: str) -> Mode:
    """Return the mode `user` with the texts of the user's own file.

    The file holds the text for the system prompt and, below a heading `Summaries`, what a summary
    must keep. If one of these is missing, the text of the mode `assistant` is used.
    """
    heading = _SUMMARIES.search(text)
    said = text[: heading.start()] if heading else text
    focus = text[heading.end() :].strip() if heading else ""
    return Mode("user", focus or mode_named("user").focus, said.strip())


def _template_of(name: str) -> str:
    return "assistant" if name == "user" else name

"""The outline of a checkpoint: its sections in order, in one table. Start at `OUTLINE`.

A checkpoint has three parts. The *record* is what code knows and writes: what is asked, what must
hold, where the work stands. The *story* is what happened and why, told by a model or by extraction.
The *lists* are names for whoever looks something up. A section is added or changed here; what fills
it stands under its title in `compression.composition`, of the lists in `compression.listing`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from compact.core.anchors import AnchorKind
from compact.core.sentences import Topic

Part = Literal["record", "story", "lists"]


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a checkpoint."""

    title: str
    part: Part
    most: float
    """Largest share, 0 to 1, of its part's room that it may take while others want room."""
    least: int = 0
    """Tokens that it may take however small the room is."""
    gives_way: int = 0
    """Which is left out first where room is short: the largest number first, 0 never."""


GOAL, RULES, STATE, OPEN, NEXT = "Goal", "Rules", "State", "Open", "Next"
DECISIONS, FACTS, STORY, ERRORS = "Decisions", "Facts", "Story", "Errors"
FILES, COMMANDS, NAMES = "Files", "Commands", "Names"

OUTLINE: Sequence[Section] = (
    # what the person wants now, and what it is part of
    Section(GOAL, "record", most=0.12, least=60),
    # what holds beyond the turn in which a person said it, word for word
    Section(RULES, "record", most=0.35, least=80),
    # what is true now: branch, commit, checks, what is not checked yet
    Section(STATE, "record", most=0.16, least=100),
    # work that was begun or promised and is not done
    Section(OPEN, "record", most=0.15, least=60),
    # what was begun last, what was asked or offered last, what waits for an answer
    Section(NEXT, "record", most=0.12, least=60),
    # questions with their answers, choices with their reasons, refusals with their words
    Section(DECISIONS, "record", most=0.20, gives_way=3),
    # what was said of people, things, amounts and dates
    Section(FACTS, "record", most=0.30, gives_way=4),
    # what happened, in the order of time, and why
    Section(STORY, "story", most=1.0),
    # what a tool reported as wrong, and what became of it
    Section(ERRORS, "record", most=0.12, gives_way=5),
    # files that were written, then files that were read
    Section(FILES, "lists", most=0.4, gives_way=2),
    # how things are run here
    Section(COMMANDS, "lists", most=0.15, gives_way=6),
    # other names that were used and stand nowhere above
    Section(NAMES, "lists", most=1.0, gives_way=7),
)
"""In the order of a checkpoint."""
ALSO: Mapping[str, Sequence[str]] = {
    GOAL: ("goals", "task", "objective", "current task", "primary request and intent"),
    RULES: ("instructions", "constraints", "requirements", "preferences", "user instructions"),
    STATE: ("now", "current state", "status", "current work", "where it stands"),
    OPEN: ("open work", "to do", "todo", "todos", "pending tasks", "plan"),
    NEXT: ("next step", "next steps"),
    DECISIONS: ("decided", "agreements", "choices"),
    FACTS: ("key facts", "details", "key details"),
    STORY: ("summary", "what happened", "done", "progress", "history", "account"),
    ERRORS: ("errors and fixes", "problems", "failures"),
    FILES: ("files and code", "artifacts", "changes"),
    NAMES: ("identifiers", "entities"),
}
"""Other titles that sections are known by in what people and models write, in lower case."""


@dataclass(frozen=True, slots=True)
class Emphasis:
    """What is given more room than else, by weights; 1 is as it is, 0 leaves a section out."""

    sections: Mapping[str, float] = field(default_factory=dict)
    """By title: of a section's share of the room, and of the story's lines about the same."""
    anchors: Mapping[AnchorKind, float] = field(default_factory=dict)
    """By the kind of a fact that is kept word for word: what it counts among names."""
    listed: float = 1.0
    """Of the room for files and names, and of how many there are; the story gets what is left."""
    room: float = 1.0
    """Of the room for the whole: below 1, the rest stays free."""
    attempts: bool = False
    """Whether all that failed is told: every line that says so, by what was tried, and what came of
    it; else only the newest line of what was checked."""
    said: frozenset[Topic] = frozenset()
    """Topics of the assistant's own sentences that stand in their sections (`ABOUT`)."""

    def of(self, title: str) -> float:
        """The weight of a section."""
        return self.sections.get(title, 1.0)

    def with_other(self, other: Emphasis) -> Emphasis:
        """Both at once."""
        return Emphasis(
            sections={x: self.of(x) * other.of(x) for x in {**self.sections, **other.sections}},
            anchors={
                x: self.anchors.get(x, 1.0) * other.anchors.get(x, 1.0)
                for x in {**self.anchors, **other.anchors}
            },
            listed=self.listed * other.listed,
            room=self.room * other.room,
            attempts=self.attempts or other.attempts,
            said=self.said | other.said,
        )


PLAIN = Emphasis()
"""All as it is."""
STRATEGIES: Mapping[str, Emphasis] = {
    "task_state": PLAIN,
    "brief": Emphasis(
        sections={FACTS: 0.5, ERRORS: 0.0, FILES: 0.5, COMMANDS: 0.0, NAMES: 0.0}, room=0.5
    ),
    "decision_log": Emphasis(
        sections={RULES: 1.5, DECISIONS: 3.0, FACTS: 0.5, FILES: 0.5, COMMANDS: 0.0, NAMES: 0.0},
        listed=0.5,
        said=frozenset({"decisions"}),
    ),
    "code_delta": Emphasis(
        sections={STATE: 1.5, DECISIONS: 0.5, FACTS: 0.5, FILES: 2.0, NAMES: 0.5},
        anchors={"path": 1.5, "file": 1.5, "identifier": 1.5},
        listed=1.5,
        said=frozenset({"done"}),
    ),
}
"""What each strategy dwells on, in the words of its template: a short account, what was decided and
why, what changed in which file. Rules, open work and what comes next stand in all of them."""
ABOUT: Mapping[Topic, str] = {
    "decisions": DECISIONS,
    "errors": ERRORS,
    "facts": FACTS,
    "done": STATE,
    "open": OPEN,
    "plan": NEXT,
}
"""The section that is about the same as a sentence of that topic."""
TITLES: Sequence[str] = tuple(section.title for section in OUTLINE)
LISTS = frozenset(s.title for s in OUTLINE if s.part == "lists")
"""Sections that hold no sentences."""

_BY_NAME: Mapping[str, Section] = {
    name: section
    for section in OUTLINE
    for name in (section.title.lower(), *ALSO.get(section.title, ()))
}
_HEADING = re.compile(r"^#{1,3} ([^\n#]{1,60})$", re.MULTILINE)


def section_named(name: str) -> Section | None:
    """The section a heading's words stand for; None where they are of no section."""
    return _BY_NAME.get(name.strip().strip("*_:").strip().lower())


def sections_of(text: str) -> Iterator[tuple[Section | None, str]]:
    """The sections of a text and their bodies, in its order; what stands before the first known
    heading belongs to None. Headings that name no section of ours stay in the body.
    """
    start, current = 0, None
    for found in _HEADING.finditer(text):
        if (section := section_named(found[1])) is None:
            continue
        if body := text[start : found.start()].strip():
            yield current, body
        start, current = found.end(), section
    if body := text[start:].strip():
        yield current, body

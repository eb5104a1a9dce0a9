"""Markers: lines of a model's answer that report progress on goals (FR-7).

    [GOAL] Repair the roof
    [CHECKPOINT] Order the slates - COMPLETED        IN-PROGRESS, PENDING, BLOCKED: why
    [DECISION] Slate, not tin - LOCKED
    [ARTIFACT] Created plans/roof.md                 Modified, Deleted
    [NEXT] Call the roofer

An older syntax means the same: `NEW_GOAL: d | high`, `CHECKPOINT: d`, `DECISION: d | why`,
`DECISION_LOCKED: d | why`, `ARTIFACT: path | created`, `GOAL_COMPLETE: d`, `GOAL_PAUSE`.

A marker begins a line of the model's own words, perhaps after a bullet. Links, quotations, code and
tool output (`text.passages`) contain no markers. In the first syntax, case does not matter. In the
older one it does, since people write `Decision: …` in prose. `text.progress` applies markers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never, cast

from compact.messages.characters import carried
from compact.messages.goals import Action, Artifact, Decision, Priority, Subtask, SubtaskStatus
from compact.patterns import regex
from compact.text.passages import own_lines

LONGEST = 300
"""A marker's line has at most this many characters. A longer line is prose."""


@dataclass(frozen=True, slots=True)
class GoalMarker:
    """Sets a goal."""

    text: str
    priority: Priority = "medium"


@dataclass(frozen=True, slots=True)
class EndMarker:
    """Marks a goal as reached or paused. Without a text, this is the newest active goal."""

    text: str = ""
    status: Literal["done", "paused"] = "done"


@dataclass(frozen=True, slots=True)
class NextMarker:
    """Names the next step towards a goal."""

    text: str


Marker: TypeAlias = GoalMarker | EndMarker | NextMarker | Subtask | Decision | Artifact
"""A marker for a subtask, decision or artifact is the same object that a goal holds."""

_TAGS = ("[goal]", "[checkpoint]", "[decision]", "[artifact]", "[next]")
_WORDS = ("NEW_GOAL", "CHECKPOINT", "DECISION", "ARTIFACT", "GOAL_COMPLETE", "GOAL_PAUSE")
_LINE = regex(
    r"[ \t]{0,16}(?:(?:[-*+•]|\d{1,3}[.)]|\#{1,6})[ \t]{1,4})?(?P<around>[*_`]{0,4})"
    r"(?:\[(?P<tag>(?i:goal|checkpoint|decision|artifact|next))\](?!\(|\[|:[ \t]*\w+://)"
    r"(?P<after>[*_`]{0,4}):?"
    r"|(?P<word>NEW_GOAL|CHECKPOINT|DECISION_LOCKED|DECISION|ARTIFACT|GOAL_COMPLETE):"
    r"|(?P<bare>GOAL_PAUSE|GOAL_COMPLETE)\b:?)(?P<rest>.*)"
)

_SEPARATOR = r"(?: -{1,3} ?| ?[–—] ?| ?\| ?| ?: | ?[\[(] ?)"
_STATUS = regex(
    rf"(?P<text>.*?\S){_SEPARATOR}[*_`]{{0,4}}(?:(?P<completed>completed?|done|finished)"
    r"|(?P<in_progress>in[-_ ]?progress|ongoing|started)|(?P<pending>pending|to[- ]?do|open"
    r"|not[- ](?:yet[- ])?(?:completed?|done|started|finished))"
    r"|(?P<blocked>blocked))[*_`]{0,4}[\])]?[*_`]{0,4}[.!]?"
    r"(?(blocked)(?: ?[:(–—-] ?(?P<note>.*?)\)?)?)",
    re.IGNORECASE,
)
_BARE_STATUS = regex(
    r"(?P<text>.*?\S) (?:(?P<completed>COMPLETED|DONE)|(?P<in_progress>IN[-_ ]?PROGRESS)"
    r"|(?P<pending>PENDING|NOT (?:YET )?(?:COMPLETED|DONE|STARTED))|(?P<blocked>BLOCKED))"
)
_LOCK = regex(
    rf"(?P<text>.*?\S)(?:{_SEPARATOR}[*_`]{{0,4}}(?i:(?P<lock>(?:un)?locked))"
    r"| (?P<bare>(?:UN)?LOCKED))"
    r"[*_`]{0,4}[\])]?[.!]?"
)
_ACTION = regex(
    r"(?P<action>created?|modified|modify|changed|updated?|deleted?|removed?)\b ?:? ?(?P<path>.+)",
    re.IGNORECASE,
)
_ACTIONS: dict[str, Action] = {"c": "created", "m": "modified", "u": "modified", "d": "deleted"}


def markers_in(text: str) -> list[Marker]:
    """Return the markers of a text in order. Malformed lines are skipped."""
    return [marker for _, marker in marked_lines(text)]


def marked_lines(text: str) -> list[tuple[str, Marker]]:
    """Return the lines of a text that hold a marker, each with its marker, in order."""
    if not _may_hold(text):
        return []
    lines = ((line, _marker(line)) for line, is_own in own_lines(text) if is_own)
    return [(line, marker) for line, marker in lines if marker is not None]


def stands_in(line: str, text: str) -> bool:
    """Whether a marker's line occurs anywhere in a text. White space does not matter."""
    words = " ".join(line.strip(" \t\r*_`#+-•").split())
    return _may_hold(text) and words in " ".join(text.split())


def marker_line(marker: Marker) -> str:
    """Return the marker as a line that `markers_in` reads."""
    match marker:
        case GoalMarker(text, "medium"):
            return f"[GOAL] {text}"
        case GoalMarker(text, priority):
            return f"NEW_GOAL: {text} | {priority}"
        case EndMarker(status="paused"):
            return "GOAL_PAUSE"
        case EndMarker(text):
            return f"GOAL_COMPLETE: {text}".strip()
        case Subtask(text=text, status=status, note=note):
            why = f": {note}" if note else ""
            return f"[CHECKPOINT] {text} - {status.replace('_', '-').upper()}{why}"
        case Decision(text=text, locked=locked, reason=reason) if reason:
            return f"DECISION{'_LOCKED' * locked}: {text} | {reason}"
        case Decision(text=text, locked=locked):
            return f"[DECISION] {text} - {'LOCKED' if locked else 'UNLOCKED'}"
        case Artifact(path=path, action=action):
            return f"[ARTIFACT] {action.capitalize()} {path}"
        case NextMarker(text):
            return f"[NEXT] {text}"
        case _:
            assert_never(marker)


def _may_hold(text: str) -> bool:
    # A quick test first: most texts have no marker, and finding passages is slow.
    folded = text.lower()
    return any(map(folded.__contains__, _TAGS)) or any(map(text.__contains__, _WORDS))


def _marker(line: str) -> Marker | None:
    found = _LINE.match(carried(line)) if len(line) <= LONGEST else None
    if found is None:
        return None
    if bare := found["bare"]:
        if found["rest"].strip(" \t\r*_`.:"):
            return None
        return EndMarker(status="paused" if bare == "GOAL_PAUSE" else "done")
    rest = " ".join(found["rest"].split())
    around = found["around"]
    if around and not found["after"]:
        rest = rest.removeprefix(around) if rest.startswith(around) else rest.removesuffix(around)
    rest = rest.strip()
    if not any(letter.isalnum() for letter in rest):
        return EndMarker() if found["word"] == "GOAL_COMPLETE" and not rest else None
    if tag := found["tag"]:
        return _tagged(tag.lower(), rest)
    return _worded(found["word"], rest)


def _tagged(tag: str, rest: str) -> Marker | None:
    match tag:
        case "goal":
            return GoalMarker(rest)
        case "checkpoint":
            return _task(rest)
        case "decision":
            found = _LOCK.fullmatch(rest)
            if found is None:
                return Decision(text=rest)
            is_open = (found["lock"] or found["bare"]).lower().startswith("un")
            return Decision(text=found["text"], locked=not is_open)
        case "artifact":
            return _artifact(rest)
        case _:
            return NextMarker(rest)


def _worded(word: str, rest: str) -> Marker | None:
    text, _, more = (piece.strip() for piece in rest.partition(" | "))
    match word:
        case "NEW_GOAL":
            if more.lower() in ("high", "medium", "low"):
                return GoalMarker(text, cast(Priority, more.lower()))
            return GoalMarker(rest)
        case "CHECKPOINT":
            return _task(rest)
        case "ARTIFACT":
            return _artifact(f"{more} {text}" if more else rest)
        case "GOAL_COMPLETE":
            return EndMarker(rest)
        case _:
            return Decision(text=text, locked=word == "DECISION_LOCKED", reason=more)


def _task(rest: str) -> Subtask:
    found = _STATUS.fullmatch(rest) or _BARE_STATUS.fullmatch(rest)
    if found is None:
        return Subtask(text=rest)
    named = found.groupdict()
    statuses: tuple[SubtaskStatus, ...] = ("completed", "in_progress", "pending", "blocked")
    status = next(each for each in statuses if named[each])
    return Subtask(text=found["text"], status=status, note=named.get("note") or "")


def _artifact(rest: str) -> Artifact | None:
    found = _ACTION.fullmatch(rest)
    if found is None:
        return None
    path = found["path"].strip("`*\"' ")
    action = found["action"].lower()
    first = {"changed": "m", "removed": "d", "remove": "d"}.get(action, action[0])
    return Artifact(path=path, action=_ACTIONS[first]) if path else None

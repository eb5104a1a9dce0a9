"""What the notes of a session say: how they are named, and which of them counts at a position.

Goals and modes are noted with the branch and the position from which they hold, so that branches,
undo and a look back see those of their time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from compact.core import defaults
from compact.core.goals import Goal
from compact.core.sessions import Branch

GOALS, MODE, PIN, ASIDE = "goals:", "mode:", "pin:", "aside:"
CALIBRATION, COUNTED, KEY = "calibration:", "counted:", "key:"
"""How the names of the session's notes begin; with `KEY` those that hold the keys of the session's
own text. Each pin, and each message put aside, is a note of its own: of two writers that pin at
once, neither undoes the other."""
TRACKED = ":tracked"
"""How the names of goals' notes end that a model's markers led to (`managers.tracking`). Prompts
show them from the next compression on: until then the markers are in view themselves, and what
stands before them keeps its bytes."""
EVER = 2**62
"""A position that no session reaches."""
NOTHING_SET = f"{GOALS}{0:06}:none"
"""The name that progress goes on from where nobody has set goals: before that of every note."""


class NotedGoals(NamedTuple):
    """Goals as a note of the session says them."""

    goals: tuple[Goal, ...] = ()
    at: int = 0
    """Up to which position markers are in them."""
    name: str = NOTHING_SET
    """The note's name."""


def goals_in(
    notes: Mapping[str, Mapping[str, Any]],
    lineage: Sequence[tuple[str, int]],
    position: int,
    tracked: int = EVER,
) -> NotedGoals:
    """The goals that a session's notes say it had at a position of the newest branch of a lineage:
    the newest change on the branch counts; before a branch begins, its parent's.
    """
    name = _newest(notes, GOALS, lineage, position, tracked)
    if name is None:
        return NotedGoals()
    change = notes[name]
    return NotedGoals(tuple(map(Goal.model_validate, change["goals"])), change["at"], name)


def goals_row(goals: Sequence[Goal], branch_id: str, at: int) -> dict[str, Any]:
    """What a note says of the goals from a position of a branch on."""
    rows = [goal.model_dump(mode="json") for goal in goals]
    return {"branch": branch_id, "at": at, "goals": rows}


def mode_in(
    notes: Mapping[str, Mapping[str, Any]], lineage: Sequence[tuple[str, int]], position: int
) -> str | None:
    """The mode that a session's notes say somebody had set by a position."""
    name = _newest(notes, MODE, lineage, position)
    return None if name is None else notes[name]["mode"]


def _newest(
    notes: Mapping[str, Mapping[str, Any]],
    prefix: str,
    lineage: Sequence[tuple[str, int]],
    position: int,
    tracked: int = EVER,
) -> str | None:
    """The name of the newest change that counts at a position, among notes whose names begin so."""
    found = (name for name in notes if name.startswith(prefix))
    names = sorted(found, key=order, reverse=True)
    for branch_id, end in reversed(lineage):
        for name in names:
            change, last = notes[name], min(position, end)
            if name.endswith(TRACKED):
                last = min(last, tracked)
            if change["branch"] == branch_id and change["at"] <= last:
                return name
    return None


def order(name: str) -> str:
    """By what changes are sorted: what somebody set, then what markers led to from there, each by
    the position that it was looked up to.
    """
    return name.removesuffix(TRACKED)


def set_by(name: str) -> str:
    """The name of the note by which somebody set the goals that a note of progress goes on from;
    of a note by which somebody set goals, its own.
    """
    return ":".join(name.removesuffix(TRACKED).split(":")[:3])


def next_number(notes: Mapping[str, Mapping[str, Any]], prefix: str) -> str:
    """How the name of a new change goes on: after all there are, and like no other writer's."""
    numbers = (int(name.split(":")[1]) for name in notes if name.startswith(prefix))
    return f"{max(numbers, default=0) + 1:06}:{defaults.new_id()[:8]}"


def lineage_of(branches: Sequence[Branch], branch: Branch) -> tuple[tuple[str, int], ...]:
    """The branches that a branch consists of, the oldest first, each with where it ends."""
    known = {b.id: b for b in branches}
    rows = [(branch.id, EVER)]
    end = branch.fork
    while branch.parent is not None:
        branch = known[branch.parent]
        rows.append((branch.id, end))
        end = min(end, branch.fork)
    return tuple(rows[::-1])

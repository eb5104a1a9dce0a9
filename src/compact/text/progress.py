"""Applies a model's markers to goals (FR-7). The functions here are pure and deterministic.

A marker refers to the entry with the same words. Case, spaces and final punctuation do not matter.
If there is no such entry, the marker adds an entry to the newest active goal. The number of entries
is limited, since every prompt contains the goals. A model cannot end a goal that a person set.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar, assert_never

from compact.messages.goals import Artifact, Decision, Goal, Subtask
from compact.text.markers import EndMarker, GoalMarker, Marker, NextMarker, marker_line

MOST_MADE, MOST_ENDED = 5, 20
"""A model may have at most `MOST_MADE` active goals. At most `MOST_ENDED` ended ones are kept."""
MOST_SUBTASKS, MOST_DECISIONS, MOST_ARTIFACTS, MOST_NEXT = 50, 30, 50, 5
"""A goal has at most this many entries. Beyond that, the oldest entry that may go is dropped."""

T = TypeVar("T")
_FINAL = ".,;:!?…。，；：！？"
"""Final punctuation. It is ignored when texts are compared."""


class GoalProgress(NamedTuple):
    """Goals after markers were applied."""

    goals: tuple[Goal, ...]
    changes: tuple[str, ...] = ()
    """Markers that changed something, as lines."""
    left_out: tuple[str, ...] = ()
    """Rejected markers as lines, each with the reason."""


class _LeftOut(Exception):
    """A marker is rejected, for this reason."""


def progress(
    goals: Sequence[Goal],
    markers: Iterable[Marker],
    *,
    fits: Callable[[Sequence[Goal]], bool] = lambda _: True,
) -> GoalProgress:
    """Apply one message's markers to goals.

    `fits` says whether goals that have grown are still small enough for every prompt. A marker that
    makes them too large is rejected.
    """
    now, changes, left_out = tuple(goals), list[str](), list[str]()
    names_next = False
    for marker in markers:
        try:
            before = now if names_next or not isinstance(marker, NextMarker) else _no_next(now)
            after = apply(before, marker)
        except _LeftOut as reason:
            left_out.append(f"{marker_line(marker)} ({reason})")
            continue
        if _size(after) > _size(now) and not fits(after):
            left_out.append(f"{marker_line(marker)} (the goals take all the room they may have)")
            continue
        names_next = names_next or isinstance(marker, NextMarker)
        if after != now:
            changes.append(marker_line(marker))
            now = after
    return GoalProgress(now, tuple(changes), tuple(left_out))


def apply(goals: tuple[Goal, ...], marker: Marker) -> tuple[Goal, ...]:
    """Apply one marker to goals."""
    match marker:
        case GoalMarker():
            return _set(goals, marker)
        case EndMarker(text, status):
            return _with(goals, _own(goals, text), status=status)
        case Subtask():
            return _task(goals, marker)
        case Decision():
            return _decided(goals, marker)
        case Artifact():
            return _touched(goals, marker)
        case NextMarker(text):
            at = _newest(goals)
            steps = (*(s for s in goals[at].next_steps if s != text), text)
            return _with(goals, at, next_steps=steps[-MOST_NEXT:])
        case _:
            assert_never(marker)


# --- goals ----------------------------------------------------------------------------------------


def _set(goals: tuple[Goal, ...], marker: GoalMarker) -> tuple[Goal, ...]:
    if _found(marker.text, [goal.text for goal in goals if goal.is_active]) is not None:
        return goals
    made = [goal for goal in goals if goal.is_models]
    if sum(goal.is_active for goal in made) >= MOST_MADE:
        raise _LeftOut(f"{MOST_MADE} goals that a model set are active")
    gone = frozenset([goal.id for goal in made if not goal.is_active][:-MOST_ENDED])
    new = Goal(text=marker.text, priority=marker.priority, made_by="model")
    return (*(goal for goal in goals if goal.id not in gone), new)


def _own(goals: tuple[Goal, ...], text: str) -> int:
    """Return the index of the active goal with this text, or without a text, of the newest one.

    Raises:
        _LeftOut: there is no such goal, or a person set it.
    """
    at = _newest(goals)
    if text:
        active = _active(goals)
        found = _found(text, [goals[i].text for i in active])
        if found is None:
            raise _LeftOut("no active goal says this")
        at = active[found]
    if not goals[at].is_models:
        raise _LeftOut("a person set this goal, and ends it")
    return at


def _active(goals: Sequence[Goal]) -> list[int]:
    """Return the indices of active goals, the newest first."""
    return [i for i, goal in enumerate(goals) if goal.is_active][::-1]


def _newest(goals: Sequence[Goal]) -> int:
    active = _active(goals)
    if not active:
        raise _LeftOut("no goal is active")
    return active[0]


def _with(goals: tuple[Goal, ...], at: int, **changed: object) -> tuple[Goal, ...]:
    return (*goals[:at], goals[at].model_copy(update=changed), *goals[at + 1 :])


def _no_next(goals: tuple[Goal, ...]) -> tuple[Goal, ...]:
    # A message that names next steps replaces the earlier ones.
    return _with(goals, _newest(goals), next_steps=())


def _size(goals: Sequence[Goal]) -> int:
    """Count the characters in active goals that a model can add. A subtask's status adds none."""
    active = [goal for goal in goals if goal.is_active]
    own = [text for goal in active for text in (goal.text, *goal.next_steps)]
    tasks = [task.text + task.note for goal in active for task in goal.subtasks]
    decisions = [entry.text + entry.reason for goal in active for entry in goal.decisions]
    files = [file.path for goal in active for file in goal.artifacts]
    return sum(map(len, (*own, *tasks, *decisions, *files)))


# --- what belongs to a goal -----------------------------------------------------------------------


def _task(goals: tuple[Goal, ...], marker: Subtask) -> tuple[Goal, ...]:
    active = _active(goals)
    entries = [(i, task) for i in active for task in goals[i].subtasks]
    found = _found(marker.text, [task.text for _, task in entries])
    named = _found(marker.text, [goals[i].text for i in active])
    at = active[named] if named is not None else _newest(goals)
    is_over = named is not None and marker.status == "completed"
    if is_over and (found is None or goals[at].is_models):
        return _with(goals, _own(goals, marker.text), status="done")
    if found is not None:
        return _moved(goals, *entries[found], marker)
    if named is not None and marker.status != "blocked":  # an active goal is to do or begun anyway
        return goals
    tasks = [*goals[at].subtasks, marker]
    kept = _bounded(tasks, MOST_SUBTASKS, lambda task: task.status == "completed")
    return _with(goals, at, subtasks=kept)


def _moved(goals: tuple[Goal, ...], at: int, known: Subtask, marker: Subtask) -> tuple[Goal, ...]:
    if marker.status != "pending":
        new = known.model_copy(update={"status": marker.status, "note": marker.note})
        return _with(goals, at, subtasks=_replaced(goals[at].subtasks, known, new))
    if known.status != "pending":
        raise _LeftOut("it is further along already")
    return goals


def _decided(goals: tuple[Goal, ...], marker: Decision) -> tuple[Goal, ...]:
    entries = [(i, known) for i in _active(goals) for known in goals[i].decisions]
    found = _found(marker.text, [known.text for _, known in entries])
    if found is not None:
        at, known = entries[found]
        reason, locked = marker.reason or known.reason, known.locked or marker.locked
        if known.locked and known.reason and reason != known.reason:
            raise _LeftOut("it is decided for good, with another reason")
        new = known.model_copy(update={"locked": locked, "reason": reason})
        return _with(goals, at, decisions=_replaced(goals[at].decisions, known, new))
    at = _newest(goals)
    kept = _bounded([*goals[at].decisions, marker], MOST_DECISIONS, lambda each: not each.locked)
    return _with(goals, at, decisions=kept)


def _touched(goals: tuple[Goal, ...], marker: Artifact) -> tuple[Goal, ...]:
    at = next(
        (i for i in _active(goals) if any(f.path == marker.path for f in goals[i].artifacts)),
        _newest(goals),
    )
    before = [file for file in goals[at].artifacts if file.path == marker.path]
    is_new = before and before[0].action == "created" and marker.action == "modified"
    others = [file for file in goals[at].artifacts if file.path != marker.path]
    files = (*others, before[0] if is_new else marker)
    return _with(goals, at, artifacts=files[-MOST_ARTIFACTS:])


def _replaced(items: Sequence[T], known: T, new: T) -> tuple[T, ...]:
    return tuple(new if item is known else item for item in items)


def _bounded(items: list[T], most: int, may_go: Callable[[T], bool]) -> tuple[T, ...]:
    """Drop the oldest item that `may_go` allows, if there are too many items."""
    if len(items) <= most:
        return tuple(items)
    oldest = next((i for i, item in enumerate(items[:-1]) if may_go(item)), None)
    if oldest is None:
        raise _LeftOut(f"{most} stand there already")
    return tuple(items[:oldest] + items[oldest + 1 :])


# --- the same words -------------------------------------------------------------------------------


def _found(text: str, others: Sequence[str]) -> int | None:
    """Return the index of the first text with the same words."""
    wanted = _plain(text)
    return next((i for i, other in enumerate(others) if _plain(other) == wanted), None)


def _plain(text: str) -> str:
    """Return a text in lower case, without extra spaces and final punctuation. If nothing is left,
    return the text unchanged.
    """
    words = unicodedata.normalize("NFC", text).casefold().split()
    return " ".join(words).rstrip(_FINAL).rstrip() or text

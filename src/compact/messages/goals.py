"""Goals: what a session is for. Never compressed, in every prompt word for word, part of the floor.

What a model's markers do to them lives in `text.progress`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from compact.errors import InvalidArgument
from compact.messages import clock_and_ids
from compact.messages.calls import no_text, of_field
from compact.messages.messages import Message, MessageMetadata
from compact.messages.own_text import OwnText

GoalStatus = Literal["active", "paused", "done", "dropped"]
SubtaskStatus = Literal["pending", "in_progress", "completed", "blocked"]
Action = Literal["created", "modified", "deleted"]
Priority = Literal["high", "medium", "low"]

SHOWN_DONE, SHOWN_DECISIONS, SHOWN_ARTIFACTS, SHOWN_NEXT = 5, 12, 12, 3
"""How many of each kind a prompt shows of one goal, the newest; open subtasks are all shown."""
MODELS = "(the assistant's own, the user has not confirmed it) "
"""What stands before a goal in a prompt that only a model wants."""

_STATUS_WORDS: dict[SubtaskStatus, str] = {
    "completed": "done",
    "in_progress": "in progress",
    "pending": "to do",
    "blocked": "blocked",
}


class Subtask(BaseModel, frozen=True, defer_build=True):
    """A step towards a goal."""

    text: str = Field(min_length=1)
    status: SubtaskStatus = "pending"
    note: str = ""
    """What blocks it."""


class Decision(BaseModel, frozen=True, defer_build=True):
    """Something that was decided for a goal; what is locked stays word for word."""

    text: str = Field(min_length=1)
    locked: bool = False
    reason: str = ""


class Artifact(BaseModel, frozen=True, defer_build=True):
    """A file that was worked on for a goal."""

    path: str = Field(min_length=1)
    action: Action


class Goal(BaseModel, frozen=True, defer_build=True):
    """One goal of a session, and how far it is."""

    text: str = Field(min_length=1)
    id: str = Field(default_factory=clock_and_ids.new_id)
    status: GoalStatus = "active"
    created_at: datetime = Field(default_factory=clock_and_ids.now)
    priority: Priority = "medium"
    made_by: Literal["person", "model"] = "person"
    """Who set it: a model ends only what a model set, and nobody has confirmed."""
    confirmed: bool = False
    """Whether a person has made a model's goal their own."""
    subtasks: tuple[Subtask, ...] = ()
    decisions: tuple[Decision, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    """The file that changed last stands last."""
    next_steps: tuple[str, ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether it is worked on now."""
        return self.status == "active"

    @property
    def is_models(self) -> bool:
        """Whether only a model wants it."""
        return self.made_by == "model" and not self.confirmed


def goals_given(goals: Sequence[Goal | str]) -> list[Goal]:
    """The goals that somebody gave; a text is an active one.

    Raises:
        InvalidArgument: one is empty, or no text that can be kept.
    """
    no_text("goals", goals)
    made: list[Goal] = []
    for i, goal in enumerate(goals):
        if goal == "":
            raise InvalidArgument("goals", f"goals[{i}] is an empty text")
        try:
            made.append(goal if isinstance(goal, Goal) else Goal(text=goal))
        except ValidationError as error:
            raise InvalidArgument("goals", f"goals[{i}].{of_field(error).reason}") from None
    return made


def open_tasks(goals: Sequence[Goal]) -> tuple[str, ...]:
    """The words of what is still to do for the active goals."""
    return tuple(
        task.text
        for goal in goals
        if goal.is_active
        for task in goal.subtasks
        if task.status != "completed"
    )


def goals_message(goals: Sequence[Goal], own: OwnText) -> Message | None:
    """The active goals as the message that ends the system prompt; None where there are none."""
    active = [goal for goal in goals if goal.is_active]
    if not active:
        return None
    body = "\n".join(line for goal in active for line in _lines(goal))
    return Message(
        role="system",
        content=own.under("Goals", body),
        id=f"goals-{own.digest(body)}",
        timestamp=max(goal.created_at for goal in active),
        metadata=MessageMetadata(source="goals"),
    )


def _lines(goal: Goal) -> Iterator[str]:
    """A goal as a prompt shows it: its words and what is open whole, of the rest the newest."""
    yield f"- {MODELS * goal.is_models}{goal.text}"
    if goal.priority != "medium":
        yield f"  - priority: {goal.priority}"
    done = [task for task in goal.subtasks if task.status == "completed"]
    yield from _older("done", len(done) - SHOWN_DONE)
    yield from (f"  - done: {task.text}" for task in done[-SHOWN_DONE:])
    for task in goal.subtasks:
        if task.status != "completed":
            note = f" ({task.note})" if task.note else ""
            yield f"  - {_STATUS_WORDS[task.status]}: {task.text}{note}"
    yield from _older("decided", len(goal.decisions) - SHOWN_DECISIONS)
    for decision in _shown_decisions(goal.decisions):
        why = f" (because: {decision.reason})" if decision.reason else ""
        yield f"  - decided{' for good' * decision.locked}: {decision.text}{why}"
    yield from _older("files", len(goal.artifacts) - SHOWN_ARTIFACTS)
    yield from (f"  - {file.action}: {file.path}" for file in goal.artifacts[-SHOWN_ARTIFACTS:])
    yield from (f"  - next: {step}" for step in goal.next_steps[:SHOWN_NEXT])


def _older(what: str, count: int) -> Iterator[str]:
    if count > 0:
        yield f"  - {what}: {count} more before these"


def _shown_decisions(decisions: Sequence[Decision]) -> list[Decision]:
    """The locked ones first where not all can be shown, the newest of them; in their order."""
    order = sorted(range(len(decisions)), key=lambda i: (decisions[i].locked, i))
    return [decisions[i] for i in sorted(order[-SHOWN_DECISIONS:])]

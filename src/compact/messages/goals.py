"""Goals: what a session is for. They are never compressed, and every prompt shows them word for
word.

`text.progress` updates them by markers in the model's answers.
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
"""How many completed subtasks, decisions, files and next steps of a goal a prompt shows. The newest
are shown, and the first next steps. Subtasks that are not completed are all shown."""
MODELS = "(the assistant's own, the user has not confirmed it) "
"""The text before a goal that only a model set."""

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
    """What blocks the subtask, in words."""


class Decision(BaseModel, frozen=True, defer_build=True):
    """A decision for a goal. A locked decision stays word for word."""

    text: str = Field(min_length=1)
    locked: bool = False
    reason: str = ""


class Artifact(BaseModel, frozen=True, defer_build=True):
    """A file that was changed for a goal."""

    path: str = Field(min_length=1)
    action: Action


class Goal(BaseModel, frozen=True, defer_build=True):
    """One goal of a session, and the progress made."""

    text: str = Field(min_length=1)
    id: str = Field(default_factory=clock_and_ids.new_id)
    status: GoalStatus = "active"
    created_at: datetime = Field(default_factory=clock_and_ids.now)
    priority: Priority = "medium"
    made_by: Literal["person", "model"] = "person"
    """Who set the goal. A model may end only a model's goal that the user did not confirm."""
    confirmed: bool = False
    """Whether a person confirmed a model's goal."""
    subtasks: tuple[Subtask, ...] = ()
    decisions: tuple[Decision, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    """Changed files. The file that was changed last is at the end."""
    next_steps: tuple[str, ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether the goal's status is `active`."""
        return self.status == "active"

    @property
    def is_models(self) -> bool:
        """Whether a model set the goal and the user did not confirm it."""
        return self.made_by == "model" and not self.confirmed


def goals_given(goals: Sequence[Goal | str]) -> list[Goal]:
    """Return the caller's goals as a list. A text becomes an active goal.

    Raises:
        InvalidArgument: a goal is empty, or is not a text.
    """
    no_text("goals", goals)
    result: list[Goal] = []
    for i, goal in enumerate(goals):
        if goal == "":
            raise InvalidArgument("goals", f"goals[{i}] is an empty text")
        try:
            result.append(goal if isinstance(goal, Goal) else Goal(text=goal))
        except ValidationError as error:
            raise InvalidArgument("goals", f"goals[{i}].{of_field(error).reason}") from None
    return result


def open_tasks(goals: Sequence[Goal]) -> tuple[str, ...]:
    """Return the texts of the uncompleted subtasks of active goals."""
    return tuple(
        task.text
        for goal in goals
        if goal.is_active
        for task in goal.subtasks
        if task.status != "completed"
    )


def goals_message(goals: Sequence[Goal], own: OwnText) -> Message | None:
    """Return the active goals as the message that ends the system prompt, or None without any."""
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
    """Return the shown decisions in their order. Locked ones are preferred, then the newest."""
    order = sorted(range(len(decisions)), key=lambda i: (decisions[i].locked, i))
    return [decisions[i] for i in sorted(order[-SHOWN_DECISIONS:])]

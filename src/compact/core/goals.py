"""Goals: what a session is for. Never compressed, in every prompt word for word, part of the floor.

Subtasks, markers in a model's output and progress follow with the prompt orchestrator.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from compact.core import defaults
from compact.core.messages import Message, MessageMetadata
from compact.core.own_text import digest

GoalStatus = Literal["active", "done", "dropped"]


class Goal(BaseModel):
    """One goal of a session."""

    model_config = ConfigDict(frozen=True)

    text: str = Field(min_length=1)
    id: str = Field(default_factory=defaults.new_id)
    status: GoalStatus = "active"
    created_at: datetime = Field(default_factory=defaults.now)


def goals_message(goals: Sequence[Goal], *, role: Literal["system", "user"]) -> Message | None:
    """The active goals as the message that stands before everything but the system prompt; None
    where there are none.
    """
    active = [goal for goal in goals if goal.status == "active"]
    if not active:
        return None
    body = "\n".join(f"- {goal.text}" for goal in active)
    named = digest(body)
    return Message(
        role=role,
        content=f"[Goals · digest {named}]\n{body}",
        id=f"goals-{named}",
        timestamp=max(goal.created_at for goal in active),
        metadata=MessageMetadata(source="goals"),
    )

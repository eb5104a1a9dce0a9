"""Tracking: what a model says of the goals in its answers, taken in with them (FR-7).

Only what an assistant said counts; tools, users and quotes set no goal, nor does what a model
thinks before it speaks, or says over of what it was told of markers. Progress is noted at the
position it was said at, so that branches, undo and `context_at` see the goals of their time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from compact.core.events import GoalsChanged
from compact.core.goals import Goal
from compact.core.markers import Marker, markers_in
from compact.core.messages import Message
from compact.core.progress import progress
from compact.core.prompts import how_to_mark
from compact.core.voices import voice_of
from compact.managers.opening import parsed_all
from compact.managers.state import SessionState

SHARE = 1 / 8
"""Share of the usable window that goals may take before a model may add nothing to them."""
_THOUGHTS = re.compile(r"\A\s*<think>.*?(?:</think>|\Z)", re.DOTALL)
"""What servers that do not tell thoughts from answers leave at an answer's beginning."""


def taken_in(
    state: SessionState, messages: Sequence[Message | Mapping[str, Any]], usable: int
) -> list[Message]:
    """Append messages to the history, all of them or none, and track what they say of the goals.

    Raises:
        InvalidMessage, StoreFailed: nothing was appended.
    """

    def made(at: int) -> list[Message]:
        return parsed_all(state.wire, list(enumerate(messages, at)), state.history, at)

    added = state.history.append(made)
    track(state, added, usable)
    return added


def track(state: SessionState, messages: Sequence[Message], usable: int) -> None:
    """Take in the markers of messages that the history has just got. `usable` is the window's
    usable size in tokens.
    """
    said = [markers for message in messages if (markers := _said(message))]
    if not said:
        return

    def fits(goals: Sequence[Goal]) -> bool:
        preface = state.preface(goals)
        return preface is None or state.counter.message(preface) <= SHARE * usable

    changes, left_out = list[str](), list[str]()
    with state.lock:
        state.catch_up()
        goals = state.goals
        for markers in said:
            goals, changed, left = progress(goals, markers, fits=fits)
            changes += changed
            left_out += left
        if changes:
            state.track_goals(goals)
    if changes or left_out:
        state.emit(GoalsChanged(changes=tuple(changes), left_out=tuple(left_out)))


def _said(message: Message) -> list[Marker]:
    """The markers of a message that an assistant said."""
    if message.role != "assistant" or voice_of(message) != "assistant":
        return []
    found = markers_in(_THOUGHTS.sub("", message.text))
    taught = markers_in(how_to_mark()) if found else ()
    return [marker for marker in found if marker not in taught]

"""Intake: how what somebody gives becomes messages of a session's history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from compact.engine.history import History
from compact.messages.budget import ContextWindow
from compact.messages.formats.wire import WireFormat
from compact.messages.messages import Message
from compact.session import goal_tracking
from compact.session.entering import parsed
from compact.session.state import SessionState
from compact.text.speakers import marked

Given = Message | Mapping[str, Any]


def taken_in(
    state: SessionState, messages: Sequence[Given], window: ContextWindow
) -> list[Message]:
    """Append messages to the history, all of them or none, and track what they say of the goals.

    The history is the record of what was said: where it cannot be noted as well, that is told, and
    the next progress makes up for it.

    Raises:
        InvalidMessage, StoreFailed: nothing was appended.
    """
    first = 0

    def made(at: int) -> list[Message]:
        nonlocal first
        first = at
        return parsed_all(state.wire, list(enumerate(messages, at)), state.history, at)

    with state.lock:  # so that they are noted on the branch that they are on
        added = state.history.append(made)
        news = goal_tracking.noted(state, added, first, window)
    goal_tracking.tell(state, news)
    return added


def parsed_all(
    wire: WireFormat,
    given: Sequence[tuple[int, Given]],
    history: History,
    at: int,
) -> list[Message]:
    """Messages that somebody gave, each with its place for errors, as they go on from the first
    `at` messages of a history.

    Raises:
        InvalidMessage: as `parsed`.
    """
    made: list[Message] = []
    for place, raw in given:
        made.append(marked(parsed(wire, raw, place, _before(made, history, at)), history.own))
    return made


def _before(made: Sequence[Message], history: History, at: int) -> Iterator[Message]:
    """What stands before a message, newest first."""
    yield from reversed(made)
    yield from map(history.__getitem__, range(at)[::-1])

"""Intake: given messages become messages of a session's history, and change its goals (FR-7).

Markers change goals only in an assistant's own words. Tools, users and quotes set no goal. Neither
does a model's thinking before its answer, nor its repetition of instructions or of a tool's output.
Progress is stored with the position of the message, so that branches, undo and `context_at` see the
goals of that time.

The messages are the record of every step. An entry in the log says what the messages up to a
position changed. A writer also reads messages of others that have no entry yet, so no step is lost.
A branch that begins between two entries starts with what its messages say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from compact.engine.history import History
from compact.messages.budget import ContextWindow
from compact.messages.events import ErrorRaised, Event, GoalsChanged
from compact.messages.formats.wire import WireFormat
from compact.messages.goals import Goal, goals_message
from compact.messages.messages import Message
from compact.messages.times import check_time
from compact.patterns import regex
from compact.session.entering import parsed
from compact.session.session_log import EVER, KnownGoals
from compact.session.state import SessionState
from compact.text.markers import Marker, marked_lines, markers_in, stands_in
from compact.text.progress import GoalProgress, progress
from compact.text.prompts import how_to_mark
from compact.text.speakers import marked, speaker_of

Given = Message | Mapping[str, Any]


def taken_in(
    state: SessionState, messages: Sequence[Given], window: ContextWindow
) -> list[Message]:
    """Append messages to the history, all or none, and apply their markers to the goals. If the
    goals cannot be stored, an event says so. The next progress makes up for it, because the
    messages are in the history.

    Raises:
        InvalidMessage, StoreFailed: nothing was appended.
    """
    for place, raw in enumerate(messages, len(state.history)):
        if not isinstance(raw, Message):
            check_time(raw, f"messages[{place}]")
    first = 0

    def made(at: int) -> list[Message]:
        nonlocal first
        first = at
        return parsed_all(state.wire, list(enumerate(messages, at)), state.history, at)

    with state.lock:  # so that progress is stored on the branch of the messages
        added = state.history.append(made)
        news = noted(state, added, first, window)
    tell(state, news)
    return added


def parsed_all(
    wire: WireFormat,
    given: Sequence[tuple[int, Given]],
    history: History,
    at: int,
) -> list[Message]:
    """Make messages from the given ones. Each comes with its place, for errors. They follow the
    first `at` messages of a history.

    Raises:
        InvalidMessage: as `parsed`.
    """
    made: list[Message] = []
    for place, raw in given:
        made.append(marked(parsed(wire, raw, place, _before(made, history, at)), history.own))
    return made


def _before(made: Sequence[Message], history: History, at: int) -> Iterator[Message]:
    yield from reversed(made)
    yield from map(history.__getitem__, range(at)[::-1])


# --- goals ---------------------------------------------------------------------------------------

SHARE = 1 / 8
"""The largest share of the usable window for goals, when a model adds to them."""
MOST_BEHIND = 1_000
"""How many messages before a marker to search for markers that are not stored yet."""
MOST_TOLD = 100
"""How many messages before a marker to search for the same line in a tool's output."""
NOTED_AFTER = 100
"""After this many messages without progress, an entry says that they were searched."""
Fits = Callable[[Sequence[Goal]], bool]
_THOUGHTS = regex(r"\A\s*<think>.*?(?:</think>|\Z)", re.DOTALL)
"""Thoughts at the start of an answer, from servers that do not separate them."""


def track(state: SessionState, messages: Sequence[Message], at: int, window: ContextWindow) -> None:
    """Apply the markers of messages that the history has just got at that position."""
    with state.lock:
        news = noted(state, messages, at, window)
    tell(state, news)


def track_others(state: SessionState, window: ContextWindow) -> None:
    """Apply the markers in messages of other writers that the setter of the goals had not seen."""
    with state.lock:
        state.catch_up()
        _progressed(state, (), len(state.history), window)


def noted(
    state: SessionState, messages: Sequence[Message], at: int, window: ContextWindow
) -> Event | None:
    """Store the progress in these messages. Return the event to report, or None."""
    if not any(map(_marked, messages)):
        return None
    try:
        state.catch_up()
        done = _progressed(state, messages, at, window)
    except Exception as error:  # noqa: BLE001 - whatever a store raises, the messages are in it
        return ErrorRaised.of(error, "track", serves="what the goals were before")
    if not done.changes and not done.left_out:
        return None
    return GoalsChanged(changes=done.changes, left_out=done.left_out)


def _progressed(
    state: SessionState, messages: Sequence[Message], at: int, window: ContextWindow
) -> GoalProgress:
    """Store the goals after these messages: the stored goals, changed by everything said since.
    Return what these messages changed.
    """
    since, fits = state.log.goals_at(at), _room(state, window)
    goals, changes, left_out = _gone_on(state, since, at, fits), list[str](), list[str]()
    for position, message in enumerate(messages, at):
        markers, repeated = _said(state, message, position)
        goals, changed, left = progress(goals, markers, fits=fits)
        changes += changed
        left_out += (*repeated, *left)
    if goals != since.goals or at - since.at > NOTED_AFTER:
        state.track_goals(goals, since, at + len(messages))
    return GoalProgress(goals, tuple(changes), tuple(left_out))


def goals_by(
    state: SessionState, position: int, window: ContextWindow, *, tracked: int = EVER
) -> tuple[Goal, ...]:
    """Return the goals when the session had `position` messages: the stored goals, changed by the
    messages since. Changes by a model's markers count up to the position `tracked`.
    """
    since = state.log.goals_at(position, tracked)
    return _gone_on(state, since, min(position, tracked), _room(state, window))


def _gone_on(state: SessionState, since: KnownGoals, at: int, fits: Fits) -> tuple[Goal, ...]:
    """Return stored goals, changed by the messages up to a position."""
    goals = since.goals
    for i in range(max(since.at, at - MOST_BEHIND), at):
        goals = progress(goals, _said(state, state.history[i], i)[0], fits=fits).goals
    return goals


def _room(state: SessionState, window: ContextWindow) -> Fits:
    """Return a check that goals leave enough of a window for everything else."""

    def fits(goals: Sequence[Goal]) -> bool:
        shown = goals_message(goals, state.own)
        return shown is None or state.counter.message(shown) <= SHARE * window.usable

    return fits


def tell(state: SessionState, news: Event | None) -> None:
    """Emit the event, if there is one."""
    if news is not None:
        state.emit(news)


def _marked(message: Message) -> list[tuple[str, Marker]]:
    """Return the markers that an assistant wrote in a message, each with its line."""
    if message.role != "assistant" or speaker_of(message) != "assistant":
        return []
    text = message.text
    lines = marked_lines(_THOUGHTS.sub("", text) if "<think>" in text else text)
    if not lines:
        return []
    taught = markers_in(how_to_mark())
    return [(line, marker) for line, marker in lines if marker not in taught]


def _said(state: SessionState, message: Message, at: int) -> tuple[list[Marker], list[str]]:
    """Return the message's own markers, and the lines that only repeat a tool's output."""
    lines, own, repeated = _marked(message), list[Marker](), list[str]()
    texts = list(_told_by_tools(state, at)) if lines else []
    for line, marker in lines:
        if any(stands_in(line, text) for text in texts):
            repeated.append(f"{line.strip()} (a tool said it, and the answer says it over)")
        else:
            own.append(marker)
    return own, repeated


def _told_by_tools(state: SessionState, at: int) -> Iterator[str]:
    for position in range(max(0, at - MOST_TOLD), at):
        message = state.history[position]
        if message.role == "user" and speaker_of(message) == "observation":
            yield message.text
        yield from (result.text for result in message.tool_results)

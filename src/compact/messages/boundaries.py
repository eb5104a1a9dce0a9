"""Where a conversation may be cut: before a position that every function in `INVARIANTS` allows.

The messages between two neighbouring legal cuts are a group (`engine.groups`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from compact.messages.messages import Message
from compact.messages.provider_rules import is_reasoning

MOST_BETWEEN = 2
"""How many messages may be between a call and its late result."""
MOST_BESIDE = 8
"""How many results of other calls of the same reply may come before these messages."""


class Log(Protocol):
    """Messages in order: a history, or a list of messages."""

    def __len__(self) -> int: ...
    def __getitem__(self, position: int, /) -> Message: ...


Invariant = Callable[[Log, int], bool]


def results_follow_their_calls(history: Log, position: int) -> bool:
    """Forbid a cut before a tool result: it stays with its call and the reply's other results."""
    return not history[position].tool_results


def words_before_a_late_result_stay_with_its_call(history: Log, position: int) -> bool:
    """Forbid a cut between a call and its late result, where other messages came between."""
    for late in range(position, min(position + MOST_BETWEEN, len(history) - 1)):
        between = history[late]
        if between.tool_calls or between.tool_results:
            return True
        if results := history[late + 1].tool_results:
            answered = {result.call_id for result in results}
            before = range(max(0, position - MOST_BETWEEN - MOST_BESIDE), position)
            return not any(c.id in answered for i in before for c in history[i].tool_calls)
    return True


def replies_stay_whole(history: Log, position: int) -> bool:
    """Forbid a cut inside a reply, even if results of parallel calls are between its pieces."""
    reply = history[position].reply_id
    if reply is None:
        return True
    before = position - 1
    while before > 0 and history[before].tool_results:
        before -= 1
    return before < 0 or history[before].reply_id != reply


def reasoning_stays_with_what_it_led_to(history: Log, position: int) -> bool:
    """Forbid a cut between a message that is only reasoning and the assistant's next message."""
    return history[position].role != "assistant" or not is_reasoning(history[position - 1])


INVARIANTS: tuple[Invariant, ...] = (
    results_follow_their_calls,
    words_before_a_late_result_stay_with_its_call,
    replies_stay_whole,
    reasoning_stays_with_what_it_led_to,
)


def may_cut_before(history: Log, position: int) -> bool:
    """Whether the conversation may be cut before the position."""
    if position <= 0 or position >= len(history):
        return True
    for allows in INVARIANTS:  # noqa: SIM110 - for every message in view: all() takes twice as long
        if not allows(history, position):
            return False
    return True

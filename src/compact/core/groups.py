"""Groups: the atoms of a conversation. A group is kept, masked or summarized as a whole.

A group is what lies between two neighbouring legal cuts (`core.boundaries`): a tool-call message with all its results,
parallel calls together, the pieces of one reply; or a single message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compact.core.boundaries import may_cut_before
from compact.core.history import History
from compact.core.messages import Message


@dataclass(frozen=True, slots=True)
class Group:
    """The positions `start` (included) to `stop` (not included)."""

    start: int
    stop: int

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop))


def groups_from_end(history: History, stop: int | None = None) -> Iterator[Group]:
    """The groups before `stop` (a legal cut), newest first; reads no further than it is asked to."""
    end = len(history) if stop is None else stop
    while end > 0:
        start = end - 1
        while start > 0 and not may_cut_before(history, start):
            start -= 1
        yield Group(start, end)
        end = start


def groups_of(history: History) -> list[Group]:
    """All groups in the order of the log."""
    return list(groups_from_end(history))[::-1]


def open_calls(messages: Sequence[Message]) -> dict[str, str]:
    """Calls that no result answers: id → tool name, in order. (A crashed tool, a pending approval.)"""
    waiting: dict[str, str] = {}
    for message in messages:
        for result in message.tool_results:
            waiting.pop(result.call_id, None)
        waiting.update((call.id, call.name) for call in message.tool_calls)
    return waiting


def orphan_results(messages: Sequence[Message]) -> list[str]:
    """Ids of results that answer no call made before them."""
    called: set[str] = set()
    orphans: list[str] = []
    for message in messages:
        orphans += [r.call_id for r in message.tool_results if r.call_id not in called]
        called.difference_update(r.call_id for r in message.tool_results)
        called.update(call.id for call in message.tool_calls)
    return orphans

"""Groups: the atoms of a conversation. A group is kept, masked or summarized as a whole.

A group is what lies between two neighbouring legal cuts (`messages.boundaries`): a tool-call
message with all its results, parallel calls together, the pieces of one reply; or a single message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compact.engine.history import History
from compact.messages.boundaries import may_cut_before


@dataclass(frozen=True, slots=True)
class Group:
    """The positions `start` (included) to `stop` (not included)."""

    start: int
    stop: int

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop))


def groups_from_end(history: History, stop: int | None = None) -> Iterator[Group]:
    """The groups before `stop` (a legal cut), newest first, read as they are asked for."""
    end = len(history) if stop is None else stop
    while end > 0:
        start = end - 1
        while start > 0 and not may_cut_before(history, start):
            start -= 1
        yield Group(start, end)
        end = start


def group_at(history: History, position: int) -> Group:
    """The group that the message at `position` belongs to."""
    start, stop = position, position + 1
    while start > 0 and not may_cut_before(history, start):
        start -= 1
    while stop < len(history) and not may_cut_before(history, stop):
        stop += 1
    return Group(start, stop)


def groups_of(history: History) -> list[Group]:
    """All groups in the order of the log."""
    return list(groups_from_end(history))[::-1]

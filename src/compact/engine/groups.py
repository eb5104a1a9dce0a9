"""Groups, turns and the partition of a history (requirement K-4).

A *group* is the atom: it is kept, masked or summarized as a whole. It lies between two neighbouring
legal cuts (`messages.boundaries`): a tool-call message with all its results, parallel calls
together, the pieces of one reply; or a single message. The *partition* has four parts:

- *pinned*: roles that are never pruned, and messages marked pinned or protected.
- *recent*: the newest turns. A turn starts at a user's words, never at a tool result, an
  observation or an injected reminder, and ends before the next.
- *tool I/O*: the newest groups with tool results, as many as the policy keeps, that are not recent.
- *remainder*: everything else, to be masked or summarized first.

A property test checks that pinned messages are never pruned. `engine.ladder` finds how much of each
part can be kept within a budget. Nothing is read further back than the window needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compact.engine.history import History
from compact.messages.boundaries import may_cut_before
from compact.messages.policy import CompactPolicy


@dataclass(frozen=True, slots=True)
class Group:
    """The positions `start` (included) to `stop` (not included)."""

    start: int
    stop: int

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop))


def groups_from_end(history: History, stop: int | None = None) -> Iterator[Group]:
    """Yield the groups before `stop`, newest first. The history may be cut at `stop`. The default
    is its end.
    """
    end = len(history) if stop is None else stop
    while end > 0:
        start = end - 1
        while start > 0 and not may_cut_before(history, start):
            start -= 1
        yield Group(start, end)
        end = start


def group_at(history: History, position: int) -> Group:
    """Return the group of the message at `position`."""
    start, stop = position, position + 1
    while start > 0 and not may_cut_before(history, start):
        start -= 1
    while stop < len(history) and not may_cut_before(history, stop):
        stop += 1
    return Group(start, stop)


def groups_of(history: History) -> list[Group]:
    """Return all groups in the order of the log."""
    return list(groups_from_end(history))[::-1]


@dataclass(frozen=True, slots=True)
class Partition:
    """The part of each position. A pinned message is pinned even among recent ones."""

    pinned: frozenset[int]
    recent: range
    tool_io: frozenset[int]
    messages: int

    def sizes(self) -> dict[str, int]:
        """Return how many messages each part has."""
        recent = len(self.recent) - sum(1 for i in self.pinned if i in self.recent)
        tool_io = len(self.tool_io - self.pinned)
        rest = self.messages - len(self.pinned) - recent - tool_io
        return {
            "pinned": len(self.pinned),
            "recent": recent,
            "tool I/O": tool_io,
            "remainder": rest,
        }


def turns(history: History) -> Iterator[range]:
    """Yield the turns, newest first. The oldest includes what is before the first user message."""
    stop = len(history)
    for start in history.persons():
        yield range(start, stop)
        stop = start
    if stop:
        yield range(stop)


def recent_from(history: History, keep: int) -> int:
    """Return the position at which the newest `keep` turns start."""
    start = len(history)
    for count, turn in enumerate(turns(history)):
        if count == keep:
            break
        start = turn.start
    return start


def partition(history: History, policy: CompactPolicy, *, since: int = 0) -> Partition:
    """Return the part of each message. Tool I/O is searched from position `since` on."""
    start = recent_from(history, policy.keep_recent_turns)
    tool_io: set[int] = set()
    pairs = 0
    for group in groups_from_end(history):
        if pairs >= policy.keep_tool_pairs or group.stop <= since:
            break
        results = sum(len(history[i].tool_results) for i in group)
        if results:
            pairs += results
            tool_io.update(i for i in group if i < start)
    return Partition(
        pinned=frozenset(history.fixed),
        recent=range(start, len(history)),
        tool_io=frozenset(tool_io),
        messages=len(history),
    )

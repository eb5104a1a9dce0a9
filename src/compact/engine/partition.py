"""The partition of a history (requirement K-4): pinned, recent, tool I/O, and the remainder.

- *pinned*: roles that are never pruned, and messages marked pinned or protected.
- *recent*: the newest turns. A turn starts at a person's words, never at a tool result, an
  observation or an injected reminder, and ends before the next.
- *tool I/O*: the newest groups with tool results, as many as the policy keeps, that are not recent.
- *remainder*: everything else, to be masked or summarized first.

Protected is what is pinned; a property test holds that it is never pruned. How far each part can be
kept within a budget is found by `engine.ladder`. Reads no further back than the window needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compact.engine.groups import groups_from_end
from compact.engine.history import History
from compact.messages.policy import CompactPolicy


@dataclass(frozen=True, slots=True)
class Partition:
    """Which part each position belongs to. What is pinned is pinned wherever it stands."""

    pinned: frozenset[int]
    recent: range
    tool_io: frozenset[int]
    messages: int

    def sizes(self) -> dict[str, int]:
        """How many messages each part has; together all of them."""
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
    """The turns, newest first; what stands before the first person's words is the oldest."""
    stop = len(history)
    for start in history.persons():
        yield range(start, stop)
        stop = start
    if stop:
        yield range(stop)


def recent_from(history: History, keep: int) -> int:
    """The position at which the newest `keep` turns start."""
    start = len(history)
    for count, turn in enumerate(turns(history)):
        if count == keep:
            break
        start = turn.start
    return start


def partition(history: History, policy: CompactPolicy, *, since: int = 0) -> Partition:
    """Which part each message belongs to; tool I/O is looked for from `since` on."""
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

"""The partition of a history (requirement K-4): pinned, recent, tool I/O, and the remainder.

- *pinned*: roles that are never pruned, and messages marked pinned or protected.
- *recent*: the newest turns. A turn starts at a person's words, never at a tool result, an observation or an injected
  reminder, and ends before the next.
- *tool I/O*: the newest groups with tool results that are not recent.
- *remainder*: everything else, to be masked or summarized first.

Protected is what is pinned; a property test holds that it is never pruned. How far each part can be kept within a budget
is found by `compression.ladder`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compact.core.groups import groups_from_end
from compact.core.history import History
from compact.core.policy import CompactPolicy


@dataclass(frozen=True, slots=True)
class Partition:
    """Positions by part; together all positions of the history, each once."""

    pinned: tuple[int, ...]
    recent: tuple[int, ...]
    tool_io: tuple[int, ...]
    remainder: tuple[int, ...]


def turns(history: History) -> Iterator[range]:
    """The turns of a history, newest first; what stands before the first person's words is the oldest one."""
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


def partition(history: History, policy: CompactPolicy) -> Partition:
    """Which part each message belongs to."""
    pinned = set(history.fixed)
    start = recent_from(history, policy.keep_recent_turns)
    tool_io: list[int] = []
    pairs = 0
    for group in groups_from_end(history):
        results = sum(len(history[i].tool_results) for i in group)
        if results and pairs < policy.keep_tool_pairs:
            pairs += results
            tool_io += [i for i in group if i < start and i not in pinned]
        if pairs >= policy.keep_tool_pairs:
            break
    chosen = set(tool_io)
    return Partition(
        pinned=tuple(sorted(pinned)),
        recent=tuple(i for i in range(start, len(history)) if i not in pinned),
        tool_io=tuple(sorted(tool_io)),
        remainder=tuple(i for i in range(start) if i not in pinned and i not in chosen),
    )

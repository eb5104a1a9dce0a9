"""Reads and writes a session's log of settings, and finds the entry that applies at a position.

An entry applies to its branch. Before the branch begins, its parent's entries apply. So branches,
undo and `context_at` see what applied at that time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

from compact.messages.changes import (
    Change,
    GoalsSet,
    GoalsTracked,
    ModeSet,
    SystemShown,
    TurnsRecalled,
    What,
)
from compact.messages.goals import Goal
from compact.messages.protocols import SessionStore
from compact.messages.sessions import Branch

EVER = 2**62
"""A position that no session reaches."""
MOST_TRACKED = 64
"""How many entries about the progress of goals a branch keeps: those that prompts use, the newest,
and some in between. The others can be read from the messages again."""


class KnownGoals(NamedTuple):
    """The goals of an entry in the log."""

    goals: tuple[Goal, ...] = ()
    at: int = 0
    """The position up to which markers are included."""
    since: int = 0
    """The number of the entry that set the goals."""


class SessionLog:
    """The log entries of a session that were read so far, for its open branch."""

    def __init__(self, store: SessionStore, session_id: str) -> None:
        self._store, self._session = store, session_id
        self._changes: list[Change] = []
        self.lineage: Sequence[tuple[str, int]] = ()
        """The branches that make up the open one, oldest first, each with the position where it
        ends. The last one has no end."""

    def open(self, branch: Branch) -> None:
        """Switch to a branch. All entries are read again."""
        self.lineage = lineage_of(self._store.branches(self._session), branch)
        self._changes = []

    def covers(self, branch_id: str, at: int) -> bool:
        """Return whether a position of a branch is on the open branch."""
        return any(name == branch_id and at <= end for name, end in self.lineage)

    def catch_up(self) -> list[Change]:
        """Read and return the new entries of all writers."""
        last = self._changes[-1].number if self._changes else 0
        new = self._store.changes(self._session, after=last)
        self._changes += new
        return new

    def record(self, what: What, at: int, *, instead_of: Collection[int] = ()) -> None:
        """Append an entry at a position of the open branch."""
        change = Change(branch_id=self.lineage[-1][0], at=at, what=what)
        self._store.record(self._session, [change], instead_of=instead_of)
        self._changes = [entry for entry in self._changes if entry.number not in instead_of]

    def goals_at(self, position: int, tracked: int = EVER) -> KnownGoals:
        """Return the goals when the session had `position` messages. Changes by a model's markers
        count up to the position `tracked`.

        An entry of progress applies until goals are set again. If two processes stored progress,
        the entry for the later position applies.
        """
        candidates: list[tuple[tuple[int, int, int], Change, GoalsSet | GoalsTracked]] = []
        for branch_id, end in reversed(self.lineage):
            for change in self._changes:
                what, last = change.what, min(position, end)
                if change.branch_id != branch_id:
                    continue
                if isinstance(what, GoalsSet) and change.at <= last:
                    candidates.append(((change.number, -1, 0), change, what))
                elif isinstance(what, GoalsTracked) and change.at <= min(last, tracked):
                    candidates.append(((what.since, change.at, change.number), change, what))
            if candidates:
                (since, _, _), change, what = max(candidates, key=lambda row: row[0])
                return KnownGoals(what.goals, change.at, since)
        return KnownGoals()

    def mode_at(self, position: int) -> str | None:
        """Return the mode that was set when the session had `position` messages, or None."""
        for branch_id, end in reversed(self.lineage):
            for change in reversed(self._changes):
                is_there = change.branch_id == branch_id and change.at <= min(position, end)
                if is_there and isinstance(change.what, ModeSet):
                    return change.what.mode
        return None

    def track(self, goals: Sequence[Goal], since: int, at: int, shown: Collection[int]) -> None:
        """Store goals that markers changed, at a position. `since` is the number of the entry that
        set the goals. `shown` are the positions that prompts use.
        """
        what = GoalsTracked(goals=tuple(goals), since=since)
        self.record(what, at, instead_of=self._too_many(at, shown))

    def _too_many(self, new: int, shown: Collection[int]) -> list[int]:
        """Choose the entries of progress to drop before one is added. First drop those that no
        prompt uses; of these, the ones with the nearest neighbours, so that an entry is near every
        position. Then drop the oldest.
        """
        branch_id = self.lineage[-1][0]
        own = sorted(
            (change.at, change.number)
            for change in self._changes
            if change.branch_id == branch_id and isinstance(change.what, GoalsTracked)
        )
        too_many = len(own) + 1 - MOST_TRACKED
        if too_many <= 0:
            return []
        places = [0, *(at for at, _ in own), new]
        worth = []
        for (before, here), (_, after) in pairwise(pairwise(places)):
            is_seen = any(here <= at < after for at in shown)
            worth.append((is_seen, 0 if is_seen else after - before))
        ranked = sorted(zip(worth, own, strict=True), key=lambda row: row[0])
        return [number for _, (_, number) in ranked[:too_many]]

    def recalled(self, window: int, projection: str | None) -> dict[int, Change]:
        """Return the recall entries for a window's prompts that continue a projection: position of
        a message → the entry that is shown before it.
        """
        entries: dict[int, Change] = {}
        for change in self._recalled_for(window):
            what = change.what
            assert isinstance(what, TurnsRecalled)
            if what.projection == projection and self.covers(change.branch_id, change.at + 1):
                entries = {at: entry for at, entry in entries.items() if at >= what.first}
                entries[change.at] = change
        return entries

    def recalled_no_more(self, window: int, projection: str | None) -> list[int]:
        """Return the numbers of the window's recall entries that this branch no longer shows: those
        of other projections, and those left out since.
        """
        own, shown = self.lineage[-1][0], self.recalled(window, projection).values()
        numbers = {change.number for change in shown}
        rows = self._recalled_for(window)
        return [
            entry.number for entry in rows if entry.branch_id == own and entry.number not in numbers
        ]

    def _recalled_for(self, window: int) -> list[Change]:
        return [
            change
            for change in self._changes
            if isinstance(change.what, TurnsRecalled) and change.what.window == window
        ]

    def system_shown(self, of: str) -> list[int]:
        """Return the numbers of the entries that replace that system prompt."""
        return [
            change.number
            for change in self._changes
            if isinstance(change.what, SystemShown) and change.what.of == of
        ]


def lineage_of(branches: Sequence[Branch], branch: Branch) -> tuple[tuple[str, int], ...]:
    """Return the branches that make up a branch, oldest first, each with its end."""
    by_id = {b.id: b for b in branches}
    rows = [(branch.id, EVER)]
    end = branch.fork
    while branch.parent is not None:
        branch = by_id[branch.parent]
        rows.append((branch.id, end))
        end = min(end, branch.fork)
    return tuple(rows[::-1])

"""What is told of a migration: which conversations were found in files, and what became of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import BaseModel

Outcome = Literal["new", "grown", "snapshot", "there", "differs", "broken", "unknown"]
"""`new` makes a session, `grown` adds what its file has more since, `snapshot` is a recovery point
of a session. The others change nothing: `there` is stored already, `differs` has another past than
the session that its file made, `broken` cannot be read, `unknown` is no conversation."""


class MigratedConversation(BaseModel, frozen=True, defer_build=True):
    """A conversation of a file, or a file that holds none, and what became of it."""

    path: str
    outcome: Outcome
    reason: str = ""
    """Why it is not stored, or not as it is; empty where there is nothing to say."""
    format: str | None = None
    sha256: str = ""
    """Of the file."""
    conversation: int = 1
    """Its number in the file."""
    session_id: str | None = None
    """The session that it became or is."""
    title: str | None = None
    messages: int = 0
    """Of the conversation."""
    tokens: int = 0
    added: int = 0
    """How many messages the migration stores of it."""
    branch_id: str | None = None
    """Where a session that has grown went on."""
    snapshot_id: str | None = None
    notes: tuple[str, ...] = ()
    """What its format has and a message has no place for, in words."""


class MigrationReport(BaseModel, frozen=True, defer_build=True):
    """A migration that was done, or that would be."""

    id: str
    """Its time, by which it is rolled back."""
    made_at: datetime
    store: str | None
    """The store's file; None for one in memory."""
    scope: str
    dry_run: bool
    folder: str | None = None
    """Where its manifest is; None where nothing was changed."""
    backup: str | None = None
    """Where the store is as it was before; None where it was new."""
    conversations: tuple[MigratedConversation, ...] = ()

    @property
    def outcomes(self) -> Mapping[Outcome, int]:
        """How many conversations had which outcome."""
        return Counter(each.outcome for each in self.conversations)


class RollbackReport(BaseModel, frozen=True, defer_build=True):
    """A migration that was taken back."""

    id: str
    store: str
    folder: str
    dry_run: bool = False
    deleted: tuple[str, ...] = ()
    """Sessions that the store did not have before the migration."""
    put_back: tuple[str, ...] = ()
    """Sessions that stand where they stood before it."""
    changed: tuple[str, ...] = ()
    """Those to which somebody wrote since: without `force` nothing is taken back."""
    others: tuple[str, ...] = ()
    """Changed sessions of other scopes: nothing is taken back."""
    replaced: str | None = None
    """The backup that `force` made of the store as it was."""

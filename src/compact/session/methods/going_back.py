"""Going back: snapshots, branches, undo."""

from __future__ import annotations

from compact.errors import NotFound
from compact.messages.context import ActiveContext
from compact.messages.sessions import Branch, Purpose, Snapshot
from compact.session.methods.looking import Looking
from compact.session.views import time_travel


class GoingBack(Looking):
    """The methods that go back in a session."""

    def snapshot(self, note: str = "", *, purpose: Purpose = "recovery") -> Snapshot:
        """Save the state of the session, to `restore` it later. Snapshots are tiny, whatever the
        session's size. Of too many (`policy.snapshots_kept`) the oldest without a note go.
        """
        session = self._session
        return time_travel.take_snapshot(session.state, session.view, purpose=purpose, note=note)

    def snapshots(self) -> list[Snapshot]:
        """The session's snapshots, the oldest first."""
        return self.store.snapshots(self.id)

    def delete_snapshot(self, snapshot: Snapshot | str) -> None:
        """Delete a snapshot. What it names stays in the history.

        Raises:
            NotFound: the session has no such snapshot.
        """
        wanted = snapshot if isinstance(snapshot, str) else snapshot.id
        found = time_travel.find_snapshot(self._session.state, wanted)
        self.store.delete_snapshots(self.id, [found.id])

    def restore(self, snapshot: Snapshot | str) -> None:
        """Continue from a snapshot. Later messages are kept on their own branch.

        Raises:
            NotFound: the session has no such snapshot.
        """
        wanted = snapshot if isinstance(snapshot, str) else snapshot.id
        found = time_travel.find_snapshot(self._session.state, wanted)
        time_travel.restore(self._session.state, self._session.view, found)

    def branch(self, *, at: int) -> Branch:
        """Start a new branch from the session's first `at` messages.

        Raises:
            NotFound: the session has fewer messages.
        """
        return time_travel.branch_off(self._session.state, self._session.view, at)

    def branches(self) -> list[Branch]:
        """The session's branches, the oldest first."""
        return self.store.branches(self.id)

    def undo(self) -> None:
        """Undo the last compression, restore or branch. Messages are kept.

        Raises:
            NotFound: there is nothing to undo.
        """
        time_travel.undo(self._session.state, self._session.view)

    def redo(self) -> None:
        """Reverse the last undo.

        Raises:
            NotFound: nothing was undone, or something else was done since.
        """
        time_travel.redo(self._session.state, self._session.view)

    def context_at(self, at: int) -> ActiveContext:
        """The context that a model saw when the session had `at` messages; of all of them, with
        what recall would quote for the newest one of a person.

        Raises:
            NotFound: the session has fewer messages.
        """
        if not 0 <= at <= len(self.history):
            raise NotFound(f"session {self.id!r} has {len(self.history)} messages, not {at}")
        return time_travel.context_at(self._session.view, at)

"""A migration is taken back: the sessions that it made are deleted, those that it added to stand
where they stood, and the snapshots that it took are removed.

What it did is read from the sessions themselves, so that one which was interrupted can be taken
back too. A session that somebody went on with since is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compact import wiring
from compact.config import CompactConfig
from compact.core.calls import checked
from compact.core.migrated import RollbackReport, RolledBackSession
from compact.core.protocols import SessionStore
from compact.core.sessions import DEFAULT_SCOPE, Session
from compact.errors import InvalidArgument, NotFound
from compact.managers.exchange import legacy_snapshots, manifest, stored_sources
from compact.managers.exchange.manifest import Manifest
from compact.managers.exchange.stored_sources import MARK, MIGRATION
from compact.managers.forgetting import forget


@checked
def roll_back(
    migration: str | None = None,
    *,
    store: str | Path | SessionStore,
    scope: str = DEFAULT_SCOPE,
    force: bool = False,
    dry_run: bool = False,
    settings: CompactConfig | None = None,
) -> RollbackReport:
    """Take back a migration of a scope, the newest where none is named. Sessions that went on since
    are kept, unless `force` is given. With `dry_run` nothing is changed.

    Raises:
        NotFound: there is no such migration, or none that is not taken back already.
        InvalidArgument: the store is no file.
        StoreFailed: the store cannot be changed; what was taken back before stays so.
    """
    opened = wiring.session_store(store)
    with nullcontext() if opened is store else closing(opened):
        file = getattr(opened, "path", None)
        if file is None or file == ":memory:":
            raise InvalidArgument("store", "a migration is taken back from a store in a file")
        folder, told = _meant(file, scope, migration)
        work = _RollingBack(opened, settings or CompactConfig(), told, force, dry_run)
        sessions = tuple(work.sessions())
        work.delete([each.session_id for each in sessions if each.done == "deleted"])
        snapshots = work.snapshots({each.session_id for each in sessions if each.done == "deleted"})
        if not dry_run and not any(each.done == "kept" for each in sessions):
            manifest.write(folder, Manifest("rolled back", told.report))
        return RollbackReport(
            id=told.report.id,
            store=file,
            folder=str(folder),
            dry_run=dry_run,
            sessions=sessions,
            snapshots=snapshots,
        )


def _meant(store: str, scope: str, name: str | None) -> tuple[Path, Manifest]:
    """The migration of that name in a scope, or the newest one there that is not taken back.

    Raises:
        NotFound: there is none; the text names those there are.
    """
    own = [(each, manifest.read(each)) for each in manifest.all_of(store)]
    own = [(folder, told) for folder, told in own if told.report.scope == scope]
    for folder, told in reversed(own):
        is_named = name is not None and name in (folder.name, str(folder))
        if is_named or (name is None and told.state != "rolled back"):
            return folder, told
    there = ", ".join(folder.name for folder, _ in own[-5:]) or "none at all"
    what = "that is not taken back already" if name is None else repr(name)
    raise NotFound(f"no migration {what} of {store}; there are {there}")


def _mark(session: Session) -> Mapping[str, Any]:
    """What a session says of its migration; nothing where it is a copy of one that was migrated."""
    mark = session.metadata.get(MARK)
    return mark if isinstance(mark, dict) and mark.get("session") == session.id else {}


@dataclass(frozen=True, slots=True)
class _RollingBack:
    store: SessionStore
    settings: CompactConfig
    told: Manifest
    force: bool
    dry_run: bool

    @property
    def migration(self) -> str:
        """Its id."""
        return self.told.report.id

    def sessions(self) -> Iterator[RolledBackSession]:
        """Delete the sessions that the migration made, and take back those that it added to."""
        for session in self.store.sessions(scope=self.told.report.scope)[::-1]:
            mark = _mark(session)
            grown = mark.get("grown")
            if mark.get(MIGRATION) == self.migration:
                yield self._delete(session, mark)
            elif isinstance(grown, dict) and grown.get(MIGRATION) == self.migration:
                yield self._take_back(session, mark, grown)

    def _delete(self, session: Session, mark: Mapping[str, Any]) -> RolledBackSession:
        if self._went_on(session, mark):
            reason = "somebody went on with it since; --force deletes it"
            return RolledBackSession(session_id=session.id, done="kept", reason=reason)
        return RolledBackSession(session_id=session.id, done="deleted")

    def _went_on(self, session: Session, then: Mapping[str, Any]) -> bool:
        """Whether it has more by now than it had then, or people say other things of it."""
        now, said = stored_sources.size_of(self.store, session.id), stored_sources.said_of(session)
        size = then.get("size", now)
        return not self.force and (now[: len(size)] != size or said != then.get("said", said))

    def _take_back(
        self, session: Session, mark: Mapping[str, Any], grown: Mapping[str, Any]
    ) -> RolledBackSession:
        """Have a session stand where its messages ended before: on another branch from there."""
        if self._went_on(session, {**mark, **grown}):
            reason = "somebody went on with it since; --force takes it back"
            return RolledBackSession(session_id=session.id, done="kept", reason=reason)
        if not self.dry_run:
            messages, changes, *others = mark["size"]
            if others:  # the branch that begins here
                others[0] += 1
            size = [messages, changes, *others]
            before = {**mark, "sha256": grown.get("sha256", ""), "size": size, "grown": None}
            metadata = {**session.metadata, MARK: before}
            self.store.describe(session.id, title=session.title, metadata=metadata)
            self.store.fork(session.branch.id, int(grown["from"]))
        reason = f"what was added stays on branch {session.branch.id!r}"
        return RolledBackSession(session_id=session.id, done="taken back", reason=reason)

    def delete(self, sessions: Sequence[str]) -> None:
        """Delete sessions as `memory forget` does; the store is swept once, with the last."""
        for session_id in () if self.dry_run else sessions:
            is_last = session_id == sessions[-1]
            forget(self.store, session_id, self.settings, sweeps=is_last)

    def snapshots(self, deleted: set[str]) -> int:
        """Remove the snapshots that the migration took of sessions that stay; how many."""
        count = 0
        for session in self.store.sessions(scope=self.told.report.scope):
            if session.id in deleted:
                continue
            for name, note in self.store.notes(session.id).items():
                own = name.removeprefix(legacy_snapshots.NOTE)
                if own == name or note.get(MIGRATION) != self.migration:
                    continue
                count += 1
                if not self.dry_run:
                    self.store.delete_snapshots(session.id, [own])
                    self.store.note(session.id, name, None)
        return count

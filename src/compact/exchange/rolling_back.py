"""Rolls a migration back by restoring its backup, unless the store was changed since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, cast

from compact import wiring
from compact.config import CompactConfig
from compact.errors import InvalidArgument, NotFound, StoreFailed
from compact.exchange import manifest
from compact.exchange.manifest import Manifest, RollbackReport
from compact.exchange.stored_sources import StoredState, states_of
from compact.files import made_beside
from compact.memory.backup import make_backup, restore_backup
from compact.messages.calls import named
from compact.messages.protocols import SessionStore
from compact.messages.sessions import DEFAULT_SCOPE

REPLACED = "replaced"
"""The folder inside a migration's folder for the store that a forced rollback replaced."""
MOST_NAMED = 5
"""How many sessions an error text names."""


def roll_back(
    migration: str | None = None,
    *,
    store: str | Path | SessionStore,
    scope: str = DEFAULT_SCOPE,
    force: bool = False,
    dry_run: bool = False,
    settings: CompactConfig | None = None,
) -> RollbackReport:
    """Roll back a migration of a scope, by default the newest. The store becomes what it was
    before. If the store was changed since, nothing is done without `force`. With `force` the
    current store is backed up first. With `dry_run` nothing is changed.

    Raises:
        NotFound: the migration or its backup does not exist, or all are rolled back already.
        InvalidArgument: the store is not a file.
        StoreFailed: the store cannot be changed, or was changed since (with `force`: in another
            scope). It is as it was.
        StoreDamaged: the backup was changed.
    """
    named("scope", scope)
    opened = wiring.session_store(store)
    with nullcontext() if opened is store else closing(opened):
        file = getattr(opened, "path", None)
        if file is None or file == ":memory:":
            raise InvalidArgument("store", "a rollback needs a store in a file")
        folder, entry = _chosen(file, scope, migration)
        if not (folder / manifest.BACKUP).is_dir():
            raise NotFound(f"{folder} has no backup: there is nothing to put back")
        with made_beside(Path(file)) as beside:
            made = beside / Path(file).name
            restore_backup(folder / manifest.BACKUP, made)
            with closing(wiring.session_store(made)) as restored:
                before = states_of(restored)
            work = _RollingBack(opened, _free(folder / REPLACED), entry, before, force)
            report = work.report(file)
            if dry_run:
                return report
            wiring.put_back(cast("Any", opened).pool, made, partial(work.check, settings))
        manifest.write(folder, replace(entry, state="rolled back"))
        kept = str(work.replaced) if work.replaced.is_dir() else None
        return report.model_copy(update={"dry_run": False, "replaced": kept})


def _free(folder: Path) -> Path:
    # An earlier rollback may have stopped after it made its backup.
    names = (folder.with_name(f"{folder.name}-{number}") for number in count(2))
    return next(name for name in chain([folder], names) if not name.exists())


def _chosen(store: str, scope: str, name: str | None) -> tuple[Path, Manifest]:
    """Return the named migration of a scope, or the newest that was not rolled back."""
    own = [(each, manifest.read(each)) for each in manifest.all_of(store)]
    own = [(folder, entry) for folder, entry in own if entry.report.scope == scope]
    for folder, entry in reversed(own):
        is_named = name is not None and name in (folder.name, str(folder))
        if is_named or (name is None and entry.state != "rolled back"):
            return folder, entry
    there = ", ".join(folder.name for folder, _ in own[-5:]) or "none at all"
    what = "that is not taken back already" if name is None else repr(name)
    raise NotFound(f"no migration {what} of {store}; there are {there}")


@dataclass(frozen=True, slots=True)
class _RollingBack:
    store: SessionStore
    replaced: Path
    entry: Manifest
    before: Mapping[str, StoredState]
    force: bool

    def report(self, file: str) -> RollbackReport:
        """Return which sessions would change if the backup were restored."""
        now = states_of(self.store)
        # If a migration was killed, it is unknown how it left the store.
        then = self.before if self.entry.states is None else self.entry.states
        return RollbackReport(
            id=self.entry.report.id,
            store=file,
            folder=str(self.replaced.parent),
            dry_run=True,
            deleted=tuple(name for name in now if name not in self.before),
            put_back=tuple(x for x in self.before if now.get(x) != self.before[x]),
            changed=_different(then, now) if now != self.before else (),
            others=tuple(
                name
                for name in _different(self.before, now)
                if (now.get(name) or self.before[name]).scope != self.entry.report.scope
            ),
        )

    def check(self, settings: CompactConfig | None, beside: Sequence[str]) -> None:
        """Refuse a rollback that would lose changes. It is called when nobody else can write any
        more. `beside` lists other data that would be lost.
        """
        report = self.report("")
        if report.others:
            raise StoreFailed(
                f"{_names(report.others)} of other scopes changed since the backup; nothing was "
                "taken back. Delete the sessions of the migration by name"
            )
        changed = [*([_names(report.changed)] if report.changed else []), *beside]
        if changed and not self.force:
            raise StoreFailed(
                f"somebody wrote since: {', '.join(changed)}; nothing was taken back. --force puts "
                "the backup back, and keeps the store as it is beside it"
            )
        if changed:
            make_backup(self.store, self.replaced, settings or CompactConfig())


def _different(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in {**one, **other} if one.get(name) != other.get(name))


def _names(sessions: Sequence[str]) -> str:
    more = len(sessions) - MOST_NAMED
    names = ", ".join(map(repr, sessions[:MOST_NAMED]))
    return f"{names} and {more:,} more" if more > 0 else names

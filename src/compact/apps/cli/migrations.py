"""Migrations of the store that the options mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compact.apps.cli.interrupts import asked_to_stop
from compact.apps.cli.stores import SessionCatalog
from compact.core.migrated import MigrationReport, RollbackReport
from compact.core.sessions import DEFAULT_SCOPE
from compact.managers.exchange.migrating import failed as failed
from compact.managers.exchange.migrating import migrate
from compact.managers.exchange.rolling_back import roll_back


def migrated(
    catalog: SessionCatalog,
    paths: Sequence[str],
    *,
    dry_run: bool,
    progress: Callable[[int, int], None],
) -> MigrationReport:
    """Bring along what is in the files and folders, or tell what would be done.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; the conversation that was begun is stored whole.
    """
    with asked_to_stop() as asked:

        def told(done: int, of: int) -> None:
            if asked.is_set():
                raise KeyboardInterrupt
            progress(done, of)

        return migrate(
            paths,
            store=catalog.store,
            scope=catalog.scope or DEFAULT_SCOPE,
            dry_run=dry_run,
            settings=catalog.settings,
            progress=told,
        )


def rolled_back(
    catalog: SessionCatalog, migration: str | None, *, force: bool, dry_run: bool
) -> RollbackReport:
    """Take back a migration of the store, or tell what would be done."""
    return roll_back(
        migration,
        store=catalog.store,
        scope=catalog.scope or DEFAULT_SCOPE,
        force=force,
        dry_run=dry_run,
        settings=catalog.settings,
    )

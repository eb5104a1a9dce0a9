"""Migrations of the store that the options mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compact.apps.cli.stores import SessionCatalog
from compact.core.migrated import MigrationReport
from compact.core.sessions import DEFAULT_SCOPE
from compact.managers.exchange.migrating import failed as failed
from compact.managers.exchange.migrating import migrate


def migrated(
    catalog: SessionCatalog,
    paths: Sequence[str],
    *,
    dry_run: bool,
    progress: Callable[[int, int], None],
) -> MigrationReport:
    """Bring along what is in the files and folders, or tell what would be done."""
    return migrate(
        paths,
        store=catalog.store,
        scope=catalog.scope or DEFAULT_SCOPE,
        dry_run=dry_run,
        settings=catalog.settings,
        progress=progress,
    )

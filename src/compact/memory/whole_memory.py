"""What is done with a memory as a whole: it is backed up, and made of a backup."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from compact.config import CompactConfig
from compact.memory.backup import make_backup, restore_backup
from compact.messages.protocols import SessionStore
from compact.store.reports import BackupReport


class WholeMemory:
    """The methods about all sessions of a store."""

    _store: SessionStore
    _settings: CompactConfig

    def backup(
        self, path: str | Path, *, progress: Callable[[int, int], None] | None = None
    ) -> BackupReport:
        """Write the whole store, sessions of all scopes, into a new folder: the database, its
        archives, the settings without secrets, and a manifest with a checksum of each file. The
        store stays in use. `progress` is told how many bytes are done, and of how many.

        Raises:
            StoreFailed: there is something of that name already, or it cannot be written.
            StoreDamaged: an archive is missing or altered; no backup was made.
        """
        return make_backup(self._store, path, self._settings, progress)

    restore_backup = staticmethod(restore_backup)

"""`compactctl memory backup` and `restore-backup`: a whole store as a folder, and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from compact.apps import cli
from compact.apps.cli.options import JsonOptions, StoreOptions, argument, command, text_option
from compact.apps.cli.told import Telling
from compact.apps.cli.words import counted

if TYPE_CHECKING:
    from compact.core.backups import BackupReport


@command
def memory_backup(
    options: StoreOptions,
    *,
    folder: Annotated[str, argument("FOLDER", "A new folder for the backup.")],
) -> Telling:
    """Back up the whole store, while it is in use.

    Writes the sessions of all scopes, their archives, the settings without secrets, and a checksum
    of each file. The folder is written whole or not at all, and nothing is replaced.

    Examples:
      compactctl memory backup backup-monday
      compactctl memory backup /backups/chat --store chat.db --json
    """
    if options.scope is not None:
        raise cli.errors.Stop("a backup holds all scopes of the store: leave --scope out")
    with (
        cli.stores.opened(options) as catalog,
        cli.progress.Progress("Copying the store") as progress,
    ):
        memory = cli.stores.memory_of(catalog)
        report = memory.backup(folder, progress=_shown(progress, "Copying the store"))
    yield report.model_dump(mode="json")
    yield _told(report)


@command
def memory_restore_backup(
    options: JsonOptions,
    *,
    folder: Annotated[str, argument("FOLDER", "The backup's folder.")],
    to: Annotated[str, text_option("FILE", "A new file for the store.")],
) -> Telling:
    """Make a store of a backup, in a new file.

    Every checksum is verified first, and the new store is checked before it gets its name. Archives
    go to NAME-archive beside it. The backup stays as it is.

    Examples:
      compactctl memory restore-backup backup-monday --to chat.db
      compactctl sessions list --store chat.db
    """
    words = "Verifying the backup"
    with cli.progress.Progress(words) as progress:
        report = cli.stores.restore_backup(folder, to, progress=_shown(progress, words))
    yield report.model_dump(mode="json")
    yield _told(report)


def _told(report: BackupReport) -> str:
    parts = [counted(report.sessions, "session"), counted(report.messages, "message")]
    parts += [counted(report.archives, "archive")] if report.archives else []
    return f"{Path(report.path)}: {', '.join(parts)}, {report.bytes:,} bytes"


def _shown(progress: cli.progress.Progress, words: str) -> Callable[[int, int], None]:
    """Show on a terminal how much is done."""

    def show(done: int, of: int) -> None:
        progress.now(f"{words}, {100 * done // max(1, of)} %")

    return show

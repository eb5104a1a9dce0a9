"""`compactctl memory backup`: a whole store as a folder."""

from __future__ import annotations

from typing import Annotated

from compact.cli.errors import Stop
from compact.cli.options import argument, command
from compact.cli.progress import Progress, share_done
from compact.cli.stores import StoreOptions, memory_of, opened
from compact.cli.told import Telling
from compact.cli.views import backup_line


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
        raise Stop("a backup holds all scopes of the store: leave --scope out")
    with (
        opened(options) as catalog,
        Progress("Copying the store") as progress,
    ):
        memory = memory_of(catalog)
        report = memory.backup(folder, progress=share_done(progress, "Copying the store"))
    yield report.model_dump(mode="json")
    yield backup_line(report)

"""`compactctl memory restore-backup`: a store of a backup."""

from __future__ import annotations

from typing import Annotated

from compact.cli.options import JsonOptions, argument, command, text_option
from compact.cli.progress import Progress, share_done
from compact.cli.told import Telling
from compact.cli.views import backup_line
from compact.memory.backup import restore_backup


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
    with Progress(words) as progress:
        report = restore_backup(folder, to, progress=share_done(progress, words))
    yield report.model_dump(mode="json")
    yield backup_line(report)

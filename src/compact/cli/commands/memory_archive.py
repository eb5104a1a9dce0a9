"""`compactctl memory archive`: old sessions move into files."""

from __future__ import annotations

from typing import Annotated

import typer

from compact.cli.errors import BAD_INPUT
from compact.cli.options import argument, command
from compact.cli.progress import Progress, counting
from compact.cli.stores import StoreOptions, memory_of, opened
from compact.cli.told import Aside, Styled, Telling
from compact.cli.views import archived_table
from compact.cli.words import counted, whole


@command
def memory_archive(
    options: StoreOptions,
    *,
    session: Annotated[list[str] | None, argument("[SESSION...]", "Only these sessions.")] = None,
    older_than: Annotated[
        int,
        typer.Option(
            "--older-than", metavar="DAYS", min=0, help="Those without a new message for so long."
        ),
    ] = 90,
) -> Telling:
    """Move old sessions into files, out of the database.

    Each is a file for people below NAME-archive/YYYY/MM, and its originals beside it. An archived
    session is still listed and read; who goes on with it restores it. Sessions that are kept whole
    whatever their age (memory age --dry-run says why) stay unless they are named.

    Examples:
      compactctl memory archive
      compactctl memory archive harbour
      compactctl memory archive --older-than 365
    """
    with (
        opened(options) as catalog,
        Progress("Archiving") as progress,
    ):
        memory = memory_of(catalog)
        named = [catalog.find(name).id for name in session] if session else None
        shown = counting(progress, "Archiving", "sessions")
        report = memory.archive(named, older_than_days=older_than, progress=shown)
    yield report.model_dump(mode="json")
    freed = report.bytes_before - report.bytes_after
    done = f"{counted(len(report.archived), 'session')} archived, {max(0, freed):,} bytes freed"
    yield Styled(done, "bold")
    if report.archived:
        yield archived_table(report.archived)
    if report.kept:
        yield Aside(f"{counted(len(report.kept), 'session')} kept whole whatever the age:")
    for name, why in (*report.kept.items(), *report.failed.items()):
        yield Aside(f"{whole(name)}: {why}")
    if report.failed:
        raise typer.Exit(BAD_INPUT)

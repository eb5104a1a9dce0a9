"""`compactctl memory archive`, `restore`, `archived` and `verify`: old conversations as files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from compact.apps import cli
from compact.apps.cli.options import OneSessionOptions, StoreOptions, argument, command, text_option
from compact.apps.cli.told import Aside, Styled, Table, Telling
from compact.apps.cli.words import counted, one_line, whole

if TYPE_CHECKING:
    from compact.core.archived import ArchivedConversation


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
    whatever their age (memory why) stay unless they are named.

    Examples:
      compactctl memory archive
      compactctl memory archive harbour
      compactctl memory archive --older-than 365
    """
    with (
        cli.stores.opened(options) as catalog,
        cli.progress.Progress("Archiving") as progress,
    ):
        memory = cli.stores.memory_of(catalog)
        named = [catalog.find(name).id for name in session] if session else None
        shown = cli.progress.counting(progress, "Archiving", "sessions")
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
        raise typer.Exit(cli.errors.BAD_INPUT)


@command
def memory_restore(options: OneSessionOptions) -> Telling:
    """Bring an archived session back into the database, every byte of it.

    It ages from now on, as if somebody had gone on with it.

    Examples:
      compactctl memory restore harbour
    """
    with cli.stores.opened(options) as catalog, cli.progress.Progress("Restoring"):
        found = catalog.find(options.session)
        told = cli.stores.memory_of(catalog, found.scope).restore(found.id)
    yield cli.views.session_json(told)
    yield f"{told.id}: {counted(told.branch.messages, 'message')} in the database"


@command
def memory_archived(
    options: StoreOptions,
    *,
    search: Annotated[
        str | None, text_option("WORDS", "Only those that say something of it.")
    ] = None,
) -> Telling:
    """List archived sessions, the one with the newest message first.

    Examples:
      compactctl memory archived
      compactctl memory archived --search "harbour office"
    """
    with cli.stores.opened(options) as catalog:
        archives = cli.stores.memory_of(catalog).archives
        found = archives.list_archived() if search is None else archives.search_archived(search)
    yield {"archived": [each.model_dump(mode="json") for each in found]}
    if not found:
        yield Aside("no archived session" + ("" if search is None else f" says {search!r}"))
    else:
        yield archived_table(found)


@command
def memory_verify(options: StoreOptions) -> Telling:
    """Hold every archive to its checksums; exits with 2 where one is missing or altered.

    Examples:
      compactctl memory verify
    """
    with (
        cli.stores.opened(options) as catalog,
        cli.progress.Progress("Verifying") as progress,
    ):
        archives = cli.stores.memory_of(catalog).archives
        every = archives.list_archived()
        faults = archives.verify(cli.progress.counting(progress, "Verifying", "archives"))
    yield {"archives": len(every), "faults": [each.model_dump(mode="json") for each in faults]}
    for each in faults:
        yield f"{whole(each.session_id)}: {each.what}"
    if faults:
        raise typer.Exit(cli.errors.BAD_INPUT)
    yield f"{counted(len(every), 'archive')}, all as written"


def archived_table(found: Sequence[ArchivedConversation]) -> Table:
    """Archived sessions, a row for each."""
    rows = [
        (
            whole(each.session_id),
            one_line(each.title or "", 60),
            cli.views.time_of(each.begun).partition(" ")[0],
            cli.views.time_of(each.ended).partition(" ")[0],
            each.messages,
            each.bytes,
        )
        for each in found
    ]
    names = ("session", "title", "from", "to", "messages", "bytes")
    return Table(
        names, rows, right=("messages", "bytes"), whole=("session", "from", "to"), is_list=True
    )

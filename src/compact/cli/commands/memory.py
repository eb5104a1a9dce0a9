"""`compactctl memory`: status, ageing, archives, deletion and backups of a memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from compact.cli.errors import BAD_INPUT, Stop
from compact.cli.options import JsonOptions, argument, command, day_option, flag, text_option
from compact.cli.progress import Progress, counting, share_done
from compact.cli.render import Aside, Part, Report, Styled, Table, print_part
from compact.cli.stores import SessionCatalog, StoreOptions, memory_of, opened, session_ids
from compact.cli.views import archived_table, time_of
from compact.cli.words import counted, visible, whole
from compact.memory.backup import restore_backup
from compact.memory.memory_manager import MemoryManager, MemoryStatus
from compact.messages.sessions import Session
from compact.text.archived import ArchiveReport, BackupReport
from compact.text.digests import AgeingReport, AgeingRow, CompressionLevel


@command
def memory_status(options: StoreOptions) -> Report:
    """Show what a memory holds, how old it is, and what is due.

    Lists the sessions in the archive too, the one with the newest message first.

    Examples:
      compactctl memory status
      compactctl memory status --scope anna --json
    """
    with opened(options) as catalog:
        memory = memory_of(catalog)
        status, archived = memory.status(), memory.archived()
    archives = [session.model_dump(mode="json") for session in archived]
    yield {**status.model_dump(mode="json"), "archives": archives}
    yield Styled(f"scope {status.scope}: {counted(status.sessions, 'session')}", "bold")
    yield Table(("what", ""), list(_rows(status)))
    if archived:
        yield ""
        yield archived_table(archived)


def _rows(status: MemoryStatus) -> Iterator[tuple[str, str]]:
    yield "messages", f"{status.messages:,}"
    if status.first and status.last:
        yield "from", f"{time_of(status.first)} to {time_of(status.last)}"
    yield "important", f"{status.important:,}"
    for level, count in status.levels.items():
        yield level.replace("_", " "), f"{count:,}"
    if status.archived:
        yield "archived", f"{status.archived:,}, {status.archive_bytes:,} bytes"
    if status.archive_folder:
        yield "archive", status.archive_folder
    if status.file_bytes is not None:
        yield "database", f"{status.file_bytes:,} bytes"
    yield "not indexed yet", f"{status.unindexed:,} messages"
    meaning = f"{status.embedder}, {status.unembedded or 0:,} messages not embedded yet"
    if status.embedder_failed:
        meaning = f"not now: {status.embedder_failed}"
    yield "by meaning", meaning if status.embedder else "no embedder (setting embedder)"


@command
def memory_age(
    options: StoreOptions,
    *,
    dry_run: Annotated[bool, flag("--dry-run", "Only show what would be done.")] = False,
    yes: Annotated[bool, flag("--yes", "Do not ask. Without a terminal nothing is asked.")] = False,
    now: Annotated[
        datetime | None, day_option("As if it were this day, such as 2026-05-17.")
    ] = None,
) -> Report:
    """Write the digests that are due, archive the oldest sessions, and embed.

    A session that was not used for a week gets a digest of its key points beside its messages,
    after a month a summary. After 90 days its messages move into files, and are still read from
    there. Important sessions age half as fast, and marked ones stay as they are. On a terminal it
    shows first what is due, and asks, unless with --json; after a no the exit code is 1. With the
    setting `embedder`, such as minilm, messages without a vector get one too. The chat program ages
    by itself, once a day, without moving messages into files.

    Examples:
      compactctl memory age --dry-run
      COMPACT_EMBEDDER=minilm compactctl memory age --json
    """
    with opened(options) as catalog:
        memory = memory_of(catalog)
        asks = _can_ask() and not (yes or dry_run or options.json)
        if asks and not _agreed(memory, now):
            print_part(Aside("nothing was changed"))
            raise typer.Exit(1)
        with Progress("Ageing") as progress:
            callback = counting(progress, "Ageing", "sessions")
            report = memory.age(now, dry_run=dry_run, progress=callback)
            embedded, pending = None, 0
            if catalog.settings.embedder is not None and not dry_run:
                embedded = memory.embed(progress=counting(progress, "Embedding"))
                pending = memory.unembedded()
    totals = {"written": report.written, "freed_when_archived": report.freed_when_archived}
    yield {"scope": memory.scope, **report.model_dump(mode="json"), **totals, "embedded": embedded}
    if embedded is not None:
        yield Aside(f"{counted(embedded, 'message')} embedded")
    if pending:
        yield Aside(f"{counted(pending, 'message')} not: new, or in an archive that cannot be read")
    if not report.rows:
        yield Aside(f"{catalog.file}: no sessions in scope {memory.scope!r}")
        return
    yield from _aged(report)


def _agreed(memory: MemoryManager, now: datetime | None) -> bool:
    """Whether the user agrees to the ageing that is due. It is also true if nothing is due."""
    with Progress("Looking at what is due") as progress:
        callback = counting(progress, "Looking at", "sessions")
        plan = memory.age(now, dry_run=True, progress=callback)
    if all(row.action == "none" for row in plan.rows):
        return True
    for part in _plan(plan):
        print_part(Aside(part))
    return _says_yes("Nothing is lost, and all is still found. Go on?")


def _plan(report: AgeingReport) -> Iterator[Styled | Table]:
    """Yield what ageing does or would do: one line, and a table by level."""
    would = "would be " * report.dry_run
    line = f"{counted(report.written, 'digest')} {would}written"
    if packed := sum(row.action.endswith("pack") for row in report.rows):
        line += f"; old messages of {counted(packed, 'session')} {would}packed"
    if moved := report.archive:
        line += f"; {_archived(moved)}"
    elif report.freed_when_archived:
        line += f"; about {report.freed_when_archived:,} bytes would go with their originals"
    yield Styled(f"{line}.", "bold")
    counts = list[tuple[str, int, int, int]]()
    for level in CompressionLevel:
        due = [row.bytes_originals for row in report.rows if row.due is level]
        before = sum(row.now is level for row in report.rows)
        counts.append((level.replace("_", " "), before, len(due), sum(due)))
    columns = ("level", "before", "due", "bytes of messages")
    yield Table(columns, counts, right=columns[1:])


def _archived(report: ArchiveReport) -> str:
    freed = max(0, report.bytes_before - report.bytes_after)
    why = "" if freed else ": too few for the file to shrink"
    return f"{counted(len(report.archived), 'session')} archived, {freed:,} bytes freed{why}"


def _aged(report: AgeingReport) -> Iterator[Part]:
    yield from _plan(report)
    done, after = ("to do", "about") if report.dry_run else ("done", "after")
    columns = ("session", "days", "level", "due", done, "tokens", after, "bytes", "why")
    right = ("days", "tokens", after, "bytes")
    yield Table(columns, [_row(row) for row in report.rows], right=right, is_list=True)
    for name, why in (report.archive.failed if report.archive else {}).items():
        yield Aside(f"{name}: {why}")


def _row(row: AgeingRow) -> list[str | int | None]:
    levels = [level.replace("_", " ") for level in (row.now, row.due)]
    sizes = [row.tokens_before, row.tokens_after, row.bytes_originals]
    return [whole(row.session_id), row.age_days, *levels, row.action, *sizes, row.why or None]


@command
def memory_archive(
    options: StoreOptions,
    *,
    session: Annotated[list[str] | None, argument("[SESSION...]", "Only these sessions.")] = None,
    older_than: Annotated[
        int, typer.Option(metavar="DAYS", min=0, help="Those without a new message for so long.")
    ] = 90,
) -> Report:
    """Move old sessions into files, out of the database.

    Each is a file below NAME-archive/YYYY/MM, as sessions export writes it, compressed. An archived
    session is still listed, read, found and continued. Important sessions (memory age --dry-run
    says which) are left to memory age, and marked ones stay, unless they are named.

    Examples:
      compactctl memory archive
      compactctl memory archive harbour
      compactctl memory archive --older-than 365
    """
    with opened(options) as catalog, Progress("Archiving") as progress:
        ids = [catalog.find(name).id for name in session] if session else None
        callback = counting(progress, "Archiving", "sessions")
        report = memory_of(catalog).archive(ids, older_than_days=older_than, progress=callback)
    yield report.model_dump(mode="json")
    yield Styled(_archived(report), "bold")
    if report.archived:
        yield archived_table(report.archived)
    if report.kept:
        yield Aside(f"{counted(len(report.kept), 'session')} left to memory age:")
    for name, why in (*report.kept.items(), *report.failed.items()):
        yield Aside(f"{whole(name)}: {why}")
    if report.failed:
        raise typer.Exit(BAD_INPUT)


@command
def memory_forget(
    options: StoreOptions,
    *,
    session: Annotated[
        str | None, argument("SESSION", "A session's id, or a unique prefix of it.", session_ids)
    ] = None,
    person: Annotated[
        str | None, text_option("SCOPE", "Delete all sessions of this scope instead.")
    ] = None,
    yes: Annotated[bool, flag("--yes", "Do not ask. SESSION must then be the full id.")] = False,
) -> Report:
    """Delete a session, or all of a person, for good, after asking.

    Deletes messages, branches, checkpoints, snapshots, goals, notes and digests, the archive, the
    copies in the folder of the setting `archive`, and what other sessions recalled of it. Exit code
    2 if something is left; it is named. Without a terminal, --yes is required. Backups are not
    touched.

    Examples:
      compactctl memory forget harbour
      compactctl memory forget harbour --yes
      compactctl memory forget --person anna
    """
    with opened(options) as catalog:
        what, chosen = _to_delete(catalog, session, person, yes=yes)
        if not yes and not _is_wanted(catalog, chosen, what):
            print_part(Aside("nothing was deleted"))
            return
        total = sum(_size_of(catalog, each) for each in chosen)  # others may have written since
        with Progress("Deleting, and looking for what is left"):
            memory = memory_of(catalog, person or chosen[0].scope)
            report = memory.forget(None if person else chosen[0].id, person=person)
    counts = report.model_dump(mode="json", exclude={"session_id", "scope"})
    deleted = {"deleted": report.session_id} if person is None else {"person": person}
    yield {**deleted, "messages": total, **counts, "complete": report.is_complete}
    many = f"{counted(len(chosen), 'session')}, " if person else ""
    yield Aside(f"deleted {what.partition(' (')[0]}, {many}{counted(total, 'message')}")
    rows: list[tuple[str, int]] = list(report.removed.items())
    rows += [(f"quotes in {whole(name)}", count) for name, count in report.quoted.items()]
    yield Aside(Table(("removed", ""), [*rows, ("left", len(report.remains))], right=("",)))
    for line in report.remains:
        yield Aside(line)
    if not report.is_complete:
        raise typer.Exit(BAD_INPUT)


def _to_delete(
    catalog: SessionCatalog, session: str | None, person: str | None, *, yes: bool
) -> tuple[str, list[Session]]:
    """Return the sessions to delete, and what they are, in words."""
    if session is None and person is not None and catalog.scope in (None, person):
        return f"scope {person!r}", catalog.store.sessions(scope=person)
    if session is None or person is not None:
        raise Stop("name one session, or one scope with --person")
    found = catalog.find(session)
    if yes and session != found.id:
        raise Stop(f"--yes needs the full id: {found.id!r}")
    return f"session {found.id!r}" + (f" ({found.title})" if found.title else ""), [found]


def _size_of(catalog: SessionCatalog, session: Session) -> int:
    return sum(each.messages - each.fork for each in catalog.store.branches(session.id))


def _is_wanted(catalog: SessionCatalog, chosen: Sequence[Session], what: str) -> bool:
    if not _can_ask():
        raise Stop("there is no terminal to ask on; --yes deletes without asking")
    parts = [counted(len(chosen), "session")] if len(chosen) > 1 else []
    parts.append(counted(sum(_size_of(catalog, each) for each in chosen), "message"))
    snapshots = sum(len(catalog.store.snapshots(each.id)) for each in chosen)
    parts += [counted(snapshots, "snapshot")] if snapshots else []
    return _says_yes(f"Delete {what}, {', '.join(parts)}, for good?")


def _can_ask() -> bool:
    return all(s is not None and s.isatty() for s in (sys.stdin, sys.stderr))


def _says_yes(question: str) -> bool:
    sys.stderr.write(visible(f"{question} [y/N] "))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@command
def memory_backup(
    options: StoreOptions,
    *,
    folder: Annotated[str, argument("FOLDER", "A new folder for the backup.")],
) -> Report:
    """Back up the whole store, while it is in use.

    Writes the sessions of all scopes, their archives, the settings without secrets, and a checksum
    of each file. The folder is written whole or not at all, and nothing is replaced.

    Examples:
      compactctl memory backup backup-monday
      compactctl memory backup /backups/chat --store chat.db --json
    """
    if options.scope is not None:
        raise Stop("a backup holds all scopes of the store: leave --scope out")
    words = "Copying the store"
    with opened(options) as catalog, Progress(words) as progress:
        report = memory_of(catalog).backup(folder, progress=share_done(progress, words))
    yield report.model_dump(mode="json")
    yield _backup_line(report)


@command
def memory_restore_backup(
    options: JsonOptions,
    *,
    folder: Annotated[str, argument("FOLDER", "The backup's folder.")],
    to: Annotated[str, text_option("FILE", "A new file for the store.")],
) -> Report:
    """Restore a backup into a new file.

    All checksums are verified first, and the new store is checked before it gets its name. Archives
    go to NAME-archive beside it. The backup stays as it is.

    Examples:
      compactctl memory restore-backup backup-monday --to chat.db
      compactctl sessions list --store chat.db
    """
    words = "Verifying the backup"
    with Progress(words) as progress:
        report = restore_backup(folder, to, progress=share_done(progress, words))
    yield report.model_dump(mode="json")
    yield _backup_line(report)


def _backup_line(report: BackupReport) -> str:
    parts = [counted(report.sessions, "session"), counted(report.messages, "message")]
    parts += [counted(report.archives, "archive")] if report.archives else []
    return f"{Path(report.path)}: {', '.join(parts)}, {report.bytes:,} bytes"

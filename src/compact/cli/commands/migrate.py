"""`compactctl migrate`: imports conversations of other programs as sessions."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from compact import wiring
from compact.cli.errors import Stop, say
from compact.cli.interrupts import INTERRUPTED
from compact.cli.options import CountOptions, argument, command, flag
from compact.cli.progress import Progress
from compact.cli.render import Aside, Part, Report, Styled, Table
from compact.cli.settings import name_of_store, settings_of
from compact.cli.stores import SessionCatalog, StoreOptions, opened
from compact.cli.words import LONGEST_LINE, counted, one_line, whole
from compact.errors import NotFound
from compact.exchange import migrating
from compact.exchange.manifest import MigrationReport, Outcome
from compact.exchange.rolling_back import roll_back
from compact.files import named_path
from compact.messages.sessions import DEFAULT_SCOPE

MOST_NOTED = 10
"""How many files are listed from which something was left out."""
CHANGING = ("new", "grown", "snapshot")
COLUMNS = ("file", "format", "session", "messages", "tokens", "result")
LABELS: dict[Outcome, tuple[str, str, str]] = {
    "new": ("new", "imported", "green"),
    "grown": ("has grown", "grown", "green"),
    "snapshot": ("snapshot", "snapshot", "green"),
    "there": ("already there", "already there", "bright_black"),
    "differs": ("changed", "changed, not imported", "yellow"),
    "broken": ("cannot be read", "cannot be read", "red"),
    "unknown": ("no conversation", "no conversation", "bright_black"),
}
"""Outcome → its name in a dry run, its name after a run, its colour."""


@dataclass(frozen=True, kw_only=True)
class MigrateOptions(StoreOptions, CountOptions):
    """Options of `migrate`."""

    dry_run: Annotated[bool, flag("--dry-run", "Only show what would be done.")] = False


@command
def migrate(
    options: MigrateOptions,
    *,
    paths: Annotated[
        list[str] | None,
        argument("PATH...", "Files, and folders with all that is below them."),
    ] = None,
    rollback: Annotated[
        bool, flag("--rollback", "Undo a migration instead: the newest, or the one named.")
    ] = False,
    force: Annotated[
        bool, flag("--force", "With --rollback: even if somebody wrote since.")
    ] = False,
) -> Report:
    """Import all conversations from files and folders, in any known format.

    Each conversation becomes a session, whole or not at all, and is read back and compared. The
    same command can be repeated, also after an interruption: what is stored already stays, and a
    file that has grown adds its new messages. A session whose file has another past by now is
    named, and stays as it is. The files are not changed.

    Before the first change, the store is copied to migrations/TIME/backup beside it. The file
    migrations/TIME/manifest.json lists what was done. Exit code 2 if a conversation could not be
    read; all others are imported.

    --rollback puts that copy back. If somebody wrote to the store since, it only names the
    sessions; --force puts the copy back anyway, and keeps the replaced store.

    Examples:
      compactctl migrate ~/.claude/projects --dry-run
      compactctl migrate ~/.codex/sessions old-chats.json
      compactctl migrate --rollback
      compactctl migrate --rollback 20261125-091500
    """
    if rollback:
        yield from _roll_back(options, paths or [], force=force)
        return
    if not paths:
        raise Stop("name the files and folders to bring along")
    if force:
        raise Stop("--force is for --rollback")
    report = _migrate(options, paths)
    yield {**report.model_dump(mode="json"), "outcomes": dict(report.outcomes)}
    yield from _parts(report, paths)
    if failed := migrating.failed(report, paths):
        what = counted(len(failed), "conversation")
        raise Stop(f"{what} could not be brought along; the list says why")


@contextmanager
def _store_for(options: MigrateOptions) -> Iterator[SessionCatalog]:
    """Open the store, or create it. A dry run without a store gets an empty one in memory."""
    with ExitStack() as stack:
        try:
            catalog = stack.enter_context(opened(options, create=not options.dry_run))
        except NotFound:
            settings = settings_of(options)
            empty = stack.enter_context(closing(wiring.session_store(None)))
            catalog = SessionCatalog(empty, name_of_store(settings), settings, options.scope)
        yield catalog


def _migrate(options: MigrateOptions, paths: Sequence[str]) -> MigrationReport:
    with _store_for(options) as catalog, Progress("Reading") as progress, _ctrl_c() as asked:

        def follow(done: int, of: int) -> None:
            if asked.is_set():  # the conversation before is stored completely
                raise KeyboardInterrupt
            progress.now(f"Reading file {done + 1:,} of {of:,}")

        try:
            return migrating.migrate(
                paths,
                store=catalog.store,
                scope=catalog.scope or DEFAULT_SCOPE,
                dry_run=options.dry_run,
                settings=catalog.settings,
                progress=follow,
            )
        except KeyboardInterrupt:
            stays = "what was imported stays, and the same command goes on from there"
            say("interrupted" if options.dry_run else f"interrupted: {stays}")
            raise typer.Exit(INTERRUPTED) from None


@contextmanager
def _ctrl_c() -> Iterator[Event]:
    """Yield an event that Ctrl-C sets, so that the current conversation is still stored completely.
    A `KeyboardInterrupt` could be lost on the way. A second Ctrl-C ends the process.
    """
    asked, before = Event(), signal.getsignal(signal.SIGINT)

    def ask(*_: object) -> None:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
        asked.set()

    signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def _roll_back(options: MigrateOptions, names: Sequence[str], *, force: bool) -> Report:
    if len(names) > 1:
        raise Stop("--rollback takes one migration, or none for the newest")
    with opened(options) as catalog, Progress("Putting the backup back"):
        report = roll_back(
            names[0] if names else None,
            store=catalog.store,
            scope=catalog.scope or DEFAULT_SCOPE,
            force=force,
            dry_run=options.dry_run,
            settings=catalog.settings,
        )
    yield report.model_dump(mode="json")
    would = "would be " * options.dry_run
    parts = {f"{would}deleted": report.deleted, f"{would}put back": report.put_back}
    rows = [[whole(name), what] for what, names in parts.items() for name in names]
    if rows:
        yield Table(("session", "result"), rows, whole=("session",), is_list=True)
    for name in report.changed if options.dry_run else ():
        yield Aside(f"somebody wrote to {one_line(name)!r} since: --force takes it back even so")
    for name in report.others:
        yield Aside(f"{one_line(name)!r}, of another scope, changed since: nothing is taken back")
    counts = [f"{len(names):,} {what}" for what, names in parts.items() if names]
    yield Styled(f"migration {report.id}: {', '.join(counts) or 'nothing left of it'}", "bold")
    if report.replaced is not None:
        yield Aside(Styled(f"the store as it was is in {report.replaced}"))


def _parts(report: MigrationReport, paths: Sequence[str]) -> Iterator[Part]:
    """Yield a row for each conversation, remarks on some of them, and the totals."""
    counts = Counter(each.path for each in report.conversations)
    rows, remarks, omissions = [], list[Part](), list[str]()
    for each in report.conversations:
        if each.outcome == "unknown":
            continue
        name = _below(each.path, paths)
        name = f"{name}#{each.conversation}" if counts[each.path] > 1 else name
        style = LABELS[each.outcome][2]
        result = LABELS[each.outcome][0 if report.dry_run else 1]
        result += f", {each.added:,} more" if each.outcome == "grown" else ""
        title = wiring.file_formats().get(each.format, "compact") if each.format else ""
        rows.append(
            (
                one_line(name, LONGEST_LINE),
                title.partition(" (")[0],
                whole(each.session_id or ""),
                each.messages,
                each.tokens or None,
                Styled(result, style),
            )
        )
        if each.reason:
            remarks.append(Aside(Styled(one_line(f"{name}: {each.reason}", LONGEST_LINE), style)))
        if each.notes and each.outcome in CHANGING:
            omissions.append(f"{name}: left out: {', '.join(each.notes)}")
    if rows:
        numbers = ("messages", "tokens")
        yield Table(COLUMNS, rows, right=numbers, whole=("session",), is_list=True)
    yield from remarks
    yield from (Aside(one_line(line, LONGEST_LINE)) for line in omissions[:MOST_NOTED])
    if (more := len(omissions) - MOST_NOTED) > 0:
        yield Aside(f"something was left out of {counted(more, 'more file')}: --json tells what")
    yield from _others(report, paths)
    yield Styled(_summary(report), "bold")
    if report.folder is not None:
        back = "" if report.backup is None else f", the store as it was is in {report.backup}"
        manifest = Path(report.folder) / "manifest.json"
        yield Aside(Styled(f"{manifest} says what was done{back}"))


def _others(report: MigrationReport, paths: Sequence[str]) -> Iterator[Part]:
    """Yield lines on files without a conversation: one for each named file, and two totals."""
    unknown = [each for each in report.conversations if each.outcome == "unknown"]
    read = {each.path for each in report.conversations if each.outcome != "unknown"}
    empty = sum(each.path in read for each in unknown)
    named = {str(named_path(path)) for path in paths} - read
    of_named = [each for each in unknown if each.path in named]
    for each in of_named:
        line = f"{_below(each.path, paths)}: holds no conversation: {each.reason}"
        yield Aside(one_line(line, LONGEST_LINE))
    if empty:
        yield Aside(f"{counted(empty, 'conversation')} without a message: --json lists them")
    if others := len(unknown) - len(of_named) - empty:
        hold = "holds" if others == 1 else "hold"
        yield Aside(f"{counted(others, 'file')} {hold} no conversation: --json lists them")


def _below(path: str, named: Sequence[str]) -> str:
    """Return the path relative to the named folder. If several folders were named, it begins with
    the folder's name.
    """
    for folder in map(named_path, named):
        if Path(path) != folder and Path(path).is_relative_to(folder):
            below = Path(path).relative_to(folder)
            return str(below if len(named) == 1 else folder.name / below)
    return Path(path).name


def _summary(report: MigrationReport) -> str:
    verb = 0 if report.dry_run else 1
    counts = report.outcomes
    parts = [f"{counts[each]:,} {LABELS[each][verb]}" for each in LABELS if counts.get(each)]
    added = sum(each.added for each in report.conversations)
    would = "would be " * report.dry_run
    line = ", ".join(parts) or "nothing found"
    return f"{line}; {counted(added, 'message')} {would}stored"

"""`compactctl migrate`: imports conversations of other programs as sessions."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from compact import wiring
from compact.cli.errors import Stop, say
from compact.cli.interrupts import INTERRUPTED
from compact.cli.options import CountOptions, argument, command, flag
from compact.cli.progress import Progress
from compact.cli.render import Aside, Cell, Part, Report, Styled, Table
from compact.cli.settings import name_of_store, settings_of
from compact.cli.stores import SessionCatalog, StoreOptions, opened
from compact.cli.words import LONGEST_LINE, counted, one_line, whole
from compact.errors import NotFound
from compact.exchange import migrating
from compact.exchange.manifest import MigratedConversation, MigrationReport, Outcome
from compact.exchange.rolling_back import roll_back
from compact.files import named_path
from compact.messages.sessions import DEFAULT_SCOPE

MOST_NOTED = 10
"""Files whose omissions are listed."""
CHANGING = ("new", "grown", "snapshot")
COLUMNS = ("file", "format", "session", "messages", "tokens", "result")
WORDS: dict[Outcome, tuple[str, str, str]] = {
    "new": ("new", "imported", "green"),
    "grown": ("has grown", "grown", "green"),
    "snapshot": ("snapshot", "snapshot", "green"),
    "there": ("already there", "already there", "bright_black"),
    "differs": ("changed", "changed, not imported", "yellow"),
    "broken": ("cannot be read", "cannot be read", "red"),
    "unknown": ("no conversation", "no conversation", "bright_black"),
}
"""Outcome → its words in a dry run, its words after a run, its style."""


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
        bool, flag("--rollback", "Take back a migration instead: the newest, or the one named.")
    ] = False,
    force: Annotated[
        bool, flag("--force", "With --rollback: even where somebody wrote since.")
    ] = False,
) -> Report:
    """Bring along conversations from files and folders, in any known format.

    Each conversation becomes a session, wholly or not at all, and is read back and compared. What
    is there already is left alone, so that a migration can be repeated, or started again after it
    was interrupted; a file that has grown adds what it has more. A session that went on in its file
    with another past is named and stays as it is. Nothing in the files is changed.

    Before the first change the store is copied to migrations/TIME/backup beside it, and
    migrations/TIME/manifest.json says what was done. Exit code 2 where a conversation could not be
    read; all others are imported.

    --rollback puts that copy back. Where somebody wrote to the store since, nothing is done and the
    sessions are named; --force puts it back even so, and keeps the store as it was.

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
    yield from _MigrationText(report, paths).parts()
    if failed := migrating.failed(report, paths):
        what = counted(len(failed), "conversation")
        raise Stop(f"{what} could not be brought along; the list says why")


@contextmanager
def _store_for(options: StoreOptions, *, dry_run: bool) -> Iterator[SessionCatalog]:
    """The store, created if needed. A dry run without a store gets an empty one in memory."""
    with ExitStack() as stack:
        try:
            catalog = stack.enter_context(opened(options, create=not dry_run))
        except NotFound:
            settings = settings_of(options)
            empty = stack.enter_context(closing(wiring.session_store(None)))
            catalog = SessionCatalog(empty, name_of_store(settings), settings, options.scope)
        yield catalog


def _migrate(options: MigrateOptions, paths: Sequence[str]) -> MigrationReport:
    words = "Reading"
    with (
        _store_for(options, dry_run=options.dry_run) as catalog,
        Progress(words) as progress,
        _ctrl_c() as asked,
    ):

        def follow(done: int, of: int) -> None:
            if asked.is_set():  # the conversation before is stored whole
                raise KeyboardInterrupt
            progress.now(f"{words} file {done + 1:,} of {of:,}")

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
    """An event that Ctrl-C sets, so that the running conversation is stored whole. An exception
    could be lost on the way. A second Ctrl-C ends the process.
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
    with (
        opened(options) as catalog,
        Progress("Taking back") as progress,
    ):
        progress.now("Putting the backup back")
        report = roll_back(
            names[0] if names else None,
            store=catalog.store,
            scope=catalog.scope or DEFAULT_SCOPE,
            force=force,
            dry_run=options.dry_run,
            settings=catalog.settings,
        )
    yield report.model_dump(mode="json")
    would = "would be " if options.dry_run else ""
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


@dataclass(frozen=True)
class _MigrationText:
    report: MigrationReport
    paths: Sequence[str]

    def parts(self) -> Iterator[Part]:
        """A row for each conversation, what there is to say of some, and the sum."""
        report = self.report
        shown = [each for each in report.conversations if each.outcome != "unknown"]
        if shown:
            rows = [self._row(each) for each in shown]
            numbers = ("messages", "tokens")
            yield Table(COLUMNS, rows, right=numbers, whole=("session",), is_list=True)
        yield from self._remarks(shown)
        yield from self._others()
        yield Styled(_summary(report), "bold")
        if report.folder is not None:
            back = "" if report.backup is None else f", the store as it was is in {report.backup}"
            manifest = Path(report.folder) / "manifest.json"
            yield Aside(Styled(f"{manifest} says what was done{back}"))

    def _remarks(self, shown: Sequence[MigratedConversation]) -> Iterator[Part]:
        for each in shown:
            if each.reason:
                line = f"{self._name(each)}: {each.reason}"
                yield Aside(Styled(one_line(line, LONGEST_LINE), WORDS[each.outcome][2]))
        noted = [each for each in shown if each.notes and each.outcome in CHANGING]
        for each in noted[:MOST_NOTED]:
            line = f"{self._name(each)}: left out: {', '.join(each.notes)}"
            yield Aside(one_line(line, LONGEST_LINE))
        if len(noted) > MOST_NOTED:
            more = counted(len(noted) - MOST_NOTED, "more file")
            yield Aside(f"something was left out of {more}: --json tells what")

    def _row(self, each: MigratedConversation) -> list[Cell]:
        would, done, colour = WORDS[each.outcome]
        added = f", {each.added:,} more" if each.outcome == "grown" else ""
        return [
            one_line(self._name(each), LONGEST_LINE),
            _title_of(each.format),
            whole(each.session_id or ""),
            each.messages,
            each.tokens or None,
            Styled((would if self.report.dry_run else done) + added, colour),
        ]

    def _name(self, each: MigratedConversation) -> str:
        """The file's path below the folder that was named, with the number of the conversation
        where it has several.
        """
        name = _below(each.path, self.paths)
        return f"{name}#{each.conversation}" if each.path in self._several else name

    @cached_property
    def _several(self) -> set[str]:
        counts = Counter(each.path for each in self.report.conversations)
        return {path for path, count in counts.items() if count > 1}

    def _others(self) -> Iterator[Part]:
        paths = [each.path for each in self.report.conversations if each.outcome == "unknown"]
        named = {str(named_path(path)) for path in self.paths}
        for path in paths:
            if path in named:
                line = f"{_below(path, self.paths)}: holds no conversation"
                yield Aside(one_line(line, LONGEST_LINE))
        others = len(paths) - len(named.intersection(paths))
        if others:
            hold = "holds" if others == 1 else "hold"
            yield Aside(f"{counted(others, 'file')} {hold} no conversation: --json lists them")


def _below(path: str, named: Sequence[str]) -> str:
    """The path relative to the named folder. If there are several folders, it begins with the
    folder's name.
    """
    for each in named:
        folder = named_path(each)
        if Path(path) != folder and Path(path).is_relative_to(folder):
            below = Path(path).relative_to(folder)
            return str(below if len(named) == 1 else folder.name / below)
    return Path(path).name


def _title_of(name: str | None) -> str:
    if name is None:
        return ""
    return wiring.file_formats().get(name, "compact").partition(" (")[0]


def _summary(report: MigrationReport) -> str:
    verb = 0 if report.dry_run else 1
    parts = [
        f"{count:,} {WORDS[outcome][verb]}"
        for outcome in WORDS
        if (count := report.outcomes.get(outcome, 0))
    ]
    added = sum(each.added for each in report.conversations)
    would = "would be " if report.dry_run else ""
    line = ", ".join(parts) or "nothing found"
    return f"{line}; {counted(added, 'message')} {would}stored"

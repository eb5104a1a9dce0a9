"""`compactctl memory`: how memory ages, and why a session is kept whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from compact.apps import cli
from compact.apps.cli.commands.memory import day
from compact.apps.cli.options import OneSessionOptions, StoreOptions, command, flag
from compact.apps.cli.told import Aside, Cell, Part, Share, Styled, Table, Telling
from compact.apps.cli.words import counted, one_line, whole

if TYPE_CHECKING:
    from compact.core.digests import AgeingReport, AgeingRow

COLUMNS = ("session", "days", "level", "due", "done", "tokens", "after", "bytes", "why")
DRY_COLUMNS = ("session", "days", "level", "due", "to do", "tokens", "about", "bytes", "why")


@dataclass(frozen=True, kw_only=True)
class AgeOptions(StoreOptions):
    """Whose memory ages, and when."""

    dry_run: Annotated[bool, flag("--dry-run", "Only show what would be done.")] = False
    now: Annotated[
        datetime | None,
        typer.Option(parser=day, metavar="DAY", help="As if it were this day, such as 2026-05-17."),
    ] = None


@command
def memory_age(options: AgeOptions) -> Telling:
    """Write the digests that the sessions' ages ask for, and archive the oldest.

    A session that nobody has used for a week gets a digest of its key points beside its messages,
    after a month a summary; after 90 days its messages move into files, where they are still read
    from. Important sessions keep every word where it is.

    Examples:
      compactctl memory age --dry-run
      compactctl memory age --json
    """
    with (
        cli.stores.opened(options) as catalog,
        cli.progress.Progress("Ageing") as progress,
    ):
        memory = cli.stores.memory_of(catalog)
        shown = cli.progress.counting(progress, "Ageing", "sessions")
        report = memory.age(options.now, dry_run=options.dry_run, progress=shown)
        scope, file = memory.scope, catalog.file
    told = {"written": report.written, "freed_when_archived": report.freed_when_archived}
    yield {"scope": scope, **report.model_dump(mode="json"), **told}
    if not report.rows:
        yield Aside(f"{file}: no sessions in scope {scope!r}")
        return
    yield from _report(report)


def _report(report: AgeingReport) -> Iterator[Part]:
    verb = "would be written" if report.dry_run else "written"
    line = f"{counted(report.written, 'digest')} {verb}"
    if report.archive is not None:
        moved = report.archive
        freed = max(0, moved.bytes_before - moved.bytes_after)
        line += f"; {counted(len(moved.archived), 'session')} archived, {freed:,} bytes freed"
    elif report.freed_when_archived:
        line += f"; about {report.freed_when_archived:,} bytes would go with their originals"
    yield Styled(f"{line}.", "bold")
    right = ("days", "tokens", "after", "about", "bytes")
    columns = DRY_COLUMNS if report.dry_run else COLUMNS
    yield Table(columns, [_row(row) for row in report.rows], right=right, is_list=True)
    for name, why in (report.archive.failed if report.archive else {}).items():
        yield Aside(f"{name}: {why}")


def _row(row: AgeingRow) -> list[str | int | None]:
    return [
        whole(row.session_id),
        row.age_days,
        row.now.replace("_", " "),
        row.due.replace("_", " "),
        row.action,
        f"{row.tokens_before:,}" if row.tokens_before is not None else None,
        f"{row.tokens_after:,}" if row.tokens_after is not None else None,
        f"{row.bytes_originals:,}",
        row.why or None,
    ]


@command
def memory_why(options: OneSessionOptions) -> Telling:
    """Show how much a session is worth to be kept whole, part by part.

    Examples:
      compactctl memory why harbour
      compactctl memory why harbour --json
    """
    with cli.stores.opened(options) as catalog:
        session = catalog.find(options.session)
        memory = cli.stores.memory_of(catalog, session.scope)
        found = memory.importance(session.id)
        least = catalog.settings.retain_score
    is_kept = found.marked or found.score >= least
    yield {
        "session": session.id,
        "score": found.score,
        "kept": is_kept,
        "keep_score": least,
        "marked": found.marked,
        "parts": found.parts._asdict(),
        "adds": found.told(),
    }
    name = one_line(session.title or session.id, 200)
    fate = "kept whole whatever its age" if is_kept else "ages"
    yield Styled(f"{name}: {fate}", "bold")
    if found.marked:
        yield "Somebody marked it as important, which is enough. Without that:"
    adds = found.told()
    rows: list[list[Cell]] = [
        [part, f"{worth:.2f}", f"{adds[part]:.2f}", Share(adds[part], "green")]
        for part, worth in found.parts._asdict().items()
    ]
    total = sum(adds.values())
    rows.append(["together", None, f"{total:.2f}", Share(total, "cyan")])
    yield Table(("part", "0 to 1", "adds", ""), rows, right=("0 to 1", "adds"))
    yield f"Kept whole from {least:.2f} on (setting retain_score)."

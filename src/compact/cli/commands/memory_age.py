"""`compactctl memory age`: what age leaves of sessions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer

from compact.cli.options import command, day, flag
from compact.cli.progress import Progress, counting
from compact.cli.stores import StoreOptions, memory_of, opened
from compact.cli.told import Aside, Part, Styled, Table, Telling
from compact.cli.words import counted, whole
from compact.text.digests import AgeingReport, AgeingRow

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
    """Write the digests that the sessions' ages ask for, archive the oldest, and embed.

    A session that nobody has used for a week gets a digest of its key points beside its messages,
    after a month a summary; after 90 days its messages move into files, where they are still read
    from. Important sessions keep every word where it is. With the setting `embedder`, such as
    minilm, messages that have no vector yet get one too. A job of cron may run this every day.

    Examples:
      compactctl memory age --dry-run
      COMPACT_EMBEDDER=minilm compactctl memory age --json
    """
    with (
        opened(options) as catalog,
        Progress("Ageing") as progress,
    ):
        memory = memory_of(catalog)
        shown = counting(progress, "Ageing", "sessions")
        report = memory.age(options.now, dry_run=options.dry_run, progress=shown)
        scope, file, embedded = memory.scope, catalog.file, None
        if catalog.settings.embedder is not None and not options.dry_run:
            embedded = memory.embed(progress=counting(progress, "Embedding"))
    told = {"written": report.written, "freed_when_archived": report.freed_when_archived}
    yield {"scope": scope, **report.model_dump(mode="json"), **told, "embedded": embedded}
    if embedded is not None:
        yield Aside(f"{counted(embedded, 'message')} embedded")
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

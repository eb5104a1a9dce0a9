"""`compactctl memory status`, `embed` and `schedule`: how a memory stands, and its upkeep."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from compact.apps import cli
from compact.apps.cli.options import StoreOptions, command, flag
from compact.apps.cli.told import Aside, Part, Styled, Table, Telling
from compact.apps.cli.words import counted

if TYPE_CHECKING:
    from threading import Event

    from compact.core.digests import AgeingReport
    from compact.core.memory_status import MemoryStatus
    from compact.managers.running.schedule import Schedule


SOON = 0.2
"""Seconds after which Ctrl-C is noticed."""


@command
def memory_status(options: StoreOptions) -> Telling:
    """Show what a memory holds, how old it has become, and what is still to be done.

    Examples:
      compactctl memory status
      compactctl memory status --scope anna --json
    """
    with cli.stores.opened(options) as catalog:
        told = cli.stores.memory_of(catalog).status()
    yield told.model_dump(mode="json")
    yield Styled(f"scope {told.scope}: {counted(told.sessions, 'session')}", "bold")
    yield Table(("what", ""), [list(row) for row in _rows(told)], right=())


def _rows(told: MemoryStatus) -> Iterator[tuple[str, str]]:
    yield "messages", f"{told.messages:,}"
    if told.first and told.last:
        yield "from", f"{cli.views.time_of(told.first)} to {cli.views.time_of(told.last)}"
    yield "important", f"{told.important:,}"
    for level, count in told.levels.items():
        yield level.replace("_", " "), f"{count:,}"
    if told.archived:
        yield "archived", f"{told.archived:,}, {told.archive_bytes:,} bytes"
    if told.archive_folder:
        yield "archive", told.archive_folder
    if told.file_bytes is not None:
        yield "database", f"{told.file_bytes:,} bytes"
    yield "not indexed yet", f"{told.unindexed:,} messages"
    if told.embedder is None:
        yield "by meaning", "no embedder (setting embedder)"
    elif told.embedder_failed:
        yield "by meaning", f"not now: {told.embedder_failed}"
    else:
        yield "by meaning", f"{told.embedder}, {told.unembedded or 0:,} messages not embedded yet"


@command
def memory_embed(options: StoreOptions) -> Telling:
    """Embed the messages that have no vector yet, so that they are found by meaning too.

    The embedder is the setting `embedder` (COMPACT_EMBEDDER), such as minilm, which works offline,
    or ollama:nomic-embed-text. It may be stopped at any time, and goes on where it was.

    Examples:
      COMPACT_EMBEDDER=minilm compactctl memory embed
    """
    with (
        cli.stores.opened(options) as catalog,
        cli.progress.Progress("Embedding") as progress,
    ):
        if catalog.settings.embedder is None:
            raise cli.errors.Stop("no embedder is set: COMPACT_EMBEDDER=minilm works offline")
        memory = cli.stores.memory_of(catalog)
        done = memory.embed(progress=cli.progress.counting(progress, "Embedding"))
        name = memory.status().embedder
    yield {"embedded": done, "embedder": name}
    yield f"{counted(done, 'message')} embedded by {name}"


@command
def memory_schedule(
    options: StoreOptions,
    *,
    every: Annotated[
        float, typer.Option(metavar="HOURS", min=0.001, help="Hours between two runs.")
    ] = 24.0,
    once: Annotated[bool, flag("--once", "Run once, as a job of cron or systemd does.")] = False,
) -> Telling:
    """Age memory now and again every so many hours, until Ctrl-C.

    Of several processes that do this with one file, one does the work; the others leave it alone.

    Examples:
      compactctl memory schedule
      compactctl memory schedule --every 6
      compactctl memory schedule --once --json
    """
    with cli.stores.opened(options) as catalog, cli.interrupts.asked_to_stop() as stop:
        memory, line = cli.stores.memory_of(catalog), cli.progress.Progress("Ageing")

        def tell(done: int, of: int) -> None:
            cli.progress.counting(line, "Ageing", "sessions")(done, of)

        schedule, runs = memory.run_schedule(every * 3600, progress=tell), 0
        try:
            while _has_run(schedule, runs + 1, stop, line):
                runs += 1
                line = cli.progress.Progress("Waiting for the next run")
                if runs == 1:
                    yield _run_json(schedule.last, schedule.error)
                yield from _run(schedule.last, schedule.error)
                if once:
                    break
        finally:
            memory.close()
        if not once:
            yield Aside("stopped")
    if once and schedule.error is not None:
        raise typer.Exit(cli.errors.BAD_INPUT)


def _has_run(
    schedule: Schedule[AgeingReport], runs: int, stop: Event, line: cli.progress.Progress
) -> bool:
    """Wait until it was done so many times, or somebody stops it; whether it was."""
    with line:
        while not stop.is_set():
            if schedule.wait(runs, SOON):
                return True
    return False


def _run_json(report: AgeingReport | None, error: Exception | None) -> dict[str, object]:
    if error is not None or report is None:
        return {"error": str(error)}
    return {"written": report.written, **report.model_dump(mode="json")}


def _run(report: AgeingReport | None, error: Exception | None) -> Iterator[Part]:
    at = cli.views.time_of(datetime.now(UTC))
    if error is not None or report is None:
        yield Aside(f"{at}  failed: {error}")
    elif not report.complete and not report.rows:
        yield f"{at}  another process does the work"
    else:
        moved = len(report.archive.archived) if report.archive else 0
        yield f"{at}  {counted(report.written, 'digest')} written, {moved:,} archived"
        for name, why in (report.archive.failed if report.archive else {}).items():
            yield Aside(f"{name}: {why}")

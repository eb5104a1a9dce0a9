"""`compactctl work`: a worker that does the jobs of a store on a server."""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from compact import wiring
from compact.cli.errors import BAD_INPUT, say
from compact.cli.options import SettingsOptions, command, count, flag, number_option, text_option
from compact.cli.render import Report, Styled
from compact.cli.settings import name_of_store, settings_of
from compact.cli.words import LONGEST_LINE, counted, one_line
from compact.memory.jobs import Job, run_job
from compact.messages.events import JobEnded


@dataclass(frozen=True, kw_only=True)
class WorkOptions(SettingsOptions):
    """Options of `work`."""

    store: Annotated[
        str | None, text_option("ADDRESS", "postgresql://… Default: the setting store.")
    ] = None


@command
def work(
    options: WorkOptions,
    *,
    once: Annotated[bool, flag("--once", "End when no job waits that may run now.")] = False,
    concurrency: Annotated[int, number_option("How many jobs at once.", count)] = 1,
) -> Report:
    """Do the jobs of a store on a server: index, age, embed, compress.

    Looks every minute what is due in any scope: words for new messages, digests once a day, and
    with the setting `embedder` vectors. Applications enqueue compressions. Any number of workers on
    any number of hosts may run; two never work on one session. What a worker that died had begun,
    another one does after half a minute, with one effect. A job that fails is tried eight times,
    the last time after ten minutes.

    Runs until it is told to end (Ctrl-C, SIGTERM), and ends what it has begun. Without its server
    it ends with exit code 2: let a supervisor start it again. Needs the extra `work`, an address
    that sees all scopes, and no pooler in between.

    Examples:
      compactctl work --store postgresql://owner@db.internal/chats
      COMPACT_EMBEDDER=minilm compactctl work --concurrency 4
      compactctl work --once --json
    """
    settings, ended = settings_of(options), Counter[str]()
    logging.getLogger("procrastinate").addHandler(logging.NullHandler())  # `tell` says it
    address = name_of_store(settings)
    embedder = wiring.TypedEmbedder(settings.embedder) if settings.embedder else None
    with (
        closing(wiring.job_queue(address)) as queue,
        closing(wiring.store_at(address)) as store,
        closing(wiring.event_bus(settings)) as bus,
    ):

        def tell(job: Job, event: JobEnded) -> None:
            ended[event.outcome] += 1
            bus.emit(event)
            what = f"{job.kind} {job.scope!r}" + (f" {job.session!r}" if job.session else "")
            how = {"done": "", "again": "to be tried again: ", "failed": "failed: "}
            line = f"{what}: {how[event.outcome]}{event.said} ({event.seconds:.1f} s)"
            say(one_line(line, LONGEST_LINE))

        queue.work(
            partial(run_job, store=store, settings=settings),
            tell=tell,
            due=partial(queue.due, embedder),
            once=once,
            concurrency=concurrency,
        )
        left = queue.counts()
    yield {"store": wiring.shown_name(address), **ended, "left": left}
    line = f"{counted(ended['done'], 'job')} done"
    line += f", {ended['again']:,} to be tried again" if ended["again"] else ""
    yield Styled(line + (f", {ended['failed']:,} failed" if ended["failed"] else ""), "bold")
    if ended["failed"]:
        raise typer.Exit(BAD_INPUT)

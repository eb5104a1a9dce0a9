"""`compactctl memory status`: how a memory stands."""

from __future__ import annotations

from collections.abc import Iterator

from compact.cli.options import command
from compact.cli.stores import StoreOptions, memory_of, opened
from compact.cli.told import Styled, Table, Telling
from compact.cli.views import archived_table, time_of
from compact.cli.words import counted
from compact.memory.memory_manager import MemoryStatus


@command
def memory_status(options: StoreOptions) -> Telling:
    """Show what a memory holds, how old it has become, and what is still to be done.

    Lists the sessions in the archive too, the one with the newest message first.

    Examples:
      compactctl memory status
      compactctl memory status --scope anna --json
    """
    with opened(options) as catalog:
        memory = memory_of(catalog)
        told, archived = memory.status(), memory.archived()
    listed = [each.model_dump(mode="json") for each in archived]
    yield {**told.model_dump(mode="json"), "archives": listed}
    yield Styled(f"scope {told.scope}: {counted(told.sessions, 'session')}", "bold")
    yield Table(("what", ""), [list(row) for row in _rows(told)], right=())
    if archived:
        yield ""
        yield archived_table(archived)


def _rows(told: MemoryStatus) -> Iterator[tuple[str, str]]:
    yield "messages", f"{told.messages:,}"
    if told.first and told.last:
        yield "from", f"{time_of(told.first)} to {time_of(told.last)}"
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

"""`compactctl undo`: undoes a compression, or restores a snapshot. Later messages stay on their
branch.
"""

from __future__ import annotations

from typing import Annotated

from compact.cli.options import command, text_option
from compact.cli.render import Data, Report
from compact.cli.stores import OpenOptions, context_of, entered, one_of, opened
from compact.cli.views import standing_json, standing_line
from compact.cli.words import one_line
from compact.session.context_manager import ContextManager


@command
def undo(
    options: OpenOptions,
    *,
    to: Annotated[
        str | None,
        text_option("SNAPSHOT", "Go back to this snapshot: its id, or a unique prefix of it."),
    ] = None,
) -> Report:
    """Undo the last compression, restore or branch of a session, or go back to a snapshot.

    Messages are kept. A snapshot brings back its messages, checkpoints, goals and policy; later
    messages stay on their own branch, and the current state is saved as a snapshot too. `show`
    lists the snapshots.

    Examples:
      compactctl undo harbour
      compactctl undo harbour --to sn-3f2a81b09c44
    """
    if to is None:
        with entered(options) as (_, ctx):
            ctx.time.undo()
            yield from _report(ctx, "undone")
        return
    with opened(options) as catalog:
        session = catalog.find(options.session)
        snapshots = {snapshot.id: snapshot for snapshot in catalog.store.snapshots(session.id)}
        name = one_of(to, list(snapshots), what="snapshot", where=f"session {session.id!r}")
        window = options.window or snapshots[name].window
        with context_of(catalog, session, window=window) as ctx:
            ctx.time.restore(snapshots[name])
            yield from _report(ctx, f"restored {name}")


def _report(ctx: ContextManager, done: str) -> Report:
    yield standing_json(ctx)
    yield Data(one_line(f"{done}: {standing_line(ctx)}", 1_000))

"""`compactctl snapshot`, `restore`, `undo`, `redo` and `branch`: go back, and continue from there.

None of them loses anything: later messages stay on their own branch, and `undo` reverses the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from compact.apps.cli import output, render, stores
from compact.apps.cli.options import (
    OpenOptions,
    argument,
    command,
    count,
    number_option,
    text_option,
)
from compact.apps.cli.words import one_line, whole
from compact.managers.context import ContextManager


@command
def snapshot(
    options: OpenOptions,
    *,
    note: Annotated[str, text_option("TEXT", "A note on its purpose.")] = "",
) -> None:
    """Save the state of a session, to restore it later.

    Prints the snapshot's id; `sessions show` lists all snapshots.

    Examples:
      compactctl snapshot harbour --note "before the migration"
    """
    with stores.entered(options) as ctx:
        made = ctx.snapshot(note)
        told = {"snapshot": made.id, **render.standing_json(ctx)}
    if options.json:
        output.print_json(told)
    else:
        output.print_data(f"{whole(made.id)}\n")


@command
def restore(
    options: OpenOptions,
    *,
    snapshot: Annotated[str, argument("SNAPSHOT", "The snapshot's id, or a unique prefix of it.")],
) -> None:
    """Continue from a snapshot: its messages, checkpoints, goals and policy.

    Later messages stay on their own branch. The current state is saved as a snapshot too.

    Examples:
      compactctl restore harbour sn-3f2a81b09c44
    """
    with stores.opened(options) as catalog:
        session = catalog.find(options.session)
        known = {each.id: each for each in catalog.store.snapshots(session.id)}
        where = f"session {session.id!r}"
        name = stores.one_of(snapshot, list(known), what="snapshot", where=where)
        window = options.window or known[name].window
        ctx = stores.context_of(catalog, session, window=window)
        ctx.restore(known[name])
        _say_where(ctx, options, f"restored {name}")


@command
def undo(options: OpenOptions) -> None:
    """Undo the last compression, restore or branch of a session.

    Messages are kept.

    Examples:
      compactctl undo harbour
    """
    _move(options, lambda ctx: ctx.undo(), "undone")


@command
def redo(options: OpenOptions) -> None:
    """Reverse the last undo.

    Examples:
      compactctl redo harbour
    """
    _move(options, lambda ctx: ctx.redo(), "done again")


@command
def branch(
    options: OpenOptions,
    *,
    at: Annotated[int, number_option("How many messages the new branch begins with.", count)],
) -> None:
    """Start a new branch from a session's first N messages.

    Later messages stay on their branch; `undo` goes back to it.

    Examples:
      compactctl branch harbour --at 120
    """
    _move(options, lambda ctx: ctx.branch(at=at), "branched off")


def _move(options: OpenOptions, go: Callable[[ContextManager], object], done: str) -> None:
    with stores.entered(options) as ctx:
        go(ctx)
        _say_where(ctx, options, done)


def _say_where(ctx: ContextManager, options: OpenOptions, done: str) -> None:
    if options.json:
        output.print_json(render.standing_json(ctx))
    else:
        line = one_line(f"{done}: {render.standing_line(ctx)}", 1_000)
        output.print_data(line + "\n")

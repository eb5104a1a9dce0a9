"""`compactctl snapshot`, `restore`, `undo`, `redo` and `branch`: go back, and continue from there.

None of them loses anything: later messages stay on their own branch, and `undo` reverses the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from compact.apps import cli
from compact.apps.cli.options import (
    OpenOptions,
    argument,
    command,
    count,
    number_option,
    text_option,
)
from compact.apps.cli.told import Data, Telling
from compact.apps.cli.words import one_line, whole

if TYPE_CHECKING:
    from compact.managers.context_manager import ContextManager


@command
def snapshot(
    options: OpenOptions,
    *,
    note: Annotated[str, text_option("TEXT", "A note on its purpose.")] = "",
    delete: Annotated[
        str | None,
        text_option("SNAPSHOT", "Save none, and delete this one: its id, or a unique prefix."),
    ] = None,
) -> Telling:
    """Save the state of a session, to restore it later; or delete a snapshot.

    Prints the snapshot's id; `sessions show` lists all snapshots. Of more than the setting
    snapshots_kept the oldest without a note go.

    Examples:
      compactctl snapshot harbour --note "before the migration"
      compactctl snapshot harbour --delete sn-3f2a81b09c44
    """
    if delete is not None and note:
        raise cli.errors.Stop("--note is for a new snapshot, and --delete saves none")
    with cli.stores.entered(options) as ctx:
        if delete is not None:
            known = [each.id for each in ctx.snapshots()]
            where = f"session {ctx.id!r}"
            found = cli.stores.one_of(delete, known, what="snapshot", where=where)
            ctx.delete_snapshot(found)
            yield {"deleted": found, "snapshots": len(known) - 1}
            yield Data(f"deleted {whole(found)}")
            return
        made = ctx.snapshot(note)
        yield {"snapshot": made.id, **cli.views.standing_json(ctx)}
    yield Data(whole(made.id))


@command
def restore(
    options: OpenOptions,
    *,
    snapshot: Annotated[str, argument("SNAPSHOT", "The snapshot's id, or a unique prefix of it.")],
) -> Telling:
    """Continue from a snapshot: its messages, checkpoints, goals and policy.

    Later messages stay on their own branch. The current state is saved as a snapshot too.

    Examples:
      compactctl restore harbour sn-3f2a81b09c44
    """
    with cli.stores.opened(options) as catalog:
        session = catalog.find(options.session)
        known = {each.id: each for each in catalog.store.snapshots(session.id)}
        where = f"session {session.id!r}"
        name = cli.stores.one_of(snapshot, list(known), what="snapshot", where=where)
        window = options.window or known[name].window
        ctx = cli.stores.context_of(catalog, session, window=window)
        ctx.restore(known[name])
        yield from _where(ctx, f"restored {name}")


@command
def undo(options: OpenOptions) -> Telling:
    """Undo the last compression, restore or branch of a session.

    Messages are kept.

    Examples:
      compactctl undo harbour
    """
    return _moved(options, lambda ctx: ctx.undo(), "undone")


@command
def redo(options: OpenOptions) -> Telling:
    """Reverse the last undo.

    Examples:
      compactctl redo harbour
    """
    return _moved(options, lambda ctx: ctx.redo(), "done again")


@command
def branch(
    options: OpenOptions,
    *,
    at: Annotated[int, number_option("How many messages the new branch begins with.", count)],
) -> Telling:
    """Start a new branch from a session's first N messages.

    Later messages stay on their branch; `undo` goes back to it.

    Examples:
      compactctl branch harbour --at 120
    """
    return _moved(options, lambda ctx: ctx.branch(at=at), "branched off")


def _moved(options: OpenOptions, go: Callable[[ContextManager], object], done: str) -> Telling:
    with cli.stores.entered(options) as ctx:
        go(ctx)
        yield from _where(ctx, done)


def _where(ctx: ContextManager, done: str) -> Telling:
    yield cli.views.standing_json(ctx)
    yield Data(one_line(f"{done}: {cli.views.standing_line(ctx)}", 1_000))

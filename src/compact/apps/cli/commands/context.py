"""`compactctl context`: a session as a model sees it."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from compact.apps import cli
from compact.apps.cli.options import OpenOptions, command, count, flag, number_option
from compact.apps.cli.told import Data, Telling

SEEN = 200
"""Messages that `context` shows unless more are asked for: few contexts have more."""


@command
def context(
    options: OpenOptions,
    *,
    at: Annotated[
        int | None, number_option("The session at N messages. Default: now.", count)
    ] = None,
    form: Annotated[
        Literal["table", "full", "text"],
        typer.Option(
            "--render",
            help="table: a line per message; full: word for word; text: exactly what a model sees.",
        ),
    ] = "table",
    most: Annotated[
        int, number_option("How many of the newest messages a table shows.", count)
    ] = SEEN,
    recall: Annotated[
        bool,
        flag("--recall", "With the old turns that automatic recall quotes for the newest message."),
    ] = False,
) -> Telling:
    """Show a session as a model sees it now, or saw it at N messages.

    This compresses nothing. If the trigger was passed, the next prompt will be smaller.

    Examples:
      compactctl context harbour
      compactctl context harbour --at 120 --render text | less
      compactctl context harbour --recall --render full
    """
    with cli.stores.opened(options) as catalog:
        session = catalog.find(options.session)
        ctx = cli.stores.context_of(catalog, session, recall=recall)
        at = len(ctx.history) if at is None else at
        seen = ctx.context_at(at)
        yield cli.views.context_json(ctx, session.wire, seen, at)
        if form == "text":
            yield Data(seen.render_text())
        else:
            yield from cli.views.context_parts(ctx, seen, at, most=most, full=form == "full")

"""`compactctl context`: a session as a model sees it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import typer
from rich.console import Console

from compact.apps.cli import output, render, stores
from compact.apps.cli.options import OpenOptions, command, count, number_option
from compact.apps.cli.render import Row
from compact.apps.cli.words import counted
from compact.core.context import ActiveContext
from compact.core.formats.known import format_named
from compact.core.messages import Message
from compact.managers.context import ContextManager
from compact.managers.history import SessionHistory

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
) -> None:
    """Show a session as a model sees it now, or saw it at N messages.

    This compresses nothing. If the trigger was passed, the next prompt will be smaller.

    Examples:
      compactctl context harbour
      compactctl context harbour --at 120 --render text | less
    """
    with stores.opened(options) as catalog:
        session = catalog.find(options.session)
        ctx = stores.context_of(catalog, session)
        at = len(ctx.history) if at is None else at
        seen = ctx.context_at(at)
        rows: list[Row] = []
        if not options.json and form != "text":
            rows = list(_placed(ctx.history, seen.messages[-most:]))
    if options.json:
        place = {"session": session.id, "branch": ctx.branch_id, "at": at}
        if seen.system:
            place["system"] = seen.system_text
        sizes = {"window": ctx.window.size, "usable": ctx.window.usable, "tokens": seen.tokens}
        ids = [checkpoint.id for checkpoint in seen.checkpoints]
        sent = format_named(session.wire).render(seen.messages)
        output.print_json({**place, **sizes, "checkpoints": ids, "messages": sent})
        return
    if form == "text":
        output.print_data(seen.render_text() + "\n")
        return
    out = render.console()
    _show_window(out, ctx, seen, at)
    if left := len(seen.messages) - len(rows):
        verb = "is" if left == 1 else "are"
        older = counted(left, "older message")
        out.print(f"{older} {verb} not shown: --most {len(seen.messages)} shows all\n")
    if system := seen.system_text:
        message = Message(role="system", content=system)
        rows.insert(0, (None, message, ctx.estimate_tokens(system)))
    render.show_messages(out, rows, full=form == "full")


def _show_window(out: Console, ctx: ContextManager, seen: ActiveContext, at: int) -> None:
    total, window = len(ctx.history), ctx.window
    of_all = counted(total, "message")
    when = f"now, with {of_all}" if at == total else f"at {at:,} of {of_all}"
    render.show_line(out, f"{ctx.id} · {when}", style="bold", most=200)
    out.print(
        f"{seen.tokens:,} of the {window.usable:,} tokens a prompt may use of {window.size:,}"
    )
    parts = render.tokens_by_part(seen.messages, ctx.history.counter)
    del parts["pinned"]
    if system := seen.system_text:
        parts["system"] += ctx.estimate_tokens(system)
    parts["tools and framing"] = max(0, seen.tokens - sum(parts.values()))
    parts["free"] = max(0, window.usable - seen.tokens)
    render.show_bar(out, parts, max(window.usable, seen.tokens))
    if at == total and seen.tokens > window.trigger:
        trigger = f"the trigger of {window.trigger:,} tokens was passed"
        out.print(f"{trigger}: the next prompt is compressed first", style="yellow")
    out.print()


def _placed(history: SessionHistory, messages: Sequence[Message]) -> Iterator[Row]:
    """Messages of a context with their numbers and tokens. They stand in the order of the history,
    so that the next one is mostly the one after.
    """
    after = 0
    for message in messages:
        position: int | None = after
        if after >= len(history) or history[after].id != message.id:
            position = history.position_of(message.id)
        if position is None:
            yield None, message, history.counter.message(message)
            continue
        after = position + 1
        whole = not message.edited
        tokens = history.tokens(position) if whole else history.counter.message(message)
        yield position, message, tokens

"""`compactctl expand`: shows the original messages behind a checkpoint, message or tool call."""

from __future__ import annotations

from typing import Annotated

from compact.cli.options import argument, command, number_option, position
from compact.cli.render import Report
from compact.cli.stores import OpenOptions, message_meant, one_of, to_read
from compact.cli.views import messages_json, messages_parts
from compact.cli.words import counted


@command
def expand(
    options: OpenOptions,
    *,
    id: Annotated[
        str,
        argument("ID", "A checkpoint (ck-…, or a prefix), a message (id or number), or a call."),
    ],
    max_tokens: Annotated[int | None, number_option("The most tokens to show.")] = None,
    start: Annotated[
        int, number_option("Continue from here, as the previous page says.", position)
    ] = 0,
) -> Report:
    """Show the original messages behind a checkpoint, a message or a tool call.

    SESSION may also be a file with a conversation, such as a transcript of Claude Code.

    Examples:
      compactctl expand harbour ck-0aac85b0ed4c
      compactctl expand harbour 120 --json
      compactctl expand harbour 120 --max-tokens 2000 --start 7311
    """
    with to_read(options) as ctx:
        if id.startswith("ck-"):
            ids = [checkpoint.id for checkpoint in ctx.store.checkpoints(ctx.id)]
            target = one_of(id, ids, what="checkpoint", where=f"session {ctx.id!r}")
        else:
            target = message_meant(ctx, id)
        page = ctx.expand(target, max_tokens=max_tokens, start=start)
        history = ctx.history
        rows = [
            (history.position_of(message.id), message, history.counter.message(message))
            for message in page.messages
        ]
    sizes = {"tokens": page.tokens, "whole": page.is_whole}
    sizes |= page.model_dump(include={"unit", "total", "start", "next"})
    yield {"session": ctx.id, "id": id, **sizes, "messages": messages_json(rows)}
    yield from messages_parts(rows, full=True)
    if not page.is_whole:
        total = counted(page.total, page.unit.removesuffix("s"))
        end = page.total if page.next is None else page.next
        first = min(start + 1, end)
        more = f"; continue with --start {page.next}" if page.next is not None else ""
        yield f"{page.unit} {first:,} to {end:,} of {total}{more}"

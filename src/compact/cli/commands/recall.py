"""`compactctl recall` and `expand`: find messages of one session by words, and read originals."""

from __future__ import annotations

from typing import Annotated

from compact.cli.options import FOUND, Most, argument, command, number_option, position
from compact.cli.render import Report, Styled
from compact.cli.stores import OpenOptions, meant, to_read
from compact.cli.views import messages_json, messages_parts
from compact.cli.words import counted, whole


@command
def recall(
    options: OpenOptions,
    *,
    query: Annotated[list[str], argument("QUERY...", "The words to look for.")],
    most: Most = FOUND,
) -> Report:
    """Search a session's whole history by words, the best match first.

    SESSION may also be a file with a conversation, such as a transcript of Claude Code.

    Examples:
      compactctl recall harbour winter berths
      compactctl recall harbour "E_TIMEOUT" --most 3 --json
    """
    with to_read(options) as ctx:
        words = " ".join(query)
        matches = ctx.recall(words, limit=most)
    rows = [
        {"number": match.position, **match.model_dump(mode="json", exclude={"position"})}
        for match in matches
    ]
    yield {"session": ctx.id, "query": words, "messages": rows}
    if not matches:
        yield f"nothing in session {ctx.id!r} shares words with {words!r}"
    for match in matches:
        head = f"{match.position:,} · {whole(match.id)} · {match.role}"
        yield Styled(head, "bold")
        yield Styled(f"{match.text}\n")


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
        page = ctx.expand(meant(ctx, id), max_tokens=max_tokens, start=start)
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

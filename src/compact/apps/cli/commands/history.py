"""`compactctl history`, `recall` and `expand`: what was said, found by place, by words, by id."""

from __future__ import annotations

from typing import Annotated

import typer

from compact.apps import cli
from compact.apps.cli.options import (
    PAGE,
    BranchOptions,
    Most,
    OpenOptions,
    argument,
    command,
    flag,
    number_option,
    position,
)
from compact.apps.cli.told import Styled, Telling
from compact.apps.cli.words import counted, whole

FOUND = 10
"""Messages that `recall` gives unless more are asked for."""


@command
def history(
    options: BranchOptions,
    *,
    first: Annotated[
        int | None,
        typer.Option(
            "--from",
            parser=position,
            metavar="N",
            help="The first message to show. Default: the newest ones.",
        ),
    ] = None,
    most: Most = PAGE,
    full: Annotated[bool, flag("--full", "Every message word for word.")] = False,
) -> Telling:
    """Read a session's history, the newest message last.

    It is complete, whatever was compressed. Page through it with --from and --most.

    Examples:
      compactctl history harbour
      compactctl history harbour --from 0 --most 20 --full
    """
    with cli.stores.opened(options) as catalog:
        session = catalog.find(options.session)
        branch = catalog.branch(session, options.branch)
        start = max(0, branch.messages - most)
        if first is not None:
            start = min(first, branch.messages)
        entries = catalog.store.read(branch.id, start, start + most)
    rows = [(n, entry.message, entry.tokens) for n, entry in enumerate(entries, start)]
    place = {"session": session.id, "branch": branch.id, "total": branch.messages}
    yield {**place, "messages": cli.views.messages_json(rows)}
    page = f"{start:,} to {start + len(rows) - 1:,}" if rows else "none"
    name = whole(session.title or session.id)
    line = f"{name} · branch {branch.id} · messages {page} of {branch.messages:,}"
    yield Styled(whole(line), "bold")
    yield from cli.views.messages_parts(rows, full=full)


@command
def recall(
    options: OpenOptions,
    *,
    query: Annotated[list[str], argument("QUERY...", "The words to look for.")],
    most: Most = FOUND,
) -> Telling:
    """Search a session's whole history by words, the best match first.

    Examples:
      compactctl recall harbour winter berths
      compactctl recall harbour "E_TIMEOUT" --most 3 --json
    """
    with cli.stores.entered(options) as ctx:
        wanted = " ".join(query)
        found = ctx.recall(wanted, limit=most)
    listed = [
        {"number": each.position, **each.model_dump(mode="json", exclude={"position"})}
        for each in found
    ]
    yield {"session": ctx.id, "query": wanted, "messages": listed}
    if not found:
        yield f"nothing in session {ctx.id!r} shares words with {wanted!r}"
    for each in found:
        head = f"{each.position:,} · {whole(each.id)} · {each.role}"
        yield from cli.views.headed(head, each.text)


@command
def expand(
    options: OpenOptions,
    *,
    id: Annotated[
        str,
        argument(
            "ID",
            "A checkpoint (ck-…, or a unique prefix), a message's id or number (negative from the "
            "end), or a tool call.",
        ),
    ],
    max_tokens: Annotated[int | None, number_option("The most tokens to show.")] = None,
    start: Annotated[
        int, number_option("Continue from here, as the previous page says.", position)
    ] = 0,
) -> Telling:
    """Show the original messages behind a checkpoint, a message or a tool call.

    Examples:
      compactctl expand harbour ck-0aac85b0ed4c
      compactctl expand harbour 120 --json
      compactctl expand harbour 120 --max-tokens 2000 --start 7311
    """
    with cli.stores.entered(options) as ctx:
        found = ctx.expand(cli.stores.meant(ctx, id), max_tokens=max_tokens, start=start)
        history = ctx.history
        rows = [
            (history.position_of(message.id), message, history.counter.message(message))
            for message in found.messages
        ]
    sizes = {"tokens": found.tokens, "whole": found.is_whole}
    sizes |= found.model_dump(include={"unit", "total", "start", "next"})
    yield {"session": ctx.id, "id": id, **sizes, "messages": cli.views.messages_json(rows)}
    yield from cli.views.messages_parts(rows, full=True)
    if not found.is_whole:
        total = counted(found.total, found.unit.removesuffix("s"))
        end = found.total if found.next is None else found.next
        first = min(start + 1, end)
        more = f"; continue with --start {found.next}" if found.next is not None else ""
        yield f"{found.unit} {first:,} to {end:,} of {total}{more}"

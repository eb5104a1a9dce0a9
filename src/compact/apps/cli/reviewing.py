"""`compactctl history`, `context`, `recall` and `expand`: what was said, what a model sees of it,
and how the rest is brought back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from compact.apps.cli.options import count, position, taking, whole_number
from compact.apps.cli.session_options import PAGE, BranchOptions, OpenOptions

if TYPE_CHECKING:
    from rich.console import Console

    from compact.apps.cli.shown import Row
    from compact.core.context import ActiveContext
    from compact.core.messages import Message
    from compact.managers.context import ContextManager
    from compact.managers.history import SessionHistory

FOUND = 10
"""Messages that `recall` gives unless more are asked for."""
SEEN = 200
"""Messages that `context` shows unless more are asked for: few contexts have more."""


@dataclass(frozen=True, kw_only=True)
class HistoryOptions(BranchOptions):
    """What `history` takes."""

    first: Annotated[
        int | None,
        typer.Option(
            "--from",
            parser=position,
            metavar="N",
            help="The first message to show. Default: the newest ones.",
        ),
    ] = None
    most: Annotated[int, typer.Option(parser=count, metavar="N", help="How many are shown.")] = PAGE
    full: Annotated[bool, typer.Option("--full", help="Every message word for word.")] = False


@taking(HistoryOptions)
def history(options: HistoryOptions) -> None:
    """Read a session's history, the newest message last.

    It is complete, whatever was compressed. A page at a time: --from and --most.

    Examples:
      compactctl history harbour
      compactctl history harbour --from 0 --most 20 --full
    """
    from compact.apps.cli import drawing, output, shown, stores

    with stores.opened(options) as shelf:
        session = shelf.find(options.session)
        branch = shelf.branch(session, options.branch)
        start = max(0, branch.messages - options.most)
        if options.first is not None:
            start = min(options.first, branch.messages)
        entries = shelf.store.read(branch.id, start, start + options.most)
    rows: list[shown.Row] = [
        (number, entry.message, entry.tokens) for number, entry in enumerate(entries, start)
    ]
    if options.json:
        listed = [shown.message_json(m, number=n, tokens=t) for n, m, t in rows]
        place = {"session": session.id, "branch": branch.id, "total": branch.messages}
        output.print_json({**place, "messages": listed})
        return
    out = drawing.console()
    shown_ones = f"{start:,} to {start + len(rows) - 1:,}" if rows else "none"
    name = drawing.whole(session.title or session.id)
    line = f"{name} · branch {branch.id} · messages {shown_ones} of {branch.messages:,}"
    out.print(drawing.Text(drawing.one_line(line, 400), style="bold"), soft_wrap=True)
    (shown.show_whole if options.full else shown.show_rows)(out, rows)


@dataclass(frozen=True, kw_only=True)
class ContextOptions(OpenOptions):
    """What `context` takes."""

    at: Annotated[
        int | None,
        typer.Option(
            parser=count,
            metavar="N",
            help="When the session had N messages. Default: now.",
        ),
    ] = None
    render: Annotated[
        Literal["table", "full", "text"],
        typer.Option(
            help="table: a line a message; full: word for word; text: exactly what a model sees."
        ),
    ] = "table"
    most: Annotated[
        int,
        typer.Option(parser=count, metavar="N", help="How many a table shows, the newest ones."),
    ] = SEEN


@taking(ContextOptions)
def context(options: ContextOptions) -> None:
    """Show what a model sees of a session now, or saw when it had N messages.

    Nothing is compressed by looking: where the trigger was passed, the next prompt will be smaller.

    Examples:
      compactctl context harbour
      compactctl context harbour --at 120 --render text | less
    """
    from compact.apps.cli import drawing, output, shown, stores
    from compact.core.formats.known import format_named
    from compact.core.messages import Message

    with stores.opened(options) as shelf:
        session = shelf.find(options.session)
        ctx = stores.context_of(shelf, session)
        at = len(ctx.history) if options.at is None else options.at
        seen = ctx.context_at(at)
        rows: list[Row] = []
        if not options.json and options.render != "text":
            rows = list(_placed(ctx.history, seen.messages[-options.most :]))
    if options.json:
        sent = format_named(session.wire).render(seen.messages)
        ids = [checkpoint.id for checkpoint in seen.checkpoints]
        place = {"session": session.id, "branch": ctx.branch_id, "at": at}
        if seen.system:
            place["system"] = seen.system_text
        sizes = {"window": ctx.window.size, "usable": ctx.window.usable, "tokens": seen.tokens}
        output.print_json({**place, **sizes, "checkpoints": ids, "messages": sent})
        return
    if options.render == "text":
        output.print_data(seen.render_text() + "\n")
        return
    out = drawing.console()
    _show_head(out, ctx, seen, at)
    if total := len(seen.messages) - len(rows):
        older = drawing.counted(total, "older message")
        verb = "is" if total == 1 else "are"
        out.print(f"{older} {verb} not shown: --most {len(seen.messages)} shows all\n")
    if system := seen.system_text:
        message = Message(role="system", content=system)
        rows.insert(0, (None, message, ctx.estimate_tokens(system)))
    (shown.show_whole if options.render == "full" else shown.show_rows)(out, rows)


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


def _taken(ctx: ContextManager, seen: ActiveContext) -> dict[str, int]:
    """Where the tokens of a context are, by part."""
    from compact.core.voices import voice_of

    counter = ctx.history.counter
    parts = {"system": 0, "tools and framing": 0, "record": 0, "checkpoint": 0, "recent": 0}
    for message in seen.messages:
        voice = voice_of(message)
        name: str = voice if voice in ("system", "checkpoint") else "recent"
        if name == "checkpoint" and message.text.startswith("[Record "):
            name = "record"
        parts[name] += counter.message(message)
    if system := seen.system_text:
        parts["system"] += ctx.estimate_tokens(system)
    parts["tools and framing"] = max(0, seen.tokens - sum(parts.values()))
    return parts


def _show_head(out: Console, ctx: ContextManager, seen: ActiveContext, at: int) -> None:
    from compact.apps.cli import drawing

    total = len(ctx.history)
    of_all = drawing.counted(total, "message")
    when = f"now, with {of_all}" if at == total else f"at {at:,} of {of_all}"
    out.print(drawing.Text(drawing.one_line(f"{ctx.id} · {when}", 200), style="bold"))
    usable = ctx.window.usable
    taken = {**_taken(ctx, seen), "free": max(0, usable - seen.tokens)}
    styles = {**drawing.STYLES, "record": "bright_green"}
    parts = [drawing.Part(name, tokens, styles[name]) for name, tokens in taken.items()]
    width, ascii_only = min(out.width, 100), out.options.ascii_only
    out.print(f"{seen.tokens:,} of the {usable:,} tokens a prompt may use of {ctx.window.size:,}")
    out.print(drawing.bar(parts, max(usable, seen.tokens), width, ascii_only=ascii_only))
    out.print(drawing.legend(parts, width, ascii_only=ascii_only))
    if at == total and seen.tokens > ctx.window.trigger:
        trigger = f"the trigger of {ctx.window.trigger:,} tokens was passed"
        out.print(f"{trigger}: the next prompt is compressed first", style="yellow")
    out.print()


@dataclass(frozen=True, kw_only=True)
class RecallOptions(OpenOptions):
    """What `recall` takes."""

    query: Annotated[list[str], typer.Argument(metavar="QUERY...", help="What to look for.")]
    most: Annotated[int, typer.Option(parser=count, metavar="N", help="How many are shown.")] = (
        FOUND
    )


@taking(RecallOptions)
def recall(options: RecallOptions) -> None:
    """Search a session's whole history by words, the best match first.

    Examples:
      compactctl recall harbour winter berths
      compactctl recall harbour "E_TIMEOUT" --most 3 --json
    """
    from compact.apps.cli import drawing, output, stores

    with stores.entered(options) as ctx:
        query = " ".join(options.query)
        found = ctx.recall(query, limit=options.most)
    if options.json:
        listed = [
            {"number": each.position, **each.model_dump(mode="json", exclude={"position"})}
            for each in found
        ]
        output.print_json({"session": ctx.id, "query": query, "messages": listed})
        return
    out = drawing.console()
    if not found:
        line = f"nothing in session {ctx.id!r} shares words with {query!r}"
        out.print(drawing.Text(drawing.one_line(line, 400)), soft_wrap=True)
    for each in found:
        head = f"{each.position:,} · {drawing.whole(each.id)} · {each.role}"
        out.print(drawing.Text(head, style="bold"), soft_wrap=True)
        out.print(drawing.Text(drawing.visible(each.text)), soft_wrap=True)
        out.print()


@dataclass(frozen=True, kw_only=True)
class ExpandOptions(OpenOptions):
    """What `expand` takes."""

    id: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="A checkpoint (ck-…, or how it begins), a message's id or number (negative from "
            "the end), a tool call.",
        ),
    ]
    max_tokens: Annotated[
        int | None,
        typer.Option(parser=whole_number, metavar="N", help="At most so many tokens."),
    ] = None
    start: Annotated[
        int,
        typer.Option(parser=position, metavar="N", help="Go on there, as a page says."),
    ] = 0


@taking(ExpandOptions)
def expand(options: ExpandOptions) -> None:
    """Show the original messages behind a checkpoint, a message or a tool call.

    Examples:
      compactctl expand harbour ck-0aac85b0ed4c
      compactctl expand harbour 120 --json
      compactctl expand harbour 120 --max-tokens 2000 --start 7311
    """
    from compact.apps.cli import drawing, output, shown, stores

    with stores.entered(options) as ctx:
        id, most, start = stores.meant(ctx, options.id), options.max_tokens, options.start
        found = ctx.expand(id, max_tokens=most, start=start)
        counter = ctx.history.counter
        rows: list[shown.Row] = []
        for message in found.messages:
            number = ctx.history.position_of(message.id)
            rows.append((number, message, counter.message(message)))
    if options.json:
        listed = [shown.message_json(m, number=n, tokens=t) for n, m, t in rows]
        sizes = {"tokens": found.tokens, "whole": found.is_whole}
        sizes |= found.model_dump(include={"unit", "total", "start", "next"})
        output.print_json({"session": ctx.id, "id": options.id, **sizes, "messages": listed})
        return
    out = drawing.console()
    shown.show_whole(out, rows)
    if not found.is_whole:
        total = drawing.counted(found.total, found.unit.removesuffix("s"))
        end = found.total if found.next is None else found.next
        first = min(start + 1, end)
        more = f"; go on with --start {found.next}" if found.next is not None else ""
        out.print(f"{found.unit} {first:,} to {end:,} of {total}{more}", soft_wrap=True)

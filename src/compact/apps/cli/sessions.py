"""`compactctl sessions`: which there are, what one consists of, compressing, deleting one.

Bringing them in from files lives in `exchange`, out to files in `exporting`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compact.apps.cli import exchange, exporting
from compact.apps.cli.ending import Stop
from compact.apps.cli.options import count, share, taking, whole_number
from compact.apps.cli.session_options import PAGE, OpenOptions, SessionOptions, StoreOptions
from compact.apps.cli.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compact.apps.cli.stores import Shelf
    from compact.core.checkpoints import Checkpoint
    from compact.core.sessions import Session

HELP = """Conversations that are kept: list, show, import, export, compress, put-aside, delete.

They live in one file: --store FILE, the setting `store` (COMPACT_STORE), else .compact/sessions.db
in this folder, which only import makes. A session is named by its id, or by how it begins.

\b
Examples:
  compactctl sessions import session.jsonl
  compactctl sessions list
  compactctl sessions export session -o session.md
"""

PURPOSES = {"recovery": "yours", "rollback": "before going back"}
"""What snapshots are for, where the store's word is not what a person calls it."""
WIDE = 1_000
"""Columns of a list that is no terminal's."""

group = typer.Typer(help=HELP, rich_markup_mode=None, pretty_exceptions_enable=False)


@group.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@dataclass(frozen=True, kw_only=True)
class ListOptions(StoreOptions):
    """What `sessions list` takes."""

    most: Annotated[int, typer.Option(parser=count, metavar="N", help="How many are shown.")] = PAGE


@taking(ListOptions)
def list_sessions(options: ListOptions) -> None:
    """List the sessions, the one that changed last at the end.

    Examples:
      compactctl sessions list
      compactctl sessions list --store chat.db --scope alice --json
    """
    from compact.apps.cli import drawing, output, shown, stores

    with stores.opened(options) as shelf:
        known = shelf.sessions()
    page = known[: options.most][::-1]
    if options.json:
        listed = [shown.session_json(session) for session in page]
        output.print_json({"store": shelf.file, "total": len(known), "sessions": listed})
        return
    out = drawing.console()
    if not known:
        line = f"{shelf.file}: no sessions" + _in_scope(options.scope)
        out.print(drawing.Text(drawing.one_line(line, 400)), soft_wrap=True)
        return
    if len(known) > len(page):
        older = counted(len(known) - len(page), "older one")
        out.print(f"{older}: --most {len(known)} shows all")
    if not out.is_terminal:  # whoever reads ids from a pipe wants them whole, and on one line
        out.width = WIDE
    rows = drawing.table(
        "session", "title", "messages", "tokens", "changed", "scope", right=("messages", "tokens")
    )
    for session in page:
        rows.add_row(
            drawing.Text(drawing.whole(session.id)),
            drawing.Text(drawing.one_line(session.title or "", 60)),
            f"{session.branch.messages:,}",
            f"{session.branch.tokens:,}",
            shown.time_of(session.updated_at),
            drawing.Text(drawing.one_line(session.scope, 30)),
        )
    out.print(rows)


def _in_scope(scope: str | None) -> str:
    return "" if scope is None else f" in scope {scope!r}"


@taking(OpenOptions)
def show(options: OpenOptions) -> None:
    """Show what a session consists of.

    Messages, branches, snapshots, goals, and what a model would see of it now.

    Examples:
      compactctl sessions show harbour
      compactctl sessions show harbour --window 32000 --json
    """
    from compact.apps.cli import drawing, output, shown, stores

    with stores.opened(options) as shelf:
        session = shelf.find(options.session)
        ctx = stores.context_of(shelf, session)
        told: dict[str, Any] = {
            **shown.session_json(session),
            "now": shown.standing_json(ctx),
            "usable": ctx.window.usable,
            "trigger": ctx.window.trigger,
            "goals": [goal.model_dump(mode="json") for goal in ctx.goals],
            "branches": [branch.model_dump(mode="json") for branch in ctx.branches()],
            "snapshots": [
                snapshot.model_dump(mode="json", exclude={"policy", "goals"})
                for snapshot in ctx.snapshots()
            ],
        }
        if options.json:
            output.print_json(told)
            return
        line = shown.standing_line(ctx)
    out = drawing.console()
    out.print(drawing.Text(drawing.one_line(session.title or session.id, 200), style="bold"))
    out.print(drawing.Text(line))
    _show_facts(told, session)
    _show_places(told)


def _show_facts(told: dict[str, Any], session: Session) -> None:
    from compact.apps.cli import drawing, shown

    out = drawing.console()
    rows = drawing.table("", "")
    rows.show_header = False
    for name in ("id", "scope", "model", "format", "tokenizer"):
        if told[name]:
            rows.add_row(name, drawing.Text(drawing.one_line(str(told[name]), WIDE)))
    rows.add_row("created", shown.time_of(session.created_at))
    rows.add_row("changed", shown.time_of(session.updated_at))
    rows.add_row("whole history", counted(told["tokens"], "token"))
    rows.add_row("a prompt may use", counted(told["usable"], "token"))
    rows.add_row("compressed from", f"{counted(told['trigger'], 'token')} on")
    for goal in told["goals"]:
        text = drawing.one_line(f"{goal['text']} ({goal['status']})", 200)
        rows.add_row("goal", drawing.Text(text))
    out.print(rows)


def _show_places(told: dict[str, Any]) -> None:
    """Branches and snapshots, where there are any to choose from."""
    from compact.apps.cli import drawing

    out = drawing.console()
    if len(told["branches"]) > 1:
        rows = drawing.table("branch", "messages", "goes on from", right=("messages",))
        for branch in told["branches"]:
            start = f"{branch['parent']} at {branch['fork']:,}" if branch["parent"] else ""
            mark = " (open)" if branch["id"] == told["branch"] else ""
            name = drawing.Text(drawing.whole(branch["id"]) + mark)
            rows.add_row(name, f"{branch['messages']:,}", drawing.Text(drawing.one_line(start)))
        out.print()
        out.print(rows)
    if told["snapshots"]:
        rows = drawing.table("snapshot", "at", "what for", "note", right=("at",))
        for snapshot in told["snapshots"]:
            note = drawing.Text(drawing.one_line(snapshot["note"], 60))
            name = drawing.Text(drawing.whole(snapshot["id"]))
            purpose = PURPOSES.get(snapshot["purpose"], snapshot["purpose"])
            rows.add_row(name, f"{snapshot['at']:,}", purpose, note)
        out.print()
        out.print(rows)


@dataclass(frozen=True, kw_only=True)
class CompressOptions(OpenOptions):
    """What `sessions compress` takes."""

    target_ratio: Annotated[
        float | None,
        typer.Option(
            parser=share,
            metavar="SHARE",
            help="The share to keep of what may be shortened, such as 0.4 or 40%. Default: down "
            "to the target of the settings.",
        ),
    ] = None
    summarizer: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Who writes: a model such as ollama:qwen3:8b, or extractive. Default: the "
            "settings'.",
        ),
    ] = None
    keep: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="What a model that summarizes shall keep beside the usual, in your words.",
        ),
    ] = ""


@taking(CompressOptions)
def compress(options: CompressOptions) -> None:
    """Compress a session now, and say what was done.

    The history stays as it is; `undo` takes it back.

    Examples:
      compactctl sessions compress harbour
      compactctl sessions compress harbour --window 32000 --target-ratio 0.3
      compactctl sessions compress harbour --summarizer ollama:qwen3:8b --keep "the API discussion"
    """
    from compact.apps.cli import drawing, output, report, shown, stores
    from compact.apps.cli.progress import Progress

    with (
        Progress("Compressing context") as progress,
        stores.entered(options, on_event=progress.on_event) as ctx,
    ):
        before = {each.id for each in ctx.checkpoints}
        plan = ctx.compress_conversation(options.target_ratio, guidance=options.keep)
        made = [each for each in ctx.checkpoints if each.id not in before]
        standing, line = shown.standing_json(ctx), shown.standing_line(ctx)
    if options.json:
        rungs = [rung.model_dump(mode="json") for rung in plan.rungs]
        sizes = {"tokens_before": plan.tokens_before, "tokens_after": plan.tokens_after}
        done = {"unchanged": plan.unchanged, "why": plan.why, "rungs": rungs}
        done["made"] = [shown.checkpoint_json(each, live=True) for each in made]
        output.print_json({**standing, **sizes, **done})
        return
    out = drawing.console()
    report.show_rungs(out, plan)
    _show_made(made)
    out.print(drawing.Text(line))


def _show_made(made: Sequence[Checkpoint]) -> None:
    """The checkpoints that a compression made, with sums where they are several."""
    from compact.apps.cli import drawing

    out = drawing.console()
    for each in made:
        span = each.span
        told = f"{each.id}: {counted(span.messages, 'message')} of {span.first:,} to {span.last:,}"
        out.print(f"{told}, {span.tokens or 0:,} > {counted(each.token_count, 'token')}")
    if len(made) > 1:
        total = counted(sum(each.span.messages for each in made), "message")
        before = sum(each.span.tokens or 0 for each in made)
        after = counted(sum(each.token_count for each in made), "token")
        out.print(f"together {counted(len(made), 'checkpoint')}: {total}, {before:,} > {after}")


@dataclass(frozen=True, kw_only=True)
class AsideOptions(OpenOptions):
    """What `sessions put-aside` takes."""

    message: Annotated[
        str | None,
        typer.Argument(
            metavar="MESSAGE",
            help="A message's number from 0 (negative from the end), its id, or its first eight "
            "characters. Default: your newest message.",
            show_default=False,
        ),
    ] = None
    tokens: Annotated[
        int | None,
        typer.Option(
            parser=whole_number,
            metavar="N",
            help="Tokens that are shown of it. Default: as many as let the next prompt fit.",
        ),
    ] = None


@taking(AsideOptions)
def put_aside(options: AsideOptions) -> None:
    """Show a model only head and tail of a message that fits in no window.

    Its whole text stays in the history, where recall and expand read it by the id that is shown.

    Examples:
      compactctl sessions put-aside harbour
      compactctl sessions put-aside harbour 120 --tokens 500
    """
    from compact.apps.cli import drawing, output, shown, stores

    with stores.entered(options) as ctx:
        meant = options.message and stores.message_meant(ctx, options.message)
        message = ctx.put_aside(meant, tokens=options.tokens)
        said = stores.said(ctx, message)
        told = {"message": message.id, "shown": message.text, **shown.standing_json(ctx)}
    if options.json:
        output.print_json({**told, "whole": message.text == said})
    elif message.text != said:
        output.print_data(f"{drawing.one_line(message.id)}\n")
    else:
        name = drawing.one_line(message.id)
        drawing.tell(f"message {name!r} is short enough as it is: it is shown whole")


@dataclass(frozen=True, kw_only=True)
class DeleteOptions(SessionOptions):
    """What `sessions delete` takes."""

    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask. SESSION must then be the whole id.")
    ] = False


@taking(DeleteOptions)
def delete(options: DeleteOptions) -> None:
    """Delete a session for good, after asking.

    Messages, branches, checkpoints, snapshots and the search index: nothing of it stays in the
    file. Without a terminal to ask on, it is refused unless --yes is given.

    Examples:
      compactctl sessions delete harbour
      compactctl sessions delete harbour --yes
    """
    from compact.apps.cli import output, stores

    with stores.opened(options) as shelf:
        session = shelf.find(options.session)
        if not _is_wanted(shelf, session, options):
            _tell("nothing was deleted")
            return
        total = _size_of(shelf, session)  # others may have written while the person thought
        shelf.store.delete_session(session.id)
    if options.json:
        output.print_json({"deleted": session.id, "messages": total})
    else:
        _tell(f"deleted session {session.id!r}, {counted(total, 'message')}")


def _size_of(shelf: Shelf, session: Session) -> int:
    """How many messages a session has, those of all its branches."""
    return sum(each.messages - each.fork for each in shelf.store.branches(session.id))


def _is_wanted(shelf: Shelf, session: Session, options: DeleteOptions) -> bool:
    """Whether the person says yes.

    Raises:
        Stop: nobody can be asked.
    """
    if options.yes:
        if options.session != session.id:
            raise Stop(f"--yes wants the whole id: {session.id!r}")
        return True
    if not all(s is not None and s.isatty() for s in (sys.stdin, sys.stderr)):
        raise Stop("deleting asks, and there is no terminal to ask on; --yes deletes without")
    parts = [counted(_size_of(shelf, session), "message")]
    kept = len(shelf.store.snapshots(session.id))
    parts += [counted(kept, "snapshot")] if kept else []
    title = f" ({session.title})" if session.title else ""
    question = f"Delete session {session.id!r}{title}, {', '.join(parts)}, for good? [y/N] "
    _tell(question, end="")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _tell(text: str, end: str = "\n") -> None:
    """Say something to a person: on stderr, free of what would steer a terminal."""
    from compact.apps.cli.drawing import visible

    if sys.stderr is not None:
        sys.stderr.write(visible(text) + end)
        sys.stderr.flush()


group.command("list")(list_sessions)
group.command("show")(show)
group.command("import")(exchange.import_session)
group.command("export")(exporting.export_session)
group.command("compress")(compress)
group.command("put-aside", context_settings={"ignore_unknown_options": True})(put_aside)
group.command("delete")(delete)

"""`compactctl sessions list`, `show`, `compress`, `put-aside` and `delete`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compact.apps import cli
from compact.apps.cli.options import (
    PAGE,
    Keep,
    Most,
    OneSessionOptions,
    OpenOptions,
    StoreOptions,
    command,
    flag,
    number_option,
    share,
    text_option,
)
from compact.apps.cli.told import Aside, Data, Part, Styled, Table, Telling
from compact.apps.cli.words import counted, one_line, visible, whole

if TYPE_CHECKING:
    from compact.apps.cli.progress import Progress
    from compact.apps.cli.stores import SessionCatalog
    from compact.core.checkpoints import Checkpoint
    from compact.core.forgotten import ForgottenReport
    from compact.core.plan import Plan
    from compact.core.sessions import Session
    from compact.managers.context_manager import ContextManager

PURPOSES = {"recovery": "yours", "rollback": "before going back"}
"""What snapshots are for, where the store's word is not what a person calls it."""


@command
def sessions_list(options: StoreOptions, *, most: Most = PAGE) -> Telling:
    """List the sessions, the most recently changed last.

    Examples:
      compactctl sessions list
      compactctl sessions list --store chat.db --scope alice --json
    """
    with cli.stores.opened(options) as catalog:
        known = catalog.sessions()
    page = known[:most][::-1]
    listed = [cli.views.session_json(session) for session in page]
    yield {"store": catalog.file, "total": len(known), "sessions": listed}
    if not known:
        where = "" if options.scope is None else f" in scope {options.scope!r}"
        yield Styled(f"{catalog.file}: no sessions{where}")
        return
    if len(known) > len(page):
        older = counted(len(known) - len(page), "older one")
        yield f"{older}: --most {len(known)} shows all"
    rows = [
        (
            whole(session.id),
            one_line(session.title or "", 60),
            session.branch.messages,
            session.branch.tokens,
            cli.views.time_of(session.updated_at),
            one_line(session.scope, 30),
        )
        for session in page
    ]
    names = ("session", "title", "messages", "tokens", "changed", "scope")
    yield Table(names, rows, right=("messages", "tokens"), whole=("session",), is_list=True)


@command
def sessions_show(options: OpenOptions) -> Telling:
    """Show an overview of a session.

    Counts its messages and the tokens of its current context; lists branches, snapshots and goals.

    Examples:
      compactctl sessions show harbour
      compactctl sessions show harbour --window 32000 --json
    """
    with cli.stores.opened(options) as catalog:
        session = catalog.find(options.session)
        ctx = cli.stores.context_of(catalog, session)
        told: dict[str, Any] = {
            **cli.views.session_json(session),
            "now": cli.views.standing_json(ctx),
            "usable": ctx.window.usable,
            "trigger": ctx.window.trigger,
            "goals": [goal.model_dump(mode="json") for goal in ctx.goals],
            "branches": [branch.model_dump(mode="json") for branch in ctx.branches()],
            "snapshots": [
                snapshot.model_dump(mode="json", exclude={"policy", "goals"})
                for snapshot in ctx.snapshots()
            ],
        }
        line = cli.views.standing_line(ctx)
    yield told
    yield Styled(one_line(session.title or session.id, 200), "bold")
    yield line
    yield _facts(told, session)
    if len(told["branches"]) > 1:
        yield ""
        yield _branches(told)
    if told["snapshots"]:
        yield ""
        yield _snapshots(told)


def _facts(told: dict[str, Any], session: Session) -> Table:
    names = ("id", "scope", "model", "format", "tokenizer")
    rows = [(name, whole(str(told[name]))) for name in names if told[name]]
    rows += [
        ("created", cli.views.time_of(session.created_at)),
        ("changed", cli.views.time_of(session.updated_at)),
        ("whole history", counted(told["tokens"], "token")),
        ("a prompt may use", counted(told["usable"], "token")),
        ("compressed from", f"{counted(told['trigger'], 'token')} on"),
    ]
    for goal in told["goals"]:
        rows.append(("goal", one_line(f"{goal['text']} ({goal['status']})", 200)))
    return Table(("", ""), rows)


def _branches(told: dict[str, Any]) -> Table:
    rows = []
    for branch in told["branches"]:
        start = f"{branch['parent']} at {branch['fork']:,}" if branch["parent"] else ""
        mark = " (open)" if branch["id"] == told["branch"] else ""
        rows.append((whole(branch["id"]) + mark, branch["messages"], one_line(start)))
    return Table(("branch", "messages", "starts from"), rows, right=("messages",))


def _snapshots(told: dict[str, Any]) -> Table:
    rows = []
    for snapshot in told["snapshots"]:
        purpose = PURPOSES.get(snapshot["purpose"], snapshot["purpose"])
        note = one_line(snapshot["note"], 60)
        rows.append((whole(snapshot["id"]), snapshot["at"], purpose, note))
    return Table(("snapshot", "at", "purpose", "note"), rows, right=("at",))


@command
def sessions_compress(
    options: OpenOptions,
    *,
    target_ratio: Annotated[
        float | None,
        typer.Option(
            parser=share,
            metavar="SHARE",
            help="The share to keep of the messages that may be shortened, such as 0.4 or 40%. "
            "Default: compress to the target from the settings.",
        ),
    ] = None,
    summarizer: Annotated[
        str | None,
        text_option(
            "KEY",
            "The summarizer: a model such as ollama:qwen3:8b, or extractive. Default: from the "
            "settings.",
        ),
    ] = None,
    keep: Keep = None,
    review: Annotated[
        bool,
        flag("--review", "Open the new summaries in $EDITOR first, to read, edit or refuse them."),
    ] = False,
) -> Telling:
    """Compress a session now, and report what was done.

    The history stays as it is; `undo` reverses the compression.

    Examples:
      compactctl sessions compress harbour
      compactctl sessions compress harbour --review
      compactctl sessions compress harbour --window 32000 --target-ratio 0.3
      compactctl sessions compress harbour --summarizer ollama:qwen3:8b --keep "the API discussion"
    """
    since, progress = monotonic(), cli.progress.Progress("Compressing context")
    own = {"summarizer": summarizer, "keep": keep}
    with cli.stores.entered_in(options, on_event=progress.on_event, **own) as (catalog, ctx):
        before = {each.id for each in ctx.checkpoints}
        is_known = catalog.known_window_of(ctx.store.session(ctx.id)) is not None
        default = None if is_known else ctx.window.size
        compressed = _reviewed if review else _compressed
        if (plan := compressed(ctx, progress, target_ratio, keep or "")) is None:
            cli.render.show(Aside("nothing was compressed"))
            return
        made = [each for each in ctx.checkpoints if each.id not in before]
        standing, line = cli.views.standing_json(ctx), cli.views.standing_line(ctx)
    yield {
        **standing,
        **plan.model_dump(mode="json", include={"tokens_before", "tokens_after", "why"}),
        "unchanged": plan.unchanged,
        "rungs": [rung.model_dump(mode="json") for rung in plan.rungs],
        "made": [cli.views.checkpoint_json(each, live=True) for each in made],
    }
    yield from _done(plan, since, default)
    yield from _made(made)
    yield line


def _done(plan: Plan, since: float, default: int | None) -> Iterator[Part]:
    """What a compression did, the result first; and the window, where nobody chose one."""
    if not plan.unchanged:
        yield cli.views.result_line(plan, since)
    if default is not None:
        yield f"for a window of {default:,} tokens (the default; --window N chooses another)"
    yield from cli.views.rung_parts(plan)


def _compressed(ctx: ContextManager, progress: Progress, ratio: float | None, keep: str) -> Plan:
    """What was done, without asking anybody."""
    with progress:
        return ctx.compress_conversation(ratio, guidance=keep)


def _reviewed(
    ctx: ContextManager, progress: Progress, ratio: float | None, keep: str
) -> Plan | None:
    """What was done with what a person made of the proposal; None where they refused it."""
    with progress:
        proposal = ctx.propose_compression(target_ratio=ratio, guidance=keep)
    return cli.reviewing.reviewed(ctx, proposal) if proposal.checkpoints else proposal.plan


def _made(made: Sequence[Checkpoint]) -> Iterator[Part]:
    """The checkpoints that a compression made, with sums where they are several."""
    for each in made:
        span = each.span
        told = f"{each.id}: {counted(span.messages, 'message')} of {span.first:,} to {span.last:,}"
        yield f"{told}, {span.tokens or 0:,} > {counted(each.token_count, 'token')}"
    if len(made) > 1:
        total = counted(sum(each.span.messages for each in made), "message")
        before = sum(each.span.tokens or 0 for each in made)
        after = counted(sum(each.token_count for each in made), "token")
        yield f"together {counted(len(made), 'checkpoint')}: {total}, {before:,} > {after}"


@command
def sessions_put_aside(
    options: OpenOptions,
    *,
    message: Annotated[
        str | None,
        typer.Argument(
            metavar="MESSAGE",
            help="A message's number from 0 (negative from the end), its id, or its first eight "
            "characters. Default: your newest message.",
            show_default=False,
        ),
    ] = None,
    tokens: Annotated[
        int | None,
        number_option(
            "How many of its tokens to show. Default: as many as fit in the next prompt."
        ),
    ] = None,
) -> Telling:
    """Show models only the head and tail of a message that fits in no window.

    The full text stays in the history. recall and expand read it by the id that is shown.

    Examples:
      compactctl sessions put-aside harbour
      compactctl sessions put-aside harbour 120 --tokens 500
    """
    with cli.stores.entered(options) as ctx:
        meant = message and cli.stores.message_meant(ctx, message)
        put = ctx.put_aside(meant, tokens=tokens)
        position = ctx.history.position_of(put.id)
        is_whole = position is None or ctx.history[position].text == put.text
        told = {"message": put.id, "shown": put.text, **cli.views.standing_json(ctx)}
    yield {**told, "whole": is_whole}
    if is_whole:
        yield Aside(f"message {one_line(put.id)!r} is short enough and is shown in full")
    else:
        yield Data(one_line(put.id))


@command
def sessions_delete(
    options: OneSessionOptions,
    *,
    yes: Annotated[bool, flag("--yes", "Do not ask. SESSION must then be the full id.")] = False,
) -> Telling:
    """Delete a session for good, after asking. Also called as memory forget.

    Its messages, branches, checkpoints, snapshots, goals and notes, what was made of them, its
    archive, copies in the setting `archive`, and what other sessions recalled of it leave no trace.
    Exits with 2 where something is left. Without a terminal to ask on, --yes is required. Backups
    are not touched.

    Examples:
      compactctl sessions delete harbour
      compactctl sessions delete harbour --yes
      compactctl memory forget harbour
    """
    with cli.stores.opened(options) as catalog:
        session = catalog.find(options.session)
        if not _is_wanted(catalog, session, options.session, yes=yes):
            cli.render.show(Aside("nothing was deleted"))
            return
        total = _size_of(catalog, session)  # others may have written while the person thought
        with cli.progress.Progress("Deleting, and looking for what is left"):
            report = cli.stores.memory_of(catalog, session.scope).forget(session.id)
    told = report.model_dump(mode="json", exclude={"session_id"})
    yield {"deleted": session.id, "messages": total, **told, "complete": report.is_complete}
    yield Aside(f"deleted session {session.id!r}, {counted(total, 'message')}")
    yield Aside(_removed(report))
    for line in report.remains:
        yield Aside(line)
    if not report.is_complete:
        raise typer.Exit(cli.errors.BAD_INPUT)


def _removed(report: ForgottenReport) -> Table:
    """What was removed, and what was found afterwards."""
    rows: list[tuple[str, int]] = list(report.removed.items())
    rows += [(f"quotes in {whole(name)}", count) for name, count in report.quoted.items()]
    rows += [("left", len(report.remains))]
    return Table(("removed", ""), rows, right=("",))


def _size_of(catalog: SessionCatalog, session: Session) -> int:
    """How many messages a session has, those of all its branches."""
    return sum(each.messages - each.fork for each in catalog.store.branches(session.id))


def _is_wanted(catalog: SessionCatalog, session: Session, name: str, *, yes: bool) -> bool:
    """Whether the person says yes.

    Raises:
        Stop: nobody can be asked.
    """
    if yes:
        if name != session.id:
            raise cli.errors.Stop(f"--yes needs the full id: {session.id!r}")
        return True
    if not all(s is not None and s.isatty() for s in (sys.stdin, sys.stderr)):
        raise cli.errors.Stop("there is no terminal to ask on; --yes deletes without asking")
    parts = [counted(_size_of(catalog, session), "message")]
    kept = len(catalog.store.snapshots(session.id))
    parts += [counted(kept, "snapshot")] if kept else []
    title = f" ({session.title})" if session.title else ""
    question = f"Delete session {session.id!r}{title}, {', '.join(parts)}, for good? [y/N] "
    sys.stderr.write(visible(question))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")

"""`compactctl sessions export`: write a session to a file, for import or for reading."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from compact.apps.cli import output, render, session_file, session_markdown, stores
from compact.apps.cli.errors import Stop
from compact.apps.cli.options import BranchOptions, Out, command, flag
from compact.apps.cli.progress import Progress
from compact.apps.cli.session_file import SessionFile
from compact.apps.cli.stores import SessionCatalog
from compact.apps.cli.words import counted
from compact.core.messages import Message
from compact.core.sessions import Branch, Session


@command
def sessions_export(
    options: BranchOptions,
    *,
    out: Out = None,
    format: Annotated[
        Literal["json", "md"] | None,
        typer.Option(
            help="json: every message as it is, for import; md: for reading. Default: by OUT's "
            "name, else json."
        ),
    ] = None,
    force: Annotated[
        bool, flag("--force", "Allow OUT to replace a file that is not an exported session.")
    ] = False,
) -> None:
    """Write one branch of a session to a file, in full, whatever was compressed.

    JSON can be imported again without losing a message, goal or pin. It contains checkpoints for
    reading only; an import makes new ones. Markdown is for people. The branch is the open one, or
    --branch. Other branches and snapshots are not in the file; standard error says how many there
    are. With --json a report is printed on standard output, and OUT is required.

    Examples:
      compactctl sessions export harbour > harbour.json
      compactctl sessions export harbour -o harbour.md
    """
    if options.json and out is None:
        raise Stop("--json prints a report where the session would go: give -o OUT")
    output.check_name("-o", out)
    by_name = "md" if (out or "").lower().endswith((".md", ".markdown")) else "json"
    with Progress("Reading") as progress, stores.opened(options) as catalog:
        if out is not None:
            _check_out(out, catalog, force=force)
        session = catalog.find(options.session)
        branch = catalog.branch(session, options.branch)
        messages = [e.message for e in catalog.store.read(branch.id, 0, branch.messages)]
        left = _left_out(catalog, branch)
        progress.now("Writing")
        if (format or by_name) == "md":
            text = "".join(session_markdown.written(session, messages))
        else:
            text = "".join(session_file.written(_file_of(catalog, session, branch, messages)))
    size = output.write(out, text)
    if options.json:
        told = {"session": session.id, "branch": branch.id, "messages": len(messages)}
        output.print_json({**told, "out": out, "bytes": size, "left_out": left})
        return
    if size is not None:
        render.tell(f"wrote {out} ({counted(len(messages), 'message')}, {size:,} bytes)")
    if any(left.values()):
        render.tell(_in_words(left), style="yellow")


def _left_out(catalog: SessionCatalog, branch: Branch) -> dict[str, Any]:
    """What the session has beside the branch: ids of other branches, and how many snapshots."""
    others = [each.id for each in catalog.store.branches(branch.session_id) if each.id != branch.id]
    return {"branches": others, "snapshots": len(catalog.store.snapshots(branch.session_id))}


def _in_words(left: dict[str, Any]) -> str:
    branches, snapshots = left["branches"], left["snapshots"]
    parts = [counted(len(branches), "other branch", "other branches")] if branches else []
    parts += [counted(snapshots, "snapshot")] if snapshots else []
    single = len(branches) + snapshots == 1
    advice = f"; for a branch: --branch {branches[0]}" if branches else ""
    return f"note: {' and '.join(parts)} {'is' if single else 'are'} not in it{advice}"


def _check_out(out: str, catalog: SessionCatalog, *, force: bool) -> None:
    """Refuse what a session must not take the place of, before any work.

    Raises:
        Stop: OUT is the store, a file of its, or a file that no export wrote.
    """
    output.refuse_store(out)
    store = str(Path(catalog.file).expanduser())
    if any(output.is_same_file(out, store + ending) for ending in ("", *output.BESIDE)):
        raise Stop(f"{out} belongs to the store itself; give another name")
    start = output.beginning_of(out, session_markdown.SNIFFED)
    known = session_file.is_session_file(start) or session_markdown.is_session_markdown(start)
    if start and not known and not force:
        raise Stop(f"{out} exists and is not an exported session; --force replaces it")


def _file_of(
    catalog: SessionCatalog, session: Session, branch: Branch, messages: list[Message]
) -> SessionFile:
    """What is written. Goals and pins are those of the branch that is open, and stay out of another
    one's file.
    """
    ctx = stores.context_of(catalog, session)
    is_open = branch.id == ctx.branch_id
    never = ctx.policy.roles_never_pruned
    fixed = ((position, ctx.history[position]) for position in ctx.history.fixed)
    pins = [p for p, message in fixed if not message.is_pinned and message.role not in never]
    return SessionFile(
        session.model_copy(update={"branch": branch}),
        messages,
        goals=ctx.goals if is_open else (),
        pins=pins if is_open else (),
        checkpoints=catalog.store.checkpoints(session.id),
    )

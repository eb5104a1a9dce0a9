"""`compactctl sessions export`: writes a session to a file."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

import typer

from compact.cli import exchange, output
from compact.cli.errors import Stop
from compact.cli.options import Out, command, flag, text_option
from compact.cli.progress import Progress
from compact.cli.render import Aside, Report, Styled
from compact.cli.stores import OneSessionOptions, SessionCatalog, opened
from compact.cli.words import LONGEST_LINE, counted, one_line
from compact.exchange import exporting
from compact.messages.messages import Message
from compact.store.session_file import SessionFile


class _NotInFile(TypedDict):
    branches: list[str]
    snapshots: int


@command
def sessions_export(
    options: OneSessionOptions,
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
    verbatim: Annotated[
        bool, flag("--verbatim", "Leave secrets in it. Default: they are replaced.")
    ] = False,
    branch: Annotated[
        str | None, text_option("ID", "Use this branch instead of the open one.")
    ] = None,
) -> Report:
    """Write a session to a file, in full, whatever was compressed.

    Secrets are replaced by their kinds, as <REDACTED:password>, unless --verbatim is given or the
    setting redact is off; the session keeps them, and the file says that they were replaced.

    JSON holds everything: all branches, checkpoints, what is in force for each window, goals,
    pins, modes and snapshots. An import makes the same session again, and exports the same file.
    Markdown is for reading, and holds one branch. With --branch only that branch is written, as a
    session of its own. With --json a report is printed on standard output, and OUT is required.

    Examples:
      compactctl sessions export harbour > harbour.json
      compactctl sessions export harbour -o harbour.md
      compactctl sessions export harbour --branch harbour~2 -o tried.json
    """
    if options.json and out is None:
        raise Stop("--json prints a report where the session would go: give -o OUT")
    output.check_name("-o", out)
    by_name = "md" if (out or "").lower().endswith((".md", ".markdown")) else "json"
    with Progress("Reading") as progress, opened(options) as catalog:
        if out is not None:
            exchange.check_out(out, catalog, force=force)
        session = catalog.find(options.session)
        is_text = (format or by_name) == "md"
        only = catalog.branch(session, branch) if is_text or branch is not None else None
        progress.now("Writing")
        whole = file = exchange.file_of(catalog, session, only)
        if catalog.settings.redact and not verbatim:
            file = exporting.without_secrets(file, catalog.settings.redactor())
        text = exchange.text_of(file, as_text=is_text)
        missing = _not_in(catalog, whole)
    size = output.write(out, text)
    changed = _changed_messages(whole, file)
    messages, is_redacted = len(file.messages), file is not whole
    report = {"session": session.id, "branch": whole.session.branch.id, "messages": messages}
    report |= {"redacted_messages": changed, "redacted": is_redacted}
    yield {**report, "out": out, "bytes": size, "left_out": missing}
    if size is not None:
        yield Aside(f"wrote {out} ({counted(messages, 'message')}, {size:,} bytes)")
    if is_redacted:
        where = f"in {counted(changed, 'message')}" if changed else "beside the messages"
        yield Aside(Styled(f"secrets {where} were replaced; --verbatim leaves them", "yellow"))
    if any(missing.values()):
        yield Aside(Styled(one_line(_left_out(**missing), LONGEST_LINE), "yellow"))


def _left_out(branches: list[str], snapshots: int) -> str:
    parts = [counted(len(branches), "other branch", "other branches")] if branches else []
    parts += [counted(snapshots, "snapshot")] if snapshots else []
    single = len(branches) + snapshots == 1
    advice = f"; for a branch: --branch {branches[0]}" if branches else ""
    return f"note: {' and '.join(parts)} {'is' if single else 'are'} not in it{advice}"


def _not_in(catalog: SessionCatalog, file: SessionFile) -> _NotInFile:
    if file.whole is not None:
        return {"branches": [], "snapshots": 0}
    session, branch = file.session.id, file.session.branch.id
    others = [each.id for each in catalog.store.branches(session) if each.id != branch]
    return {"branches": others, "snapshots": len(catalog.store.snapshots(session))}


def _changed_messages(before: SessionFile, after: SessionFile) -> int:
    def said(file: SessionFile) -> list[Message]:
        parts = () if file.whole is None else file.whole.parts
        return [entry.message for part in parts for entry in part.entries] or [*file.messages]

    return sum(one != other for one, other in zip(said(before), said(after), strict=True))

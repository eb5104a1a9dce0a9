"""`compactctl sessions import` and `export`: files into the store, and sessions into files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from compact.apps import cli
from compact.apps.cli.options import (
    BranchOptions,
    CountOptions,
    Out,
    ReadOptions,
    StoreOptions,
    argument,
    command,
    flag,
    text_option,
)
from compact.apps.cli.told import Aside, Data, Styled, Telling
from compact.apps.cli.words import LONGEST_LINE, counted, one_line


@dataclass(frozen=True, kw_only=True)
class ImportOptions(StoreOptions, ReadOptions, CountOptions):
    """Options of `sessions import`."""

    file: Annotated[
        str,
        argument(
            "FILE",
            "A conversation in any known format, or an exported session; - is standard input.",
        ),
    ]
    id: Annotated[
        str | None,
        typer.Option("--as", metavar="ID", help="The session's id. Default: the file's name."),
    ] = None
    title: Annotated[
        str | None, text_option("TEXT", "The session's title. Default: the file's.")
    ] = None


@command
def sessions_import(options: ImportOptions) -> Telling:
    """Import a conversation from a file as a new session.

    Ids, times and the title are kept; of an exported session everything. The import is all or
    nothing, and never touches a session with the same id. The store is created if there is none.
    Many files at once: see migrate.

    Examples:
      compactctl sessions import session.jsonl
      compactctl sessions import chats.jsonl --conversation 2 --as second --store chat.db
      compactctl sessions export harbour | compactctl sessions import - --as copy
    """
    with cli.progress.Progress("Reading") as progress:
        read, notes = cli.exchange.read(options)
        with cli.stores.opened(options, create=True) as catalog:
            whole = cli.exchange.as_new(read, options, catalog)
            progress.now(f"Storing {len(read.messages):,} messages")
            stored = cli.exchange.stored(catalog, whole)
    yield {**cli.views.session_json(stored), "store": catalog.file, "notes": notes}
    yield Aside(one_line(cli.exchange.line_of(stored, catalog.file), LONGEST_LINE))
    for note in notes:
        kind = "left out" if note[:1].isdigit() else "note"
        yield Aside(Styled(one_line(f"{kind}: {note}", LONGEST_LINE), "yellow"))
    yield Data(stored.id)


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
    verbatim: Annotated[
        bool, flag("--verbatim", "Leave secrets in it. Default: they are replaced.")
    ] = False,
) -> Telling:
    """Write a session to a file, in full, whatever was compressed.

    Secrets are replaced by their kinds, as <REDACTED:password>, unless --verbatim is given or the
    setting redact is off; the session keeps them, and the file says that they were replaced.

    JSON holds everything: all branches, checkpoints, what is in force for each window, goals,
    pins, modes and snapshots. An import has the same session again, and exports the same file.
    Markdown is for people, and of one branch. With --branch only that branch is written, as a
    session of its own. With --json a report is printed on standard output, and OUT is required.

    Examples:
      compactctl sessions export harbour > harbour.json
      compactctl sessions export harbour -o harbour.md
      compactctl sessions export harbour --branch harbour~2 -o tried.json
    """
    if options.json and out is None:
        raise cli.errors.Stop("--json prints a report where the session would go: give -o OUT")
    cli.output.check_name("-o", out)
    by_name = "md" if (out or "").lower().endswith((".md", ".markdown")) else "json"
    with cli.progress.Progress("Reading") as progress, cli.stores.opened(options) as catalog:
        if out is not None:
            cli.exchange.check_out(out, catalog, force=force)
        session = catalog.find(options.session)
        is_text = (format or by_name) == "md"
        is_one = is_text or options.branch is not None
        branch = catalog.branch(session, options.branch) if is_one else None
        progress.now("Writing")
        file = cli.exchange.file_of(catalog, session, branch)
        whole = file
        if catalog.settings.redact and not verbatim:
            file = cli.exchange.without_secrets(file, catalog.settings.redactor())
        if is_text:
            text = "".join(cli.session_markdown.written(file.session, file.messages))
        else:
            text = "".join(cli.exchange.written(file))
        left = cli.exchange.left_out(catalog, whole)
    size = cli.output.write(out, text)
    changed = cli.exchange.changed_messages(whole, file)
    messages, is_redacted = len(file.messages), file is not whole
    told = {"session": session.id, "branch": whole.session.branch.id, "messages": messages}
    told |= {"redacted_messages": changed, "redacted": is_redacted}
    yield {**told, "out": out, "bytes": size, "left_out": left}
    if size is not None:
        yield Aside(f"wrote {out} ({counted(messages, 'message')}, {size:,} bytes)")
    yield from _differences(changed if is_redacted else None, left["branches"], left["snapshots"])


def _differences(redacted: int | None, others: list[str], snapshots: int) -> Telling:
    """What of the session is not in the file as it is in the store."""
    if redacted is not None:
        where = f"in {counted(redacted, 'message')}" if redacted else "beside the messages"
        what = f"secrets {where} were replaced; --verbatim leaves them"
        yield Aside(Styled(what, "yellow"))
    if others or snapshots:
        yield Aside(Styled(one_line(_left_out(others, snapshots), LONGEST_LINE), "yellow"))


def _left_out(branches: list[str], snapshots: int) -> str:
    """What the session has beside the branch that was written, in words."""
    parts = [counted(len(branches), "other branch", "other branches")] if branches else []
    parts += [counted(snapshots, "snapshot")] if snapshots else []
    single = len(branches) + snapshots == 1
    advice = f"; for a branch: --branch {branches[0]}" if branches else ""
    return f"note: {' and '.join(parts)} {'is' if single else 'are'} not in it{advice}"

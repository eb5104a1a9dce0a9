"""`compactctl view`: a session as a page for a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from compact.apps import cli
from compact.apps.cli.options import OpenOptions, command, flag
from compact.apps.cli.told import Aside, Telling
from compact.apps.cli.words import counted
from compact.files import is_file


@command
def view(
    options: OpenOptions,
    *,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="OUT", help="The file. Default: SESSION.html here."),
    ] = None,
    open_it: Annotated[bool, flag("--open", "Open it in the browser.")] = False,
    force: Annotated[bool, flag("--force", "Replace a file that is no such page.")] = False,
    verbatim: Annotated[
        bool, flag("--verbatim", "Leave secrets in it. Default: they are replaced.")
    ] = False,
) -> Telling:
    """Write a session as one HTML page: its timeline, each compression with before and after, the
    checkpoints, and what the model saw at any turn.

    The page needs no server and no network, and loads nothing. Secrets are replaced by their kinds.
    A file in SESSION's place is read as if that conversation had been held in the window; nothing
    is stored.

    Examples:
      compactctl view harbour
      compactctl view harbour -o harbour.html --open
      compactctl view session.jsonl --window 32000
    """
    cli.output.check_name("-o", out)
    with cli.progress.Progress("Reading") as progress:
        if is_file(Path(options.session)):
            name = _named(out, Path(options.session).stem, force=force)
            data = cli.session_page.replayed(options, progress, verbatim=verbatim)
        else:
            with cli.stores.opened(options) as catalog:
                session = catalog.find(options.session)
                name = _named(out, session.id, force=force)
                data = cli.session_page.told(catalog, session, verbatim=verbatim)
        size = cli.output.write(name, cli.session_page.written(data))
    messages = len(data["messages"]["text"])
    yield {
        "session": data["session"]["id"],
        "out": name,
        "bytes": size,
        "messages": messages,
        "steps": len(data["moves"]),
        "redacted_messages": data["redacted"],
    }
    yield f"wrote {name} ({counted(messages, 'message')}, {size or 0:,} bytes)"
    if data["redacted"]:
        said = f"secrets in {counted(data['redacted'], 'message')} were replaced; --verbatim leaves"
        yield Aside(f"{said} them")
    if open_it:
        typer.launch(name)


def _named(out: str | None, session_id: str, *, force: bool) -> str:
    """The name of the file.

    Raises:
        Stop: another file is there, which is no page.
    """
    name = out or f"{_file_name(session_id)}.html"
    start = cli.output.beginning_of(name, cli.session_page.START)
    if start and not cli.session_page.is_page(start) and not force:
        raise cli.errors.Stop(f"{name} is no page of compact's: --force replaces it")
    return name


def _file_name(session_id: str) -> str:
    """The id as a file may be called on every system."""
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in session_id)[:80] or "session"

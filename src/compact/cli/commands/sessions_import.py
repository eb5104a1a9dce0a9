"""`compactctl sessions import`: makes a session from a file."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from compact.cli import session_markdown
from compact.cli.errors import Stop
from compact.cli.jobs import ReadOptions, bytes_of, transcript_of
from compact.cli.options import CountOptions, argument, command, text_option
from compact.cli.progress import Progress
from compact.cli.render import Aside, Data, Report, Styled
from compact.cli.stores import SessionCatalog, StoreOptions, opened
from compact.cli.views import session_json
from compact.cli.words import LONGEST_LINE, counted, one_line
from compact.errors import InvalidTranscript, NotFound, Superseded
from compact.exchange import importing
from compact.messages.sessions import DEFAULT_SCOPE, Session
from compact.store import session_file
from compact.store.session_file import SessionFile
from compact.store.whole_session import WholeSession

_ENDINGS = (".json", ".jsonl", ".ndjson", ".md", ".markdown", ".txt", ".log")
"""File endings that are left out of a session's id."""


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
def sessions_import(options: ImportOptions) -> Report:
    """Import a conversation from a file as a new session.

    Ids, times and the title are kept; of an exported session everything. The import is all or
    nothing, and never touches a session with the same id. The store is created if there is none.
    Many files at once: see migrate.

    Examples:
      compactctl sessions import session.jsonl
      compactctl sessions import chats.jsonl --conversation 2 --as second --store chat.db
      compactctl sessions export harbour | compactctl sessions import - --as copy
    """
    with Progress("Reading") as progress:
        read, notes = _read(options)
        with opened(options, create=True) as catalog:
            whole = _as_new(read, options, catalog)
            progress.now(f"Storing {len(read.messages):,} messages")
            stored = _store(catalog, whole)
    yield {**session_json(stored), "store": catalog.file, "notes": notes}
    yield Aside(one_line(_line_of(stored, catalog.file), LONGEST_LINE))
    for note in notes:
        kind = "left out" if note[:1].isdigit() else "note"
        yield Aside(Styled(one_line(f"{kind}: {note}", LONGEST_LINE), "yellow"))
    yield Data(stored.id)


def _read(options: ImportOptions) -> tuple[SessionFile, list[str]]:
    source, data = bytes_of(options)
    if session_file.is_session_file(data):
        return _read_export(options, data, source)
    if session_markdown.is_session_markdown(data):
        reason = "a session as Markdown, which is for reading only; export it as JSON to import it"
        raise InvalidTranscript(source, reason)
    transcript = transcript_of(options, source, data)
    read = importing.of_transcript(transcript, _id_of(options), Path(source).name)
    return read, list(transcript.notes)


def _read_export(options: ImportOptions, data: bytes, source: str) -> tuple[SessionFile, list[str]]:
    """Return the content of an exported session, and notes on what was left out."""
    for option, value in (("--format", options.format), ("--conversation", options.conversation)):
        if value not in (None, 1):
            raise Stop(f"{option}: {source} is an exported session, one conversation; leave it out")
    read = session_file.read(data, source)
    dropped = counted(read.left_out, "checkpoint")
    return read, [f"{dropped}: the next compression makes new ones"] if read.left_out else []


def _id_of(options: ImportOptions) -> str:
    """Return the session id that the file's name gives. It is empty for a pipe."""
    if not os.path.isfile(options.file):
        return ""
    name = Path(options.file).name
    while (path := Path(name)).suffix.lower() in _ENDINGS:
        name = path.stem
    return name if options.conversation is None else f"{name}-{options.conversation}"


def _as_new(read: SessionFile, options: ImportOptions, catalog: SessionCatalog) -> WholeSession:
    session = read.session
    name = session.id if options.id is None else options.id.strip()
    if not importing.is_id(name):
        raise Stop("the session needs an id: give --as ID, on one line, up to 200 letters")
    scope = options.scope or session.scope
    _check_free(catalog, name, scope, is_asked=options.scope is not None)
    whole = importing.as_new(read, catalog.store, catalog.settings, session_id=name, scope=scope)
    new = whole.session
    title, model = options.title or new.title, options.model or new.model
    return replace(whole, session=new.model_copy(update={"title": title, "model": model}))


def _check_free(catalog: SessionCatalog, name: str, scope: str, *, is_asked: bool) -> None:
    """Refuse a taken id. A user who gave a scope does not learn the names of others."""
    with suppress(NotFound):
        other_session = catalog.store.session(name)
        named = "another scope" if is_asked else f"scope {other_session.scope!r}"
        other = f", {named}; scopes share their ids"
        whose = "" if other_session.scope == scope else other
        taken = f"there is a session {name!r} in {catalog.file}{whose}"
        raise Stop(f"{taken}; import under another id: --as ID")


def _store(catalog: SessionCatalog, whole: WholeSession) -> Session:
    """Store the session in one transaction, so that a failure leaves nothing behind."""
    try:
        return importing.put(catalog.store, whole)
    except Superseded:
        raise Stop(f"another process made a session {whole.session.id!r} just now") from None


def _line_of(stored: Session, file: str) -> str:
    branch = stored.branch
    title = f" ({stored.title})" if stored.title else ""
    size = f"{counted(branch.messages, 'message')}, {counted(branch.tokens, 'token')}"
    whose = "" if stored.scope == DEFAULT_SCOPE else f", for --scope {stored.scope}"
    return f"{size}{title}, into {file}{whose}"

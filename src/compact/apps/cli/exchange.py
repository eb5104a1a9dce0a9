"""`compactctl sessions import`: conversations out of files, into the store."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compact.apps.cli.ending import Stop
from compact.apps.cli.options import CountOptions, ReadOptions, taking
from compact.apps.cli.session_options import StoreOptions
from compact.apps.cli.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from compact.apps.cli.session_file import SessionFile
    from compact.apps.cli.stores import Shelf
    from compact.core.sessions import Entry, Session

_LONGEST_ID = 200
_ENDINGS = (".json", ".jsonl", ".ndjson", ".md", ".markdown", ".txt", ".log")
"""How the names of files end that say only what they are."""


@dataclass(frozen=True, kw_only=True)
class ImportOptions(StoreOptions, ReadOptions, CountOptions):
    """What `sessions import` takes."""

    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A conversation in any known format, or an exported session; - is standard input.",
        ),
    ]
    id: Annotated[
        str | None,
        typer.Option("--as", metavar="ID", help="The session's id. Default: the file's name."),
    ] = None
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Its title. Default: the file's.")
    ] = None


@taking(ImportOptions)
def import_session(options: ImportOptions) -> None:
    """Bring a conversation in from a file, as a session of its own.

    Ids, times and the title are kept. All of it comes in or nothing; a session of the same id is
    never touched. The store is made where there is none.

    Examples:
      compactctl sessions import session.jsonl
      compactctl sessions import chats.jsonl --conversation 2 --as second --store chat.db
      compactctl sessions export harbour | compactctl sessions import - --as copy
    """
    from compact.apps.cli import output, shown, stores
    from compact.apps.cli.progress import Progress

    with Progress("Reading") as progress:
        read, notes = _read(options)
        with stores.opened(options, create=True) as shelf:
            session = _session_of(read, options, shelf)
            progress.now(f"Storing {len(read.messages):,} messages")
            stored = _store(shelf, session, read)
    if options.json:
        output.print_json({**shown.session_json(stored), "store": shelf.file, "notes": notes})
        return
    _report(stored, shelf.file, notes)


def _report(stored: Session, file: str, notes: list[str]) -> None:
    """What was read, on stderr; the session's id, which the next command wants, on stdout."""
    from compact.apps.cli import drawing, output
    from compact.core.sessions import DEFAULT_SCOPE

    branch = stored.branch
    title = f" ({stored.title})" if stored.title else ""
    size = f"{counted(branch.messages, 'message')}, {counted(branch.tokens, 'token')}"
    whose = "" if stored.scope == DEFAULT_SCOPE else f", for --scope {stored.scope}"
    drawing.tell(f"{size}{title}, into {file}{whose}")
    for note in notes:
        kind = "left out" if note[:1].isdigit() else "note"
        drawing.tell(f"{kind}: {note}", style="yellow")
    output.print_data(stored.id + "\n")


def _read(options: ImportOptions) -> tuple[SessionFile, list[str]]:
    """What the file holds, and what there is to say of it.

    Raises:
        InvalidTranscript, InvalidInput: it is unknown or broken.
    """
    from compact import wiring
    from compact.apps.cli import session_file, work

    if options.format is not None:
        work.check_choice("--format", options.format, wiring.file_formats())
    source, data = work.source_of(options.file), work.bytes_of(options.file)
    if session_file.is_session_file(data):
        return _session(options, data, source)
    _refuse_markdown(data, source)
    transcript = wiring.read_transcript(
        source, data=data, format=options.format, conversation=options.conversation
    )
    metadata: dict[str, Any] = {"source": Path(source).name, "format": transcript.format}
    if transcript.tools:
        metadata["tools"] = [dict(tool) for tool in work.checked_tools(transcript.tools, source)]
    return session_file.SessionFile(
        id=_id_of(options),
        wire=transcript.wire,
        messages=transcript.messages,
        title=transcript.title,
        model=transcript.model,
        metadata=metadata,
    ), list(transcript.notes)


def _session(options: ImportOptions, data: bytes, source: str) -> tuple[SessionFile, list[str]]:
    """What an exported session holds.

    Raises:
        InvalidTranscript: it is broken.
        Stop: an option is for other files.
    """
    from compact.apps.cli import session_file

    for option, value in (("--format", options.format), ("--conversation", options.conversation)):
        if value not in (None, 1):
            raise Stop(f"{option}: {source} is an exported session, one conversation; leave it out")
    read = session_file.read(data, source)
    if not read.checkpoints:
        return read, []
    left = counted(read.checkpoints, "checkpoint")
    return read, [f"{left}: the next compression makes new ones"]


def _refuse_markdown(data: bytes, source: str) -> None:
    from compact.apps.cli.session_markdown import is_session_markdown
    from compact.errors import InvalidTranscript

    if is_session_markdown(data):
        reason = "a session as Markdown, which is for reading only; export it as JSON to import it"
        raise InvalidTranscript(source, reason)


def _id_of(options: ImportOptions) -> str:
    """The id that a file's name gives; none where the name is that of a pipe."""
    if not os.path.isfile(options.file):
        return ""
    name = Path(options.file).name
    while (path := Path(name)).suffix.lower() in _ENDINGS:
        name = path.stem
    return name if options.conversation is None else f"{name}-{options.conversation}"


def _session_of(read: SessionFile, options: ImportOptions, shelf: Shelf) -> Session:
    """The session to be made.

    Raises:
        Stop: it has no id, or there is one of that id.
    """
    from compact import wiring
    from compact.core import defaults
    from compact.core.sessions import Session
    from compact.errors import NotFound
    from compact.managers.state import new_branch

    name = read.id if options.id is None else options.id.strip()
    if not name.strip() or len(name) > _LONGEST_ID or not name.isprintable():
        raise Stop("how shall the session be called? give --as ID, on one line, up to 200 letters")
    scope = options.scope or read.scope
    with suppress(NotFound):
        known = shelf.store.session(name)
        if known.scope == scope and _is_empty(shelf, known):
            raise NotFound(name)  # nothing was ever kept in it: it makes room
        whose = "" if known.scope == scope else f", scope {known.scope!r}; scopes share their ids"
        there = f"there is a session {name!r} in {shelf.file}{whose}"
        raise Stop(f"{there}; import under another id: --as ID")
    counter = wiring.token_counter(
        read.wire, tokenizer=_tokenizer(read, shelf), model=shelf.settings.model
    )
    first = read.messages[0].timestamp if read.messages else defaults.now()
    return Session(
        id=name,
        scope=scope,
        title=options.title or read.title,
        model=options.model or read.model or shelf.settings.model,
        mode=read.mode,
        wire=read.wire,
        tokenizer=counter.estimator.name,
        created_at=read.created_at or first,
        metadata=read.metadata,
        branch=new_branch(shelf.store, name),
    )


def _tokenizer(read: SessionFile, shelf: Shelf) -> str | None:
    from compact import wiring

    if shelf.settings.tokenizer or shelf.settings.model:
        return shelf.settings.tokenizer
    return read.tokenizer if read.tokenizer in wiring.TOKENIZERS else None


def _is_empty(shelf: Shelf, session: Session) -> bool:
    """Whether nothing was ever kept in a session."""
    kept = shelf.store.snapshots(session.id) or shelf.store.notes(session.id)
    return not kept and not any(each.messages for each in shelf.store.branches(session.id))


def _store(shelf: Shelf, session: Session, read: SessionFile) -> Session:
    """Make the session with its messages, goals and pins, in one step: whatever goes wrong, and
    whenever the process ends, all of it is there or nothing.

    Raises:
        Stop: another process made a session of that id in the meantime.
    """
    from compact import wiring
    from compact.errors import NotFound, Superseded

    entries, notes = _prepared(shelf, session, read)
    with suppress(NotFound):
        if _is_empty(shelf, shelf.store.session(session.id)):
            shelf.store.delete_session(session.id)
    try:
        return wiring.put_session(shelf.store, session, entries, notes)
    except Superseded:
        raise Stop(f"another process made a session {session.id!r} just now") from None


def _prepared(
    shelf: Shelf, session: Session, read: SessionFile
) -> tuple[Sequence[Entry], Mapping[str, Any]]:
    """What the store is to keep of the session: its messages, counted, and its notes. The session
    is made in memory for it.
    """
    from compact import wiring
    from compact.apps.cli import stores

    memory = replace(shelf, store=wiring.session_store(None))
    memory.store.session(session.id, create=session)
    ctx = stores.context_of(memory, session)
    ctx.history.append(lambda _: read.messages)
    if read.goals:
        ctx.set_goals(read.goals)
    for position in read.pins:
        ctx.pin(read.messages[position])
    entries = memory.store.read(session.branch.id, 0, len(read.messages))
    return entries, memory.store.notes(session.id)

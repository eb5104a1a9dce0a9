"""`compactctl sessions import` and `export`: conversations into the store, and out of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from compact.apps.cli.ending import Stop
from compact.apps.cli.options import CountOptions, ReadOptions, taking
from compact.apps.cli.session_options import BranchOptions, StoreOptions

if TYPE_CHECKING:
    from compact.apps.cli.session_file import Kept, SessionFile
    from compact.apps.cli.stores import Shelf
    from compact.core.messages import Message
    from compact.core.sessions import Branch, Session

STDIN = "-"
_LONGEST_ID = 200


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
            _store(shelf, session, read)
            stored = shelf.store.session(session.id)
    if options.json:
        output.print_json({**shown.session_json(stored), "store": shelf.file, "notes": notes})
        return
    _report(stored, shelf.file, notes)


def _report(stored: Session, file: str, notes: list[str]) -> None:
    """What was read, on stderr; the session's id, which the next command wants, on stdout."""
    from compact.apps.cli import drawing, output

    out = drawing.console(on_stderr=True)
    branch = stored.branch
    title = f" ({stored.title})" if stored.title else ""
    line = f"{branch.messages:,} messages, {branch.tokens:,} tokens{title}, into {file}"
    out.print(drawing.Text(drawing.one_line(line, 400)), soft_wrap=True)
    for note in notes:
        line = f"note: {drawing.one_line(note, 400)}"
        out.print(drawing.Text(line, style="yellow"), soft_wrap=True)
    output.print_data(stored.id + "\n")


def _read(options: ImportOptions) -> tuple[SessionFile, list[str]]:
    """What the file holds, and what there is to say of it.

    Raises:
        InvalidTranscript, InvalidInput: it is unknown or broken.
    """
    from compact import wiring
    from compact.apps.cli import session_file
    from compact.apps.cli.work import check_choice, read_stdin

    if options.format is not None:
        check_choice("--format", options.format, wiring.file_formats())
    if not options.file:
        raise Stop("FILE: an empty name")
    from_stdin = options.file == STDIN
    source = "standard input" if from_stdin else options.file
    data = read_stdin() if from_stdin else None
    if options.format is None:
        start = _start_of(options.file) if data is None else data
        if session_file.is_session_file(start):
            read = session_file.read(Path(options.file).read_bytes() if data is None else data,
                                     source)  # fmt: skip
            left = read.checkpoints
            note = f"{left} checkpoints were not taken over: the next compression makes new ones"
            return read, [note] if left else []
    transcript = wiring.read_transcript(
        source, data=data, format=options.format, conversation=options.conversation
    )
    metadata: dict[str, Any] = {"source": Path(source).name, "format": transcript.format}
    if transcript.tools:
        metadata["tools"] = [dict(tool) for tool in transcript.tools]
    name = "" if from_stdin else _id_of(options)
    title, wire = transcript.title, transcript.wire
    return session_file.SessionFile(
        id=name, wire=wire, messages=transcript.messages, title=title, metadata=metadata
    ), list(transcript.notes)


def _start_of(file: str) -> bytes:
    """The first bytes; none where the file cannot be read, which its reader will say."""
    try:
        with open(file, "rb") as stream:
            return stream.read(256)
    except (OSError, ValueError):
        return b""


def _id_of(options: ImportOptions) -> str:
    """The id that a file's name gives."""
    name = Path(options.file).name
    stem = name[: name.find(".", 1)] if name.find(".", 1) > 0 else name
    return stem if options.conversation is None else f"{stem}-{options.conversation}"


def _session_of(read: SessionFile, options: ImportOptions, shelf: Shelf) -> Session:
    """The session to be made.

    Raises:
        Stop: it has no id, or there is one of that id.
    """
    from compact import wiring
    from compact.core import defaults
    from compact.core.sessions import Branch, Session
    from compact.errors import NotFound

    name = read.id if options.id is None else options.id
    if not name.strip() or len(name) > _LONGEST_ID or not name.isprintable():
        raise Stop("how shall the session be called? give --as ID, on one line, up to 200 letters")
    try:
        shelf.store.session(name)
    except NotFound:
        pass
    else:
        raise Stop(f"there is a session {name!r} in {shelf.file}; import under another id: --as ID")
    counter = wiring.token_counter(
        read.wire, tokenizer=_tokenizer(read, shelf), model=shelf.settings.model
    )
    first = read.messages[0].timestamp if read.messages else defaults.now()
    return Session(
        id=name,
        scope=options.scope or read.scope,
        title=options.title or read.title,
        model=read.model or shelf.settings.model,
        mode=read.mode,
        wire=read.wire,
        tokenizer=counter.estimator.name,
        created_at=read.created_at or first,
        metadata=read.metadata,
        branch=Branch(id=name, session_id=name),
    )


def _tokenizer(read: SessionFile, shelf: Shelf) -> str | None:
    from compact import wiring

    if shelf.settings.tokenizer or shelf.settings.model:
        return shelf.settings.tokenizer
    return read.tokenizer if read.tokenizer in wiring.TOKENIZERS else None


def _store(shelf: Shelf, session: Session, read: SessionFile) -> None:
    """Make the session with its messages, goals and pins; whatever goes wrong, nothing of it stays.

    Raises:
        Stop: another process made a session of that id in the meantime.
    """
    from compact.apps.cli import stores

    def made(at: int) -> tuple[Message, ...]:
        if at:
            raise Stop(f"another process made a session {session.id!r} just now")
        return read.messages

    shelf.store.session(session.id, create=session)
    try:
        ctx = stores.context_of(shelf, session)
        ctx.history.append(made)
        if read.goals:
            ctx.set_goals(read.goals)
        for position in read.pins:
            ctx.pin(read.messages[position])
    except Stop:
        raise
    except BaseException:
        shelf.store.delete_session(session.id)
        raise


@dataclass(frozen=True, kw_only=True)
class ExportOptions(BranchOptions):
    """What `sessions export` takes."""

    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="OUT", help="Where it goes. Default: stdout."),
    ] = None
    format: Annotated[
        Literal["json", "md"] | None,
        typer.Option(
            help="json: without loss, for import; md: for reading. Default: by OUT's name, else "
            "json."
        ),
    ] = None
    force: Annotated[
        bool, typer.Option("--force", help="Let OUT replace a file that is no exported session.")
    ] = False


@taking(ExportOptions)
def export_session(options: ExportOptions) -> None:
    """Write a session to a file: everything that was said, whatever was compressed.

    JSON can be imported again without loss; Markdown is for people. With --json a report is printed
    on standard output, and OUT must be given.

    Examples:
      compactctl sessions export harbour > harbour.json
      compactctl sessions export harbour -o harbour.md
    """
    from compact.apps.cli import drawing, output, session_file, session_markdown, stores
    from compact.apps.cli.progress import Progress

    if options.json and options.out is None:
        raise Stop("--json prints a report where the session would go: give -o OUT")
    if options.out == "":
        raise Stop("-o: an empty name")
    by_name = "md" if (options.out or "").lower().endswith((".md", ".markdown")) else "json"
    with Progress("Reading") as progress, stores.opened(options) as shelf:
        if options.out is not None:
            _check_out(options.out, shelf, force=options.force)
        session = shelf.find(options.session)
        branch = shelf.branch(session, options.branch)
        messages = [e.message for e in shelf.store.read(branch.id, 0, branch.messages)]
        progress.now("Writing")
        if (options.format or by_name) == "md":
            text = "".join(session_markdown.written(session, messages))
        else:
            kept = _kept(shelf, session, branch)
            text = "".join(session_file.written(kept, messages))
    if options.out is None:
        output.print_data(text)
        return
    size = output.write_file(options.out, text)
    if options.json:
        told = {"session": session.id, "branch": branch.id, "messages": len(messages)}
        output.print_json({**told, "out": options.out, "bytes": size})
        return
    line = f"wrote {options.out} ({len(messages):,} messages, {size:,} bytes)"
    drawing.console(on_stderr=True).print(drawing.Text(line), soft_wrap=True)


def _check_out(out: str, shelf: Shelf, *, force: bool) -> None:
    """Refuse what a session must not take the place of, before any work.

    Raises:
        Stop: OUT is the store, a file of its, or a file that no export wrote.
    """
    from compact.apps.cli import output, session_file, session_markdown

    output.refuse_store(out)
    store = str(Path(shelf.file).expanduser())
    if any(output.is_same_file(out, store + ending) for ending in ("", *output.BESIDE)):
        raise Stop(f"{out} belongs to the store itself; name another file")
    start = output.beginning_of(out, session_markdown.SNIFFED)
    known = session_file.is_session_file(start) or session_markdown.is_session_markdown(start)
    if start and not known and not force:
        raise Stop(f"{out} is there, and no export wrote it; --force replaces it")


def _kept(shelf: Shelf, session: Session, branch: Branch) -> Kept:
    """What is written beside the messages. Goals and pins are those of the branch that is open, and
    stay out of another one's file.
    """
    from compact.apps.cli import session_file, stores

    ctx = stores.context_of(shelf, session)
    is_open = branch.id == ctx.branch_id
    never = ctx.policy.roles_never_pruned
    fixed = ((position, ctx.history[position]) for position in ctx.history.fixed)
    pins = [p for p, message in fixed if not message.is_pinned and message.role not in never]
    return session_file.Kept(
        session=session,
        branch=branch,
        goals=ctx.goals if is_open else (),
        pins=pins if is_open else (),
        checkpoints=shelf.store.checkpoints(session.id),
    )

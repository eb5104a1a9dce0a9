"""Conversations from files as sessions of the store, and sessions of the store as files."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from compact.apps.cli import jobs, output, session_markdown, stores
from compact.apps.cli.errors import Stop
from compact.apps.cli.stores import SessionCatalog
from compact.apps.cli.words import counted
from compact.core.messages import Message
from compact.core.resolving import DEFAULT_WINDOW
from compact.core.sessions import DEFAULT_SCOPE, Branch, Session
from compact.core.whole_session import WholeSession
from compact.errors import InvalidTranscript, NotFound, Superseded
from compact.files import named_path
from compact.managers.exchange import exporting, importing, session_file
from compact.managers.exchange.exporting import without_secrets as without_secrets
from compact.managers.exchange.session_file import SessionFile
from compact.managers.exchange.session_file import written as written

if TYPE_CHECKING:
    from compact.apps.cli.commands.exchange import ImportOptions


class NotInFile(TypedDict):
    """What of a session is not in a file: other branches, and how many snapshots."""

    branches: list[str]
    snapshots: int


_ENDINGS = (".json", ".jsonl", ".ndjson", ".md", ".markdown", ".txt", ".log")
"""How the names of files end that say only what they are."""


def read(options: ImportOptions) -> tuple[SessionFile, list[str]]:
    """What the file holds, and what there is to say of it.

    Raises:
        InvalidTranscript, InvalidInput: it is unknown or broken.
    """
    source, data = jobs.bytes_of(options)
    if session_file.is_session_file(data):
        return _exported(options, data, source)
    if session_markdown.is_session_markdown(data):
        reason = "a session as Markdown, which is for reading only; export it as JSON to import it"
        raise InvalidTranscript(source, reason)
    transcript = jobs.transcript_of(options, source, data)
    read = importing.of_transcript(transcript, _id_of(options), Path(source).name)
    return read, list(transcript.notes)


def _exported(options: ImportOptions, data: bytes, source: str) -> tuple[SessionFile, list[str]]:
    """What an exported session holds.

    Raises:
        InvalidTranscript: it is broken.
        Stop: an option is for other files.
    """
    for option, value in (("--format", options.format), ("--conversation", options.conversation)):
        if value not in (None, 1):
            raise Stop(f"{option}: {source} is an exported session, one conversation; leave it out")
    read = session_file.read(data, source)
    left = counted(read.left_out, "checkpoint")
    return read, [f"{left}: the next compression makes new ones"] if read.left_out else []


def _id_of(options: ImportOptions) -> str:
    """The id that a file's name gives; none where the name is that of a pipe."""
    if not os.path.isfile(options.file):
        return ""
    name = Path(options.file).name
    while (path := Path(name)).suffix.lower() in _ENDINGS:
        name = path.stem
    return name if options.conversation is None else f"{name}-{options.conversation}"


def as_new(read: SessionFile, options: ImportOptions, catalog: SessionCatalog) -> WholeSession:
    """The session to be made, with everything that the file has of it.

    Raises:
        Stop: it has no id, or there is one of that id.
    """
    known = read.session
    name = known.id if options.id is None else options.id.strip()
    if not importing.is_id(name):
        raise Stop("the session needs an id: give --as ID, on one line, up to 200 letters")
    scope = options.scope or known.scope
    _check_free(catalog, name, scope, is_asked=options.scope is not None)
    whole = importing.as_new(read, catalog.store, catalog.settings, session_id=name, scope=scope)
    made = whole.session
    title, model = options.title or made.title, options.model or made.model
    return replace(whole, session=made.model_copy(update={"title": title, "model": model}))


def _check_free(catalog: SessionCatalog, name: str, scope: str, *, is_asked: bool) -> None:
    """Refuse the id of a session that is there. Who asks for a scope is told of no other one.

    Raises:
        Stop: it is taken.
    """
    with suppress(NotFound):
        there = catalog.store.session(name)
        named = "another scope" if is_asked else f"scope {there.scope!r}"
        other = f", {named}; scopes share their ids"
        whose = "" if there.scope == scope else other
        taken = f"there is a session {name!r} in {catalog.file}{whose}"
        raise Stop(f"{taken}; import under another id: --as ID")


def stored(catalog: SessionCatalog, whole: WholeSession) -> Session:
    """Make the session with all that belongs to it, in one step: whatever goes wrong, and whenever
    the process ends, all of it is there or nothing.

    Raises:
        Stop: another process made a session of that id in the meantime.
    """
    try:
        return importing.put(catalog.store, whole)
    except Superseded:
        raise Stop(f"another process made a session {whole.session.id!r} just now") from None


def line_of(stored: Session, file: str) -> str:
    """What was imported, in words."""
    branch = stored.branch
    title = f" ({stored.title})" if stored.title else ""
    size = f"{counted(branch.messages, 'message')}, {counted(branch.tokens, 'token')}"
    whose = "" if stored.scope == DEFAULT_SCOPE else f", for --scope {stored.scope}"
    return f"{size}{title}, into {file}{whose}"


def check_out(out: str, catalog: SessionCatalog, *, force: bool) -> None:
    """Refuse what a session must not take the place of, before any work.

    Raises:
        Stop: OUT is the store, a file of its, or a file that no export wrote.
    """
    output.refuse_store(out)
    store = str(named_path(catalog.file))
    if any(output.is_same_file(out, store + ending) for ending in ("", *output.BESIDE)):
        raise Stop(f"{out} belongs to the store itself; give another name")
    start = output.beginning_of(out, session_markdown.SNIFFED)
    known = session_file.is_session_file(start) or session_markdown.is_session_markdown(start)
    if start and not known and not force:
        raise Stop(f"{out} exists and is not an exported session; --force replaces it")


def file_of(catalog: SessionCatalog, session: Session, branch: Branch | None = None) -> SessionFile:
    """What is written: a whole session, or one branch of it. Goals and pins are those of the branch
    that is open, and stay out of another one's file. The window changes nothing of it.
    """
    with stores.context_of(catalog, session, window=DEFAULT_WINDOW) as ctx:
        chosen = session.branch if branch is None else branch
        is_open = chosen.id == ctx.branch_id
        never = ctx.policy.roles_never_pruned
        fixed = ((position, ctx.history[position]) for position in ctx.history.fixed)
        pins = [p for p, message in fixed if not message.is_pinned and message.role not in never]
        goals = ctx.goals
    whole = exporting.whole_session(catalog.store, session.id) if branch is None else None
    if whole is not None:
        session, messages = whole.session, [e.message for e in whole.line(chosen.id)]
        checkpoints = whole.checkpoints
    else:
        messages = [e.message for e in catalog.store.read(chosen.id, 0, chosen.messages)]
        session = session.model_copy(update={"branch": chosen})
        checkpoints = catalog.store.checkpoints(session.id)
    return SessionFile(
        session,
        messages,
        goals=goals if is_open else (),
        pins=pins if is_open else (),
        checkpoints=checkpoints,
        whole=whole,
    )


def left_out(catalog: SessionCatalog, file: SessionFile) -> NotInFile:
    """What of its session a file does not have."""
    if file.whole is not None:
        return {"branches": [], "snapshots": 0}
    session, branch = file.session.id, file.session.branch.id
    others = [each.id for each in catalog.store.branches(session) if each.id != branch]
    return {"branches": others, "snapshots": len(catalog.store.snapshots(session))}


def changed_messages(before: SessionFile, after: SessionFile) -> int:
    """How many messages of a file, of all its branches, are others in the second."""

    def said(file: SessionFile) -> list[Message]:
        parts = () if file.whole is None else file.whole.parts
        return [entry.message for part in parts for entry in part.entries] or [*file.messages]

    return sum(one != other for one, other in zip(said(before), said(after), strict=True))

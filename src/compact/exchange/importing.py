"""Turns a conversation from a file into a new session of a store."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from compact import wiring
from compact.config import CompactConfig
from compact.errors import InvalidTranscript, NotFound
from compact.messages import clock_and_ids
from compact.messages.protocols import SessionStore, SessionTransfer
from compact.messages.sessions import DEFAULT_SCOPE, Branch, Session, free_branch_id
from compact.models.effective_settings import DEFAULT_WINDOW
from compact.session.context_manager import ContextManager
from compact.session.entering import new_branch
from compact.store.session_file import SessionFile, check_tools
from compact.store.whole_session import NewIds, OwnPart, WholeSession, renamed

RECORD = "record"
"""The metadata key for the contents of a file other than its messages."""
LONGEST_ID = 200
"""The most characters of a session's id."""


def of_transcript(transcript: wiring.Transcript, session_id: str, name: str) -> SessionFile:
    """Return a transcript as a session with this id. `name` is the name of the file.

    Raises:
        InvalidTranscript: a tool schema in the transcript is broken.
    """
    try:
        check_tools(transcript.tools)
    except ValueError as error:
        raise InvalidTranscript(transcript.source, str(error)) from None
    metadata: dict[str, Any] = {"source": name, "format": transcript.format}
    record = transcript.container.fields.get("record")
    if isinstance(record, dict) and record:
        metadata[RECORD] = json.loads(json.dumps(record, default=str))
    if transcript.tools:
        metadata["tools"] = [dict(tool) for tool in transcript.tools]
    messages = transcript.messages
    session = Session(
        id=session_id,
        title=transcript.title,
        model=transcript.model,
        wire=transcript.wire,
        created_at=messages[0].timestamp if messages else clock_and_ids.now(),
        metadata=metadata,
        branch=Branch(id=session_id, session_id=session_id),
    )
    return SessionFile(session, messages)


def is_id(name: str) -> bool:
    """Return whether this can be the id of a session."""
    return bool(name.strip()) and len(name) <= LONGEST_ID and name.isprintable()


def as_new(
    read: SessionFile,
    store: SessionStore,
    settings: CompactConfig,
    *,
    session_id: str,
    scope: str = DEFAULT_SCOPE,
) -> WholeSession:
    """Build a new session with this id and scope, ready to be stored. A whole session keeps its
    token counts. Messages of other files are counted by the tokenizer in the settings.

    Raises:
        InvalidMessage: a message cannot be stored.
        InvalidArgument: a goal cannot be set.
    """
    if read.whole is not None:
        whole = _under_free_ids(read.whole, store, session_id)
        session = whole.session.model_copy(update={"scope": scope})
        return replace(whole, session=session)
    source, tokenizer = read.session, settings.tokenizer
    if not tokenizer and not settings.model and source.tokenizer in wiring.TOKENIZERS:
        tokenizer = source.tokenizer
    counter = wiring.token_counter(source.wire, tokenizer=tokenizer, model=settings.model)
    changed = {
        "id": session_id,
        "scope": scope,
        "model": source.model or settings.model,
        "tokenizer": counter.estimator.name,
        "branch": new_branch(store, session_id),
    }
    return _built(source.model_copy(update=changed), read, settings)


def _built(session: Session, read: SessionFile, settings: CompactConfig) -> WholeSession:
    # Messages, goals and pins are first set in a session in memory, so that the store never has
    # half of them.
    memory = wiring.session_store(None)
    memory.session(session.id, create=session)
    tokenizer = settings.tokenizer or session.tokenizer
    if not wiring.names_tokenizer(tokenizer):
        tokenizer = wiring.token_counter_of(settings, session.wire).estimator.name
    window = settings.window()
    with ContextManager(
        window=window.size if window else DEFAULT_WINDOW,
        store=memory,
        session_id=session.id,
        scope=session.scope,
        tokenizer=tokenizer,
        format=session.wire,
        policy=settings.policy(),
        models=settings.book(),
    ) as ctx:
        ctx.history.append(lambda _: read.messages)
        if read.goals:
            ctx.goals.set(read.goals)
        for position in read.pins:
            ctx.pin(read.messages[position])
        entries = memory.read(session.branch.id, 0, len(read.messages))
        return WholeSession(
            session,
            [OwnPart(session.branch, entries)],
            changes=memory.changes(session.id),
            notes=memory.notes(session.id),
        )


def _under_free_ids(whole: WholeSession, store: SessionStore, session_id: str) -> WholeSession:
    """Give the session this id. Its branches and projections keep their ids if these are free."""
    has_branch, has_projection = _knows(store.branch), _knows(store.projection)
    keeps = session_id == whole.session.id
    branches: dict[str, str] = {}

    def is_taken(name: str) -> bool:
        return name in branches.values() or has_branch(name)

    for part in whole.parts:
        own = part.branch.id
        free = own if keeps and not is_taken(own) else None
        branches[own] = free or free_branch_id(session_id, len(branches), is_taken)
    projections = {
        each.id: clock_and_ids.new_id() for each in whole.projections if has_projection(each.id)
    }
    return renamed(whole, NewIds(session_id, branches, projections))


def _knows(find: Callable[[str], object]) -> Callable[[str], bool]:
    def knows(name: str) -> bool:
        try:
            find(name)
        except NotFound:
            return False
        return True

    return knows


def put(store: SessionStore, whole: WholeSession) -> Session:
    """Store a session, completely or not at all. Return the stored session.

    Raises:
        Superseded: a session with this id exists.
        StoreFailed: the session cannot be stored.
    """
    return cast("SessionTransfer", store).put_session(whole)

"""A conversation of a file as a new session of a store: all of it or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from compact import wiring
from compact.config import CompactConfig
from compact.core import clock_and_ids
from compact.core.changes import Change
from compact.core.memory_protocols import SessionTransfer
from compact.core.protocols import SessionStore
from compact.core.resolving import DEFAULT_WINDOW
from compact.core.sessions import DEFAULT_SCOPE, Branch, Entry, Session
from compact.errors import InvalidTranscript
from compact.managers.context_manager import ContextManager
from compact.managers.exchange.session_file import SessionFile, check_tools
from compact.managers.session.state import new_branch

LONGEST_ID = 200
"""Letters of a session's id."""


@dataclass(frozen=True, slots=True)
class PreparedSession:
    """A session as a store is to keep it: its messages, counted, what was set in it, its notes."""

    session: Session
    entries: Sequence[Entry]
    changes: Sequence[Change] = ()
    notes: Mapping[str, Mapping[str, Any]] | None = None

    @property
    def tokens(self) -> int:
        """Tokens of its messages."""
        return sum(entry.tokens or 0 for entry in self.entries)


def of_transcript(transcript: wiring.Transcript, session_id: str, name: str) -> SessionFile:
    """What a transcript says, as a session of that id; `name` is that of its file.

    Raises:
        InvalidTranscript: a schema of a tool in it is broken.
    """
    try:
        check_tools(transcript.tools)
    except ValueError as error:
        raise InvalidTranscript(transcript.source, str(error)) from None
    metadata: dict[str, Any] = {"source": name, "format": transcript.format}
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
    """Whether a session may have that id."""
    return bool(name.strip()) and len(name) <= LONGEST_ID and name.isprintable()


def as_new(
    known: Session,
    store: SessionStore,
    settings: CompactConfig,
    *,
    session_id: str,
    scope: str = DEFAULT_SCOPE,
) -> Session:
    """The session as it begins in a store: under an id and in a scope, counted as settings say."""
    tokenizer = settings.tokenizer
    if not tokenizer and not settings.model and known.tokenizer in wiring.TOKENIZERS:
        tokenizer = known.tokenizer
    counter = wiring.token_counter(known.wire, tokenizer=tokenizer, model=settings.model)
    changed = {
        "id": session_id,
        "scope": scope,
        "model": known.model or settings.model,
        "tokenizer": counter.estimator.name,
        "branch": new_branch(store, session_id),
    }
    return known.model_copy(update=changed)


def prepared(session: Session, read: SessionFile, settings: CompactConfig) -> PreparedSession:
    """What a store is to keep of a session that is new. It is made in memory for it.

    Raises:
        InvalidMessage: a message cannot be stored.
        InvalidConfig: a goal or a pin cannot be set.
    """
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
            ctx.set_goals(read.goals)
        for position in read.pins:
            ctx.pin(read.messages[position])
        entries = memory.read(session.branch.id, 0, len(read.messages))
        return PreparedSession(
            session, entries, memory.changes(session.id), memory.notes(session.id)
        )


def put(store: SessionStore, ready: PreparedSession) -> Session:
    """Store a session, in one step: whatever goes wrong, and whenever the process ends, all of it
    is there or nothing. It as it stands then.

    Raises:
        Superseded: there is a session of that id.
        StoreFailed: it cannot be stored.
    """
    session, notes = ready.session, ready.notes or {}
    into = cast("SessionTransfer", store)
    return into.put_session(session, ready.entries, ready.changes, notes)

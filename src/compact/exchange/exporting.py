"""Reads a stored session for an export, and replaces its secrets if asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel

from compact import wiring
from compact.messages import chain
from compact.messages.changes import Change, GoalsSet, GoalsTracked, SystemShown
from compact.messages.characters import with_texts
from compact.messages.message_redaction import redact_message, redact_messages, redact_text
from compact.messages.messages import SYSTEM_ROLES, Message
from compact.messages.own_text import below, headed
from compact.messages.protocols import SessionStore
from compact.messages.sessions import Entry, Projection, Session, Shown
from compact.secrets.redaction import Known
from compact.secrets.redactor import Redactor
from compact.session.state import KEY
from compact.session.views import breaker, drafts
from compact.store.session_file import REDACTED, SessionFile
from compact.store.whole_session import WholeSession, read_whole

Value = TypeVar("Value", bound=BaseModel)
Redact = Callable[[str], str]
MOVED = "moved from another store"
"""The name of the note that says what the store had from which a session was moved."""
NOT_OF_THE_SESSION = (drafts.PREFIX, breaker.PREFIX, MOVED)
"""Prefixes of notes about a running process, or a move, which are not part of the session."""


def whole_session(store: SessionStore, session_id: str) -> WholeSession:
    """Read everything that a store keeps of a session, except notes of a running process or a move.

    Raises:
        NotFound: there is no such session.
    """
    return read_whole(store, session_id, without=NOT_OF_THE_SESSION)


# --- without secrets ------------------------------------------------------------------------------


def without_secrets(file: SessionFile, redactor: Redactor) -> SessionFile:
    """Return the file with the secrets in its texts replaced, and with a mark in its metadata.

    A file without secrets is returned unchanged.
    """
    known = Known(redactor=redactor)
    redact = partial(redact_text, known=known)
    whole = None if file.whole is None else _redacted_session(file.whole, known)
    if whole is None:
        messages = redact_messages(file.messages, known)
    else:
        messages = [entry.message for entry in whole.line(whole.session.branch.id)]
    made = replace(
        file,
        session=_session(file.session, redact) if whole is None else whole.session,
        messages=messages,
        goals=[_redacted(goal, redact) for goal in file.goals],
        checkpoints=[_redacted(checkpoint, redact) for checkpoint in file.checkpoints],
        whole=whole,
    )
    if _contents(made) == _contents(file):
        return file
    session = made.session.model_copy(
        update={"metadata": {**made.session.metadata, REDACTED: True}}
    )
    if whole is not None:
        # A session signs its own text with these keys. Anybody with a key could forge such text.
        notes = {name: x for name, x in (whole.notes or {}).items() if not name.startswith(KEY)}
        whole = replace(whole, session=session, notes=notes)
    return replace(made, session=session, whole=whole)


def _contents(file: SessionFile) -> list[object]:
    whole = file.whole
    contents: list[object] = [file.session, *file.messages, *file.goals, *file.checkpoints]
    if whole is not None:
        contents += [entry.message for part in whole.parts for entry in part.entries]
        contents += [*whole.changes, *whole.projections, *whole.snapshots]
    return contents


def _session(session: Session, redact: Redact) -> Session:
    # Ids and the scope are kept, even if they look like secrets, because the store needs them.
    kept = {"id": session.id, "branch": session.branch, "scope": session.scope}
    return _redacted(session, redact).model_copy(update=kept)


def _redacted(value: Value, redact: Redact) -> Value:
    redacted = type(value).model_validate(with_texts(value.model_dump(mode="json"), redact))
    ids = {name: getattr(value, name) for name in ("id", "parents") if hasattr(value, name)}
    return redacted.model_copy(update=ids)


def _redacted_session(whole: WholeSession, known: Known) -> WholeSession:
    redact = partial(redact_text, known=known)
    session = whole.session
    name = session.tokenizer if wiring.names_tokenizer(session.tokenizer) else None
    counter = wiring.token_counter(session.wire, tokenizer=name)
    entries = [entry for part in whole.parts for entry in part.entries]
    messages = iter(redact_messages([entry.message for entry in entries], known))

    def redacted(entry: Entry) -> Entry:
        message = next(messages)
        if message is entry.message:
            return entry
        counted = None if entry.tokens is None else counter.message(message)
        return entry._replace(message=message, tokens=counted)

    parts = [replace(part, entries=list(map(redacted, part.entries))) for part in whole.parts]
    made = replace(whole, session=_session(session, redact), parts=parts)
    total = sum(entry.tokens or 0 for entry in made.line(session.branch.id))
    branch = session.branch.model_copy(update={"tokens": total})
    made = replace(made, session=made.session.model_copy(update={"branch": branch}))
    links = _links(whole, made)
    return replace(
        made,
        changes=[_change(change, redact, links) for change in whole.changes],
        checkpoints=[_redacted(checkpoint, redact) for checkpoint in whole.checkpoints],
        projections=[_projection(each, known) for each in whole.projections],
        snapshots=[
            each.model_copy(
                update={
                    "note": redact(each.note),
                    "goals": tuple(_redacted(goal, redact) for goal in each.goals),
                }
            )
            for each in whole.snapshots
        ],
    )


def _links(whole: WholeSession, made: WholeSession) -> dict[str, str]:
    """Return old → new chain hash, for each leading system message whose secrets were replaced."""
    links: dict[str, str] = {}
    for part in whole.parts:
        before, after = chain.START, chain.START
        lines = whole.line(part.branch.id), made.line(part.branch.id)
        for old, new in zip(*lines, strict=True):
            if old.message.role not in SYSTEM_ROLES:
                break
            before, after = chain.link(before, old.message), chain.link(after, new.message)
            links[before.hex()] = after.hex()
    return links


def _change(change: Change, redact: Redact, links: Mapping[str, str]) -> Change:
    what = change.what
    match what:
        case GoalsSet() | GoalsTracked():
            goals = tuple(_redacted(goal, redact) for goal in what.goals)
            return change.model_copy(update={"what": what.model_copy(update={"goals": goals})})
        case SystemShown():
            update: dict[str, Any] = {
                "of": links.get(what.of, what.of),
                "messages": tuple(with_texts(what.messages, redact)),
                "own": None if what.own is None else redact(what.own),
            }
            return change.model_copy(update={"what": what.model_copy(update=update)})
        case _:
            return change


def _shown(message: Message, known: Known) -> Message:
    """Redact a message of a projection. compact's own heading is kept, because its digest may look
    like a card number.
    """
    if not isinstance(message.content, str) or headed(message.content) is None:
        return redact_message(message, known)
    words = below(message.content)
    redacted = redact_text(words, known)
    if redacted == words:
        return message
    heading = message.content.removesuffix(words)
    update = {"content": heading + redacted, "wire": None, "edited": True}
    return message.model_copy(update=update)


def _projection(projection: Projection, known: Known) -> Projection:
    pieces = tuple(
        replace(piece, message=_shown(piece.message, known)) if isinstance(piece, Shown) else piece
        for piece in projection.pieces
    )
    redact = partial(redact_text, known=known)
    live = tuple(_redacted(checkpoint, redact) for checkpoint in projection.checkpoints)
    return projection.model_copy(update={"pieces": pieces, "checkpoints": live})

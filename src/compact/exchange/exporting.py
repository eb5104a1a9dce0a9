"""A session of a store as a value that can be written, whole or one branch of it; and what of it
may leave: the same without secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel

from compact import wiring
from compact.errors import NotFound
from compact.exchange.session_file import REDACTED, SessionFile
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
from compact.session.session_log import EVER
from compact.session.state import KEY
from compact.session.views import breaker, drafts
from compact.store.whole_session import OwnPart, WholeSession

Told = TypeVar("Told", bound=BaseModel)
_OF_THIS_PROCESS = (drafts.PREFIX, breaker.PREFIX)
"""How the names of notes begin that say what is going on, and nothing of the session."""


def whole_session(store: SessionStore, session_id: str) -> WholeSession:
    """Everything that a store keeps of a session. Messages are read last: whatever refers to one
    was there before, so that a session which is used meanwhile is told as it was at one time.

    Raises:
        NotFound: there is no such session.
    """
    session = store.session(session_id)
    moves = store.moves(session_id, None, most=EVER)[::-1]
    snapshots = store.snapshots(session_id)
    changes = store.changes(session_id)
    named = [name for move in moves for name in (move.before, move.projection_id)]
    named += [snapshot.projection_id for snapshot in snapshots]
    projections = dict(_projections(store, dict.fromkeys(named)))
    notes = store.notes(session_id)
    checkpoints = store.checkpoints(session_id)
    parts = [
        OwnPart(branch, store.read(branch.id, branch.fork, branch.messages))
        for branch in store.branches(session_id)
    ]
    return WholeSession(
        session,
        parts,
        changes=_numbered(changes),
        notes={name: note for name, note in notes.items() if not name.startswith(_OF_THIS_PROCESS)},
        checkpoints=checkpoints,
        projections=list(projections.values()),
        moves=[move.model_copy(update={"number": n}) for n, move in enumerate(moves, 1)],
        snapshots=snapshots,
    )


def _projections(
    store: SessionStore, names: Mapping[str | None, None]
) -> Iterator[tuple[str, Projection]]:
    for name in names:
        if name is not None:
            with suppress(NotFound):
                yield name, store.projection(name)


def _numbered(changes: Sequence[Change]) -> list[Change]:
    """Entries by numbers from 1 on, and so what goes on from one of them."""
    found = []
    for number, change in enumerate(changes, 1):
        what = change.what
        if isinstance(what, GoalsTracked):
            before = sum(each.number <= what.since for each in changes)
            what = what.model_copy(update={"since": before})
        found.append(change.model_copy(update={"number": number, "what": what}))
    return found


# --- without secrets ------------------------------------------------------------------------------


def without_secrets(file: SessionFile, redactor: Redactor) -> SessionFile:
    """The same, as it may leave: each text in it without secrets. One in which a text was replaced
    says so in its metadata; where none was, it is the same file.
    """
    known = Known(redactor=redactor)
    told = partial(redact_text, known=known)
    whole = None if file.whole is None else _whole(file.whole, known)
    if whole is None:
        messages = redact_messages(file.messages, known)
    else:
        messages = [entry.message for entry in whole.line(whole.session.branch.id)]
    made = replace(
        file,
        session=_session(file.session, told) if whole is None else whole.session,
        messages=messages,
        goals=[_told(goal, told) for goal in file.goals],
        checkpoints=[_told(checkpoint, told) for checkpoint in file.checkpoints],
        whole=whole,
    )
    if _said(made) == _said(file):
        return file
    session = made.session.model_copy(
        update={"metadata": {**made.session.metadata, REDACTED: True}}
    )
    if whole is not None:
        # By these keys the session knows its own text: who has one can write such text.
        notes = {name: x for name, x in (whole.notes or {}).items() if not name.startswith(KEY)}
        whole = replace(whole, session=session, notes=notes)
    return replace(made, session=session, whole=whole)


def _said(file: SessionFile) -> list[object]:
    """All texts of a file, to be compared."""
    whole = file.whole
    found: list[object] = [file.session, *file.messages, *file.goals, *file.checkpoints]
    if whole is not None:
        found += [entry.message for part in whole.parts for entry in part.entries]
        found += [*whole.changes, *whole.projections, *whole.snapshots]
    return found


def _session(session: Session, told: Callable[[str], str]) -> Session:
    """A session without secrets; what it is called by is none."""
    kept = {"id": session.id, "branch": session.branch, "scope": session.scope}
    return _told(session, told).model_copy(update=kept)


def _told(value: Told, told: Callable[[str], str]) -> Told:
    made = type(value).model_validate(with_texts(value.model_dump(mode="json"), told))
    named = {name: getattr(value, name) for name in ("id", "parents") if hasattr(value, name)}
    return made.model_copy(update=named)


def _whole(whole: WholeSession, known: Known) -> WholeSession:
    told = partial(redact_text, known=known)
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
    made = replace(whole, session=_session(session, told), parts=parts)
    total = sum(entry.tokens or 0 for entry in made.line(session.branch.id))
    branch = session.branch.model_copy(update={"tokens": total})
    made = replace(made, session=made.session.model_copy(update={"branch": branch}))
    links = _links(whole, made)
    return replace(
        made,
        changes=[_change(change, told, links) for change in whole.changes],
        checkpoints=[_told(checkpoint, told) for checkpoint in whole.checkpoints],
        projections=[_projection(each, known) for each in whole.projections],
        snapshots=[
            each.model_copy(
                update={
                    "note": told(each.note),
                    "goals": tuple(_told(goal, told) for goal in each.goals),
                }
            )
            for each in whole.snapshots
        ],
    )


def _links(whole: WholeSession, made: WholeSession) -> dict[str, str]:
    """The chain's hash after each leading system message, and what it is without secrets."""
    found: dict[str, str] = {}
    for part in whole.parts:
        before, after = chain.START, chain.START
        lines = whole.line(part.branch.id), made.line(part.branch.id)
        for old, new in zip(*lines, strict=True):
            if old.message.role not in SYSTEM_ROLES:
                break
            before, after = chain.link(before, old.message), chain.link(after, new.message)
            found[before.hex()] = after.hex()
    return found


def _change(change: Change, told: Callable[[str], str], links: Mapping[str, str]) -> Change:
    what = change.what
    match what:
        case GoalsSet() | GoalsTracked():
            goals = tuple(_told(goal, told) for goal in what.goals)
            return change.model_copy(update={"what": what.model_copy(update={"goals": goals})})
        case SystemShown():
            update: dict[str, Any] = {
                "of": links.get(what.of, what.of),
                "messages": tuple(with_texts(what.messages, told)),
                "own": None if what.own is None else told(what.own),
            }
            return change.model_copy(update={"what": what.model_copy(update=update)})
        case _:
            return change


def _shown(message: Message, known: Known) -> Message:
    """A message of a projection without secrets. A heading of our own is none, however its digest
    looks: some pass for the number of a card.
    """
    if not isinstance(message.content, str) or headed(message.content) is None:
        return redact_message(message, known)
    words = below(message.content)
    told = redact_text(words, known)
    if told == words:
        return message
    heading = message.content.removesuffix(words)
    update = {"content": heading + told, "wire": None, "edited": True}
    return message.model_copy(update=update)


def _projection(projection: Projection, known: Known) -> Projection:
    pieces = tuple(
        replace(piece, message=_shown(piece.message, known)) if isinstance(piece, Shown) else piece
        for piece in projection.pieces
    )
    told = partial(redact_text, known=known)
    live = tuple(_told(checkpoint, told) for checkpoint in projection.checkpoints)
    return projection.model_copy(update={"pieces": pieces, "checkpoints": live})

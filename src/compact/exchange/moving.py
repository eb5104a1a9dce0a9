"""Moves all sessions from one store into another: a file's to a server, and back.

Each session is stored in one transaction, read back, and compared. A note in it says what the
source had. So the same command goes on after a kill, and brings what was added since, while both
stores are in use. What somebody wrote in the target is never replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from typing import Literal, NamedTuple, cast

from compact import wiring
from compact.errors import InvalidInput, NotFound, StoreFailed, Superseded
from compact.exchange.exporting import MOVED, NOT_OF_THE_SESSION, whole_session
from compact.messages import codec
from compact.messages.protocols import SessionStore, SessionTransfer
from compact.store.whole_session import WholeSession, read_whole

Outcome = Literal["moved", "renewed", "there", "kept", "gone"]
"""`moved`: new in the target. `renewed`: it had grown in the source. `there`: nothing to do.
`kept`: the target has another session of that id, or somebody wrote in both; it stays as it is.
`gone`: it was moved, and deleted in the source since."""


class Moved(NamedTuple):
    """What was done with one session."""

    session_id: str
    scope: str
    outcome: Outcome
    messages: int
    """How many messages its branches have, each counted once."""
    why: str = ""


def move(
    source: SessionStore,
    target: SessionStore,
    *,
    scope: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Moved]:
    """Move the sessions of a scope, or of all, oldest first. Yield what was done with each. The
    source stays as it is. `progress` gets the number of sessions done and the total.

    Raises:
        StoreFailed: a store cannot be read or written, or a session in the target is not what was
            sent. What was moved before stays.
    """
    sessions = source.sessions(scope=scope)[::-1]
    for done, session in enumerate(sessions, 1):
        own, other = (wiring.memory_store(each, session.scope) for each in (source, target))
        with suppress(NotFound):  # it was deleted meanwhile
            yield _one(own, other, session.id, session.scope)
        if progress is not None:
            progress(done, len(sessions))
    yield from _gone(source, target, scope)


def _one(
    source: wiring.SQLiteManager, target: wiring.SQLiteManager, session_id: str, scope: str
) -> Moved:
    for _ in range(3):  # somebody may write in the source meanwhile
        now, seen = outline(source, session_id), None
        outcome: Outcome = "moved"
        with suppress(NotFound):
            # the version is read before everything else of it
            seen = target.version(target.session(session_id).branch.id)
            decided = _decided(source, target, session_id, scope, now)
            if decided is not None:
                return decided
            if seen is None:  # somebody writes
                continue
            outcome = "renewed"
        whole = whole_session(source, session_id)
        if outline_of(whole) != now:
            continue
        marked = replace(whole, notes={**(whole.notes or {}), MOVED: {"outline": now}})
        try:
            transfer = cast("SessionTransfer", target)
            transfer.put_session(marked, replaces=seen)
        except Superseded:  # somebody wrote in the target since: look again
            continue
        except InvalidInput as error:
            return Moved(session_id, scope, "kept", 0, str(error))
        if outline(target, session_id) != now:
            target.note(session_id, MOVED, None)  # no later run takes it for what was sent
            raise StoreFailed(f"session {session_id!r} is not in the target what it is here")
        _bring_digest(source, target, session_id)
        messages = sum(len(part.entries) for part in whole.parts)
        return Moved(session_id, scope, outcome, messages)
    return Moved(session_id, scope, "kept", 0, "it is written all the time: move it again later")


def _decided(
    source: wiring.SQLiteManager,
    target: wiring.SQLiteManager,
    session_id: str,
    scope: str,
    now: str,
) -> Moved | None:
    """Return what becomes of a session that the target has. None if it is to be brought up to date.
    `now` is its outline in the source.
    """
    if target.session(session_id).scope != scope:
        why = "a session of that id is there, in another scope"
        return Moved(session_id, scope, "kept", 0, why)
    known = outline(target, session_id)
    mark = target.notes(session_id).get(MOVED, {}).get("outline")
    if now == known:  # a digest may be new, or an earlier run was killed before it
        _bring_digest(source, target, session_id)
    if now in (known, mark):
        return Moved(session_id, scope, "there", 0)
    is_same = _continues(source, target, session_id)
    if mark == known and is_same:
        return None
    why = "was written in both since" if mark and is_same else "has the same id and other contents"
    return Moved(session_id, scope, "kept", 0, f"a session that {why} is there")


def _bring_digest(
    source: wiring.SQLiteManager, target: wiring.SQLiteManager, session_id: str
) -> None:
    digest = source.digest(session_id)
    if digest is not None and target.digest(session_id) is None:
        branch = source.session(session_id).branch
        chain = source.chain(branch.id, branch.messages)
        with suppress(Superseded, NotFound):  # somebody goes on with it already
            target.keep_digest(session_id, digest, chain=chain)


def _continues(source: SessionStore, target: SessionStore, session_id: str) -> bool:
    """Whether the source's session began as the target's one: not another session of that id."""
    if source.session(session_id).created_at != target.session(session_id).created_at:
        return False
    with suppress(NotFound):
        return all(
            source.chain(each.id, each.messages) == target.chain(each.id, each.messages)
            for each in target.branches(session_id)
        )
    return False


def _gone(source: SessionStore, target: SessionStore, scope: str | None) -> Iterator[Moved]:
    here = {(each.scope, each.id) for each in source.sessions(scope=scope)}
    for each in target.sessions(scope=scope):
        if (each.scope, each.id) not in here:
            other = wiring.memory_store(target, each.scope)
            if MOVED in other.notes(each.id):
                why = "it was deleted in the source: compactctl memory forget deletes it here"
                yield Moved(each.id, each.scope, "gone", 0, why)


# --- what a session is ----------------------------------------------------------------------------


def outline(store: SessionStore, session_id: str) -> str:
    """Return a hash of everything that a store has of a session, without reading its messages: each
    branch's chain stands for them.

    Raises:
        NotFound: there is no such session.
    """
    whole = read_whole(store, session_id, without=NOT_OF_THE_SESSION, with_messages=False)
    chains = {
        each.branch.id: store.chain(each.branch.id, each.branch.messages) for each in whole.parts
    }
    return _outline(whole, chains)


def outline_of(whole: WholeSession) -> str:
    """Return the hash for a session that was read with its messages."""
    return _outline(whole, whole.chains())


def _outline(whole: WholeSession, chains: Mapping[str, bytes]) -> str:
    session = whole.session.model_dump(mode="json", exclude={"branch", "updated_at"})
    parts = [
        [part.branch.model_dump(mode="json"), chains[part.branch.id].hex()] for part in whole.parts
    ]
    kinds = whole.changes, whole.checkpoints, whole.moves, whole.snapshots
    lists = [[each.model_dump(mode="json") for each in kind] for kind in kinds]
    projections = [projection.id for projection in whole.projections]
    notes = dict(sorted((whole.notes or {}).items()))
    values = [session, whole.session.branch.id, parts, lists, projections, notes]
    return blake2b(codec.dump(values), digest_size=16).hexdigest()

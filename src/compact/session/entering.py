"""How a given message becomes an entry of a session's log: read, scored, counted, marked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from compact import wiring
from compact.errors import NotFound, StoreFailed, Superseded
from compact.messages.formats.known import format_named
from compact.messages.formats.wire import Before, WireFormat
from compact.messages.given import Given, message_given
from compact.messages.messages import META, SYSTEM_ROLES, Message
from compact.messages.protocols import SessionStore
from compact.messages.sessions import FIXED, PERSON, Branch, Entry, Session, free_branch_id
from compact.messages.times import check_time, time_in
from compact.messages.tokens import TokenCounter
from compact.text.speakers import may_be_persons

WIRE = "chat_completions"
"""The wire format of sessions that memory creates."""
MOST_TRIES = 100
"""How often to try to append, or to take a list or a step, if other processes write first. More
tries help only if many processes write to one session at once."""
OURS = (*META, "importance_score")
"""Fields of a message that are compact's own. They are never sent to a provider."""


def parsed(
    wire: WireFormat,
    raw: Message | Mapping[str, Any],
    position: int,
    before: Before = (),
) -> Message:
    """Read a given message, for a session of that wire format. `before` are the messages that it
    follows, newest first.

    Raises:
        InvalidMessage: it is malformed; the text names the field.
    """
    if isinstance(raw, Message):
        if raw.wire_format is None and raw.wire is None and not isinstance(raw.content, str):
            return raw.model_copy(update={"wire_format": wire.name})  # so that it will be sent
        return raw
    message = wire.parse(raw, position, before)
    if raw.keys().isdisjoint(OURS):
        return message
    sent = {k: v for k, v in (message.wire or {}).items() if k not in OURS}
    fields = {"role": message.role, "importance_score": raw.get("importance_score")}
    score = Message.of(fields, path=f"messages[{position}]").importance_score
    return message.model_copy(update={"wire": sent, "importance_score": score})


def scored(message: Message) -> Message:
    """Give the message its importance, except the part that depends on its age."""
    if message.importance_score is not None:
        return message
    from compact.text.importance import lasting

    return message.model_copy(update={"importance_score": round(lasting(message), 3)})


def entry_of(
    message: Message,
    counter: TokenCounter,
    before: Callable[[], Message | None],
    never_pruned: Collection[str],
) -> Entry:
    """Return the entry for a message. `before` returns the message that it follows."""
    fixed = message.role in never_pruned or message.is_pinned
    person = may_be_persons(message, before)
    return Entry(message, counter.message(message), FIXED * fixed | PERSON * person)


def new_branch(store: SessionStore, session_id: str) -> Branch:
    """Return the session's next branch, or its first one, with an id that is new to the store."""

    def is_taken(name: str) -> bool:
        try:
            store.branch(name)
        except NotFound:
            return False
        return True

    name = free_branch_id(session_id, len(store.branches(session_id)), is_taken)
    return Branch(id=name, session_id=session_id)


def added(store: SessionStore, scope: str, session_id: str, given: Given) -> Message:
    """Append a message to a session of a scope. The session is created if there is none.

    Raises:
        InvalidMessage: it is malformed.
        NotFound: the session belongs to another scope.
        StoreFailed: it could not be stored.
    """
    message = message_given(given, "message")
    if not isinstance(message, Message):
        check_time(message, "message")
    try:
        session = store.session(session_id)
    except NotFound:
        counter = wiring.token_counter(WIRE)
        branch, tokenizer = new_branch(store, session_id), counter.estimator.name
        new = Session(id=session_id, scope=scope, wire=WIRE, tokenizer=tokenizer, branch=branch)
        begun = message.timestamp if isinstance(message, Message) else time_in(message)
        if begun is not None:
            new = new.model_copy(update={"created_at": begun})
        session = store.session(session_id, create=new)
    if session.scope != scope:
        free = f"the id is another scope's: choose one such as {f'{scope}/{session_id}'!r}"
        raise NotFound(f"no session {session_id!r} in scope {scope!r}; {free}")
    counter = wiring.token_counter(session.wire, tokenizer=session.tokenizer)
    branch_id, wire = session.branch.id, format_named(session.wire)
    for _ in range(MOST_TRIES):
        at = store.branch(branch_id).messages
        before: list[Message] = []
        with suppress(StoreFailed):  # it may be in an archive that is out of reach
            before = [each.message for each in store.read(branch_id, max(0, at - 1), at)]
        made = scored(parsed(wire, message, at, before))
        entry = entry_of(made, counter, partial(next, iter(before), None), SYSTEM_ROLES)
        with suppress(Superseded):
            store.append(branch_id, [entry], expected=at)
            return made
    raise Superseded("other writers were faster, again and again")

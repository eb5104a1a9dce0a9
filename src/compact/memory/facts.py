"""The lasting statements of a person, in their newest wording, with the wordings that they
replaced.

All sentences of notes (`MemoryManager.remember`) and of marked messages are lasting. A person's
other sentences are lasting if they are rules (`text.instructions`) or give a value
(`text.restatements`). `text.restatements` also decides which sentence a later one replaces. It
knows only English. In doubt both are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from pydantic import BaseModel

from compact.messages.codec import instant
from compact.messages.messages import Message
from compact.messages.protocols import SessionStore
from compact.text.instructions import instructions_in
from compact.text.restatements import Restatements, Statement, statements_in
from compact.text.sentences import lines_of, sentences_of
from compact.text.speakers import own_words_of, person_text

NOTE = "note"
"""The tag of messages that `MemoryManager.remember` makes."""
PAGE, MOST_STATED = 1_000, 100_000
"""How many messages to read at once, and how many statements can still be replaced."""


class Wording(BaseModel, frozen=True, defer_build=True):
    """A sentence of a person, and where it was said."""

    text: str
    at: datetime
    """When it was first said, if the same words were said again."""
    session_id: str
    position: int
    message_id: str


class Fact(Wording, frozen=True):
    """A lasting statement of a person in its current wording."""

    noted: bool = False
    """Whether it was kept by `remember`, or its message is marked."""
    withdrawn: bool = False
    """Whether the current wording takes back an earlier statement."""
    before: tuple[Wording, ...] = ()
    """The wordings that were replaced, oldest first."""


Lasting = tuple[Wording, Message, bool, Statement | None]
"""A lasting sentence, its message, whether it was noted, and the value that it states."""


def facts_of(
    store: SessionStore, scope: str, progress: Callable[[int, int], None] | None = None
) -> list[Fact]:
    """Return the facts of a scope, newest first. This reads all messages of the scope."""
    lasting, sessions = list[Lasting](), store.sessions(scope=scope)
    for done, session in enumerate(sessions):
        if progress is not None:
            progress(done, len(sessions))
        branch = session.branch
        for first in range(0, branch.messages, PAGE):
            entries = store.read(branch.id, first, min(first + PAGE, branch.messages))
            for position, entry in enumerate(entries, first):
                lasting += lasting_in(entry.message, session.id, position)
    facts = with_history(sorted(lasting, key=lambda each: _when(each[0])))
    return sorted(facts, key=_when, reverse=True)


def lasting_in(message: Message, session_id: str, position: int) -> Iterator[Lasting]:
    """Yield the lasting sentences of a message. Yields nothing if no person wrote it."""
    marks = message.metadata
    noted = NOTE in marks.tags or marks.important or marks.pinned or marks.protected
    words = person_text(message) if noted else own_words_of(message)
    if not words:
        return
    stated = {each.text: each for each in statements_in(words)}
    rules = {each.text for each in instructions_in(words) if each.is_rule}
    for text in (x for line in lines_of(words) for x in sentences_of(line)):
        if noted or text in stated or text in rules:
            place = {"session_id": session_id, "position": position, "message_id": message.id}
            said = Wording(text=text, at=message.timestamp, **place)
            yield said, message, noted, stated.get(text)


def with_history(lasting: Iterable[Lasting]) -> Iterator[Fact]:
    """Yield the current facts, each with what it replaced. `lasting` must be in order of time."""
    facts, keys = dict[str, Fact](), dict[tuple[int, str], str]()
    stated = Restatements[Message](MOST_STATED)
    for said, message, noted, statement in lasting:
        key, replaced = " ".join(said.text.lower().split()), list[Fact]()
        for owner, text in stated.state(statement, message) if statement else ():
            if old := facts.pop(keys.get((id(owner), text), ""), None):
                replaced.append(old)
        keys[id(message), said.text] = key
        values = statement.frames.items() if statement else ()
        withdrawn = any(frame.kind == "rule" and value == "free" for frame, value in values)
        same = facts.pop(key, None)
        if same is None and withdrawn and not replaced:
            continue
        before = [x for old in replaced for x in (*old.before, _wording(old))]
        before += same.before if same else ()
        facts[key] = Fact(
            **(_wording(same) if same else said).model_dump(),
            noted=noted or (same is not None and same.noted),
            withdrawn=withdrawn,
            before=tuple(sorted(before, key=_when)),
        )
    yield from facts.values()


def _when(said: Wording) -> int:
    return instant(said.at)


def _wording(fact: Fact) -> Wording:
    return Wording(**fact.model_dump(include=set(Wording.model_fields)))

"""Knows which sessions of a store came from which files, and compares files with sessions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple

from compact.errors import NotFound, StoreFailed
from compact.memory.retention import RESTORED
from compact.messages import chain
from compact.messages.codec import encode_whole, instant
from compact.messages.messages import Message
from compact.messages.protocols import SessionStore
from compact.messages.sessions import Session
from compact.session.session_log import EVER

MARK = "migrated"
"""The metadata key under which a session names the file that it came from."""
PAGE = 1_000
"""How many messages are read at once."""
READING = 1_000_000
"""If a conversation's times are all within this many microseconds, they are the time of reading,
and the file has none."""
Compared = Literal["same", "grown", "behind", "other"]


class StoredState(NamedTuple):
    """A session's scope, and a digest that changes when somebody writes to the session."""

    scope: str
    digest: str


def mark_of(digest: str, number: int, path: Path) -> dict[str, Any]:
    """Return the metadata entry that names a session's source. It has only a digest of the path,
    because exports contain the metadata, and a path may name private folders.
    """
    return {"sha256": digest, "conversation": number, "place": _place(path)}


def states_of(store: SessionStore) -> dict[str, StoredState]:
    """Return the states of all sessions of all scopes: session id → state. Background work
    (indexes, digests, archives) does not change a state.
    """
    return {each.id: StoredState(each.scope, _digest_of(store, each)) for each in store.sessions()}


def _digest_of(store: SessionStore, session: Session) -> str:
    branches, metadata = store.branches(session.id), session.metadata
    state = [
        session.title,
        sorted((name, value) for name, value in metadata.items() if name != RESTORED),
        [session.branch.id, *sorted((each.id, each.messages) for each in branches)],
        [change.model_dump(mode="json") for change in store.changes(session.id)],
        len(store.moves(session.id, None, most=EVER)),
        [each.id for each in store.snapshots(session.id)],
    ]
    return sha256(json.dumps(state, default=str).encode()).hexdigest()[:16]


def _place(path: Path) -> str:
    return sha256(str(path.absolute()).encode("utf-8", "surrogateescape")).hexdigest()[:32]


@dataclass(slots=True)
class StoredSources:
    """The sessions of a scope that came from files, by the file's content and by its path."""

    store: SessionStore
    scope: str
    _by_content: dict[tuple[str, int], str] = field(default_factory=dict)
    _by_place: dict[tuple[str, int], str] = field(default_factory=dict)
    _by_beginning: dict[bytes, list[tuple[str, int, int]]] | None = None

    def __post_init__(self) -> None:
        for session in self.store.sessions(scope=self.scope):
            self.add(session.metadata, session.id)

    def add(self, metadata: Mapping[str, Any], session_id: str) -> None:
        """Add a session, if its metadata names a source."""
        mark = metadata.get(MARK)
        if isinstance(mark, Mapping):
            number = mark.get("conversation", 1)
            self._by_content[str(mark.get("sha256")), number] = session_id
            self._by_place[str(mark.get("place")), number] = session_id
            self._begins(session_id)

    def with_content(self, digest: str, number: int) -> str | None:
        """Return the session that came from a file with this content, or None."""
        return self._by_content.get((digest, number))

    def from_place(self, path: Path, number: int) -> str | None:
        """Return the session that came from this path, whatever the file contained, or None."""
        return self._by_place.get((_place(path), number))

    def begun_alike(self, messages: Sequence[Message]) -> tuple[list[str], list[str]]:
        """Return sessions from files that begin with the same message. The first list has those
        that begin at the same time. The second has those where the session or the messages have no
        times of their own.
        """
        if self._by_beginning is None:
            self._by_beginning = {}
            for session_id in dict.fromkeys(self._by_content.values()):
                self._begins(session_id)
        at, until = instant(messages[0].timestamp), instant(messages[-1].timestamp)
        alike = self._by_beginning.get(chain.link(chain.START, messages[0]), [])
        sure = [name for name, first, _ in alike if first == at]
        timeless = [name for name, first, last in alike if min(last - first, until - at) < READING]
        return sure, [name for name in timeless if name not in sure]

    def _begins(self, session_id: str) -> None:
        if self._by_beginning is not None:
            # The session may be one of a dry run, or its archive cannot be read.
            with suppress(NotFound, StoreFailed):
                session = self.store.session(session_id)
                entries = self.store.read(session.branch.id, 0, 1)
                times = instant(entries[0].message.timestamp), instant(session.updated_at)
                alike = self._by_beginning.setdefault(self.store.chain(session.branch.id, 1), [])
                alike.append((session_id, *times))


def links_of(messages: Sequence[Message]) -> list[bytes]:
    """Return the chain hash after each message."""
    return list(accumulate(messages, chain.link, initial=chain.START))[1:]


def compared(have: int, link_after: Callable[[int], bytes], links: Sequence[bytes]) -> Compared:
    """Compare a file with a session of `have` messages. `links` are the file's chain hashes;
    `link_after` returns the session's. `grown` means that the file has more messages than the
    session, `behind` that it has fewer.
    """
    both = min(have, len(links))
    if both == 0 or link_after(both) != links[both - 1]:
        return "other"
    if have == len(links):
        return "same"
    return "grown" if have < len(links) else "behind"


def stored_as_read(
    store: SessionStore, branch_id: str, messages: Sequence[Message], *, start: int = 0
) -> str | None:
    """Return how the stored messages differ from these, as text. Return None if they are equal."""
    have = store.branch(branch_id).messages
    if have != len(messages):
        return f"{have:,} messages were read back instead of {len(messages):,}"
    for first in range(start, len(messages), PAGE):
        entries = store.read(branch_id, first, first + PAGE)
        pairs = zip(entries, messages[first : first + PAGE], strict=True)
        for at, (entry, message) in enumerate(pairs, first):
            if not _is_same(entry.message, message):
                return f"message {at:,} was read back with other contents"
    return None


def session_in(store: SessionStore, session_id: str) -> Session | None:
    """Return the session with this id, or None."""
    try:
        return store.session(session_id)
    except NotFound:
        return None


def _is_same(stored: Message, message: Message) -> bool:
    value = encode_whole(stored)
    if message.importance_score is None:
        value["score"] = None  # a store gives each message an importance
    return value == encode_whole(message)

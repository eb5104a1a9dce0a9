"""Which conversations a store has from which files, and how a file's compares with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

from compact.errors import NotFound
from compact.memory.ages import RESTORED
from compact.messages import chain
from compact.messages.codec import encode_whole
from compact.messages.messages import Message
from compact.messages.protocols import SessionStore
from compact.messages.sessions import Session
from compact.session.session_log import EVER

MARK = "migrated"
"""The key of a session's metadata that says which file it came from."""
"""Keys that compact writes by itself into a session's metadata."""
PAGE = 1_000
"""Messages that are read at once."""
Compared = Literal["same", "grown", "behind", "other"]


class StoredState(NamedTuple):
    """By what it is seen that somebody wrote to a session."""

    scope: str
    digest: str


def mark_of(digest: str, number: int, path: Path) -> dict[str, Any]:
    """What a session's metadata says of its source. The path is in it by its digest only: exports
    carry the metadata, and nobody else is told how folders are called.
    """
    return {"sha256": digest, "conversation": number, "place": _place(path)}


def states_of(store: SessionStore) -> dict[str, StoredState]:
    """How each session of a store stands, of all scopes. What runs by itself is left out: indexes,
    digests, archives.
    """
    return {each.id: StoredState(each.scope, _digest_of(store, each)) for each in store.sessions()}


def _digest_of(store: SessionStore, session: Session) -> str:
    branches, metadata = store.branches(session.id), session.metadata
    seen = [
        session.title,
        sorted((name, value) for name, value in metadata.items() if name != RESTORED),
        [session.branch.id, *sorted((each.id, each.messages) for each in branches)],
        [change.model_dump(mode="json") for change in store.changes(session.id)],
        len(store.moves(session.id, None, most=EVER)),
        [each.id for each in store.snapshots(session.id)],
    ]
    return sha256(json.dumps(seen, default=str).encode()).hexdigest()[:16]


def _place(path: Path) -> str:
    return sha256(str(path.absolute()).encode("utf-8", "surrogateescape")).hexdigest()[:32]


@dataclass(slots=True)
class StoredSources:
    """What a scope of a store has from files, by content and by place."""

    _by_content: dict[tuple[str, int], str] = field(default_factory=dict)
    _by_place: dict[tuple[str, int], str] = field(default_factory=dict)

    @classmethod
    def of(cls, store: SessionStore, scope: str) -> StoredSources:
        """Those of a store."""
        found = cls()
        for session in store.sessions(scope=scope):
            found._learn(session.metadata.get(MARK), session.id)
        return found

    def _learn(self, mark: object, session_id: str) -> None:
        if isinstance(mark, Mapping):
            number = mark.get("conversation", 1)
            self._by_content[str(mark.get("sha256")), number] = session_id
            self._by_place[str(mark.get("place")), number] = session_id

    def add(self, metadata: Mapping[str, Any], session_id: str) -> None:
        """Take in what is stored now, or would be."""
        self._learn(metadata.get(MARK), session_id)

    def with_content(self, digest: str, number: int) -> str | None:
        """The session that came from a file of that content."""
        return self._by_content.get((digest, number))

    def from_place(self, path: Path, number: int) -> str | None:
        """The session that came from that file, whatever it held then."""
        return self._by_place.get((_place(path), number))


def links_of(messages: Sequence[Message]) -> list[bytes]:
    """The chain's hash after each of these messages."""
    found: list[bytes] = []
    link = chain.START
    for message in messages:
        link = chain.link(link, message)
        found.append(link)
    return found


def compared(have: int, link_after: Callable[[int], bytes], links: Sequence[bytes]) -> Compared:
    """How a file whose messages have these links compares with a session that has so many messages,
    and that link after the first of them: `grown` where it goes on after them, `behind` where it
    ends before them.
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
    """None where the store gives back exactly these messages; else what is wrong."""
    have = store.branch(branch_id).messages
    if have != len(messages):
        return f"{have:,} messages were read back, and not {len(messages):,}"
    for first in range(start, len(messages), PAGE):
        entries = store.read(branch_id, first, first + PAGE)
        pairs = zip(entries, messages[first : first + PAGE], strict=True)
        for at, (entry, message) in enumerate(pairs, first):
            if not _is_same(entry.message, message):
                return f"message {at:,} was read back with other contents"
    return None


def session_in(store: SessionStore, session_id: str) -> Session | None:
    """The session of that id, if there is one."""
    try:
        return store.session(session_id)
    except NotFound:
        return None


def _is_same(stored: Message, message: Message) -> bool:
    """Whether they are the same, but for the importance that a message got when it was stored."""
    told = encode_whole(stored)
    if message.importance_score is None:
        told["score"] = None
    return told == encode_whole(message)

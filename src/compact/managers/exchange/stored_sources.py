"""Which conversations a store has from which files, and how a file's compares with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from compact.core import chain
from compact.core.codec import encode_whole
from compact.core.messages import Message
from compact.core.protocols import SessionStore
from compact.core.sessions import Session, Snapshot
from compact.core.whole_session import WholeSession
from compact.errors import NotFound
from compact.managers.exchange import legacy_snapshots
from compact.managers.session.session_log import EVER

MARK = "migrated"
"""The key of a session's metadata that says which file it came from."""
MIGRATION = "migration"
"""The key in it that says which migration made the session, and elsewhere which one did what."""
PAGE = 1_000
"""Messages that are read at once."""
Compared = Literal["same", "grown", "behind", "other"]


def mark_of(digest: str, number: int, path: Path, migration: str) -> dict[str, Any]:
    """What a session's metadata says of its source. The path is in it by its digest only: exports
    carry the metadata, and nobody else is told how folders are called.
    """
    return {
        "sha256": digest,
        "conversation": number,
        "place": _place(path),
        MIGRATION: migration,
    }


def size_of(store: SessionStore, session_id: str) -> list[int]:
    """By what it is seen that somebody went on with a session: how many messages it has on all
    branches, how many entries of what was set in it, and how many branches, moves and snapshots;
    not counted are the snapshots that a migration took.
    """
    branches = store.branches(session_id)
    return [
        sum(branch.messages - branch.fork for branch in branches),
        len(store.changes(session_id)),
        len(branches),
        len(store.moves(session_id, None, most=EVER)),
        len(_of_people(store.snapshots(session_id), store.notes(session_id))),
    ]


def size_in(whole: WholeSession) -> list[int]:
    """The same of a session that is not stored yet."""
    return [
        sum(len(part.entries) for part in whole.parts),
        len(whole.changes),
        len(whole.parts),
        len(whole.moves),
        len(_of_people(whole.snapshots, whole.notes or {})),
    ]


def _of_people(snapshots: Sequence[Snapshot], notes: Mapping[str, object]) -> list[Snapshot]:
    return [each for each in snapshots if f"{legacy_snapshots.NOTE}{each.id}" not in notes]


def said_of(session: Session) -> list[Any]:
    """What people say of a session: its title, whether it is important, and its tags."""
    metadata = session.metadata
    return [session.title, bool(metadata.get("important")), list(metadata.get("tags") or ())]


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

"""The list that a client sent last. The same list again, or one that goes on from it, is told by
one digest, as long as the session is what it was then; any other list is recognized.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import orjson

from compact.messages.chain import SIZE
from compact.messages.given import Given as Anything
from compact.messages.messages import SYSTEM_ROLES, Message
from compact.session.lists import syncing
from compact.session.lists.merged import Given, may_be_joined, text_of
from compact.session.lists.recognition import Recognized, is_note, recognized
from compact.session.state import SessionState
from compact.session.views.view import View

PLAIN = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
"""What may be in a list that is known by its digest: nothing but what JSON has."""


class ListDigest:
    """A list, and digests of its beginnings. It is read once, as far as one is asked for."""

    def __init__(self, messages: Sequence[Anything]) -> None:
        self.messages = messages
        self._begin()

    def _begin(self) -> None:
        self._read, self._hash = 0, blake2b(digest_size=SIZE)

    def of_first(self, count: int) -> bytes:
        """Of so many messages as they are written; empty where they are more than JSON."""
        if count < self._read:
            self._begin()
        try:
            for message in self.messages[self._read : count]:
                self._hash.update(orjson.dumps(message, option=PLAIN))
                self._read += 1
        except TypeError:
            return b""
        return self._hash.digest()


class LastList:
    """Tells how a list begins with the one before it."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._messages = 0
        """How many messages it had."""
        self._digest = b""
        self.ours = 0
        """How many of them were of compact's own making."""
        self._then: tuple[str, int, int] | None = None
        """The session as it was when it was taken in."""

    def keep(self, given: ListDigest, ours: int) -> None:
        """Know the list that was just taken in, so many messages of it of compact's own making."""
        self._messages, self.ours = len(given.messages), ours
        self._digest, self._then = given.of_first(self._messages), self._now()

    def known(self, given: ListDigest) -> int:
        """How many messages of a list, from the first on, are the whole list before it; 0 where
        they are not, or where the session is another one by now.
        """
        known = self._messages
        if not self._digest or self._then != self._now() or known > len(given.messages):
            return 0
        return known if given.of_first(known) == self._digest else 0

    def _now(self) -> tuple[str, int, int]:
        state = self._state
        return state.branch_id, len(state.history), state.revision


def understood(
    state: SessionState, view: View, last: LastList, given: ListDigest
) -> tuple[list[Given], Recognized]:
    """The list, checked, and what of it is known and new.

    Raises:
        InvalidMessage: as `syncing.checked` and `recognized`.
    """
    if known := last.known(given):
        rest = syncing.checked(given.messages, known)
        if not any(_may_be_ours(state, message) for message in rest[known:]):
            return rest, Recognized(len(state.history), rest[known:], last.ours)
    whole = syncing.checked(given.messages)
    return whole, recognized(state, view, whole)


def _may_be_ours(state: SessionState, message: Given) -> bool:
    """Whether it says what compact may have said, or stands where it may."""
    role = message.role if isinstance(message, Message) else message.get("role")
    if role in SYSTEM_ROLES or is_note(message) or may_be_joined(message):
        return True
    return bool(state.own.kind_of(text_of(message)))

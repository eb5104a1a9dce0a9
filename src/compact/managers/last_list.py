"""The list that a client sent last. The same list again, or one that goes on from it, is told by
one digest, as long as the session is what it was then; any other list is recognized.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import orjson

from compact.core.given import Given as Anything
from compact.core.messages import SYSTEM_ROLES, Message
from compact.managers import syncing
from compact.managers.recognition import Recognized, is_note, recognized
from compact.managers.state import SessionState
from compact.managers.system_prompt import Given, text_of
from compact.managers.view import View

PLAIN = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
"""What may be in a list that is known by its digest: nothing but what JSON has."""
SIZE = 16
"""Bytes of a digest."""


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

    def keep(self, given: Sequence[Anything], ours: int) -> None:
        """Know the list that was just taken in, so many messages of it of compact's own making."""
        self._messages, self._digest, self._then = len(given), _digest(given), self._now()
        self.ours = ours

    def known(self, given: Sequence[Anything]) -> int:
        """How many messages of a list, from the first on, are the whole list before it; 0 where
        they are not, or where the session is another one by now.
        """
        known = self._messages
        if not self._digest or self._then != self._now() or known > len(given):
            return 0
        return known if _digest(given[:known]) == self._digest else 0

    def _now(self) -> tuple[str, int, int]:
        state = self._state
        return state.branch_id, len(state.history), state.revision


def understood(
    state: SessionState, view: View, last: LastList, given: Sequence[Anything]
) -> tuple[list[Given], Recognized]:
    """The list, checked, and what of it is known and new.

    Raises:
        InvalidMessage: as `syncing.checked` and `recognized`.
    """
    if known := last.known(given):
        rest = syncing.checked(given, known)
        if not any(_may_be_ours(state, message) for message in rest[known:]):
            return rest, Recognized(len(state.history), rest[known:], last.ours)
    whole = syncing.checked(given)
    return whole, recognized(state, view, whole)


def _may_be_ours(state: SessionState, message: Given) -> bool:
    """Whether it says what compact may have said, or stands where it may."""
    role = message.role if isinstance(message, Message) else message.get("role")
    return role in SYSTEM_ROLES or is_note(message) or bool(state.own.kind_of(text_of(message)))


def _digest(messages: Sequence[Anything | Mapping[str, Any]]) -> bytes:
    """Of messages as they are written; empty where they are more than JSON."""
    digest = blake2b(digest_size=SIZE)
    try:
        for message in messages:
            digest.update(orjson.dumps(message, option=PLAIN))
    except TypeError:
        return b""
    return digest.digest()

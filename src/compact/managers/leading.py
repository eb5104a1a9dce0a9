"""Beginning again: who opens a session that is there says its system prompt once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compact.core.messages import SYSTEM_ROLES, Message
from compact.managers.opening import parsed
from compact.managers.state import SessionState


class Lead:
    """The system messages that a session began with before it was opened here, until something
    else is said.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._left = len(state.history)
        """Messages that may still be said again; none after the first that is another one."""
        self._said = 0

    def said_again(self, given: Sequence[Message | Mapping[str, Any]]) -> list[Message]:
        """Those of the leading system messages, word for word, that these begin with."""
        known: list[Message] = []
        for raw in given:
            stored = self._state.history[self._said] if self._said < self._left else None
            if stored is None or not _is_again(stored, parsed(self._state.wire, raw, self._said)):
                self._left = 0
                break
            known.append(stored)
            self._said += 1
        return known


def _is_again(stored: Message, said: Message) -> bool:
    return stored.role in SYSTEM_ROLES and (said.role, said.parts) == (stored.role, stored.parts)

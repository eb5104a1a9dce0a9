"""Beginning again: who opens a session that is there says its system prompt once more, in the same
words or in other ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from compact.core.messages import SYSTEM_ROLES, Message
from compact.managers.opening import parsed
from compact.managers.state import SessionState
from compact.managers.syncing import show_system


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
        """The system messages that these begin with, as far as the session began with as many."""
        again: list[Message] = []
        self._left = min(self._left, len(self._state.history))  # less where one travelled back
        for position, raw in enumerate(given[: max(0, self._left - self._said)], self._said):
            if self._state.history[position].role not in SYSTEM_ROLES:
                break
            said = parsed(self._state.wire, raw, position)
            if said.role not in SYSTEM_ROLES:
                break
            again.append(said)
        return again

    def begin(self, again: Sequence[Message], *, ends: bool) -> list[Message]:
        """Take these in the place of what the session began with; the messages as they stand there
        now. What stands there in the same words stays. `ends` says that something else follows.
        """
        history, first = self._state.history, self._said
        self._said += len(again)
        if ends:
            self._left = self._said
        began = [history[i] for i in range(self._said)]
        pairs = zip(began[first:], again, strict=True)
        if any((old.role, old.parts) != (new.role, new.parts) for old, new in pairs):
            rest = (history[i] for i in range(self._said, len(history)))
            after = takewhile(lambda message: message.role in SYSTEM_ROLES, rest)
            with self._state.lock:
                show_system(self._state, [*began[:first], *again, *after])
        return [history[i] for i in range(first, self._said)]

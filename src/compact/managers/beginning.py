"""Beginning again: who opens a session that is there says its system prompt once more, in the same
words or in other ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from compact.core.messages import SYSTEM_ROLES, Message
from compact.managers.opening import parsed
from compact.managers.state import SessionState
from compact.managers.syncing import show_system


class BeginsAgain:
    """The system messages that a session began with before it was opened here, until something
    else is said.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._said: int | None = 0 if len(state.history) else None
        """So many of them were said again; None: nothing is to be said again any more."""

    def said_again(self, given: Sequence[Message | Mapping[str, Any]]) -> list[Message]:
        """The system messages that these begin with, as far as the session began with as many."""
        if self._said is None:
            return []
        again = []
        for position, raw in zip(self._positions(self._said), given, strict=False):
            said = parsed(self._state.wire, raw, position)
            if said.role not in SYSTEM_ROLES:
                break
            again.append(said)
        return again

    def begin(self, again: Sequence[Message], *, ends: bool) -> list[Message]:
        """Take these in the place of what the session began with; the messages as they stand there
        now. What stands there in the same words stays. `ends` says that something else follows.
        """
        history, first = self._state.history, self._said or 0
        end = first + len(again)
        self._said = None if ends or self._said is None else end
        began = [history[i] for i in range(first, end)]
        pairs = zip(began, again, strict=True)
        if any((old.role, old.parts) != (new.role, new.parts) for old, new in pairs):
            before, after = [history[i] for i in range(first)], self._positions(end)
            with self._state.lock:
                show_system(self._state, [*before, *again, *(history[i] for i in after)])
        return [history[i] for i in range(first, end)]

    def end(self) -> None:
        """Something else was said."""
        self._said = None

    def _positions(self, first: int) -> Iterator[int]:
        """Where from there on the history still begins with system messages."""
        history = self._state.history
        return takewhile(lambda i: history[i].role in SYSTEM_ROLES, range(first, len(history)))

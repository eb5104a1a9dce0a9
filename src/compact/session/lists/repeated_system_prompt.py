"""Repeated system prompts: who opens a session that is there says its system prompt once more, in
the same words or in other ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from compact.messages.messages import SYSTEM_ROLES, Message
from compact.session.entering import parsed
from compact.session.lists.system_prompt import show_system
from compact.session.state import SessionState


class Repeated(NamedTuple):
    """A system message that is said again."""

    position: int
    """Where the session had it."""
    message: Message


class RepeatedSystemPrompt:
    """The system messages that a session had before it was opened here, until something else is
    said: those that it began with, in any words, or where it began with none, others in the same
    words.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._said: int | None = 0 if len(state.history) else None
        """So many of them were said again; None: nothing is to be said again any more."""

    def repeated_in(self, given: Sequence[Message | Mapping[str, Any]]) -> list[Repeated]:
        """The system messages that these begin with, as far as the session had them."""
        repeated: list[Repeated] = []
        if self._said is None:
            return repeated
        for number, raw in enumerate(given, self._said):
            said = parsed(self._state.wire, raw, number)
            position = self._place(said, number) if said.role in SYSTEM_ROLES else None
            if position is None:
                break
            repeated.append(Repeated(position, said))
        return repeated

    def take(self, repeated: Sequence[Repeated], *, ends: bool) -> list[Message]:
        """Take these in the place of those that the session had; the messages as they stand there
        now. What stands there in the same words stays. `ends` says that something else follows.
        """
        if self._said is not None:
            self._said = None if ends else self._said + len(repeated)
        if not repeated:
            return []
        history = self._state.history
        if any(not _says(history[position], said) for position, said in repeated):
            leading = {i: history[i] for i in self._leading()}
            with self._state.lock:
                show_system(self._state, list((leading | dict(repeated)).values()))
        return [history[position] for position, _ in repeated]

    def end(self) -> None:
        """Something else was said."""
        self._said = None

    def _place(self, said: Message, number: int) -> int | None:
        """Where the session had the system message that is said as the one of that number."""
        history = self._state.history
        if leading := list(self._leading()):
            return number if number < len(leading) else None
        stand = (i for i in history.fixed if history[i].role in SYSTEM_ROLES)
        return next((i for i in stand if _says(history[i], said)), None)

    def _leading(self) -> Iterator[int]:
        """Where the history begins with system messages."""
        history = self._state.history
        return takewhile(lambda i: history[i].role in SYSTEM_ROLES, range(len(history)))


def _says(one: Message, other: Message) -> bool:
    """Whether both say the same."""
    return (one.role, one.parts) == (other.role, other.parts)

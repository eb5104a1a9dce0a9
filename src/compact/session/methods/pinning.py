"""Which messages of a session stay word for word, and of which no more is shown than head and tail:
what `ContextManager` offers for it.
"""

from __future__ import annotations

from compact.messages.changes import PinSet
from compact.messages.messages import Message
from compact.session.methods.looking import Looking
from compact.session.prompt_parts import checked_size


class Pinning(Looking):
    """Pins, and messages that are put aside."""

    def pin(self, message: Message | str) -> None:
        """Keep a message word for word from now on, by itself or by its id. One that has left the
        view comes back with the next compression, such as `compress_conversation()`.

        Raises:
            NotFound: the session has no such message.
        """
        self._set_pin(message, is_pinned=True)

    def unpin(self, message: Message | str | int) -> None:
        """Let a pinned message be shortened again, by itself, its id or its position. One that came
        with a mark of its own (`pinned`, `protected`) stays.

        Raises:
            NotFound: the session has no such message.
        """
        self._set_pin(message, is_pinned=False)

    def _set_pin(self, message: Message | str | int, *, is_pinned: bool) -> None:
        state = self._session.state
        position = state.history.place_of(message)
        state.record(PinSet(is_pinned=is_pinned), position)

    def put_aside(
        self, message: Message | str | None = None, *, tokens: int | None = None
    ) -> Message:
        """Show models no more than head and tail of a message from now on, with its id; without
        one, of the newest message of a person. Its whole text stays in the history, where `recall`
        and `expand` read it. So a session goes on after a message that fits in no window. Of what
        has no head and tail, such as pictures and documents, a line says that it is left out.

        `tokens` are those that are shown; without, what all that is in view beside it leaves of the
        target of the window that was asked for last, or a quarter of that window, where it fits.
        With no fewer than it has, the whole is shown again: `undo` does not. Returns the message as
        it is shown.

        Raises:
            NotFound: the session has no such message.
            CannotFit: it is larger than that, and nothing of it can be left out.
        """
        if tokens is not None:
            tokens = checked_size("tokens", tokens)
        position = self._session.state.history.place_of(message)
        return self._session.sender.put_aside(position, tokens)

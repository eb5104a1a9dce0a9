"""A conversation from a file, lived again: its messages come one by one, and before each answer a
prompt is made, as if a model with that window had been asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from compact.messages.messages import Message
from compact.session.context_manager import ContextManager


def replay(
    ctx: ContextManager,
    messages: Sequence[Message],
    *,
    pins: Collection[int] = (),
    on_message: Callable[[int, int], None],
) -> None:
    """Add the messages to an empty session, and compress it wherever it would have been.

    Raises:
        CannotFit: a prompt could not be made to fit; what was added until then stays.
    """
    pinned = frozenset(pins)
    for number, message in enumerate(messages):
        on_message(number, len(messages))
        if message.role == "assistant" and number:
            ctx.get_context_for_model()
        added = ctx.add_message(message)
        if number in pinned:
            ctx.pin(added)
    ctx.get_context_for_model()

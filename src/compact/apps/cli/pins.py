"""Which messages `--pin` means: by number, by id, or by a text that they hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from compact.apps.cli.ending import Stop
from compact.core.messages import Message, Thinking

_NUMBER = re.compile(r"[+-]?[0-9]+")
_LONGEST_NUMBER = 20


def positions_of(pins: Iterable[str], messages: Sequence[Message]) -> list[int]:
    """The positions of the pinned messages, ascending.

    Numbers count from 0, or back from -1, as in Python. What is the id of a message means that
    one; any other text means the messages that hold it in their words, in a tool call or in a
    tool's answer.

    Raises:
        Stop: there is no such message, or none holds the text.
    """
    return sorted({position for pin in pins for position in _positions(pin, messages)})


def _positions(pin: str, messages: Sequence[Message]) -> Iterator[int]:
    if _NUMBER.fullmatch(pin):
        yield _position(pin, len(messages))
        return
    if not pin.strip():
        raise Stop("--pin: an empty text; give a message's number or a text it holds")
    found = [i for i, message in enumerate(messages) if message.id == pin]
    found = found or [i for i, message in enumerate(messages) if _holds(message, pin)]
    if not found:
        raise Stop(f"--pin {pin!r}: no message holds this text")
    yield from found


def _position(pin: str, count: int) -> int:
    number = int(pin) if len(pin) <= _LONGEST_NUMBER else count
    position = number if number >= 0 else count + number
    if not 0 <= position < count:
        shown = pin if len(pin) <= _LONGEST_NUMBER else "(a long number)"
        raise Stop(f"--pin {shown}: there are messages 0 to {count - 1:,}")
    return position


def _holds(message: Message, text: str) -> bool:
    return any(
        text in (getattr(part, "text", "") or getattr(part, "arguments", ""))
        for part in message.parts
        if not isinstance(part, Thinking)
    )

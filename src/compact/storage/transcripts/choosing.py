"""Choosing one conversation of a file that holds many. Conversations are numbered from 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from compact.core.calls import got, whole_number
from compact.errors import InvalidArgument, InvalidTranscript

Item = TypeVar("Item")


def choose(items: Sequence[Item], number: int | None, *, source: str) -> Item:
    """The conversation of that number; without a number, the only one.

    Raises:
        InvalidTranscript: none or several without a number, or no such number.
        InvalidArgument: it is no number.
    """
    count = len(items)
    if count == 0:
        raise InvalidTranscript(source, "holds no conversation")
    if number is None:
        if count == 1:
            return items[0]
        raise InvalidTranscript(
            source, f"holds {count:,} conversations: choose one with --conversation N, 1 to {count}"
        )
    if whole_number(number) is None:
        raise InvalidArgument("conversation", f"conversation must be a number, got {got(number)}")
    if not 1 <= number <= count:
        held = "1 conversation" if count == 1 else f"{count:,} conversations, numbered from 1"
        raise InvalidTranscript(source, f"there is no conversation {number}: the file holds {held}")
    return items[number - 1]

"""The dumbest checkpoints that a measure must be held beside: names without a word, and thirty
lines of talk with names behind them. Whoever is not above them has gained nothing by the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from compact.engine.chronology.notes import Notes
from compact.messages.messages import Message
from compact.text.speakers import speaker_of

T = TypeVar("T")
Count = Callable[[str], int]
"""Tokens of a text."""
TALK, LONGEST = 0.6, 200
"""Share of the tokens that talk takes, half of it the newest and half the longest; tokens of a text
that are taken."""


def names_alone(messages: Sequence[Message], most: int, count: Count) -> str:
    """Names in the order in which the product lists them and nothing else, in so many tokens."""
    named = [name for name, _, _ in Notes().read(messages).ranked()]
    return ", ".join(_first(named, most, lambda name: count(f"{name}, ")))


def thirty_lines(messages: Sequence[Message], most: int, count: Count) -> str:
    """What was said newest and at most length, cut, in its order; then names."""
    texts = [
        m.text for m in messages if speaker_of(m) in ("person", "assistant") and m.text.strip()
    ]
    cut = [_cut(text, count) for text in texts]
    newest = list(range(len(cut)))[::-1]
    longest = sorted(newest, key=lambda i: -count(cut[i]))

    def size(place: int) -> int:
        return count(f"{cut[place]}\n")

    taken = set(_first(newest, int(most * TALK / 2), size))
    taken |= set(_first((i for i in longest if i not in taken), int(most * TALK / 2), size))
    talk = "\n".join(cut[i] for i in sorted(taken))
    return f"{talk}\n{names_alone(messages, most - count(talk) - 1, count)}"


def _cut(text: str, count: Count) -> str:
    words = text.split(" ")
    while count(" ".join(words)) > LONGEST:
        words = words[: len(words) * 3 // 4 or 1]
        if len(words) == 1:
            return words[0][: 4 * LONGEST]
    return " ".join(words)


def _first(rows: Iterable[T], most: int, size: Callable[[T], int]) -> list[T]:
    """The first of these that together are within so many tokens, without those that are not."""
    taken = list[T]()
    for row in rows:
        if (tokens := size(row)) <= most:
            taken.append(row)
            most -= tokens
    return taken

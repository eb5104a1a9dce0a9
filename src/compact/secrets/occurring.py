"""Which of many patterns occur in a text, told in one scan of it, however many they are.

RE2 builds one automaton of them all: linear in the text, about as fast as a search for one word. It
knows no lookaround, so what it finds is where to look with `re`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import re2


class Occurring:
    """Patterns in RE2's syntax, by their places in a list. `rare` is how those begin that hardly
    any text holds: a search for any of them is a small automaton, and tells that none occurs.
    """

    def __init__(self, patterns: Sequence[str], *, rare: str = "") -> None:
        self._rare = [i for i, each in enumerate(patterns) if rare and each.startswith(rare)]
        self._common = [i for i in range(len(patterns)) if i not in self._rare]
        self._rare_set = _set([patterns[i] for i in self._rare])
        self._common_set = _set([patterns[i] for i in self._common])
        endings = sorted(patterns[i].removeprefix(rare) for i in self._rare)
        self._any_rare = re2.compile(f"{rare}(?:{'|'.join(endings)})") if endings else None

    def places(self, data: bytes) -> list[int]:
        """Which of them occur in a text, given in UTF-8, in their order."""
        numbers = self._common_set.Match(data)
        found = [self._common[i] for i in numbers] if numbers else []
        if self._any_rare is not None and self._any_rare.search(data):
            found += [self._rare[i] for i in self._rare_set.Match(data) or ()]
        found.sort()
        return found


class Spots:
    """Where a pattern in RE2's syntax stands in texts, before another one that may overlap with
    what it matches next; whatever the case of letters.
    """

    def __init__(self, pattern: str, before: str = "") -> None:
        self._expression = f"(?i:({pattern}){before})".encode()
        self._is_alone = not before

    @cached_property
    def _pattern(self) -> Any:  # noqa: ANN401 - RE2 has no types
        return re2.compile(self._expression)

    def of(self, text: str) -> Iterator[int]:
        """The places where it begins, in characters, one behind the other."""
        return (start for start, _ in self.spans(text))

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where it begins and ends, in characters."""
        data = encoded(text)
        if len(data) == len(text) and self._is_alone:
            yield from (found.span(1) for found in self._pattern.finditer(data))
            return
        passed = characters = end = 0
        while found := self._pattern.search(data, end):
            start, end = found.span(1)
            characters += len(data[passed:start].decode())
            passed = start
            yield characters, characters + len(data[start:end].decode())


def encoded(text: str) -> bytes:
    """The text in UTF-8, as many characters as it has; RE2 has no small `İ`."""
    return text.replace("\u0130", "I").encode(errors="replace")


_MEMORY = 32 << 20
"""Bytes that an automaton may grow to. With 8 MiB, the default of RE2, it forgets what it needs
again, and reads a fifth as fast."""


def _set(patterns: Sequence[str]) -> re2.Set:
    options = re2.Options()
    options.max_mem = _MEMORY
    made = re2.Set.SearchSet(options)
    for pattern in patterns:
        made.Add(pattern)
    made.Compile()
    return made

"""Finds which of many patterns occur in a text, with one scan for all of them.

RE2 builds one automaton. It takes linear time, and is about as fast as a search for one word. It
has no lookaround, so `re` examines the places that RE2 finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import re2


class Occurring:
    """Patterns in RE2's syntax. Their index is their number. `rare` is the beginning of patterns
    that match few texts. One small automaton tells whether any of these occurs.
    """

    def __init__(self, patterns: Sequence[str], *, rare: str = "") -> None:
        self._rare = [i for i, each in enumerate(patterns) if rare and each.startswith(rare)]
        self._common = [i for i in range(len(patterns)) if i not in self._rare]
        self._rare_set = _set([patterns[i] for i in self._rare])
        self._common_set = _set([patterns[i] for i in self._common])
        endings = sorted(patterns[i].removeprefix(rare) for i in self._rare)
        self._any_rare = re2.compile(f"{rare}(?:{'|'.join(endings)})") if endings else None

    def places(self, data: bytes) -> list[int]:
        """Return the numbers of the patterns that occur in a UTF-8 text, in ascending order."""
        numbers = self._common_set.Match(data)
        found = [self._common[i] for i in numbers] if numbers else []
        if self._any_rare is not None and self._any_rare.search(data):
            found += [self._rare[i] for i in self._rare_set.Match(data) or ()]
        found.sort()
        return found


class Spots:
    """Finds the places of an RE2 pattern in texts, ignoring case. `before` is a pattern that must
    follow the match directly. The next match may overlap that part.
    """

    def __init__(self, pattern: str, before: str = "") -> None:
        self._expression = f"(?i:({pattern}){before})".encode()
        self._is_alone = not before

    @cached_property
    def _pattern(self) -> Any:  # noqa: ANN401 - RE2 has no types
        return re2.compile(self._expression)

    def of(self, text: str) -> Iterator[int]:
        """Return the starts of the matches, in characters."""
        return (start for start, _ in self.spans(text))

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the starts and ends of the matches, in characters."""
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
    """Encode a text as UTF-8, with equally many characters. `İ` becomes `I` for RE2."""
    return text.replace("\u0130", "I").encode(errors="replace")


_MEMORY = 32 << 20
"""The memory of an automaton, in bytes. With RE2's default of 8 MiB it discards states that it
needs again, and is five times slower."""


def _set(patterns: Sequence[str]) -> re2.Set:
    options = re2.Options()
    options.max_mem = _MEMORY
    made = re2.Set.SearchSet(options)
    for pattern in patterns:
        made.Add(pattern)
    made.Compile()
    return made

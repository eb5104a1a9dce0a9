"""What one server knows of what an answer may be asked for, found out by its own refusals.

Servers that speak the same API differ in field names, and in what they know at all; few say so
beforehand. What is refused once is written otherwise, or left out, from then on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compact.errors import ModelRefused
from compact.patterns import regex

_UNKNOWN = regex(
    r"un(?:supported|known|recognized|expected)|not (?:supported|permitted|allowed)|extra|"
    r"does(?: not|n't) support",
    re.IGNORECASE,
)
"""How refusals say that it is the field, and not its value, that is wrong."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A field of a request beside the prompt."""

    names: tuple[str, ...]
    """What it may be called, in the order they are tried."""
    needed: bool = False
    """Whether an answer that was asked for without it would be no answer."""
    words: str = ""
    """A pattern by which refusals name it beside its names."""


class Dialect:
    """The wishes of an API, as far as one server knows them."""

    def __init__(self, wishes: Mapping[str, Wish]) -> None:
        self._wishes = wishes
        self._tried = dict.fromkeys(wishes, 0)

    def knows(self, wish: str) -> bool:
        """Whether a wish is still sent."""
        return self._tried[wish] < len(self._wishes[wish].names)

    def written(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """What is wanted, as fields of a request."""
        return {self._name(wish): wanted[wish] for wish in wanted if self.knows(wish)}

    def learned(self, wanted: Mapping[str, Any], refusal: ModelRefused) -> bool:
        """Whether the refusal is of a field that is written otherwise from now on."""
        said = str(refusal)
        if refusal.status not in (400, 422) or not _UNKNOWN.search(said):
            return False
        for wish in wanted:
            if self.knows(wish) and re.search(self._words(wish), said):
                return self._moved_on(wish)
        return False

    def _name(self, wish: str) -> str:
        return self._wishes[wish].names[self._tried[wish]]

    def _words(self, wish: str) -> str:
        return "|".join(filter(None, (rf"\b{self._name(wish)}\b", self._wishes[wish].words)))

    def _moved_on(self, wish: str) -> bool:
        self._tried[wish] += 1
        if self.knows(wish) or not self._wishes[wish].needed:
            return True
        self._tried[wish] = 0
        return False

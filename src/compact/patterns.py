"""Regular expressions that are compiled on first use, because compiling slows imports down."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

ATTRIBUTES = tuple(name for name in dir(re.Pattern) if not name.startswith("_"))


def regex(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Like `re.compile`, but compile on first use. A match's `re` is then another object."""
    return cast("re.Pattern[AnyStr]", LazyPattern(source, flags))


def one_of(alternatives: str) -> str:
    """Return a group of alternatives (`a|b(?:c|d)`) behind a test of the first character. A search
    that tries each alternative at each place would take twice as long.
    """
    firsts = {each[0] for each in re.split(r"\|(?![^(]*\))", alternatives)}
    assert not firsts & set("([\\^.$"), f"{alternatives}: each begins with a plain character"
    return f"(?=[{''.join(sorted(firsts))}])(?:{alternatives})"


class UsedPattern:
    """A compiled pattern. It has the attributes of the compiled `re.Pattern`."""


class LazyPattern(UsedPattern):
    """A regular expression that is compiled on first use. Then it becomes a `UsedPattern`."""

    def __init__(self, source: str | bytes, flags: int) -> None:
        self.pattern, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the pattern's
        if name not in ATTRIBUTES:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._flags)
        for each in ATTRIBUTES:
            setattr(self, each, getattr(compiled, each))
        self.__class__ = UsedPattern  # type: ignore[assignment]
        return getattr(compiled, name)

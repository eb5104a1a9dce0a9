"""Patterns that are compiled when they are first used: importing a module compiles none."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

ATTRIBUTES = tuple(name for name in dir(re.Pattern) if not name.startswith("_"))


def regex(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The pattern that `re.compile` makes of this, made at the first use.

    A match's `re` is the compiled pattern, which is another object than this.
    """
    return cast("re.Pattern[AnyStr]", LazyPattern(source, flags))


class UsedPattern:
    """Has the attributes of a compiled pattern, as its own."""


class LazyPattern(UsedPattern):
    """Stands for a pattern that is not compiled yet, and becomes a `UsedPattern`."""

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

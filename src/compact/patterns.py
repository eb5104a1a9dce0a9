"""Patterns that are compiled at the first use, as compiling them makes imports slow."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

ATTRIBUTES = tuple(name for name in dir(re.Pattern) if not name.startswith("_"))


def regex(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile`, at the first use. The attribute `re` of a match is another object than this."""
    return cast("re.Pattern[AnyStr]", LazyPattern(source, flags))


class UsedPattern:
    """A pattern that is compiled: it holds the attributes of the compiled one."""


class LazyPattern(UsedPattern):
    """A pattern that is not compiled yet. It becomes a `UsedPattern`."""

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

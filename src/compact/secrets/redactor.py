"""`Redactor` finds an application's own secrets, in addition to those that are always redacted.

It finds e-mail addresses, phone numbers and the like, and own patterns, which may have
validators. If a validator raises an error, the match is redacted. The error is reported once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from compact.errors import InvalidArgument
from compact.patterns import regex

if TYPE_CHECKING:
    from compact.secrets.credentials import Place

Validator = Callable[[str], bool]
"""Returns whether a matched text is a secret."""
_NAME = regex("[a-z][a-z0-9_]{0,63}")
_MARK = regex("<REDACTED:[a-z0-9_]+>")


class Redactor:
    """Finds an application's own secrets in a text. It is immutable.

    `kinds` are kinds or groups of `secrets.personal`. `patterns` maps kinds to regular expressions
    in RE2's syntax. If a pattern has a group named `value`, only the group is redacted.
    `validators` maps kinds to functions that decide whether a match counts.

    Raises:
        InvalidArgument: a kind, a name, an expression or a validator is wrong. The error names it.
    """

    def __init__(
        self,
        kinds: Iterable[str] = (),
        patterns: Mapping[str, str] | None = None,
        validators: Mapping[str, Validator] | None = None,
    ) -> None:
        self._finders = dict(_personal(kinds))
        self._patterns = {name: _compiled(name, x) for name, x in (patterns or {}).items()}
        self._validators = dict(validators or {})
        for name in self._validators:
            if name not in self._finders and name not in self._patterns:
                reason = f"validators[{name!r}] is for a pattern or a kind that is not there"
                raise InvalidArgument("validators", reason)
        self._failed: set[str] = set()
        self._report: Callable[[Exception], None] | None = None

    def __bool__(self) -> bool:
        return bool(self._finders or self._patterns)

    def failing(self, tell: Callable[[Exception], None]) -> None:
        """Report the first error of each validator to `tell`. Later calls have no effect."""
        if self._validators:
            self._report = self._report or tell

    def places(self, text: str) -> Iterator[Place]:
        """Yield the places of the secrets, in no order. Already redacted text is skipped."""
        if not self:
            return
        text = text.encode(errors="replace").decode()
        marks = [found.span() for found in _MARK.finditer(text)]
        known = chain.from_iterable(places(text) for places in self._finders.values())
        for place in (*known, *self._by_patterns(text)):
            before = bisect_left(marks, place.end, key=itemgetter(0))
            is_apart = before == 0 or marks[before - 1][1] <= place.start
            if is_apart and self._counts(place.kind, text[place.start : place.end]):
                yield place

    def _by_patterns(self, text: str) -> Iterator[Place]:
        from compact.secrets.credentials import Place

        for name, pattern in self._patterns.items():
            group = pattern.groupindex.get("value", 0)
            for found in pattern.finditer(text):
                start, end = found.span(group)
                if start < end:
                    yield Place(start, end, name)

    def _counts(self, name: str, matched: str) -> bool:
        if (validator := self._validators.get(name)) is None:
            return True
        try:
            return bool(validator(matched))
        except Exception as error:  # noqa: BLE001 - a failing validator must not leave a secret in
            if name not in self._failed:
                self._failed.add(name)
                if self._report is not None:
                    self._report(error)
            return True


def _personal(kinds: Iterable[str]) -> Iterator[tuple[str, Callable[[str], Iterator[Place]]]]:
    for kind in kinds:
        from compact.secrets.personal import GROUPS, OPTIONAL

        for each in GROUPS.get(kind, (kind,)):
            if each not in OPTIONAL:
                known = ", ".join((*OPTIONAL, *GROUPS))
                raise InvalidArgument("kinds", f"no kind {each!r}; there are {known}")
            yield each, OPTIONAL[each]


def _compiled(name: str, expression: str) -> Any:  # noqa: ANN401 - RE2 has no types
    if not _NAME.fullmatch(name):
        reason = f"{name!r} should be a name such as ticket_id: small letters, digits and _"
        raise InvalidArgument("patterns", reason)
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except (re2.error, TypeError, UnicodeError) as error:
        reason_text = error.args[0].decode() if isinstance(error.args[0], bytes) else error
        raise InvalidArgument(
            "patterns", f"{name}: {expression!r} is no expression: {reason_text}"
        ) from None


NOTHING_ELSE = Redactor()
"""The default: a redactor that finds nothing."""

"""Checks of arguments: unknown options, names, and a text where a list is needed.

Python and pydantic report wrong types. `messages.given` checks messages.
"""

from __future__ import annotations

import difflib
import operator
import reprlib
from collections.abc import Iterable, Mapping

from pydantic import ValidationError

from compact.errors import InvalidArgument
from compact.secrets.redaction import without_credentials

LARGEST = 2**63 - 1
"""Largest number that a store can hold (a signed 64-bit integer)."""


def whole_number(value: object) -> int | None:
    """Return a whole number of any library as an int. Return None for a bool or anything else."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # asked to find out
    except TypeError:
        return None


def known_options(given: Mapping[str, object], options: type) -> None:
    """Refuse a name that is not an option of the called function.

    Raises:
        InvalidArgument: the error suggests the closest known name.
    """
    for name in given:
        if name not in options.__annotations__:
            close = difflib.get_close_matches(name, options.__annotations__, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InvalidArgument(name, f"unexpected keyword argument {name!r}{hint}")


def named(name: str, value: object) -> str:
    """Check and return the name of a session or scope. None is refused, because it would mean all
    scopes.

    Raises:
        InvalidArgument: the name is not a text, or is empty.
    """
    if not isinstance(value, str) or not value:
        raise InvalidArgument(name, f"{name} must be a text that is not empty, got {got(value)}")
    return value


def no_text(name: str, given: Iterable[object]) -> None:
    """Refuse a text where a list is needed. Python would read the text letter by letter.

    Raises:
        InvalidArgument: the value is a text.
    """
    if isinstance(given, str | bytes):
        raise InvalidArgument(name, f"{name} must be a list, got {got(given)}")


def of_field(error: ValidationError) -> InvalidArgument:
    """Turn pydantic's first error into an `InvalidArgument` that names the field."""
    first = error.errors(include_url=False)[0]
    name = ".".join(map(str, first["loc"])) or error.title
    return InvalidArgument(name, f"{name}: {first['msg']}, got {got(first['input'])}")


def got(value: object) -> str:
    """Return a value as error texts quote it: short, and without credentials."""
    try:
        return repr(without_credentials(value)) if isinstance(value, str) else reprlib.repr(value)
    except (ValueError, TypeError, RecursionError):
        return f"a {type(value).__name__}"

"""Public calls: their arguments are what their annotations say, and their options show in `help()`.

`checked` stands before a function, `checked_methods` before a class: each argument is compared with
its annotation when it is called, so that no function looks itself. Messages have a door of their
own (`core.given`). How options are shown is said in `core.options`.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import operator
import reprlib
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin
from typing import get_type_hints as hints_of

from compact.core.given import Dumps
from compact.core.options import show_options
from compact.core.redaction import without_credentials
from compact.errors import InvalidArgument

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)
LARGEST = 2**63 - 1
"""The largest number that means something anywhere: stores hold no larger ones."""
_NONE = frozenset(("self", "fields", "return"))
"""Names among the annotations that are no arguments."""


_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_GIVEN = (*_PLACED, inspect.Parameter.KEYWORD_ONLY)


class _Parameters:
    """What a function takes."""

    def __init__(self, function: Callable[..., Any], options: type | None) -> None:
        parameters, hints = inspect.signature(function).parameters, hints_of(function)
        self._function = function
        self._names = list(parameters)
        """In order, the first ones by position."""
        self._takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
        """Whether it has keywords of any name."""
        if options is not None:
            names = (
                function.__globals__
            )  # an `Options` of a light module leaves its types to this one
            hints, self._takes_any = {**hints, **hints_of(options, localns=names)}, False
        self._hints = {n: h for n, h in hints.items() if n not in _NONE and not _are_messages(h)}
        most = sum(p.kind in _PLACED for p in parameters.values())
        needed = {n for n, p in parameters.items() if p.default is p.empty and p.kind in _GIVEN}
        self._needed = [needed.difference(self._names[:placed]) for placed in range(most + 1)]
        """What must be given by name where none, one, … are given by position, up to the most."""

    def check(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> None:
        """Refuse arguments that are not what the function takes.

        Raises:
            InvalidArgument: the text names the first of them.
        """
        names, hints, placed = self._names, self._hints, len(args)
        for name, value in zip(names, args, strict=False) if hints else ():
            if name in hints:
                _check(name, value, hints[name])
        for name, value in given.items() if hints or not self._takes_any else ():
            if name in hints:
                _check(name, value, hints[name])
            elif name not in names and not self._takes_any:
                close = difflib.get_close_matches(name, hints, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                called = _name_of(self._function)
                reason = f"{called}() got an unexpected keyword argument {name!r}{hint}"
                raise InvalidArgument(name, reason)
        is_twice = given and not given.keys().isdisjoint(names[:placed])
        if placed >= len(self._needed) or not self._needed[placed] <= given.keys() or is_twice:
            _bind(self._function, args, given)


def checked(function: F) -> F:
    """The function, which refuses arguments that are not what their annotations say.

    The call then raises InvalidArgument (a TypeError and a ValueError), which names the argument.
    """
    options = _options_of(function)
    parameters = functools.cache(lambda: _Parameters(function, options))

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run(*args: Any, **given: Any) -> Any:  # noqa: ANN401 - as the function
            parameters().check(args, given)
            return await function(*args, **given)
    else:

        @functools.wraps(function)
        def run(*args: Any, **given: Any) -> Any:  # noqa: ANN401 - as the function
            parameters().check(args, given)
            return function(*args, **given)

    if options is not None:
        show_options(run, options)
    return cast("F", run)


def checked_methods(kind: C) -> C:
    """The class, whose constructor and public methods are `checked`."""
    for name, method in list(vars(kind).items()):
        if inspect.isfunction(method) and (name == "__init__" or not name.startswith("_")):
            setattr(kind, name, checked(method))
    return kind


# --- what is taken --------------------------------------------------------------------------------


def _options_of(function: Callable[..., Any]) -> type | None:
    """The `Options` of `**options: Unpack[Options]`."""
    for parameter in inspect.signature(function).parameters.values():
        is_open = parameter.kind is inspect.Parameter.VAR_KEYWORD
        if is_open and "Unpack[" in str(parameter.annotation):
            return cast("type", get_args(hints_of(function)[parameter.name])[0])
    return None


def _bind(function: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any]) -> None:
    """Refuse what the function cannot be called with, as Python would.

    Raises:
        InvalidArgument: there are too many arguments, or one is missing or given twice.
    """
    try:
        inspect.signature(function).bind(*args, **given)
    except TypeError as error:
        _, _, name = str(error).partition("'")
        called = _name_of(function)
        raise InvalidArgument(name.strip("'"), f"{called}(): {error}") from None


def _name_of(function: Callable[..., Any]) -> str:
    """What a caller calls it: a class, or a function without the class it is defined in."""
    return function.__qualname__.removesuffix(".__init__").rpartition(".")[2]


def _are_messages(hint: Any) -> bool:  # noqa: ANN401 - any annotation
    """Whether messages are meant, which are looked at one by one."""
    return hint is Dumps or any(map(_are_messages, get_args(hint)))


# --- what is given --------------------------------------------------------------------------------


def _check(name: str, value: object, hint: Any) -> None:  # noqa: ANN401 - any annotation
    if fits(value, hint):
        return
    if whole_number(value) is not None and fits(0, hint):
        raise InvalidArgument(name, f"{name} is larger than any number that means something here")
    for element in _elements_of(hint):
        if isinstance(value, list | tuple):
            for i, each in enumerate(value):
                _check(f"{name}[{i}]", each, element)
    missing = _missing(value, hint)
    without = f", which has no {missing!r}" if missing else ""
    raise InvalidArgument(name, f"{name} must be {in_words(hint)}, got {got(value)}{without}")


def _missing(value: object, hint: Any) -> str:  # noqa: ANN401 - any annotation
    """What a value lacks that nearly is what a protocol asks for."""
    for each in get_args(hint) or (hint,):
        if getattr(each, "_is_protocol", False) and not isinstance(value, type):
            lacking = [name for name in sorted(_members(each)) if not hasattr(value, name)]
            if len(lacking) < len(_members(each)):
                return lacking[0]
    return ""


def _elements_of(hint: Any) -> Iterator[Any]:  # noqa: ANN401 - any annotation
    """What the elements of a list must be, where a list may be given."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        yield from (found for each in inner for found in _elements_of(each))
    elif isinstance(origin, type) and issubclass(origin, Iterable) and inner:
        yield from () if issubclass(origin, Mapping) else inner[:1]


def fits(value: object, hint: Any) -> bool:  # noqa: ANN401 - any annotation, case by case
    """Whether a value is what an annotation says; containers are looked into as far as that changes
    nothing.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, each) for each in inner)
    if origin is Literal:
        return isinstance(value, str | int | None) and value in inner
    if origin is not None:
        return _fits_container(value, origin, inner)
    if hint is None or hint is type(None):
        return value is None
    if hint is int:
        number = whole_number(value)
        return number is not None and abs(number) <= LARGEST
    if hint is float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        return abs(value) <= LARGEST and math.isfinite(value)
    if getattr(hint, "_is_protocol", False):
        return not isinstance(value, type) and all(_has(value, each) for each in _members(hint))
    return not isinstance(hint, type) or hint in (object, Any) or isinstance(value, hint)


def _fits_container(value: object, origin: Any, inner: tuple[Any, ...]) -> bool:  # noqa: ANN401
    if not isinstance(origin, type) or not isinstance(value, origin):
        return False
    if isinstance(value, Mapping) and issubclass(origin, Mapping):
        return all(fits(k, inner[0]) and fits(v, inner[1]) for k, v in value.items())
    if not issubclass(origin, Iterable):
        return True  # a function, for one
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping):
        return False
    if isinstance(value, tuple) and origin is tuple and ... not in inner:
        return len(value) == len(inner) and all(map(fits, value, inner))
    return not isinstance(value, Collection) or all(fits(each, inner[0]) for each in value)


def whole_number(value: object) -> int | None:
    """The value as an int where it is a whole number of any library; a bool is none."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # asked to find out
    except TypeError:
        return None


def _members(protocol: type) -> set[str]:
    """What a protocol asks for."""
    kinds = [kind for kind in protocol.__mro__ if getattr(kind, "_is_protocol", False)]
    return {name for kind in kinds for name in vars(kind) if not name.startswith("_")}


def _has(value: object, name: str) -> bool:
    """Whether there is such an attribute; a property is not asked, which may take a server."""
    return hasattr(type(value), name) or hasattr(value, name)


def in_words(hint: Any) -> str:  # noqa: ANN401 - any annotation
    """An annotation as a person reads it: `int or None`."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(map(in_words, inner))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if hint in (None, type(None)):
        return "None"
    if hint is int:
        return "a whole number"
    if hint is str:
        return "a text"
    if hint is Any:
        return "anything"
    if origin is not None and issubclass(origin, Mapping):
        return f"a mapping (from {in_words(inner[0])} to {in_words(inner[1])})"
    if origin is not None and issubclass(origin, Iterable):
        return f"a list (each {in_words(inner[0])})"
    if origin is not None:
        return "a function"
    return f"a {getattr(hint, '__name__', hint)}"


def got(value: object) -> str:
    """A value as it is repeated in an error: short, whatever it is."""
    try:
        return repr(without_credentials(value)) if isinstance(value, str) else reprlib.repr(value)
    except (ValueError, TypeError, RecursionError):
        return f"a {type(value).__name__}"

"""Public calls: their arguments are what their annotations say, and their options show in `help()`.

`checked` stands before a function, `checked_methods` before a class: each argument is compared with
its annotation when it is called, so that no function looks itself, and a value of pydantic's says
by our error what is wrong with a field. What takes less time than a look is `checked_late`: where
it fails. A listener called `progress` may raise; nothing fails by it. Messages have a door of their
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
from contextlib import suppress
from typing import (
    Any,
    Literal,
    Protocol,
    TextIO,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)
from weakref import WeakSet

from compact.core.options import show_options
from compact.core.redaction import without_credentials
from compact.errors import CompactError, InvalidArgument

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)
LARGEST = 2**63 - 1
"""The largest number that means something anywhere: stores hold no larger ones."""
_NONE = frozenset(("self", "fields", "return"))
_TOO_LARGE = "is larger than any number that means something here"
_CHECKED: WeakSet[Callable[..., Any]] = WeakSet()
"""What stands before a function already."""
LISTENER = "progress"
"""The name of the argument that is told how far a call is."""
"""Names among the annotations that are no arguments."""


@runtime_checkable
class Dumps(Protocol):
    """An object of a provider's client that says what it is as a dictionary."""

    def model_dump(self, *, mode: str, exclude_unset: bool) -> dict[str, Any]:
        """Its fields, those alone that were sent or given."""
        ...


_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_GIVEN = (*_PLACED, inspect.Parameter.KEYWORD_ONLY)


def hints_of(kind: Any, names: Mapping[str, Any] | None = None) -> dict[str, Any]:  # noqa: ANN401
    """The annotations of a function or a class; what is imported for them alone may be anything."""
    known = dict(names or {})
    while True:
        try:
            return get_type_hints(kind, localns=known)
        except NameError as error:
            known[str(error.name)] = Any


class _Parameters:
    """What a function takes."""

    def __init__(self, function: Callable[..., Any], options: type | None) -> None:
        parameters, hints = inspect.signature(function).parameters, hints_of(function)
        self._function = function
        self._names = list(parameters)
        """In order, the first ones by position."""
        self._takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
        """Whether it has keywords of any name."""
        self._listener = self._names.index(LISTENER) if LISTENER in self._names else None
        if options is not None:
            names = (
                function.__globals__
            )  # an `Options` of a light module leaves its types to this one
            hints, self._takes_any = {**hints, **hints_of(options, names)}, False
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
        by_place = names[: len(self._needed) - 1]
        for name, value in zip(by_place, args, strict=False) if hints else ():
            if name in hints:
                _check(name, value, hints[name])
        for name, value in given.items() if hints or not self._takes_any else ():
            if name in hints:
                _check(name, value, hints[name])
            elif name not in names and not self._takes_any:
                raise InvalidArgument(name, _unexpected(_name_of(self._function), name, hints))
        is_twice = given and not given.keys().isdisjoint(names[:placed])
        if placed >= len(self._needed) or not self._needed[placed] <= given.keys() or is_twice:
            _bind(self._function, args, given)

    def heard(
        self, args: tuple[Any, ...], given: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, whose listener may raise."""
        if (place := self._listener) is not None:
            if given.get(LISTENER) is not None:
                given = {**given, LISTENER: _harmless(given[LISTENER])}
            elif len(args) > place and args[place] is not None:
                args = (*args[:place], _harmless(args[place]), *args[place + 1 :])
        return args, given


def _harmless(listener: Callable[..., object]) -> Callable[..., None]:
    """The listener, whose errors nobody meets: it is told, and decides nothing."""

    def tell(*said: object) -> None:
        with suppress(Exception):
            listener(*said)

    return tell


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
            args, given = parameters().heard(args, given)
            return await function(*args, **given)
    else:

        @functools.wraps(function)
        def run(*args: Any, **given: Any) -> Any:  # noqa: ANN401 - as the function
            parameters().check(args, given)
            args, given = parameters().heard(args, given)
            return function(*args, **given)

    if options is not None:
        show_options(run, options)
    _CHECKED.add(run)
    return cast("F", run)


def checked_late(function: F) -> F:
    """The function, whose arguments are looked at where it fails: for what takes less time than a
    look.
    """
    parameters = functools.cache(lambda: _Parameters(function, None))

    @functools.wraps(function)
    def run(*args: Any, **given: Any) -> Any:  # noqa: ANN401 - as the function
        try:
            return function(*args, **given)
        except CompactError:
            raise
        except Exception:
            parameters().check(args, given)
            raise

    _CHECKED.add(run)
    return cast("F", run)


def checked_methods(kind: C) -> C:
    """The class, whose constructor and public methods are `checked`, but for those that are
    already. A value of pydantic's is still made by it, faster than by `checked`.
    """
    for name, method in list(vars(kind).items()):
        if name.startswith(("_", "model_")) and name != "__init__":
            continue
        if isinstance(method, classmethod | staticmethod):
            if method.__func__ not in _CHECKED:
                setattr(kind, name, type(method)(checked(method.__func__)))
        elif inspect.isfunction(method) and method not in _CHECKED:
            setattr(kind, name, checked(method))
    if hasattr(kind, "model_fields") and "__init__" not in vars(kind):
        kind.__init__ = _telling(kind.__init__)  # type: ignore[misc]  # as pydantic's own
    return kind


def _telling(make: Callable[..., None]) -> Callable[..., None]:
    """Pydantic's constructor, which says by our error what is wrong."""

    @functools.wraps(make)  # with pydantic's mark, by which validation does not call it
    def made(self: Any, *args: Any, **given: Any) -> None:  # noqa: ANN401 - as pydantic's
        called = type(self).__name__
        if args:
            raise InvalidArgument("args", f"{called}() takes its fields by name")
        for name, value in given.items():
            if isinstance(value, int) and abs(value) > LARGEST:
                raise InvalidArgument(name, f"{called}(): {name} {_TOO_LARGE}")
        try:
            make(self, **given)
        except ValueError as error:
            if isinstance(error, CompactError) or not hasattr(error, "errors"):
                raise
            first = error.errors(include_url=False)[0]
            raise _of_field(called, first, type(self).model_fields) from None

    return made


def _of_field(called: str, wrong: Mapping[str, Any], known: Iterable[str]) -> InvalidArgument:
    """What pydantic says of a field."""
    name = ".".join(map(str, wrong["loc"])) or called
    match wrong["type"]:
        case "missing":
            reason = f"{called}(): missing a required argument: {name!r}"
        case "extra_forbidden":
            reason = _unexpected(called, name, known)
        case _:
            said = wrong["msg"].removeprefix("Value error, ")
            said = said.replace("Input should be", "must be", 1)
            reason = f"{called}(): {name} {said}, got {got(wrong['input'])}"
    return InvalidArgument(name, reason)


def _unexpected(called: str, name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{called}() got an unexpected keyword argument {name!r}{hint}"


# --- what is taken --------------------------------------------------------------------------------


def _options_of(function: Callable[..., Any]) -> type | None:
    """The `Options` of `**options: Unpack[Options]`."""
    if not any("Unpack[" in str(each) for each in function.__annotations__.values()):
        return None
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
        raise InvalidArgument(name, f"{name} {_TOO_LARGE}")
    for element in _elements_of(hint):
        if isinstance(value, list | tuple):
            for i, each in enumerate(value):
                _check(f"{name}[{i}]", each, element)
    missing = _missing(value, hint)
    without = f", which has no {missing!r}" if missing else ""
    if not _may_name(value, get_args(hint)):
        without = ", which is no file's name"
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
        if not _may_name(value, inner):
            return False
        return any(fits(value, each) for each in inner)
    if origin is Literal:
        return isinstance(value, str | int | None) and value in inner
    if origin is not None:
        return _fits_container(value, origin, inner)
    if hint is None or hint is type(None):
        return value is None
    if hint in (int, float):
        return _fits_number(value, hint)
    if hint is TextIO:
        return hasattr(value, "write") and not isinstance(value, type)
    if getattr(hint, "_is_protocol", False):
        return not isinstance(value, type) and all(_has(value, each) for each in _members(hint))
    return not isinstance(hint, type) or hint in (object, Any) or isinstance(value, hint)


def _fits_number(value: object, hint: Any) -> bool:  # noqa: ANN401 - int or float
    if hint is int:
        number = whole_number(value)
        return number is not None and abs(number) <= LARGEST
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= LARGEST and math.isfinite(value)


def _may_name(value: object, kinds: tuple[Any, ...]) -> bool:
    """Whether a file can be called so, as far as its characters go; or none is asked for."""
    if not any(hasattr(kind, "__fspath__") for kind in kinds):
        return True
    if not isinstance(value, str) and not hasattr(value, "__fspath__"):
        return True
    try:
        return b"\0" not in str(value).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False


def _fits_container(value: object, origin: Any, inner: tuple[Any, ...]) -> bool:  # noqa: ANN401
    if not isinstance(origin, type) or not isinstance(value, origin):
        return False
    if isinstance(value, Mapping) and issubclass(origin, Mapping):
        return all(fits(k, inner[0]) and fits(v, inner[1]) for k, v in value.items())
    if not issubclass(origin, Iterable):
        return True  # a function, for one
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping):
        return False
    if hasattr(type(value), "model_fields"):
        return False  # a model of pydantic, which is not loaded for this: its fields are no list
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

"""Turn functions that take a connection or a `Pool` into methods of the store."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import apsw

from compact.store.sqlite import originals
from compact.store.sqlite.originals import OriginalsMissing
from compact.store.sqlite.pool import Pool

Given = ParamSpec("Given")
T = TypeVar("T")


class Store(Protocol):
    """What these methods need of their object."""

    _pool: Pool


def on_pool(
    function: Callable[Concatenate[Pool, Given], T],
) -> Callable[Concatenate[Store, Given], T]:
    """Return a method that calls the function with the store's `Pool`."""

    @wraps(function)
    def method(self: Store, /, *args: Given.args, **given: Given.kwargs) -> T:
        return function(self._pool, *args, **given)

    _sign(method, function)
    return method


def in_transaction(
    transaction: Callable[[Pool], AbstractContextManager[apsw.Connection]],
    function: Callable[Concatenate[apsw.Connection, Given], T],
) -> Callable[Concatenate[Store, Given], T]:
    """Return a method that runs the function in a transaction of its own. It runs again if another
    process moved a session's originals meanwhile.
    """

    @wraps(function)
    def method(self: Store, /, *args: Given.args, **given: Given.kwargs) -> T:
        while True:
            try:
                with transaction(self._pool) as db:
                    return function(db, *args, **given)
            except OriginalsMissing as error:
                with self._pool.read() as db:
                    if originals.of_key(db, error.place.session) == error.place:
                        raise

    _sign(method, function)
    return method


def _sign(method: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Give the method the function's signature, with `self` in place of the connection."""
    known = inspect.signature(function)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    connection, *others = known.parameters.values()
    method.__dict__["__signature__"] = known.replace(parameters=[own, *others])
    types = function.__annotations__
    method.__annotations__ = {name: types[name] for name in types if name != connection.name}
    method.__qualname__ = f"SQLiteManager.{function.__name__}"

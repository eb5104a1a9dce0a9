"""Makes methods of the store from functions that take a connection.

`in_transaction` is for what a session's rows answer, archived or not. `reading` and `going_on` are
for what needs its messages.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import apsw

from compact.store.sqlite import archived_copies, archived_rows
from compact.store.sqlite.archived_copies import ArchivedCopies
from compact.store.sqlite.pool import Pool
from compact.store.sqlite.rows import Unreadable

Given = ParamSpec("Given")
T = TypeVar("T")


class Store(Protocol):
    """What such a method uses of its object."""

    _pool: Pool
    _copies: ArchivedCopies


def in_transaction(
    transaction: Callable[[Pool], AbstractContextManager[apsw.Connection]],
    function: Callable[Concatenate[apsw.Connection, Given], T],
) -> Callable[Concatenate[Store, Given], T]:
    """A method that runs the function in its own transaction."""

    @wraps(function)
    def method(self: Store, /, *args: Given.args, **given: Given.kwargs) -> T:
        with transaction(self._pool) as db:
            return function(db, *args, **given)

    _sign(method, function)
    return method


def reading(
    function: Callable[Concatenate[apsw.Connection, Given], T],
) -> Callable[Concatenate[Store, Given], T]:
    """A method that reads a branch. Of an archived session it reads the archive's copy."""

    @wraps(function)
    def method(self: Store, /, *args: Given.args, **given: Given.kwargs) -> T:
        branch_id = _branch_of(args, given)
        while True:
            with self._pool.read() as db:
                try:
                    found = function(db, *args, **given)
                    if found or not (place := archived_rows.of_branch(db, branch_id)):
                        return found
                except Unreadable:
                    if not (place := archived_rows.of_branch(db, branch_id)):
                        raise
            copy = self._copies.of(place)
            if copy is not None:
                with copy.read() as db:
                    return function(db, *args, **given)

    _sign(method, function)
    return method


def going_on(
    function: Callable[Concatenate[apsw.Connection, Given], T],
) -> Callable[Concatenate[Store, Given], T]:
    """A method that continues a branch. An archived session is restored first, in the same
    transaction.
    """

    @wraps(function)
    def method(self: Store, /, *args: Given.args, **given: Given.kwargs) -> T:
        branch_id = _branch_of(args, given)
        return archived_copies.going_on(
            self._pool,
            lambda db: archived_rows.of_branch(db, branch_id),
            lambda db: function(db, *args, **given),
        )

    _sign(method, function)
    return method


def _branch_of(args: tuple[object, ...], given: Mapping[str, object]) -> str:
    return cast("str", args[0] if args else given["branch_id"])


def _sign(method: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Give the method the function's signature, without the connection."""
    known = inspect.signature(function)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [own, *list(known.parameters.values())[1:]]
    method.__dict__["__signature__"] = known.replace(parameters=parameters)
    method.__annotations__ = {n: x for n, x in function.__annotations__.items() if n != "db"}
    method.__qualname__ = f"SQLiteManager.{function.__name__}"

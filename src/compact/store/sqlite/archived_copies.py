"""Reads and continues archived sessions. A reader gets a session from an in-memory database,
restored from its archive. A writer gets it restored into the store.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import wraps
from threading import Lock
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import apsw

from compact.errors import StoreDamaged, StoreFailed
from compact.store.archives import folder
from compact.store.archives.packing import Unpackable
from compact.store.sqlite import archived_rows
from compact.store.sqlite.archived_rows import ArchivePlace
from compact.store.sqlite.pool import MEMORY, Pool
from compact.store.sqlite.rows import Unreadable

MOST_COPIES = 4
"""How many archived sessions to keep in memory for readers."""


Given = ParamSpec("Given")
T = TypeVar("T")


class ArchivedCopies:
    """In-memory copies of archived sessions. Safe for use by many threads."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._lock = Lock()
        self._copies: dict[tuple[int, bytes], Pool] = {}

    def of(self, place: ArchivePlace) -> Pool | None:
        """Return the session as its archive holds it; None where it is no longer archived there.

        Raises:
            StoreDamaged: the archive is missing or altered.
        """
        key = place.session, place.originals
        with self._lock:
            copy = self._copies.pop(key, None)
        if copy is None and (data := read_if_archived(self._pool, place)) is not None:
            copy = _restored(place, data)
        if copy is not None:
            with self._lock:
                self._copies[key] = copy
                while len(self._copies) > MOST_COPIES:
                    self._copies.pop(next(iter(self._copies)))
        return copy


def _restored(place: ArchivePlace, data: bytes) -> Pool:
    copy = Pool(MEMORY, durability="normal", busy_timeout=0)
    try:
        with copy.write() as db:
            archived_rows.load(db, data)
    except (Unpackable, apsw.Error) as error:
        raise StoreDamaged(f"the archive {place.name} cannot be read: {error}") from error
    return copy


def read(pool: Pool, place: ArchivePlace) -> bytes:
    """Return the bytes of an archive's originals.

    Raises:
        StoreDamaged: the file is missing or altered.
        StoreFailed: the file cannot be read now, or not with this key.
    """
    blobs = pool.places.at(place.folder)
    try:
        return folder.originals_at(blobs, place.name, place.originals)
    except FileNotFoundError as error:
        at = blobs.address(place.name + folder.ORIGINALS)
        raise StoreDamaged(
            f"the archive {at} is missing: put it back, and its session can be read again"
        ) from error


def read_if_archived(pool: Pool, place: ArchivePlace) -> bytes | None:
    """Like `read`; None where the session is no longer archived there."""
    try:
        return read(pool, place)
    except StoreFailed:
        with pool.read() as db:
            now = archived_rows.of_key(db, place.session)
        if now == place:
            raise
        return None


def restoring(
    pool: Pool,
    find: Callable[[apsw.Connection], ArchivePlace | None],
    work: Callable[[apsw.Connection], T],
) -> T:
    """Restore the archived session that `find` names, then run `work`, in one writing transaction.
    Returns what `work` returns.

    The archive is read before the transaction, so that no writer waits for a network. Its files are
    removed afterwards.

    Raises:
        StoreDamaged: the archive is missing or altered.
        StoreFailed: the archive cannot be read now, or not with this key.
    """
    place, data = None, None
    while True:
        with pool.write() as db:
            now = find(db)
            if now is None or (now == place and data is not None):
                if now is not None:
                    archived_rows.bring_back(db, now, data or b"")
                done = work(db)
                break
        place, data = now, read_if_archived(pool, now)
    if now is not None:
        with suppress(StoreFailed):  # the next opening tries again
            discard_due(pool)
    return done


def discard_due(pool: Pool) -> None:
    """Remove the files of archives that no session needs, once that is durable.

    Raises:
        StoreFailed: durability cannot be determined, or a file cannot be removed.
    """
    with pool.read() as db:
        if not archived_rows.has_discards(db):
            return
    if not pool.is_durable():
        return
    with pool.write() as db:
        for chore, place, name in archived_rows.due(db):
            folder.discard(pool.places.at(place), name)
            archived_rows.done(db, chore)


# --- methods of the store -------------------------------------------------------------------------

# `in_transaction` is for what a session's rows answer, archived or not. `reading` and `going_on`
# are for what needs its messages.


class Store(Protocol):
    """What these methods need of the object they belong to."""

    _pool: Pool
    _copies: ArchivedCopies


def on_pool(
    function: Callable[Concatenate[Pool, Given], T],
) -> Callable[Concatenate[Store, Given], T]:
    """Return a method that calls the function with the store's connections."""

    @wraps(function)
    def method(self: Store, /, *args: Given.args, **given: Given.kwargs) -> T:
        return function(self._pool, *args, **given)

    _sign(method, function)
    return method


def in_transaction(
    transaction: Callable[[Pool], AbstractContextManager[apsw.Connection]],
    function: Callable[Concatenate[apsw.Connection, Given], T],
) -> Callable[Concatenate[Store, Given], T]:
    """Return a method that runs the function in its own transaction."""

    @wraps(function)
    def method(self: Store, /, *args: Given.args, **given: Given.kwargs) -> T:
        with transaction(self._pool) as db:
            return function(db, *args, **given)

    _sign(method, function)
    return method


def reading(
    function: Callable[Concatenate[apsw.Connection, Given], T],
) -> Callable[Concatenate[Store, Given], T]:
    """Return a method that reads a branch. Of an archived session it reads the archive's copy."""

    @wraps(function)
    def method(self: Store, /, *args: Given.args, **given: Given.kwargs) -> T:
        branch_id = _branch_of(args, given)
        while True:
            with self._pool.read() as db:
                try:
                    result = function(db, *args, **given)
                    if result or not (place := archived_rows.of_branch(db, branch_id)):
                        return result
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
    """Return a method that continues a branch. An archived session is restored first, in the same
    transaction.
    """

    @wraps(function)
    def method(self: Store, /, *args: Given.args, **given: Given.kwargs) -> T:
        branch_id = _branch_of(args, given)
        return restoring(
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
    connection, *others = known.parameters.values()
    method.__dict__["__signature__"] = known.replace(parameters=[own, *others])
    types = function.__annotations__
    method.__annotations__ = {name: types[name] for name in types if name != connection.name}
    method.__qualname__ = f"SQLiteManager.{function.__name__}"

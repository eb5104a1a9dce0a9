"""Reading sessions that are archived: whoever reads one gets it from a database in memory, into
which the originals were restored.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock
from typing import Generic, Protocol, TypeVar

import apsw

from compact.errors import StoreDamaged
from compact.storage.memory_archives import folder
from compact.storage.memory_archives.packing import Unpackable
from compact.storage.sqlite import archived_rows
from compact.storage.sqlite.archived_rows import ArchivePlace
from compact.storage.sqlite.pool import Pool

MOST_COPIES = 4
"""Archived sessions that are kept in memory for those who read them."""


class Copy(Protocol):
    """A store in memory."""

    @property
    def pool(self) -> Pool:
        """Its connection."""
        ...


C = TypeVar("C", bound=Copy)


class ArchivedCopies(Generic[C]):
    """What archived sessions hold, for those who read them. Safe from many threads."""

    def __init__(self, pool: Pool, new: Callable[[], C]) -> None:
        self._pool, self._new = pool, new
        self._lock = Lock()
        self._copies: dict[tuple[int, bytes, int], C] = {}

    def of(self, place: ArchivePlace) -> C | None:
        """The session as it is in its archive; None where it is not archived there any more.

        Raises:
            StoreDamaged: the archive is missing, or is not what was written.
        """
        key = place.session, place.originals, os.getpid()  # a database in memory outlives no fork
        with self._lock:
            found = self._copies.pop(key, None)
        if found is None and (data := self._data(place)) is not None:
            found = self._restored(place, data)
        if found is not None:
            with self._lock:
                self._copies[key] = found
                while len(self._copies) > MOST_COPIES:
                    self._copies.pop(next(iter(self._copies)))
        return found

    def _data(self, place: ArchivePlace) -> bytes | None:
        try:
            return read(self._pool, place)
        except StoreDamaged:
            with self._pool.read() as db:
                now = archived_rows.of_key(db, place.session)
            if now == place:
                raise
            return None

    def _restored(self, place: ArchivePlace, data: bytes) -> C:
        copy = self._new()
        try:
            with copy.pool.write() as db:
                archived_rows.load(db, data)
        except (Unpackable, apsw.Error) as error:
            raise StoreDamaged(f"the archive {place.name} cannot be read: {error}") from error
        return copy


def read(pool: Pool, place: ArchivePlace) -> bytes:
    """The originals' bytes.

    Raises:
        StoreDamaged: the file is missing, or is not what was written.
        StoreFailed: it cannot be read now, or not with this key.
    """
    blobs = pool.places.at(place.folder)
    try:
        return folder.originals_at(blobs, place.name, place.originals)
    except FileNotFoundError as error:
        at = blobs.address(place.name + folder.ORIGINALS)
        raise StoreDamaged(
            f"the archive {at} is missing: put it back, and its session can be read again"
        ) from error


def make_hot(pool: Pool, db: apsw.Connection, place: ArchivePlace | None) -> None:
    """Store the messages of an archived session again, as a part of a transaction that writes.

    Raises:
        StoreDamaged: the archive is missing, or is not what was written.
    """
    if place is not None:
        archived_rows.bring_back(db, place, read(pool, place))


def discard_due(pool: Pool) -> None:
    """Remove the files of archives that nobody needs any more, once it is on the disk that nobody
    does.

    Raises:
        StoreFailed: it cannot be told what is on the disk, or a file cannot be removed.
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

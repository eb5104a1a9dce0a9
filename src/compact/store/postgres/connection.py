"""Connections to a server: a pool for each process, and its errors in words."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import psycopg
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolTimeout

from compact import forks
from compact.errors import InvalidArgument, NotFound, StoreFailed
from compact.store.postgres import schema

MOST_CONNECTIONS = 8
"""Connections of one store."""
WAIT = 10.0
"""Seconds to wait for a connection."""
_LOCK = 0x636F6D70
"""The advisory lock under which tables are made."""
Connection = psycopg.Connection[TupleRow]
Given = Sequence[Any] | Mapping[str, Any]
"""Values of a statement, by place or by name."""
_READS = ("SELECT", "WITH RECURSIVE")
"""How a statement begins that only reads."""
_BROKEN = ("08", "57P", "25P03", "40003")
"""How states of a server begin with which a connection ends. A deadlock or a time limit is none."""
_SET_SCOPE = b"SELECT set_config('compact.scope', %s, true)"
Query = Callable[[str, Given], list[TupleRow]]
"""Runs a statement and returns its rows."""


class Broken(StoreFailed):
    """The connection broke: whether the statement was carried out is unknown."""


class _Ahead(threading.local):
    """What a thread has read ahead."""

    answers: dict[tuple[str, str], list[TupleRow]] | None = None
    is_planning = False


class _Planned(Exception):
    """A statement that is to be asked together with others."""

    def __init__(self, sql: str, given: Given) -> None:
        super().__init__(sql)
        self.sql, self.given = sql, given


class Connections:
    """Gives connections to one database. Tables are made at the first use.

    With row-level security the server shows rows of one scope only: that of these connections,
    which is set anew for each transaction, so a pooler may lie between.
    """

    def __init__(self, address: str | _Pool, scope: str | None = None) -> None:
        self._all = _Pool(address) if isinstance(address, str) else address
        self._scope = scope
        self._ahead = _Ahead()

    @property
    def name(self) -> str:
        """The address without its password, for errors."""
        return self._all.name

    def within(self, scope: str | None) -> Connections:
        """Return the same connections for another scope."""
        return Connections(self._all, scope)

    def query(self, sql: str, given: Given, *, again: bool = True) -> list[TupleRow]:
        """Run one statement, which is a transaction by itself, and return its rows. If the
        connection breaks, run it once more, unless `again` is False.

        Raises:
            Broken: the connection broke. Whether the statement was carried out is unknown.
            StoreFailed: the server cannot be reached, or refuses the statement.
        """
        answers = self._ahead.answers
        if answers is None:
            return self._query(sql, given, again=again)
        key = sql, repr(given)
        if key not in answers:
            if self._ahead.is_planning:
                raise _Planned(sql, given)
            if not sql.lstrip().startswith(_READS):
                answers.clear()
                return self._query(sql, given, again=again)
            answers[key] = self._query(sql, given, again=again)
        return answers[key]

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Keep the answers to this thread's reading statements within the block."""
        self._ahead.answers = {}
        try:
            yield
        finally:
            self._ahead.answers = None

    def read_ahead(self, *calls: Callable[[], object]) -> None:
        """Ask in one round trip what these calls ask first (`ReadsAhead`)."""
        planned = list[_Planned]()
        self._ahead.is_planning = True
        try:
            for call in calls:
                try:
                    call()
                except _Planned as statement:
                    planned.append(statement)
                except NotFound:  # as an answer says that is known
                    continue
        finally:
            self._ahead.is_planning = False
        with suppress(Broken):  # then each is asked by itself
            for one, rows in zip(planned, self._together(planned), strict=True):
                self.know(one.sql, one.given, rows)

    def know(self, sql: str, given: Given, rows: list[TupleRow]) -> None:
        """Keep the answer to a statement for this thread's block (`at_once`)."""
        if self._ahead.answers is not None:
            self._ahead.answers[sql, repr(given)] = rows

    def _together(self, planned: Sequence[_Planned]) -> list[list[TupleRow]]:
        with self._all.connection() as db:
            with db.pipeline():
                if self._scope is not None and self._all.is_walled:
                    db.execute(_SET_SCOPE, (self._scope,))
                cursors = [_sent(db, one.sql, one.given) for one in planned]
            return [cursor.fetchall() for cursor in cursors]

    def _query(self, sql: str, given: Given, *, again: bool) -> list[TupleRow]:
        try:
            with self._all.connection() as db:
                if self._scope is None or not self._all.is_walled:
                    return _rows(db, sql, given)
                with db.pipeline():  # one transaction in one round trip
                    db.execute(_SET_SCOPE, (self._scope,))
                    cursor = _sent(db, sql, given)
                return cursor.fetchall() if cursor.description else []
        except Broken:
            if not again:
                raise
        return self._query(sql, given, again=False)

    @contextmanager
    def transaction(self) -> Iterator[Query]:
        """Give a function that runs a statement within one transaction, which is undone if the
        block fails. Raises the errors of `query`.
        """
        if self._ahead.answers is not None:
            self._ahead.answers.clear()
        with self._all.connection() as db, db.transaction():
            if self._scope is not None and self._all.is_walled:
                db.execute(_SET_SCOPE, (self._scope,))
            yield lambda sql, given: _rows(db, sql, given)

    def connection(self) -> AbstractContextManager[Connection]:
        """Give a connection, with its errors in words, which names no scope by itself."""
        return self._all.connection()

    def close(self) -> None:
        """Close all connections."""
        self._all.close()


class _Pool:
    """A pool that is opened at the first use."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.name = schema.without_password(address)
        """The address without its password, for errors."""
        self.is_walled = False
        """Whether the tables have row-level security."""
        self._lock = forks.Lock()
        self._made: ConnectionPool[Connection] | None = None
        self._is_closed = False

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Give a connection, with its errors in words."""
        pool = self._pool()
        try:
            with pool.connection() as db:
                yield db
        except PoolTimeout as error:
            raise StoreFailed(f"{self.name} gave no connection within {WAIT:.0f} s") from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            if error.sqlstate is not None and not error.sqlstate.startswith(_BROKEN):
                raise StoreFailed(f"{self.name} refused a statement: {_line(error)}") from error
            pool.check()  # others may have broken with it
            raise Broken(f"the connection to {self.name} broke: {_line(error)}") from error
        except psycopg.Error as error:
            raise StoreFailed(f"{self.name} refused a statement: {_line(error)}") from error

    def _pool(self) -> ConnectionPool[Connection]:
        with self._lock:
            if self._is_closed:
                raise StoreFailed("the store is closed")
            if self._made is None:
                self._made = self._opened()
            return self._made

    def _opened(self) -> ConnectionPool[Connection]:
        try:
            with psycopg.connect(self._address, connect_timeout=int(WAIT)) as db:
                self.is_walled = _prepare(db)
        except psycopg.errors.InsufficientPrivilege as error:
            raise StoreFailed(f"{self.name}: no right to make tables: {_line(error)}") from error
        except psycopg.ProgrammingError as error:
            if error.sqlstate is None:  # libpq quotes a part of the address, such as the password
                raise InvalidArgument("store", f"{self.name} is no address") from None
            raise StoreFailed(f"{self.name}: other tables are there: {_line(error)}") from error
        except psycopg.Error as error:
            raise StoreFailed(f"{self.name} cannot be reached: {_line(error)}") from error
        return ConnectionPool(
            self._address,
            min_size=0,
            max_size=MOST_CONNECTIONS,
            timeout=WAIT,
            open=True,
            kwargs={"autocommit": True},
        )

    def close(self) -> None:
        """Close all connections."""
        if self._lock.is_inherited:
            return
        with self._lock:
            pool, self._made, self._is_closed = self._made, None, True
        if pool is not None:
            pool.close()


def _sent(db: Connection, sql: str, given: Given) -> psycopg.Cursor[TupleRow]:
    try:
        return db.execute(sql.encode(), given)
    except UnicodeEncodeError as error:
        reason = "PostgreSQL holds no half surrogate pair in a scope or a name"
        raise StoreFailed(reason) from error


def _rows(db: Connection, sql: str, given: Given = ()) -> list[TupleRow]:
    cursor = _sent(db, sql, given)
    return cursor.fetchall() if cursor.description else []


def _prepare(db: Connection) -> bool:
    """Make the tables, or bring them to this version, in one transaction. Return whether they have
    row-level security.

    Raises:
        StoreFailed: they are of a newer version.
    """
    _rows(db, "SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    is_new = _rows(db, "SELECT to_regclass(%s)", (f"{schema.NAME}.version",)) == [(None,)]
    number = 0 if is_new else _rows(db, f"SELECT number FROM {schema.NAME}.version")[0][0]
    if number > schema.VERSION:
        raise StoreFailed(
            f"the tables are of version {number}, {schema.VERSION} is known: update compact"
        )
    if number < schema.VERSION:
        db.execute("SET LOCAL lock_timeout = '10s'")  # rather fail than hold up every writer
        for step in schema.STEPS[number : schema.VERSION]:
            db.execute(step.encode())
        db.execute(f"UPDATE {schema.NAME}.version SET number = {schema.VERSION}".encode())
    walled = "SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass(%s)"
    return bool(_rows(db, walled, (f"{schema.NAME}.messages",))[0][0])


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def decoded(column: Any) -> str:  # noqa: ANN401 - bytes of a column
    """Return the text of a column of bytes."""
    return bytes(column).decode("utf-8", "surrogatepass")


def encoded(value: str) -> bytes:
    """Return a text as bytes for a column."""
    return value.encode("utf-8", "surrogatepass")

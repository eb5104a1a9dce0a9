"""Prepares a database once: its tables, row-level security, distribution by an engine."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
from psycopg import sql

from compact.errors import InvalidArgument, NotFound, StoreFailed
from compact.store.postgres.connection import Connection, Connections
from compact.store.postgres.schema import NAME, VECTORS

TABLES = ("sessions", "branches", "messages", "words", "log", "leases", "embedded", "vectors")
"""All tables with rows of tenants. The first one says where the others' rows lie."""


def set_up(address: str, *, citus: bool = False, role: str | None = None) -> Iterator[str]:
    """Make the tables, and yield a sentence on each step. With `citus`, declare that each table is
    distributed by scope. With `role`, give the rows to that role of the server by scope only
    (row-level security). Doing it again does no harm.

    Raises:
        StoreFailed: the server cannot be reached, or refuses a step.
        InvalidArgument: it is no address, or the server has no Citus.
        NotFound: the server has no such role.
    """
    server = Connections(address)
    try:
        server.query("SELECT 1", ())
        yield f"the tables are in the schema {NAME} of {server.name}"
        try:
            server.query(VECTORS, ())
            yield "vectors are kept with pgvector"
        except StoreFailed as error:
            yield f"no vectors can be kept: {error}"
        with psycopg.connect(address) as db:
            is_there = "SELECT to_regclass(%s)"
            there = [name for name in TABLES if _row(db, is_there, f"{NAME}.{name}")]
            if citus:
                yield from _distribute(db, there)
            if role is not None:
                yield from _wall(db, there, role)
    except psycopg.Error as error:
        text = " ".join(str(error).split())
        raise StoreFailed(f"{server.name} refused a step: {text}") from error
    finally:
        server.close()


def _row(db: Connection, text: str, *given: object) -> object:
    found = db.execute(text.encode(), given).fetchone()
    return None if found is None else found[0]


def _distribute(db: Connection, tables: list[str]) -> Iterator[str]:
    known = "SELECT to_regclass('pg_dist_partition')"
    if _row(db, known) is None:
        reason = "this server has no Citus: run CREATE EXTENSION citus in the database first"
        raise InvalidArgument("citus", reason)
    declared = db.execute("SELECT logicalrelid::regclass::text FROM pg_dist_partition").fetchall()
    done = {str(row[0]).rpartition(".")[2] for row in declared}
    for name in (each for each in tables if each not in done):
        beside = "none" if name == tables[0] else f"{NAME}.{tables[0]}"
        text = "SELECT create_distributed_table(%s, 'scope', colocate_with => %s)"
        db.execute(text, (f"{NAME}.{name}", beside))
        yield f"{NAME}.{name} is distributed by scope"
    if "version" not in done:
        db.execute("SELECT create_reference_table(%s)", (f"{NAME}.version",))


def _wall(db: Connection, tables: list[str], role: str) -> Iterator[str]:
    if _row(db, "SELECT 1 FROM pg_roles WHERE rolname = %s", role) is None:
        raise NotFound(f"the server has no role {role!r}: CREATE ROLE it first")
    if _row(db, "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = %s", role):
        raise InvalidArgument("role", f"{role!r} sees all rows, whatever is set: take another role")
    owned = """
        SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace(%s)
        AND pg_has_role(%s, relowner, 'MEMBER') LIMIT 1
    """
    if _row(db, owned, NAME, role):
        reason = f"{role!r} owns the tables, or may act as their owner, who sees all rows"
        raise InvalidArgument("role", reason)
    own, key = sql.Identifier(role), sql.Literal("compact.scope")
    for name in tables:
        at = sql.Identifier(NAME, name)
        for text in (
            "ALTER TABLE {at} ENABLE ROW LEVEL SECURITY",
            "DROP POLICY IF EXISTS one_scope ON {at}",
            "CREATE POLICY one_scope ON {at} USING (scope = current_setting({key}, true))",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON {at} TO {own}",
        ):
            db.execute(sql.SQL(text).format(at=at, own=own, key=key))
    db.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(NAME), own))
    version = sql.SQL("GRANT SELECT ON {} TO {}").format(sql.Identifier(NAME, "version"), own)
    db.execute(version)
    yield f"{role!r} sees the rows of the scope that it names, and no others"

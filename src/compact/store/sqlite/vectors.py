"""Rows of vectors and of generations. A generation is one model in one version. Vectors are
compared only within a generation; no statement here reads two.

Each branch stores the position up to which it is embedded, as it does for the word index. So an
append does nothing here, and after a crash the missing messages are still pending. Positions and
vectors change in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import apsw

from compact.messages import clock_and_ids
from compact.store.sqlite import vec0
from compact.store.sqlite.rows import BITS, LAST, Row, first, query, text, text_of
from compact.text.embedding import Generation

FIRST_MESSAGE = 1 << BITS
"""The lowest key of a message. Lower keys are those of an application's own named vectors."""
_GENERATION = "SELECT key, model, version, dimensions, state, {} FROM generations g "
_COUNTED = "(SELECT count(*) FROM vectors v WHERE v.generation = g.key)"
_PENDING = f"""
    SELECT branch, start, stop FROM (
        SELECT b.key AS branch, coalesce(e.position, b.fork) AS start, 1 + (
            SELECT m.key FROM messages m WHERE m.key BETWEEN b.key << {BITS}
            AND (b.key << {BITS}) + {LAST} ORDER BY m.key DESC LIMIT 1
        ) - (b.key << {BITS}) AS stop
        FROM branches b LEFT JOIN embedded e ON e.branch = b.key AND e.generation = ?1
        WHERE b.key > ?2 ORDER BY b.key
    ) WHERE stop > start
"""
_MOVE = f"""
    INSERT INTO embedded (branch, generation, position)
    SELECT key, ?2, ?4 FROM branches WHERE key = ?1 AND (fork = ?3 OR EXISTS (
        SELECT 1 FROM embedded e WHERE e.branch = ?1 AND e.generation = ?2))
        AND ?2 IN (SELECT key FROM generations WHERE state IN ('serving', 'made'))
        AND EXISTS (SELECT 1 FROM messages WHERE key = (?1 << {BITS}) + ?4 - 1)
    ON CONFLICT DO UPDATE SET position = excluded.position WHERE position = ?3 RETURNING 1
"""
WRONG: tuple[tuple[str, str], ...] = (
    (
        f"vectors WHERE message >= {FIRST_MESSAGE} AND message NOT IN (SELECT key FROM messages)",
        "vectors are of messages that are not there",
    ),
    (
        f"vectors WHERE message < {FIRST_MESSAGE}"
        " AND message NOT IN (SELECT key FROM vector_names)",
        "vectors are of names that are not there",
    ),
    (
        "vectors WHERE generation NOT IN (SELECT key FROM generations)",
        "vectors are of no generation",
    ),
    (
        "vectors v JOIN generations g ON g.key = v.generation"
        " WHERE length(v.vector) <> 4 * g.dimensions",
        "vectors have other dimensions than their generation",
    ),
    (
        "messages m LEFT JOIN vectors v ON v.key = m.embedding_id"
        " WHERE m.embedding_id IS NOT NULL AND v.message IS NOT m.key",
        "messages name a vector that is not theirs",
    ),
    (
        "vectors v LEFT JOIN embedded e ON e.generation = v.generation"
        f" AND e.branch = v.message >> {BITS} WHERE v.message >= {FIRST_MESSAGE}"
        f" AND v.message & {LAST} >= coalesce(e.position, 0)",
        "vectors are of messages that count as pending",
    ),
)
"""A condition for rows that should not exist, and the sentence that reports them."""


class Gap(NamedTuple):
    """A range of pending messages in a branch."""

    branch: int
    start: int
    stop: int
    """The position after the last pending message."""


class Vector(NamedTuple):
    """A vector to store."""

    message: int
    chunk: int
    data: bytes


# --- generations ----------------------------------------------------------------------------------


def generations(db: apsw.Connection, *, counted: bool = True) -> list[Generation]:
    """Return all generations, oldest first. With `counted`, their vectors are counted too."""
    sql = _GENERATION.format(_COUNTED if counted else "0")
    return [_generation_of(row) for row in query(db, f"{sql} ORDER BY key")]


def generation(db: apsw.Connection, key: int) -> Generation | None:
    """Return the generation with that key, without counting its vectors."""
    row = first(db, _GENERATION.format("0") + "WHERE key = ?", (key,))
    return None if row is None else _generation_of(row)


def serving(db: apsw.Connection) -> Generation | None:
    """Return the generation that searches for messages use, without counting its vectors."""
    row = first(db, _GENERATION.format("0") + "WHERE state = 'serving'")
    return None if row is None else _generation_of(row)


def _generation_of(row: Row) -> Generation:
    key, model, version, *rest = row
    return Generation(key, text_of(model), text_of(version), *rest)


def find(
    db: apsw.Connection, model: str, version: str, dimensions: int, states: Sequence[str]
) -> Generation | None:
    """Return the generation of that model and version, if it is in one of these states."""
    wanted = (model, version, dimensions)
    for each in generations(db, counted=False):
        if each[1:4] == wanted and each.state in states:
            return each
    return None


def begin(
    db: apsw.Connection, model: str, version: str, dimensions: int, *, own: bool = False
) -> Generation:
    """Return the generation of that model and version, created if there is none. The first
    generation of messages is used at once.
    """
    states = ("own",) if own else ("serving", "made")
    known = find(db, model, version, dimensions, states)
    if known is not None:
        return known
    serves = first(db, "SELECT 1 FROM generations WHERE state = 'serving'") is not None
    state = "own" if own else "made" if serves else "serving"
    db.execute(
        """
        INSERT INTO generations (model, version, dimensions, state, removed, made_at)
        VALUES (?, ?, ?, ?, 0, ?)
        """,
        (text(model), text(version), dimensions, state, clock_and_ids.now().isoformat()),
    )
    made = generation(db, db.last_insert_rowid())
    assert made is not None, "it was just stored"
    return made


def take_over(db: apsw.Connection, key: int) -> None:
    """Put a complete generation into use and retire the others. An incomplete one is not used."""
    now = generation(db, key)
    if now is None or now.state == "serving" or gaps(db, key, most=1):
        return
    db.execute("UPDATE generations SET state = 'leaving' WHERE state IN ('serving', 'made')")
    db.execute("UPDATE generations SET state = 'serving' WHERE key = ?", (key,))


def leave(db: apsw.Connection, key: int) -> None:
    """Retire a generation. No search uses it any more; `sweep` removes its rows."""
    db.execute("UPDATE generations SET state = 'leaving' WHERE key = ?", (key,))


def sweep(db: apsw.Connection, most: int) -> None:
    """Remove up to `most` rows of a retired generation, then the generation itself."""
    row = first(db, "SELECT key FROM generations WHERE state = 'leaving' LIMIT 1")
    if row is None:
        return
    chosen = "SELECT key FROM vectors WHERE generation = ? ORDER BY key LIMIT ?"
    keys = [each[0] for each in query(db, chosen, (row[0], most))]
    _forget(db, row[0], keys)
    db.executemany("DELETE FROM vectors WHERE key = ?", ((key,) for key in keys))
    vec0.remove(db, row[0], keys)
    if len(keys) < most:
        db.execute("DELETE FROM embedded WHERE generation = ?", (row[0],))
        db.execute("DELETE FROM generations WHERE key = ?", (row[0],))
        vec0.drop(db, row[0])


def _forget(db: apsw.Connection, leaving: int, keys: Sequence[int]) -> None:
    """Where messages refer to these vectors, make them refer to those of the serving generation."""
    if not keys:
        return
    sql = """
        UPDATE messages SET embedding_id = (
            SELECT v.key FROM vectors v JOIN generations g ON g.key = v.generation
            WHERE v.message = messages.key AND v.chunk = 0 AND g.state = 'serving'
        ) WHERE embedding_id = ?2 AND key = (SELECT message FROM vectors WHERE key = ?2 AND
            generation = ?1 AND chunk = 0)
    """
    db.executemany(sql, ((leaving, key) for key in keys))


# --- pending messages -----------------------------------------------------------------------------


def gaps(db: apsw.Connection, key: int, *, after: int = 0, most: int = -1) -> list[Gap]:
    """Return ranges of pending messages, for at most `most` branches with keys above `after`."""
    return [Gap(*row) for row in query(db, f"{_PENDING} LIMIT ?3", (key, after, most))]


def pending(db: apsw.Connection, key: int) -> int:
    """Return how many messages are pending."""
    row = first(db, f"SELECT coalesce(sum(stop - start), 0) FROM ({_PENDING})", (key, 0))
    return int(row[0]) if row else 0


def put(db: apsw.Connection, key: int, gap: Gap, vectors: Sequence[Vector]) -> bool:
    """Store vectors of pending messages. Return False if the messages were not pending any more,
    because another process was faster or their session was deleted.
    """
    if not query(db, _MOVE, (gap.branch, key, gap.start, gap.stop)):
        return False
    _stored(db, key, vectors)
    return True


def _stored(db: apsw.Connection, key: int, vectors: Sequence[Vector]) -> None:
    stored = add(db, key, vectors)
    named = ((at, each.message) for at, each in stored if not each.chunk)
    db.executemany("UPDATE messages SET embedding_id = ? WHERE key = ?", named)


# --- vectors --------------------------------------------------------------------------------------


def add(db: apsw.Connection, key: int, vectors: Iterable[Vector]) -> list[tuple[int, Vector]]:
    """Store vectors. Return each with its new key."""
    row = first(db, "SELECT seq FROM sqlite_sequence WHERE name = 'vectors'")
    numbered = list(enumerate(vectors, 1 + (row[0] if row else 0)))
    sql = "INSERT INTO vectors (key, generation, message, chunk, vector) VALUES (?, ?, ?, ?, ?)"
    db.executemany(sql, ((at, key, *each) for at, each in numbered))
    return numbered


def remove_branch(db: apsw.Connection, branch: int) -> None:
    """Remove a branch's vectors and embedded positions."""
    db.execute("DELETE FROM embedded WHERE branch = ?", (branch,))
    _remove(db, "message BETWEEN ? AND ?", (branch << BITS, branch << BITS | LAST))


def remove_message(db: apsw.Connection, key: int, message: int) -> bool:
    """Remove the vectors of a message or name in a generation. Return whether there were any."""
    return _remove(db, "message = ? AND generation = ?", (message, key))


def _remove(db: apsw.Connection, where: str, bindings: tuple[int, ...]) -> bool:
    sql = f"DELETE FROM vectors WHERE {where} RETURNING generation, key"
    removed: dict[int, list[int]] = {}
    for key, row in query(db, sql, bindings):
        removed.setdefault(key, []).append(row)
    for key, rows in removed.items():
        vec0.remove(db, key, rows)
        db.execute("UPDATE generations SET removed = removed + 1 WHERE key = ?", (key,))
    return bool(removed)


# --- names ----------------------------------------------------------------------------------------


def key_of_name(db: apsw.Connection, name: str, *, create: bool = False) -> int | None:
    """Return the key of a name. An unknown name gives None, or a new key with `create`."""
    sql = "SELECT key FROM vector_names WHERE name = ?"
    row = first(db, sql, (text(name),))
    if row is None and create:
        db.execute("INSERT INTO vector_names (name) VALUES (?)", (text(name),))
        return db.last_insert_rowid()
    return None if row is None else int(row[0])


def names_of(db: apsw.Connection, keys: Iterable[int]) -> dict[int, str]:
    """Return key → name. Unknown keys are left out."""
    sql = "SELECT name FROM vector_names WHERE key = ?"
    rows = ((key, first(db, sql, (key,))) for key in keys)
    return {key: text_of(row[0]) for key, row in rows if row is not None}


def forget_name(db: apsw.Connection, key: int) -> None:
    """Delete a name, unless it still has vectors."""
    sql = """
        DELETE FROM vector_names WHERE key = ?1 AND NOT EXISTS (
            SELECT 1 FROM vectors WHERE message = ?1)
    """
    db.execute(sql, (key,))

"""Where the texts of old messages are, and how they are read: the only place that reads archives.

A message whose text was moved keeps its row, its place in the hash chain, its words in the index
and its vectors. Only `content` and `payload` are gone: the payload is empty. They are in the
session's file (`store.session_file`), which is in the archive, or packed in this database.

Queries that need texts select `MESSAGE` (`rows`). It calls `original` for a row without a payload.
So nobody else asks whether a session is archived.

Archives that schema 3 wrote: table rows as compressed lines of JSON, and a description in a
second file. They are converted to the rows of today's session files.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from threading import Lock
from typing import Any, NamedTuple, cast
from weakref import ref

import apsw
import orjson

from compact.errors import StoreDamaged, StoreFailed
from compact.messages import clock_and_ids
from compact.messages.codec import dump, load
from compact.messages.times import Times
from compact.store.archives import folder
from compact.store.blobs.places import ArchivePlaces
from compact.store.session_file import OwnRows, own_rows, rows_before_damage, unpacked
from compact.store.sqlite.rows import (
    BITS,
    LAST,
    MOVED,
    ORIGINAL,
    TEXTS,
    Row,
    first,
    moment,
    position_in,
    query,
    text,
    text_of,
)

# --- old archives ---------------------------------------------------------------------------------

_HEAD = b'{"schema":"compact/originals"'


def is_old(data: bytes) -> bool:
    """Return whether schema 3 wrote these originals."""
    return unpacked(data).startswith(_HEAD)


def rows_of_old(data: bytes) -> OwnRows:
    """Return branch id → its fork and messages, as the rows of a session's file.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: the archive is damaged or incomplete.
    """
    tables: dict[str, list[dict[str, Any]]] = {}
    name, columns = "", list[str]()
    for line in unpacked(data).splitlines()[2:]:
        value = orjson.loads(line)
        if isinstance(value, list):
            tables[name].append(dict(zip(columns, map(_cell, value), strict=True)))
        elif "table" in value:
            name, columns = value["table"], value["columns"]
            tables[name] = []
        elif {each: len(rows) for each, rows in tables.items()} != value["rows"]:
            raise ValueError("it does not have as many rows as it says")
        else:
            name = "end"
    if name != "end":
        raise ValueError("its end is missing")
    own: dict[int, list[Mapping[str, Any]]] = {row["key"]: [] for row in tables["branches"]}
    for row in tables["messages"]:
        own[row["key"] >> BITS].append(_message(row))
    return {text_of(row["id"]): (row["fork"], own[row["key"]]) for row in tables["branches"]}


def _message(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "role": row["role"],
        "id": f"m{position_in(row['key'])}" if row["id"] is None else text_of(row["id"]),
        "at": moment(row["timestamp"], row["zone"]).isoformat(),
        "score": row["importance_score"],
        "content": row["content"],
        "payload": load(row["payload"]),
        "tokens": row["token_count"],
        "marks": row["marks"],
    }


def _cell(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if not isinstance(value, dict):
        return value
    ((kind, cell),) = value.items()
    if kind == "t":
        return cell.encode()
    return float(cell) if kind == "f" else b64decode(cell)


# --- originals ------------------------------------------------------------------------------------

_ENDING = ".zst"
MOST_BYTES = 8 << 20
"""How many bytes of files to keep unpacked for readers, at least one file. Unpacked, they take
about ten times as much."""
MOST_LIVE = 1 << 20
"""How many bytes the file of a session that goes on may have, which are about a quarter of its
texts: some 20,000 messages, which a process unpacks in a tenth of a second at the first search."""
PART = 980
"""Bytes of a row of packed originals: four fill a page of the database."""
_OF_BRANCH = f"key BETWEEN ?1 << {BITS} AND (?1 << {BITS}) + {LAST}"
"""Messages of one branch, or packed rows of one session."""
_OLDER = f"""
    (?3 IS NULL OR key <= (SELECT max(key) FROM messages WHERE {_OF_BRANCH}
        AND timestamp >= ?2 AND timestamp < ?3 AND key < coalesce((SELECT min(key) FROM messages
            WHERE {_OF_BRANCH} AND timestamp BETWEEN ?3 AND ?4), key + 1)))
"""
"""The messages of a branch up to the last one that is old, before the first one that is not. All of
them without `Times`."""
SIZE = "length(payload) + octet_length(coalesce(content, ''))"
"""Bytes of a message's text in `messages`."""
_PACKED = f"SELECT data FROM packed WHERE {_OF_BRANCH} ORDER BY key"
_PLACE = "SELECT a.session, a.folder, a.name, a.originals FROM archived a"
_ALTERED = "packed originals are not what was stored"
BROKEN = (ValueError, LookupError, TypeError, AttributeError)
"""What reading a file raises that is not a session's."""


class Place(NamedTuple):
    """Says where the originals of a session are."""

    session: int
    """The session's key."""
    folder: str
    """The archive folder: relative to the database's folder where it is inside that, or
    `s3://BUCKET/PREFIX`. Empty where the originals are packed in the database."""
    name: str
    """The file's name. Of an archive of schema 3 that was not read yet, without its ending."""
    sum: bytes
    """SHA-256 of the file."""

    @property
    def is_taken_in(self) -> bool:
        """Whether the session's messages have rows: of an archive of schema 3, once it was read."""
        return not self.folder or self.name.endswith(_ENDING)

    @property
    def file(self) -> str:
        """The file's name with its ending."""
        return self.name if self.is_taken_in else self.name + folder.OLD_ENDING


class Moved(NamedTuple):
    """The stored facts of a session whose originals were moved."""

    place: Place
    at: datetime
    messages: int
    tokens: int
    bytes: int


class OriginalsUnread(StoreFailed):
    """A file of originals cannot be read now, or not with this key."""

    def __init__(self, place: Place, reason: str) -> None:
        super().__init__(reason)
        self.place = place


class OriginalsMissing(OriginalsUnread, StoreDamaged):
    """A file of originals is missing, or is not what was written."""


class Originals:
    """Reads originals for all connections of a pool. Safe for use by many threads."""

    def __init__(self, places: ArchivePlaces) -> None:
        self._places = places
        self._lock = Lock()
        self._known: dict[bytes, tuple[int, OwnRows]] = {}

    def serve(self, db: apsw.Connection) -> None:
        """Let queries on this connection read originals."""
        connection = ref(db)  # else the connection would hold itself

        def original(*given: int) -> str | bytes | None:
            db, (key, is_content) = connection(), given
            return None if db is None else self._cell(db, key, is_content)

        db.create_scalar_function(ORIGINAL, cast("Callable[..., Any]", original), 2)

    def _cell(self, db: apsw.Connection, key: int, is_content: int) -> str | bytes | None:
        row = first(db, f"{_PLACE} JOIN branches b USING (session) WHERE b.key = ?", (key >> BITS,))
        place = place_of(row)
        if place is None:
            return None  # a damaged row: `entry_of` says so
        named = query(db, "SELECT id FROM branches WHERE key = ?", (key >> BITS,))
        try:
            fork, rows = self.rows(db, place)[text_of(named[0][0])]
            cell = rows[position_in(key) - fork]
            return cell["content"] if is_content else dump(cell["payload"])
        except BROKEN as error:
            raise OriginalsMissing(
                place, f"the archive {place.name} does not hold what it should: {error!r}"
            ) from error

    def rows(self, db: apsw.Connection, place: Place) -> OwnRows:
        """Return all messages of a file.

        Raises:
            OriginalsMissing: the file is missing or altered.
            OriginalsUnread: the file cannot be read now, or not with this key.
        """
        with self._lock:
            known = self._known.pop(place.sum, None)
        if known is None:
            data = self.data(db, place)
            try:
                known = len(data), rows_in(data)
            except BROKEN as error:
                raise OriginalsMissing(
                    place, f"the archive {place.name} cannot be read: {error}"
                ) from error
        with self._lock:
            self._known[place.sum] = known
            size = sum(each[0] for each in self._known.values())
            while size > MOST_BYTES and len(self._known) > 1:
                size -= self._known.pop(next(iter(self._known)))[0]
        return known[1]

    def data(self, db: apsw.Connection, place: Place) -> bytes:
        """Return a file's bytes. Raises the errors of `rows`."""
        if not place.folder:
            data = _packed(db, place.session)
            if folder.sum_of(data) != place.sum:
                named = query(db, "SELECT id FROM sessions WHERE key = ?", (place.session,))
                name = text_of(named[0][0]) if named else ""
                raise OriginalsMissing(
                    place,
                    f"session {name!r}: {_ALTERED}. Everything else that can be read is saved by "
                    "`compactctl doctor --repair`",
                )
            return data
        try:
            blobs = self._places.at(place.folder)
        except StoreFailed as error:
            raise OriginalsUnread(place, str(error)) from error
        name = place.file
        try:
            return folder.read(blobs, name, place.sum)
        except FileNotFoundError as error:
            raise OriginalsMissing(
                place,
                f"the archive {blobs.address(name)} is missing: put it back, and its "
                "session can be read again",
            ) from error
        except StoreDamaged as error:
            raise OriginalsMissing(place, str(error)) from error
        except StoreFailed as error:
            raise OriginalsUnread(place, str(error)) from error

    def faults(self, db: apsw.Connection, place: Place) -> list[str]:
        """Return defects of a file."""
        try:
            self.data(db, place)
        except StoreFailed as error:
            if isinstance(error, StoreDamaged):
                return [str(error) if place.folder else _ALTERED]
            return [f"{place.name} cannot be verified: {error}"]
        return []


def rows_in(data: bytes) -> OwnRows:
    """Return the messages of a file by branch. A file of schema 3 is read as if it were new."""
    return rows_of_old(data) if is_old(data) else own_rows(data)


# --- sessions whose originals were moved ----------------------------------------------------------


def of_session(db: apsw.Connection, session_id: str) -> Place | None:
    """Return where a session's originals are; None where they are in `messages`."""
    sql = f"{_PLACE} JOIN sessions s ON s.key = a.session WHERE s.id = ?"
    return place_of(first(db, sql, (text(session_id),)))


def of_key(db: apsw.Connection, session: int) -> Place | None:
    """Like `of_session`, by the session's key."""
    return place_of(first(db, f"{_PLACE} WHERE a.session = ?", (session,)))


def not_taken_in(db: apsw.Connection) -> list[Place]:
    """Return archives of schema 3 that no opening could read yet."""
    rows = query(db, f"{_PLACE} WHERE a.folder <> '' AND a.name NOT GLOB '*{_ENDING}'")
    return [place for row in rows if (place := place_of(row)) is not None]


def check_rows(db: apsw.Connection, branch: int) -> None:
    """Check that a branch's messages have rows, by the branch's key.

    Raises:
        OriginalsMissing: its archive is of schema 3, and no opening could read it yet.
    """
    sql = f"{_PLACE} JOIN branches b USING (session) WHERE b.key = ?"
    place = place_of(first(db, sql, (branch,)))
    if place is not None and not place.is_taken_in:
        raise OriginalsMissing(
            place,
            f"the archive {place.folder}/{place.file} was missing or could not be read when the "
            "store was opened: put it back, and open the store again",
        )


def place_of(row: Row | None) -> Place | None:
    """Return the place of a row."""
    if row is None:
        return None
    session, at, name, originals = row
    return Place(session, text_of(at), text_of(name), originals)


_MOVED = """
    SELECT a.session, a.folder, a.name, a.originals, s.id, a.archived_at, a.messages, a.tokens,
        a.bytes
    FROM archived a JOIN sessions s ON s.key = a.session
"""


def moved(db: apsw.Connection, names: Collection[str] | None = None) -> dict[str, Moved]:
    """Return the sessions whose originals were moved, by id; all, or those of `names`."""
    if names is None:
        found = query(db, f"{_MOVED} ORDER BY a.session")
    else:
        found = [row for x in names for row in query(db, f"{_MOVED} WHERE s.id = ?", (text(x),))]
    rows = {}
    for *place, name, at, messages, tokens, size in found:
        where = place_of(tuple(place))
        assert where is not None, "it has a row"
        rows[text_of(name)] = Moved(where, datetime.fromisoformat(at), messages, tokens, size)
    return rows


def branches(db: apsw.Connection, session: int) -> list[tuple[int, str]]:
    """Return keys and ids of a session's branches."""
    rows = query(db, "SELECT key, id FROM branches WHERE session = ? ORDER BY key", (session,))
    return [(key, text_of(name)) for key, name in rows]


def has_texts(db: apsw.Connection, session: int) -> bool:
    """Return whether a session went on since its texts were moved."""
    sql = f"SELECT {MOVED} FROM messages WHERE {_OF_BRANCH} ORDER BY key DESC LIMIT 1"
    return (0,) in [first(db, sql, (key,)) for key, _ in branches(db, session)]


def is_mostly_old(db: apsw.Connection, session: int, times: Times) -> bool:
    """Return whether packing a session that goes on is worth it: it is not archived, most of its
    texts in `messages` are old, and its file will be small.
    """
    sql = f"""
        SELECT total({SIZE}) FILTER (WHERE {_OLDER}), total({SIZE}) FROM messages
        WHERE {_OF_BRANCH}
    """
    rows = [query(db, sql, (key, *times))[0] for key, _ in branches(db, session)]
    old, every = (sum(row[n] for row in rows) for n in (0, 1))
    if 2 * old <= every or ((place := of_key(db, session)) and place.folder):
        return False
    return bool(every / 4 + packed_bytes(db, session) < MOST_LIVE)


def counts(db: apsw.Connection, session: int) -> tuple[int, int, int]:
    """Return messages, tokens and bytes of texts of a session, over all its branches. The bytes are
    those in `messages`.
    """
    sql = f"""
        SELECT count(*), total(token_count), total({SIZE}) FROM messages WHERE {_OF_BRANCH}
    """
    rows = [query(db, sql, (key,))[0] for key, _ in branches(db, session)]
    messages, tokens, size = (int(sum(column)) for column in zip(*rows, strict=True))
    return messages, tokens, size


def packed_bytes(db: apsw.Connection, session: int) -> int:
    """Return how many bytes a session's packed originals take in the database."""
    return len(_packed(db, session))


def _packed(db: apsw.Connection, session: int) -> bytes:
    return b"".join(row[0] for row in query(db, _PACKED, (session,)))


def holds(db: apsw.Connection, session: int, rows: OwnRows) -> bool:
    """Return whether these are the session's messages, to the byte."""
    sql = f"SELECT key, {TEXTS} FROM messages WHERE {_OF_BRANCH} ORDER BY key"
    own = branches(db, session)
    if {name for _, name in own} != rows.keys():
        return False
    for key, name in own:
        fork, cells = rows[name]
        stored = query(db, sql, (key,))
        if len(stored) != len(cells) or (stored and position_in(stored[0][0]) != fork):
            return False
        for (_, payload, content), cell in zip(stored, cells, strict=True):
            if (dump(cell["payload"]), cell["content"]) != (payload, content):
                return False
    return True


def take_out(db: apsw.Connection, kept: Moved, data: bytes, times: Times | None = None) -> None:
    """Remove the texts of a session's messages and record where they are, within a writing
    transaction. The caller has verified the file; `data` is it, where it is packed. With `times`,
    only old messages lose their texts.
    """
    place = kept.place
    forget(db, place.session)
    if not place.folder:
        parts = (data[start : start + PART] for start in range(0, len(data), PART))
        sql = "INSERT INTO packed VALUES (?, ?)"
        db.executemany(sql, ((place.session << BITS | n, part) for n, part in enumerate(parts)))
    _record(db, kept)
    sql = f"""
        UPDATE messages SET payload = x'', content = NULL
        WHERE {_OF_BRANCH} AND NOT {MOVED} AND {_OLDER}
    """
    for key, _ in branches(db, place.session):
        db.execute(sql, (key, *(times or (None, None, None))))
    done(db, _chore(place))


def _record(db: apsw.Connection, kept: Moved) -> None:
    session, at, name, originals = kept.place
    db.execute(
        "INSERT INTO archived (session, folder, name, originals, archived_at, messages, tokens, "
        "bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (session, text(at), text(name), originals, kept.at.isoformat(), *kept[2:]),
    )


def put_back(db: apsw.Connection, place: Place) -> None:
    """Restore the texts of a session's messages, within a writing transaction. `discard_due`
    removes the file after the commit.
    """
    texts = f"payload = {ORIGINAL}(key, 0), content = {ORIGINAL}(key, 1)"
    sql = f"UPDATE messages SET {texts} WHERE {_OF_BRANCH} AND {MOVED}"
    for key, _ in branches(db, place.session):
        db.execute(sql, (key,))
    forget(db, place.session)


def put_back_undamaged(db: apsw.Connection, session: int) -> None:
    """Restore the texts of packed messages that come before the damage, for a repair, which then
    checks them by the hash chain.
    """
    rows = query(db, f"SELECT key, data FROM packed WHERE {_OF_BRANCH} ORDER BY key", (session,))
    parts = [data for n, (key, data) in enumerate(rows) if position_in(key) == n]
    keys = dict[str, list[int]]()
    for branch, _ in reversed(branches(db, session)):
        sql = f"SELECT key, id FROM messages WHERE {_OF_BRANCH} AND {MOVED} ORDER BY key DESC"
        for key, name in query(db, sql, (branch,)):
            own = f"m{position_in(key)}" if name is None else text_of(name)
            keys.setdefault(own, []).append(key)
    for row in rows_before_damage(b"".join(parts)):
        with suppress(*BROKEN):
            cells = dump(row["payload"]), text(row["content"]), keys[row["id"]].pop()
            db.execute("UPDATE messages SET payload = ?, content = ? WHERE key = ?", cells)


def forget(db: apsw.Connection, session: int) -> None:
    """Remove the record of a session's originals, and order the removal of their file."""
    place = of_key(db, session)
    if place is None:
        return
    db.execute("DELETE FROM archived WHERE session = ?", (session,))
    db.execute(f"DELETE FROM packed WHERE {_OF_BRANCH}", (session,))
    if place.folder:
        order_discard(db, place)


# --- removal of archive files ---------------------------------------------------------------------

_DISCARD = "discard "
_DISCARDS = f"SELECT name FROM chores WHERE name >= '{_DISCARD}' AND name < 'discard!'"


def _chore(place: Place) -> str:
    return f"{_DISCARD}{place.folder}\n{place.name}"


def order_discard(db: apsw.Connection, place: Place) -> None:
    """Order the removal of a file, within the transaction that makes it needless. A file that a
    session uses when the order is carried out stays.
    """
    db.execute("INSERT INTO chores VALUES (?) ON CONFLICT DO NOTHING", (_chore(place),))


def has_discards(db: apsw.Connection) -> bool:
    """Return whether removals are ordered."""
    return first(db, f"{_DISCARDS} LIMIT 1") is not None


def due(db: apsw.Connection) -> Iterator[tuple[str, str, str]]:
    """Yield files to remove: the chore's name, the folder, the file name. Chores for files that a
    session uses again are deleted.
    """
    for (chore,) in query(db, _DISCARDS):
        at, _, name = str(chore).removeprefix(_DISCARD).partition("\n")
        sql = "SELECT 1 FROM archived WHERE folder = ? AND name IN (?, ?)"
        if first(db, sql, (text(at), text(name), text(name + folder.OLD_ENDING))):
            done(db, chore)
        else:
            yield str(chore), at, name


def done(db: apsw.Connection, chore: str) -> None:
    """Delete a chore."""
    db.execute("DELETE FROM chores WHERE name = ?", (chore,))


# --- integrity ------------------------------------------------------------------------------------

WRONG: tuple[tuple[str, str], ...] = (
    (
        f"messages WHERE {MOVED} AND key >> {BITS} NOT IN (SELECT b.key FROM branches b"
        " JOIN archived a ON a.session = b.session)",
        "messages have no text, although their session is not archived",
    ),
    (
        "archived WHERE session NOT IN (SELECT key FROM sessions)",
        "archives are of sessions that are not there",
    ),
)
"""Rows that should not exist, and the sentence that reports them."""


def find_packed(db: apsw.Connection) -> list[str]:
    """Record packed originals whose record is lost, by the session's key; returns sentences about
    them.
    """
    remarks = []
    sql = f"""
        SELECT key, id FROM sessions WHERE key IN (SELECT key >> {BITS} FROM packed)
        AND key NOT IN (SELECT session FROM archived)
    """
    for session, name in query(db, sql):
        data = _packed(db, session)
        with suppress(*BROKEN):
            if rows_in(data).keys() & {branch for _, branch in branches(db, session)}:
                place = Place(session, "", "", folder.sum_of(data))
                said, tokens, _ = counts(db, session)
                _record(db, Moved(place, clock_and_ids.now(), said, tokens, len(data)))
                remarks.append(
                    f"session {text_of(name)!r}: where its texts are was lost, and found again"
                )
    return remarks


def tidy(db: apsw.Connection) -> list[str]:
    """Delete archive records whose session is lost; returns sentences about them. The files stay,
    because they hold the messages.
    """
    sql = "DELETE FROM archived WHERE session NOT IN (SELECT key FROM sessions) RETURNING name"
    lost = [text_of(row[0]) for row in query(db, sql)]
    db.execute(f"DELETE FROM packed WHERE key >> {BITS} NOT IN (SELECT session FROM archived)")
    return [
        f"the session of the archive {name} is lost; its files were left as they are"
        if name
        else "a session is lost; its packed originals were left out"
        for name in lost
    ]

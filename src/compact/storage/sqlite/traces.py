"""What is left of a session that was deleted: found by looking, not told by who deleted it.

Looked for are rows that belong to it, in every table there is; entries of others' logs that name
it; files of archives that hold it; and words of it, taken before the deletion, in the bytes of the
database, of every file beside it that is called after it, and of the archives. Words that another
session says too are that session's own.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import apsw

from compact.errors import StoreFailed
from compact.storage.blobs.places import S3
from compact.storage.memory_archives import folder
from compact.storage.memory_archives.packing import Unpackable, session_of
from compact.storage.sqlite import archived_copies, archived_rows, quotes, records, sweeping
from compact.storage.sqlite.archived_rows import ArchivePlace
from compact.storage.sqlite.pool import Pool
from compact.storage.sqlite.rows import BITS, Column, query, text, text_of

SHORTEST, LONGEST = 12, 32
"""Characters of a text that are looked for: fewer stand anywhere, more are cut by a page's end."""
PROBES = 6
"""Texts of each table that are looked for; more take longer, and find no more than these."""
CHUNK = 8 << 20
"""Bytes that are read of a file at once."""
_CUT = str.maketrans({'"': "\n", "\\": "\n", **{chr(code): "\n" for code in range(32)}})
"""JSON writes these in another way."""
_ARCHIVED = (folder.DESCRIPTION, folder.ORIGINALS, ".tmp")
"""How the names of files in archives end, those included that a crash left half written."""
_KEYED = (("messages", "key"), ("vectors", "message"), ("words_docsize", "id"))
"""Tables whose rows are found by a message's key."""
_LIVE = ("sessions", "messages", *records.COLUMNS, "archived", "vector_names")
"""Tables in which words of a session stand."""


class Forgotten(NamedTuple):
    """What a session was called, and what it said."""

    id: str
    scope: str
    key: int
    branches: dict[int, str]
    """Keys with their ids."""
    words: tuple[str, ...]
    folders: tuple[Path, ...]
    """Where archives lie, but for those in S3."""
    archived: ArchivePlace | None
    """Where its own lies."""


# --- before ---------------------------------------------------------------------------------------


def of(pool: Pool, db: apsw.Connection, session_id: str, scope: str) -> Forgotten:
    """What will be looked for, of a session that is still there."""
    key = records.key_of(db, session_id)
    rows = query(db, "SELECT key, id FROM branches WHERE session = ?", (key,))
    folders = {text_of(row[0]) for row in query(db, "SELECT DISTINCT folder FROM archived")}
    file = Path(pool.path)
    return Forgotten(
        id=session_id,
        scope=scope,
        key=key,
        branches={row[0]: text_of(row[1]) for row in rows},
        words=tuple(dict.fromkeys(_words(pool, db, key))),
        folders=(
            file.with_name(f"{file.stem}-archive"),
            *(file.parent / each for each in folders if not each.startswith(S3)),
        ),
        archived=archived_rows.of_key(db, key),
    )


def _words(pool: Pool, db: apsw.Connection, session: int) -> Iterator[str]:
    """Some words of each kind of thing that is stored of a session."""
    yield from _some(query(db, "SELECT title, metadata FROM sessions WHERE key = ?", (session,)))
    for table in records.COLUMNS:
        yield from _some(query(db, f"SELECT * FROM {table} WHERE session = ?", (session,)))
    place = archived_rows.of_key(db, session)
    if place is None:
        yield from _some(archived_rows.message_rows(db, session))
        return
    with suppress(StoreFailed, Unpackable):  # who deletes it needs no archive
        yield from _some(archived_rows.messages_in(archived_copies.read(pool, place)))


def _some(rows: Iterable[tuple[object, ...]]) -> list[str]:
    """Words of some of the rows, from the first to the last."""
    found = [told for row in rows if (told := max(map(_told, row), key=len, default=""))]
    every = max(1, len(found) // PROBES)
    return found[::every][:PROBES]


def _told(cell: object) -> str:
    """How the longest line of a text begins; nothing where it is short, or no text."""
    if isinstance(cell, bytes):
        cell = cell.decode("utf-8", "replace")
    if not isinstance(cell, str):
        return ""
    line = max(cell.translate(_CUT).split("\n"), key=len).split("\ufffd")[0].strip()
    return line[:LONGEST] if len(line) >= SHORTEST else ""


# --- after ----------------------------------------------------------------------------------------


def files(pool: Pool, forgotten: Forgotten, also: Sequence[Path] = ()) -> list[Path]:
    """The files that are looked through."""
    beside: list[Path] = []
    if not pool.in_memory:
        own = Path(pool.path)
        beside = [Path(name) for name in glob.glob(glob.escape(str(own)) + "*")]
    archived = (path for place in forgotten.folders for path in place.rglob("*"))
    beside += [path for path in archived if path.name.endswith(_ARCHIVED)]
    beside += [path for place in also for path in place.rglob("*")]
    return sorted({path.resolve() for path in beside if path.is_file()})


def left(pool: Pool, forgotten: Forgotten, also: Sequence[Path] = ()) -> Iterator[str]:
    """What is left of it, as sentences; `also` are folders beside those of the archives."""
    found = list(files(pool, forgotten, also))
    legible = [path for path in found if not path.name.endswith(folder.ORIGINALS)]
    told = {path: held(path, forgotten.words) for path in legible}
    with pool.read() as db:
        yield from _rows(db, forgotten)
        yield from _quotes(db, forgotten)
        own = {word for word in set().union(*told.values()) if not _is_said(db, word)}
        kept = {
            Path(pool.places.at(each.place.folder).address(name)).resolve()
            for each in archived_rows.kept(db).values()
            if not each.place.folder.startswith(S3)
            for name in folder.both(each.place.name)
        }
    for path in found:
        if own & told.get(path, set()):
            until = ", until nobody reads it" if path.name.endswith("-wal") else ""
            yield f"{path} still holds words of it{until}"
        if path.name.endswith((folder.ORIGINALS, folder.DESCRIPTION)) and path not in kept:
            yield from _archive(pool, path, forgotten)
    if forgotten.archived is not None and forgotten.archived.folder.startswith(S3):
        yield from _object(pool, forgotten.archived)


def _rows(db: apsw.Connection, forgotten: Forgotten) -> Iterator[str]:
    """Rows that belong to it, in any table."""
    keys = ", ".join(map(str, forgotten.branches)) or "NULL"
    conditions: dict[str, tuple[str, tuple[Column, ...]]] = {
        "session": (f"session = {forgotten.key:d}", ()),
        "branch": (
            f"branch IN ({keys}) OR branch IN (SELECT value FROM json_each(?))",
            (json.dumps(list(forgotten.branches.values())),),
        ),
    }
    wanted = [
        (table, *conditions[column])
        for (table,) in query(db, "SELECT name FROM sqlite_schema WHERE type = 'table'")
        for row in query(db, f"PRAGMA table_info({table})")
        if (column := row[1]) in conditions
    ]
    wanted += [(table, f"{column} >> {BITS} IN ({keys})", ()) for table, column in _KEYED]
    wanted += [
        ("archived_words_docsize", f"id = {forgotten.key:d}", ()),
        ("sessions", "id = ?", (text(forgotten.id),)),
        ("branches", f"key IN ({keys}) OR parent IN ({keys})", ()),
    ]
    for table, where, bindings in wanted:
        if rows := query(db, f"SELECT count(*) FROM {table} WHERE {where}", bindings)[0][0]:
            yield f"{rows:,} rows of {table} are of it"
    if sweeping.is_due(db):
        yield "the file is still to be swept: whoever opens it next does so"


def _quotes(db: apsw.Connection, forgotten: Forgotten) -> Iterator[str]:
    """Entries of others that name it."""
    if entries := quotes.recalling(db, forgotten.id, forgotten.scope):
        yield f"{len(entries):,} entries of other sessions name it"


def _is_said(db: apsw.Connection, word: str) -> bool:
    """Whether a session that is there says so."""
    for table in _LIVE:
        names = [row[1] for row in query(db, f"PRAGMA table_info({table})")]
        held = " OR ".join(f"instr(CAST({name} AS BLOB), ?1)" for name in names)
        if query(db, f"SELECT 1 FROM {table} WHERE {held} LIMIT 1", (word.encode(),)):
            return True
    return False


def held(path: Path, words: Iterable[str]) -> set[str]:
    """Those of the words that stand in a file; none where it is gone."""
    wanted = {word: word.encode("utf-8", "surrogatepass") for word in words}
    found: set[str] = set()
    before = b""
    with suppress(FileNotFoundError), path.open("rb") as file:
        while data := file.read(CHUNK):
            data = before + data
            found |= {word for word, told in wanted.items() if told in data}
            before = data[-4 * LONGEST :]  # a letter has four bytes at most
    return found


def _archive(pool: Pool, path: Path, forgotten: Forgotten) -> Iterator[str]:
    """Whether a file that no session has is an archive of it; one that is sealed with another key
    cannot be told.
    """
    data = _content(pool, path, forgotten)
    if data is None:
        return
    if path.name.endswith(folder.ORIGINALS):
        name = session_of(data)
        told = text_of(name) if name is not None else None
    else:
        try:
            told = json.loads(data)["id"]
        except (ValueError, LookupError, TypeError):
            return
    if told == forgotten.id:
        yield f"{path} is an archive of it"


def _content(pool: Pool, path: Path, forgotten: Forgotten) -> bytes | None:
    """What a file of an archive holds; None where it cannot be read."""
    for place in forgotten.folders:
        if path.is_relative_to(place.resolve()):
            name = path.relative_to(place.resolve()).as_posix()
            with suppress(StoreFailed, FileNotFoundError):
                return pool.places.at(str(place)).get(name)
    return None


def _object(pool: Pool, place: ArchivePlace) -> Iterator[str]:
    """Whether objects of its archive are still in a bucket."""
    blobs = pool.places.at(place.folder)
    for name in folder.both(place.name):
        try:
            blobs.get(name)
        except FileNotFoundError:
            continue
        except StoreFailed as error:
            yield f"whether it is gone cannot be told: {error}"
        else:
            yield f"{blobs.address(name)} is an archive of it"

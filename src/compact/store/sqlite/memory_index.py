"""What memory's search needs of a scope's messages, and which messages contain a word.

Facts about messages are read once and kept in memory. A later search reads only new ones. Words are
always looked up in the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import apsw

from compact.store.sqlite import branch_lineage, originals
from compact.store.sqlite.branch_lineage import Stretch
from compact.store.sqlite.originals import OriginalsUnread, Place
from compact.store.sqlite.pool import Pool
from compact.store.sqlite.rows import (
    BITS,
    LAST,
    MESSAGE,
    MOVED,
    Row,
    entry_of,
    json_of,
    position_in,
    query,
    text,
    text_of,
    text_or_none,
    value_of,
)
from compact.store.sqlite.search import other_forms
from compact.text.found import Told
from compact.text.turns import FIELDS, Keys, TurnPart, TurnTable

if TYPE_CHECKING:
    pass

MOST_SCOPES = 8
"""How many scopes to keep in memory. A message takes 26 bytes."""
MOST_RANGES = 16
"""The most key ranges in a word lookup. With more ranges the whole index is searched."""

_STATE = """
    SELECT (SELECT max(n) FROM turns), (SELECT count(*) FROM turns), count(*), total(branch)
    FROM sessions
"""
_SESSIONS = """
    SELECT s.id, b.id, b.key, b.parent FROM sessions s JOIN branches b ON b.key = s.branch
    WHERE ?1 IS NULL OR s.scope = ?1 ORDER BY s.key
"""
_TURNS = """
    SELECT t.branch, t.start, t.speakers, t.packed FROM turns t
    JOIN branches b ON b.key = t.branch JOIN sessions s ON s.key = b.session
    WHERE t.n > ?2 AND (?1 IS NULL OR s.scope = ?1) ORDER BY t.branch, t.start
"""


class State(NamedTuple):
    """Changes whenever something changes that a search can see."""

    last: int | None
    batches: int
    sessions: int
    branches: float


class KnownScope(NamedTuple):
    """What is in memory for a scope."""

    state: State
    turns: TurnTable
    names: dict[str, int]
    branches: dict[int, TurnPart]


class MemoryIndex:
    """The messages of a store by scope. Safe for use by many threads: entries are only replaced."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: dict[str | None, KnownScope] = {}

    def turns(self, scope: str | None, *, complete: bool) -> TurnTable:
        """Return the messages of a scope's sessions; `scope` None means all. `complete` says
        whether the word index is up to date.
        """
        known = self._known.get(scope)
        with self._pool.read() as db:
            state = State(*query(db, _STATE)[0])
            if known is None or known.state != state:
                known = _read(db, scope, known, state)
        self._known.pop(scope, None)
        self._known[scope] = known
        while len(self._known) > MOST_SCOPES:
            self._known.pop(next(iter(self._known)), None)
        return known.turns if complete else replace(known.turns, complete=False)


def holding(
    db: apsw.Connection,
    names: Sequence[Sequence[str]],
    within: Sequence[tuple[int, int]] = (),
    most: int | None = None,
) -> list[Keys]:
    """Return, for each name, the keys of messages with all its words (by stem and in other forms),
    within the key ranges if given (both ends included). A name in more than `most` messages gets no
    keys.
    """
    import numpy as np

    keys_by_name: list[Keys] = []
    sql = "SELECT rowid FROM words WHERE words MATCH ?"
    ranges: Sequence[tuple[int, ...]] = within
    if 0 < len(within) <= MOST_RANGES:
        sql += " AND rowid BETWEEN ? AND ?"
    else:
        ranges = [()]
    if most is not None:
        sql += f" LIMIT {most + 1:d}"
    sql = f"SELECT group_concat(rowid) FROM ({sql})"
    forms = other_forms(db, map(tuple, names), inside=most is None)
    for name in names:
        wanted = " AND ".join(f'"{piece}"' for piece in name)
        for form in forms.get(tuple(name), ()):
            wanted += f' OR "{" ".join(form)}"'
        rows = [query(db, sql, (wanted, *ends))[0][0] for ends in ranges]
        listed = ",".join(filter(None, rows))
        keys = np.fromstring(listed, np.int64, sep=",") if listed else np.empty(0, np.int64)
        keys_by_name.append(keys if most is None or len(keys) <= most else keys[:0])
    return keys_by_name


def important(db: apsw.Connection, least: float) -> Keys:
    """Return keys of messages whose stored importance (0 to 1) is at least `least`."""
    import numpy as np

    sql = "SELECT key FROM messages WHERE importance_score >= ?"
    return np.array([row[0] for row in query(db, sql, (least,))], np.int64)


def told(pool: Pool, keys: Sequence[int], sessions: Sequence[str]) -> Told:
    """Return the messages with these keys and the titles of these sessions, if they exist and can
    be read. All is read again if another process moved originals meanwhile.
    """
    while True:
        with pool.read() as db:
            rows, away = _rows(db, keys)
            named = [
                row
                for name in sessions
                for row in query(db, "SELECT id, title FROM sessions WHERE id = ?", (text(name),))
            ]
        if not away or not _was_moved(pool, away):
            found = {row[0]: entry_of(row).message for row in rows}
            titles = {text_of(row[0]): text_or_none(row[1]) for row in named}
            return Told(found, titles, tuple(away.values()))


def _was_moved(pool: Pool, places: Iterable[Place]) -> bool:
    with pool.read() as db:
        return any(originals.of_key(db, place.session) != place for place in places)


def _rows(db: apsw.Connection, keys: Sequence[int]) -> tuple[list[Row], dict[Place, str]]:
    """Return the rows that can be read, and file → why it could not be read."""
    sql = f"SELECT {MESSAGE} FROM messages WHERE key IN (SELECT value FROM json_each(?))"
    rows, away = list[Row](), dict[Place, str]()
    with suppress(OriginalsUnread):
        return query(db, sql, (json_of(list(keys)),)), {}
    # Read each branch alone: the other branches, and texts outside the archive, are still readable.
    for _, group in groupby(sorted(keys), lambda key: key >> BITS):
        own = json_of(list(group))
        try:
            rows += query(db, sql, (own,))
        except OriginalsUnread as error:
            away[error.place] = str(error)
            rows += query(db, f"{sql} AND NOT {MOVED}", (own,))
    return rows, away


def _read(
    db: apsw.Connection, scope: str | None, known: KnownScope | None, state: State
) -> KnownScope:
    """Add new messages to a scope. If messages were removed, read the whole scope again."""
    import numpy as np

    after = (known and known.state.last) or 0
    added = query(db, "SELECT count(*) FROM turns WHERE n > ?", (after,))[0][0]
    names, branches = {"": 0}, dict[int, TurnPart]()
    if known is not None and known.state.batches + added == state.batches:
        names, branches = dict(known.names), dict(known.branches)
    else:
        after = 0
    rows = query(db, _TURNS, (text(scope), after))
    for branch, group in groupby(rows, itemgetter(0)):
        parts = [branches[branch]] if branch in branches else []
        for _, start, speakers, packed in group:
            noted = np.frombuffer(packed, list(FIELDS))
            places = [0, *(names.setdefault(name, len(names)) for name in value_of(speakers))]
            spoken = np.array(places, np.int32)[noted["speaker"]]
            parts.append(TurnPart(branch << BITS | start, noted, spoken))
        branches[branch] = TurnPart(
            parts[0].key,
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.speakers for part in parts]),
        )
    return KnownScope(state, _turns_of(db, scope, names, branches), names, branches)


def _turns_of(
    db: apsw.Connection, scope: str | None, names: dict[str, int], branches: dict[int, TurnPart]
) -> TurnTable:
    parts = dict[tuple[str, str], list[TurnPart]]()
    for session, branch, key, parent in query(db, _SESSIONS, (text(scope),)):
        stretches = [Stretch(key, 0, LAST, is_open=True)]
        if parent is not None:
            stretches = branch_lineage.lineage(db, text_of(branch))
        own = [part for each in stretches if (part := _part(each, branches))]
        parts[text_of(session), text_of(branch)] = own
    return TurnTable.joined(parts, names)


def _part(stretch: Stretch, branches: dict[int, TurnPart]) -> TurnPart | None:
    noted = branches.get(stretch.branch)
    if noted is None:
        return None
    first = position_in(noted.key)
    low = max(stretch.low, first)
    span = slice(low - first, max(low, stretch.high) - first)
    return TurnPart(stretch.branch << BITS | low, noted.rows[span], noted.speakers[span])

"""Search by words: build the index, update it, and query it.

The index stores no texts, only which words are in which message, by stem. Appending does not update
it. A branch knows up to which position it is indexed. The rest follows in batches: some after each
commit, all before a search. Other notes for memory's search go with the words (`text.turns`).
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from struct import pack

import apsw

from compact.errors import StoreDamaged, StoreFailed
from compact.messages.messages import Message
from compact.messages.sessions import Found
from compact.store.sqlite import branch_lineage
from compact.store.sqlite.branch_lineage import Stretch
from compact.store.sqlite.messages import rows_of
from compact.store.sqlite.originals import OriginalsMissing
from compact.store.sqlite.pool import Pool
from compact.store.sqlite.rows import (
    BITS,
    LAST,
    MESSAGE,
    entry_of,
    first,
    json_of,
    position_in,
    query,
    text,
)
from compact.text.terms import looked_for, pieces_of, searchable, spaced
from compact.text.turns import LAYOUT, MOST_SPEAKERS, noted

BATCH = 500
"""How many messages to index in one transaction."""
MOST_SCANNED = 5_000
"""How many messages to scan if there is no index. A word in more messages than this is common: it
says little about any of them, and every message with the word costs time."""

Name = tuple[str, ...]

_UNINDEXED = f"""
    SELECT total(coalesce(((SELECT key FROM messages
        WHERE key BETWEEN b.key << {BITS} AND (b.key << {BITS}) + {LAST}
        ORDER BY key DESC LIMIT 1) & {LAST}) + 1, b.indexed) - b.indexed)
    FROM unindexed u JOIN branches b ON b.key = u.branch
"""


def search(pool: Pool, branch_id: str, question: str, most: int) -> list[Found]:
    """Return messages that share words with the question, best BM25 first, newer first among
    equals. Names score higher where their pieces are adjacent. Common words count only where rare
    ones find nothing.

    Where the index lacks messages and cannot be updated (read-only or locked file), the newest
    `MOST_SCANNED` messages are scanned instead.
    """
    names = looked_for(question)
    if not is_complete(pool, branch_id):
        return scan(pool, branch_id, question, most)
    if not names or most <= 0:
        return []
    with pool.read() as db:
        rare = _rare(db, names)
        matches = _matching(db, branch_id, rare, most) if rare else []
        return matches or _matching(db, branch_id, names, most)


def _matching(db: apsw.Connection, branch_id: str, names: list[Name], most: int) -> list[Found]:
    sql = """
        SELECT -bm25(words), rowid FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ?
        ORDER BY bm25(words), rowid DESC LIMIT ?
    """
    wanted = " OR ".join(map(expression_of, names))
    rows = [
        row
        for stretch in branch_lineage.lineage(db, branch_id)
        for row in query(db, sql, (wanted, stretch.first, stretch.last, most))
    ]
    best = heapq.nlargest(most, ((score, position_in(key)) for score, key in rows))
    return [Found(position, score) for score, position in best]


def _rare(db: apsw.Connection, names: list[Name]) -> list[Name]:
    """Return the names without pieces that are in more than `MOST_SCANNED` messages."""
    sql = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    pieces = {piece for name in names for piece in name}
    common = {
        piece
        for piece in pieces
        if query(db, sql, (expression_of((piece,)), MOST_SCANNED + 1))[0][0] > MOST_SCANNED
    }
    left = [tuple(piece for piece in name if piece not in common) for name in names]
    return [name for name in left if name]


def scan(pool: Pool, branch_id: str, question: str, most: int) -> list[Found]:
    """Return messages that share words with the question, without an index: only the newest
    `MOST_SCANNED` are scanned. Each name whose pieces a message holds scores ln(1 + messages /
    messages with the name).
    """
    names = looked_for(question)
    with pool.read() as db:
        stop = branch_lineage.tail(db, branch_id).position
        stretches = branch_lineage.lineage(db, branch_id, low=max(0, stop - MOST_SCANNED))
        rows = [row for stretch in stretches for row in rows_of(db, stretch)]
    places: dict[Name, list[int]] = {name: [] for name in names}
    for row in rows:
        pieces = frozenset(pieces_of(searchable(entry_of(row).message)))
        for name in names:
            if pieces.issuperset(name):
                places[name].append(position_in(row[0]))
    scores: Counter[int] = Counter()
    for positions in places.values():
        scores.update(dict.fromkeys(positions, math.log1p(stop / max(1, len(positions)))))
    best = sorted(scores.items(), key=lambda item: (-item[1], -item[0]))
    return [Found(position, score) for position, score in best[: max(0, most)]]


def expression_of(name: Name) -> str:
    """Return a name as an FTS5 expression. Pieces hold letters and digits only."""
    phrase = '"' + " ".join(name) + '"'
    if len(name) == 1 or any(spaced(piece) != piece for piece in name):
        return phrase  # separated Chinese characters would form other words
    apart = " AND ".join('"' + piece + '"' for piece in name)
    return f"({phrase} OR ({apart}))"


# --- the index ------------------------------------------------------------------------------------


def is_complete(pool: Pool, branch_id: str) -> bool:
    """Update the index. Return whether it now holds the whole branch."""
    try:
        catch_up_branch(pool, branch_id)
    except StoreDamaged:
        raise
    except StoreFailed:
        return False
    return True


def catch_up_branch(pool: Pool, branch_id: str, *, most: int | None = None) -> None:
    """Index the missing messages of a branch and its ancestors; at most `most`.

    Raises:
        StoreFailed: the file cannot be written.
    """
    left = math.inf if most is None else most
    with pool.read() as db:
        stretches = branch_lineage.lineage(db, branch_id)
    for stretch in stretches:
        done = BATCH
        while left > 0 and done == BATCH:
            done = _index_batch(pool, stretch, int(min(left, BATCH)))
            left -= done


def unindexed(db: apsw.Connection) -> int:
    """Return how many messages are not indexed yet."""
    return int(query(db, _UNINDEXED)[0][0])


def catch_up(pool: Pool, progress: Callable[[int, int], None] | None = None) -> bool:
    """Index the missing messages of every branch; whether that succeeded. `progress` gets the
    messages done and the total, after each batch.
    """
    with pool.read() as db:
        branches = [row[0] for row in query(db, "SELECT branch FROM unindexed")]
        every = unindexed(db) if progress and branches else 0
    done, is_complete = 0, True
    try:
        for branch in branches:
            with suppress(OriginalsMissing):
                while batch := _index_batch(pool, Stretch(branch, 0, LAST, is_open=True), BATCH):
                    done += batch
                    if progress:
                        progress(done, max(done, every))
                continue
            is_complete = False  # the others are found all the same
    except StoreDamaged:
        raise
    except StoreFailed:
        return False
    return is_complete


def _index_batch(pool: Pool, stretch: Stretch, most: int) -> int:
    """Index a stretch's next messages; returns how many. Texts are made before locking the file."""
    with pool.read() as db:
        row = first(db, "SELECT indexed FROM branches WHERE key = ?", (stretch.branch,))
        if row is None:
            return 0
        start = int(row[0])
        sql = f"SELECT {MESSAGE} FROM messages WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?"
        keys = stretch.branch << BITS | start, stretch.last
        rows = query(db, sql, (*keys, most))
    if not rows:
        return 0
    messages = [entry_of(row).message for row in rows]
    words = [indexed_text(searchable(message)) for message in messages]
    texts = [(row[0], text) for row, text in zip(rows, words, strict=True)]
    turns = _packed(messages)
    stop = position_in(rows[-1][0]) + 1
    with pool.write() as db:
        sql = "UPDATE branches SET indexed = ? WHERE key = ? AND indexed = ? RETURNING 1"
        if query(db, sql, (stop, stretch.branch, start)):
            db.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", texts)
            sql = "INSERT INTO turns (branch, start, speakers, packed) VALUES (?, ?, ?, ?)"
            db.execute(sql, (stretch.branch, start, *turns))
            sql = "DELETE FROM unindexed WHERE branch = ? AND NOT EXISTS (SELECT 1 FROM messages"
            keys = stretch.branch << BITS | stop, stretch.branch << BITS | LAST
            db.execute(f"{sql} WHERE key BETWEEN ? AND ?)", (stretch.branch, *keys))
    return len(rows)


def _packed(messages: Sequence[Message]) -> tuple[str, bytes]:
    """Return the speakers of messages as JSON, and the packed notes on each message. Notes name a
    speaker by number, from 1.
    """
    speakers: dict[str, int] = {}
    packed = bytearray()
    for each in map(noted, messages):
        place = 0
        if each.speaker and (each.speaker in speakers or len(speakers) < MOST_SPEAKERS):
            place = speakers.setdefault(each.speaker, len(speakers) + 1)
        packed += pack(LAYOUT, each.at, each.length, each.signs, each.role, place)
    return json_of(list(speakers)), bytes(packed)


def indexed_text(words: str) -> str:
    """Return text for the index: Unicode, with Chinese characters separated."""
    whole = text(spaced(words).replace("\x00", " ")) or ""
    return whole if isinstance(whole, str) else whole.decode("utf-8", "replace")


def remove(db: apsw.Connection, branch: int) -> None:
    """Remove a branch from the index."""
    row = first(db, "SELECT indexed > fork FROM branches WHERE key = ?", (branch,))
    if row is None or not row[0]:
        return
    keys = branch << BITS, branch << BITS | LAST
    db.execute("DELETE FROM words WHERE rowid BETWEEN ? AND ?", keys)
    db.execute("DELETE FROM turns WHERE branch = ?", (branch,))

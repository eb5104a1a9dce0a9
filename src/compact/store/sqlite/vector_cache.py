"""The vectors of one generation in memory, as a matrix and as sign bits, and the search over them.

A search compares signs first: 48 bytes for a vector of 384 numbers. Counting the differing bits of
a hundred thousand vectors takes less than a millisecond. The rows that differ least are then
compared exactly. If there are few rows, or many are wanted, all are compared exactly. Before each
search, changes since the last one are read from the store, so vectors that other processes stored
are found.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from compact.store.sqlite.rows import first, query, reading
from compact.text.embedding import Near

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Ranges = tuple[tuple[int, int], ...]
READ = 2_000
"""How many rows to read at once. Fewer takes longer; more needs more memory."""
CANDIDATES = 800
"""The fewest rows to compare exactly. 800 rows contain .998 of the ten nearest vectors, 400 rows
.996, 200 rows .988 (docs/decisions/053-vectors.md)."""
SHARE = 8
"""How many rows to compare exactly for each wanted row."""
MOST_HELD = 512 << 20
"""The most bytes of vectors to hold in memory: 350,000 vectors of 384 numbers. Of a larger
generation only the signs are held, a thirty-second of the size. Likely rows are then read for each
question, which takes some milliseconds. A higher limit is faster and needs more memory."""
SAMPLE = 10_000
"""How many rows the mean is computed from. Fewer make it less exact; more take longer."""
_GROWN = 2
"""How many times larger a generation must be before its mean is computed again."""


class Held(NamedTuple):
    """The state of a generation in memory. It is immutable: a newer state is another object, which
    shares unchanged arrays.
    """

    last: int
    """The highest key among the rows."""
    removed: int
    """How many removals the generation has counted."""
    newest: int | None
    """The highest key in the whole table, of any generation."""
    keys: Ints
    """The rows' keys, ascending."""
    messages: Ints
    chunks: Ints
    rows: Floats
    """A vector for each key. Empty if they are too many to hold; then they are read when needed."""
    order: Ints
    """Row numbers, sorted by message and piece."""
    sorted_messages: Ints
    sample: Floats
    """Rows taken evenly from the whole generation."""
    mean: Floats
    fitted: int
    """How many rows the generation had when the sample was taken."""
    signs: NDArray[np.uint64]
    """Signs, 64 in each number: a row for every 64 dimensions, a column for each vector."""

    @property
    def is_whole(self) -> bool:
        """Whether the rows themselves are in memory."""
        return len(self.rows) == len(self.keys)


def held(db: apsw.Connection, generation: int, dimensions: int, known: Held | None) -> Held:
    """Return the generation's present state. `known` is an earlier state to start from."""
    sql = "SELECT removed, (SELECT max(key) FROM vectors) FROM generations WHERE key = ?"
    removed, newest = first(db, sql, (generation,)) or (0, 0)
    if known is not None and (known.removed, known.newest) == (removed, newest):
        return known
    with reading():
        now = _held(db, generation, dimensions, known, removed)
    return now._replace(removed=removed, newest=newest)


def _held(
    db: apsw.Connection, generation: int, dimensions: int, known: Held | None, removed: int
) -> Held:
    if known is not None and known.removed != removed:
        known = _without_removed(db, generation, known)
    size = _count(db, generation, known.last if known else 0)
    if known is not None:
        if not size:
            return known
        total = len(known.keys) + size
        if total <= _GROWN * known.fitted and _may_be_held(total, dimensions) == known.is_whole:
            return _with_more(db, generation, known, size)
        size = _count(db, generation, 0)
    return _anew(db, generation, dimensions, size)


def _may_be_held(size: int, dimensions: int) -> bool:
    return 4 * size * dimensions <= MOST_HELD


def _count(db: apsw.Connection, generation: int, after: int) -> int:
    # Counting all rows uses the index; counting only the newest uses the table.
    later = " AND key > ?" if after else ""
    sql = "SELECT count(*) FROM vectors WHERE generation = ?"
    return int(query(db, sql + later, (generation, after)[: 1 + bool(after)])[0][0])


def _read(
    db: apsw.Connection, generation: int, after: int, dimensions: int
) -> Iterator[tuple[Sequence[tuple[int, ...]], Floats]]:
    """Yield rows with keys above `after`, in parts: key, message, piece and vector."""
    sql = """
        SELECT key, message, chunk, vector FROM vectors WHERE generation = ? AND key > ?
        ORDER BY key
    """
    cursor = iter(db.execute(sql, (generation, after)))
    while part := list(islice(cursor, READ)):
        *numbers, data = zip(*part, strict=True)
        yield numbers, np.frombuffer(b"".join(data), "<f4").reshape(-1, dimensions)


def _anew(db: apsw.Connection, generation: int, dimensions: int, size: int) -> Held:
    is_whole = _may_be_held(size, dimensions)
    sample = np.empty((0, dimensions), np.float32) if is_whole else _sampled(db, generation, size)
    mean = sample.mean(axis=0) if len(sample) else np.zeros(dimensions, np.float32)
    numbers = np.empty((3, size), np.int64)
    rows = np.empty((size if is_whole else 0, dimensions), np.float32)
    signs = np.empty((-(-dimensions // 64), size), np.uint64)
    at = 0
    for columns, part in _read(db, generation, 0, dimensions) if size else ():
        stop = at + len(part)
        numbers[:, at:stop] = columns
        if is_whole:
            rows[at:stop] = part
        else:
            signs[:, at:stop] = _signs(part, mean)
        at = stop
    if is_whole and size:
        sample = rows[:: -(-size // SAMPLE)]
        mean = sample.mean(axis=0)
        signs = _signs(rows, mean)
    keys, messages, chunks = (np.ascontiguousarray(each) for each in numbers)
    order = np.lexsort((chunks, messages))
    last, in_order = int(keys[-1]) if size else 0, messages[order]
    fitted = sample, mean, size, signs
    return Held(last, 0, 0, keys, messages, chunks, rows, order, in_order, *fitted)


def _sampled(db: apsw.Connection, generation: int, size: int) -> Floats:
    sql = "SELECT key FROM vectors WHERE generation = ? ORDER BY message, chunk"
    keys = [row[0] for row in query(db, sql, (generation,))][:: -(-size // SAMPLE)]
    return fetched(db, np.array(keys, np.int64))[1]


def fetched(db: apsw.Connection, keys: Ints) -> tuple[Ints, Floats]:
    """Return those of these keys that exist, and their vectors. Both are sorted by key."""
    sql = """
        SELECT key, vector FROM vectors WHERE key IN (SELECT value FROM json_each(?)) ORDER BY key
    """
    rows = query(db, sql, (json.dumps(keys.tolist()),))
    there, data = zip(*rows, strict=True) if rows else ((), ())
    return np.array(there, np.int64), np.frombuffer(b"".join(data), "<f4").reshape(len(rows), -1)


def _with_more(db: apsw.Connection, generation: int, known: Held, size: int) -> Held:
    dimensions = known.rows.shape[1]
    numbers = np.empty((3, size), np.int64)
    rows = np.empty((size, dimensions), np.float32)
    at = 0
    for columns, part in _read(db, generation, known.last, dimensions):
        numbers[:, at : at + len(part)] = columns
        rows[at : at + len(part)] = part
        at += len(part)
    keys, messages, chunks = numbers
    order, sorted_messages = _sorted_in(known, messages, chunks)
    return known._replace(
        last=int(keys[-1]),
        keys=_longer(known.keys, keys),
        messages=_longer(known.messages, messages),
        chunks=_longer(known.chunks, chunks),
        rows=_longer(known.rows, rows) if known.is_whole else known.rows,
        order=order,
        sorted_messages=sorted_messages,
        signs=np.concatenate([known.signs, _signs(rows, known.mean)], axis=1),
    )


def _longer(old: Any, more: Any) -> Any:  # noqa: ANN401 - two arrays of any kind, and one of the same
    """Return both arrays as one, with spare room, so that the next call copies nothing."""
    size, room = len(old) + len(more), old.base
    if room is None or room.shape[1:] != old.shape[1:] or len(room) < size:
        room = np.empty((size + size // 4, *old.shape[1:]), old.dtype)
        room[: len(old)] = old
    room[len(old) : size] = more
    return room[:size]


def _sorted_in(known: Held, messages: Ints, chunks: Ints) -> tuple[Ints, Ints]:
    own = np.lexsort((chunks, messages))
    at = np.searchsorted(known.sorted_messages, messages[own], "right")
    order = np.insert(known.order, at, len(known.order) + own)
    return order, np.insert(known.sorted_messages, at, messages[own])


def _without_removed(db: apsw.Connection, generation: int, known: Held) -> Held:
    sql = "SELECT key FROM vectors WHERE generation = ? AND key <= ?"
    left = np.array([row[0] for row in query(db, sql, (generation, known.last))], np.int64)
    stays = np.isin(known.keys, left)
    messages, chunks = known.messages[stays], known.chunks[stays]
    order = np.lexsort((chunks, messages))
    return known._replace(
        keys=known.keys[stays],
        messages=messages,
        chunks=chunks,
        rows=known.rows[stays] if known.is_whole else known.rows,
        order=order,
        sorted_messages=messages[order],
        signs=known.signs[:, stays],
    )


def _signs(rows: Floats, mean: Floats) -> NDArray[np.uint64]:
    words = -(-rows.shape[1] // 64)
    bits = np.empty((words, len(rows)), np.uint64)
    for start in range(0, len(rows), 4_096):
        part = np.packbits(rows[start : start + 4_096] > mean, axis=1)
        whole = np.zeros((len(part), 8 * words), np.uint8)
        whole[:, : part.shape[1]] = part
        bits[:, start : start + 4_096] = whole.view(np.uint64).T
    return bits


# --- the search -----------------------------------------------------------------------------------


Fetch = Callable[[Ints], tuple[Ints, Floats]]
"""A function that returns the vectors of keys: `fetched` in a transaction of its own."""


def nearest(now: Held, asked: Floats, most: int, ranges: Ranges, fetch: Fetch) -> list[Near]:
    """Return the messages nearest to the question, nearest first, older first among equals. A
    message counts by its best piece. `ranges` limit the keys of messages, both ends included.
    """
    rows = _within(now, ranges)
    wanted = max(CANDIDATES, SHARE * most)
    size = len(now.keys) if rows is None else len(rows)
    if size > 4 * wanted and hasattr(np, "bitwise_count"):
        rows = _likely(now, asked - now.mean, rows, wanted)
    matrix, rows = _matrix(now, rows, fetch)
    cosines = np.einsum("ij,j->i", matrix, asked)  # not BLAS, which would wait for its threads
    return _best(now, rows, cosines, most)


def _matrix(now: Held, rows: Ints | None, fetch: Fetch) -> tuple[Floats, Ints | None]:
    """Return the vectors of these rows (None: all), and the numbers of rows that exist."""
    if now.is_whole:
        if rows is None:
            return now.rows, None
        start = int(rows[0]) if len(rows) else 0
        part = now.rows[start : start + len(rows)]
        is_run = len(part) == len(rows) and bool((rows[1:] - rows[:-1] == 1).all())
        # a session's rows are often consecutive: then no copy is needed
        return (part if is_run else now.rows[rows]), rows
    chosen = np.arange(len(now.keys)) if rows is None else np.sort(rows)
    there, vectors = fetch(now.keys[chosen])
    return vectors.reshape(-1, now.rows.shape[1]), chosen[np.isin(now.keys[chosen], there)]


def _within(now: Held, ranges: Ranges) -> Ints | None:
    low = np.searchsorted(now.sorted_messages, [each[0] for each in ranges], "left")
    high = np.searchsorted(now.sorted_messages, [each[1] for each in ranges], "right")
    if len(ranges) == 1:
        whole = not low[0] and high[0] == len(now.keys)
        return None if whole else now.order[low[0] : high[0]]
    steps = np.zeros(len(now.keys) + 1, np.int64)
    np.add.at(steps, low, 1)
    np.add.at(steps, np.maximum(low, high), -1)
    inside = np.cumsum(steps[:-1]) > 0
    if inside.all():
        return None
    chosen = np.zeros(len(now.keys), bool)
    chosen[now.order[inside]] = True
    return np.flatnonzero(chosen)


def _likely(now: Held, vector: Floats, rows: Ints | None, wanted: int) -> Ints:
    """Return the rows whose signs differ least from the question's: `wanted` or a few more."""
    asked = _signs(vector[None, :], np.zeros_like(vector))[:, 0]
    signs = now.signs if rows is None else now.signs[:, rows]
    differing = np.zeros(signs.shape[1], np.uint16)
    for each, word in zip(signs, asked, strict=True):
        differing += np.bitwise_count(each ^ word)
    counts = np.cumsum(np.bincount(differing))
    likely = np.flatnonzero(differing <= np.searchsorted(counts, wanted))
    return likely if rows is None else rows[likely]


def _best(now: Held, rows: Ints | None, cosines: Floats, most: int) -> list[Near]:
    best_pieces: dict[int, Near] = {}
    part = min(len(cosines), 4 * most)
    while most > 0 and len(best_pieces) < most:
        top = np.argpartition(-cosines, part - 1)[:part] if part < len(cosines) else slice(None)
        at = np.arange(len(cosines))[top] if rows is None else rows[top]
        near = cosines[top]
        best = np.lexsort((now.keys[at], -near))
        columns = now.messages[at[best]], now.chunks[at[best]], near[best]
        for message, chunk, cosine in zip(*(each.tolist() for each in columns), strict=True):
            best_pieces.setdefault(message, Near(message, chunk, cosine))
            if len(best_pieces) == most:
                break
        if part >= len(cosines):
            break
        part = min(len(cosines), 8 * part)
    return list(best_pieces.values())

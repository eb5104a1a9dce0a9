"""The vectors of one generation in memory, as a matrix and as signs of its numbers, and the search
over them.

A search compares signs first: 48 bytes of a vector of 384 numbers, whose differing bits are counted
a hundred thousand in less than a millisecond. The rows that differ least are then compared exactly.
Of few rows, or where many are asked for, all are compared exactly. What has come or gone since the
last search is read from the store before each, so that other processes' vectors are found, too.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from compact.core.centring import Centring, Floats, centring
from compact.core.embedding import Near
from compact.storage.sqlite.rows import first, query

Ints = NDArray[np.int64]
Ranges = tuple[tuple[int, int], ...]
Shared = tuple[Centring, Floats]
"""What is taken out of rows, and the scale of each row."""
READ = 500
"""Rows that are read at once; more saves nothing and holds more memory."""
CANDIDATES = 800
"""Rows at least that are compared exactly: of the ten nearest, .998 are among them, with 400 .996,
with 200 .988 (docs/decisions/052-vectors.md)."""
SHARE = 8
"""Candidates for each one that is asked for."""
_GROWN = 2
"""By what a matrix has grown when its mean is taken anew."""


class Held(NamedTuple):
    """The state of a generation that is in memory. Never changed: newer states are others, which
    share what stayed the same.
    """

    last: int
    """The highest key among the rows."""
    removed: int
    """The generation's count of removals."""
    keys: Ints
    """The rows' own keys, ascending."""
    messages: Ints
    chunks: Ints
    rows: Floats
    order: Ints
    """Rows by message and piece."""
    sorted_messages: Ints
    mean: Floats
    fitted: int
    """Of how many rows the mean is."""
    signs: NDArray[np.uint64]
    """64 signs in each number, a row for every 64 dimensions, a column for each vector."""


def held(db: apsw.Connection, generation: int, dimensions: int, known: Held | None) -> Held:
    """The state of a generation as it is stored now; `known` is an earlier one."""
    row = first(db, "SELECT removed FROM generations WHERE key = ?", (generation,))
    removed = int(row[0]) if row else 0
    if known is not None and known.removed != removed:
        known = _without_removed(db, generation, known)
    new = _read(db, generation, dimensions, known.last if known else 0)
    if known is not None and not len(new[0]):
        return known._replace(removed=removed)
    if known is None:
        return _made(removed, *new)
    keys, messages, chunks, rows = (
        _longer(old, more)
        for old, more in zip(
            (known.keys, known.messages, known.chunks, known.rows), new, strict=True
        )
    )
    if len(rows) > _GROWN * known.fitted:
        return _made(removed, keys, messages, chunks, rows)
    signs = np.concatenate([known.signs, _signs(new[3], known.mean)], axis=1)
    order, sorted_messages = _sorted_in(known, new[1], new[2])
    fitted = known.mean, known.fitted, signs
    last = int(keys[-1])
    return Held(last, removed, keys, messages, chunks, rows, order, sorted_messages, *fitted)


def _longer(old: Any, more: Any) -> Any:  # noqa: ANN401 - two arrays of any kind, and one of the same
    """The two in one; room is left for more, so that who comes next copies nothing."""
    size, room = len(old) + len(more), old.base
    if room is None or room.shape[1:] != old.shape[1:] or len(room) < size:
        room = np.empty((size + size // 4, *old.shape[1:]), old.dtype)
        room[: len(old)] = old
    room[len(old) : size] = more
    return room[:size]


def _sorted_in(known: Held, messages: Ints, chunks: Ints) -> tuple[Ints, Ints]:
    """The order of all rows, and their messages in it, once these came."""
    own = np.lexsort((chunks, messages))
    at = np.searchsorted(known.sorted_messages, messages[own], "right")
    order = np.insert(known.order, at, len(known.order) + own)
    return order, np.insert(known.sorted_messages, at, messages[own])


def _read(
    db: apsw.Connection, generation: int, dimensions: int, after: int
) -> tuple[Ints, Ints, Ints, Floats]:
    """Rows with higher keys, in the order of these."""
    # Of all, the index tells how many there are; of the newest, the table does.
    counted = "SELECT count(*) FROM vectors WHERE generation = ?"
    later = " AND key > ?" if after else ""
    size = query(db, counted + later, (generation, after)[: 1 + bool(after)])[0][0]
    numbers = np.empty((3, size), np.int64)
    rows = np.empty((size, dimensions), np.float32)
    sql = """
        SELECT key, message, chunk, vector FROM vectors WHERE generation = ? AND key > ?
        ORDER BY key
    """
    cursor = iter(db.execute(sql, (generation, after))) if size else iter(())
    at = 0
    while part := list(islice(cursor, READ)):
        stop = at + len(part)
        keys, messages, chunks, data = zip(*part, strict=True)
        numbers[:, at:stop] = keys, messages, chunks
        rows[at:stop] = np.frombuffer(b"".join(data), "<f4").reshape(-1, dimensions)
        at = stop
    return numbers[0, :at], numbers[1, :at], numbers[2, :at], rows[:at]


def _without_removed(db: apsw.Connection, generation: int, known: Held) -> Held:
    sql = "SELECT key FROM vectors WHERE generation = ? AND key <= ?"
    left = np.array([row[0] for row in query(db, sql, (generation, known.last))], np.int64)
    stays = np.isin(known.keys, left)
    numbers = known.keys[stays], known.messages[stays], known.chunks[stays], known.rows[stays]
    fitted = known.mean, known.fitted, known.signs[:, stays]
    return _put_together(known.removed, numbers, fitted)._replace(last=known.last)


def _made(removed: int, keys: Ints, messages: Ints, chunks: Ints, rows: Floats) -> Held:
    sample = rows[:: max(1, len(rows) // 1_000)]
    mean = sample.mean(axis=0) if len(sample) else np.zeros(rows.shape[1], np.float32)
    fitted = mean, len(rows), _signs(rows, mean)
    return _put_together(removed, (keys, messages, chunks, rows), fitted)


def _put_together(
    removed: int,
    numbers: tuple[Ints, Ints, Ints, Floats],
    fitted: tuple[Floats, int, NDArray[np.uint64]],
) -> Held:
    keys, messages, chunks, rows = numbers
    order = np.lexsort((chunks, messages))
    last = int(keys[-1]) if len(keys) else 0
    return Held(last, removed, keys, messages, chunks, rows, order, messages[order], *fitted)


def _signs(rows: Floats, mean: Floats) -> NDArray[np.uint64]:
    words = -(-rows.shape[1] // 64)
    found = np.empty((words, len(rows)), np.uint64)
    for start in range(0, len(rows), 4_096):
        part = np.packbits(rows[start : start + 4_096] > mean, axis=1)
        whole = np.zeros((len(part), 8 * words), np.uint8)
        whole[:, : part.shape[1]] = part
        found[:, start : start + 4_096] = whole.view(np.uint64).T
    return found


# --- the search -----------------------------------------------------------------------------------


class Question(NamedTuple):
    """What is looked for."""

    vector: Floats
    """Of length 1."""
    most: int
    ranges: Ranges
    """Of keys of messages, first and last; whatever lies in none is not looked at."""
    exact: bool = False
    """Whether all rows are compared exactly."""


class Cache:
    """A generation's state in memory, and how its rows are centred."""

    def __init__(self, generation: int, dimensions: int) -> None:
        self._generation = generation
        self._dimensions = dimensions
        self._held: Held | None = None
        self._centring: tuple[int, Centring | None] = (-1, None)
        self._scales: tuple[int, Floats] = (-1, np.empty(0, np.float32))

    def refresh(self, db: apsw.Connection) -> Held:
        """The state as it is stored now."""
        self._held = held(db, self._generation, self._dimensions, self._held)
        return self._held

    def centred(self, now: Held) -> Shared | None:
        """What is taken out of the rows, and their scales; None where they are too few."""
        if self._centring[0] != now.fitted:
            self._centring = now.fitted, centring(now.rows)
            self._scales = -1, self._scales[1]
        found = self._centring[1]
        if found is None:
            return None
        removed, scales = self._scales
        if removed != now.removed:
            scales = scales[:0]
        if len(scales) < len(now.rows):
            scales = np.concatenate([scales, found.scales(now.rows[len(scales) :])])
        self._scales = now.removed, scales
        return found, scales


def nearest(now: Held, asked: Question, centred: Shared | None) -> list[Near]:
    """The messages nearest to the question, the nearest first, each by its best piece; of equally
    near ones the older first.
    """
    vector, shift, scales = asked.vector, 0.0, None
    if centred is not None:
        vector, shift = centred[0].question(asked.vector)
        scales = centred[1]
    rows = _within(now, asked.ranges)
    wanted = max(CANDIDATES, SHARE * asked.most)
    size = len(now.keys) if rows is None else len(rows)
    if size > 4 * wanted and not asked.exact and hasattr(np, "bitwise_count"):
        rows = _likely(now, vector if centred else vector - now.mean, rows, wanted)
    matrix = now.rows if rows is None else now.rows[rows]
    cosines = matrix @ vector
    if scales is not None:
        cosines = (cosines - shift) * (scales if rows is None else scales[rows])
    return _best(now, rows, cosines, asked.most)


def _within(now: Held, ranges: Ranges) -> Ints | None:
    """The rows of messages within the ranges; None for all."""
    low = np.searchsorted(now.sorted_messages, [each[0] for each in ranges], "left")
    high = np.searchsorted(now.sorted_messages, [each[1] for each in ranges], "right")
    if len(ranges) == 1 and not low[0] and high[0] == len(now.keys):
        return None
    parts = [now.order[a:b] for a, b in zip(low, high, strict=True) if a < b]
    if not parts:
        return np.empty(0, np.int64)
    return parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))


def _likely(now: Held, vector: Floats, rows: Ints | None, wanted: int) -> Ints:
    """At least so many of the rows, those whose signs differ least from the question's."""
    asked = _signs(vector[None, :], np.zeros_like(vector))[:, 0]
    signs = now.signs if rows is None else now.signs[:, rows]
    differing = np.zeros(signs.shape[1], np.uint16)
    for each, word in zip(signs, asked, strict=True):
        differing += np.bitwise_count(each ^ word)
    counts = np.cumsum(np.bincount(differing))
    found = np.flatnonzero(differing <= np.searchsorted(counts, wanted))
    return found if rows is None else rows[found]


def _best(now: Held, rows: Ints | None, cosines: Floats, most: int) -> list[Near]:
    found: dict[int, Near] = {}
    part = min(len(cosines), 4 * most)
    while most > 0 and len(found) < most:
        top = np.argpartition(-cosines, part - 1)[:part] if part < len(cosines) else slice(None)
        at = np.arange(len(cosines))[top] if rows is None else rows[top]
        near = cosines[top]
        for index in np.lexsort((now.keys[at], -near)):
            row, cosine = at[index], float(near[index])
            message = int(now.messages[row])
            found.setdefault(message, Near(message, int(now.chunks[row]), cosine))
            if len(found) == most:
                break
        if part >= len(cosines):
            break
        part = min(len(cosines), 8 * part)
    return list(found.values())

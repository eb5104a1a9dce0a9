"""Embeds pending messages in batches. Nothing is locked while the model runs. Vectors and the
position up to which a branch is embedded are stored together, all or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from compact.errors import InvalidInput, ModelFailed
from compact.messages.protocols import CutsTexts, Embedder
from compact.store.sqlite import vectors
from compact.store.sqlite.originals import OriginalsUnread
from compact.store.sqlite.pool import Pool
from compact.store.sqlite.rows import BITS, MESSAGE, entry_of, position_in, query
from compact.store.sqlite.vectors import Gap, Vector
from compact.text.embedding import Generation, Numbers, cut, embedded_text

BATCH = 64
"""How many messages to embed and store at once. A crash loses at most one batch."""
ASKED = 64
"""How many texts to give the model in one call."""
SWEPT = 1_000
"""How many rows of a replaced generation to remove in one transaction."""


class Part(NamedTuple):
    """Pending messages of one branch, with their texts cut into pieces."""

    gap: Gap
    pieces: list[tuple[int, int, str]]
    """Message key, number of the piece, text of the piece."""


def embed_pending(
    pool: Pool,
    embedder: Embedder,
    *,
    most: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Embed pending messages. Return how many. Branches with an unreadable archive stay pending."""
    now = generation_for(pool, embedder)
    with pool.read() as db:
        total = vectors.pending(db, now.key)
    total = total if most is None else min(total, most)
    done = 0
    for batch in _batches(pool, now, embedder, total):
        made = vectors_of(embedder, batch)
        with pool.write() as db:
            stored = [vectors.put(db, now.key, part.gap, rows) for part, rows in made]
        for part, was_pending in zip(batch, stored, strict=True):
            done += part.gap.stop - part.gap.start if was_pending else 0
        if progress is not None:
            progress(done, max(done, total))
    finish(pool, now)
    return done


def generation_for(pool: Pool, embedder: Embedder) -> Generation:
    """Return the embedder's generation. It is created if there is none."""
    of = embedder.name, embedder.version, embedder.dimensions
    with pool.read() as db:
        known = vectors.find(db, *of, ("serving", "made"))
    if known is not None:
        return known
    with pool.write() as db:
        return vectors.begin(db, *of)


def finish(pool: Pool, now: Generation) -> None:
    """Put a complete generation into use, and remove the generations it replaces."""
    if now.state == "made":
        with pool.read() as db:
            is_complete = not vectors.gaps(db, now.key, most=1)
        if is_complete:
            with pool.write() as db:
                vectors.take_over(db, now.key)
    while _is_leaving(pool):
        with pool.write() as db:
            vectors.sweep(db, SWEPT)


def _is_leaving(pool: Pool) -> bool:
    with pool.read() as db:
        return any(each.state == "leaving" for each in vectors.generations(db, counted=False))


# --- batches --------------------------------------------------------------------------------------


def _batches(pool: Pool, now: Generation, embedder: Embedder, total: int) -> Iterator[list[Part]]:
    """Yield what was pending at the start, in batches. A batch is read when it is needed."""
    after, batch, left = 0, list[Part](), total
    while left > 0:
        with pool.read() as db:
            gaps = vectors.gaps(db, now.key, after=after, most=BATCH)
        if not gaps:
            break
        for gap in gaps:
            for part in _slices(gap, left):
                try:
                    read = _read(pool, part, embedder)
                except OriginalsUnread:  # this branch stays pending; the others get vectors
                    break
                left -= part.stop - part.start
                batch.append(read)
                if sum(each.gap.stop - each.gap.start for each in batch) >= BATCH:
                    yield batch
                    batch = []
            if left <= 0:
                break
        after = gaps[-1].branch
    if batch:
        yield batch


def _slices(gap: Gap, left: int) -> Iterator[Gap]:
    stop = min(gap.stop, gap.start + left)
    for start in range(gap.start, stop, BATCH):
        yield Gap(gap.branch, start, min(start + BATCH, stop))


def _read(pool: Pool, gap: Gap, embedder: Embedder) -> Part:
    sql = f"SELECT {MESSAGE} FROM messages WHERE key BETWEEN ? AND ? ORDER BY key"
    keys = gap.branch << BITS | gap.start, gap.branch << BITS | (gap.stop - 1)
    with pool.read() as db:
        texts = [(row[0], embedded_text(entry_of(row).message)) for row in query(db, sql, keys)]
    pieces = [
        (key, number, piece)
        for key, text in texts
        for number, piece in enumerate(pieces_by(embedder, text))
    ]
    stop = position_in(texts[-1][0]) + 1 if texts else gap.start
    return Part(Gap(gap.branch, gap.start, stop), pieces)


def pieces_by(embedder: Embedder, text: str) -> list[str]:
    """Cut a text into pieces that fit the embedder. A blank text gives no pieces."""
    if not text or text.isspace():
        return []
    return embedder.pieces(text) if isinstance(embedder, CutsTexts) else cut(text)


# --- the model ------------------------------------------------------------------------------------


def vectors_of(embedder: Embedder, batch: Sequence[Part]) -> list[tuple[Part, list[Vector]]]:
    """Embed the parts' pieces. Return each part with its vectors."""
    texts = [text for part in batch for _, _, text in part.pieces]
    data = iter(
        row
        for start in range(0, len(texts), ASKED)
        for row in _embedded(embedder, texts[start : start + ASKED])
    )
    return [
        (part, [Vector(key, number, next(data)) for key, number, _ in part.pieces])
        for part in batch
    ]


def _embedded(embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
    """Return the texts' vectors, in the form in which they are stored.

    Raises:
        ModelFailed: the model returned too few or too many vectors, or invalid ones.
    """
    rows = embedder.embed(texts, query=False)
    try:
        return as_stored(rows, len(texts), embedder.dimensions)
    except InvalidInput as error:
        raise ModelFailed(f"{embedder.name}: {error}") from None


def as_stored(found: Sequence[Numbers], count: int, dimensions: int) -> list[bytes]:
    """Return vectors as bytes (little-endian float32), each normalized to length 1.

    Raises:
        InvalidInput: wrong count or dimensions, a zero vector, or a number that is not finite.
    """
    try:
        rows = np.asarray(found, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"these are no vectors: {error}") from None
    if not count and not rows.size:
        return []
    if rows.shape != (count, dimensions):
        shape = " of ".join(map(str, rows.shape))
        raise InvalidInput(f"{count} vectors of {dimensions} numbers are wanted, not {shape}")
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    if not np.isfinite(lengths).all() or not lengths.all():
        raise InvalidInput("a vector's length must be a number greater than 0")
    return [row.tobytes() for row in (rows / lengths).astype("<f4")]

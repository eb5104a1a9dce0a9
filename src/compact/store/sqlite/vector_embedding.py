"""Embeds pending messages in batches. Nothing is locked while the model runs. Vectors and the
position up to which a branch is embedded are stored together, all or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from compact.messages.protocols import Embedder
from compact.store.sqlite import vectors
from compact.store.sqlite.originals import OriginalsUnread
from compact.store.sqlite.pool import Pool
from compact.store.sqlite.rows import BITS, MESSAGE, entry_of, position_in, query
from compact.store.sqlite.vectors import Gap, Vector
from compact.text.embedding import Generation, embedded, embedded_text, pieces_by

BATCH = 64
"""How many messages to embed and store at once, and how many texts to give the model in one call. A
crash loses at most one batch."""
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


# --- the model ------------------------------------------------------------------------------------


def vectors_of(embedder: Embedder, batch: Sequence[Part]) -> list[tuple[Part, list[Vector]]]:
    """Embed the parts' pieces. Return each part with its vectors."""
    texts = [text for part in batch for _, _, text in part.pieces]
    data = iter(
        row
        for start in range(0, len(texts), BATCH)
        for row in embedded(embedder, texts[start : start + BATCH])
    )
    return [
        (part, [Vector(key, number, next(data)) for key, number, _ in part.pieces])
        for part in batch
    ]

"""Vectors of one scope's messages, in PostgreSQL with pgvector. Searches compare all of the scope.

A branch's row in `embedded` says up to which position it has vectors of an embedder. That position
and the vectors are stored in one statement, so a process that is killed leaves neither.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from compact.errors import InvalidArgument, StoreFailed
from compact.messages.protocols import Embedder
from compact.store.postgres.connection import Connections
from compact.store.postgres.index import BranchPart, ScopeIndex, columns
from compact.store.postgres.rows import ENTRY, entry_of
from compact.store.postgres.schema import VECTORS
from compact.text.embedding import (
    Generation,
    Near,
    Numbers,
    as_stored,
    embedded,
    embedded_text,
    pieces_by,
)

BATCH = 64
"""How many messages to embed and store at once. A crash loses at most one batch."""
_PENDING = """
    SELECT b.id, coalesce(e.position, b.fork) AS low, b.messages FROM compact.branches b
    LEFT JOIN compact.embedded e ON e.scope = %(scope)s AND e.branch = b.id
        AND e.generation = %(generation)s
    WHERE b.scope = %(scope)s AND b.messages > coalesce(e.position, b.fork) ORDER BY b.id
"""
_READ = f"""
    SELECT {ENTRY} FROM compact.messages m WHERE m.scope = %(scope)s AND m.branch = %(branch)s
    AND m.position >= %(low)s AND m.position < %(high)s ORDER BY m.position
"""
_STORE = """
    WITH grown AS (
        INSERT INTO compact.embedded AS e
        SELECT %(scope)s, b.id, %(generation)s, %(high)s FROM compact.branches b
        WHERE b.scope = %(scope)s AND b.id = %(branch)s AND b.messages >= %(high)s
            AND (b.fork = %(low)s OR EXISTS (SELECT 1 FROM compact.embedded k WHERE k.scope =
                %(scope)s AND k.branch = b.id AND k.generation = %(generation)s))
        FOR NO KEY UPDATE
        ON CONFLICT (scope, branch, generation) DO UPDATE SET position = excluded.position
        WHERE e.position = %(low)s RETURNING 1
    ), stored AS (
        INSERT INTO compact.vectors
        SELECT %(scope)s, %(branch)s, %(generation)s, v.position, v.piece, v.vector::vector
        FROM grown, unnest(%(positions)s::int[], %(pieces)s::int[], %(vectors)s::text[])
            AS v (position, piece, vector)
        ON CONFLICT (scope, branch, generation, position, piece)
            DO UPDATE SET vector = excluded.vector
    )
    SELECT 1 FROM grown
"""
_NEAREST = """
    SELECT branch, position, piece, cosine FROM (
        SELECT DISTINCT ON (v.branch, v.position) v.branch, v.position, v.piece,
            -(v.vector <#> %(asked)s::vector) AS cosine
        FROM unnest(%(branches)s::bytea[], %(starts)s::int[], %(stops)s::int[]) AS l (id, low, high)
        JOIN compact.vectors v ON v.scope = %(scope)s AND v.branch = l.id
            AND v.generation = %(generation)s AND v.position >= l.low AND v.position < l.high
        ORDER BY v.branch, v.position, cosine DESC
    ) AS best ORDER BY cosine DESC, branch, position LIMIT %(most)s
"""


class _Cut(NamedTuple):
    """Pending messages of one branch, with the pieces of their texts: position, number, text."""

    gap: BranchPart
    pieces: list[tuple[int, int, str]]


class ScopeVectors:
    """The vectors of one scope. Safe for use by many threads, processes and hosts."""

    def __init__(self, server: Connections, index: ScopeIndex) -> None:
        self._server, self._index = server, index
        self._ask = index.ask

    def made_by(self, embedder: Embedder) -> Generation | None:
        """Return the generation of an embedder, complete or not; None if it has no vectors here."""
        of = generation_of(embedder)
        sql = """
            SELECT 1 FROM compact.embedded WHERE scope = %(scope)s AND generation = %(generation)s
            LIMIT 1
        """
        return of if self._ask(sql, generation=of.key) else None

    def pending(self, embedder: Embedder) -> int:
        """Return how many messages of the scope have no vector of this embedder."""
        return sum(gap.high - gap.low for gap in self._gaps(generation_of(embedder)))

    def _gaps(self, of: Generation) -> list[BranchPart]:
        rows = self._ask(_PENDING, generation=of.key)
        return [BranchPart(bytes(branch), low, high) for branch, low, high in rows]

    def embed_pending(
        self,
        embedder: Embedder,
        *,
        most: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Embed pending messages, and return how many. Each batch is stored by itself. When all
        have vectors, those of other embedders are removed. After each batch, `progress` gets the
        number of messages done and the total.

        Raises:
            ModelFailed: the model failed. Earlier batches stay stored.
            InvalidArgument: the server has no pgvector.
        """
        self._make_table()
        of, done = generation_of(embedder), 0
        gaps = self._gaps(of)
        total = sum(gap.high - gap.low for gap in gaps)
        total = total if most is None else min(total, most)
        for batch in self._batches(gaps, embedder, total):
            texts = [text for part in batch for _, _, text in part.pieces]
            data = iter(
                [
                    _written(row)
                    for start in range(0, len(texts), BATCH)
                    for row in embedded(embedder, texts[start : start + BATCH])
                ]
            )
            for gap, pieces in batch:
                made = [(position, number, next(data)) for position, number, _ in pieces]
                done += gap.high - gap.low if self._store(of, gap, made) else 0
            if progress is not None:
                progress(done, max(done, total))
        if not self._gaps(of):
            for table in ("vectors", "embedded"):
                sql = f"DELETE FROM compact.{table} WHERE scope = %(scope)s AND generation <> "
                self._ask(f"{sql}%(generation)s", generation=of.key)
        return done

    def _make_table(self) -> None:
        try:
            self._server.query(VECTORS, ())
        except StoreFailed as error:
            if self._server.query("SELECT to_regclass('compact.vectors')", ()) == [(None,)]:
                reason = f"vectors in PostgreSQL need the extension pgvector on the server: {error}"
                raise InvalidArgument("embedder", reason) from error

    def _batches(
        self, gaps: Sequence[BranchPart], embedder: Embedder, left: int
    ) -> Iterator[list[_Cut]]:
        """Yield pending messages in batches of about `BATCH` messages."""
        batch, size = list[_Cut](), 0
        for branch, low, stop in gaps:
            for start in range(low, min(stop, low + left), BATCH):
                gap = BranchPart(branch, start, min(start + BATCH, stop, low + left))
                batch.append(self._cut(gap, embedder))
                size += gap.high - gap.low
                if size >= BATCH:
                    yield batch
                    batch, size = [], 0
            left -= min(stop - low, left)
        if batch:
            yield batch

    def _cut(self, gap: BranchPart, embedder: Embedder) -> _Cut:
        rows = self._ask(_READ, branch=gap.branch, low=gap.low, high=gap.high)
        texts = [(row[0], embedded_text(entry_of(row).message)) for row in rows]
        pieces = [
            (position, number, piece)
            for position, text in texts
            for number, piece in enumerate(pieces_by(embedder, text))
        ]
        return _Cut(gap, pieces)

    def _store(self, of: Generation, gap: BranchPart, made: Sequence[tuple[int, int, str]]) -> bool:
        """Store vectors. False if another process was faster, or the session was deleted."""
        names = "positions", "pieces", "vectors"
        given = {name: [row[place] for row in made] for place, name in enumerate(names)}
        of_gap = {"branch": gap.branch, "low": gap.low, "high": gap.high, "generation": of.key}
        return bool(self._ask(_STORE, **given, **of_gap))

    def similar(
        self, vector: Numbers, *, of: Generation, most: int, keys: Sequence[tuple[int, int]]
    ) -> list[Near]:
        """Return the messages nearest to a vector, nearest first, from these ranges of keys. A
        message counts by its best piece.

        Raises:
            InvalidInput: wrong dimensions, a zero vector, or a number that is not finite.
        """
        asked = _written(as_stored([vector], 1, of.dimensions)[0])
        ends: Mapping[str, list[object]] = columns(self._index.stretches(keys))
        rows = self._ask(_NEAREST, asked=asked, generation=of.key, most=most, **ends)
        return [
            Near(self._index.key(bytes(branch), position), piece, cosine)
            for branch, position, piece, cosine in rows
        ]


def generation_of(embedder: Embedder) -> Generation:
    """Return the generation that an embedder's vectors belong to."""
    of = embedder.name, embedder.version, embedder.dimensions
    key = blake2b("\n".join(map(str, of)).encode("utf-8", "replace"), digest_size=4).digest()
    return Generation(int.from_bytes(key, "big", signed=True), *of, "serving")


def _written(data: bytes) -> str:
    """Return a vector as pgvector reads it."""
    return f"[{','.join(map(str, array('f', data)))}]"

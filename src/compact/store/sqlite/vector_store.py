"""`VectorStore`: vectors of a store's messages, or under an application's own names, in the store's
file.

Vectors are rows of a table, in sqlite-vec's byte format. Searching needs no extension
(docs/decisions/053). `vec0` searches with sqlite-vec instead, if chosen. Vectors that are searched
are held in memory: four bytes for each number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, cast, get_args

import apsw

from compact import forks
from compact.errors import InvalidArgument, InvalidInput, StoreFailed
from compact.messages.calls import got, no_text
from compact.messages.protocols import Embedder
from compact.store.sqlite import vec0, vectors
from compact.store.sqlite.pool import MEMORY, Pool
from compact.store.sqlite.store import SQLiteManager
from compact.store.sqlite.vectors import FIRST_MESSAGE, Vector
from compact.text.embedding import Generation, Near, Numbers, as_stored

if TYPE_CHECKING:
    from compact.store.sqlite.vector_cache import Floats, Held, Ints

Backend = Literal["rows", "sqlite-vec"]
"""What searches: numpy over the rows, or sqlite-vec's `vec0` table (extra `vec`)."""
DIMENSIONS = 384
"""The dimensions of vectors by all-MiniLM-L6-v2."""
_ALL = ((FIRST_MESSAGE, (1 << 63) - 1),)
"""The range of all message keys."""
_NAMES = ((0, FIRST_MESSAGE - 1),)
"""The range of all keys of an application's own names."""


class Match(NamedTuple):
    """A name that a search found, and the cosine of its vector to the question."""

    name: str
    cosine: float


class VectorStore:
    """Vectors in a file, in memory, or in the file of a `SQLiteManager`, which `close` does not
    close.

    `add`, `search` and `delete` keep vectors under your own names. These belong to one `model` and
    `version`, and are not compared with others. `embed_pending` and `similar` keep vectors of the
    store's messages, in separate generations.

    `backend` is `rows`, which is faster and needs no extension, or `sqlite-vec`, a `vec0` table in
    the file (extra `vec`).

    Raises:
        InvalidArgument: an unknown backend, or sqlite-vec cannot be loaded.
        StoreFailed: the file cannot be opened.
        InvalidInput: `dimensions` is below 1.
    """

    def __init__(
        self,
        store: str | Path | SQLiteManager = MEMORY,
        dimensions: int = DIMENSIONS,
        *,
        model: str = "",
        version: str = "",
        backend: Backend = "rows",
    ) -> None:
        if dimensions < 1:
            raise InvalidInput(f"a vector has one dimension at least, not {dimensions}")
        if backend not in get_args(Backend):
            known = " or ".join(map(repr, get_args(Backend)))
            raise InvalidArgument("backend", f"backend must be {known}, got {got(backend)}")
        self._own = None if isinstance(store, SQLiteManager) else SQLiteManager(store)
        self._manager = store if isinstance(store, SQLiteManager) else self._own
        self.dimensions = dimensions
        self.model = model
        self.version = version
        self._lock = forks.Lock()
        self._caches: dict[int, Held] = {}
        self._uses_vec0 = backend == vec0.NAME
        if self._uses_vec0:
            with self._pool.alone() as db:
                vec0.load(db)  # fail now, not at the first search

    @property
    def _pool(self) -> Pool:
        if self._manager is None:
            raise StoreFailed("the store has been closed. Open another one")
        return self._manager.pool

    def close(self) -> None:
        """Close the file, if it was opened here. Closing twice does no harm."""
        if self._own is not None:
            self._own.close()
            self._own = self._manager = None
        self._caches.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- vectors under names ----------------------------------------------------------------------

    def add(self, given: Mapping[str, Numbers] | str, vector: Numbers | None = None) -> None:
        """Store vectors under names, all or none. A vector replaces an earlier one of that name. It
        is stored with length 1. A name may be a message id. `add(name, vector)` stores one vector.

        Raises:
            InvalidInput: wrong dimensions, a zero vector, or a number that is not finite.
            InvalidArgument: a name without a vector, or a vector beside a mapping.
        """
        if isinstance(given, str) == (vector is None):
            raise InvalidArgument("vector", "add(name, vector), or add({name: vector, …})")
        if isinstance(given, str):
            given = {given: cast("Numbers", vector)}
        data = as_stored(list(given.values()), len(given), self.dimensions)
        with self._pool.write() as db:
            own = vectors.begin(db, self.model, self.version, self.dimensions, own=True)
            rows = []
            for name, each in zip(given, data, strict=True):
                key = vectors.key_of_name(db, name, create=True)
                assert key is not None, "just made"
                vectors.remove_message(db, own.key, key)
                rows.append(Vector(key, 0, each))
            vectors.add(db, own.key, rows)
            if self._uses_vec0:
                vec0.catch_up(db, own)

    def search(
        self, vector: Numbers, *, most: int = 10, within: Collection[str] | None = None
    ) -> list[Match]:
        """Return the names with the nearest vectors, nearest first. `within` limits the names.

        Raises:
            InvalidInput: wrong dimensions, a zero vector, or a number that is not finite.
        """
        with self._pool.read() as db:
            own = self._named(db)
            if own is None:
                return []
            keys: Sequence[tuple[int, int]] = _NAMES
            if within is not None:
                known = (vectors.key_of_name(db, name) for name in set(within))
                keys = sorted((key, key) for key in known if key is not None)
        near = self._nearest(own, vector, most, keys)
        with self._pool.read() as db:
            names = vectors.names_of(db, [each.key for each in near])
        return [Match(names[each.key], each.cosine) for each in near if each.key in names]

    def delete(self, names: Iterable[str]) -> int:
        """Delete the vectors of these names. Return how many existed."""
        no_text("names", names)
        count = 0
        with self._pool.write() as db:
            own = self._named(db)
            for name in set(names) if own is not None else ():
                key = vectors.key_of_name(db, name)
                if own is not None and key is not None:
                    count += vectors.remove_message(db, own.key, key)
                    vectors.forget_name(db, key)
        return count

    def __len__(self) -> int:
        """Return how many names have a vector."""
        with self._pool.read() as db:
            own = self._named(db)
            counted = {each.key: each.vectors for each in vectors.generations(db)}
        return counted[own.key] if own is not None else 0

    def _named(self, db: apsw.Connection) -> Generation | None:
        return vectors.find(db, self.model, self.version, self.dimensions, ("own",))

    # --- vectors of messages ----------------------------------------------------------------------

    def generations(self) -> list[Generation]:
        """Return all generations of vectors, by model and version, oldest first."""
        with self._pool.read() as db:
            return vectors.generations(db)

    def made_by(self, embedder: Embedder) -> Generation | None:
        """Return the generation of an embedder, complete or not."""
        own = (embedder.name, embedder.version, embedder.dimensions)
        with self._pool.read() as db:
            return vectors.find(db, *own, ("serving", "made"))

    def serving(self) -> Generation | None:
        """Return the generation that searches for messages use, or None."""
        with self._pool.read() as db:
            return vectors.serving(db)

    def pending(self, embedder: Embedder) -> int:
        """Return how many messages have no vector of this embedder."""
        known = self.made_by(embedder)
        with self._pool.read() as db:
            return vectors.pending(db, known.key if known else 0)

    def embed_pending(
        self,
        embedder: Embedder,
        *,
        most: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Embed pending messages, and return how many. Each batch is stored by itself, and nothing
        is locked while the model runs. After a kill, the next call continues with the next batch.
        Vectors of another model or version are used until these are complete, and are then removed.
        After each batch, `progress` gets the number of messages done and the total.

        Raises:
            ModelFailed: the model failed. Earlier batches stay stored.
        """
        from compact.store.sqlite import vector_embedding

        return vector_embedding.embed_pending(self._pool, embedder, most=most, progress=progress)

    def similar(
        self,
        vector: Numbers,
        *,
        of: Generation | None = None,
        most: int = 10,
        keys: Sequence[tuple[int, int]] | None = None,
    ) -> list[Near]:
        """Return the messages nearest to a vector, nearest first. A message counts by its best
        piece. `of` is the vector's generation, by default the serving one. `keys` are ranges of
        message keys, both ends included.

        Raises:
            InvalidInput: wrong dimensions, a zero vector, or a number that is not finite.
        """
        ranges = _ALL if keys is None else keys
        if of is None and (of := self.serving()) is None:
            return []
        return self._nearest(of, vector, most, ranges)

    def drop(self, generation: Generation) -> None:
        """Delete a generation's vectors."""
        from compact.store.sqlite.vector_embedding import finish

        with self._pool.write() as db:
            vectors.leave(db, generation.key)
        finish(self._pool, generation)

    def _held(self, db: apsw.Connection, of: Generation) -> Held:
        from compact.store.sqlite.vector_cache import held

        if of.key not in self._caches:
            present = {each.key for each in vectors.generations(db, counted=False)}
            self._caches = {key: kept for key, kept in self._caches.items() if key in present}
        now = held(db, of.key, of.dimensions, self._caches.get(of.key))
        self._caches[of.key] = now
        return now

    def _nearest(
        self, of: Generation, vector: Numbers, most: int, keys: Sequence[tuple[int, int]]
    ) -> list[Near]:
        import numpy as np

        from compact.store.sqlite.vector_cache import nearest

        asked = as_stored([vector], 1, of.dimensions)[0]
        if self._uses_vec0:
            return vec0.nearest(self._pool, of, asked, most, keys)
        with self._lock, self._pool.read() as db:
            now = self._held(db, of)
        return nearest(now, np.frombuffer(asked, "<f4"), most, tuple(keys), self._fetched)

    def _fetched(self, keys: Ints) -> tuple[Ints, Floats]:
        from compact.store.sqlite.vector_cache import fetched

        with self._pool.read() as db:
            return fetched(db, keys)

"""Our store of vectors, as `vector_work` drives it: of messages, a session for each group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.vector_work import Vectors
from compact.messages.messages import Message
from compact.messages.sessions import Branch, Entry, Session
from compact.store.sqlite.rows import BITS
from compact.store.sqlite.store import SQLiteManager
from compact.store.sqlite.vector_store import VectorStore

ALL = ((1 << BITS, 1 << 62),)


class Ready:
    """An embedder whose vectors are there already: the texts are their numbers."""

    name, version = "ready", "1"

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.rows: Any = None
        self.start = 0

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Any:  # noqa: ANN401 - a matrix
        return self.rows[[int(text) - self.start for text in texts]]


class Ours(Vectors):
    """`VectorStore.similar` beside sessions; adding is append and `embed_pending`."""

    def __init__(self, folder: Path, dimensions: int, each: int) -> None:
        super().__init__(folder, dimensions, each)
        self.sessions = SQLiteManager(folder / "ours.db")
        self.store = VectorStore(self.sessions, dimensions)
        self.embedder = Ready(dimensions)

    def add(self, start: int, rows: Any) -> None:  # noqa: ANN401 - as above
        first, end = start, start + len(rows)
        while first < end:
            name = str(first // self.each)
            branch = Branch(id=name, session_id=name)
            self.sessions.session(name, create=Session(id=name, branch=branch))
            stop = min(first - first % self.each + self.each, end)
            told = [Entry(Message(role="user", content=str(i))) for i in range(first, stop)]
            self.sessions.append(name, told)
            first = stop
        self.embedder.rows, self.embedder.start = rows, start
        self.store.embed_pending(self.embedder)

    def nearest(self, vector: Any, group: int | None) -> list[int]:  # noqa: ANN401 - as above
        keys = ALL if group is None else (((group + 1) << BITS, (group + 2 << BITS) - 1),)
        found = self.store.similar(vector, most=10, keys=keys)
        return [(n.key >> BITS) * self.each - self.each + (n.key & 0xFFFFFFFF) for n in found]

    def close(self) -> None:
        self.store.close()
        self.sessions.close()


class Named(Vectors):
    """`VectorStore` under names, a file of its own; a group is a set of names."""

    def __init__(self, folder: Path, dimensions: int, each: int) -> None:
        super().__init__(folder, dimensions, each)
        self.store = VectorStore(folder / "ours.db", dimensions)

    def add(self, start: int, rows: Any) -> None:  # noqa: ANN401 - as above
        self.store.add({str(start + i): row for i, row in enumerate(np.asarray(rows))})

    def nearest(self, vector: Any, group: int | None) -> list[int]:  # noqa: ANN401 - as above
        names = None
        if group is not None:
            names = {str(i) for i in range(group * self.each, group * self.each + self.each)}
        return [int(match.name) for match in self.store.search(vector, within=names)]

    def close(self) -> None:
        self.store.close()


STORES: dict[str, Callable[[Path, int, int], Vectors]] = {
    "VectorStore.similar": Ours,
    "VectorStore.search": Named,
}

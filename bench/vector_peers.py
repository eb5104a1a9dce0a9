"""Peers' stores of vectors, as `vector_work` drives them. Each as its documentation shows it, with
the cosine as distance.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.vector_work import BEST, Vectors


class Chroma(Vectors):
    """chromadb's persistent client: HNSW in memory, filtered by metadata."""

    def __init__(self, folder: Path, dimensions: int, each: int) -> None:
        super().__init__(folder, dimensions, each)
        import chromadb

        client = chromadb.PersistentClient(
            str(folder), settings=chromadb.Settings(anonymized_telemetry=False)
        )
        self.rows = client.get_or_create_collection(
            "rows", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )

    def add(self, start: int, rows: Any) -> None:  # noqa: ANN401 - a matrix
        numbers = range(start, start + len(rows))
        groups = [{"group": i // self.each} for i in numbers]
        self.rows.add(ids=[str(i) for i in numbers], embeddings=rows, metadatas=groups)  # type: ignore[arg-type]

    def nearest(self, vector: Any, group: int | None) -> list[int]:  # noqa: ANN401 - as above
        where: Any = None if group is None else {"group": group}
        found = self.rows.query(
            query_embeddings=[vector], n_results=BEST, where=where, include=["distances"]
        )
        return [int(name) for name in found["ids"][0]]


class Lance(Vectors):
    """lancedb without an index: it compares all."""

    def __init__(self, folder: Path, dimensions: int, each: int) -> None:
        super().__init__(folder, dimensions, each)
        import lancedb

        self.db = lancedb.connect(folder)
        self.table = self.db.open_table("v") if "v" in self.db.table_names() else None

    def add(self, start: int, rows: Any) -> None:  # noqa: ANN401 - as above
        import pyarrow as pa

        flat = pa.array(rows.reshape(-1), pa.float32())
        numbers = list(range(start, start + len(rows)))
        data = pa.table(
            {
                "number": pa.array(numbers),
                "group": pa.array([i // self.each for i in numbers]),
                "vector": pa.FixedSizeListArray.from_arrays(flat, self.dimensions),
            }
        )
        if self.table is None:
            self.table = self.db.create_table("v", data)
        else:
            self.table.add(data)

    def nearest(self, vector: Any, group: int | None) -> list[int]:  # noqa: ANN401 - as above
        assert self.table is not None
        asked: Any = self.table.search(vector).distance_type("cosine").limit(BEST)
        if group is not None:
            asked = asked.where(f"group = {group}", prefilter=True)
        return list(asked.select(["number"]).to_arrow()["number"].to_pylist())


class Vec0(Vectors):
    """sqlite-vec's table, by apsw; groups are a metadata column."""

    def __init__(self, folder: Path, dimensions: int, each: int) -> None:
        super().__init__(folder, dimensions, each)
        import apsw
        import sqlite_vec

        self.db = apsw.Connection(str(folder / "vec.db"))
        self.db.enable_load_extension(True)
        self.db.load_extension(sqlite_vec.loadable_path())
        self.db.pragma("journal_mode", "wal")
        self.db.pragma("synchronous", "full")
        self.db.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS v USING vec0(number INTEGER PRIMARY KEY, "
            f"vector float[{dimensions}] distance_metric=cosine, grp INTEGER)"
        )

    def add(self, start: int, rows: Any) -> None:  # noqa: ANN401 - as above
        with self.db:
            self.db.executemany(
                "INSERT INTO v (number, vector, grp) VALUES (?, ?, ?)",
                ((i, row.tobytes(), i // self.each) for i, row in enumerate(rows, start)),
            )

    def nearest(self, vector: Any, group: int | None) -> list[int]:  # noqa: ANN401 - as above
        sql, given = "SELECT number FROM v WHERE vector MATCH ? AND k = ?", (vector.tobytes(), BEST)
        if group is not None:
            return [r[0] for r in self.db.execute(f"{sql} AND grp = ?", (*given, group))]
        return [r[0] for r in self.db.execute(sql, given)]

    def close(self) -> None:
        self.db.close()


STORES: dict[str, Callable[[Path, int, int], Vectors]] = {
    "sqlite-vec vec0": Vec0,
    "chromadb": Chroma,
    "lancedb": Lance,
}

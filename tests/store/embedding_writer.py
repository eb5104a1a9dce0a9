"""A program that appends, embeds, changes embedders and deletes until it is killed.

`python -m tests.store.embedding_writer DATABASE LEDGER` forks a worker for each line on its
standard input (a seed), and prints the worker's process id. A worker writes a JSON line to the
ledger after each append and each deletion that returned: what stands there was promised.
"""

import json
import os
import random
import sys
from pathlib import Path

from compact import SQLiteManager, VectorStore
from compact.store.sqlite import vector_embedding
from compact.testing import HashEmbedder
from tests.store.making import entry, session


def embedder(version: str) -> HashEmbedder:
    return HashEmbedder(32, version=version, window=12)


def work(database: Path, ledger: Path, seed: int) -> None:
    rng = random.Random(seed)
    with SQLiteManager(database) as store, ledger.open("a", encoding="utf-8", buffering=1) as file:
        index = VectorStore(store)
        while True:
            step(store, index, rng, file.write)


def step(store, index, rng, write) -> None:
    name = f"s{rng.randrange(6)}"
    chance = rng.random()
    if chance < 0.5:
        store.session(name, create=session(name))
        texts = [f"note{rng.randrange(999)} " * rng.randrange(1, 40) for _ in range(9)]
        have = store.append(name, [entry(text) for text in texts])
        write(json.dumps({"session": name, "messages": have}) + "\n")
    elif chance < 0.95:
        index.embed_pending(embedder(str(rng.randrange(3))), most=rng.randrange(1, 60))
        write(json.dumps({"embedded": True}) + "\n")
    elif name in {each.id for each in store.sessions()}:
        write(json.dumps({"deletes": name}) + "\n")
        store.delete_session(name)


def main(database: str, ledger: str) -> None:
    vector_embedding.BATCH = 8  # kills fall between batches, too
    vector_embedding.SWEPT = 16
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            work(Path(database), Path(ledger), int(line))
        print(pid, flush=True)
        os.waitpid(pid, 0)
        print("gone", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A nursery (`tests.killing`) whose workers append, embed, change embedders and delete (a line is a
seed).
"""

import random

from compact import SQLiteManager, VectorStore
from compact.store.sqlite import vector_embedding
from compact.testing import HashEmbedder
from tests.killing import Ledger, serve
from tests.store.making import entry, session


def embedder(version: str) -> HashEmbedder:
    return HashEmbedder(32, version=version, window=12)


def work(database: str, ledger: Ledger, seed: str) -> None:
    rng = random.Random(int(seed))
    with SQLiteManager(database) as store:
        index = VectorStore(store)
        while True:
            step(store, index, rng, ledger.note)


def step(store, index, rng, note) -> None:
    name = f"s{rng.randrange(6)}"
    chance = rng.random()
    if chance < 0.5:
        store.session(name, create=session(name))
        texts = [f"note{rng.randrange(999)} " * rng.randrange(1, 40) for _ in range(9)]
        have = store.append(name, [entry(text) for text in texts])
        note(session=name, messages=have)
    elif chance < 0.95:
        index.embed_pending(embedder(str(rng.randrange(3))), most=rng.randrange(1, 60))
        note(embedded=True)
    elif name in {each.id for each in store.sessions()}:
        note(deletes=name)
        store.delete_session(name)


if __name__ == "__main__":
    vector_embedding.BATCH = 8  # kills fall between batches, too
    vector_embedding.SWEPT = 16
    serve(work)

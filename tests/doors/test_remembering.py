"""S-3 and S-4 as they are written: vectors beside a conversation, and searching all of them."""

import sqlite3
from datetime import UTC, datetime

import pytest

from compact import ContextManager, MemoryManager, SQLiteManager, VectorStore, embedder
from compact.testing import HashEmbedder, check_embedder

SAID = (
    "The crane on the north quay lifts forty tons.",
    "The ferry moors at night.",
    "Tea is ready.",
)


def talked(file):
    """A file with a conversation in it."""
    with ContextManager(window=8_000, store=file, session_id="quay") as ctx:
        ctx.add_messages([{"role": "user", "content": text} for text in SAID])


def test_embeddings_are_stored_with_a_reference_to_their_message_and_found(tmp_path):
    """S-3: "store embeddings with a message reference, similarity search, batches"."""
    file, model = tmp_path / "chat.db", HashEmbedder(384)
    talked(file)
    with SQLiteManager(file) as store:
        vectors = VectorStore(store)
        assert vectors.pending(model) == len(SAID)
        assert vectors.embed_pending(model) == len(SAID)
        near = vectors.similar(model.embed(["when does the ferry moor?"], query=True)[0], most=1)
        position = near[0].key & 0xFFFFFFFF
        assert store.read("quay", position, position + 1)[0].message.text == SAID[1]


@pytest.mark.parametrize("dimensions", [1, 3, 384, 1536])
def test_vectors_have_any_number_of_dimensions(tmp_path, dimensions):
    """S-3: "any dimension (384 by default)"."""
    assert VectorStore().dimensions == 384
    with VectorStore(tmp_path / "v.db", dimensions=dimensions) as store:
        store.add({str(i): [1.0] * dimensions for i in range(100)})
        assert store.search([2.0] * dimensions, most=3)[0].cosine == pytest.approx(1, abs=1e-5)
        assert store.delete([str(i) for i in range(99)]) == 99
        assert len(store) == 1


def test_models_are_tracked_and_never_mixed_and_embedding_goes_on_where_it_stopped(tmp_path):
    """S-3: "embedding model and version tracked, never mixed in one query, re-embedding
    resumable".
    """
    file = tmp_path / "chat.db"
    talked(file)
    old, new = HashEmbedder(384, version="1"), HashEmbedder(384, version="2")
    with SQLiteManager(file) as store:
        VectorStore(store).embed_pending(old)
    with SQLiteManager(file) as store:
        vectors = VectorStore(store)
        vectors.embed_pending(new, most=2)
        told = [(each.model, each.version, each.state) for each in vectors.generations()]
        assert told == [("hash", "1", "serving"), ("hash", "2", "made")]
    with SQLiteManager(file) as store:
        vectors = VectorStore(store)
        assert vectors.embed_pending(new) == 1, "two of three were done before"
        assert [each.version for each in vectors.generations()] == ["2"]
        question = new.embed([SAID[0]], query=True)[0]
        assert vectors.similar(question, most=1)[0].cosine == pytest.approx(1)


def test_no_extension_of_sqlite_is_needed(tmp_path):
    """S-3: "Works on a Python whose sqlite3 cannot load extensions": any SQLite reads the file."""
    file = tmp_path / "v.db"
    with VectorStore(file, dimensions=2) as store:
        store.add({"a": [3, 4]})
    with sqlite3.connect(file) as db:
        assert db.execute("SELECT length(vector) FROM vectors").fetchall() == [(8,)]
    db.close()


def test_embedders_are_named_or_brought():
    """S-3: an embedder is chosen by a name, or is a function of one's own."""
    assert embedder("minilm").name == "minilm:all-MiniLM-L6-v2"
    check_embedder(embedder(lambda texts: HashEmbedder(8).embed(texts)))


@pytest.mark.parametrize("model", [None, HashEmbedder(64)])
def test_memory_is_searched_with_a_model_and_without_one(tmp_path, model):
    """S-4: "Hybrid search: keyword and semantic, fused […] works with no embedding model"."""
    file = tmp_path / "chat.db"
    talked(file)
    with MemoryManager(file, embedder=model) as memory:
        if model is not None:
            assert memory.unembedded() == len(SAID)
            assert memory.embed() == len(SAID)
        found = memory.search("which cranes can lift tons?", about="the quay", recent=True)
        assert found.method == ("lexical" if model is None else "hybrid")
        hit = next(each for each in found.hits if each.position == 0)
        assert model is not None or hit is found.hits[0], "the test's vectors tell nothing"
        assert (hit.session_id, hit.text) == ("quay", SAID[0])
        assert {hit.text[start:stop] for start, stop in hit.highlights} == {
            "crane",
            "lifts",
            "tons",
        }
        assert [each.text for each in hit.after] == [SAID[1]]
        assert found.sessions[0].session_id == "quay"
        assert memory.search("cranes", roles=["assistant"]).hits == ()
        assert memory.search("cranes", until=datetime(2020, 1, 1, tzinfo=UTC)).hits == ()
        assert [entry.messages for entry in memory.timeline()] == [len(SAID)]
        if model is not None:
            assert memory.search(SAID[2], method="semantic").hits[0].position == 2

"""Vectors beside the sessions: generations that never mix, what is pending, what is found (S-3)."""

import random
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compact import SQLiteManager, VectorStore
from compact.errors import InvalidArgument, InvalidInput, ModelFailed, StoreDamaged
from compact.messages.messages import Message, MessageMetadata
from compact.messages.sessions import Entry
from compact.store.sqlite import vector_cache, vector_embedding
from compact.store.sqlite.rows import BITS
from compact.store.sqlite.vector_store import Backend
from compact.testing import HashEmbedder
from tests.store.making import entry, opened, session

_backend: Backend = "rows"


@pytest.fixture(autouse=True, params=get_args(Backend))
def _either_backend(request: pytest.FixtureRequest) -> None:
    """Each promise is kept by both backends."""
    global _backend
    _backend = request.param


def kept(*arguments: Any, **options: Any) -> VectorStore:
    """A store of vectors with the backend that is tested."""
    return VectorStore(*arguments, backend=_backend, **options)


SAID = ("the crane lifts forty tons", "the ferry moors at night", "a storm took the fender away")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


def asked(embedder: HashEmbedder, text: str) -> list[float]:
    return embedder.embed([text], query=True)[0]


def covered(store: SQLiteManager) -> dict[tuple[int, str], set[int]]:
    """Generation → keys of the messages that have vectors of it."""
    rows: list[Any] = store.db.execute(
        "SELECT g.key, g.state, v.message FROM generations g JOIN vectors v ON v.generation = g.key"
    ).fetchall()
    found: dict[tuple[int, str], set[int]] = {}
    for key, state, message in rows:
        found.setdefault((key, state), set()).add(message)
    return found


def said(store: SQLiteManager) -> set[int]:
    """Keys of the messages that say something."""
    rows: list[Any] = store.db.execute("SELECT key, content FROM messages").fetchall()
    return {key for key, content in rows if content}


# --- names ----------------------------------------------------------------------------------------


def test_vectors_are_kept_under_names(file):
    with kept(file, dimensions=3) as store:
        store.add({"a": [2, 0, 0], "b": [0, 1, 0], "c": [1, 1, 0]})
        assert [m.name for m in store.search([1, 0.1, 0])] == ["a", "c", "b"]
        assert store.search([1, 0, 0], most=1)[0].cosine == pytest.approx(1)
        assert [m.name for m in store.search([1, 0, 0], within=["b", "nobody"])] == ["b"]
        store.add({"a": [0, 0, 1]})
        assert store.search([0, 0, 1], most=1)[0].name == "a"
        assert store.delete(["a", "nobody"]) == 1
    with kept(file, dimensions=3) as store:
        assert len(store) == 2
        assert {m.name for m in store.search([0, 0, 1])} == {"b", "c"}


def test_vectors_of_two_models_are_never_compared(file):
    with kept(file, 3, model="x") as one, kept(file, 3, model="y") as other:
        one.add({"a": [1, 0, 0]})
        other.add({"b": [1, 0, 0]})
        assert [m.name for m in one.search([1, 0, 0])] == ["a"]
        assert [m.name for m in other.search([1, 0, 0])] == ["b"]
        assert other.delete(["a"]) == 0


@pytest.mark.parametrize(
    "vector", [[1, 0], [0, 0, 0], [float("nan"), 0, 1], ["x", 0, 0], [[1, 0, 0]]]
)
def test_what_is_no_vector_is_refused(vector):
    with kept(dimensions=3) as store:
        store.add({"a": [1, 0, 0]})
        with pytest.raises(InvalidInput):
            store.add({"good": [1, 0, 0], "bad": vector})
        with pytest.raises(InvalidInput):
            store.search(vector)
        assert len(store) == 1


# --- messages -------------------------------------------------------------------------------------


def test_messages_are_embedded_later_and_found(file):
    embedder = HashEmbedder()
    with opened(file) as store:
        store.append("a", [*map(entry, SAID), entry("")])
        index = kept(store, dimensions=embedder.dimensions)
        assert index.similar(asked(embedder, "ferry")) == []
        told: list[tuple[int, int]] = []
        assert index.pending(embedder) == 4
        assert index.embed_pending(embedder, progress=lambda *done: told.append(done)) == 4
        assert told[-1] == (4, 4)
        assert index.pending(embedder) == index.embed_pending(embedder) == 0
        assert embedder.texts == list(SAID)
        near = index.similar(asked(embedder, "the ferry moors"), most=2)
        assert near[0].key == (1 << BITS) | 1
        assert near[0].cosine > near[1].cosine
        named = "SELECT count(*) FROM messages m JOIN vectors v ON v.key = m.embedding_id"
        assert store.db.execute(f"{named} AND v.message = m.key").get == 3
        assert store.integrity_check() == []


def test_what_came_after_a_search_is_found_by_the_next(file):
    embedder = HashEmbedder()
    with opened(file) as store, SQLiteManager(file) as other:
        index, second = kept(store), kept(other)
        for number in range(40):
            store.append("a", [entry(f"notice{number} about dock{number}")])
            second.embed_pending(embedder)
            near = index.similar(asked(embedder, f"dock{number}"), most=1)
            assert near[0].key & 0xFFFFFFFF == number


def test_long_messages_are_embedded_in_pieces(file):
    embedder = HashEmbedder(window=10)
    long = " ".join(f"word{i}" for i in range(100)) + " ferry moors here"
    with opened(file) as store:
        store.append("a", [entry(long), entry("a short one")])
        index = kept(store)
        index.embed_pending(embedder)
        near = index.similar(asked(embedder, "ferry moors here"), most=5)
        assert len(near) == 2, "each message once"
        assert near[0].key == 1 << BITS
        assert near[0].chunk == 11


def test_what_compact_wrote_itself_is_not_embedded(file):
    own = Message(
        role="user", content="a checkpoint", metadata=MessageMetadata(source="checkpoint")
    )
    named = Message(role="user", content="Ada: the crane", name="Ada")
    embedder = HashEmbedder()
    with opened(file) as store:
        store.append("a", [Entry(own), Entry(named)])
        kept(store).embed_pending(embedder)
        assert embedder.texts == ["the crane"]


def test_a_search_stays_within_its_keys(file):
    embedder = HashEmbedder()
    with opened(file) as store:
        store.append("a", [entry("the ferry")] * 5)
        store.session("b", create=session("b"))
        store.append("b", [entry("the ferry")] * 5)
        index = kept(store)
        index.embed_pending(embedder)
        question = asked(embedder, "the ferry")
        ranges = [(1 << BITS, (1 << BITS) | 1), (2 << BITS, 2 << BITS)]
        found = [each.key for each in index.similar(question, keys=ranges)]
        assert found == [1 << BITS, (1 << BITS) | 1, 2 << BITS]
        overlapping = [*ranges, ranges[0], ((1 << BITS) | 1, (1 << BITS) | 2), (9, 3)]
        found = [each.key for each in index.similar(question, keys=overlapping)]
        assert found == [1 << BITS, (1 << BITS) | 1, (1 << BITS) | 2, 2 << BITS]
        whole = [(n << BITS, (n << BITS) | 4) for n in (1, 2)]
        assert index.similar(question, keys=whole) == index.similar(question, keys=None)
        assert index.similar(question, keys=[]) == []
        assert index.similar(question, keys=[(9 << BITS, 10 << BITS)]) == []


# --- generations ----------------------------------------------------------------------------------


def test_a_new_version_is_made_beside_the_old_one_which_serves(file, monkeypatch):
    monkeypatch.setattr(vector_embedding, "BATCH", 2)
    old, new = HashEmbedder(version="1"), HashEmbedder(48, version="2")
    with opened(file) as store:
        store.append("a", [entry(f"notice{i} about dock{i}") for i in range(9)])
        index = kept(store)
        index.embed_pending(old)
        while index.pending(new):
            serving = index.serving()
            assert serving is not None
            assert serving.version == "1"
            assert index.similar(asked(old, "dock7"), most=1)[0].key & 0xFFFF == 7
            index.embed_pending(new, most=2)
        assert [(g.version, g.state, g.vectors) for g in index.generations()] == [
            ("2", "serving", 9)
        ]
        assert index.similar(asked(new, "dock7"), most=1)[0].key & 0xFFFF == 7
        with pytest.raises(InvalidInput, match="48"):
            index.similar(asked(old, "dock7"))
        assert store.integrity_check() == []


def test_a_version_that_is_dropped_leaves_no_row(file):
    one, two = HashEmbedder(version="1"), HashEmbedder(version="2")
    with opened(file) as store:
        store.append("a", [entry(text) for text in SAID])
        index = kept(store)
        index.embed_pending(one)
        index.embed_pending(two, most=2)
        made = index.generations()[1]
        index.drop(made)
        assert [g.version for g in index.generations()] == ["1"]
        assert store.integrity_check() == []
        assert index.pending(two) == 3


def test_an_embedder_that_fails_loses_nothing(file, monkeypatch):
    monkeypatch.setattr(vector_embedding, "BATCH", 2)
    embedder = HashEmbedder()
    with opened(file) as store:
        store.append("a", [entry(f"notice{i}") for i in range(7)])
        index, real, calls = kept(store), embedder.embed, [0]

        def failing(texts, *, query=False):
            calls[0] += 1
            if calls[0] == 3:
                raise ModelFailed("it is gone")
            return real(texts, query=query)

        monkeypatch.setattr(embedder, "embed", failing)
        with pytest.raises(ModelFailed):
            index.embed_pending(embedder)
        assert index.pending(embedder) == 3
        assert index.embed_pending(embedder) == 3
        assert sorted(embedder.texts) == [f"notice{i}" for i in range(7)]


@pytest.mark.parametrize(
    "rows", [[[1.0] * 64], [[1.0] * 63] * 2, [[0.0] * 64] * 2, [["x"] * 64] * 2]
)
def test_an_answer_that_holds_no_vectors_is_refused(file, rows, monkeypatch):
    embedder = HashEmbedder()
    monkeypatch.setattr(embedder, "embed", lambda texts, query=False: rows)
    with opened(file) as store:
        store.append("a", [entry("one"), entry("two")])
        with pytest.raises(ModelFailed, match="hash"):
            kept(store).embed_pending(embedder)
        assert covered(store) == {}


def test_no_model_is_asked_while_the_file_is_locked(file, monkeypatch):
    embedder = HashEmbedder()
    with opened(file) as store, SQLiteManager(file, busy_timeout=0.05) as other:
        store.append("a", [entry("one")])
        real = embedder.embed

        def writes(texts, *, query=False):
            other.append("a", [entry("meanwhile")])
            return real(texts, query=query)

        monkeypatch.setattr(embedder, "embed", writes)
        assert kept(store).embed_pending(embedder, most=1) == 1
        assert other.branch("a").messages == 2


def test_a_session_that_is_deleted_while_it_is_embedded_leaves_no_vector(file, monkeypatch):
    embedder = HashEmbedder()
    with opened(file) as store:
        store.append("a", [entry("one")])
        real = embedder.embed

        def deletes(texts, *, query=False):
            store.delete_session("a")
            return real(texts, query=query)

        monkeypatch.setattr(embedder, "embed", deletes)
        assert kept(store).embed_pending(embedder) == 0
        assert covered(store) == {}


def test_a_deleted_session_takes_its_vectors_out_of_the_file(file):
    embedder = HashEmbedder()
    with opened(file) as store:
        store.append("a", [entry("the ferry moors")])
        index = kept(store)
        index.embed_pending(embedder)
        row = store.db.execute("SELECT vector FROM vectors").get
        assert len(index.similar(asked(embedder, "ferry"))) == 1
        store.delete_session("a")
        assert index.similar(asked(embedder, "ferry")) == []
    assert row not in file.read_bytes()


# --- at random ------------------------------------------------------------------------------------


class Turn:
    """What may happen to a store, in any order."""

    def __init__(self, store: SQLiteManager) -> None:
        self.store = store
        self.index = kept(store)
        self.embedders = [HashEmbedder(16, version=v, window=4) for v in ("1", "2")]
        self.made = 0

    def begin(self, _: int) -> None:
        self.made += 1
        name = f"s{self.made}"
        self.store.session(name, create=session(name))

    def append(self, seed: int) -> None:
        for one in self.store.sessions()[: 1 + seed % 2]:
            texts = ["" if i % 3 == 2 else "word " * (i + seed % 9) for i in range(seed % 5)]
            self.store.append(one.branch.id, [entry(text) for text in texts])

    def fork(self, seed: int) -> None:
        for one in self.store.sessions()[:1]:
            self.store.fork(one.branch.id, seed % (one.branch.messages + 1))

    def delete(self, seed: int) -> None:
        known = self.store.sessions()
        if known:
            self.store.delete_session(known[seed % len(known)].id)

    def embed(self, seed: int) -> None:
        self.index.embed_pending(self.embedders[seed % 2], most=1 + seed % 7)

    def search(self, seed: int) -> None:
        serving = self.index.serving()
        if serving is not None:
            embedder = self.embedders[int(serving.version) - 1]
            near = self.index.similar(asked(embedder, "word"), most=1_000)
            held = covered(self.store).get((serving.key, "serving"), set())
            assert {each.key for each in near} == held, "what is found is what is stored"


MOVES = ("begin", "append", "fork", "delete", "embed", "search")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 1_000)), max_size=30))
def test_after_any_interleaving_vectors_are_those_of_the_messages(steps):
    with SQLiteManager() as store:
        turn = Turn(store)
        for name, seed in steps:
            getattr(turn, name)(seed)
            for messages in covered(store).values():
                assert messages <= said(store), "no vector without its message"
        for embedder in turn.embedders:
            turn.index.embed_pending(embedder)
            states = covered(store)
            assert [state for _, state in states] == ["serving"] * bool(said(store))
            assert all(messages == said(store) for messages in states.values())
        assert store.integrity_check() == []


@pytest.mark.parametrize("room", [vector_cache.MOST_HELD, 150 * 4 * 24, 0])
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32), most=st.integers(1, 12))
def test_a_search_finds_what_comparing_all_finds(monkeypatch, room, seed, most):
    """Against plain numpy, while rows come and go; with room for all rows, for some, for none."""
    monkeypatch.setattr(vector_cache, "MOST_HELD", room)
    random.seed(seed)
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((rng.integers(1, 400), 24))
    with kept(dimensions=24) as store:
        cut = len(rows) // 2
        store.add({str(i): list(row) for i, row in enumerate(rows[:cut])})
        question = rng.standard_normal(24)
        store.search(list(question), most=most)
        store.add({str(i): list(row) for i, row in enumerate(rows[cut:], cut)})
        gone = random.sample(range(len(rows)), len(rows) // 3)
        store.delete(map(str, gone))
        left = [i for i in range(len(rows)) if i not in set(gone)]
        cosines = rows[left] @ question / np.linalg.norm(rows[left], axis=1)
        wanted = [str(left[i]) for i in np.argsort(-cosines)[:most]]
        assert [match.name for match in store.search(list(question), most=most)] == wanted


@pytest.mark.parametrize("room", [vector_cache.MOST_HELD, 0])
def test_signs_find_nearly_all_of_what_comparing_all_finds(monkeypatch, room):
    """Ten thousand rows in clusters; the signs choose whom to compare."""
    monkeypatch.setattr(vector_cache, "MOST_HELD", room)
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((200, 128))
    rows = centres[rng.integers(0, 200, 10_000)] + rng.standard_normal((10_000, 128))
    with kept(dimensions=128) as store:
        store.add({str(i): list(row) for i, row in enumerate(rows)})
        found = 0
        for row in rows[:50]:
            question = row + 0.3 * rng.standard_normal(128)
            cosines = rows @ question / np.linalg.norm(rows, axis=1)
            wanted = {str(i) for i in np.argsort(-cosines)[:10]}
            found += len(wanted & {m.name for m in store.search(list(question), most=10)})
    assert found / 500 >= 0.99


def test_the_matrix_has_room_for_what_comes():
    """A row that comes copies none of the others, and states of before stay as they were."""
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    longer = vector_cache._longer(rows, rows[:1])
    longest = vector_cache._longer(longer, rows[1:2])
    assert longest.base is longer.base
    assert longer.tolist() == [*rows.tolist(), rows[0].tolist()]
    assert longest.tolist() == [*rows.tolist(), rows[0].tolist(), rows[1].tolist()]


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM messages WHERE key & 1",
        "DELETE FROM vectors WHERE message & 1",
        "DELETE FROM generations",
        "UPDATE vectors SET vector = x'00' WHERE key = 1",
        "UPDATE messages SET embedding_id = embedding_id + 1",
        "UPDATE embedded SET position = position - 1",
        "DELETE FROM embedded",
        "DELETE FROM vector_names",
    ],
)
def test_vectors_that_do_not_fit_what_is_there_are_told_of(file, damage):
    with opened(file) as store:
        store.append("a", [entry(text) for text in SAID])
        kept(store).embed_pending(HashEmbedder())
        with kept(store, 3) as own:
            own.add({"x": [1, 0, 0]})
        assert store.integrity_check() == []
        store.db.execute(damage)
        assert any("vector" in line for line in store.integrity_check())


def test_rows_that_nobody_wrote_are_told_of_as_damage(file):
    model = HashEmbedder()
    with opened(file) as store:
        store.append("a", [entry(text) for text in SAID])
        index = kept(store)
        index.embed_pending(model)
        store.db.execute("UPDATE vectors SET vector = x'000000'")
        with pytest.raises(StoreDamaged):
            index.similar(asked(model, "ferry"))
        store.db.execute("UPDATE messages SET payload = x'00'")
        with pytest.raises(StoreDamaged):
            index.embed_pending(HashEmbedder(version="2"))


# --- tables of sqlite-vec -------------------------------------------------------------------------


def copies(store: SQLiteManager) -> int:
    """Vectors that the tables of sqlite-vec hold, told without the extension."""
    names: list[Any] = store.db.execute(
        "SELECT name FROM sqlite_master WHERE name LIKE 'vec\\_%\\_rowids' ESCAPE '\\'"
    ).fetchall()
    return sum(store.db.execute(f"SELECT count(*) FROM {name}").get for (name,) in names)


def test_the_chosen_backend_is_a_table_of_sqlite_vec(file):
    with VectorStore(file, dimensions=3, backend="sqlite-vec") as store:
        store.add("a", [1, 0, 0])
        store.add({"b": [0, 1, 0], "c": [1, 1, 0]})
    with SQLiteManager(file) as plain:
        sql = plain.db.execute(
            "SELECT sql FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE vec%'"
        ).get
        assert "USING vec0(embedding float[3] distance_metric=cosine" in str(sql)
        assert copies(plain) == 3
        assert plain.integrity_check() == []


def test_what_is_forgotten_without_the_extension_is_in_no_copy(file):
    """Who opens the file without sqlite-vec removes vectors from its tables, too."""
    with VectorStore(file, dimensions=3, backend="sqlite-vec") as store:
        store.add({"a": [1, 0, 0], "b": [0, 1, 0]})
    with SQLiteManager(file) as plain, VectorStore(plain, dimensions=3) as store:
        assert store.delete(["a"]) == 1
        assert copies(plain) == 0
    with VectorStore(file, dimensions=3, backend="sqlite-vec") as store:
        assert [match.name for match in store.search([1, 0, 0])] == ["b"]


def test_more_than_a_table_answers_with_is_found(file):
    rng = random.Random(4)
    given_vectors = {f"n{i}": [rng.random() for _ in range(4)] for i in range(4_300)}
    with VectorStore(file, dimensions=4, backend="sqlite-vec") as store:
        store.add(given_vectors)
        found = store.search([1, 0, 0, 0], most=4_200)
        assert len({match.name for match in found}) == 4_200
        cosines = [match.cosine for match in found]
        assert cosines == sorted(cosines, reverse=True)


def test_a_backend_that_is_none_is_refused():
    with pytest.raises(InvalidArgument, match="'rows' or 'sqlite-vec'"):
        VectorStore(backend="faiss")  # type: ignore[arg-type]

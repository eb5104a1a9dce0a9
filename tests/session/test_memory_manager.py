"""Searching all sessions of a scope, through the public API."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact import ContextManager, MemoryManager
from compact.errors import InvalidArgument, ModelFailed, NotFound
from compact.messages.messages import Message
from compact.messages.protocols import SessionStore
from compact.messages.sessions import Branch, Entry, Session
from compact.store.sqlite.store import SQLiteManager
from compact.testing import HashEmbedder
from compact.text.found import SearchResult

DAY = datetime(2026, 3, 1, 9, tzinfo=UTC)
WORDS = ["harbour", "office", "moves", "winter", "berth", "licence", "crane", "roof"]


def put(
    store: SessionStore, name: str, *texts: str, scope: str = "default", at: datetime = DAY
) -> None:
    """A session in which people and a model take turns."""
    session = Session(id=name, scope=scope, branch=Branch(id=name, session_id=name))
    store.session(name, create=session)
    store.append(name, [entry(text, n, at) for n, text in enumerate(texts)])


def entry(text: str, number: int = 0, at: datetime = DAY) -> Entry:
    role = ("user", "assistant")[number % 2]
    return Entry(Message(role=role, content=text, timestamp=at + timedelta(minutes=number)))


def found(result: SearchResult) -> list[tuple[str, int]]:
    return [(hit.session_id, hit.position) for hit in result.hits]


@pytest.fixture
def store(indexed_store: Any) -> Any:
    return indexed_store


def test_what_a_session_said_is_found_at_once() -> None:
    """S-4: there is no second copy, and nothing to be brought in."""
    with MemoryManager() as memory:
        ctx = ContextManager(window=8_192, store=memory.store, session_id="yard")
        ctx.add_message(role="user", content="The harbour office moves to Quay Street in May.")
        ctx.add_message(role="assistant", content="Noted.")
        hit = memory.search("where did the office move?").hits[0]
        assert (hit.session_id, hit.position, hit.score) == ("yard", 0, 1.0)
        assert [hit.text[start:stop] for start, stop in hit.highlights] == ["office", "moves"]
        assert [each.text for each in hit.after] == ["Noted."]
        assert hit.before == ()


def test_an_answer_is_found_by_the_question_before_it(store: SQLiteManager) -> None:
    put(store, "a", "Which crane do we hire?", "The blue one.", "Fine.")
    put(store, "b", "The blue boat is sold.", "Good.")
    memory = MemoryManager(store)
    assert ("a", 1) in found(memory.search("which crane is hired", limit=2))
    assert memory.search("which crane is hired").sessions[0].session_id == "a"


def test_filters_choose_and_neighbours_still_speak(store: SQLiteManager) -> None:
    put(store, "old", "Is the roof tight?", "The roof is tight.", at=DAY - timedelta(days=30))
    put(store, "new", "Is the roof tight now?", "It is, said the roofer.", "Thanks.")
    memory = MemoryManager(store)
    assert {s for s, _ in found(memory.search("roof tight", sessions=["old"]))} == {"old"}
    assert {p for _, p in found(memory.search("roof tight", roles=["assistant"]))} == {1}
    assert {s for s, _ in found(memory.search("roof", since=DAY - timedelta(days=1)))} == {"new"}
    assert {s for s, _ in found(memory.search("roof", until=DAY - timedelta(days=1)))} == {"old"}
    assert [s.session_id for s in memory.search("roof", until=DAY - timedelta(1)).sessions] == [
        "old"
    ]
    assert found(memory.search("roof", least_importance=0.5)) == []
    marked = Message(role="user", content="The roof leaks.", importance_score=0.9)
    store.append("new", [Entry(marked)])
    assert found(memory.search("roof", least_importance=0.5)) == [("new", 3)]


def test_a_month_that_is_named_is_looked_at_first(store: SQLiteManager) -> None:
    for month in (1, 5, 9):
        at = datetime(2026, month, 7, tzinfo=UTC)
        put(store, f"m{month}", "We met at the harbour.", "With the crew.", at=at)
    memory = MemoryManager(store)
    assert memory.search("who met at the harbour in May 2026").hits[0].session_id == "m5"
    assert memory.search("the harbour on 7 September").sessions[0].session_id == "m9"


def test_boosts_are_bounded(store: SQLiteManager) -> None:
    """They decide between messages that fit alike, and hide nothing."""
    put(store, "old", "The crane is hired.", at=DAY - timedelta(days=400))
    put(store, "new", "The crane is hired.", at=DAY)
    put(store, "dock", "The crane is wintering.", at=DAY - timedelta(days=200))
    memory = MemoryManager(store)
    assert memory.search("crane hired", recent=True).hits[0].session_id == "new"
    assert memory.search("crane", about="winter").hits[0].session_id == "dock"
    plain = memory.search("crane hired")
    for result in (
        memory.search("crane hired", recent=True),
        memory.search("crane hired", about="x"),
    ):
        assert sorted(found(result)) == sorted(found(plain))


def test_only_the_branch_in_force_is_searched(store: SQLiteManager) -> None:
    put(store, "a", "The roof is red.", "Yes.", "Paint it green.", "Done.")
    store.fork("a", 2)
    branch = store.session("a").branch.id
    store.append(branch, [entry("Paint it blue.", 2)])
    memory = MemoryManager(store)
    assert found(memory.search("green")) == []
    assert found(memory.search("blue"))[0] == ("a", 2)
    assert ("a", 0) in found(memory.search("roof"))


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        '"',
        "AND OR NOT",
        'roof" OR "x',
        "NEAR(roof, 2)",
        "roof*",
        "-roof",
        "(roof",
        "the",
    ],
)
def test_no_question_breaks_the_search(store: SQLiteManager, query: str) -> None:
    put(store, "a", "The roof is tight.", "Good.")
    result = MemoryManager(store).search(query)
    assert result.query == query
    assert bool(result.hits) == ("roof" in query or query == "the")


def test_chinese_is_searched_by_its_letters(store: SQLiteManager) -> None:
    put(store, "a", "港口办公室五月搬到码头街。", "好的。")
    put(store, "b", "屋顶漏水。", "好的。")
    memory = MemoryManager(store)
    assert memory.search("办公室搬到哪里").hits[0].session_id == "a"


def test_another_process_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "chat.db"
    with MemoryManager(file) as memory, SQLiteManager(file) as other:
        assert memory.search("roof").hits == ()
        put(other, "a", "The roof is tight.")
        assert found(memory.search("roof")) == [("a", 0)]
        other.append("a", [entry("The roof leaks.", 1)])
        assert len(found(memory.search("roof"))) == 2


def test_an_index_that_cannot_catch_up_is_told_of(tmp_path: Path) -> None:
    """A file that nobody may write: what is missing is not searched, and that is said."""
    file = tmp_path / "chat.db"
    with SQLiteManager(file) as store:
        put(store, "a", "The roof is tight.")
        assert MemoryManager(store).search("roof").complete
        put(store, "b", "The roof leaks.")
        blocked = SQLiteManager(file, busy_timeout=0.05)
        with store._pool.write(), blocked:
            result = MemoryManager(blocked).search("roof")
    assert not result.complete
    assert found(result) == [("a", 0)]


def test_a_session_is_titled_marked_and_tagged(store: SQLiteManager) -> None:
    put(store, "a", "The roof is tight.")
    memory = MemoryManager(store)
    memory.describe("a", title="The roof", important=True, tags=["yard", "2026", "yard"])
    told = memory.describe("a", important=False)
    assert told.title == "The roof"
    assert told.metadata == {"important": False, "tags": ["2026", "yard"]}
    assert memory.search("roof").hits[0].title == "The roof"


def test_a_timeline_tells_what_was_said_on_which_day(store: SQLiteManager) -> None:
    put(store, "late", "One.", "Two.", at=DAY + timedelta(hours=14, minutes=59))
    put(store, "early", "Three.", at=DAY - timedelta(days=2))
    put(store, "theirs", "Four.", scope="tenant")
    store.describe("early", title="Early", metadata={})
    memory = MemoryManager(store)
    told = [(str(e.day), e.session_id, e.title, e.messages) for e in memory.timeline()]
    assert told == [
        ("2026-02-27", "early", "Early", 1),
        ("2026-03-01", "late", None, 1),
        ("2026-03-02", "late", None, 1),
    ]
    since = memory.timeline(since=DAY)
    assert [e.session_id for e in since] == ["late", "late"]
    assert memory.timeline(until=DAY - timedelta(days=9)) == []


def test_a_question_about_oneself_prefers_what_the_user_said(store: SQLiteManager) -> None:
    said = "The old kettle is blue."
    put(store, "tea", said, "Noted.", "And old.", "The kettle is blue.")
    put(store, "other", "A kettle stood in a shop window, and it was rather small, and grey.")
    memory = MemoryManager(store)
    assert memory.search("the blue kettle").hits[0].role == "assistant"
    assert memory.search("my blue kettle").hits[0].role == "user"


def test_wrong_arguments_are_refused(store: SQLiteManager) -> None:
    memory = MemoryManager(store)
    for wrong in ({"limit": -1}, {"neighbours": -1}, {"colour": 1}, {"since": "some day"}):
        with pytest.raises(InvalidArgument, match=next(iter(wrong))):
            memory.search("roof", **wrong)
    with pytest.raises(InvalidArgument, match="index"):
        MemoryManager(ContextManager(window=8_192).store)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "new", "fork", "delete", "search"]),
        st.integers(0, 5),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
    ),
    max_size=14,
)


@given(steps=STEPS)
def test_what_is_known_follows_what_is_stored(steps: list[tuple[str, int, list[str]]]) -> None:
    """Whatever came before, a search finds what one by a manager that knows nothing yet finds; and
    that is all messages in force that share a word.
    """
    store = SQLiteManager()
    memory = MemoryManager(store)
    for number, (step, which, words) in enumerate(steps):
        names = sorted(each.id for each in store.sessions())
        name = names[which % len(names)] if names else ""
        if step == "new" or not names:
            put(store, f"s{number}", " ".join(words))
        elif step == "append":
            store.append(store.session(name).branch.id, [entry(" ".join(words), which)])
        elif step == "fork":
            store.fork(store.session(name).branch.id, which % 2)
        elif step == "delete":
            store.delete_session(name)
        result = memory.search(" ".join(words), limit=99)
        expected = {
            (each.id, position)
            for each in store.sessions()
            for position, one in enumerate(store.read(each.branch.id, 0, 99))
            if set(words) & set(one.message.text.split())
        }
        assert expected <= set(found(result))
        assert _anew(store, result.query) == found(result)
    store.close()


def _anew(store: SQLiteManager, query: str) -> list[tuple[str, int]]:
    store._memory._known.clear()
    return found(MemoryManager(store).search(query, limit=99))


class BrokenEmbedder(HashEmbedder):
    """One of somebody's own that cannot say anything of itself either."""

    @property
    def version(self) -> str:
        raise ConnectionError("no route")

    @version.setter
    def version(self, value: str) -> None:
        pass


def without_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compact.models.providers.minilm._installed", lambda: None)
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")


@pytest.mark.parametrize(
    "embedder",
    ["ollama:nomic-embed-text", "minilm", BrokenEmbedder()],
    ids=["ollama", "minilm", "own"],
)
def test_an_embedder_that_is_down_leaves_search_by_words(
    store: SQLiteManager, monkeypatch: pytest.MonkeyPatch, embedder: Any
) -> None:
    without_weights(monkeypatch)
    put(store, "a", "The crane is hired.")
    memory = MemoryManager(store, embedder=embedder)
    result = memory.search("crane")
    assert (found(result), result.method) == ([("a", 0)], "lexical")
    assert result.failed
    status = memory.status()
    assert (status.unembedded, bool(status.embedder_failed)) == (None, True)
    with pytest.raises(ModelFailed):
        memory.embed()


class OwnEmbedder(HashEmbedder):
    """Answers questions with whatever it is told to."""

    answer: Any = None

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Any:
        if query and isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if query else super().embed(texts)


@pytest.mark.parametrize(
    "answer",
    [ConnectionError("no route"), ValueError("wrong"), [[0.0] * 64], [[1.0]], [["x"] * 64], []],
    ids=["down", "wrong", "zeros", "short", "words", "nothing"],
)
def test_whatever_an_embedder_of_ones_own_does_words_are_searched(
    store: SQLiteManager, answer: Any
) -> None:
    put(store, "a", "The crane is hired.")
    own = OwnEmbedder()
    memory = MemoryManager(store, embedder=own)
    memory.embed()
    own.answer = answer
    result = memory.search("crane")
    assert (found(result), result.method) == ([("a", 0)], "lexical")
    assert "hash" in (result.failed or "")


def test_a_question_longer_than_the_embedders_window_is_searched_by_its_beginning(
    store: SQLiteManager,
) -> None:
    put(store, "a", "The crane is hired.")
    memory = MemoryManager(store, embedder=HashEmbedder(window=5))
    memory.embed()
    result = memory.search("crane " * 40)
    assert (result.method, result.failed) == ("hybrid", None)


def test_a_long_catch_up_tells_how_far_it_is(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with MemoryManager(tmp_path / "chat.db") as memory:
        memory.store.session("a", create=Session(id="a", branch=Branch(id="a", session_id="a")))
        said = (Entry(Message(role="user", content=f"berth {number}")) for number in range(1_200))
        memory.store.append("a", list(said))
        assert memory.status().unindexed == 1_200
        assert memory.catch_up(lambda done, every: told.append((done, every)))
        assert told == [(500, 1_200), (1_000, 1_200), (1_200, 1_200)]
        assert memory.status().unindexed == 0


# --- a person's own doors -------------------------------------------------------------------------


def test_a_companion_needs_no_more_than_messages(store: SQLiteManager) -> None:
    memory = MemoryManager(store)
    one = memory.add_message("garden", "user", "The fern stands by the window.", timestamp=DAY)
    two = memory.add_message("garden", {"role": "assistant", "content": "It likes shade."})
    part = {"type": "text", "text": {"value": "And water?", "annotations": []}}
    asked = memory.add_message("garden", role="user", content=[part], created_at=1_710_000_000)
    assert (one.id, two.id, asked.id) == ("m0", "m1", "m2")
    assert (one.timestamp, asked.text, asked.timestamp.year) == (DAY, "And water?", 2024)
    assert [hit.text for hit in memory.search("fern").hits][:1] == [one.text]
    with pytest.raises(InvalidArgument, match="session_id"):
        memory.add_message("", "user", "Hello")
    if isinstance(store, SQLiteManager):  # on a server each scope has its own ids
        with pytest.raises(NotFound, match="choose one such as 'bob/garden'"):
            MemoryManager(store, scope="bob").add_message("garden", "user", "Hello")


def test_a_note_is_a_message_like_any_other_and_never_ages(tmp_path: Path) -> None:
    with MemoryManager(tmp_path / "chat.db", scope="anna") as memory:
        note = memory.remember("I am allergic to walnuts.", at="2020-03-01")
        memory.remember("My sister is called Maren.")
        [session] = memory.sessions()
        assert (session.title, session.scope) == ("Notes", "anna")
        assert (note.timestamp.year, note.importance_score) == (2020, 1.0)
        assert memory.search("walnuts", least_importance=0.9).hits[0].text == note.text
        memory.age(datetime(2030, 1, 1, tzinfo=UTC))
        assert memory.archived() == []
        assert memory.digest(session.id) is None
        assert [fact.text for fact in memory.facts()] == ["My sister is called Maren.", note.text]
        assert memory.forget(session.id).removed["messages"] == 2
        with pytest.raises(InvalidArgument):
            memory.remember(" ")


def test_facts_are_told_as_they_stand_with_what_they_replaced(store: SQLiteManager) -> None:
    """Across sessions, by the times of the messages; the newest first."""
    memory = MemoryManager(store)
    put(store, "c", "My dentist is now Dr. Nakamura.", at=DAY + timedelta(days=200))
    put(store, "a", "My dentist is Dr. Abel. We had soup. Is it late?", "My dentist is Dr. Wu.")
    put(store, "b", "Never call me before ten.", at=DAY + timedelta(days=50))
    put(store, "d", "My dentist is now Dr. Nakamura.", at=DAY + timedelta(days=300))
    put(
        store,
        "e",
        "It's fine to call me before ten again. There is no need to sing.",
        at=DAY + timedelta(days=310),
    )
    put(store, "theirs", "My dentist is Dr. Eve.", scope="bob")
    memory.remember("No walnuts. I am allergic.", at=DAY + timedelta(days=400))
    steps = list[tuple[int, int]]()
    told = memory.facts(progress=lambda *step: steps.append(step))
    assert [(x.text, [y.text for y in x.before]) for x in told] == [
        ("No walnuts.", []),
        ("I am allergic.", []),
        ("It's fine to call me before ten again.", ["Never call me before ten."]),
        ("My dentist is now Dr. Nakamura.", ["My dentist is Dr. Abel."]),
    ]
    assert [x.withdrawn for x in told] == [False, False, True, False]
    assert [x.noted for x in told] == [True, True, False, False]
    dentist = told[-1]
    assert (dentist.session_id, dentist.position) == ("c", 0)
    assert dentist.at == DAY + timedelta(days=200), "since then, however often it was said"
    assert dentist.before[0].at == DAY
    assert memory.facts(limit=1) == told[:1]
    assert steps == [(n, 6) for n in range(6)]

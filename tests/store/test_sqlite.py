"""SQLiteManager: what it does beyond the promises of every store (S-1, S-2, S-5, C-10)."""

import os
import random
import re
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import compact
from compact import SQLiteManager
from compact.errors import InvalidInput, InvalidMessage, NotFound, StoreFailed, Superseded
from compact.messages import clock_and_ids
from compact.messages.goals import Goal
from compact.messages.messages import Message
from compact.messages.sessions import CheckpointRef, Entry, Snapshot
from compact.store.sqlite import migrations, search
from tests.store.making import (
    assert_chained,
    checkpoint,
    entry,
    opened,
    session,
    step,
    texts,
)

NO_JSON = {
    "role": "user",
    "content": "x",
    "id": "w",
    "wire": {"role": "user", "content": "x", "o": object()},
    "wire_format": "chat_completions",
}
"""Fields of a message that no store can carry."""
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


def test_the_quick_check() -> None:
    """`SQLiteManager(":memory:")` (C-10)."""
    with compact.SQLiteManager(":memory:") as store:
        store.session("a", create=session("a"))
        store.append("a", [entry("hello")])
        assert store.get_conversation("a").messages[0].content == "hello"
    assert compact.SQLiteManager().path == ":memory:"


def test_what_is_stored_outlives_the_store(file: Path) -> None:
    with opened(file) as store:
        entries = [entry(f"message {i}", i, i % 4) for i in range(30)]
        store.append("a", entries)
        fork = store.fork("a", 7)
        move = store.commit(step(store, "a", 1))
        store.note("a", "draft", {"x": 1})
    with SQLiteManager(file) as again:
        assert again.read("a", 0, 99) == entries
        assert again.session("a").branch == fork.model_copy(update={"messages": 7})
        assert again.moves("a", most=9) == [move]
        assert again.projection(move.projection_id or "").checkpoints == tuple(
            again.checkpoints("a")
        )
        assert again.notes("a") == {"draft": {"x": 1}}
        assert again.integrity_check() == []


def test_a_checkpoint_that_only_got_older_is_so_after_the_store_was_closed(file: Path) -> None:
    """Its words stay, so its id does; its level is that of each projection (FR-4)."""
    with opened(file) as store:
        projections = []
        for number, level in enumerate(("detailed", "moderate", "compact", "merged"), 1):
            made = step(store, "a", number)
            assert made.projection is not None
            aged = checkpoint(1).model_copy(update={"level": level, "until": NOON})
            projection = made.projection.model_copy(
                update={"pieces": (CheckpointRef(aged.id),), "checkpoints": (aged,)}
            )
            store.commit(made.model_copy(update={"projection": projection}))
            projections.append(projection)
    with SQLiteManager(file) as again:
        assert [again.projection(each.id) for each in projections] == projections
        assert [each.level for each in again.checkpoints("a")] == ["detailed"]
        assert again.integrity_check() == []


def test_a_conversation_has_its_tokens_and_title(file: Path) -> None:
    with SQLiteManager(file) as store:
        store.session("a", create=session("a", title="Roofs", metadata={"k": 1}))
        store.append("a", [entry("one", 4), entry("two", 5)])
        found = store.get_conversation("a")
        assert (found.id, found.title, found.metadata) == ("a", "Roofs", {"k": 1})
        assert (found.total_tokens, texts(store.read("a", 0, 9))) == (9, ["one", "two"])
        with pytest.raises(NotFound):
            store.get_conversation("b")


def test_importance_is_set_on_the_newest_of_an_id(file: Path) -> None:
    with opened(file) as store:
        store.session("b", create=session("b"))
        for name in "ab":
            store.append(
                name, [Entry(Message(role="user", content="x", id=i)) for i in ("m0", "i")]
            )
        store.append("a", [Entry(Message(role="user", content="y", id="i"))])
        store.append("a", [Entry(Message(role="user", content="z", id="only"))])
        store.update_importance_score("only", 0.5)
        store.update_importance_score("i", 0.25, session_id="a")
        store.update_importance_score("m0", 1, session_id="b")
        scores = {n: [e.message.importance_score for e in store.read(n, 0, 9)] for n in "ab"}
        assert scores == {"a": [None, None, 0.25, 0.5], "b": [1.0, None]}
        with pytest.raises(InvalidInput, match="2 sessions have a message 'm0'"):
            store.update_importance_score("m0", 0.5)
        for wrong in (-0.1, 1.1, float("nan")):
            with pytest.raises(InvalidInput, match=r"within 0 and 1|must be a float"):
                store.update_importance_score("only", wrong)
        for name, where in (("nobody", None), ("only", "b"), ("only", "c")):
            with pytest.raises(NotFound):
                store.update_importance_score(name, 0.5, session_id=where)
        assert store.integrity_check() == []


def test_a_message_that_json_cannot_carry_is_refused_whole(file: Path) -> None:
    with opened(file) as store:
        with pytest.raises(InvalidMessage, match="got object"):
            store.append("a", [entry("fine"), Entry(Message.trusted(**NO_JSON))])
        assert store.read("a", 0, 9) == []
        assert store.append("a", [entry("fine")]) == 1


def test_the_clock_may_go_backwards(file: Path) -> None:
    """Order is that of appending; no time is compared (S-2)."""
    start = datetime(2024, 5, 1, tzinfo=UTC)
    times = iter([start - timedelta(days=i) for i in range(10_000)])
    with clock_and_ids.using(clock=lambda: next(times)), opened(file) as store:
        for i in range(20):
            store.append("a", [entry(f"message {i}")])
        store.commit(step(store, "a", 1))
        store.commit(step(store, "a", 2))
        assert [move.at for move in store.moves("a", most=9)] == [20, 20]
        assert [c.number for c in store.checkpoints("a")] == [1, 2]
        assert texts(assert_chained(store, "a")) == [f"message {i}" for i in range(20)]
        assert store.session("a").updated_at < store.session("a").created_at
        assert store.integrity_check() == []


# --- search ---------------------------------------------------------------------------------------


def test_a_name_as_one_comes_before_its_words_apart(file: Path) -> None:
    with opened(file) as store:
        filler = [entry(f"nothing here {i}") for i in range(20)]
        apart = entry("the budget says that one may retry")
        store.append("a", [*filler, entry("it is retry_budget now"), apart])
        found = [f.position for f in store.search("a", "what of retry_budget", most=5)]
        assert found == [20, 21]
        assert [f.position for f in store.search("a", "retry", most=5)] == [20, 21]
        scores = [f.score for f in store.search("a", "retry_budget", most=5)]
        assert scores == sorted(scores, reverse=True)
        assert scores[-1] > 0


def test_chinese_letters_count_side_by_side(file: Path) -> None:
    with opened(file) as store:
        store.append("a", [entry(text) for text in ("移动端很慢", "动移 端 移", "other")])
        assert [f.position for f in store.search("a", "移动端", most=5)] == [0]


def test_appending_does_not_index_and_a_commit_does_a_part(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compact.store.sqlite.store.INDEXED_AFTER_COMMIT", 700)
    with opened(file, durability="normal") as store:
        store.append("a", [entry(f"word{i}") for i in range(1_500)])
        indexed = "SELECT count(*) FROM words_docsize"
        assert store.db.execute(indexed).get == 0
        store.commit(step(store, "a", 1))
        assert store.db.execute(indexed).get == 700
        assert [f.position for f in store.search("a", "word1499", most=5)] == [1_499]
        assert store.db.execute(indexed).get == 1_500


def test_without_an_index_the_newest_messages_are_looked_through(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compact.store.sqlite.search.MOST_SCANNED", 10)
    with opened(file) as store:
        store.append("a", [entry(f"word {i}") for i in range(15)])
        found = search.scan(store.pool, "a", "word", 99)
        assert [f.position for f in found] == list(range(14, 4, -1))
        assert store.db.execute("SELECT count(*) FROM words_docsize").get == 0
        assert len(store.search("a", "word", most=99)) == 15


def test_where_rare_words_find_some_common_ones_are_left_aside(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands nearly everywhere would cost a look at each message, and says nothing."""
    monkeypatch.setattr("compact.store.sqlite.search.MOST_SCANNED", 10)
    with opened(file) as store:
        said = [entry(f"straw {'needle' if i % 10 == 3 else 'hay'}", i) for i in range(50)]
        store.append("a", said)
        for question in ("needle", "straw needle", "straw_needle", "hay and needle"):
            found = [f.position for f in store.search("a", question, most=99)]
            assert found == [43, 33, 23, 13, 3], question
        assert len(store.search("a", "straw", most=99)) == 50
        assert len(store.search("a", "straw unheard", most=99)) == 50


def test_a_search_goes_on_while_another_writes(file: Path) -> None:
    """Where the index cannot catch up, messages are looked through instead."""
    with opened(file) as store, SQLiteManager(file, busy_timeout=0.05) as other:
        store.append("a", [entry("giraffe")])
        store.db.execute("BEGIN IMMEDIATE")
        assert [f.position for f in other.search("a", "giraffe", most=5)] == [0]
        store.db.execute("ROLLBACK")
        assert store.db.execute("SELECT count(*) FROM words_docsize").get == 0


def test_a_question_may_be_long_and_wild(file: Path) -> None:
    noise = random.Random(3)
    with opened(file) as store:
        store.append("a", [entry("the needle is here")])
        assert store.search("a", "needle " + "straw_and_hay " * 3_000, most=1)[0].position == 0
        for _ in range(300):
            letters = [
                chr(noise.choice((noise.randrange(128), noise.randrange(0x3000)))) for _ in "x" * 9
            ]
            store.search("a", "".join(letters), most=3)


# --- deletion -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_deleted_words_are_in_no_file(file: Path, seed: int) -> None:
    """Nor in the log, in pages that rows moved away from, or in the index (S-5)."""
    noise = random.Random(seed)
    names = [f"s{i}" for i in range(5)]

    def words(name: str, many: int) -> str:
        return " ".join(f"zq{name}x{noise.randrange(10**9)}" for _ in range(many))

    with SQLiteManager(file, durability="normal") as store:
        for name in names:
            store.session(name, create=session(name, title=words(name, 1)))
        for number in range(1, 250):
            name = noise.choice(names)
            many = noise.choice((1, 1, 1, 15))
            sizes = [noise.choice((3, 30, 30, 900)) for _ in range(many)]
            store.append(name, [entry(words(name, size), 5, noise.randrange(4)) for size in sizes])
            if number % 9 == 0:
                store.note(name, "draft", {"v": words(name, noise.choice((9, 300)))})
                store.commit(step(store, name, number))
            if number % 50 == 0:
                branch = store.fork(name, store.session(name).branch.messages // 2)
                store.save_snapshot(
                    Snapshot(
                        session_id=name, branch_id=branch.id, at=0, window=8, note=words(name, 9)
                    )
                )
                store.search(name, "x", most=3)
        assert found_in(file, "zqs3x") > 100
        store.delete_session("s3")
        assert found_in(file, "zqs3x") == 0
        assert found_in(file, "zqs2x") > 100
        assert store.integrity_check() == []
        assert store.search("s2", words("s2", 1), most=1) == []


def found_in(file: Path, word: str) -> int:
    files = file.parent.glob(file.name + "*")
    return sum(len(re.findall(word.encode(), f.read_bytes(), re.IGNORECASE)) for f in files)


def test_a_log_that_is_read_is_emptied_later(file: Path) -> None:
    with opened(file, busy_timeout=0.05) as store, SQLiteManager(file) as reader:
        store.append("a", [entry("zqsecret")])
        reader.db.execute("BEGIN")
        reader.db.execute("SELECT count(*) FROM messages").fetchall()
        store.delete_session("a")
        assert found_in(file, "zqsecret") > 0, "the reader still sees it"
        reader.db.execute("ROLLBACK")
        store.session("b", create=session("b"))
        assert found_in(file, "zqsecret") == 0


def test_traces_are_swept_when_the_file_is_opened_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may die between the deletion and the sweep."""
    with opened(file) as store:
        store.append("a", [entry("x")])

        def dies(_: object) -> None:
            raise StoreFailed("no room")

        with monkeypatch.context() as patch:
            patch.setattr("compact.store.sqlite.pool.Pool.sweep_if_due", dies)
            with pytest.raises(StoreFailed, match=r"deleted, but traces .* are left"):
                store.delete_session("a")
        assert store.sessions() == []
        assert store.db.execute("SELECT name FROM chores").get == "sweep"
    with SQLiteManager(file) as store:
        assert store.db.execute("SELECT name FROM chores").get is None


# --- is it whole? ---------------------------------------------------------------------------------


def test_a_move_to_the_bare_history_is_no_damage(file: Path) -> None:
    """Also where nothing was ever compressed."""
    with opened(file) as store:
        ctx = compact.ContextManager(window=8_000, store=store)
        for text in ("one", "two", "three"):
            ctx.add_message(role="user", content=text)
        ctx.time.branch(at=1)
        assert any(move.projection_id is None for move in store.moves(ctx.id, most=9))
        assert store.integrity_check() == []


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ("UPDATE messages SET content = 'changed' WHERE key % 4294967296 = 4", "message 4 is not"),
        ("UPDATE messages SET role = 'assistant' WHERE key % 4294967296 = 4", "message 4 is not"),
        ("UPDATE messages SET payload = x'00' WHERE key % 4294967296 = 4", "message 4 is not"),
        ("UPDATE messages SET token_count = 9 WHERE key % 4294967296 = 4", "running total of 15"),
        ("DELETE FROM messages WHERE key % 4294967296 IN (4, 5)", "messages 4 to 5 are missing"),
        ("UPDATE branches SET fork_hash = x'00' WHERE parent IS NOT NULL", "does not go on from"),
        ("DELETE FROM words WHERE rowid % 4294967296 = 3", "search index does not hold"),
        ("DELETE FROM checkpoints", "a checkpoint is missing"),
        ("DELETE FROM projections", "projection 'a-8000-1' is missing"),
        ("UPDATE sessions SET branch = 99", "session 'a': the branch in force is missing"),
        ("UPDATE checkpoints SET summary = 'x'", "checkpoint 'ck-000000000001' is not the one"),
        ("UPDATE checkpoints SET kept = '[4]'", "checkpoint 'ck-000000000001' is not the one"),
        ("UPDATE projections SET pieces = '[]'", "projection 'a-8000-1' is not the one"),
        ("UPDATE moves SET at = 3", "move 1 is not the one"),
        ("UPDATE snapshots SET goals = '[]'", "snapshot 'sn' is not the one"),
        ("UPDATE notes SET value = '{}'", "note 'goal' is not the one"),
        ("UPDATE notes SET name = 'pin'", "note 'pin' is not the one"),
    ],
)
def test_the_check_finds_what_was_changed(file: Path, change: str, finding: str) -> None:
    with opened(file) as store:
        store.append("a", [entry(f"message {i}") for i in range(9)])
        store.commit(step(store, "a", 1))
        store.fork("a", 5)
        store.note("a", "goal", {"words": "roof"})
        kept = Snapshot(
            id="sn", session_id="a", branch_id="a", at=1, window=8, goals=(Goal(text="roof"),)
        )
        store.save_snapshot(kept)
        assert store.integrity_check() == []
        store.db.execute(change)
        assert any(finding in line for line in store.integrity_check()), store.integrity_check()


# --- the file -------------------------------------------------------------------------------------


def test_home_is_expanded_and_folders_are_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with SQLiteManager("~/chat.db"):
        assert (tmp_path / "chat.db").exists()
    with pytest.raises(StoreFailed, match=r"no folder .*missing; make it first"):
        SQLiteManager(tmp_path / "missing" / "chat.db")
    with pytest.raises(StoreFailed, match="is a folder, not a store"):
        SQLiteManager(tmp_path)
    with pytest.raises(InvalidInput, match="durability must be 'full' or 'normal', got 'none'"):
        SQLiteManager(durability="none")  # type: ignore[arg-type]


@pytest.mark.skipif(os.name == "nt", reason="there, files that are open cannot be deleted")
@pytest.mark.parametrize("what", ["deleted", "replaced"])
def test_a_file_that_is_gone_takes_nothing_more(file: Path, what: str) -> None:
    """Messages were acknowledged that went into a file without a name (NFR-2)."""
    with opened(file) as store:
        store.append("a", [entry("one")])
        with opened(file.with_name("other.db")) as other:
            other.append("a", [entry("theirs")])
        file.rename(file.with_name("aside.db"))
        if what == "replaced":
            os.replace(file.with_name("other.db"), file)
        said = f"{file} was deleted or moved|another file has taken the place of {file}"
        for call in (
            lambda: store.append("a", [entry("two")]),
            lambda: store.read("a", 0, 9),
            lambda: store.note("a", "x", {}),
            lambda: store.sessions(),
        ):
            with pytest.raises(StoreFailed, match=said):
                call()
        saved = file.with_name("saved.db")
        store.db.execute("VACUUM INTO ?", (str(saved),))
        with SQLiteManager(saved) as found:
            assert texts(assert_chained(found, "a")) == ["one"], "what it held can be saved"
        os.replace(file.with_name("aside.db"), file)
        assert store.append("a", [entry("two")]) == 2, "put back, it goes on"
    with SQLiteManager(file) as store:
        assert texts(assert_chained(store, "a")) == ["one", "two"]


def test_durability_is_what_was_asked_for(tmp_path: Path) -> None:
    with opened(tmp_path / "a.db") as full, opened(tmp_path / "b.db", durability="normal") as other:
        pragmas = [
            {name: store.db.pragma(name) for name in ("journal_mode", "synchronous")}
            for store in (full, other)
        ]
    assert pragmas == [
        {"journal_mode": "wal", "synchronous": 2},
        {"journal_mode": "wal", "synchronous": 1},
    ]


def test_a_closed_store_says_so(file: Path) -> None:
    with opened(file) as store:
        pass
    store.close()
    for call in (lambda: store.read("a", 0, 1), lambda: store.append("a", [entry("x")])):
        with pytest.raises(StoreFailed, match="has been closed"):
            call()


def test_the_plans_of_queries_use_indexes(file: Path) -> None:
    """What is asked with every turn costs the same in a session of any length (S-1)."""
    from compact.store.sqlite import branch_lineage, messages, projections

    plans = {
        branch_lineage._TAIL: ("a",),
        messages._with_mark(1) + " ORDER BY key DESC LIMIT 3": (0, 9),
        messages._with_mark(2) + " ORDER BY key LIMIT 1": (0, 9),
        "SELECT max(key) FROM messages WHERE id = ? AND key BETWEEN ? AND ?": ("x", 0, 9),
        projections._MOVE
        + "WHERE moves.session = 1 AND moves.window = ? ORDER BY moves.number DESC LIMIT 1": (1,),
    }
    with opened(file) as store:
        for sql, bindings in plans.items():
            rows = store.db.execute("EXPLAIN QUERY PLAN " + sql, bindings).fetchall()
            told = "; ".join(str(row[3]) for row in rows)
            assert "SCAN" not in told, told
            assert "TEMP B-TREE" not in told, told
        marks = store.db.execute(
            "EXPLAIN QUERY PLAN " + messages._with_mark(2) + " ORDER BY key LIMIT 1", (0, 9)
        ).fetchall()
        assert "messages_of_persons" in str(marks[0][3])


def test_reading_an_end_does_not_read_the_rest(file: Path) -> None:
    with opened(file, durability="normal") as store:
        store.append("a", [entry("long " * 2_000) for _ in range(2_000)])
        tracemalloc.start()
        assert len(store.read("a", 1_990, 2_000)) == 10
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2_000_000


def test_each_migration_is_recorded_with_its_time(file: Path) -> None:
    moment = datetime(2024, 5, 1, tzinfo=UTC)
    with clock_and_ids.using(clock=lambda: moment), SQLiteManager(file) as store:
        rows = store.db.execute("SELECT name, applied_at FROM migrations").fetchall()
        assert rows == [(each.name, moment.isoformat()) for each in migrations.MIGRATIONS]
        assert store.db.pragma("user_version") == len(migrations.MIGRATIONS)
        assert store.db.pragma("application_id") == migrations.APPLICATION_ID


def test_where_a_branch_ends_is_asked_anew_when_anything_else_was_written(file: Path) -> None:
    """What is remembered from the last append never outlives a change by others, by hand, or one
    that was taken back."""
    with opened(file) as store, SQLiteManager(file) as other:
        assert store.append("a", [entry("one")]) == 1
        assert other.append("a", [entry("two")]) == 2
        assert store.append("a", [entry("three")]) == 3
        store.db.execute("DELETE FROM messages WHERE key & 4294967295 = 2")
        assert store.append("a", [entry("other three")]) == 3
        with pytest.raises(InvalidMessage):
            store.append("a", [entry("four"), Entry(Message.trusted(**NO_JSON))])
        with pytest.raises(Superseded):
            store.append("a", [entry("four")], expected=2)
        assert store.append("a", [entry("four")], expected=3) == 4
        said = [e.message.text for e in assert_chained(other, "a")]
        assert said == ["one", "two", "other three", "four"]

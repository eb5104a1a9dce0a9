"""`compactctl memory`: status, age, archive, backup (A-2, A-5, A-6, A-7)."""

import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from compact import MemoryManager, SQLiteManager
from compact.cli import progress
from compact.cli.main import main
from compact.messages.messages import Message
from compact.messages.sessions import Branch, Entry, Session
from tests.cli.test_cli_sessions import Terminal
from tests.store.archiving_sessions import rows_of


@pytest.fixture
def harbour(run, sample, monkeypatch):
    """The sample in the store of this folder, which is a year old and kept for nothing."""
    monkeypatch.setenv("COMPACT_RETAIN_SCORE", "1")
    assert run("sessions", "import", sample).code == 0
    return "harbour"


def status(run):
    return json.loads(run("memory", "status", "--json").out)


def test_what_a_memory_holds_is_shown(run, harbour):
    before = status(run)
    assert (before["sessions"], before["levels"], before["archived"]) == (1, {"full": 1}, 0)
    assert before["unindexed"] == before["messages"] > 0
    assert run("search", "harbour").code == 0
    assert status(run)["unindexed"] == 0
    shown = run("memory", "status")
    assert "scope default: 1 session" in shown.out
    assert "no embedder" in shown.out


def test_what_ageing_archives_is_listed_verified_found_and_brought_back(run, harbour):
    said = run("sessions", "export", harbour).out
    aged = run("memory", "age", "--now", "2099-01-01")
    assert "1 session archived" in aged.out
    told = status(run)
    assert (told["archived"], told["levels"]) == (1, {"metadata": 1})
    assert told["archive_bytes"] > 0
    assert told["archives"][0]["session_id"] == harbour
    assert "1 archive, all as written" in run("doctor").out
    found = run("search", "harbour")
    assert "In the archive" in found.out
    assert " · archived" in found.out
    [file] = Path().rglob("*.json.zst")
    assert run("sessions", "import", file, "--as", harbour, "--store", "new.db").code == 0
    assert run("sessions", "export", harbour, "--store", "new.db").out == said
    assert run("sessions", "export", harbour).out == said, "it is read from its archive"
    with MemoryManager(".compact/sessions.db") as memory:
        memory.restore(harbour)
    assert status(run)["archived"] == 0
    back = run("sessions", "export", harbour).out
    assert re.sub(r', "restored_at": "[^"]+"', "", back) == said


def test_a_missing_archive_is_an_error_that_says_so(run, harbour):
    assert run("memory", "archive", harbour).code == 0
    for file in Path().rglob("*.json.zst"):
        file.unlink()
    done = run("doctor", "--check")
    assert (done.code, harbour in done.out) == (2, True)
    assert "is missing" in " ".join(done.out.split())
    assert run("sessions", "list").code == 0
    assert "is missing: put it back" in run("sessions", "export", harbour).err


def test_the_doctor_looks_at_archives_without_being_told_to(run, harbour):
    assert run("memory", "archive", harbour).code == 0
    assert "1 archive, all as written" in run("doctor").out
    for file in Path().rglob("*.json.zst"):
        file.write_bytes(file.read_bytes()[:-1] + b"!")
    done = run("doctor")
    assert (done.code, "1 broken" in done.out) == (2, True)


def test_archives_that_take_long_to_read_are_said_to_be_unread(run, harbour, monkeypatch):
    assert run("memory", "archive", harbour).code == 0
    monkeypatch.setattr("compact.cli.commands.doctor.READ_SOON", 100)
    done = run("doctor")
    assert (done.code, "1 archive not checked: doctor --check" in done.out) == (0, True)
    assert run("doctor", "--check").code == 0


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("age --now 2099-01-01", "Ageing 1 of 1 sessions"),
        ("archive harbour", "Archiving 0 of 1 sessions"),
    ],
)
def test_long_work_says_how_far_it_is(run, harbour, monkeypatch, words, shown):
    seen: list[str] = []
    monkeypatch.setattr(progress.Progress, "now", lambda _, text: seen.append(text))
    assert run("memory", *words.split()).code == 0
    assert seen[0] == shown


def test_an_embedder_that_is_down_is_one_line_beside_what_words_find(run, harbour, monkeypatch):
    monkeypatch.setenv("COMPACT_EMBEDDER", "ollama:nomic-embed-text")
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    done = run("search", "harbour")
    assert done.code == 0
    assert done.out
    assert done.err.startswith("searched by words alone: the server of ollama:nomic-embed-text")
    assert done.err.count("\n") == 1
    shown = run("memory", "status")
    assert (shown.code, "not now: the server of" in shown.out) == (0, True)


def test_a_dry_run_shows_what_would_be_done_and_why(run, harbour, monkeypatch):
    monkeypatch.setenv("COMPACT_RETAIN_SCORE", "0.1")
    done = run("memory", "age", "--dry-run", "--now", "2099-01-01", "--json")
    told = json.loads(done.out)
    assert done.code == 0
    assert (told["dry_run"], told["rows"][0]["session_id"]) == (True, harbour)
    shown = run("memory", "age", "--dry-run", "--now", "2099-01-01")
    assert "to do" in shown.out
    assert "importance" in shown.out, "why it is kept whole"


def test_ageing_writes_a_digest_once(run, harbour):
    told = json.loads(run("memory", "age", "--now", "2099-01-01", "--json").out)
    row = told["rows"][0]
    assert (told["written"], row["due"], row["action"]) == (1, "metadata", "write, archive")
    assert row["tokens_after"] == 0, "of a year, only what is known about it"
    last = json.loads(run("memory", "age", "--now", "2099-01-01", "--json").out)
    assert (last["written"], last["archive"]) == (0, None)


@pytest.mark.parametrize("answer", ["", "n\n", "y\n"])
def test_on_a_terminal_a_plan_comes_first(run, harbour, monkeypatch, capsys, answer):
    """By levels and bytes; what is not agreed to is not done."""
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert main(["memory", "age", "--now", "2099-01-01"]) == (answer != "y\n")
    asked = capsys.readouterr().err
    plan = ("1 digest would be written; about", "bytes would go", "metadata", "Go on?")
    assert [words for words in plan if words not in asked] == []
    is_done = answer == "y\n"
    assert status(run)["archived"] == is_done
    assert ("nothing was changed" in asked) != is_done
    assert main(["memory", "age", "--now", "2099-01-01", "--yes"]) == 0
    assert main(["memory", "age", "--now", "2099-01-01"]) == 0, "nothing is due any more"
    assert "Go on?" not in capsys.readouterr().err
    assert status(run)["archived"] == 1


def test_json_on_a_terminal_does_not_ask(run, harbour, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert main(["memory", "age", "--now", "2099-01-01", "--json"]) == 0
    told = capsys.readouterr()
    assert ("Go on?" in told.err, json.loads(told.out)["written"]) == (False, 1)


@pytest.mark.parametrize("answer", ["n\n", "y\n"])
def test_packing_what_is_old_of_a_session_in_use_is_asked_for(
    run, old, monkeypatch, capsys, answer
):
    with SQLiteManager(old) as store:
        late = Message(role="user", content="And now?", timestamp=datetime(2025, 4, 1, tzinfo=UTC))
        store.append("old", [Entry(late, 9)])
    given = ["memory", "age", "--store", str(old), "--now", "2025-04-02"]
    [row] = json.loads(run(*given, "--dry-run", "--json").out)["rows"]
    assert (row["due"], row["action"]) == ("full", "pack")
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    is_done = answer == "y\n"
    assert main(given) == (not is_done)
    told = capsys.readouterr()
    assert "old messages of 1 session would be packed" in told.err
    assert ("old messages of 1 session packed" in told.out) == is_done
    with SQLiteManager(old) as store:
        assert bool(store.db.execute("SELECT count(*) FROM packed").get) == is_done


def test_no_byte_freed_is_told_in_words(run, tmp_path):
    given = ("--store", tmp_path / "chat.db")
    with MemoryManager(tmp_path / "chat.db") as memory:
        memory.add_message("short", "user", "The fern stands by the window.")
    run("memory", "archive", "short", *given)
    told = run("memory", "archive", "short", *given).out
    assert "1 session archived, 0 bytes freed: too few for the file to shrink" in told


def test_an_empty_memory_says_so(run, harbour):
    done = run("memory", "age", "--scope", "nobody")
    assert done.code == 0
    assert "no sessions in scope 'nobody'" in done.err


def test_ageing_embeds_what_has_no_vector(run, harbour, monkeypatch):
    """S-3: with the embedder of the settings; a dry run does not."""
    monkeypatch.setattr(MemoryManager, "embed", lambda *_, **__: 7)
    monkeypatch.setattr(MemoryManager, "unembedded", lambda *_: 3)
    assert json.loads(run("memory", "age", "--json").out)["embedded"] is None
    monkeypatch.setenv("COMPACT_EMBEDDER", "minilm")
    assert json.loads(run("memory", "age", "--dry-run", "--json").out)["embedded"] is None
    assert json.loads(run("memory", "age", "--json").out)["embedded"] == 7
    told = run("memory", "age").err
    assert "7 messages embedded" in told
    assert "3 messages not: new, or in an archive that cannot be read" in told


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A store with a session of last year, which is kept for nothing."""
    monkeypatch.setenv("COMPACT_RETAIN_SCORE", "1")
    day = datetime(2025, 3, 1, tzinfo=UTC)
    with SQLiteManager(tmp_path / "old.db") as store:
        store.session("old", create=Session(id="old", branch=Branch(id="old", session_id="old")))
        said = [
            Message(role="user", content=f"Berth {number} is let to the pilots.", timestamp=day)
            for number in range(200)
        ]
        store.append("old", [Entry(message, 9) for message in said])
    return tmp_path / "old.db"


def test_what_is_kept_whole_is_not_archived_with_the_others(run, old, monkeypatch):
    monkeypatch.setenv("COMPACT_RETAIN_SCORE", "0.1")
    done = run("memory", "archive", "--store", old)
    assert "0 sessions archived" in done.out
    assert "1 session left to memory age:" in done.err
    assert "old: importance 0." in done.err
    assert "1 session archived" in run("memory", "archive", "old", "--store", old).out


def test_a_search_says_in_one_line_which_archive_it_cannot_read(run, chat):
    run("memory", "archive", "harbour", "--store", chat)
    [file] = chat.parent.rglob("*.json.zst")
    file.unlink()
    done = run("search", "berth", "--store", chat)
    lines = done.err.strip().splitlines()
    assert (done.code, len(lines), str(file.name) in done.err) == (0, 1, True), done.err
    assert lines[0].startswith("messages were left out: the archive")


# --- backups --------------------------------------------------------------------------------------


def test_a_store_is_backed_up_and_restored(run, chat, tmp_path):
    run("memory", "archive", "harbour", "--store", chat)
    done = run("memory", "backup", tmp_path / "kept", "--store", chat, "--json")
    told = json.loads(done.out)
    assert (told["sessions"], told["messages"], told["archives"]) == (1, 120, 1)
    back = run("memory", "restore-backup", tmp_path / "kept", "--to", tmp_path / "new.db")
    assert (back.code, back.err) == (0, "")
    assert "new.db: 1 session, 120 messages, 1 archive, " in " ".join(back.out.split())
    with SQLiteManager(chat) as old, SQLiteManager(tmp_path / "new.db") as new:
        assert rows_of(new, "harbour") == rows_of(old, "harbour")
        assert new.get_conversation("harbour") == old.get_conversation("harbour")
    assert run("show", "harbour", "history", "--store", tmp_path / "new.db").code == 0


def test_a_search_takes_days_as_people_write_them(run):
    Path(".compact").mkdir()
    with MemoryManager(".compact/sessions.db") as memory:
        for day in ("2026-03-02", "2026-03-03", "2026-03-04"):
            at = f"{day}T12:00:00Z"
            memory.add_message("s", role="user", content=f"said on the {day}", timestamp=at)
    found = run("search", "", "--since", "03.03.2026", "--until", "3 March 2026")
    assert "said on the 2026-03-03" in found.out
    assert "2026-03-02" not in found.out + run("search", "what happened on 3 March 2026?").out
    assert "2026-03-04" not in found.out
    for wrong, says in (("03/04/2026", "2026-04-03 or 2026-03-04"), ("soon", "17 May 2026")):
        refused = run("search", "said", "--until", wrong)
        assert refused.code != 0
        assert "--until" in refused.err
        assert says in refused.err

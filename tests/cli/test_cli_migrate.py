"""`compactctl migrate`: conversations of other programs come along as sessions (MIG)."""

import io
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from compact import ContextManager, Message, VectorStore
from compact.errors import StoreFailed
from compact.exchange import manifest, rolling_back
from compact.exchange.migrating import migrate
from compact.messages.sessions import Entry
from compact.store.sqlite import backup
from compact.store.sqlite.store import SQLiteManager
from tests.cli.conftest import ROOT, branched, kept_in, snapped
from tests.sizes import size
from tests.store.making import session

STORE = ".compact/sessions.db"


def chat(path, *texts, more=()):
    """A chat file of these texts, turn by turn."""
    roles = ("user", "assistant")
    rows = [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *more]))
    return path


def outcomes(done):
    """By file and conversation, what became of it."""
    told = json.loads(done.out)["conversations"]
    return {(Path(each["path"]).name, each["conversation"]): each["outcome"] for each in told}


def texts_of(name):
    return [message.text for message in kept_in(STORE, name)]


def test_a_folder_comes_along_whatever_is_in_it(run, fixtures, tmp_path):
    folder = shutil.copytree(fixtures, tmp_path / "old/deep").parent
    chat(folder / "roof.jsonl", "Mend the roof.", "Done.")
    (folder / "notes.txt").write_text("Nothing of interest.\n")
    (folder / "empty.json").write_text("")
    dry = run("migrate", folder, "--dry-run", "--json")
    assert not Path(STORE).exists()
    done = run("migrate", folder, "--json")
    assert outcomes(dry) == outcomes(done)
    assert outcomes(done)["roof.jsonl", 1] == "new"
    assert outcomes(done)["notes.txt", 1] == outcomes(done)["empty.json", 1] == "unknown"
    told = json.loads(done.out)
    new = [each for each in told["conversations"] if each["outcome"] == "new"]
    with SQLiteManager(STORE) as store:
        assert len(store.sessions()) == len(new) >= 8
        for each in new:
            branch = store.session(each["session_id"]).branch
            assert (branch.messages, branch.tokens) == (each["messages"], each["tokens"])
            assert each["added"] == each["messages"] > 0
    assert texts_of("roof") == ["Mend the roof.", "Done."]


def test_the_list_names_places_formats_and_how_many_files_hold_nothing(run, fixtures, tmp_path):
    for folder in ("x", "y"):
        chat(tmp_path / f"old/{folder}/chat.jsonl", f"Of {folder}.")
        (tmp_path / f"old/{folder}/SOURCE.md").write_text("Nothing of interest.\n")
    shutil.copy(fixtures / "claude_code.jsonl", tmp_path / "old/x")
    (tmp_path / "old/broken.jsonl").write_text('{"role": "user", "content": "One."}\n{"role": 7}\n')
    done = run("migrate", "old", "--dry-run")
    for place, title in (("x/chat", "chat messages"), ("x/claude_code", "Claude Code")):
        assert re.search(rf"^{place}.jsonl +{title} ", done.out, re.MULTILINE), done.out
    assert "y/chat.jsonl" in done.out
    assert "2 files hold no conversation: --json lists them" in done.err
    assert "SOURCE.md" not in done.err
    assert "broken.jsonl: " in done.err
    assert "old/x/chat.jsonl" in run("migrate", "old", "old/y", "--dry-run").out
    assert "SOURCE.md: holds no conversation" in run("migrate", "old/x/SOURCE.md").err


def test_what_was_migrated_is_not_migrated_again(run, tmp_path):
    chat(tmp_path / "old/a.jsonl", "One.", "Two.")
    chat(tmp_path / "old/copy-of-a.jsonl", "One.", "Two.")
    first = run("migrate", "old", "--json")
    assert outcomes(first) == {("a.jsonl", 1): "new", ("copy-of-a.jsonl", 1): "there"}
    again = run("migrate", "old", "--json")
    assert set(outcomes(again).values()) == {"there"}
    assert json.loads(again.out)["folder"] is None, "nothing was changed, nothing is told of it"
    shutil.move("old", "elsewhere")
    assert set(outcomes(run("migrate", "elsewhere", "--json")).values()) == {"there"}
    with SQLiteManager(STORE) as store:
        assert [session.id for session in store.sessions()] == ["a"]


def test_a_session_that_went_on_is_never_touched(run, tmp_path):
    path = chat(tmp_path / "a.jsonl", "One.", "Two.")
    run("migrate", path)
    with SQLiteManager(STORE) as store:
        from compact import ContextManager

        ContextManager(store=store, session_id="a").add_message(role="user", content="Mine.")
    assert outcomes(run("migrate", path, "--json")) == {("a.jsonl", 1): "there"}
    chat(path, "One.", "Two.", "Three.")
    done = run("migrate", path)
    assert done.code == 2
    assert "the session stays as it is" in done.err
    assert texts_of("a") == ["One.", "Two.", "Mine."]


def test_other_conversations_of_the_same_name_get_a_name_of_their_own(run, tmp_path):
    for folder in ("x", "y", "z"):
        chat(tmp_path / folder / "chat.jsonl", f"Of {folder}.", "Yes.")
    dry = json.loads(run("migrate", ".", "--dry-run", "--json").out)
    done = json.loads(run("migrate", ".", "--json").out)
    names = [each["session_id"] for each in done["conversations"] if each["session_id"]]
    assert names == [each["session_id"] for each in dry["conversations"] if each["session_id"]]
    assert len(set(names)) == 3
    assert names[0] == "chat"
    assert all(name.startswith("chat") for name in names)
    assert [texts_of(name)[0] for name in names] == ["Of x.", "Of y.", "Of z."]


def test_all_conversations_of_a_file_come_along_but_the_broken(run, tmp_path):
    good = {"messages": [{"role": "user", "content": "Hello"}], "title": "First"}
    wrong = {"messages": [{"role": "user", "content": 7}]}
    other = {"messages": [{"role": "user", "content": "Bye"}]}
    file = tmp_path / "many.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in (good, wrong, other)))
    done = run("migrate", file, "--json")
    assert done.code == 2
    assert list(outcomes(done).values()) == ["new", "broken", "new"]
    told = json.loads(done.out)["conversations"][1]
    assert "messages[0]" in told["reason"]
    assert texts_of("many-1") == ["Hello"]
    assert texts_of("many-3") == ["Bye"]
    assert run("migrate", file).code == 2
    wrong["messages"][0]["content"] = "mended"
    file.write_text("".join(json.dumps(each) + "\n" for each in (good, wrong, other)))
    assert list(outcomes(run("migrate", file, "--json")).values()) == ["there", "new", "there"]


FAULTS = {
    "truncated.json": (b'[{"role": "user", "content": "Hel', "broken JSON"),
    "twice.jsonl": (
        b'{"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function",'
        b' "function": {"name": "f", "arguments": "{}"}}]}\n'
        b'{"role": "tool", "tool_call_id": "c", "content": "1"}\n'
        b'{"role": "tool", "tool_call_id": "c", "content": "2"}\n',
        "answered twice",
    ),
    "cut.jsonl": (b'{"role": "user", "content": "a"}\n{"role" "x"}\n{"role": "user"}\n', "line 2"),
    "future.json": (b'{"format": "compact-session", "version": 99}', "newer version"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_problem_is_named_and_everything_else_comes_along(name, run, tmp_path):
    data, reason = FAULTS[name]
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / name).write_bytes(data)
    chat(tmp_path / "old/sound.jsonl", "One.", "Two.")
    done = run("migrate", "old")
    assert done.code == 2
    assert f"{name}: " in done.err
    assert reason in " ".join(done.err.split())
    with SQLiteManager(STORE) as store:
        assert [session.id for session in store.sessions()] == ["sound"]


def test_what_is_named_and_holds_nothing_is_an_error(run, tmp_path):
    (tmp_path / "a.txt").write_text("Nothing.\n")
    assert run("migrate", "a.txt").code == 2
    assert run("migrate", ".").code == 0
    missing = run("migrate", "gone.json")
    assert missing.code == 2
    assert "no such file" in missing.err


def test_before_the_first_change_the_store_is_backed_up(run, tmp_path):
    first = json.loads(run("migrate", chat(tmp_path / "a.jsonl", "One."), "--json").out)
    assert Path(first["backup"]).is_dir(), "of a new store too: it is what a rollback puts back"
    second = json.loads(run("migrate", chat(tmp_path / "b.jsonl", "Two."), "--json").out)
    kept = Path(second["backup"])
    assert kept == tmp_path / ".compact/migrations" / second["id"] / "backup"
    assert run("memory", "restore-backup", kept, "--to", "before.db").code == 0
    with SQLiteManager("before.db") as store:
        assert [session.id for session in store.sessions()] == ["a"]
    told = json.loads((kept.parent / "manifest.json").read_text())
    assert (told["schema"], told["version"], told["state"]) == ("compact/migration", 1, "done")
    (row,) = told["conversations"]
    assert (row["session_id"], row["messages"], row["outcome"]) == ("b", 1, "new")
    assert (row["path"], len(row["sha256"])) == (str(tmp_path / "b.jsonl"), 64)


def test_a_session_that_is_read_back_otherwise_is_not_kept(tmp_path, monkeypatch):
    path = chat(tmp_path / "a.jsonl", "One.", "Two.")
    with SQLiteManager(tmp_path / "s.db") as store:
        real = store.read
        monkeypatch.setattr(store, "read", lambda *a, **k: real(*a, **k)[::-1], raising=False)
        report = migrate(path, store=store)
        assert [each.outcome for each in report.conversations] == ["broken"]
        assert "nothing of it was kept" in report.conversations[0].reason
        assert store.sessions() == []


@pytest.mark.skipif(os.name == "nt", reason="signals are Unix's")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_ended_in_the_middle_it_goes_on_where_it_was(tmp_path, end):
    of, store = 40, tmp_path / STORE
    for number in range(of):
        chat(tmp_path / f"old/{number:02}.jsonl", f"Number {number}.", "Yes. " * 200)
    command = [sys.executable, "-m", "compact", "migrate", "old", "--json"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    running = subprocess.Popen(command, env=env, cwd=tmp_path, stdout=-1, stderr=-1)
    while running.poll() is None and held(store) < of // 4:
        time.sleep(0.002)
    running.send_signal(end)
    _, said = running.communicate()
    with SQLiteManager(store) as opened:
        assert opened.integrity_check() == []
        before = {session.id: session.branch.messages for session in opened.sessions()}
    assert set(before.values()) == {2}, "each wholly or not at all"
    assert 0 < len(before) < of, "it was done before it was ended"
    if end == signal.SIGINT:
        assert running.returncode == 130, said
        assert b"what was imported stays, and the same command goes on from there" in said
        (made,) = (tmp_path / ".compact/migrations").glob("*/manifest.json")
        told = json.loads(made.read_text())
        assert (told["state"], len(told["conversations"])) == ("stopped", len(before))
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, check=True)
    assert json.loads(done.stdout)["outcomes"] == {"there": len(before), "new": of - len(before)}
    with SQLiteManager(store) as opened:
        assert len(opened.sessions()) == of


@pytest.mark.skipif(os.name == "nt", reason="a pipe in a folder")
def test_what_is_no_file_is_named_and_not_waited_for(run, tmp_path):
    (tmp_path / "old").mkdir()
    os.mkfifo(tmp_path / "old/pipe")
    (tmp_path / "old/link.json").symlink_to("nowhere")
    chat(tmp_path / "old/a.jsonl", "One.")
    done = run("migrate", "old")
    assert done.code == 2
    assert done.err.count("a link to nothing, or no file") == 2
    assert texts_of("a") == ["One."]


def held(file):
    """How many sessions a store has."""
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
            return db.execute("SELECT count(*) FROM sessions").fetchone()[0]
    except sqlite3.Error:
        return 0


# --- sessions and snapshots of an older program ---------------------------------------------------


def legacy_session(path, *texts, **more):
    """A session as an older program kept it, a minute to each turn."""
    roles = ("user", "assistant")
    value = {
        "sessionId": path.stem,
        "startTime": "2026-03-01T09:00:00.000Z",
        "lastActivity": "2026-03-01T10:00:00.000Z",
        "model": "llama3.2:3b",
        "provider": "ollama",
        "messages": [
            {
                "role": roles[i % 2],
                "parts": [{"type": "text", "text": text}],
                "timestamp": f"2026-03-01T09:{i:02}:00.000Z",
            }
            for i, text in enumerate(texts)
        ],
        "toolCalls": [
            {
                "id": "t-1",
                "name": "measure",
                "args": {"what": "beam"},
                "result": {"llmContent": "21 cm"},
                "timestamp": "2026-03-01T09:01:30.000Z",
            }
        ],
        "metadata": {"tokenCount": 1, "compressionCount": 0, "modeHistory": [{"to": "planning"}]},
        **more,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def legacy_snapshot(path, session, *texts, **more):
    """A snapshot as an older program kept it."""
    roles = ("user", "assistant")
    rows = [
        {"id": f"x-{i}", "role": roles[i % 2], "content": text, "timestamp": 1_772_355_600_000 + i}
        for i, text in enumerate(texts)
    ]
    state = {"messages": rows, "checkpoints": [], "goals": [{"description": "Mend the roof"}]}
    about = {"id": path.stem, "sessionId": session, "timestamp": 1_772_355_600_000}
    value = {**about, "purpose": "rollback", "conversationState": state, **more}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def test_an_old_session_comes_along_with_its_calls_and_its_record(run, tmp_path):
    legacy_session(tmp_path / "old/roof.json", "How thick?", "21 cm.", "Good.")
    assert run("migrate", "old").code == 0
    messages = kept_in(STORE, "roof")
    assert [message.role for message in messages] == [
        *("user", "assistant", "assistant", "tool", "user"),
    ]
    assert messages[2].tool_calls[0].name == "measure"
    assert messages[3].tool_results[0].text == "21 cm"
    with SQLiteManager(STORE) as store:
        session = store.session("roof")
    assert session.model == "llama3.2:3b"
    assert session.metadata["record"]["metadata"]["modeHistory"] == [{"to": "planning"}]
    assert session.metadata["record"]["provider"] == "ollama"


def test_an_old_snapshot_becomes_one_of_its_session(run, tmp_path):
    """Whatever the order of the files; it can be restored."""
    from compact import ContextManager

    legacy_snapshot(tmp_path / "old/a-snap.json", "roof", "How thick?", "21 cm.")
    legacy_session(tmp_path / "old/roof.json", "How thick?", "21 cm.", "Good.", "Yes.")
    dry = run("migrate", "old", "--dry-run", "--json")
    done = run("migrate", "old", "--json")
    assert outcomes(dry) == outcomes(done)
    assert outcomes(done) == {("roof.json", 1): "new", ("a-snap.json", 1): "snapshot"}
    assert set(outcomes(run("migrate", "old", "--json")).values()) == {"there"}
    with ContextManager(window=4_000, store=STORE, session_id="roof") as ctx:
        (snapshot,) = ctx.time.snapshots()
        assert (snapshot.purpose, [g.text for g in snapshot.goals]) == (
            "rollback",
            ["Mend the roof"],
        )
        ctx.time.restore(snapshot.id)
        assert [message.text for message in ctx.history if message.role == "user"] == ["How thick?"]
    with SQLiteManager(STORE) as store:
        note = store.notes("roof")[f"legacy snapshot:{snapshot.id}"]
    assert note["record"]["conversationState"]["messages"][1]["content"] == "21 cm."


def test_an_old_snapshot_of_nothing_that_is_there_becomes_a_session(run, tmp_path):
    legacy_session(tmp_path / "old/roof.json", "How thick?", "21 cm.")
    legacy_snapshot(tmp_path / "old/lost.json", "gone", "And the sail?", "Torn.")
    legacy_snapshot(tmp_path / "old/other.json", "roof", "Something else?", "No.")
    done = run("migrate", "old")
    assert done.code == 0
    assert "its session 'gone' is not there: a session of its own" in " ".join(done.err.split())
    assert texts_of("gone-lost") == ["And the sail?", "Torn."]
    assert texts_of("roof-other") == ["Something else?", "No."]
    assert set(outcomes(run("migrate", "old", "--json")).values()) == {"there"}


# --- taking it back -------------------------------------------------------------------------------


def everything(file=STORE):
    """What a store says of all its sessions."""
    with SQLiteManager(file) as store:
        assert store.integrity_check() == []
        return {
            each.id: (
                each, store.get_conversation(each.id), store.changes(each.id),
                store.snapshots(each.id), store.notes(each.id),
            )
            for each in store.sessions()
        }  # fmt: skip


def test_a_migration_is_taken_back_exactly(run, tmp_path):
    """The store is what it was before."""
    run("migrate", chat(tmp_path / "first.jsonl", "Mine.", "Yes."))
    path = legacy_session(tmp_path / "roof.json", "How thick?", "21 cm.")
    run("migrate", path)
    before = everything()
    for name in "abc":
        chat(tmp_path / f"old/{name}.jsonl", f"{name} one.", f"{name} two.")
    chat(tmp_path / "old/first.jsonl", "Mine.", "Yes.", "More.")
    legacy_snapshot(tmp_path / "old/snap.json", "roof", "How thick?", "21 cm.")
    made = json.loads(run("migrate", "old", "--json").out)["id"]
    after = everything()
    dry = run("migrate", "--rollback", "--dry-run")
    assert "3 would be deleted, 2 would be put back" in dry.out
    assert len(re.findall(r"^[abc] +would be deleted", dry.out, re.MULTILINE)) == 3
    assert everything() == after
    done = run("migrate", "--rollback")
    assert (done.code, done.err) == (0, "")
    assert f"migration {made}: 3 deleted, 2 put back" in done.out
    assert everything() == before
    assert b"one." not in b"".join(path.read_bytes() for path in Path(STORE).parent.glob("*.db*"))
    told = json.loads((tmp_path / ".compact/migrations" / made / "manifest.json").read_text())
    assert told["state"] == "rolled back"
    assert outcomes(run("migrate", "old", "--json"))["a.jsonl", 1] == "new", (
        "and it can be repeated"
    )


def test_where_somebody_wrote_since_nothing_is_taken_back(run, tmp_path):
    """With --force it is, and the store as it was is kept."""
    for name in "ab":
        chat(tmp_path / f"old/{name}.jsonl", f"{name} one.", f"{name} two.")
    run("migrate", "old")
    with ContextManager(store=STORE, session_id="a") as ctx:
        ctx.add_message(role="user", content="Mine.")
    with ContextManager(store=STORE, session_id="new") as ctx:
        ctx.add_message(role="user", content="Mine too.")
    before = everything()
    refused = run("migrate", "--rollback")
    assert refused.code == 2
    assert "somebody wrote since: 'a', 'new'" in " ".join(refused.err.split())
    assert everything() == before
    forced = run("migrate", "--rollback", "--force", "--json")
    assert everything() == {}
    kept = json.loads(forced.out)["replaced"]
    assert run("memory", "restore-backup", kept, "--to", "kept.db").code == 0
    assert everything("kept.db") == before
    none = run("migrate", "--rollback")
    assert none.code == 2
    assert "no migration that is not taken back already" in none.err


@pytest.mark.parametrize(
    "went_on",
    [
        snapped,
        lambda file, *, name: branched(file, 1, name),
        ["sessions", "compress", "a", "--window", "4000"],
        ["mark", "a", "--goal", "Ship it."],
        ["mark", "a", "--pin", "0"],
        ["mark", "a", "--important"],
        ["mark", "a", "--title", "The roof"],
        ["mark", "a", "--tag", "roof"],
        ["mark", "a", "--mode", "debugger"],
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_whatever_a_person_did_with_a_session_keeps_it(run, tmp_path, went_on):
    words = "The roof leaks at the north end, and the gutter is full of leaves. " * 40
    chat(tmp_path / "old/a.jsonl", *[f"{n}. {words}" for n in range(20)])
    chat(tmp_path / "old/b.jsonl", "b one.", "b two.")
    run("migrate", "old")
    if callable(went_on):
        went_on(STORE, name="a")
    else:
        assert run(*went_on).code == 0
    before = everything()
    done = run("migrate", "--rollback", "--json", "--dry-run")
    assert json.loads(done.out)["changed"] == ["a"]
    assert run("migrate", "--rollback").code == 2
    assert everything() == before


def test_a_window_that_nobody_chose_is_said(run, tmp_path):
    chat(tmp_path / "a.jsonl", *["It rains on the roof again, as it did before. " * 60] * 40)
    run("migrate", "a.jsonl")
    said = "for a window of 8,192 tokens (the default; --window N chooses another)"
    assert said not in run("sessions", "compress", "a", "--window", "8000").out
    run("undo", "a")
    run("sessions", "import", "a.jsonl", "--as", "b")
    assert said in run("sessions", "compress", "b").out
    assert said not in run("sessions", "compress", "b").out, "it was used before"


def test_what_runs_by_itself_keeps_no_session(run, tmp_path):
    legacy_session(tmp_path / "old/roof.json", "How thick?", "21 cm.")
    legacy_snapshot(tmp_path / "old/snap.json", "roof", "How thick?", "21 cm.")
    chat(tmp_path / "old/b.jsonl", "b one.", "b two.")
    run("migrate", "old")
    for line in (
        ["memory", "age"],
        ["view", "b", "-o", "b.html"],
    ):
        done = run(*line)
        assert done.code == 0, (line, done.err)
    assert "2 deleted" in run("migrate", "--rollback").out


def test_migrations_are_taken_back_one_after_the_other(run, tmp_path):
    path = chat(tmp_path / "a.jsonl", "One.", "Two.")
    first = json.loads(run("migrate", path, "--json").out)["id"]
    chat(path, "One.", "Two.", "Three.")
    run("migrate", path)
    early = run("migrate", "--rollback", first)
    assert early.code == 2
    assert "somebody wrote since: 'a'" in " ".join(early.err.split())
    assert "1 put back" in run("migrate", "--rollback").out
    assert texts_of("a") == ["One.", "Two."]
    assert outcomes(run("migrate", path, "--dry-run", "--json")) == {("a.jsonl", 1): "grown"}
    assert "1 deleted" in run("migrate", "--rollback").out
    assert everything() == {}


def test_other_scopes_are_never_taken_back(run, tmp_path):
    run("migrate", chat(tmp_path / "a.jsonl", "One."), "--scope", "hers")
    for scope in ([], ["--scope", "his"]):
        done = run("migrate", "--rollback", *scope)
        assert done.code == 2
        assert "there are none at all" in done.err
    with ContextManager(store=STORE, session_id="mine") as ctx:
        ctx.add_message(role="user", content="Mine.")
    before = everything()
    for force in ([], ["--force"]):
        done = run("migrate", "--rollback", "--scope", "hers", *force)
        assert done.code == 2
        assert "'mine' of other scopes changed" in " ".join(done.err.split())
    assert everything() == before
    assert run("memory", "forget", "mine", "--yes").code == 0
    assert "1 deleted" in run("migrate", "--rollback", "--scope", "hers").out


def test_no_such_migration(run, tmp_path):
    first = json.loads(run("migrate", chat(tmp_path / "a.jsonl", "One."), "--json").out)
    done = run("migrate", "--rollback", "yesterday")
    assert done.code == 2
    assert "no migration 'yesterday'" in done.err
    assert run("migrate").code == run("migrate", "a.jsonl", "--force").code == 2
    shutil.rmtree(first["backup"])
    done = run("migrate", "--rollback")
    assert done.code == 2
    assert "has no backup: there is nothing to put back" in " ".join(done.err.split())
    assert texts_of("a") == ["One."]


def test_of_a_migration_that_was_killed_nobody_knows_who_wrote(run, tmp_path):
    made = json.loads(run("migrate", chat(tmp_path / "a.jsonl", "One."), "--json").out)
    file = Path(made["folder"]) / "manifest.json"
    told = {**json.loads(file.read_text()), "state": "running", "sessions": None}
    file.write_text(json.dumps(told))
    assert "somebody wrote since: 'a'" in " ".join(run("migrate", "--rollback").err.split())
    assert "1 deleted" in run("migrate", "--rollback", "--force").out


@pytest.mark.parametrize("moment", ["check", "copy", "manifest"])
def test_a_rollback_that_was_interrupted_goes_on(run, tmp_path, monkeypatch, moment):
    for name in "ab":
        chat(tmp_path / f"old/{name}.jsonl", f"{name} one.", f"{name} two.")
    run("migrate", "old")
    before = everything()
    places = {
        "check": (rolling_back._RollingBack, "check"),
        "copy": (backup, "_keep_archives"),
        "manifest": (manifest, "write"),
    }

    def fails(*_):
        raise StoreFailed("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(*places[moment], fails)
        done = run("migrate", "--rollback")
    assert done.code == 2
    assert "the disk is full" in done.err
    assert everything() == ({} if moment == "manifest" else before)
    assert run("migrate", "--rollback").code == 0
    assert everything() == {}


def test_archives_stand_where_they_stood(run, tmp_path):
    """Of what was archived before, and what was archived or restored since."""
    for name in ("stays", "back"):
        run("migrate", chat(tmp_path / f"{name}.jsonl", f"{name} one.", f"{name} two."))
        run("memory", "archive", name)
    run("migrate", chat(tmp_path / "late.jsonl", "late one."), "--json")
    run("migrate", chat(tmp_path / "new.jsonl", "new one."), "--json")
    run("memory", "restore", "back")
    for name in ("late", "new"):
        run("memory", "archive", name)
    assert "1 deleted" in run("migrate", "--rollback").out
    assert set(everything()) == {"stays", "back", "late"}
    assert [texts_of(name)[0] for name in ("stays", "back", "late")] == [
        "stays one.", "back one.", "late one.",
    ]  # fmt: skip
    with SQLiteManager(STORE) as store:
        assert {each.session_id for each in store.archived_sessions()} == {"stays", "back"}
    every = (tmp_path / ".compact").rglob("*.zst")
    assert len([path for path in every if "migrations" not in path.parts]) == 2


def test_nobody_writes_while_a_migration_is_taken_back(run, tmp_path, monkeypatch):
    """From the moment at which the sessions are compared."""
    run("migrate", chat(tmp_path / "a.jsonl", "One."))
    real, seen = rolling_back._RollingBack.check, []

    def check(self, settings, beside):
        with SQLiteManager(STORE, busy_timeout=0.05) as other:
            with pytest.raises(StoreFailed, match="locked"):
                other.note("a", "draft", {"words": "Mine."})
            seen.append(other.session("a"))
        real(self, settings, beside)

    monkeypatch.setattr(rolling_back._RollingBack, "check", check)
    assert run("migrate", "--rollback").code == 0
    assert len(seen) == 1


def set_metadata(store):
    store.describe("a", title=None, metadata={**store.session("a").metadata, "owner": "me"})


def keep_vector(store):
    with VectorStore(STORE, dimensions=2) as vectors:
        vectors.add("mine", [1.0, 0.0])


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (set_metadata, "'a'"),
        (lambda store: store.update_importance_score("m", 0.9), "the importance of messages"),
        (keep_vector, "vectors of an application"),
    ],
)
def test_what_an_application_wrote_since_is_not_lost(run, tmp_path, monkeypatch, write, told):
    Path(STORE).parent.mkdir()
    with SQLiteManager(STORE) as store:
        store.session("a", create=session("a"))
        store.append("a", [Entry(Message(role="user", content="Here before.", id="m"), 3)])
    run("migrate", chat(tmp_path / "b.jsonl", "One."))
    with SQLiteManager(STORE) as store:
        write(store)
    before = everything()
    done = run("migrate", "--rollback")
    assert done.code == 2
    assert f"somebody wrote since: {told}; nothing" in " ".join(done.err.split())
    assert everything() == before
    with monkeypatch.context() as patched:
        patched.setattr(backup, "_keep_archives", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            rolling_back.roll_back(store=STORE, force=True)
    assert everything() == before
    report = rolling_back.roll_back(store=STORE, force=True)
    assert (report.replaced or "").endswith("replaced-2"), "the first attempt left one"
    assert set(everything()) == {"a"}


def test_who_searches_meanwhile_finds_what_is_there_afterwards(run, tmp_path):
    """A search holds vectors by their keys: none may mean another one after a rollback."""
    Path(STORE).parent.mkdir()
    with VectorStore(STORE, dimensions=2) as vectors:
        vectors.add("mine", [1.0, 0.0])
        run("migrate", chat(tmp_path / "b.jsonl", "One."))
        vectors.add("later", [0.0, 1.0])
        assert nearest(vectors) == [("later", 1.0), ("mine", 0.0)]
        assert run("migrate", "--rollback", "--force").code == 0
        assert nearest(vectors) == [("mine", 0.0)]
        vectors.add("last", [1.0, 1.0])
        assert nearest(vectors) == [("last", 0.7), ("mine", 0.0)]


def nearest(vectors):
    """Names with their similarities."""
    found = vectors.search([0.0, 1.0])
    return [(match.name, round(match.cosine, 1)) for match in found]


@pytest.mark.slow
def test_a_huge_old_session_with_odd_ids_comes_along(run, tmp_path):
    """Very many messages of one id, one of them very long: all of it, there and back."""
    count = size(4_000, 20_000)
    texts = [f"Number {number}." for number in range(count)]
    texts[7] = "a" * 250 * count
    path = legacy_session(tmp_path / "old/roof.json", *texts)
    value = json.loads(path.read_text())
    for message in value["messages"]:
        message["timestamp"] = "2026-03-01T09:00:00.000Z"
        message["id"] = "the same"
    path.write_text(json.dumps(value))
    (row,) = json.loads(run("migrate", "old", "--json").out)["conversations"]
    assert (row["outcome"], row["added"]) == ("new", count + 2)
    messages = kept_in(STORE, "roof")
    assert [m.text for m in messages if m.role != "tool" and not m.tool_calls] == texts
    assert len({message.id for message in messages}) == len(messages)
    run("sessions", "export", "roof", "-o", "1.json")
    run("sessions", "import", "1.json", "--store", "other.db")
    run("sessions", "export", "roof", "--store", "other.db", "-o", "2.json")
    assert Path("1.json").read_bytes() == Path("2.json").read_bytes()


# --- a person's data from other programs, once, twice and grown -----------------------------------


def said_in(chat, count):
    """What a chat says, turn by turn: times a minute apart, each chat on a day of its own."""
    day = {"bread": 3, "boat": 4, "kite": 5}[chat]
    roles = ("user", "assistant")
    texts = (f"Hello, about the {chat}.", f"The {chat} it is.", f"My {chat} is red.", "Red.")
    return [
        (f"{chat}-{n}", roles[n % 2], texts[n], f"2025-03-0{day}T10:0{n}:00+00:00")
        for n in range(count)
    ]


def zipped(**files):
    """A zip with these files, and what account exports have beside them."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in files.items():
            archive.writestr(name.replace("__", "/") + ".json", json.dumps(value))
        archive.writestr("chat.html", "<html><body>Hello, about the bread.</body></html>")
        archive.writestr("pictures/one.png", b"\x89PNG\0\0")
        archive.writestr("user.json", json.dumps({"id": "u-1", "email": "wren@example.org"}))
        archive.writestr("message_feedback.json", "[]")
    return {"export.zip": data.getvalue()}


def of_chatgpt(chats):
    def conversation(name, count):
        nodes: dict[str, object] = {"top": {"parent": None, "message": None}}
        for each, role, text, at in said_in(name, count):
            nodes[each] = {"parent": [*nodes][-1], "message": {
                "id": each, "author": {"role": role}, "create_time": seconds(at),
                "content": {"content_type": "text", "parts": [text]}}}  # fmt: skip
        return {"id": f"c-{name}", "title": name, "mapping": nodes, "current_node": [*nodes][-1]}

    empty = {"id": "c-new", "title": "New chat", "mapping": {"top": {"parent": None}}}
    first, *rest = [conversation(*each) for each in chats.items()]
    return zipped(**{"conversations-000": [first, empty], "conversations-001": rest})


def of_claude(chats):
    return zipped(
        conversations=[
            {"uuid": f"u-{name}", "name": name, "chat_messages": [
                {"uuid": each, "sender": "human" if role == "user" else role, "text": text,
                 "created_at": at} for each, role, text, at in said_in(name, count)]}
            for name, count in chats.items()
        ],
        projects__one={"uuid": "p", "prompt_template": "Be kind.", "docs": []},
    )  # fmt: skip


def of_jan(chats):
    files = {}
    for name, count in chats.items():
        rows = [
            {"object": "thread.message", "thread_id": f"jan_{name}", "role": role, "id": each,
             "content": [{"type": "text", "text": {"value": text, "annotations": []}}],
             "created_at": seconds(at)} for each, role, text, at in said_in(name, count)
        ]  # fmt: skip
        about = {"object": "thread", "title": name, "metadata": {}}
        files[f"threads/jan_{name}/thread.json"] = json.dumps(about).encode()
        files[f"threads/jan_{name}/messages.jsonl"] = lines(*rows)
    return files


def of_sillytavern(chats):
    """No ids at all; every chat of a character begins with the same words."""
    head = {"user_name": "Wren", "character_name": "Sera", "chat_metadata": {}}
    return {
        f"chats/Sera/Sera - {name}.jsonl": lines(
            head,
            {"name": "Sera", "is_user": False, "mes": "Welcome.", "send_date": "2025-03-01"},
            *({"name": "Wren" if role == "user" else "Sera", "is_user": role == "user",
               "mes": text, "send_date": at} for _, role, text, at in said_in(name, count)),
        )
        for name, count in chats.items()
    }  # fmt: skip


def of_open_webui(chats):
    def chat(name, count):
        messages, before = {}, None
        for each, role, text, at in said_in(name, count):
            messages[each] = {"id": each, "parentId": before, "role": role, "content": text,
                              "timestamp": seconds(at)}  # fmt: skip
            before = each
        history = {"messages": messages, "currentId": before}
        return {"id": f"w-{name}", "title": name, "chat": {"title": name, "history": history}}

    return {"export.json": json.dumps([*map(chat, chats, chats.values())]).encode()}


def of_nobody(chats, *, timed=True):
    """A list of chats without ids, with times or without."""
    return {"all.json": json.dumps({"chats": [
        {"title": name, "messages": [
            {"role": role, "content": text, **({"createdAt": at} if timed else {})}
            for _, role, text, at in said_in(name, count)]}
        for name, count in chats.items()]}).encode()}  # fmt: skip


def of_a_line_each(chats):
    """Messages for a provider, a conversation a line: without ids, times and titles."""
    rows = (
        {"messages": [{"role": role, "content": text} for _, role, text, _ in said_in(*each)]}
        for each in chats.items()
    )
    return {"all.jsonl": lines(*rows)}


def seconds(time):
    return datetime.fromisoformat(time).timestamp()


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


KINDS: dict[str, Callable[..., dict[str, bytes]]] = {
    "chatgpt": of_chatgpt,
    "claude": of_claude,
    "jan": of_jan,
    "sillytavern": of_sillytavern,
    "openwebui": of_open_webui,
    "no ids": of_nobody,
    "neither ids nor times": partial(of_nobody, timed=False),
    "a line each": of_a_line_each,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_persons_chats_come_once_however_often_they_are_brought(kind, tmp_path):
    """Once, twice, from elsewhere, and grown: in another order, with a new one first."""

    def bring(folder, **chats):
        for name, data in KINDS[kind](chats).items():
            (tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / name).write_bytes(data)
        report = migrate(tmp_path / folder, store=tmp_path / "chat.db")
        done = [each for each in report.conversations if each.outcome != "unknown"]
        with SQLiteManager(tmp_path / "chat.db") as store:
            texts = [store.get_conversation(each.id).messages for each in store.sessions()]
        told = sorted([m.text for m in each if m.text != "Welcome."] for each in texts)
        return Counter(each.outcome for each in done), told

    def texts(**chats):
        return sorted([text for _, _, text, _ in said_in(*each)] for each in chats.items())

    old = {"bread": 2, "boat": 3}
    assert bring("march", **old) == ({"new": 2}, texts(**old))
    assert bring("march", **old) == ({"there": 2}, texts(**old))
    grown = {"kite": 2, "boat": 3, "bread": 4}
    assert bring("april", **grown) == ({"new": 1, "there": 1, "grown": 1}, texts(**grown))
    assert bring("april", **grown) == ({"there": 3}, texts(**grown))


@pytest.mark.parametrize(
    ("kind", "names"),
    [("chatgpt", "c-"), ("claude", "u-"), ("jan", "jan_"), ("openwebui", "w-")],
)
def test_a_persons_chats_keep_the_ids_and_titles_of_their_program(kind, names, run, tmp_path):
    for name, data in KINDS[kind]({"bread": 2, "boat": 3}).items():
        (tmp_path / "old" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "old" / name).write_bytes(data)
    run("migrate", "old")
    with SQLiteManager(STORE) as store:
        told = {each.id: each.title for each in store.sessions()}
    assert told == {f"{names}bread": "bread", f"{names}boat": "boat"}


def test_of_chats_without_times_one_may_begin_as_another_does(run, tmp_path):
    said = [{"role": role, "content": "Hello."} for role in ("user", "assistant", "user")]
    chats = {"chats": [{"messages": said[:2]}, {"messages": said}]}
    (tmp_path / "all.json").write_text(json.dumps(chats))
    assert set(outcomes(run("migrate", "all.json", "--json")).values()) == {"new"}


def test_what_an_export_holds_besides_is_counted_and_no_error(run, tmp_path):
    """An empty chat, a message that nobody said, pages, pictures, settings."""
    (name, data), = of_chatgpt({"bread": 2}).items()  # fmt: skip
    (tmp_path / name).write_bytes(data)
    done = run("migrate", name)
    assert done.code == 0
    assert "conversations-000.json#1" in done.out
    assert "1 conversation without a message" in done.err
    assert "5 files hold no conversation" in done.err
    [report] = Path(".compact/migrations").glob("*/manifest.json")
    told = {Path(each["path"]).name: each["reason"] for each in
            json.loads(report.read_text())["conversations"]}  # fmt: skip
    assert told["one.png"] == told["chat.html"] == "no conversation: a page or binary data"
    [first, empty] = json.loads(zipfile.ZipFile(name).read("conversations-000.json"))
    first["mapping"]["odd"] = {"parent": first["current_node"], "message": {"content": {}}}
    first["current_node"] = "odd"
    Path("conversations.json").write_text(json.dumps([{**first, "id": "odd"}, empty]))
    done = run("migrate", "conversations.json", "--json")
    assert done.code == 0, "an empty chat beside others is no error"
    found = json.loads(done.out)["conversations"][0]
    assert (found["outcome"], found["messages"]) == ("new", 2)
    assert "expected an author with a role" in found["notes"][0]


def test_a_zip_that_cannot_be_read_says_why(run, tmp_path, monkeypatch):
    """Limits hold whatever sizes a zip states; nothing is unpacked to the disk."""
    (_, good), = of_chatgpt({"bread": 2}).items()  # fmt: skip
    locked = bytearray(good)
    for mark, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        locked[good.index(mark) + at] |= 1
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("export.zip", good)
        archive.writestr("notes.pdf", b"%PDF\0")
    for data, reason in (
        (good[: len(good) // 2], "a zip that cannot be read"),
        (inner.getvalue(), "a zip without a conversation: export.zip, notes.pdf"),
        (bytes(locked), "password required"),
    ):
        (tmp_path / "x.zip").write_bytes(data)
        done = run("migrate", "x.zip")
        assert done.code == 2
        assert reason in done.err
    monkeypatch.setattr("compact.transcripts.zipped.LARGEST_ZIP", 100)
    (tmp_path / "x.zip").write_bytes(good)
    assert "larger than" in run("migrate", "x.zip").err
    assert "a zip: `compactctl migrate`" in run("tokens", "x.zip").err
    assert not list(tmp_path.rglob("conversations*"))

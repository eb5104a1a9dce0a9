"""`compactctl memory status`, `embed`, `schedule` and the archive's commands (A-5, A-7)."""

import json
import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from compact import SQLiteManager
from compact.apps.cli import progress
from compact.core.messages import Message
from compact.core.sessions import Branch, Entry, Session

FORGET = ["memory", "forget"]


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
    assert (told["archived"], told["levels"]) == (1, {"summary": 1})
    assert told["archive_bytes"] > 0
    assert harbour in run("memory", "archived").out
    assert run("memory", "verify").out == "1 archive, all as written\n"
    found = run("search", "harbour")
    assert "In the archive" in found.out
    assert run("sessions", "export", harbour).out == said, "it is read from its archive"
    assert run("memory", "restore", harbour).code == 0
    assert status(run)["archived"] == 0
    back = run("sessions", "export", harbour).out
    assert re.sub(r', "restored_at": "[^"]+"', "", back) == said


def test_a_missing_archive_is_an_error_that_says_so(run, harbour):
    assert run("memory", "archive", harbour).code == 0
    for file in Path().rglob("*.originals.zst"):
        file.unlink()
    done = run("memory", "verify")
    assert done.code == 2
    assert f"{harbour}: " in done.out
    assert "is missing" in done.out
    assert run("sessions", "list").code == 0
    assert "is missing: put it back" in run("sessions", "export", harbour).err


@pytest.mark.parametrize("how", ["missing", "altered"])
def test_the_doctor_looks_at_archives_without_being_told_to(run, harbour, how):
    assert run("memory", "archive", harbour).code == 0
    assert "1 archive, all as written" in run("doctor").out
    for file in Path().rglob("*.originals.zst"):
        data = file.read_bytes()
        file.unlink() if how == "missing" else file.write_bytes(data[:-1] + b"!")
    done = run("doctor")
    assert done.code == 2
    assert "1 broken" in done.out


def test_archives_that_take_long_to_read_are_said_to_be_unread(run, harbour, monkeypatch):
    assert run("memory", "archive", harbour).code == 0
    monkeypatch.setattr("compact.apps.cli.checks.READ_SOON", 100)
    done = run("doctor")
    assert (done.code, "1 archive not checked: doctor --check" in done.out) == (0, True)
    assert run("doctor", "--check").code == 0


def test_forgetting_is_deleting_under_another_name(run, harbour):
    told, other = (run(*words, "--help").out for words in (["sessions", "delete"], FORGET))
    assert told.replace("sessions delete", "") != told
    assert other.partition("\n\n")[2] == told.partition("\n\n")[2]
    assert "forget" in run("memory", "--help").out
    assert run(*FORGET, harbour).code == 2, "there is nobody to ask"
    done = json.loads(run(*FORGET, harbour, "--yes", "--json").out)
    assert (done["deleted"], done["complete"]) == (harbour, True)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("age --now 2099-01-01", "Ageing 1 of 1 sessions"),
        ("archive harbour", "Archiving 0 of 1 sessions"),
        ("verify", "Verifying 1 of 1 archives"),
        ("schedule --once", "Ageing 1 of 1 sessions"),
    ],
)
def test_long_work_says_how_far_it_is(run, harbour, monkeypatch, words, shown):
    seen: list[str] = []
    if words == "verify":
        run("memory", "archive", harbour)
    monkeypatch.setattr(progress.Progress, "now", lambda _, text: seen.append(text))
    assert run("memory", *words.split()).code == 0
    assert seen[0] == shown


def test_without_an_embedder_it_says_which_there_are(run, harbour):
    done = run("memory", "embed")
    assert done.code == 2
    assert "COMPACT_EMBEDDER=minilm" in done.err


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


def test_one_run_of_the_schedule_is_a_job(run, old):
    told = json.loads(run("memory", "schedule", "--once", "--store", old, "--json").out)
    assert told["complete"]
    assert (told["written"], len(told["archive"]["archived"])) == (1, 1)
    assert "0 archived" in run("memory", "schedule", "--once", "--store", old).out


def test_what_is_kept_whole_is_not_archived_with_the_others(run, old, monkeypatch):
    monkeypatch.setenv("COMPACT_RETAIN_SCORE", "0.1")
    done = run("memory", "archive", "--store", old)
    assert "0 sessions archived" in done.out
    assert "1 session kept whole whatever the age:" in done.err
    assert "old: importance 0." in done.err
    assert "1 session archived" in run("memory", "archive", "old", "--store", old).out


@pytest.mark.slow
def test_the_schedule_runs_until_it_is_interrupted(old):
    command = [sys.executable, "-m", "compact"]
    options = ["memory", "schedule", "--every", "0.001", "--store", str(old)]
    given = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=given
    ) as process:
        assert process.stdout is not None
        assert "1 archived" in process.stdout.readline()
        assert "0 archived" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert "Traceback" not in out + err
    assert "stopped" in err, (process.returncode, out, err)
    with SQLiteManager(old) as store:
        assert list(store.db.execute("SELECT * FROM leases")) == []

"""`compactctl memory status`, `embed`, `schedule` and the archive's commands (A-5, A-7)."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from compact import SQLiteManager
from compact.core.messages import Message
from compact.core.sessions import Branch, Entry, Session


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
    assert run("sessions", "export", harbour).out == said


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


def test_without_an_embedder_it_says_which_there_are(run, harbour):
    done = run("memory", "embed")
    assert done.code == 2
    assert "COMPACT_EMBEDDER=minilm" in done.err


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

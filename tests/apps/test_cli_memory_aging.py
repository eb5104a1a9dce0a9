"""`compactctl memory`: what ageing does, and why a session is kept (A-2, A-6)."""

import json

import pytest


@pytest.fixture
def harbour(run, sample):
    """The sample in the store of this folder; its last message is of 2025-10-16."""
    assert run("sessions", "import", sample).code == 0
    return "harbour"


def test_a_dry_run_shows_what_would_be_done(run, harbour):
    done = run("memory", "age", "--dry-run", "--now", "2099-01-01", "--json")
    told = json.loads(done.out)
    assert done.code == 0
    assert (told["dry_run"], told["rows"][0]["session_id"]) == (True, harbour)
    shown = run("memory", "age", "--dry-run", "--now", "2099-01-01")
    assert "to do" in shown.out
    assert "1 digest would be written" in shown.out or "importance" in shown.out


def test_ageing_writes_a_digest_once(run, harbour, monkeypatch):
    monkeypatch.setenv("COMPACT_RETAIN_SCORE", "1")
    told = json.loads(run("memory", "age", "--now", "2099-01-01", "--json").out)
    row = told["rows"][0]
    assert (told["written"], row["due"], row["action"]) == (1, "metadata", "write, archive")
    assert 0.3 <= row["tokens_after"] / row["tokens_before"] <= 0.4
    again = run("memory", "age", "--now", "2099-01-01")
    assert "1 digest written" in again.out, "what is known about a session of a year"
    last = json.loads(run("memory", "age", "--now", "2099-01-01", "--json").out)
    assert (last["written"], last["archive"]) == (0, None)


def test_why_shows_each_part(run, harbour):
    told = json.loads(run("memory", "why", harbour, "--json").out)
    assert set(told["parts"]) == {"engagement", "density", "questions", "span", "worth"}
    assert told["score"] == pytest.approx(sum(told["adds"].values()))
    assert told["kept"] == (told["score"] >= told["keep_score"])
    shown = run("memory", "why", harbour)
    assert all(part in shown.out for part in (*told["parts"], "together"))
    run("sessions", "describe", harbour, "--important")
    marked = run("memory", "why", harbour)
    assert "kept whole whatever its age" in marked.out
    assert "marked it as important" in marked.out


def test_an_empty_memory_says_so(run, harbour):
    done = run("memory", "age", "--scope", "nobody")
    assert done.code == 0
    assert "no sessions in scope 'nobody'" in done.err

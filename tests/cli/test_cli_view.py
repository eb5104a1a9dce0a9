"""`compactctl view` writes a page of its own, and nothing else (K-15)."""

import json
import re

import pytest

from compact import SQLiteManager
from compact.messages.messages import Message
from compact.messages.sessions import Branch, Entry, Session

SECRET = "ghp_" + "a1B2c3D4e5" * 4


@pytest.fixture
def chat(tmp_path):
    """A store with one session, a secret in it."""
    with SQLiteManager(tmp_path / "chat.db") as store:
        branch = Branch(id="quay", session_id="quay")
        store.session("quay", create=Session(id="quay", branch=branch))
        said = ("Is the quay dry?", f"my token is {SECRET}", "half an emoji \ud83d, and </script>")
        store.append("quay", [Entry(Message(role="user", content=text), 9) for text in said])
    return tmp_path / "chat.db"


def data_of(file):
    page = file.read_text(encoding="utf-8")
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(data)


def test_the_page_holds_the_session_and_no_secret(run, chat, tmp_path):
    done = run("view", "quay", "--store", chat, "-o", "quay.html", "--json")
    told = json.loads(done.out)
    assert (told["messages"], told["redacted_messages"]) == (3, 1)
    assert SECRET not in (tmp_path / "quay.html").read_text(encoding="utf-8")
    texts = data_of(tmp_path / "quay.html")["messages"]["text"]
    assert "</script>" in texts[2]
    run("view", "quay", "--store", chat, "-o", "quay.html", "--verbatim")
    assert SECRET in (tmp_path / "quay.html").read_text(encoding="utf-8")


def test_by_default_it_is_named_after_the_session(run, chat, tmp_path):
    assert "wrote quay.html (3 messages" in run("view", "quay", "--store", chat).out
    assert (tmp_path / "quay.html").exists()


def test_another_file_is_not_replaced(run, chat, tmp_path):
    (tmp_path / "notes.html").write_text("my notes")
    done = run("view", "quay", "--store", chat, "-o", "notes.html")
    assert done.code == 2
    assert "--force" in done.err
    assert (tmp_path / "notes.html").read_text() == "my notes"
    assert run("view", "quay", "--store", chat, "-o", "notes.html", "--force").code == 0


def test_nothing_is_loaded_and_only_this_script_runs(run, chat, tmp_path):
    run("view", "quay", "--store", chat, "-o", "quay.html")
    page = (tmp_path / "quay.html").read_text(encoding="utf-8")
    assert "content=\"default-src 'none'; script-src 'sha256-" in page
    assert not re.search(r'(?:src|href)="(?!#)', page)


def test_a_conversation_in_a_file_is_replayed(run, sample, tmp_path):
    """As if it had been held in that window; no store is made, and the file stays as it is."""
    before = sample.read_bytes()
    done = run("view", sample, "--window", 8_000, "--json")
    told = json.loads(done.out)
    assert (told["out"], told["messages"]) == ("harbour.html", 511)
    assert told["steps"] > 10
    data = data_of(tmp_path / "harbour.html")
    assert data["session"]["replayed"]
    assert data["window"]["size"] == 8_000
    assert [p.name for p in tmp_path.iterdir()] == ["harbour.html"]
    assert sample.read_bytes() == before


def test_a_page_knows_what_was_never_sent(run, chat, sample, tmp_path):
    """A session from a file was sent to nobody in this window, one that was held here was."""
    run("sessions", "import", sample, "--as", "brought")
    run("view", "brought", "-o", "brought.html")
    run("view", "quay", "--store", chat, "-o", "quay.html")
    assert data_of(tmp_path / "brought.html")["session"]["imported"]
    assert not data_of(tmp_path / "quay.html")["session"]["imported"]


def test_a_file_that_is_no_conversation_says_so(run, tmp_path):
    (tmp_path / "notes.txt").write_text("nothing\n")
    done = run("view", "notes.txt")
    assert (done.code, done.out) == (2, "")
    assert "notes.txt" in done.err
    assert not (tmp_path / "notes.html").exists()

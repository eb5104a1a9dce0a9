"""`compactctl sessions import`: without loss, never twice, all or nothing (US-8)."""

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

from compact import ContextManager, wiring
from tests.cli.conftest import ROOT, kept_in, refused

unix = pytest.mark.skipif(os.name == "nt", reason="pipes with names are Unix's")


# --- import ---------------------------------------------------------------------------------------


def test_every_format_comes_in_with_ids_times_and_title(run, fixtures, tmp_path, transcript):
    """US-8: what was read is what is kept."""
    done = run("sessions", "import", fixtures / transcript)
    assert done.code == 0, done
    read = wiring.read_transcript(fixtures / transcript)
    session_id = done.out.strip()
    assert session_id == transcript.split(".")[0]
    kept = kept_in(".compact/sessions.db", session_id)
    assert [m.id for m in kept] == [m.id for m in read.messages]
    assert [m.content for m in kept] == [m.content for m in read.messages]
    told = json.loads(run("sessions", "list", "--json").out)["sessions"][0]
    assert (told["messages"], told["title"]) == (len(kept), read.title)
    assert (told["format"], told["model"]) == (read.wire, read.model)
    for note in read.notes:
        assert " ".join(note.split())[:60] in done.err
    if transcript in (
        "claude_code.jsonl",
        "codex_cli.jsonl",
        "copilot_cli.jsonl",
        "gemini_cli.json",
        "legacy_session.json",
        "opencode.jsonl",
        "pi.jsonl",
    ):  # files with times
        assert [m.timestamp for m in kept] == [m.timestamp for m in read.messages]
        assert told["created_at"] == read.messages[0].timestamp.isoformat()


@pytest.mark.parametrize(
    ("name", "number", "title"),
    [("chatgpt_export.json", 1, "Frames"), ("claude_export.json", 2, "Tide pools"),
     ("sqlite_chats.db", 1, "Nets")],
)  # fmt: skip
def test_one_conversation_of_many_is_imported_by_its_number(run, fixtures, name, number, title):
    """MIG: of an account's export, or of a database."""
    refused(run("sessions", "import", fixtures / name), "choose one with --conversation N")
    done = run("sessions", "import", fixtures / name, "--conversation", number)
    assert done.code == 0, done
    told = json.loads(run("sessions", "list", "--json").out)["sessions"][0]
    assert told["title"] == title


def test_a_session_has_the_model_that_is_asked_for_else_the_files(run, fixtures):
    for asked, model in (((), "gpt-5.5"), (("--model", "gpt-4o"), "gpt-4o")):
        run("sessions", "import", fixtures / "codex_cli.jsonl", "--as", model, *asked)
        assert json.loads(run("show", model, "--json").out)["model"] == model


def test_only_import_makes_a_store_and_says_where(run, sample, tmp_path):
    done = run("sessions", "import", sample)
    assert (done.code, done.out) == (0, "harbour\n")
    assert "511 messages, 89,908 tokens" in done.err
    assert (tmp_path / ".compact" / "sessions.db").is_file()
    assert run("sessions", "import", sample, "--store", "other.db").code == 0
    refused(run("sessions", "import", sample, "--store", "no/such/s.db"), "/no/such; make it first")


@pytest.mark.slow
@unix
def test_a_store_is_for_its_owner_only(run, sample, tmp_path):
    """And nobody commits it by mistake; a folder that is there stays as it is."""
    before = os.umask(0o022)
    try:
        run("sessions", "import", sample)
        run("sessions", "import", sample, "--store", "other.db")
        (tmp_path / "report").write_text("")
    finally:
        os.umask(before)
    folder = tmp_path / ".compact"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {".compact": 0o700, "other.db": 0o600, "report": 0o644}
    assert stat.S_IMODE((folder / "sessions.db").stat().st_mode) == 0o600
    assert (folder / ".gitignore").read_text() == "*\n"
    (folder / ".gitignore").unlink()
    folder.chmod(0o750)
    run("sessions", "import", sample, "--as", "second")
    assert not (folder / ".gitignore").exists()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750


def test_what_was_left_out_is_called_so(run, tmp_path):
    """A number of rows is no note to whoever has never seen the format."""
    rows = [
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
        {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": "s",
         "timestamp": "2025-01-01T00:00:00Z", "message": {"role": "user", "content": "hi"}},
    ]  # fmt: skip
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)) + '\n{"type": "us')
    done = run("sessions", "import", "a.jsonl")
    assert done.code == 0, done
    assert done.err.splitlines()[0].startswith("1 message, ")
    assert "left out: 1 file-history-snapshot row\n" in done.err
    assert "note: the last line is half written\n" in done.err


@pytest.mark.slow
def test_nothing_is_imported_twice_under_one_id(run, sample):
    """A session is never touched by an import."""
    run("sessions", "import", sample)
    refused(run("sessions", "import", sample), "there is a session 'harbour'", "--as ID")
    refused(run("sessions", "import", sample, "--scope", "b"), "there is a session 'harbour'")
    assert run("sessions", "import", sample, "--as", "second", "--title", "Again").out == "second\n"
    listed = json.loads(run("sessions", "list", "--json").out)["sessions"]
    assert {s["id"]: (s["messages"], s["title"]) for s in listed} == {
        "harbour": (511, None),
        "second": (511, "Again"),
    }


def test_standard_input_wants_a_name(run, sample):
    data = sample.read_bytes()
    refused(run("sessions", "import", "-", stdin=data), "--as ID")
    assert run("sessions", "import", "-", "--as", "  piped ", stdin=data).out == "piped\n"
    assert len(kept_in(".compact/sessions.db", "piped")) == 511


@pytest.mark.slow
@unix
def test_a_pipe_is_read_once_and_whole(run, sample, tmp_path):
    """It gives its bytes only once, and not all of them at once."""
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    data = sample.read_bytes()
    first = data.index(b"\n") + 1

    def write():
        with pipe.open("wb") as stream:
            stream.write(data[:first])
            stream.flush()
            time.sleep(0.2)
            stream.write(data[first:])

    for arguments, reason in ((["--as", "whole"], None), ([], "--as ID")):
        writer = threading.Thread(target=write)
        writer.start()
        done = run("sessions", "import", pipe, *arguments)
        writer.join()
        if reason:
            refused(done, reason)
        else:
            assert done.out == "whole\n"
    read = wiring.read_transcript(sample)
    kept = kept_in(".compact/sessions.db", "whole")
    assert [m.content for m in kept] == [m.content for m in read.messages]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("chat.2024-01.json", "chat.2024-01"),
        ("chat.2024-02.json", "chat.2024-02"),
        ("a.log.json", "a"),
        ("b.MD.JSONL", "b"),
        (".json", ".json"),
        ("notes", "notes"),
        ("v1.2", "v1.2"),
    ],
)
def test_a_name_loses_known_endings_only(run, tmp_path, file, name):
    (tmp_path / file).write_text('[{"role": "user", "content": "hi"}]')
    assert run("sessions", "import", file).out == f"{name}\n"


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\x1b[2J", "x" * 201])
def test_a_name_that_is_none_is_refused(run, sample, name):
    refused(run("sessions", "import", sample, "--as", name), "--as ID")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"[]", "no messages"),
        (bytes(range(256)), "binary"),
        (b'{"hello": 1}', "unknown format"),
    ],
)
def test_a_broken_file_makes_no_session_and_no_store(run, tmp_path, content, reason):
    (tmp_path / "file.json").write_bytes(content)
    refused(run("sessions", "import", "file.json"), reason)
    refused(run("sessions", "import", "none.json"), "no such file")
    refused(run("sessions", "import", "."), "directory")
    assert [path.name for path in tmp_path.iterdir()] == ["file.json"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("full")])
@pytest.mark.parametrize("where", ["history.SessionHistory.append", "messages.append"])
def test_what_fails_on_the_way_leaves_nothing(run, sample, monkeypatch, error, where):
    """All of it or nothing."""
    room = "compact.session" if where.startswith("history") else "compact.store.sqlite"
    with monkeypatch.context() as broken:

        def fail(*_, **__):
            raise error

        broken.setattr(f"{room}.{where}", fail)
        assert run("sessions", "import", sample).code in (2, 130)
    assert json.loads(run("sessions", "list", "--json").out)["total"] == 0
    assert run("sessions", "import", sample).code == 0


def test_another_process_that_was_faster_wins(run, sample, monkeypatch):
    """Its session stays as it is."""
    from compact.cli.commands import sessions_import

    real = sessions_import._store

    def slow(shelf, whole):
        with ContextManager(store=shelf.file, session_id=whole.session.id) as ctx:
            ctx.add_message(role="user", content="I was first.")
        real(shelf, whole)

    monkeypatch.setattr(sessions_import, "_store", slow)
    refused(run("sessions", "import", sample), "another process made a session 'harbour'")
    assert [m.content for m in kept_in(".compact/sessions.db", "harbour")] == ["I was first."]


KILLED = """
import os, signal, sys
from compact.store.sqlite import {module}

real = {module}.{name}

def killed(*arguments, **named):
    real(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)

{module}.{name} = killed
from compact.cli.main import main
sys.exit(main(["sessions", "import", {sample!r}]))
"""


@pytest.mark.slow
@unix
@pytest.mark.parametrize("step", ["sessions.create", "messages.append"])
def test_an_import_that_is_killed_leaves_nothing(run, sample, step):
    """All of it comes in or nothing, whenever the process ends."""
    module, name = step.split(".")
    script = KILLED.format(module=module, name=name, sample=str(sample))
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", script], env=environ, check=False)
    assert done.returncode == -signal.SIGKILL
    assert json.loads(run("sessions", "list", "--json").out)["total"] == 0


def test_tool_schemas_come_along_and_are_counted(run, fixtures):
    """FR-3: the whole prompt."""
    run("sessions", "import", fixtures / "chat_object.json")
    read = wiring.read_transcript(fixtures / "chat_object.json")
    counter = wiring.token_counter(read.wire)
    seen = json.loads(run("show", "chat_object", "context", "--json").out)
    assert seen["tokens"] == counter.messages(read.messages) + counter.tools(read.tools)

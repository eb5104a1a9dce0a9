"""`compactctl sessions`: kept in a file, listed, shown, compressed, deleted for good (US-8)."""

import contextlib
import json
import os
import re
import sys
import tempfile
from pathlib import Path

import pytest

from compact import ContextManager, wiring
from compact.cli import stores
from compact.errors import NotFound
from compact.messages.messages import Message
from compact.messages.sessions import Branch, Entry, Session
from tests.cli.conftest import branched, refused, snapped
from tests.pace import slowness
from tests.telemetry.ariadne_server import AriadneServer

unix = pytest.mark.skipif(os.name == "nt", reason="modes are Unix's")


def made(file, *ids, scope="default"):
    """A store with short sessions of those ids."""
    for name in ids:
        with ContextManager(store=file, session_id=name, scope=scope) as ctx:
            ctx.add_message(role="user", content=f"I am in {name}.")


READING = (
    ["sessions", "list"],
    ["show", "x"],
    ["sessions", "export", "x"],
    ["sessions", "compress", "x"],
    ["memory", "forget", "x", "--yes"],
    ["show", "x", "history"],
    ["show", "x", "context"],
    ["recall", "x", "y"],
    ["expand", "x", "y"],
    ["show", "x", "checkpoints"],
    ["mark", "x", "--title", "y"],
    ["undo", "x"],
    ["undo", "x", "--to", "y"],
    ["view", "x"],
)


# --- the store ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_store_that_is_not_there_is_an_error_and_never_made(run, tmp_path, command):
    """K-11: the error names the option and the way to make one."""
    refused(run(*command), ".compact", "--store FILE", "sessions import")
    refused(run(*command, "--store", "chat.db"), "chat.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_what_is_no_store_is_refused_and_left_as_it_is(run, tmp_path, command):
    (tmp_path / "text.db").write_text("Dear diary, today I wrote no database.\n" * 200)
    (tmp_path / "empty.db").write_bytes(b"")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    refused(run(*command, "--store", "text.db"), "text.db is ", "no database")
    refused(run(*command, "--store", "empty.db"), "empty.db is an empty file")
    refused(run(*command, "--store", tmp_path), "a folder")
    refused(run(*command, "--store", "a\0b"), "a\\x00b")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_store_whose_bytes_were_changed_names_the_repair(run, chat):
    data = bytearray(chat.read_bytes())
    for at in range(4_096, len(data), 4_096):
        data[at : at + 200] = b"\xff" * 200
    chat.write_bytes(data)
    for name in (f"{chat}-wal", f"{chat}-shm"):
        if os.path.exists(name):
            os.remove(name)
    refused(run("sessions", "list", "--store", chat), "doctor --store", "--repair")


def test_the_store_may_come_from_the_settings(run, chat, monkeypatch, tmp_path):
    """K-10: file, .env, environment, option; the later counts."""
    (tmp_path / ".env").write_text("COMPACT_STORE=chat.db\n")
    assert "harbour" in run("sessions", "list").out
    monkeypatch.setenv("COMPACT_STORE", "other.db")
    refused(run("sessions", "list"), "other.db")
    assert "harbour" in run("sessions", "list", "--store", chat).out


@contextlib.contextmanager
def somebody_else():
    """As a user whom modes stop, where this one is root; modules are loaded already."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65_534, 65_534, 0)  # the real id too: SQLite and we ask for both
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.mark.slow
@unix
@pytest.mark.parametrize("folder", [0o555, 0o777])
def test_a_read_only_store_can_be_read_and_says_so_when_written(run, chat, monkeypatch, folder):
    """A file that cannot be written, in a folder that can, and in one that cannot."""
    mark, undo = ["mark", "harbour", "--goal", "Sail."], ["undo", "harbour"]
    writing = (mark, undo, ["memory", "forget", "harbour", "--yes"])
    for command in (["sessions", "list"], mark, undo, ["show", "harbour", "history"]):
        assert run(*command, "--store", chat).code == 0  # everything is loaded
    before = run("show", "harbour", "history", "--store", chat).out
    with tempfile.TemporaryDirectory() as name:  # pytest's own folder is closed to others
        shelf = Path(name)
        (shelf / "chat.db").write_bytes(chat.read_bytes())
        (shelf / "chat.db").chmod(0o444)
        shelf.chmod(folder)
        monkeypatch.chdir(shelf)
        with somebody_else():
            for command in (
                ["sessions", "list"],
                ["show", "harbour", "context"],
                ["show", "harb", "checkpoints"],
            ):
                assert run(*command, "--store", shelf / "chat.db").code == 0
            assert run("show", "harbour", "history", "--store", shelf / "chat.db").out == before
            for command in writing:
                refused(run(*command, "--store", shelf / "chat.db"), "read-only")
        shelf.chmod(0o755)
        monkeypatch.chdir("/")


# --- names ----------------------------------------------------------------------------------------


def test_a_session_is_named_by_its_id_or_by_how_it_begins(run, tmp_path):
    made(tmp_path / "s.db", "alpha", "alphabet", "beta")
    at = ("--store", "s.db")
    assert "I am in alpha." in run("show", "alpha", "history", *at).out, "a whole id counts first"
    assert "I am in beta." in run("show", "b", "history", *at).out
    refused(run("show", "alp", "history", *at), "2 session ids begin with 'alp'", "'alphabet'")
    refused(run("show", "bata", "history", *at), "did you mean 'beta'?")
    refused(run("show", "zzz", "history", *at), "there are 'beta', 'alphabet', 'alpha'")
    refused(run("show", "", "history", *at), "no session ''")


# --- list and show --------------------------------------------------------------------------------


def test_the_list_shows_the_newest_last_and_as_many_as_asked_for(run, tmp_path):
    made(tmp_path / "s.db", *(f"s{number}" for number in range(8)))
    done = run("sessions", "list", "--store", "s.db", "--most", "3")
    lines = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert [line.split()[0] for line in lines if line.startswith("s")] == [
        "session",
        "s5",
        "s6",
        "s7",
    ]
    assert "5 older ones" in lines[0]
    listed = json.loads(run("sessions", "list", "--store", "s.db", "--json").out)
    assert (listed["total"], len(listed["sessions"])) == (8, 8)


def test_whoever_reads_a_pipe_gets_whole_ids_on_one_line(run, tmp_path):
    name = "x" * 150
    with ContextManager(store=tmp_path / "s.db", session_id=name, title="word " * 40) as ctx:
        ctx.add_message(role="user", content="hi")
    *_, line = run("sessions", "list", "--store", "s.db").out.splitlines()
    assert line.split()[0] == name
    assert line.split()[-1] == "default"


def test_an_empty_store_lists_nothing(run, tmp_path):
    wiring.session_store(tmp_path / "s.db").close()
    assert run("sessions", "list", "--store", "s.db").out == "s.db: no sessions\n"
    assert json.loads(run("sessions", "list", "--store", "s.db", "--json").out)["sessions"] == []
    refused(run("show", "x", "history", "--store", "s.db"), "there is none at all")


def test_show_says_what_a_session_consists_of(run, chat):
    """US-8: branches and snapshots too, where there are any; the screen `show` shows them."""
    assert "snapshot" not in run("show", "harbour", "--store", chat).out
    snapped(chat, "before")
    branched(chat, 50)
    told = json.loads(run("show", "harb", "--store", chat, "--json").out)
    assert told["now"]["messages"] == 50
    assert told["now"]["window"] == 4_000, "the window it was used with"
    assert [branch["messages"] for branch in told["branches"]] == [120, 50]


@pytest.mark.timing
def test_ten_thousand_messages_are_listed_quickly(process, tmp_path):
    """A page is read, whatever the length of the session; the interpreter's start included.
    Of the processor's time: a busy machine takes none of it away.
    """
    file = tmp_path / "s.db"
    store = wiring.session_store(file)
    store.session("long", create=Session(id="long", branch=Branch(id="long", session_id="long")))
    messages = [Message(role="user", content=f"message {n}", id=f"m{n}") for n in range(10_000)]
    store.append("long", [Entry(message, 5) for message in messages])
    store.close()
    for command in (
        ["sessions", "list"],
        ["show", "long", "history"],
        ["show", "long", "history", "--from", "2"],
    ):
        before = os.times()
        done = process(*command, "--store", file)
        assert done.code == 0
        after = os.times()
        user = after.children_user - before.children_user
        assert user + after.children_system - before.children_system < 3 * slowness()
    last = run_lines = process("show", "long", "history", "--store", file).out.splitlines()
    assert "message 9999" in last[-1]
    assert len(run_lines) == 51


# --- compress -------------------------------------------------------------------------------------


def test_a_session_is_compressed_by_hand_and_can_be_taken_back(run, chat):
    """K-6: the history stays."""
    at = ("--store", chat)
    before = json.loads(run("show", "harbour", *at, "--json").out)
    done = run("sessions", "compress", "harbour", *at, "--target-ratio", "0.2", "--json")
    told = json.loads(done.out)
    assert told["tokens"] < before["now"]["tokens"]
    assert told["messages"] == 120
    assert "'harbour': 120 messages" in run("sessions", "compress", "harbour", *at).out
    assert run("undo", "harbour", *at).code == 0
    after = json.loads(run("show", "harbour", *at, "--json").out)
    assert after["now"] == before["now"]


# --- delete ---------------------------------------------------------------------------------------


class Terminal:
    """Standard input of a person who types an answer."""

    def __init__(self, answer):
        self._answer = answer

    def isatty(self):
        return True

    def readline(self):
        return self._answer


def deleting(capsys, monkeypatch, answer, *arguments):
    """Delete on a terminal; exit code and what was asked."""
    from compact.cli.main import main

    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    code = main(["memory", "forget", *map(str, arguments)])
    return code, capsys.readouterr().err


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "no\n", "maybe\n"])
def test_deleting_asks_and_anything_but_yes_means_no(capsys, monkeypatch, chat, answer):
    code, asked = deleting(capsys, monkeypatch, answer, "harb", "--store", chat)
    assert code == 0
    assert "Delete session 'harbour' (A harbour), 120 messages, for good? [y/N] " in asked
    assert "nothing was deleted" in asked
    assert wiring.store_at(chat).session("harbour")


@pytest.mark.parametrize("answer", ["y\n", "YES\n"])
def test_deleting_really_deletes(capsys, monkeypatch, run, chat, answer):
    """No word of it stays in the file or beside it, where others do."""
    made(chat, "keep")
    secret = b"never write to the production database"
    assert secret in chat.read_bytes() + open_log(chat)
    code, asked = deleting(capsys, monkeypatch, answer, "harb", "--store", chat)
    assert code == 0
    assert "deleted session 'harbour', 120 messages" in asked
    left = chat.read_bytes() + open_log(chat)
    assert secret not in left
    assert b"Brammersund" not in left
    assert b"I am in keep." in left
    refused(run("show", "harbour", "history", "--store", chat), "no session 'harbour'")


def test_what_other_branches_hold_is_deleted_and_counted_too(run, chat):
    branched(chat, 20)
    with ContextManager(window=4_000, store=chat, session_id="harbour") as ctx:
        ctx.add_message(role="user", content="Let us try a lighthouse instead.")
    done = run("memory", "forget", "harbour", "--yes", "--store", chat, "--json")
    assert json.loads(done.out)["messages"] == 121
    left = chat.read_bytes() + open_log(chat)
    assert b"lighthouse" not in left
    assert b"Brammersund" not in left


def test_a_person_is_deleted_whole_and_nobody_else(capsys, monkeypatch, run, chat):
    for name in ("one", "two"):
        made(chat, name, scope="anna")
    refused(run("memory", "forget", "--store", chat), "name one session")
    refused(run("memory", "forget", "one", "--person", "anna", "--store", chat), "name one session")
    at = ("--person", "anna", "--store", chat)
    refused(run("memory", "forget", *at, "--scope", "bob", "--yes"), "name one session")
    _, asked = deleting(capsys, monkeypatch, "n\n", *at)
    assert "Delete scope 'anna', 2 sessions, 2 messages, for good? [y/N] " in asked
    done = run("memory", "forget", *at, "--yes", "--json")
    told = json.loads(done.out)
    assert (done.code, told["person"], told["complete"]) == (0, "anna", True)
    assert told["removed"]["sessions"] == 2
    assert [each.id for each in wiring.store_at(chat).sessions()] == ["harbour"]


def open_log(file):
    log = file.with_name(file.name + "-wal")
    return log.read_bytes() if log.exists() else b""


def test_copies_of_compressions_go_too_and_what_is_left_is_told(run, chat, monkeypatch):
    """One verb: as `MemoryManager.forget`."""
    copies = chat.parent / "copies"
    monkeypatch.setenv("COMPACT_ARCHIVE", str(copies))
    (copies / "harbour").mkdir(parents=True)
    (copies / "harbour/summary-001.json").write_text("never write to the production database")
    left = chat.parent / (chat.name + ".damaged-1")
    left.write_bytes(chat.read_bytes() + open_log(chat))
    done = run("memory", "forget", "harbour", "--yes", "--store", chat)
    assert done.code == 2
    assert f"{left}, which a repair kept, may still hold words of it" in " ".join(done.err.split())
    assert not (copies / "harbour").exists()
    rows = [line.split() for line in done.err.splitlines()]
    assert ["messages", "120"] in rows
    assert ["copies", "1"] in rows


def test_what_came_while_the_person_thought_is_counted(capsys, monkeypatch, chat):
    class Slow(Terminal):
        def readline(self):
            with ContextManager(window=4_000, store=chat, session_id="harbour") as ctx:
                ctx.add_message(role="user", content="One more.")
            return "y\n"

    monkeypatch.setattr(sys.modules[__name__], "Terminal", Slow)
    _, asked = deleting(capsys, monkeypatch, "", "harb", "--store", chat)
    assert "120 messages, for good?" in asked
    assert "deleted session 'harbour', 121 messages" in asked


def test_nobody_is_asked_where_there_is_no_terminal(run, chat):
    refused(run("memory", "forget", "harbour", "--store", chat, stdin=b"y\n"), "--yes")
    assert wiring.store_at(chat).session("harbour")


def test_yes_deletes_only_what_is_named_whole(run, chat):
    refused(run("memory", "forget", "harb", "--yes", "--store", chat), "the full id: 'harbour'")
    done = run("memory", "forget", "harbour", "--yes", "--store", chat, "--json")
    told = json.loads(done.out)
    assert (told["deleted"], told["messages"], told["complete"]) == ("harbour", 120, True)
    assert told["removed"]["messages"] == 120
    assert told["remains"] == []
    with pytest.raises(NotFound):
        wiring.store_at(chat).session("harbour")


# --- endings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        ("NotFound", 2, "gone"),
        ("StoreFailed", 2, "gone"),
        ("StoreDamaged", 2, "gone"),
        ("Superseded", 2, "Try again"),
        ("WrongLayer", 70, "a bug in compact: WrongLayer"),
    ],
)
def test_each_error_has_its_ending(run, chat, monkeypatch, error, code, words):
    """NFR-4: one line; only what is ours is called ours."""
    from compact import errors

    def broken(*_, **__):
        raise getattr(errors, error)("gone")

    monkeypatch.setattr(stores, "context_of", broken)
    refused(run("undo", "harbour", "--store", chat), words, code=code)


def test_a_compression_tells_of_all_checkpoints_it_made(run, sample):
    run("sessions", "import", sample)
    at = ("sessions", "compress", "harbour", "--window", "32000")
    done = run(*at)
    made = re.findall(r"^(ck-\w+): ([\d,]+) messages? of", done.out, re.M)
    seen = json.loads(run("show", "harbour", "--window", "32000", "--json").out)
    assert [name for name, _ in made] == seen["now"]["checkpoints"]
    assert len(made) > 1


def test_ids_are_shared_by_scopes_and_it_is_said(run, sample):
    run("sessions", "import", sample, "--scope", "alice")
    told = run("sessions", "import", sample).err
    assert "scope 'alice'; scopes share their ids" in told
    assert "--scope alice" in run("show", "harbour", "context").err


@pytest.mark.slow
def test_what_cannot_fit_names_a_number_that_fits_and_ways_that_are_there(run, tmp_path):
    rows = [{"role": "user", "content": "word " * 100}, {"role": "assistant", "content": "a " * 90}]
    rows += [{"role": "user", "content": "hold " * 400}]
    (tmp_path / "c.json").write_text(json.dumps(rows))
    done = run("compact", "c.json", "--max-tokens", "100", "-o", "o.json")
    assert done.code == 1
    assert "--max-tokens" in done.err
    for absent in ("system prompt", "pin", "tools", "put_aside("):
        assert absent not in done.err
    needed = re.findall(r"needs ([\d,]+)", done.err)[0]
    assert run("compact", "c.json", "--max-tokens", needed, "-o", "o.json").code == 0


def test_compressing_reports_to_the_exporters_and_the_archive(run, sample, tmp_path, monkeypatch):
    """K-8, K-13: as a program's own session does."""
    archive = tmp_path / "archive"
    with contextlib.closing(AriadneServer()) as server:
        monkeypatch.setenv("COMPACT_ARIADNE_URL", server.url)
        monkeypatch.setenv("COMPACT_ARCHIVE", str(archive))
        run("sessions", "import", sample)
        done = run("sessions", "compress", "harbour", "--window", "32000", "--target-ratio", "0.2")
        assert done.code == 0, done.err
        spans = server.spans()
    assert {span["trace_id"] for span in spans} == {"harbour"}
    assert "compact.compression" in {span["name"] for span in spans}
    assert any(path.is_file() for path in archive.rglob("*")), "what it left behind"


# --- recall ------------------------------------------------------------------------------------


def test_what_is_recalled_for_the_newest_message_is_shown_on_demand(run, tmp_path):
    """`show SESSION context --recall` shows what would be quoted, and stores nothing."""
    file = tmp_path / "chat.db"
    with ContextManager(store=file, session_id="spring", title="Papers") as ctx:
        ctx.add_message(role="user", content="Our ferry licence number ends in 7731.")
        ctx.add_message(role="assistant", content="Noted.")
    with ContextManager(store=file, session_id="new") as ctx:
        ctx.add_message(role="user", content="How does our ferry licence number end?")
    plain = run("show", "new", "context", "--store", file, "--text")
    recalled = run("show", "new", "context", "--store", file, "--text", "--recall")
    assert "7731" not in plain.out
    assert "7731" in recalled.out
    assert "memory" in run("show", "new", "context", "--store", file, "--recall").out
    with ContextManager(store=file, session_id="new") as ctx:
        assert ctx.store.changes("new") == []

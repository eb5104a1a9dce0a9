"""Where bytes go: whole files or none, full disks, closed pipes, poor terminals (K-11)."""

import ast
import errno
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from compact import ContextManager
from compact.cli import output
from compact.cli.errors import Stop
from tests.pace import slowness

FULL = Path("/dev/full")
unix = pytest.mark.skipif(
    os.name == "nt", reason="devices, signals and children's times are Unix's"
)
full = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")


# --- files ----------------------------------------------------------------------------------------


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path):
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(0o640)
    assert output.write(str(path), "néw") == 4
    assert path.read_bytes() == "néw".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@unix
def test_a_new_file_gets_the_mode_that_the_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        output.write(str(tmp_path / "out"), "a")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_leaves_what_was_there_and_nothing_else(tmp_path, monkeypatch, step):
    """A disk that is full at the last moment loses nothing."""
    path = tmp_path / "out"
    path.write_text("old")

    def no_room(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, no_room)
    monkeypatch.setattr(Path, "replace", no_room)
    with pytest.raises(Stop, match="out: cannot be written: No space left on device"):
        output.write(str(path), "new" * 1000)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@unix
def test_a_link_keeps_pointing_where_it_points(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/real")
    output.write(str(tmp_path / "link"), "a")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "real").read_text() == "a"


@unix
def test_what_is_no_file_is_written_not_replaced(tmp_path):
    """A device or a pipe with a name; a pipe here, lest a mistake cost the machine a device."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        output.write(str(pipe), "data")
        assert os.read(reader, 9) == b"data"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_the_input_is_replaced_only_when_told_to(run, sample, tmp_path):
    path = tmp_path / "chat.jsonl"
    path.write_bytes(sample.read_bytes())
    (tmp_path / "other").hardlink_to(path)
    for name in ("chat.jsonl", "./chat.jsonl", "other"):
        assert run("compact", path, "--max-tokens", "8000", "-o", name).code == 2
    assert path.read_bytes() == sample.read_bytes()
    assert run("compact", path, "--max-tokens", "8000", "-o", path, "--force").code == 0
    assert path.stat().st_size < 60_000


@pytest.mark.sampled(5)
@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_store_is_never_replaced(run, sample, chat, tmp_path, ending, force):
    """Neither by an export nor by a conversation, whatever its name, forced or not."""
    (tmp_path / "link").symlink_to(f"{chat}{ending}")
    before = chat.read_bytes()
    export = ["sessions", "export", "harbour", "--store", chat]
    for out in (f"{chat}{ending}", f"chat.db{ending}", "link"):
        for command in (export, ["compact", sample, "--max-tokens", "8000"]):
            done = run(*command, "-o", out, *force)
            assert (done.code, done.out) == (2, ""), done
            assert "a store" in done.err
    assert chat.read_bytes() == before
    assert "harbour" in run("sessions", "list", "--store", chat).out


def test_the_files_of_the_store_are_known_under_any_name(run, chat, tmp_path):
    """The log beside a store may be linked, and looks like no database."""
    (tmp_path / "other").hardlink_to(chat)
    with ContextManager(window=4_000, store=chat, session_id="harbour") as ctx:
        ctx.add_message(role="user", content="Somebody is writing.")
        (tmp_path / "log").hardlink_to(f"{chat}-wal")
        for out in ("other", "log"):
            done = run("sessions", "export", "harbour", "--store", chat, "-o", out, "--force")
            assert done.code == 2
            assert "store" in done.err


def test_an_export_replaces_exports_and_nothing_else_unless_told_to(run, chat, tmp_path):
    export = ["sessions", "export", "harbour", "--store", chat, "-o"]
    for name in ("h.json", "h.md"):
        assert [run(*export, name).code for _ in range(2)] == [0, 0], "its own may be replaced"
    for name, text in (("mine.json", '{"a": 1}'), ("mine.md", "# Notes\n\n- session: none\n")):
        (tmp_path / name).write_text(text)
        done = run(*export, name)
        assert (done.code, "--force" in done.err) == (2, True)
        assert (tmp_path / name).read_text() == text
        assert run(*export, name, "--force").code == 0
        assert (tmp_path / name).stat().st_size > 10_000


@pytest.mark.slow
@full
def test_a_full_disk_is_one_line(process, sample):
    with FULL.open("wb") as device:
        done = process("compact", sample, "--max-tokens", "8000", stdout=device,
                       stderr=subprocess.PIPE)  # fmt: skip
    assert (done.code, done.err) == (
        2,
        "compactctl: standard output: cannot be written: No space left on device\n",
    )
    with FULL.open("wb") as device:
        done = process("demo", stdout=device, stderr=subprocess.PIPE)
    assert (done.code, done.err) == (2, "compactctl: output: No space left on device\n")


# --- pipes and signals ----------------------------------------------------------------------------


@pytest.mark.slow
@unix
@pytest.mark.parametrize(
    "arguments",
    [
        ["demo"],
        ["compact", "FILE", "--max-tokens", "8000"],
        ["show", "harbour", "context", "--text", "--store", "chat.db"],
    ],
    ids=lambda each: each[0],
)
@pytest.mark.parametrize("both", [False, True], ids=["output", "errors too"])
def test_a_reader_who_left_ends_without_a_traceback(process, sample, chat, arguments, both):
    given = [sample if argument == "FILE" else argument for argument in arguments]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = process(*given, stdout=pipe, stderr=pipe if both else subprocess.PIPE)
    assert done.code == 141
    assert "Traceback" not in done.err
    assert "Exception ignored" not in done.err
    assert done.err.count("\n") <= 1


@unix
@pytest.mark.parametrize("wait", [0.05, 0.3, 2])
def test_an_interrupt_ends_quietly(sample, wait):
    """While modules are imported, and while it waits for its input."""
    env = {**os.environ, "PYTHONPATH": str(sample.parents[3])}
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start += "from compact.cli.entry import run; print('up', end='', flush=True); run()"
    command = [sys.executable, "-c", start, "tokens", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as running:
        assert running.stdout is not None
        running.stdout.read(2)
        time.sleep(wait)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert out == b""
    assert b"Traceback" not in err


# --- terminals ------------------------------------------------------------------------------------

POOR = {"PYTHONIOENCODING": "ascii"}
LATIN = {"PYTHONIOENCODING": "latin-1"}
POSIX = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("command", ["demo", "diff", "context"])
@pytest.mark.parametrize("env", [POOR, POSIX, LATIN])
def test_a_terminal_without_unicode_gets_a_readable_report(process, sample, chat, command, env):
    given = {
        "demo": ["demo"],
        "diff": ["diff", sample, "--max-tokens", "4000"],
    }
    done = process(*given.get(command, ["show", "harbour", command, "--store", chat]), env=env)
    assert (done.code, done.err) == (0, "")
    assert "##" in done.out
    if env != LATIN:
        assert done.out.isascii()


@pytest.mark.slow
def test_data_is_utf_8_whatever_the_terminal(process, sample):
    done = process("compact", sample, "--max-tokens", "8000", env=POOR)
    assert done.code == 0
    assert "（" in done.out or "ü" in done.out
    assert all(json.loads(line) for line in done.out.splitlines())


# --- speed ----------------------------------------------------------------------------------------


def best_of(tries, run):
    """The least of the processor's time that the children of some runs take, in seconds."""

    def took():
        before = os.times()
        assert getattr(run(), "code", 0) == 0
        after = os.times()
        user = after.children_user - before.children_user
        return user + after.children_system - before.children_system

    return min(took() for _ in range(tries))


@pytest.mark.timing
@unix
def test_help_is_quick(process):
    """Under 300 ms, or on a slow machine five times what its own parser of commands
    takes to be imported: nothing heavy is imported for it.
    """
    parser = best_of(9, lambda: subprocess.run([sys.executable, "-c", "import typer"], check=True))
    assert best_of(9, lambda: process("--help")) < max(0.3, 5 * parser)


HEAVY = (
    *("rich", "yaml", "orjson", "asyncio", "compact.wiring", "compact.messages.messages"),
    *("compact.config", "compact.cli.errors", "compact.cli.render"),
)
"""What only a command needs that is carried out."""


def imported_by(*arguments):
    """Which of the heavy modules a run imports."""
    code = (
        f"import sys; from compact.cli.main import main; main({arguments!r}); "
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(output.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=env)
    return ast.literal_eval(done.stderr.decode())


@pytest.mark.parametrize(
    "arguments",
    [
        *((), ("--help",), ("--version",), ("sessions", "--help"), ("memory", "--help")),
    ],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(arguments):
    assert imported_by(*arguments) == []


def test_a_command_imports_what_it_needs_when_it_is_called():
    assert set(imported_by("validate-config")) > {"rich", "compact.wiring"}


def test_the_names_of_commands_are_completed_without_their_modules():
    """A shell's completion asks a group which commands it has, and what each is for."""
    code = (
        "import sys; import typer; from compact.cli.main import command_line; "
        "group = command_line(); context = group.make_context('compactctl', ['x']); "
        "found = group.shell_complete(context, 'se'); "
        f"print([c.value for c in found], [m for m in {HEAVY!r} if m in sys.modules])"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(output.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=env)
    assert done.stdout.decode().strip() == "['serve', 'search', 'sessions'] []"


@pytest.mark.timing
@unix
def test_the_demo_takes_less_than_two_seconds(process):
    """Offline: no proxy, no home folder, no network is asked for."""
    assert best_of(3, lambda: process("demo")) < 2 * slowness()

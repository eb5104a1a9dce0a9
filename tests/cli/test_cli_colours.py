"""Colours, help and completion, on a terminal and in a pipe (K-11)."""

import io
import os
import re
import shutil
import subprocess
import sys

import pytest

from compact import ContextManager
from compact.cli import words
from compact.cli.main import COMMANDS

if os.name == "nt":
    pytest.skip("terminals of this kind are Unix's", allow_module_level=True)

import fcntl
import pty
import struct
import termios

CODES = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(*arguments, columns=80, **environment):
    """What a command shows on a terminal of so many columns."""
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.environ.update(TERM="xterm-256color", PYTHONIOENCODING="utf-8", **environment)
        os.execv(sys.executable, [sys.executable, "-m", "compact", *map(str, arguments)])
    shown = b""
    while True:
        try:
            more = os.read(terminal, 65_536)
        except OSError:  # the child has closed it
            break
        if not more:
            break
        shown += more
    os.waitpid(child, 0)
    os.close(terminal)
    return shown.decode().replace("\r\n", "\n")


class Stream(io.StringIO):
    """A stream that says what it is."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.mark.parametrize(
    ("chosen", "given", "on_a_terminal", "in_a_pipe"),
    [
        ("auto", {}, True, False),
        ("auto", {"NO_COLOR": "1"}, False, False),
        ("auto", {"NO_COLOR": ""}, True, False),
        ("auto", {"FORCE_COLOR": "1"}, True, True),
        ("auto", {"CLICOLOR_FORCE": "1"}, True, True),
        ("auto", {"FORCE_COLOR": "0"}, True, False),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ("auto", {"TERM": "dumb"}, False, False),
        ("auto", {"CLICOLOR": "0"}, False, False),
        ("always", {"NO_COLOR": "1"}, True, True),
        ("never", {"FORCE_COLOR": "1"}, False, False),
    ],
)
def test_who_asks_for_colours_is_heard(monkeypatch, chosen, given, on_a_terminal, in_a_pipe):
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    before = words.COLOUR.set(chosen)
    try:
        assert words.wants_colour(Stream(is_terminal=True)) is on_a_terminal
        assert words.wants_colour(Stream(is_terminal=False)) is in_a_pipe
        assert not words.wants_colour(None)
    finally:
        words.COLOUR.reset(before)


def test_the_option_holds_for_reports_and_for_one_command(run, sample):
    """For `less -R`; the next command of a process asks anew."""
    plain = run("tokens", sample).out
    coloured = run("tokens", sample, "--color", "always").out
    assert CODES.search(coloured)
    assert CODES.sub("", coloured) == plain
    assert not CODES.search(run("tokens", sample).out)


def test_an_error_is_marked_red_on_a_terminal_only(run):
    assert "\x1b[1;31mcompactctl:\x1b[0m nofile: no such file" in on_terminal("tokens", "nofile")
    assert run("tokens", "nofile").err == "compactctl: nofile: no such file\n"


def test_help_fits_one_screen_and_cuts_no_sentence(run, monkeypatch):
    """Of 34 rows and 80 columns; a group's fit 24."""
    monkeypatch.setenv("COLUMNS", "80")
    for path, (name, sep) in ((), ("", " ")), (("sessions",), ("sessions ", "\0")):
        rows = run(*path, "-h").out.rstrip("\n").split("\n")
        assert len(rows) <= (24 if path else 34)
        assert max(map(len, rows)) <= 80
        for command, line in COMMANDS.items():
            if command.startswith(name) and sep not in command:
                assert f"  {command.removeprefix(name)}  " in "\n".join(rows)
                assert any(row.endswith(line) for row in rows), line


def test_no_id_is_cut_at_eighty_columns(run, tmp_path):
    """Whoever lists sessions wants their ids: also of those that are found, or in the archive."""
    store, name = tmp_path / "chat.db", "3f2a81b0-5c1d-4e9a-9f3b-0a1b2c3d4e5f"
    with ContextManager(window=8_192, store=store, session_id=name) as ctx:
        ctx.add_message(role="user", content="Which berths are free in winter?")
    options = {"COMPACT_STORE": str(store), "NO_COLOR": "1"}
    for arguments in (("search", "berths", "--sessions"), ("memory", "archive", name),
                      ("memory", "status"), ("sessions", "list")):  # fmt: skip
        assert name in on_terminal(*arguments, **options), arguments


# --- completion -----------------------------------------------------------------------------------


def completed(words):
    """What bash is offered for the last of these words."""
    environment = {
        **os.environ,
        "_COMPACTCTL_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("compactctl", *words)),
        "COMP_CWORD": str(len(words)),
    }
    command = [sys.executable, "-m", "compact"]
    done = subprocess.run(
        command, env=environment, capture_output=True, encoding="utf-8", check=True
    )
    return done.stdout.split()


def test_commands_and_options_are_completed():
    assert completed(["sess"]) == ["sessions"]
    assert completed(["sessions", "comp"]) == ["compress"]
    assert completed(["dry-run", "--max"]) == ["--max-tokens"]
    assert completed(["tokens", "--color", "al"]) == ["always"]
    assert {path.partition(" ")[0] for path in COMMANDS} <= set(completed([""]))


def test_sessions_are_completed(tmp_path, monkeypatch):
    """Those of the store that is meant; where there is none, nothing is said."""
    for name in ("harbour", "hangar", "quay"):
        with ContextManager(window=8_192, store=tmp_path / "chat.db", session_id=name) as ctx:
            ctx.add_message(role="user", content="Is the quay dry?")
    asked = ["show", "--store", str(tmp_path / "chat.db"), "ha"]
    assert sorted(completed(asked)) == ["hangar", "harbour"]
    monkeypatch.setenv("COMPACT_STORE", str(tmp_path / "chat.db"))
    assert completed(["show", "q"]) == ["quay"]
    monkeypatch.setenv("COMPACT_STORE", str(tmp_path / "none.db"))
    assert completed(["show", "q"]) == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_what_is_installed_works_in_a_real_shell(tmp_path):
    """As a person would: install it, open a shell, press Tab."""
    home, tool = tmp_path / "home", tmp_path / "bin"
    home.mkdir()
    tool.mkdir()
    script = tool / "compactctl"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m compact "$@"\n')
    script.chmod(0o755)
    environment = {**os.environ, "HOME": str(home), "PATH": f"{tool}:{os.environ['PATH']}"}
    shell = ["bash", "-c", "compactctl --install-completion; echo done with $?"]
    done = subprocess.run(
        shell, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    assert "bash completion installed in" in done.stdout, done
    assert "done with 0" in done.stdout
    pressed = (
        ". ~/.bashrc; COMP_WORDS=(compactctl sessions co); COMP_CWORD=2; "
        "$(complete -p compactctl | sed 's/.*-F \\([^ ]*\\).*/\\1/') compactctl; "
        "echo ${COMPREPLY[@]}"
    )
    done = subprocess.run(
        ["bash", "-c", pressed], env=environment, capture_output=True, encoding="utf-8", check=False
    )
    assert done.stdout.split() == ["compress"], done

"""`compactctl serve` says what it does, and refuses in time what cannot work."""

from __future__ import annotations

import socket
import sys

import pytest

from compact.cli.main import main
from tests.serve.test_answers import started

HERE = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--upstream", "localhost:11434"], "no server's address"),
        (["--upstream", "ftp://localhost"], "no server's address"),
        ([], "--upstream"),
        (["--upstream", HERE, "--window", "10"], "--window"),
        (["--upstream", HERE, "--tokenizer", "nothing"], "unknown name"),
        (["--upstream", HERE, "--tokenizer", "nothing.json"], "nothing.json"),
        (["--upstream", HERE, "--store", "/nowhere/s.db"], "no folder"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(capsys, words, reason):
    assert main(["serve", "--port", "0", *words]) == 2
    done = capsys.readouterr()
    (line,) = done.err.splitlines()
    assert reason in line
    assert not done.out


def test_a_port_that_is_taken_is_named(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--upstream", HERE, "--port", str(port)]) == 2
    assert f"port {port}" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_it_says_where_it_listens_and_where_sessions_are_kept(recorder, host):
    command = [sys.executable, "-m", "compact", "serve", "--upstream", recorder[1]]
    command += ["--host", host, "--port", "0"]
    running = started(command)
    try:
        assert running.stdout is not None
        first, second = running.stdout.readline(), running.stdout.readline()
        assert first.startswith(f"http://{host}:")
        assert recorder[1] in first
        assert "in memory" in second
    finally:
        running.kill()
        _, err = running.communicate(timeout=60)
    assert ("other machines" in err) == (host == "0.0.0.0")

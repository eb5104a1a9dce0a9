"""What the tests of the command line share: running it here, and as a process of its own."""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from compact import ContextManager, wiring

ROOT = Path(__file__).resolve().parents[2]


class Ran(NamedTuple):
    """What a run gave."""

    code: int
    out: str
    err: str


def refused(done, *reasons, code=2):
    """The one line on stderr, which holds the reasons; nothing is on stdout."""
    assert (done.code, done.out) == (code, ""), done
    (line,) = done.err.splitlines()
    assert "compactctl:" in line  # coloured on a terminal
    for reason in reasons:
        assert reason in line
    return line


@pytest.fixture(scope="session")
def sample():
    """The conversation that comes with the package."""
    return ROOT / "src/compact/cli/sample/harbour.jsonl"


@pytest.fixture(scope="session")
def fixtures():
    """Small files of every format."""
    return ROOT / "tests/fixtures/transcripts"


@pytest.fixture(
    params=(
        "anthropic_object.json",
        "chat_lines.jsonl",
        "chat_object.json",
        "claude_code.jsonl",
        "codex_cli.jsonl",
        "copilot_cli.jsonl",
        "gemini_cli.json",
        "legacy_session.json",
        "opencode.jsonl",
        "pi.jsonl",
        "specstory_claude.md",
        "specstory_codex.md",
    )
)
def transcript(request):
    """The name of one file of each format in turn."""
    return request.param


@pytest.fixture(autouse=True)
def _clean(monkeypatch, tmp_path):
    """No settings of the machine, an empty folder, a known width."""
    for name in list(os.environ):
        if name.startswith("COMPACT_") or name in ("FORCE_COLOR", "COLUMNS"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a command in this process."""

    def _run(*arguments, stdin=b""):
        from compact.cli.main import main

        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return _run


@pytest.fixture
def process():
    """Run a command as a process of its own; options go to `subprocess.run`."""

    def _process(*arguments, env=None, **options):
        command = [sys.executable, "-m", "compact", *map(str, arguments)]
        path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        environ = {**os.environ, "PYTHONPATH": path, **(env or {})}
        if "stdout" not in options:
            options |= {"capture_output": True}
        done = subprocess.run(command, env=environ, timeout=60, check=False, **options)
        return Ran(
            done.returncode,
            (done.stdout or b"").decode("utf-8", "replace"),
            (done.stderr or b"").decode("utf-8", "replace"),
        )

    return _process


@pytest.fixture(scope="session")
def _made_chat(tmp_path_factory, sample):

    messages = wiring.read_transcript(sample).messages[:120]
    file = tmp_path_factory.mktemp("chat") / "chat.db"
    with ContextManager(window=4_000, store=file, session_id="harbour", title="A harbour") as ctx:
        for number, message in enumerate(messages, 1):
            ctx.add_message(message)
            if number % 10 == 0:
                ctx.get_context_for_model()
    return file


@pytest.fixture
def chat(_made_chat, tmp_path):
    """A store with one session, `harbour`, of the sample's first 120 messages, compressed for a
    window of 4,000 tokens as they came; its file.
    """
    return Path(shutil.copyfile(_made_chat, tmp_path / "chat.db"))


def kept_in(file, name):
    """The messages of a session as the store has them."""
    store = wiring.store_at(file)
    try:
        session = store.session(name)
        return [e.message for e in store.read(session.branch.id, 0, session.branch.messages)]
    finally:
        store.close()


def snapped(file, note="", name="harbour"):
    """The id of a new snapshot of a session."""
    with ContextManager(window=4_000, store=file, session_id=name) as ctx:
        return ctx.time.snapshot(note).id


def branched(file, at, name="harbour"):
    """Begin a branch of a session with its first messages."""
    with ContextManager(window=4_000, store=file, session_id=name) as ctx:
        ctx.time.branch(at=at)

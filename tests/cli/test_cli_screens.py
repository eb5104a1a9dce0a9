"""What a person sees of the commands, pinned as screens of 80 columns (K-11).

After a change that is meant: `COMPACT_NEW_SCREENS=1 pytest tests/cli/test_cli_screens.py`, and
read what changed in `screens/`.
"""

import os
import re
from pathlib import Path

import pytest

from compact import ContextManager
from tests.cli.conftest import branched, snapped

SCREENS = Path(__file__).with_name("screens")
RENEWED = bool(os.environ.get("COMPACT_NEW_SCREENS"))
LIMIT = ("--max-tokens", "8000")
COMMANDS = {
    "help": ["-h"],
    "compact": ["compact", "SAMPLE", *LIMIT, "-o", "out.jsonl"],
    "dry-run": ["dry-run", "SAMPLE", *LIMIT],
    "diff": ["diff", "SAMPLE", *LIMIT],
    "tokens": ["tokens", "SAMPLE", "--model", "gpt-4o"],
    "show": ["show", "harbour"],
    "show-context": ["show", "harbour", "context", "--most", "12"],
    "show-checkpoints": ["show", "harbour", "checkpoints"],
    "search": ["search", "winter berths", "--most", "2"],
    "sessions-list": ["sessions", "list"],
    "sessions-compress": ["sessions", "compress", "harbour", "--target-ratio", "0.2"],
    "migrate": ["migrate", "FIXTURES", "--dry-run"],
}
"""Screen → the command that gives it."""
VARY = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d", "YYYY-MM-DD HH:MM"),
    (r"\d{4}-\d\d-\d\d(?! HH)", "YYYY-MM-DD"),
    (r"(ck|sn)-[0-9a-f]{12}", r"\1-xxxxxxxxxxxx"),
    (r"\b[0-9a-f]{8}(?=  )", "xxxxxxxx"),
    (r"digest \d+", "digest 1"),
    (r"\d+\.\d s\b", "0.0 s"),
    (r"[\d,]+ bytes", "1 bytes"),
    (r"archive( +)(?:\S+\n +)*\S*chat-archive", r"archive\1chat-archive"),
)
"""What is another one each time → what stands for it."""


@pytest.fixture
def prepared(chat, monkeypatch):
    """The session with a branch, a snapshot, goals and a pin, in the store of the settings."""
    snapped(chat, "before the storm")
    branched(chat, 110)
    with ContextManager(window=4_000, store=chat, session_id="harbour") as ctx:
        ctx.goals.set(["Open the winter berths on the 10th."])
        ctx.pin(ctx.history[3])
    monkeypatch.setenv("COMPACT_STORE", "chat.db")
    monkeypatch.setenv("COLUMNS", "80")


def steady(text):
    """The text without what varies, and without blanks at the ends of lines."""
    for pattern, instead in VARY:
        text = re.sub(pattern, instead, text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("name", COMMANDS)
def test_the_screen_is_as_it_was(run, sample, fixtures, name):
    places = {"SAMPLE": "harbour.jsonl", "FIXTURES": fixtures}
    Path("harbour.jsonl").write_bytes(sample.read_bytes())
    done = run(*(places.get(each, each) for each in COMMANDS[name]))
    shown = steady(done.out + done.err)
    file = SCREENS / f"{name}.txt"
    if RENEWED:
        file.write_text(shown, encoding="utf-8")
    assert done.code in (0, 2 if name == "migrate" else 0)
    assert shown == file.read_text(encoding="utf-8")

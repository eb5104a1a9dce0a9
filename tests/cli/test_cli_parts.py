"""The parts the commands share: pins, `.env`, bars, progress (K-10, K-11)."""

import io
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from compact.cli import progress, render, settings, words
from compact.cli.jobs import positions_of
from compact.cli.render import PARTS
from compact.config import CompactConfig
from compact.messages.events import ModelAskedAgain, ModelReplaced, StageStarted, SummaryReplaced
from compact.messages.messages import Message, Text, Thinking, ToolCall, ToolResult

MESSAGES = [
    Message(role="user", content="never push", id="a"),
    Message(role="assistant", content=(Thinking("never push?"), ToolCall("c", "run", "git push"))),
    Message(role="tool", content=(ToolResult("c", "pushed"),)),
    Message(role="user", content=(Text("a"),), id="b"),
]


@pytest.mark.parametrize(
    ("pins", "positions"),
    [
        ((), []),
        (("0", "+1"), [0, 1]),
        (("-1", "3"), [3]),
        (("a",), [0]),  # an id counts more than a text
        (("push",), [0, 1, 2]),
        (("never push",), [0]),  # reasoning is not what was said
    ],
)
def test_pins_are_numbers_ids_or_texts(pins, positions):
    """K-4: what a person pins."""
    assert positions_of(pins, MESSAGES) == positions


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("COMPACT_MODEL=a", "a"),
        ("  export COMPACT_MODEL = a ", "a"),
        ("COMPACT_MODEL='a # b'  # c", "a # b"),
        ('COMPACT_MODEL="a"', "a"),
        ("COMPACT_MODEL=a#b # c", "a#b"),
        ("COMPACT_MODEL=", ""),
        ("COMPACT_MODEL= # c", ""),
        ("# COMPACT_MODEL=a", None),
        ("MODEL=a", None),
        ("COMPACT_MODEL", None),
        ("COMPACT_MODEL=b\nCOMPACT_MODEL=a", "a"),
    ],
)
def test_lines_of_an_env_file(line, value):
    """K-10: `.env`, of which only settings are looked at."""
    assert settings.settings_in(line).get("COMPACT_MODEL") == value


def test_the_environment_counts_more_than_the_env_file(tmp_path):
    lines = "COMPACT_KEEP_TOOL_PAIRS=1\nCOMPACT_KEEP_USER_MESSAGES=1\nOTHER=1\n"
    (tmp_path / ".env").write_text(lines)
    found = settings.variables_of(tmp_path / ".env")
    assert settings.variables_of(tmp_path / "none") == {}
    effective = CompactConfig.load(environ={"COMPACT_KEEP_TOOL_PAIRS": "2"}, env_file=found)
    assert (effective.keep_tool_pairs, effective.keep_user_messages) == (2, 1)
    assert effective.origin("keep_user_messages") == "COMPACT_KEEP_USER_MESSAGES in .env"


@given(st.lists(st.integers(0, 10**6), max_size=8), st.integers(8, 120))
def test_a_bar_has_its_width_and_shows_every_part(tokens, width):
    parts = dict(zip(PARTS, tokens, strict=False))
    text = render.bar(parts, sum(tokens), width, ascii_only=True).plain
    shown = [name for name in parts if parts[name]]
    assert len(text) == (width if shown else 0)
    assert set(text) == {PARTS[name].plain_mark for name in shown}
    legend = " ".join(render.legend(parts, width, ascii_only=True).plain.split())
    assert all(f" {name} {parts[name]:,}" in legend for name in shown)


@given(st.text())
def test_one_line_is_one_line_without_control_characters(text):
    line = words.one_line(text, 40)
    assert len(line) <= 40
    assert all(c.isprintable() for c in line)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def test_progress_appears_after_a_while_follows_the_stages_and_vanishes(monkeypatch):
    """Progress on long work, on a terminal alone (FR-9)."""
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(progress, "DELAY", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    with progress.Progress("Reading") as shown:
        deadline = time.monotonic() + 60
        while "Reading" not in screen.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        shown.on_event(StageStarted(stage="summarize", done=0.3))
    text = screen.getvalue()
    assert "Reading…" in text
    assert "summarizing…" in text
    assert text.endswith(("\x1b[2K", "\x1b[?25h", "\x1b[1A\x1b[2K"))


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_quick_work_and_pipes_see_no_progress(monkeypatch, stream):
    screen = stream()
    monkeypatch.setattr("sys.stderr", screen)
    with progress.Progress("Reading") as shown:
        waiting = [t for t in threading.enumerate() if isinstance(t, threading.Timer)]
        assert bool(waiting) == screen.isatty(), "nobody waits to draw where nobody looks"
        shown.now("Writing")
    time.sleep(0.02)
    assert screen.getvalue() == ""


def test_what_was_done_instead_is_said_when_the_work_has_ended(monkeypatch):
    """(FR-9, US-7) One line each, also where nothing is drawn; waiting is shown only meanwhile."""
    screen = io.StringIO()
    monkeypatch.setattr("sys.stderr", screen)
    with progress.Progress("Compressing context") as shown:
        shown.on_event(ModelAskedAgain(model="one", attempt=1, wait=0.1, reason="it is busy"))
        shown.on_event(ModelReplaced(model="one", by="two", reason="it is busy"))
        shown.on_event(SummaryReplaced(made_by="extractive", reason="garbage:\nno language"))
        assert screen.getvalue() == ""
    lines = screen.getvalue().splitlines()
    assert lines == [
        "compactctl: two is asked instead of one: it is busy",
        "compactctl: The summary was not used, an extracted one is: garbage: no language",
    ]


def test_parts_of_a_bar_look_different():
    """By their marks, not by colours alone; a part keeps its mark, whatever others there are."""
    parts = {"system": 0, "pinned": 3, "checkpoint": 0, "recent": 9, "free": 1}
    drawn = render.bar(parts, 13, 13, ascii_only=True).plain
    assert drawn == "***" + "=" * 9 + "."
    assert render.legend(parts, 80, ascii_only=True).plain == "* pinned 3   = recent 9   . free 1"
    for marks in ({p.mark for p in PARTS.values()}, {p.plain_mark for p in PARTS.values()}):
        assert len(marks) == len(PARTS)
        assert all(cell_len(mark) == 1 for mark in marks)
    assert all(look.plain_mark.isascii() for look in PARTS.values())

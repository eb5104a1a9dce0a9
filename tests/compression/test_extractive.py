"""The extractive summarizer: sections, anchors, caps, and the bundled sample (C-8, K-4, FR-8)."""

import asyncio
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

import pytest

from compact import ExtractiveSummarizer, Message, compress, plan
from compact.compression.extraction.notes import Notes
from compact.core.checkpoints import Summary, SummaryRequest
from compact.core.tokens import TokenCounter
from compact.providers.tokenizers import tokenizer
from compact.testing import check_summarizer

COUNTER = TokenCounter(tokenizer("o200k"))
SAMPLE = resources.files("compact.apps.cli") / "sample" / "harbour.jsonl"


def said(role: str, text: str, **more: object) -> Message:
    return Message.of({"role": role, "content": text, **more})


def summary(messages: list[Message], max_tokens: int = 600, **more: Any) -> Summary:
    request = SummaryRequest(
        messages=messages,
        max_tokens=max_tokens,
        max_instruction_tokens=max_tokens // 3,
        **more,
    )
    return asyncio.run(ExtractiveSummarizer(COUNTER).summarize(request))


def section(text: str, title: str) -> str:
    _, found, rest = text.partition(f"## {title}\n")
    return rest.split("\n## ")[0] if found else ""


TALK = [
    said("user", "Build the booking page.\n\nNever store card numbers. We only ship on Tuesdays."),
    said(
        "assistant", "We decided to use SQLite instead of PostgreSQL because one server is enough."
    ),
    said("assistant", "Fixed the double booking in src/app/booking.py; all 41 tests pass now."),
    said("assistant", "Still to do: the mail template waits for Ocke, ticket HRB-52."),
    said("assistant", "The root cause of the crash was a missing index on `berth_id` in v1.4.2."),
    said("user", "ok, go on"),
    said("user", "Bitte immer auf Deutsch antworten."),
    said("user", "金额一律用整数分来表示。"),
]


def test_it_keeps_the_promises_of_every_summarizer() -> None:
    """One conformance suite for all summarizers: within the cap, never empty, carried on."""
    check_summarizer(lambda: ExtractiveSummarizer(COUNTER), COUNTER.estimator.count)


def test_each_kind_of_sentence_finds_its_section() -> None:
    """Sections as in task_state, in three languages (C-8)."""
    text = summary(TALK).text
    assert "SQLite instead of PostgreSQL" in section(text, "Decisions")
    assert "41 tests pass" in section(text, "Done")
    assert "waits for Ocke" in section(text, "Open")
    assert "root cause" in section(text, "Errors")
    rules = section(text, "Instructions") + section(text, "Goal")
    for rule in ("Never store card numbers.", "only ship on Tuesdays", "auf Deutsch", "整数分"):
        assert rule in rules
    assert "go on" not in text


def test_anchors_stay_whole() -> None:
    """Paths, identifiers, versions and tickets are written as they were (C-8)."""
    text = summary(TALK).text
    for anchor in ("src/app/booking.py", "berth_id", "v1.4.2", "HRB-52"):
        assert anchor in text


def test_tool_calls_leave_commands_files_and_real_errors() -> None:
    """What was run, what was edited, and what failed; code that mentions errors is no error."""
    edit = {"file_path": "src/app/mail.py", "old_string": "a_name", "new_string": "b_name"}
    messages = [
        said("user", "Fix the mail."),
        call_message("c1", "run", {"command": "pytest -q tests"}),
        result_message(
            "c1", "12→    raise ValueError('no error')\nFAILED tests/test_mail.py::test_x"
        ),
        call_message("c2", "edit", edit),
        result_message("c2", "done"),
    ]
    text = summary(messages).text
    assert "`pytest -q tests` failed: FAILED tests/test_mail.py" in section(text, "Now")
    assert "edited: src/app/mail.py" in section(text, "Files")
    assert "FAILED tests/test_mail.py::test_x" in section(text, "Errors")
    assert "raise ValueError" not in text
    assert "edit(file_path, old_string, new_string)" in section(text, "Tools")


def test_task_lists_tell_done_and_open() -> None:
    """The newest task list of a tool is taken over as it stands."""
    todos = [
        {"content": "Write the tests for login", "status": "completed"},
        {"content": "Deploy to staging", "status": "pending"},
    ]
    messages = [said("user", "Go."), call_message("t", "tasks", {"todos": todos})]
    text = summary(messages).text
    assert "Write the tests for login" in section(text, "Done")
    assert "Deploy to staging" in section(text, "Open")


def test_what_is_in_view_is_not_told_again() -> None:
    """The reader sees kept messages: their words and names are left out."""
    kept = [said("user", "Never store card numbers."), said("assistant", "See src/app/booking.py")]
    text = summary(TALK, kept=kept).text
    assert "Never store card numbers." not in section(text, "Instructions")
    assert "src/app/booking.py" not in section(text, "Files")


def test_what_is_shown_shortened_is_named() -> None:
    """A clipped message lost names that may be needed next: they are listed."""
    lost = [result_message("c9", "def recently_clipped_name(): pass\n" * 3)]
    assert "recently_clipped_name" in summary(TALK, shortened=lost).text


@pytest.mark.parametrize("cap", [30, 80, 200, 500, 2_000])
def test_the_cap_holds_and_is_used(cap: int) -> None:
    """Never more than the cap, and most of it where there is enough to tell (FR-8)."""
    messages = [
        said(
            "assistant",
            f"Module part_{i} was moved to src/lib_{i}/core_{i}.py because of rule {i}.",
        )
        for i in range(300)
    ]
    size = COUNTER.estimator.count(summary(messages, cap).text)
    assert size <= cap
    if cap >= 500:
        assert size >= 0.9 * cap


def test_the_same_messages_give_the_same_text() -> None:
    """Deterministic: the same input gives the same bytes."""
    assert summary(TALK).text == summary(TALK).text


def test_rules_that_find_no_room_are_named_by_message() -> None:
    """What does not fit word for word is referenced by id (C-8)."""
    messages = [
        said("user", f"Never touch the file number {i} in the archive folder.", id=f"m{i}")
        for i in range(200)
    ]
    text = summary(messages, 900).text
    rules = section(text, "Instructions")
    kept = sum(f"file number {i} in" in rules for i in range(200))
    assert 10 < kept < 60
    assert "more, " in rules
    missing = next(i for i in range(1, 200) if f"number {i} in" not in rules)
    assert f"m{missing}" in rules


def test_notes_are_bounded() -> None:
    """However long the history, notes stay within their caps."""
    notes = Notes()
    for start in range(0, 6_000, 500):
        notes.read(
            said("assistant", f"We decided that name_{i}_x is stored in dir_{i}/file_{i}.py today.")
            for i in range(start, start + 500)
        )
    assert len(notes.lines) <= 2_000 + 500
    assert len(notes.ledger.uses) <= 5_000 + 1_500


def test_the_bundled_sample_keeps_what_matters() -> None:
    """The sample's pinned rule, rules, change of mind, decisions, open ticket and task, at 11:1."""
    messages = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    planned = plan(messages, max_tokens=8_000)
    text = planned.context.render_text()
    assert 0.95 * 8_000 <= planned.tokens_after <= 8_000
    for kept in (
        messages[5]["content"],  # the pinned rule, word for word
        messages[1]["content"],  # the first request
        messages[510]["content"],  # the newest message
        "Keep the dependencies at fastapi, uvicorn and httpx, plus pytest",
        "Nobody gets C12",
        "amounts are integers in cents",
        "never put guest names or phone numbers in logs",
        "Migrations go forward only",
        "the local-time rule from the first day is withdrawn",
        "Store UTC, ISO 8601 with a Z",
    ):
        assert kept in text
    out = compress(messages, max_tokens=8_000)
    assert compress(out, max_tokens=8_000) == out


def call_message(call_id: str, name: str, arguments: Mapping[str, object]) -> Message:
    part = {"type": "tool_call", "id": call_id, "name": name, "arguments": json.dumps(arguments)}
    return Message.of({"role": "assistant", "content": [part]})


def result_message(call_id: str, text: str) -> Message:
    part = {"type": "tool_result", "call_id": call_id, "text": text}
    return Message.of({"role": "tool", "content": [part]})

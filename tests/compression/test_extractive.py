"""The story by extraction: what happened, in the order of time, within its room (C-8, FR-8)."""

import asyncio
import json
import re
from importlib import resources
from typing import Any

import pytest

from compact import ExtractiveSummarizer, Message, compress, plan
from compact.core.checkpoints import Checkpoint, Span, Summary, SummaryRequest
from compact.core.history import NOBODYS
from compact.testing import check_summarizer
from tests.compression.saying import COUNTER, edit, notes_of, run, said, story

SAMPLE = resources.files("compact.apps.cli") / "sample" / "harbour.jsonl"


def summary(messages: list[Message], max_tokens: int = 600, **more: Any) -> Summary:
    request = SummaryRequest(messages=messages, max_tokens=max_tokens, **more)
    return asyncio.run(ExtractiveSummarizer(COUNTER).summarize(request))


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


def piers(count: int) -> list[Message]:
    """A session of so many turns, each with its edit and its closing."""
    kinds = ("berths", "ropes")
    return [
        message
        for i in range(count)
        for message in (
            said("user", f"Please see to the {kinds[i % 2]} of pier {i}.", id=f"m{i}"),
            *edit(i, f"/srv/app/src/pier_{i}.py"),
            said("assistant", f"Pier {i} was mended, ticket HRB-{i}. It took {i} hours in all."),
        )
    ]


PIERS = piers(30)


def test_it_keeps_the_promises_of_every_summarizer() -> None:
    """One conformance suite for all summarizers: within the cap, never empty, carried on."""
    check_summarizer(lambda: ExtractiveSummarizer(COUNTER), COUNTER.estimator.count)


def test_plain_talk_says_who_said_what() -> None:
    """In three languages; of a bare reply nothing is told (C-8)."""
    text = summary(TALK).text
    assert "- User: Build the booking page. Never store card numbers." in text
    assert "- Assistant: We decided to use SQLite instead of PostgreSQL" in text
    assert "- User: Bitte immer auf Deutsch antworten.\n- User: 金额一律用整数分来表示。" in text
    assert "go on" not in text


def test_names_stay_whole() -> None:
    """Paths, identifiers, versions and tickets are written as they were (C-8)."""
    text = summary(TALK).text
    for name in ("src/app/booking.py", "berth_id", "v1.4.2", "HRB-52"):
        assert name in text


def test_a_turn_is_told_by_what_was_asked_said_and_done() -> None:
    """Its words first, and below them what came of it."""
    messages = [
        said("user", "Fix the mail.", id="m1"),
        *edit(1, "src/app/mail.py", "pass", "def send_mail(): pass"),
        *run(1, "git commit -am x", "[main 1a2b3c4] Send it\n 1 file changed"),
        said("assistant", "The mail has its sender again."),
    ]
    head, *lines = story(messages).splitlines()
    assert head == "- (m1) “Fix the mail.”"
    assert "  The mail has its sender again." in lines
    assert "  Wrote app/mail.py: send_mail; Committed 1a2b3c4 Send it" in lines


def test_a_turn_that_is_under_way_is_said_to_be() -> None:
    messages = [
        said("user", "Fix the mail."),
        said("assistant", "The template is empty."),
        *edit(1),
    ]
    assert story(messages).splitlines()[0].endswith("“Fix the mail.” — not finished")
    done = [*messages, said("assistant", "The template has its text.")]
    assert "not finished" not in story(done)


@pytest.mark.parametrize("cap", [60, 200, 600, 2_000])
def test_the_story_runs_forward(cap: int) -> None:
    """Nowhere does it go back in time."""
    text = story(PIERS, cap)
    heads = [int(n) for n in re.findall(r"^- \(m(\d+)\)", text, re.M)]
    assert heads
    assert heads == sorted(set(heads))
    under = 0
    for line in text.splitlines():
        under = int(found[1]) if (found := re.match(r"- \(m(\d+)\)", line)) else under
        assert f"pier {under}" in line.lower() or f"pier_{under}.py" in line or "hours" in line


def test_the_newest_turns_get_more_words() -> None:
    text = story(PIERS, 600)
    assert "(m29)" in text
    told = [text.count(f"Pier {i} was mended") for i in range(30)]
    assert told[-5:] == [1] * 5
    assert sum(told[:15]) < sum(told[15:])


def test_lines_that_differ_in_a_number_are_two() -> None:
    """Words that were told are not told again, but another amount or another ticket is news."""
    closing = "The berth at the long pontoon was mended again by the diver"
    messages = [
        said("user", "See to it."),
        *edit(1),
        said("assistant", f"{closing}, 40 euros.\n\n{closing} today."),
        said("user", "And the other one."),
        *edit(2, "src/app/post.py"),
        said("assistant", f"{closing}, 50 euros."),
    ]
    text = story(messages)
    assert "40 euros" in text
    assert "50 euros" in text
    assert "today" not in text


def test_nothing_is_told_twice() -> None:
    lines = story(PIERS, 2_000).splitlines()
    assert len(lines) == len(set(lines))


def test_a_span_s_story_is_that_of_its_turns() -> None:
    """Of notes over the whole history, only what was said from one position to before another."""
    notes = notes_of(PIERS)
    first, last = notes.turns.rows[10].position, notes.turns.rows[12].position
    text = story(PIERS, 2_000, first=first, last=last)
    assert re.findall(r"^- \(m(\d+)\)", text, re.M) == ["10", "11"]


def test_what_is_in_view_is_not_told_again() -> None:
    """The reader sees kept messages and the record: their words are left out."""
    said_before = TALK[1].text
    assert said_before in summary(TALK).text
    kept = [said("assistant", said_before)]
    assert said_before not in summary(TALK, kept=kept).text
    assert said_before not in summary(TALK, record=f"## Decisions\n- {said_before}").text
    closing = "Pier 29 was mended, ticket HRB-29."
    assert closing in story(PIERS)
    assert closing not in story(PIERS, seen=f"It was said: {closing}")


@pytest.mark.parametrize("cap", [30, 80, 200, 500, 2_000])
@pytest.mark.parametrize("talk", [False, True])
def test_the_cap_holds_and_is_used(cap: int, talk: bool) -> None:
    """Never more than the cap, and most of it where there is enough to tell (FR-8)."""
    moved = "Module part_{0} was moved to src/lib_{0}/core_{0}.py because of rule {0}."
    messages = [said("assistant", moved.format(i)) for i in range(300)]
    text = summary(messages, cap).text if talk else story(piers(200), cap)
    size = COUNTER.estimator.count(text)
    assert size <= cap
    if cap >= 500:
        assert size >= 0.85 * cap


def test_the_same_messages_give_the_same_text() -> None:
    """Deterministic: the same input gives the same bytes, read at once or bit by bit."""
    assert summary(TALK).text == summary(TALK).text
    assert story(PIERS) == story(PIERS)
    notes = notes_of(PIERS[:50])
    for message in PIERS[50:]:
        notes.read([message])
    request = SummaryRequest(messages=PIERS, max_tokens=600, notes=notes)
    assert ExtractiveSummarizer(COUNTER).extracted(request).text == story(PIERS)


@pytest.mark.slow
def test_notes_are_bounded() -> None:
    """However long the history, notes stay within their caps."""
    text = "We decided that name_{0}_x is stored in dir_{0}/file_{0}.py today. Always back up {0}."
    rows = [said(("assistant", "user")[i % 2], text.format(i)) for i in range(6_000)]
    notes = notes_of(rows)
    assert len(notes.facts) <= 1_200 + 64
    assert len(notes.rules) <= 800 + 64
    assert len(notes.ledger.uses) <= 2_500 + 2_000
    assert len(notes.turns.rows) <= 1_600 + 64


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


@pytest.mark.parametrize("is_talk", [True, False])
def test_what_an_earlier_checkpoint_told_is_carried_on(is_talk: bool) -> None:
    """Read in place of its messages, alone or before others (K-6, FR-4)."""
    told = summary(TALK if is_talk else piers(6)).text
    span = Span(first=0, last=9, messages=10)
    made = Checkpoint(id="ck-0123456789ab", span=span, summary=told).message(NOBODYS)
    more = [said("user", "The lanterns are lit."), said("assistant", "All 12 of them.")]
    for messages in ([made], [made, *more]):
        text = summary(messages).text
        lines = [line.strip("- ") for line in told.splitlines()]
        kept = [line for line in lines if line in text]
        assert len(kept) >= 0.7 * len(lines), text
    assert "lanterns" in text
    assert text.index(kept[0]) < text.index("lanterns")


def test_a_label_is_no_speaker():
    """`Decision: ` opens one message as a name opens those of a chat; it is not put before others'
    words.
    """
    quoted = "You said:\n\n> Decision: the barrel stands on the east wall."
    told = [{"role": "user", "content": "Where does the barrel stand? " * 9}]
    for bed in range(12):
        told.append({"role": "assistant", "content": f"Bed {bed} wants water at noon. " * 8})
        told.append({"role": "user", "content": f"What of bed {bed + 1}, by the wall? " * 8})
    ordered = "Good, I order the brackets for 12 euro."
    told.insert(4, {"role": "user", "content": "Decision: the barrel stands on the east wall."})
    told.insert(5, {"role": "assistant", "content": f"{quoted}\n\n{ordered}"})
    shown = str(compress(told, max_tokens=700)[0]["content"])
    assert f"Assistant: {ordered}" in shown
    assert f"Decision: {ordered}" not in shown

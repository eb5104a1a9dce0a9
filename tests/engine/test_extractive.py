"""The summarizer without a model: the chronology of a request's messages (C-8, FR-8)."""

import asyncio
import json
from importlib import resources
from typing import Any

import pytest

from compact import ExtractiveSummarizer, Message, compress, plan
from compact.engine.history import NOBODYS
from compact.messages.checkpoints import Checkpoint, Span, Summary, SummaryRequest
from compact.testing import check_summarizer
from tests.engine.saying import COUNTER, edit, notes_of, said, story

SAMPLE = resources.files("compact.cli") / "sample" / "harbour.jsonl"


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


def test_a_short_answer_in_talk_stands_with_its_question() -> None:
    """Whoever gives it."""
    talk = [
        said("user", "We went to see the old lighthouse at the northern pier on Saturday."),
        said("assistant", "How lovely! And what are the names of your two cats?"),
        said("user", "I painted the lighthouse in oil afterwards. What did you do in April?"),
        said("assistant", "Sailed to Norway!"),
    ]
    told = summary(talk).text
    assert "What did you do in April?\n- Assistant: Sailed to Norway!" in told
    assert "(asked: And what are" not in told


def test_plain_talk_says_who_said_what() -> None:
    """In three languages, word for word (C-8)."""
    text = summary(TALK).text
    assert text.startswith("- User: Build the booking page.")
    assert "Never store card numbers. We only ship on Tuesdays." in text
    assert "Assistant: We decided to use SQLite instead of PostgreSQL" in text
    assert "- User: Bitte immer auf Deutsch antworten.\n- User: 金额一律用整数分来表示。" in text


def test_names_stay_whole() -> None:
    """Paths, identifiers, versions and tickets are written as they were (C-8)."""
    text = summary(TALK).text
    for name in ("src/app/booking.py", "berth_id", "v1.4.2", "HRB-52"):
        assert name in text


def test_what_is_in_view_is_not_told_again() -> None:
    """The reader sees kept messages and the record: their words are left out."""
    said_before = TALK[1].text
    assert said_before in summary(TALK).text
    kept = [said("assistant", said_before)]
    assert said_before not in summary(TALK, kept=kept).text
    assert said_before not in summary(TALK, record=f"## Story\n- {said_before}").text


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


def test_the_bundled_sample_keeps_what_matters() -> None:
    """The pinned rule, a rule and the newest message at 11:1; in twice the room every rule and the
    change of mind.
    """
    messages = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    rules = (
        "Keep the dependencies at fastapi, uvicorn and httpx, plus pytest",
        "Nobody gets C12",
        "amounts are integers in cents",
        "Migrations go forward only",
        "the local-time rule from the first day is withdrawn",
        "Store UTC, ISO 8601 with a Z",
    )
    always = (messages[5]["content"], messages[510]["content"], "never put guest names or phone")
    for room, kept in ((8_000, always), (16_000, (*always, *rules))):
        planned = plan(messages, max_tokens=room)
        text = planned.context.render_text()
        assert 0.95 * room <= planned.tokens_after <= room
        assert not [words for words in kept if words not in text]
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
        lines = [line.strip("- ").removeprefix("Assistant: ") for line in told.splitlines()]
        kept = [line for line in lines if line in text]
        assert len(kept) >= 0.7 * len(lines), text
    assert "lanterns" in text
    assert text.index(kept[0]) < text.index("lanterns")


def test_a_label_is_no_speaker() -> None:
    """`Decision: ` opens one message as a name opens those of a chat; it is not put before others'
    words.
    """
    quoted = "You said:\n\n> Decision: the barrel stands on the east wall."
    ordered = "Good, I order the brackets for 12 euro."
    talk = [said("user", "Where does the barrel stand?")]
    for bed in range(6):
        talk.append(said("assistant", f"Bed {bed} wants water at noon."))
        talk.append(said("user", f"What of bed {bed + 1}, by the wall?"))
    talk[3:3] = [
        said("user", "Decision: the barrel stands on the east wall."),
        said("assistant", f"{quoted}\n\n{ordered}"),
    ]
    shown = summary(talk).text
    assert "- User: Decision: the barrel stands on the east wall." in shown
    assert ordered in shown
    assert f"Decision: {ordered}" not in shown
    assert not [line for line in shown.splitlines() if line.startswith("- Decision: ")]

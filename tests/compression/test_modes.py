"""What a mode changes in an extractive summary, and what it may not change (FR-12)."""

import json
from functools import cache
from importlib import resources
from typing import Any

import pytest

from compact import CompactPolicy, ContextManager, ExtractiveSummarizer, Message, wiring
from compact.compression.composition import Composer
from compact.compression.extraction import work
from compact.compression.extraction.notes import Notes
from compact.core.checkpoints import SummaryRequest
from compact.core.modes import MODES, ModeName
from compact.core.sentences import sentences_of, topic_of
from compact.core.speakers import speaker_of
from tests.compression.saying import COUNTER, edit, fail, run, said, section

SAMPLE = resources.files("compact.apps.cli") / "sample" / "harbour.jsonl"
OWN: tuple[ModeName, ...] = ("developer", "planning", "debugger")


def summary(messages: list[Message], mode: str, cap: int = 700, **more: Any) -> str:
    """A checkpoint of these messages: story, record and lists in so many tokens."""
    composer = Composer(Notes().read(messages), COUNTER, mode=mode, **more)
    record, room = composer.planned(cap)
    request = SummaryRequest(
        messages=messages,
        record=record.text(),
        max_tokens=max(1, room),
        mode=mode,
        strategy=composer.strategy,
    )
    return composer.written(ExtractiveSummarizer(COUNTER).extracted(request).text, cap)


@cache
def of_sample(mode: str, cap: int, strategy: str = "task_state") -> str:
    """The same of the bundled session, made once for all tests."""
    data = SAMPLE.read_bytes()
    messages = list(wiring.read_transcript("harbour.jsonl", data=data).messages)
    return summary(messages, mode, cap, strategy=strategy)


@pytest.mark.slow
@pytest.mark.parametrize("cap", [300, 1_000, 4_000, 12_000])
def test_without_a_mode_of_its_own_a_summary_is_the_assistants(cap):
    """FR-12: byte for byte, in the mode `user` and in one that is not known; what it is,
    `test_golden` holds.
    """
    text = of_sample("assistant", cap)
    assert of_sample("user", cap) == text
    assert of_sample("of another version", cap) == text


@pytest.mark.sampled(7)
@pytest.mark.parametrize("cap", [60, 300, 1_000, 4_000, 12_000])
@pytest.mark.parametrize("mode", OWN)
def test_every_mode_keeps_to_the_cap_and_uses_it(mode, cap):
    """FR-12, FR-8: what a mode gains, it loses elsewhere; whole lines leave a few tokens over."""
    size = COUNTER.text(of_sample(mode, cap))
    plain = COUNTER.text(of_sample("assistant", cap))
    assert min(0.95 * plain, plain - 4) <= size <= cap


@pytest.mark.parametrize("mode", MODES)
def test_a_person_s_rules_stay_in_every_mode(mode):
    """FR-12, C-8: what a person said must hold has the same room everywhere."""
    rules, plain = (_named_apart(of_sample(x, 4_000)) for x in (mode, "assistant"))
    assert rules
    assert rules == plain


def _named_apart(text: str) -> list[str]:
    """The rules, without the line that names the messages of what found no room."""
    return [x for x in section(text, "Rules").splitlines() if "more, by message" not in x]


# --- debugger: what failed ------------------------------------------------------------------------

WRONG = "tests/test_mail.py::test_sends - KeyError: 'to'"
FAILED = f"FAILED {WRONG}"
REPAIRED = [
    said("user", "Fix the mail."),
    *run(1, "pytest -q tests", FAILED),
    *run(2, "pytest -q tests", FAILED),
    *edit(1),
    *run(3, "pytest -q tests", "12 passed"),
]


def test_the_debugger_tells_what_was_tried_and_what_came_of_it():
    """FR-12: the line that failed, by which command, how often, what was written, the outcome."""
    errors = section(summary(REPAIRED, "debugger"), "Errors").splitlines()
    tried = "- run `pytest -q tests` ×2, then wrote mail.py, went well since:"
    assert errors == [f"{tried} `{WRONG}`"], "the line once, without the word that it failed"


def test_what_still_fails_stands_first_and_says_so():
    """FR-12: nothing is called repaired that is not, least of all what another command mended."""
    script = "cd src\npython part_{}.py"
    messages = [
        said("user", "Go."),
        *fail(1, script.format("one"), "ValueError: no such berth: C12"),
        *fail(2, script.format("two"), "KeyError: 'C13'"),
        *run(3, script.format("two"), "3 succeeded"),
    ]
    errors = section(summary(messages, "debugger"), "Errors")
    first, second = errors.splitlines()
    assert "`cd src python part_one.py`, still fails: `ValueError: no such" in first
    assert "`cd src python part_two.py`, went well since: `KeyError" in second


def test_a_check_that_passed_is_told_of_what_failed_before():
    """FR-12: nobody ran it again, but a check of its kind passed since; one of another kind says
    nothing of it.
    """
    messages = [
        said("user", "Go."),
        *fail(1, "python import_all.py", "ValueError: no such berth: C12"),
        *run(2, "pytest -q tests/test_mail.py", FAILED),
        *run(3, "python -m pytest", "41 passed"),
    ]
    errors = section(summary(messages, "debugger"), "Errors")
    assert "run `pytest -q tests/test_mail.py`, a check passed since:" in errors
    assert "run `python import_all.py`, still fails:" in errors


def test_a_failure_after_success_is_open_again():
    """FR-12: the last run counts, and what was written before it is no longer an answer to it."""
    errors = section(summary([*REPAIRED, *run(4, "pytest -q tests", FAILED)], "debugger"), "Errors")
    assert "- run `pytest -q tests` ×3, still fails:" in errors


def test_only_the_debugger_is_told_of_failures_that_were_no_check():
    """FR-12: whoever goes on wants to know which checks fail, a debugger all that failed. What did
    not fail is no error, whatever its output says.
    """
    messages = [
        said("user", "Go."),
        *fail(1, "python import_all.py", "ValueError: no such berth: C12"),
        *run(2, "pytest -q tests/test_mail.py", FAILED),
        *run(3, "cat import.log", "ValueError: no such berth: C99"),
    ]
    told = {
        mode: section(summary(messages, mode), "State") + section(summary(messages, mode), "Errors")
        for mode in ("assistant", "debugger")
    }
    assert all(WRONG in errors and "C99" not in errors for errors in told.values())
    assert [mode for mode, errors in told.items() if "berth: C12" in errors] == ["debugger"]


def test_errors_of_an_agent_without_tool_calls_are_told():
    """FR-12: observations in plain text, more of them than without the mode."""
    lines = [f"ValueError: number {i} is too small for its part" for i in range(15)]
    messages = [said("user", "Go."), *(said("user", f"OBSERVATION:\n{x}") for x in lines)]
    messages = [
        m.model_copy(update={"metadata": m.metadata.model_copy(update={"source": "observation"})})
        if i
        else m
        for i, m in enumerate(messages)
    ]
    assert speaker_of(messages[1]) == "observation"
    told = {mode: summary(messages, mode, 1_500) for mode in ("assistant", "debugger")}
    assert sum(x in told["assistant"] for x in lines) <= 6
    assert all(x in told["debugger"] for x in lines)


def test_the_mode_may_change_in_mid_session():
    """FR-12: notes are of no mode: what failed before the change is told after it."""
    notes = Notes().read(REPAIRED)
    notes.read([said("assistant", "Now the second part of the mail template is to be written.")])
    assert WRONG in section(Composer(notes, COUNTER, mode="debugger").written("", 700), "Errors")


def test_what_is_known_of_failures_is_bounded():
    """FR-8: however often something fails, memory does not grow."""
    notes = Notes()
    for i in range(400):
        output = "\n".join(f"ValueError: case {i}.{j} is too small" for j in range(10))
        notes.read(fail(i, f"python part_{i // 4}.py", output) + edit(i))
    attempts = notes.work.attempts
    assert len(attempts) == work.MOST_ATTEMPTS
    assert max(len(a.lines) for a in attempts.values()) == work.MOST_LINES
    assert len(json.dumps([a.written for a in attempts.values()])) < 10_000


WORDS = ("pontoons", "berths", "ropes", "lamps", "buoys", "planks", "cranes", "posts", "rails")


# --- developer and planning -----------------------------------------------------------------------


def test_the_developer_names_code_before_what_is_no_code():
    """FR-12: paths, files and identifiers get room before flags, versions and references."""
    messages = [
        said("user", "Go."),
        *(m for i in range(40) for m in run(i, "ls", f"HRB-{i} v{i}.2.{i} part_{i}_name")),
    ]
    texts = {mode: summary(messages, mode, 300) for mode in ("assistant", "developer")}
    code = {m: sum(f"part_{i}_name" in t for i in range(40)) for m, t in texts.items()}
    other = {m: sum(f"HRB-{i}" in t for i in range(40)) for m, t in texts.items()}
    assert code["developer"] > code["assistant"] > 0
    assert other["developer"] < other["assistant"]


@pytest.mark.slow
def test_planning_gives_decisions_and_open_work_more_room():
    """FR-12: where there is not room for all."""
    messages = [said("user", "Go."), *run(0, "ls", "")]
    for i in range(60):
        messages += [
            said(
                "assistant", f"{WORDS[i % 9]} {i}: shall the {WORDS[i // 9]} be moved to pier {i}?"
            ),
            said("user", "yes"),
            said("user", f"Never paint the {WORDS[i % 9]}{i} of pier {i} at night{i}."),
            *run(i + 1, f"look {i}", f"ValueError: pier {i} is too small"),
        ]
    told = {mode: summary(messages, mode, 2_000) for mode in ("assistant", "planning")}
    decisions = {m: len(section(t, "Decisions").splitlines()) for m, t in told.items()}
    assert decisions["planning"] > decisions["assistant"] > 0


# --- a session that was loaded at once ------------------------------------------------------------


@cache
def loaded(mode: str) -> tuple[str, str]:
    """What stories and record say of the bundled session."""
    ctx = ContextManager(window=32_000, tokenizer="o200k", policy=CompactPolicy(mode=mode))
    ctx.add_messages(wiring.read_transcript("harbour.jsonl", data=SAMPLE.read_bytes()).messages)
    shown = ctx.active_context()
    ours = [m for m in shown.messages if m.metadata.source == "checkpoint"]
    stories = "\n".join(checkpoint.summary for checkpoint in shown.checkpoints)
    (record,) = [m.text for m in ours if m.text.startswith("[Record")]
    return stories, record


@pytest.mark.slow
def test_a_session_loaded_at_once_is_told_by_its_mode():
    """FR-12: record and stories; a developer's tell more of what was written, a debugger's more of
    what failed, planning keeps more decisions.
    """
    told = {mode: loaded(mode) for mode in ("assistant", *OWN)}
    for part in range(2):
        assert len({texts[part] for texts in told.values()}) == 4
    wrote = {mode: stories.count("Wrote ") for mode, (stories, _) in told.items()}
    assert wrote["developer"] > wrote["assistant"]
    failed = {mode: about("errors", "\n".join(texts)) for mode, texts in told.items()}
    assert failed["debugger"] > failed["assistant"]
    shown: dict[str, ModeName] = {"Decisions": "planning", "Errors": "debugger"}
    for title, mode in shown.items():
        lines = {x: len(section(record, title).splitlines()) for x, (_, record) in told.items()}
        assert lines[mode] > lines["assistant"], title


def about(topic: str, text: str) -> int:
    """Sentences of that topic."""
    return sum(topic_of(x) == topic for line in text.splitlines() for x in sentences_of(line))

"""What a mode changes in a summary without a model, and what it may not change (FR-12)."""

import re
from functools import cache
from importlib import resources
from typing import Any

import pytest

from compact import CompactPolicy, ContextManager, Message, wiring
from compact.engine.checkpoint_text import Composer
from compact.engine.chronology import work
from compact.engine.chronology.notes import TRIM_EVERY, Notes
from compact.text.modes import MODES, ModeName
from compact.text.speakers import speaker_of
from tests.engine.saying import COUNTER, edit, fail, notes_of, run, said, section

SAMPLE = resources.files("compact.cli") / "sample" / "harbour.jsonl"
OWN: tuple[ModeName, ...] = ("developer", "planning", "debugger")


def summary(messages: list[Message], mode: str, cap: int = 700, **more: Any) -> str:
    """A checkpoint of these messages in so many tokens."""
    return Composer(notes_of(messages), COUNTER, mode=mode, **more).written(None, cap)


@cache
def notes_of_sample() -> Notes:
    data = SAMPLE.read_bytes()
    return notes_of(list(wiring.read_transcript("harbour.jsonl", data=data).messages))


@cache
def of_sample(mode: str, cap: int, strategy: str = "task_state") -> str:
    """The same of the bundled session, made once for all tests."""
    composer = Composer(notes_of_sample(), COUNTER, mode=mode, strategy=strategy)
    return composer.written(None, cap)


@pytest.mark.parametrize("cap", [300, 1_000, 4_000])
def test_a_mode_that_is_not_known_is_the_assistant_s(cap: int) -> None:
    """FR-12: byte for byte; what it is, `test_golden` holds."""
    assert of_sample("of another version", cap) == of_sample("assistant", cap)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("cap", [60, 300, 1_000, 4_000, 12_000])
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_keeps_to_the_cap_and_uses_it(mode: str, cap: int) -> None:
    """FR-12, FR-8: what a mode gains, it loses elsewhere; what is told whole leaves room over."""
    size = COUNTER.text(of_sample(mode, cap))
    assert (0.65 * cap if cap >= 300 else 0) <= size <= cap


WORDS = ("pontoons", "berths", "ropes", "lamps", "buoys", "planks", "cranes", "posts", "rails")


def turn(i: int) -> list[Message]:
    """What a person asks, what is tried and written, and what the assistant says of it."""
    plain = f"The {WORDS[i % 9]} of pier {i} hang low, so I looked at all of them twice today."
    return [
        said("user", f"Never paint the {WORDS[i % 9]} of pier {i} by night{i}.", id=f"m{i}"),
        *fail(100 + i, f"python pier_{i}.py", f"ValueError: pier {i} is too small"),
        *edit(200 + i, f"src/pier_{i}.py"),
        said("assistant", plain),
        *run(300 + i, f"look pier {i}", "fine"),
        said("assistant", f"The {WORDS[(i + 1) % 9]} of pier {i} are mended."),
    ]


TURNS = [message for i in range(40) for message in turn(i)]


@pytest.mark.parametrize("mode", MODES)
def test_a_person_s_words_stay_in_every_mode(mode: str) -> None:
    """FR-12, C-8: word for word, those that must hold among them; all, where there is room."""
    story = section(summary(TURNS[: 12 * len(turn(0))], mode, 1_800), "Story")
    for i in range(12):
        assert f"- User: Never paint the {WORDS[i % 9]} of pier {i} by night{i}.\n" in f"{story}\n"


def test_modes_dwell_on_what_they_are_for() -> None:
    """FR-12: a debugger is told what failed, a developer what was written, whoever plans what was
    said; where there is not room for all.
    """
    told = {mode: section(summary(TURNS, mode, 1_300), "Story") for mode in MODES}
    failed = {mode: text.count("ValueError") for mode, text in told.items()}
    lines = {mode: re.findall(r"wrote [^·\n]+", text) for mode, text in told.items()}
    wrote = {mode: len(re.findall(r"pier_\w+\.py", str(said))) for mode, said in lines.items()}
    asked = {mode: summary(TURNS, mode, 700).count("- User: ") for mode in MODES}
    assert max(failed.values()) == failed["debugger"] > failed["assistant"]
    assert max(wrote.values()) == wrote["developer"] > wrote["assistant"] > 0
    assert asked["planning"] > max(asked["assistant"], asked["developer"]) > 0


def test_modes_give_names_more_or_less_room() -> None:
    sizes = {m: COUNTER.text(section(of_sample(m, 4_000), "Names")) for m in MODES}
    assert sizes["planning"] < 0.9 * sizes["assistant"]
    assert sizes["debugger"] < 0.9 * sizes["assistant"]
    assert sizes["assistant"] > 0


# --- what failed ----------------------------------------------------------------------------------

LINE = "tests/test_mail.py::test_sends - KeyError: 'to'"
FAILED = f"FAILED {LINE}"
REPAIRED = [
    said("user", "Fix the mail."),
    *run(1, "pytest -q tests", FAILED),
    *run(2, "pytest -q tests", FAILED),
    *edit(1),
    *run(3, "pytest -q tests", "12 passed"),
]


@pytest.mark.parametrize("mode", MODES)
def test_a_check_is_told_as_it_came_out_first_and_last(mode: str) -> None:
    """FR-12: nothing is called repaired that is not, and what stands now is the last of it."""
    told = summary(REPAIRED, mode)
    assert "  Did: `pytest -q tests`: failed → 12 passed · wrote mail.py" in told
    assert "`pytest -q tests` came to: 12 passed\n" in section(told, "Now")
    again = summary([*REPAIRED, *run(4, "pytest -q tests", FAILED)], mode)
    assert "12 passed" not in again, "it fails as before"
    assert f"`pytest -q tests` came to: failed: {LINE}\n" in section(again, "Now")


@pytest.mark.parametrize("mode", MODES)
def test_what_failed_is_told_with_what_it_said(mode: str) -> None:
    """FR-12: by the command that ran it; what did not fail is no error, whatever it printed."""
    messages = [
        said("user", "Go."),
        *fail(1, "python import_all.py", "ValueError: no such berth: C12"),
        *run(2, "cat import.log", "ValueError: no such berth: C99"),
    ]
    told = section(summary(messages, mode), "Story")
    assert "`python import_all.py` failed → ValueError: no such berth: C12" in told
    assert "C99" not in told


def test_a_command_of_several_lines_is_told_by_what_it_ran() -> None:
    """FR-12: where it only goes somewhere first, that says nothing."""
    messages = [said("user", "Go."), *fail(1, "cd src\npython import_all.py", "ValueError: no C12")]
    assert "python import_all.py` failed → ValueError: no C12" in summary(messages, "debugger")


def test_errors_of_an_agent_without_tool_calls_are_told() -> None:
    """FR-12: observations in plain text, more of them than without the mode."""
    lines = [f"ValueError: number {i} is too small for its part" for i in range(15)]
    messages = [said("user", "Go.")]
    for i, x in enumerate(lines):
        seen = said("user", f"OBSERVATION:\n{x}", metadata={"source": "observation"})
        assert speaker_of(seen) == "observation"
        messages += [
            seen,
            said("assistant", f"Now I look at part {i}, and then at the {WORDS[i % 9]} of it."),
            *edit(i),
        ]
    told = {mode: summary(messages, mode, 450) for mode in ("assistant", "debugger")}
    counts = {mode: sum(x in text for x in lines) for mode, text in told.items()}
    assert counts["debugger"] > counts["assistant"]
    assert counts["debugger"] >= 12


def test_the_mode_may_change_in_mid_session() -> None:
    """FR-12: notes are of no mode: what was taken down before the change is told after it."""
    notes = notes_of(TURNS[:80])
    before = Composer(notes, COUNTER, mode="developer").written(None, 1_300)
    notes.read(TURNS[80:])
    after = Composer(notes, COUNTER, mode="debugger").written(None, 1_300)
    assert before == summary(TURNS[:80], "developer", 1_300)
    assert after == summary(TURNS, "debugger", 1_300)


def test_what_is_known_of_the_work_is_bounded() -> None:
    """FR-8: however often something fails, memory does not grow."""
    notes = Notes()
    for i in range(1_200):
        notes.read(fail(i, f"python part_{i}.py", f"ValueError: {i}") + edit(i, f"src/p{i}.py"))
        assert len(notes.work.deeds) <= work.MOST_DEEDS + TRIM_EVERY
        assert len(notes.work.files) <= work.MOST_KEPT + TRIM_EVERY
    assert notes.work.deeds[0].position > 0, "the oldest are forgotten"


# --- a session that was loaded at once ------------------------------------------------------------


@cache
def loaded(mode: str) -> str:
    """What checkpoints and record say of the bundled session."""
    ctx = ContextManager(window=32_000, tokenizer="o200k", policy=CompactPolicy(mode=mode))
    ctx.add_messages(wiring.read_transcript("harbour.jsonl", data=SAMPLE.read_bytes()).messages)
    shown = ctx.active_context().messages
    return "\n".join(m.text for m in shown if m.metadata.source == "checkpoint")


@pytest.mark.slow
def test_a_session_loaded_at_once_is_told_by_its_mode() -> None:
    """FR-12: a developer is told more of what was written, a debugger of what failed."""
    told = {mode: loaded(mode) for mode in ("assistant", *OWN)}
    assert len(set(told.values())) == 4
    failed = {mode: text.count(" failed") for mode, text in told.items()}
    assert failed["debugger"] == max(failed.values()) > failed["assistant"]
    wrote = {mode: text.count("wrote ") for mode, text in told.items()}
    assert wrote["developer"] >= wrote["assistant"] >= wrote["planning"] > 0
    names = {mode: COUNTER.text(section(text, "Names")) for mode, text in told.items()}
    assert names["developer"] >= names["assistant"] > names["planning"] > 0

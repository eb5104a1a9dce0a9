"""Modes: what a session is used for (FR-12)."""

from dataclasses import fields
from itertools import combinations

import pytest

from compact.errors import InvalidConfig
from compact.text.modes import (
    MODES,
    MODES_WEIGH,
    PLAIN,
    STRATEGIES_WEIGH,
    KindWeights,
    mode_named,
    user_mode,
    weights_of,
)


@pytest.mark.parametrize("name", MODES)
def test_every_mode_says_what_it_is_and_what_a_summary_keeps(name):
    """FR-12: five modes, each with its texts, the longer ones longer."""
    mode = mode_named(name)
    assert mode.name == name
    short, medium, long = (mode.text(length) for length in ("short", "medium", "long"))
    assert 0 < len(short) < len(medium) < len(long)
    assert len(mode.focus.split()) >= 10
    assert "\n" not in mode.focus, "it is the end of a sentence"
    plain = weights_of(name, "task_state") == PLAIN
    assert plain is (name == "assistant"), "the others weigh by themselves"


def test_modes_and_strategies_weigh_kinds_that_there_are():
    """What is not known weighs nothing; the two are multiplied."""
    kinds = {field.name for field in fields(KindWeights)}
    for weighs in (*MODES_WEIGH.values(), *STRATEGIES_WEIGH.values()):
        assert set(weighs) <= kinds
        assert all(by >= 0 for by in weighs.values())
    assert weights_of("x", "y") == PLAIN
    assert tuple(MODES_WEIGH) == MODES
    both, debugger = weights_of("debugger", "code_delta"), weights_of("debugger", "")
    more = STRATEGIES_WEIGH["code_delta"]["wrote"]
    assert both.wrote == more * debugger.wrote == more * PLAIN.wrote > PLAIN.wrote
    assert both.failed == debugger.failed > PLAIN.failed


def test_no_mode_or_strategy_leaves_a_person_s_words_out():
    for mode in MODES:
        for strategy in STRATEGIES_WEIGH:
            weights = weights_of(mode, strategy)
            assert min(weights.request / PLAIN.request, weights.aside / PLAIN.aside) >= 1
            assert weights.host >= PLAIN.host


def test_modes_differ():
    """FR-12: developer code, planning decisions, debugger errors."""
    own = [mode_named(name) for name in MODES if name != "user"]
    for one, other in combinations(own, 2):
        assert one.focus != other.focus
        assert one.text("long") != other.text("long")
    for name, words in {
        "developer": ("paths", "functions", "interfaces"),
        "planning": ("goals", "requirements", "decisions"),
        "debugger": ("error messages", "stack traces", "reproduced", "attempt"),
    }.items():
        assert all(word in mode_named(name).focus for word in words), name


def test_an_unknown_mode_names_those_there_are():
    with pytest.raises(InvalidConfig, match="no mode 'coder'; there are assistant, developer"):
        mode_named("coder")


def test_the_user_mode_takes_its_texts_from_a_file():
    """FR-12: what the prompt says, and what a summary keeps."""
    mode = user_mode("You sail.\n\n## Summaries\nKeep winds and ports.\n")
    assert {mode.text(length) for length in ("short", "medium", "long")} == {"You sail."}
    assert mode.focus == "Keep winds and ports."
    assert mode.name == "user"
    assert user_mode("You sail.").focus == mode_named("assistant").focus
    assert user_mode("# Summaries\nWinds.").text("short") == mode_named("assistant").text("short")
    assert user_mode("").text("long") == mode_named("assistant").text("long")

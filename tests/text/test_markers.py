"""Markers in a model's output: read leniently, written exactly (FR-7)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact.messages.goals import Artifact, Decision, Subtask
from compact.text.markers import LONGEST, EndMarker, GoalMarker, NextMarker, marker_line, markers_in
from tests.pace import is_linear


def task(text, status="pending", note=""):
    return Subtask(text=text, status=status, note=note)


def decision(text, locked=False, reason=""):
    return Decision(text=text, locked=locked, reason=reason)


def artifact(path, action):
    return Artifact(path=path, action=action)


DONE = task("Order the slates", "completed")


@pytest.mark.parametrize(
    ("line", "marker"),
    [
        ("[GOAL] Mend the roof", GoalMarker("Mend the roof")),
        ("[CHECKPOINT] Order the slates - COMPLETED", DONE),
        ("[checkpoint] Order the slates - completed", DONE),
        ("[CHECKPOINT] Order the slates — Completed.", DONE),
        ("[CHECKPOINT] Order the slates –COMPLETED", DONE),
        ("[CHECKPOINT] Order the slates (done)", DONE),
        ("[CHECKPOINT] Order the slates: completed", DONE),
        ("[CHECKPOINT] Order the slates COMPLETED", DONE),
        ("[CHECKPOINT]: Order the slates - **COMPLETED**", DONE),
        ("**[CHECKPOINT]** Order the slates - COMPLETED", DONE),
        ("**[CHECKPOINT] Order the slates - COMPLETED**", DONE),
        ("`[CHECKPOINT] Order the slates - COMPLETED`", DONE),
        ("  - [CHECKPOINT] Order the slates - COMPLETED\r", DONE),
        ("3. [CHECKPOINT] Order the slates - COMPLETED", DONE),
        ("CHECKPOINT: Order the slates - COMPLETED", DONE),
        ("[CHECKPOINT] Order the slates", task("Order the slates")),
        ("[CHECKPOINT] Order - PENDING", task("Order", "pending")),
        ("[CHECKPOINT] Order - IN PROGRESS", task("Order", "in_progress")),
        ("[CHECKPOINT] Order - IN-PROGRESS", task("Order", "in_progress")),
        ("[CHECKPOINT] Order - in_progress", task("Order", "in_progress")),
        ("[CHECKPOINT] Order - NOT DONE", task("Order", "pending")),
        ("[CHECKPOINT] Order - not yet started", task("Order", "pending")),
        ("[CHECKPOINT] Order NOT DONE", task("Order", "pending")),
        ("[CHECKPOINT] Order - BLOCKED", task("Order", "blocked")),
        ("[CHECKPOINT] Order - BLOCKED: no money", task("Order", "blocked", "no money")),
        ("[CHECKPOINT] Order - blocked (no money)", task("Order", "blocked", "no money")),
        ("[CHECKPOINT] Say well-done", task("Say well-done")),
        ("[CHECKPOINT] What is pending review", task("What is pending review")),
        ("[DECISION] Slate, not tin - LOCKED", decision("Slate, not tin", locked=True)),
        ("[DECISION] Slate, not tin - UNLOCKED", decision("Slate, not tin")),
        ("[DECISION] Slate, not tin", decision("Slate, not tin")),
        ("[DECISION] Keep it locked", decision("Keep it locked")),
        ("DECISION: Slate | it lasts", decision("Slate", reason="it lasts")),
        ("DECISION_LOCKED: Slate | it lasts", decision("Slate", True, "it lasts")),
        ("[ARTIFACT] Created `src/roof.py`", artifact("src/roof.py", "created")),
        ("[ARTIFACT] modified: a b/c.md", artifact("a b/c.md", "modified")),
        ("[ARTIFACT] Deleted x", artifact("x", "deleted")),
        ("[ARTIFACT] updated x", artifact("x", "modified")),
        ("ARTIFACT: src/roof.py | removed", artifact("src/roof.py", "deleted")),
        ("[NEXT] Call `the roofer`", NextMarker("Call `the roofer`")),
        ("NEW_GOAL: Mend | high", GoalMarker("Mend", "high")),
        ("NEW_GOAL: this | that", GoalMarker("this | that")),
        ("GOAL_COMPLETE: Mend", EndMarker("Mend")),
        ("GOAL_COMPLETE", EndMarker()),
        ("**GOAL_PAUSE**", EndMarker(status="paused")),
    ],
)
def test_what_a_model_may_write_is_read(line, marker):
    """FR-7: both syntaxes, in any case, with any dash, in bold, in a list."""
    text = f"Some words before.\n{line}\nand after: [done]"
    assert markers_in(text) == [marker]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I would write [GOAL] Mend the roof here.",
        "> [GOAL] Mend the roof",
        '"[GOAL] Mend the roof"',
        "```\n[GOAL] Mend the roof\n```",
        "~~~~ text\n[GOAL] Mend\n~~~\n[GOAL] Mend\n~~~~",
        "- ```\n  [GOAL] Mend the roof",
        "1. ```\n   [GOAL] Mend the roof\n   ```\n2. ```\n   [NEXT] Call\n   ```",
        "[GOAL](https://roof.example) is where it stands",
        "[decision][1] says so",
        "[decision]: https://roof.example/decision.html",
        "Decision: we take slate.",
        "checkpoint: 3",
        "[GOAL]",
        "[GOAL] ---",
        "[ARTIFACT] src/roof.py",
        "[GOALS] one, two",
        "GOAL_PAUSE is a word that may be written.",
        "[GOAL] " + "x" * LONGEST,
    ],
)
def test_what_is_no_marker_is_left_alone(text):
    """FR-7: prose, quotes, code, and what is malformed."""
    assert markers_in(text) == []


def test_what_stands_after_a_fence_counts_again():
    assert markers_in("```py\nx\n```\n[NEXT] Call") == [NextMarker("Call")]
    assert markers_in("1. ```py\n   x\n   ```\n[NEXT] Call") == [NextMarker("Call")]


def test_markers_come_in_order():
    text = "[GOAL] Mend\n\n[NEXT] Call\n[CHECKPOINT] Order - DONE"
    assert markers_in(text) == [
        GoalMarker("Mend"),
        NextMarker("Call"),
        task("Order", "completed"),
    ]


WORDS = st.text(st.characters(categories=("Lu", "Ll", "Nd", "Lo")), min_size=1, max_size=12).filter(
    lambda word: (
        word.lower() not in ("locked", "unlocked", "done", "pending", "open", "blocked")
        and not word.lower().startswith(
            ("complete", "inprogress", "started", "finished", "ongoing")
        )
        and word.lower() not in ("todo", "finished", "high", "low", "medium")
    )
)
TEXT = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
MARKERS = st.one_of(
    st.builds(GoalMarker, TEXT, st.sampled_from(("high", "medium", "low"))),
    st.builds(EndMarker, st.one_of(st.just(""), TEXT)),
    st.just(EndMarker(status="paused")),
    st.builds(task, TEXT, st.sampled_from(("pending", "in_progress", "completed"))),
    st.builds(task, TEXT, st.just("blocked"), st.one_of(st.just(""), TEXT)),
    st.builds(decision, TEXT, st.booleans(), st.one_of(st.just(""), TEXT)),
    st.builds(artifact, TEXT, st.sampled_from(("created", "modified", "deleted"))),
    st.builds(NextMarker, TEXT),
)


@given(st.lists(MARKERS, max_size=5))
def test_what_is_written_is_read(markers):
    """FR-7: `marker_line` and `markers_in` are one language."""
    assert markers_in("\n".join(map(marker_line, markers))) == markers


PIECES = st.sampled_from(
    (
        *("[GOAL]", "[CHECKPOINT]", "[DECISION]", "[ARTIFACT]", "[NEXT]", "GOAL_PAUSE", "- "),
        *("CHECKPOINT:", "DECISION: ", " | ", "**", "`", "```", "~~~", ">", "\n", "\r\n", " "),
        *(" - LOCKED", " - BLOCKED: ", "Created ", "COMPLETED", "—", "(", ")", "x", "\0", "Ü"),
    )
)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join)))
def test_no_text_breaks_the_reader(text):
    """FR-7: whatever a model writes, reading it raises nothing, and what is read can be written."""
    found = markers_in(text)
    assert all(markers_in(marker_line(marker)) for marker in found)


@pytest.mark.timing
@pytest.mark.slow
def test_a_long_text_without_markers_costs_little():
    """FR-7: prose and code with brackets are looked through once."""
    text = "call(values[0], other[goal]): it holds.\n" * 12_000
    assert markers_in(text) == []
    assert is_linear(markers_in, text)


@pytest.mark.timing
@pytest.mark.parametrize("line", ["[CHECKPOINT] " + " - " * 9_000, "[DECISION] " + "( " * 14_000])
def test_a_line_that_is_all_dashes_costs_little(line):
    assert is_linear(markers_in, line)
    assert is_linear(markers_in, "\n".join([line[:300]] * 400))

"""Goals: their words whole, their progress bounded, what markers do to them (FR-7, FR-15)."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact.messages.goals import Artifact, Decision, Goal, Subtask, goals_message, open_tasks
from compact.messages.own_text import keyed
from compact.text.markers import markers_in
from compact.text.progress import (
    MOST_ARTIFACTS,
    MOST_DECISIONS,
    MOST_ENDED,
    MOST_MADE,
    MOST_SUBTASKS,
    progress,
)

ROOF = Goal(text="Mend the roof.", id="roof")

OWN = keyed(b"of this store")


def after(text, *goals):
    """The goals after one message."""
    return progress(goals or (ROOF,), markers_in(text))


def shown(*goals):
    message = goals_message(goals, OWN)
    assert message is not None
    return message.text


# --- what is stored and shown ---------------------------------------------------------------------


def test_a_goal_that_was_stored_before_goals_grew_still_loads():
    """FR-7: what an older version stored."""
    stored = {
        "text": "win",
        "id": "g",
        "status": "active",
        "created_at": "2026-01-02T03:04:05Z",
    }
    goal = Goal.model_validate(stored)
    assert goal == Goal(text="win", id="g", created_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert shown(goal).endswith("]\n- win"), "and is shown as it was"
    assert Goal.model_validate(json.loads(goal.model_dump_json())) == goal


def test_a_goal_is_shown_with_what_was_reached():
    """FR-7: words, subtasks, decisions, blockers, files, next; ours when it comes back."""
    goal = ROOF.model_copy(
        update={
            "priority": "high",
            "subtasks": (
                Subtask(text="Order the slates", status="completed"),
                Subtask(text="Call the roofer", status="in_progress"),
                Subtask(text="Pay", status="blocked", note="no money"),
                Subtask(text="Sweep"),
            ),
            "decisions": (Decision(text="Slate", locked=True, reason="it lasts"),),
            "artifacts": (Artifact(path="plan.md", action="created"),),
            "next_steps": ("Ring at eight",),
        }
    )
    text = shown(goal, Goal(text="Sleep", status="paused"))
    assert text.split("\n")[1:] == [
        "- Mend the roof.",
        "  - priority: high",
        "  - done: Order the slates",
        "  - in progress: Call the roofer",
        "  - blocked: Pay (no money)",
        "  - to do: Sweep",
        "  - decided for good: Slate (because: it lasts)",
        "  - created: plan.md",
        "  - next: Ring at eight",
    ]
    assert OWN.kind_of(text) == "Goals"
    assert text == shown(Goal.model_validate(goal.model_dump(mode="json"))), "the same bytes"
    assert open_tasks((goal,)) == ("Call the roofer", "Pay", "Sweep")


def test_the_message_stays_small_and_cuts_nothing_that_is_open():
    """FR-7: of what is finished the newest are shown; open subtasks and locked decisions first."""
    many = range(60)
    goal = ROOF.model_copy(
        update={
            "text": "Line one\nline two " * 40,
            "subtasks": tuple(
                Subtask(text=f"Task {i}", status="completed" if i % 2 else "pending") for i in many
            ),
            "decisions": tuple(Decision(text=f"Choice {i}", locked=i < 3) for i in many),
            "artifacts": tuple(Artifact(path=f"{i}.md", action="created") for i in many),
        }
    )
    text = shown(goal)
    assert goal.text in text
    assert all(f"to do: Task {i}\n" in text for i in many if not i % 2)
    assert [i for i in many if f"done: Task {i}\n" in text] == [51, 53, 55, 57, 59]
    assert "done: 25 more before these" in text
    assert [i for i in many if f": Choice {i}\n" in text] == [0, 1, 2, *range(51, 60)]
    assert text.count(".md") == 12
    assert text.endswith("59.md")


# --- markers --------------------------------------------------------------------------------------


def test_markers_bring_a_goal_on():
    """FR-7: progress is tracked from a model's output."""
    first = after(
        "[CHECKPOINT] Order the slates - IN PROGRESS\n[CHECKPOINT] Call the roofer\n"
        "[DECISION] Slate, not tin\n[ARTIFACT] Created plan.md\n[NEXT] Measure\n[NEXT] Ring"
    )
    assert len(first.changes) == 6
    second = after(
        "[CHECKPOINT] order  the slates. - COMPLETED\n"
        "[CHECKPOINT] Call the roofer - BLOCKED: closed\n"
        "[DECISION] Slate, not tin - LOCKED\n[ARTIFACT] Modified plan.md\n[NEXT] Wait",
        *first.goals,
    )
    (goal,) = second.goals
    assert goal.text == ROOF.text
    assert goal.id == ROOF.id
    assert goal.subtasks == (
        Subtask(text="Order the slates", status="completed"),
        Subtask(text="Call the roofer", status="blocked", note="closed"),
    )
    assert goal.decisions == (Decision(text="Slate, not tin", locked=True),)
    assert goal.artifacts == (Artifact(path="plan.md", action="created"),)
    assert first.goals[0].next_steps == ("Measure", "Ring")
    assert goal.next_steps == ("Wait",), "the newest message that names any counts"
    assert not second.left_out
    assert not after("[CHECKPOINT] Order the slates - COMPLETED", *second.goals).changes


@pytest.mark.parametrize(
    ("known", "said", "is_same"),
    [
        ("Order the slates", "order  THE slates.", True),
        ("Re-order `slates`", "re order slates", False),
        ("Set the offset to 1", "Set the offset to -1", False),
        ("Accept x ≥ 3", "Accept x ≤ 3", False),
        ("A → B", "A ← B", False),
        ("Call retry", "Call !retry", False),
        ("Use 1.5", "Use 1-5", False),
        ("write .env", "write env", False),
        ("Order the slates", "Order slates", False),
        ("Write unit tests for the lexer module", "Write unit tests for the parser module", False),
        ("Migrate table 12 of the database", "Migrate table 1 2 of the database", False),
        ("Do not deploy the parser", "Deploy the parser", False),
        ("Learn C", "Learn C++", False),
        ("Bind to port 80", "Bind to port 8080", False),
        ("修复登录页面", "修复登录页面。", True),
        ("修复登录页面", "修复登录页面的", False),
        ("!!", "!!", True),
        ("!!", "??", False),
    ],
)
def test_what_is_meant_is_found_by_its_words(known, said, is_same):
    """FR-15: the same words, whatever their case, spaces and final marks; else another entry."""
    goal = ROOF.model_copy(update={"subtasks": (Subtask(text=known),)})
    (found,) = progress((goal,), [Subtask(text=said, status="completed")]).goals
    assert (len(found.subtasks) == 1) is is_same
    assert found.subtasks[0].status == ("completed" if is_same else "pending")


@pytest.mark.parametrize("ends", ["GOAL_COMPLETE: Paint it", "GOAL_PAUSE"])
def test_a_goal_that_ended_may_be_set_again(ends):
    """FR-15: nothing that a model sets is swallowed."""
    done = after(f"[GOAL] Paint it\n{ends}\n[GOAL] Paint it")
    assert [goal.is_active for goal in done.goals] == [True, False, True]
    assert len(done.changes) == 3


def test_what_blocks_a_goal_is_shown_until_it_is_over():
    """FR-15."""
    (blocked,) = after("[CHECKPOINT] mend the roof - BLOCKED: no bricks").goals
    assert "- blocked: mend the roof (no bricks)" in shown(blocked)
    (going,) = after("[CHECKPOINT] Mend the roof - IN-PROGRESS", blocked).goals
    assert going.subtasks == (Subtask(text="mend the roof", status="in_progress"),)
    (over,) = after("[CHECKPOINT] Mend the roof - COMPLETED", blocked).goals
    assert over.is_active, "a person set it"
    assert over.subtasks[0].status == "completed"
    made = after("[GOAL] Paint it\n[CHECKPOINT] Paint it - BLOCKED: rain").goals
    assert after("[CHECKPOINT] Paint it - COMPLETED", *made).goals[1].status == "done"


def test_a_new_reason_for_a_known_decision_is_kept_or_said():
    """FR-15."""
    first = after("DECISION: Slate | it lasts")
    second = after("DECISION_LOCKED: slate | it lasts for ever", *first.goals)
    assert second.goals[0].decisions == (
        Decision(text="Slate", locked=True, reason="it lasts for ever"),
    )
    third = after("DECISION: Slate | it is grey", *second.goals)
    assert third.goals == second.goals
    assert "decided for good, with another reason" in third.left_out[0]


def test_a_subtask_is_not_taken_back_by_being_named_again():
    goal = ROOF.model_copy(update={"subtasks": (Subtask(text="Sweep", status="completed"),)})
    again = after("[CHECKPOINT] Sweep", goal)
    assert again.goals == (goal,)
    assert "further along already" in again.left_out[0]
    (again,) = after("[CHECKPOINT] Sweep - IN-PROGRESS", goal).goals
    assert again.subtasks[0].status == "in_progress"


def test_a_locked_decision_stays_word_for_word():
    """FR-7: neither unlocked nor said in other words."""
    goal = ROOF.model_copy(update={"decisions": (Decision(text="Slate, not tin", locked=True),)})
    assert after("[DECISION] slate,  not TIN. - UNLOCKED", goal).goals == (goal,)
    assert after("[DECISION] slate,  not TIN. - LOCKED", goal).goals == (goal,)
    open_one = ROOF.model_copy(update={"decisions": (Decision(text="Slate, not tin"),)})
    assert after("[DECISION] slate, not tin", open_one).goals == (open_one,), "not locked by it"


def test_a_model_sets_a_goal_but_ends_no_persons():
    """FR-7: a person's goal stays in every prompt until a person ends it; what was not heeded is
    said.
    """
    made = after("[GOAL] Paint the door").goals
    assert [(g.text, g.made_by) for g in made[1:]] == [("Paint the door", "model")]
    assert after("[GOAL] paint the door!", *made).goals == made, "known"
    assert after("[GOAL] Mend the roof", *made).goals == made, "a person's is known, too"
    ended = after("GOAL_COMPLETE: Paint the door", *made)
    assert [g.status for g in ended.goals] == ["active", "done"]
    assert [g.status for g in after("GOAL_PAUSE", *made).goals] == ["active", "paused"]
    for said in (
        "GOAL_COMPLETE: Mend the roof",
        "GOAL_COMPLETE",
        "GOAL_PAUSE",
        "[CHECKPOINT] Mend the roof - COMPLETED",
    ):
        kept = after(said)
        assert kept.goals == (ROOF,)
        assert "a person set this goal" in kept.left_out[0]
    paused = ROOF.model_copy(update={"status": "paused"})
    assert "no goal is active" in after("[NEXT] Ring", paused).left_out[0]


def test_goals_that_a_model_sets_are_bounded():
    """FR-7: five at most; of ended ones the newest are kept."""
    done = after("\n".join(f"[GOAL] Walk {i} miles" for i in range(9)))
    assert [g.text for g in done.goals[1:]] == [f"Walk {i} miles" for i in range(MOST_MADE)]
    assert len(done.left_out) == 9 - MOST_MADE
    goals = done.goals
    for i in range(60):
        goals = after(f"GOAL_COMPLETE\n[GOAL] Run {i} miles", *goals).goals
        assert sum(goal.is_active for goal in goals) == 1 + MOST_MADE
    assert goals[0] == ROOF
    assert goals[-1].text == "Run 59 miles"
    assert len(goals) == 1 + MOST_MADE + MOST_ENDED


def test_counts_are_bounded():
    """FR-7: what is finished goes first; where nothing may go, the new one is left out."""
    said = "\n".join(
        f"[CHECKPOINT] Task {i} - {'COMPLETED' if i % 2 else 'PENDING'}\n"
        f"[DECISION] Choice {i} - {'LOCKED' if i % 2 else 'UNLOCKED'}\n[ARTIFACT] Created {i}.md"
        for i in range(200)
    )
    done = after(said)
    (goal,) = done.goals
    assert len(goal.subtasks) == MOST_SUBTASKS
    assert [t.text for t in goal.subtasks[:3]] == ["Task 0", "Task 2", "Task 4"]
    assert all(task.status == "pending" for task in goal.subtasks[:-1])
    assert len(goal.decisions) == MOST_DECISIONS
    assert goal.decisions[0] == Decision(text="Choice 1", locked=True)
    assert [file.path for file in goal.artifacts] == [f"{i}.md" for i in range(150, 200)]
    assert MOST_ARTIFACTS == 50
    assert "stand there already" in done.left_out[0]


def test_what_does_not_fit_is_left_out_and_said():
    """FR-7: a model cannot make the floor larger than it may be; what is on its way still moves."""

    def fits(goals):
        return len(open_tasks(goals)) <= 2

    said = "[CHECKPOINT] Sweep\n[CHECKPOINT] Wash\n[CHECKPOINT] Dry\n[CHECKPOINT] Wash - DONE"
    done = progress((ROOF,), markers_in(said), fits=fits)
    assert [t.text for t in done.goals[0].subtasks] == ["Sweep", "Wash"]
    assert done.goals[0].subtasks[1].status == "completed"
    assert done.left_out == (
        "[CHECKPOINT] Dry - PENDING (the goals take all the room they may have)",
    )


@given(
    st.lists(
        st.sampled_from(
            (
                *("[GOAL] Walk 1", "[GOAL] Walk 2", "[CHECKPOINT] a 1", "[CHECKPOINT] a 1 - DONE"),
                *("[CHECKPOINT] b - BLOCKED", "[DECISION] c", "[DECISION] c - LOCKED", "[NEXT] d"),
                *("[ARTIFACT] Created e", "[ARTIFACT] Deleted e", "GOAL_COMPLETE", "GOAL_PAUSE"),
                "[CHECKPOINT] Mend the roof - COMPLETED",
            )
        ),
        max_size=30,
    )
)
def test_a_persons_words_stay_whatever_a_model_says(lines):
    """FR-7: word for word, active, and shown."""
    done = after("\n".join(lines))
    assert done.goals[0].text == ROOF.text
    assert done.goals[0].is_active
    assert f"\n- {ROOF.text}" in shown(*done.goals)
    assert all(task in shown(*done.goals) for task in open_tasks(done.goals))
    assert progress((ROOF,), markers_in("\n".join(lines))).changes == done.changes

"""`compactctl goals`: listed, added, ended, on a store as other session commands (FR-7, US-6)."""

import json

import pytest

from compact import ContextManager


@pytest.fixture
def chat(tmp_path):
    file = tmp_path / "chat.db"
    with ContextManager(store=file, session_id="harbour", window=4_000) as ctx:
        ctx.set_goals(["Mend the roof \x1b[31mbefore week 42.", "Sleep."])
        ctx.add_message(
            role="assistant",
            content="[CHECKPOINT] Pack - DONE\n[CHECKPOINT] Lie down - BLOCKED: noise\n"
            "[DECISION] No alarm - LOCKED\n[ARTIFACT] Created bed.md\n[NEXT] Close the door",
        )
    return file


def goals_in(file):
    with ContextManager(store=file, session_id="harbour") as ctx:
        return ctx.goals


def test_goals_are_listed_with_what_was_reached(run, chat):
    """FR-7: for people, free of what would steer a terminal."""
    done = run("goals", "harbour", "--store", chat)
    assert done.code == 0, done
    assert "\x1b" not in done.out
    for words in (
        *("Mend the roof", "before week 42.", "Sleep.", "active", "1 of 2"),
        *("completed: Pack", "blocked: Lie down (noise)", "decided for good: No alarm"),
        *("created: bed.md", "next: Close the door"),
    ):
        assert words in done.out
    assert run("goals", "list", "harbour", "--store", chat) == done
    assert [goal.id[:8] in done.out for goal in goals_in(chat)] == [True, True]


def test_goals_are_told_to_machines(run, chat):
    """K-11: what the session itself says, and nothing else on standard output."""
    done = run("goals", "harb", "--store", chat, "--json")
    assert json.loads(done.out) == [goal.model_dump(mode="json") for goal in goals_in(chat)]


def test_a_goal_is_added_word_for_word(run, chat):
    """FR-7: it is in the next prompt, the others stay."""
    text = "  Spend at most 3,100 €: *nothing* more.  "
    done = run("goals", "add", "harbour", text, "--priority", "high", "--store", chat)
    assert done.code == 0, done
    assert "active, high" in done.out
    before = goals_in(chat)
    assert [goal.text for goal in before[1:]] == ["Sleep.", text.strip()]
    assert before[1].subtasks[0].text == "Pack"
    assert before[-1].priority == "high"
    with ContextManager(store=chat, session_id="harbour") as ctx:
        assert f"- {text.strip()}" in ctx.get_context_for_model()[0]["content"]


@pytest.mark.parametrize(
    ("command", "status"),
    [("done", "done"), ("drop", "dropped"), ("pause", "paused"), ("resume", "active")],
)
def test_a_goal_is_ended_paused_and_taken_up_again(run, chat, command, status):
    """FR-7: a person has the last word; what is not active leaves the prompts."""
    roof, sleep = goals_in(chat)
    done = run("goals", command, "harbour", roof.id[:10], "--store", chat, "--json")
    assert done.code == 0, done
    assert [goal["status"] for goal in json.loads(done.out)] == [status, "active"]
    assert goals_in(chat) == (roof.model_copy(update={"status": status}), sleep)
    with ContextManager(store=chat, session_id="harbour") as ctx:
        shown = ctx.get_context_for_model()[0]["content"]
        assert ("Mend the roof" in shown) == (status == "active")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("goals", "done", "harbour", "nope"), "no goal 'nope' in session 'harbour'"),
        (("goals", "nowhere"), "no session 'nowhere'"),
        (("goals", "add", "harbour", "  "), "TEXT: the goal is empty"),
        (("goals", "add", "harbour"), "TEXT"),
        (("goals", "add", "harbour", "x", "--priority", "urgent"), "urgent"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(run, chat, arguments, reason):
    """K-11: exit code 2, the reason on standard error, goals as they were."""
    before = goals_in(chat)
    done = run(*arguments, "--store", chat)
    assert done.code == 2, done
    assert done.out == ""
    assert reason in done.err
    assert "Traceback" not in done.err
    assert goals_in(chat) == before


def test_a_store_that_is_not_there_is_never_made(run, tmp_path):
    assert run("goals", "x").code == 2
    assert run("goals", "add", "x", "y").code == 2
    assert list(tmp_path.iterdir()) == []


def test_no_goals_is_said(run, tmp_path):
    file = tmp_path / "empty.db"
    with ContextManager(store=file, session_id="x") as ctx:
        ctx.add_message(role="user", content="Good morning.")
    done = run("goals", "x", "--store", file)
    assert (done.code, done.out, done.err) == (0, "", "this session has no goals\n")
    assert "Examples:" in run("goals").out

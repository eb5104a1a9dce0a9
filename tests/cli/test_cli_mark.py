"""`compactctl mark`: title, tags, importance, mode, pins, goals, what is put aside (C-4, FR-7)."""

import json

import pytest

from compact import ContextManager


@pytest.fixture
def told(run, chat):
    """Mark the session, as JSON."""

    def _told(*arguments):
        done = run("mark", "harbour", *arguments, "--store", chat, "--json")
        assert (done.code, done.err) == (0, ""), done
        return json.loads(done.out)

    return _told


@pytest.fixture
def shown(run, chat):
    """What `show` says of it."""

    def _shown(*arguments):
        return json.loads(run("show", "harbour", *arguments, "--store", chat, "--json").out)

    return _shown


def test_a_session_is_described(told, shown, run, chat):
    marked = told("--title", "The office moves", "--important", "--tag", "office", "--tag", "2026")
    assert (marked["title"], marked["important"]) == ("The office moves", True)
    assert set(marked["tags"]) == {"office", "2026"}
    assert shown()["metadata"]["important"] is True
    overview = run("show", "harbour", "--store", chat).out
    assert "#office" in overview
    assert "kept whole whatever its age" in overview
    assert told("--not-important")["important"] is False


def test_the_mode_is_kept(told, shown, run, chat):
    """FR-12."""
    assert shown()["mode"] == "assistant"
    assert told("--mode", "developer")["mode"] == shown()["mode"] == "developer"
    done = run("mark", "harbour", "--mode", "poet", "--store", chat)
    assert (done.code, "there are assistant" in done.err) == (2, True)


def test_a_pinned_message_stays_in_every_prompt(told, shown, run, chat):
    def prompt():
        given = ("--target-ratio", "0.3", "--store", chat)
        assert run("sessions", "compress", "harbour", *given).code == 0
        return run("show", "harbour", "context", "--text", "--store", chat).out

    before, rows = prompt(), shown("history", "--most", "1000")["messages"]
    number, text = next(
        (row["number"], row["text"])
        for row in rows
        if row["role"] == "assistant" and 80 < len(row["text"]) < 400 and row["text"] not in before
    )
    told("--pin", number - len(rows))
    assert number in shown()["pinned"]
    assert text in prompt()
    told("--unpin", number)
    assert number not in shown()["pinned"]
    assert text not in prompt()


def test_goals_are_added_and_ended(told, shown, run, chat):
    """FR-7: word for word in the next prompt; a person has the last word."""
    text = "  Spend at most 3,100 €: *nothing* more.  "
    spend, sleep = told("--goal", text, "--goal", "Sleep.")["goals"]
    assert (spend["text"], spend["status"]) == (text.strip(), "active")
    prompt = run("show", "harbour", "context", "--text", "--store", chat).out
    assert f"- {text.strip()}" in prompt
    done = told("--done", spend["id"][:10], "--drop", sleep["id"])
    assert [goal["status"] for goal in done["goals"]] == ["done", "dropped"]
    assert text.strip() not in run("show", "harbour", "context", "--text", "--store", chat).out
    assert [goal["id"] for goal in shown("goals")] == [spend["id"], sleep["id"]]


def test_goals_are_shown_with_what_was_reached(run, tmp_path):
    """FR-7: for people, free of what would steer a terminal."""
    with ContextManager(store=tmp_path / "chat.db", session_id="a", window=4_000) as ctx:
        ctx.goals.set(["Mend the roof \x1b[31mbefore week 42.", "Sleep."])
        ctx.add_message(
            role="assistant",
            content="[CHECKPOINT] Pack - DONE\n[CHECKPOINT] Lie down - BLOCKED: noise\n"
            "[DECISION] No alarm - LOCKED\n[ARTIFACT] Created bed.md\n[NEXT] Close the door",
        )
    done = run("show", "a", "goals", "--store", "chat.db")
    assert (done.code, "\x1b" in done.out) == (0, False)
    for words in (
        *("Mend the roof", "before week 42.", "Sleep.", "active", "1 of 2"),
        *("completed: Pack", "blocked: Lie down (noise)", "decided for good: No alarm"),
        *("created: bed.md", "next: Close the door"),
    ):
        assert words in done.out


def test_a_message_that_fits_nowhere_is_put_aside(run, tmp_path):
    """FR-3: the error names the way out, and the command takes it."""
    with ContextManager(window=8_192, store=tmp_path / "s.db", session_id="a") as ctx:
        log = ctx.add_message(role="user", content="A crane lifted a box. " * 2_000)
    at = ("a", "--store", "s.db", "--window", "2000")
    done = run("sessions", "compress", *at)
    assert (done.code, "mark SESSION --put-aside newest" in done.err) == (1, True)
    assert "message 0, head and tail are shown" in run("mark", *at, "--put-aside", "newest").out
    seen = run("show", "a", "context", *at[1:], "--text").out
    assert f"the whole text is message {log.id}" in seen
    assert log.text not in seen
    assert run("sessions", "compress", *at).code == 0
    assert log.text in run("expand", "a", log.id, "--store", "s.db").out


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ((), "nothing to change"),
        (("--done", "nope"), "no goal 'nope' in session 'harbour'; there is none at all"),
        (("--goal", "  "), "--goal: the goal is empty"),
        (("--pin", "nobody"), "no message"),
        (("--mode", "developer", "--pin", "999"), "no message"),
        (("--goal", "Sail.", "--put-aside", "nobody"), "no message"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_changed(run, chat, shown, given, reason):
    """K-11: exit code 2, one line, whatever else was asked for."""
    before = shown()
    done = run("mark", "harbour", *given, "--store", chat)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert reason in done.err
    assert shown() == before

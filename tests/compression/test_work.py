"""The work log: what tools did, and what is true of it now (C-8)."""

import pytest

from tests.compression.saying import (
    call,
    composed,
    edit,
    notes_of,
    result,
    run,
    said,
    section,
    story,
)

FAILED = "FAILED tests/test_mail.py::test_sends - KeyError: 'to'"


def record(*messages):
    return composed([said("user", "See to the mail."), *messages])


def test_a_pass_clears_a_failure_whatever_flags_the_command_had():
    """No failure is told that a pass of the same check has overtaken."""
    text = record(
        *run(1, "pytest -q tests/test_mail.py", FAILED),
        *edit(1),
        *run(2, "cd app && python -m pytest -x --tb=short", "12 passed"),
    )
    assert section(text, "State") == "- `python -m pytest -x --tb=short` passed"
    assert "still fails" not in text


def test_another_check_clears_nothing():
    text = record(*run(1, "pytest -q", FAILED), *run(2, "mypy src", "Success: no issues found"))
    assert "`pytest -q` failed: " in section(text, "State")
    assert "tests/test_mail.py::test_sends - KeyError: 'to'" in section(text, "State")
    assert "`mypy src` passed" in section(text, "State")


def test_what_was_written_since_is_not_checked():
    text = record(*run(1, "pytest -q", "12 passed"), *edit(1, "src/app/mail.py"))
    assert "written since a check passed: mail.py" in text
    text = record(*edit(1, "src/app/mail.py"), *run(1, "pytest -q", "12 passed"))
    assert "since a check passed" not in text


def test_a_command_that_only_names_a_check_is_none():
    text = record(*run(1, "grep -rn pytest docs", "docs/run.md: pytest -q"))
    assert not section(text, "State")


def test_git_says_branch_and_commit():
    text = record(
        *run(1, "git checkout -b mail", "Switched to a new branch 'mail'"),
        *run(2, "git commit -am 'Send it'", "[mail 1a2b3c4] Send it\n 1 file changed"),
    )
    assert section(text, "State") == "- On branch mail, last commit 1a2b3c4 Send it"


def test_the_newest_task_list_counts():
    """TodoWrite and its like send the whole list each time."""

    def todos(number, *states):
        names = ("Read the parser", "Write the tests", "Deploy to staging")
        rows = [{"content": n, "status": s} for n, s in zip(names, states, strict=True)]
        return [call(f"t{number}", "TodoWrite", {"todos": rows}), result(f"t{number}", "ok")]

    first = todos(1, "completed", "in_progress", "pending")
    assert section(record(*first), "Open") == "- Write the tests\n- Deploy to staging"
    text = record(*first, *todos(2, "completed", "completed", "pending"))
    assert section(text, "Open") == "- Deploy to staging"
    text = record(*first, *todos(3, "completed", "completed", "completed"))
    assert not section(text, "Open")


def test_tasks_that_are_made_and_updated_one_by_one():
    """TaskCreate and TaskUpdate: the state of each is that of its last update."""

    def made(number, words):
        yield call(f"t{number}", "TaskCreate", {"subject": words, "description": "as agreed"})
        yield result(f"t{number}", f"Task #{number} created successfully: {words}")

    def now(number, status):
        arguments = {"taskId": str(number), "status": status}
        yield call(f"u{number}{status}", "TaskUpdate", arguments)
        yield result(f"u{number}{status}", f"Updated task #{number} status")

    both = [*made(1, "Write the parser"), *made(2, "Write the writer")]
    assert section(record(*both), "Open") == "- Write the parser\n- Write the writer"
    done = [*both, *now(1, "in_progress"), *now(1, "completed")]
    assert section(record(*done), "Open") == "- Write the writer"
    again = [*done, *now(1, "pending"), *now(2, "deleted")]
    assert section(record(*again), "Open") == "- Write the parser"


@pytest.mark.parametrize(
    ("answer", "is_error", "told"),
    [
        ("User has approved your plan. You can now start coding.", False, "was approved"),
        ("The user doesn't want to proceed with this tool use.", True, "was refused"),
    ],
)
def test_a_plan_and_what_became_of_it(answer, is_error, told):
    plan = call("p", "ExitPlanMode", {"plan": "# Move to PostgreSQL\n\n1. dump\n2. load"})
    text = record(plan, result("p", answer, is_error=is_error))
    assert section(text, "State") == f"- The plan “Move to PostgreSQL” {told}"


def test_what_was_refused_or_failed_was_not_written():
    """Neither listed nor told as a file that somebody wrote."""
    refused = "The user doesn't want to proceed with this tool use."
    for answer in (refused, "Error: the text to replace was not found"):
        made = call("e", "Edit", {"file_path": "src/a.py", "old_string": "a", "new_string": "b"})
        notes = notes_of([said("user", "Go."), made, result("e", answer, is_error=True)])
        assert not notes.work.files
        assert not notes.work.unchecked
        assert not any(it.writes for t in notes.turns.rows for it in t.touched.values())


def test_what_a_call_came_to_is_told_without_what_it_wrote():
    """One line: what it was asked for and what it gave, never the text that it wrote."""
    messages = [
        said("user", "Change my booking."),
        call("c1", "change_booking", {"berth": "B7", "content": "two\nlines"}),
        result("c1", "booking bk_41 changed"),
        call("c2", "apply_patch", {"patch": "--- a\n+++ b\n"}),
        result("c2", "patched 1 file"),
    ]
    told = story(messages)
    assert "change_booking(berth=B7) gave: booking bk_41 changed" in told
    assert "two" not in told
    assert "patch" not in told


def test_a_result_without_its_call_is_no_reason_to_fail():
    assert record(result("gone", FAILED)).startswith("## Goal")


def test_a_shown_list_of_tasks_says_which_are_done():
    """Also those whose ends were seen by nobody."""
    text = record(
        call("t1", "TaskCreate", {"subject": "Paint the hull", "description": "twice"}),
        result("t1", "Task #1 created successfully: Paint the hull"),
        call("t2", "TaskList", {}),
        result("t2", "#1 [completed] Paint the hull\n#2 [pending] Sand it [blocked by #1]"),
    )
    assert section(text, "Open") == "- Sand it"
    assert "- Done: Paint the hull" in section(text, "State")


def test_a_check_says_what_was_written_since():
    text = record(*run(1, "pytest -q", "12 passed"), *edit(1, "src/app/mail.py"))
    assert "- `pytest -q` passed; written since: mail.py" in section(text, "State")


def test_git_says_the_branch_alone():
    text = record(*run(1, "git branch --show-current", "harbour/mail\n"))
    assert section(text, "State") == "- On branch harbour/mail"


def test_the_newest_outcome_of_each_thing_is_told_with_what_it_gave():
    """Not that it went well: what it gave may be another thing than what was asked for."""

    def change(number, berth, gave, **more):
        yield call(f"c{number}", "change_booking", {"id": berth, "cabin": "wide"})
        yield result(f"c{number}", gave, **more)

    text = record(
        *change(1, "B7", "Error: the guest owes money", is_error=True),
        *change(2, "B9", '{"id": "B9", "cabin": "narrow", "paid": {"amount": 1200}}'),
        *change(3, "B7", '{"id": "B7", "cabin": "wide", "paid": {"amount": 90}}'),
        call("g", "get_booking", {"id": "B7", "of": "today"}),
        result("g", '{"id": "B7", "cabin": "wide"}'),
    )
    state = section(text, "State")
    assert "change_booking(id=B9, cabin=wide) gave: cabin=narrow, amount=1200" in state
    assert "change_booking(id=B7, cabin=wide) gave: amount=90" in state
    assert "owes money" not in state
    assert "get_booking" not in state

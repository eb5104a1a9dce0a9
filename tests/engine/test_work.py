"""The work log: what tools did, and what is true of it now (C-8)."""

import pytest

from compact import CompactPolicy, plan
from tests.engine.saying import (
    call,
    composed,
    edit,
    fail,
    notes_of,
    result,
    run,
    said,
    section,
    story,
)

FAILED = "FAILED tests/test_mail.py::test_sends - KeyError: 'to'"


def now(*messages):
    """What stands now, beside what was asked."""
    text = composed([said("user", "See to the mail.", id="m1"), *messages])
    first, *lines = section(text, "Now").splitlines()
    assert first.startswith("- Asked last (m1)")
    return [line for line in lines if not line.startswith("- Written, the newest first")]


def to_do(*messages):
    return [x.removeprefix("- To do: ") for x in now(*messages) if x.startswith("- To do: ")]


def test_a_pass_clears_a_failure_whatever_flags_the_command_had():
    """The outcome of each check is that of its last run."""
    assert now(
        *run(1, "pytest -q tests/test_mail.py", FAILED),
        *edit(1),
        *run(2, "cd app && python -m pytest -x --tb=short", "12 passed"),
    ) == ["- `python -m pytest -x --tb=short` came to: 12 passed"]


def test_another_check_clears_nothing():
    mypy, pytest_ = now(
        *run(1, "pytest -q", FAILED), *run(2, "mypy src", "Success: no issues found")
    )
    assert pytest_ == (
        "- `pytest -q` came to: failed: tests/test_mail.py::test_sends - KeyError: 'to'"
    )
    assert mypy == "- `mypy src` came to: passed"


def test_a_check_says_what_was_written_since():
    passed = "- `pytest -q` came to: 12 passed"
    written = edit(1, "src/app/mail.py")
    assert now(*run(1, "pytest -q", "12 passed"), *written) == [f"{passed}; written since: mail.py"]
    assert now(*written, *run(1, "pytest -q", "12 passed")) == [passed]


def test_a_command_that_only_names_a_check_is_none():
    assert not now(*run(1, "grep -rn pytest docs", "docs/run.md: pytest -q"))


def test_git_says_branch_and_commit_and_what_is_not_committed():
    work = [
        *run(1, "git checkout -b mail", "Switched to a new branch 'mail'"),
        *edit(1, "src/app/mail.py"),
        *run(2, "git commit -am 'Send it'", "[mail 1a2b3c4] Send it\n 1 file changed"),
    ]
    assert now(*work) == ["- On branch mail, last commit 1a2b3c4 Send it"]
    assert "- Written since that commit: post.py" in now(*work, *edit(2, "src/app/post.py"))


def test_git_says_the_branch_alone():
    shown = run(1, "git branch --show-current", "harbour/mail\n")
    assert now(*shown) == ["- On branch harbour/mail"]


def test_a_call_that_has_no_result_yet_is_told():
    waits, _ = run(1, "make dist", "")
    assert now(waits) == ["- Called last, without a result: run make dist"]


def test_the_newest_task_list_counts():
    """TodoWrite and its like send the whole list each time."""

    def todos(number, *states):
        names = ("Read the parser", "Write the tests", "Deploy to staging")
        rows = [{"content": n, "status": s} for n, s in zip(names, states, strict=True)]
        return [call(f"t{number}", "TodoWrite", {"todos": rows}), result(f"t{number}", "ok")]

    first = todos(1, "completed", "in_progress", "pending")
    assert to_do(*first) == ["Write the tests", "Deploy to staging"]
    second = todos(2, "completed", "completed", "pending")
    assert to_do(*first, *second) == ["Deploy to staging"]
    assert not to_do(*first, *todos(3, "completed", "completed", "completed"))


def test_tasks_that_are_made_and_updated_one_by_one():
    """TaskCreate and TaskUpdate: the state of each is that of its last update."""

    def made(number, words):
        yield call(f"t{number}", "TaskCreate", {"subject": words, "description": "as agreed"})
        yield result(f"t{number}", f"Task #{number} created successfully: {words}")

    def updated(number, status):
        arguments = {"taskId": str(number), "status": status}
        yield call(f"u{number}{status}", "TaskUpdate", arguments)
        yield result(f"u{number}{status}", f"Updated task #{number} status")

    both = [*made(1, "Write the parser"), *made(2, "Write the writer")]
    assert to_do(*both) == ["Write the parser", "Write the writer"]
    done = [*both, *updated(1, "in_progress"), *updated(1, "completed")]
    assert to_do(*done) == ["Write the writer"]
    again = [*done, *updated(1, "pending"), *updated(2, "deleted")]
    assert to_do(*again) == ["Write the parser"]


@pytest.mark.parametrize(
    ("answer", "is_error", "told"),
    [
        ("User has approved your plan. You can now start coding.", False, "was approved"),
        ("The user doesn't want to proceed with this tool use.", True, "was refused"),
    ],
)
def test_a_plan_and_what_became_of_it(answer, is_error, told):
    plan = call("p", "ExitPlanMode", {"plan": "# Move to PostgreSQL\n\n1. dump\n2. load"})
    assert now(plan, result("p", answer, is_error=is_error)) == [
        f"- The plan “Move to PostgreSQL” {told}"
    ]


def test_what_was_refused_or_failed_was_not_written():
    """Neither listed nor told as a file that somebody wrote."""
    refused = "The user doesn't want to proceed with this tool use."
    for answer in (refused, "Error: the text to replace was not found"):
        made = call("e", "Edit", {"file_path": "src/a.py", "old_string": "a", "new_string": "b"})
        notes = notes_of([said("user", "Go."), made, result("e", answer, is_error=True)])
        assert not notes.work.files
        assert not notes.work.unchecked
        assert not [deed for deed in notes.work.deeds if deed.kind == "wrote"]


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
    assert "change_booking(berth=B7) → booking bk_41 changed" in told
    assert "two" not in told
    assert "+++" not in told


def test_a_result_without_its_call_is_no_reason_to_fail():
    assert not now(result("gone", FAILED))


def test_a_shown_list_of_tasks_says_which_are_done():
    """Also those whose ends were seen by nobody."""
    work = (
        call("t1", "TaskCreate", {"subject": "Paint the hull", "description": "twice"}),
        result("t1", "Task #1 created successfully: Paint the hull"),
        call("t2", "TaskList", {}),
        result("t2", "#1 [completed] Paint the hull\n#2 [pending] Sand it [blocked by #1]"),
    )
    assert to_do(*work) == ["Sand it"]


def test_a_patch_that_names_its_files_in_its_text_writes_them():
    """It is told as what was written, not as something that was changed outside."""
    patch = "--- a/src/app/mail.py\n+++ b/src/app/mail.py\n@@ -1 +1 @@\n-a\n+b\n"
    patched = [call("c", "apply_patch", {"patch": patch}), result("c", "patched 1 file")]
    kinds = {deed.kind for deed in notes_of(patched).work.deeds}
    assert "changed" not in kinds


def test_what_a_call_changed_is_told_with_what_it_gave():
    """Not that it went well: what it gave may be another thing than what was asked for."""

    def change(number, berth, gave, **more):
        yield call(f"c{number}", "change_booking", {"id": berth, "cabin": "wide"})
        yield result(f"c{number}", gave, **more)

    told = story(
        [
            said("user", "Change the cabins."),
            *change(1, "B7", "Error: the guest owes money", is_error=True),
            *change(2, "B9", '{"id": "B9", "cabin": "narrow", "paid": {"amount": 1200}}'),
            *change(3, "B7", '{"id": "B7", "cabin": "wide", "paid": {"amount": 90}}'),
            call("g", "get_booking", {"id": "B7", "of": "today"}),
            result("g", '{"id": "B7", "cabin": "wide"}'),
        ]
    )
    failed, narrow, wide, looked = told.split("  Did: ")[1].split(" · ")
    assert failed.startswith("change_booking B7 failed → ")
    assert "the guest owes money" in failed
    assert narrow == "change_booking(id=B9, cabin=wide) → cabin=narrow, amount=1200"
    assert wide == "change_booking(id=B7, cabin=wide) → amount=90"
    assert looked.startswith("get_booking")
    assert "→" not in looked


def test_what_is_known_already_is_told_behind_what_is_new():
    """Of two calls that differ in one argument, the difference is told; so is that nothing came."""

    def pay(number, card, gave):
        yield call(f"p{number}", "update_flights", {"id": "B7", "to": "HAT175", "card": card})
        yield result(f"p{number}", gave)

    told = story(
        [
            said("user", "Change the flight."),
            call("g", "get_booking", {"id": "B7"}),
            result("g", '{"id": "B7", "bags": 1, "price": 90}'),
            *pay(1, "card_11", '{"id": "B7", "bags": 1, "price": 90}'),
            *pay(2, "card_22", '{"id": "B7", "bags": 1, "price": 149}'),
        ]
    )
    assert "update_flights(id=B7, to=HAT175, card=card_11) → nothing new" in told
    assert "update_flights(id=B7, card=card_22, to=HAT175) → price=149" in told


def test_a_file_is_told_with_what_was_defined_in_it():
    """Not what stood there before, nor the examples of a document."""
    old, new = (
        "def send(mail):",
        "def send(mail):\n    ...\n\nclass Queue:\n    async def take(self):",
    )
    code = edit(1, "src/app/mail.py", old=old, new=new)
    page = edit(2, "docs/mail.md", old="x", new="```python\ndef example():\n```")
    told = story([said("user", "Add a queue."), *code, *page])
    assert "wrote mail.py (Queue, take), mail.md" in told
    assert "example" not in told


def test_each_check_of_a_command_has_its_own_verdict():
    both = run(1, "pytest -q && golangci-lint run", "4 passed\n0 issues.")
    assert now(*both) == [
        "- `golangci-lint run` came to: 0 issues.",
        "- `pytest -q` came to: 4 passed",
    ]


def test_a_page_s_program_switches_branches_too():
    checked_out = run(1, "gh pr checkout 2", "Switched to branch 'harbour/mail'")
    assert now(*checked_out) == ["- On branch harbour/mail"]


def test_now_says_whether_what_was_asked_last_was_answered():
    asked = said("user", "See to the mail.", id="m1")
    answered = composed([asked, said("assistant", "The mail is sent.")])
    assert "- Asked last (m1), and answered: " in answered
    assert "answered" not in composed([asked, *run(1, "ls", "a b")])


def test_where_somebody_is_served_every_change_is_told():
    """However little room there is, and however much was said."""
    asked = (
        message
        for i in range(30)
        for message in (
            said("user", f"How is the weather at pier {i} on Tuesday, and at the pier after it?"),
            call(f"g{i}", "get_weather", {"pier": f"P{i}"}),
            result(f"g{i}", '{"wind": "west"}'),
            said("assistant", f"At pier {i} the wind comes from the west with {i} knots."),
        )
    )
    served = [
        said("user", "Book berth B7, please."),
        call("c1", "book_berth", {"berth": "B7", "card": "card_11"}),
        result("c1", '{"berth": "B7", "price": 90}'),
        said("assistant", "It is booked."),
        *asked,
    ]
    told = story(served, 200)
    assert "book_berth(berth=B7, card=card_11) → price=90" in told


REJECTED = (
    "To https://example.org/x.git\n ! [rejected]        main -> main (fetch first)\n"
    "error: failed to push some refs to 'https://example.org/x.git'"
)
PUSHED = "To https://example.org/x.git\n   1a2b3c4..5d6e7f8  main -> main"
PULL = "https://example.org/x/pull/3"


@pytest.mark.parametrize(
    ("command", "output", "told"),
    [
        ("git push origin main", REJECTED, "git push origin main failed → ! [rejected]"),
        ("git push", f"Exit code 1\n{REJECTED}", "git push failed → ! [rejected]"),
        ("git push", "fatal: no upstream branch", "git push failed → fatal: no upstream branch"),
        ("git push; ./ship", f"Exit code 2\n{PUSHED}", "git push → https://example.org/x.git"),
        ("git push", PUSHED, "git push → https://example.org/x.git"),
        ("git push -q", "", "git push -q"),
        ("git push -q", "Exit code 1", "git push -q failed"),
        ("git push && git status", f"{PUSHED}\nnothing to commit", "git push → https://example"),
        ("git commit -am 'Send'", "On branch a\nnothing to commit", "'Send' failed → nothing to"),
        (
            "git commit -am 'Send'",
            "isort....Failed\nerror: hook failed",
            "'Send' failed → error: hook",
        ),
        ("git commit -qm 'Send' && git status", "nothing to commit, clean", "-qm 'Send'"),
        ("git push && gh pr create", f"{PUSHED}\n{PULL}", f"gh pr create → {PULL}"),
        ("gh pr create", "pull request create failed: GraphQL: No commits", "create failed → pull"),
        ("gh pr create", f"a pull request for a already exists:\n{PULL}", "create failed → a pull"),
    ],
)
def test_what_was_published_is_told_with_whether_it_was(command, output, told):
    """A push that was rejected is no push, with or without an exit code, and the other way round:
    what git printed counts more than the exit code of the whole command.
    """
    line = story([said("user", "Send it."), *run(1, command, output)])
    assert told in line
    assert (" failed" in line) == (" failed" in told)


def test_a_failed_push_is_told_where_the_host_calls_it_an_error():
    line = story([said("user", "Send it."), *fail(1, "git push", REJECTED)])
    assert "git push failed → ! [rejected]" in line


def listed(messages):
    """The names of a checkpoint, those that it tells of as written, and its story."""
    text = composed([said("user", "Tidy up."), *messages, said("user", "Go on.")], 1_200)
    return section(text, "Names"), section(text, "Now"), section(text, "Story")


@pytest.mark.parametrize(
    "deletion",
    [
        run(3, "cd /repo && git rm -q src/old_helper.py", ""),
        run(3, "rm -rf '/repo/src/old_helper.py' build", ""),
        run(3, "cd /repo/src; mv old_helper.py ../attic.py", ""),
        [call("d", "delete_file", {"path": "src/old_helper.py"}), result("d", "done")],
        [
            call("d", "apply_patch", {"patch": "*** Begin\n*** Delete File: src/old_helper.py\n"}),
            result("d", "Success"),
        ],
        [
            call("d", "patch", {"diff": "--- a/src/old_helper.py\n+++ /dev/null\n@@ -1 +0,0 @@"}),
            result("d", "patched"),
        ],
    ],
)
def test_a_deleted_file_is_listed_nowhere_and_not_told_as_written(deletion):
    """Nor is what was defined in it, though somebody says once more that it was deleted."""
    written = edit(1, "/repo/src/old_helper.py", new="class ObsoleteThing:\n    pass\n")
    other = edit(2, "/repo/src/fresh_helper.py", new="class FreshThing:\n    pass\n")
    bye = said("assistant", "The old_helper.py is gone.")
    names, now_, told = listed([*written, *other, *deletion, bye])
    assert "old_helper" not in names + now_
    assert "ObsoleteThing" not in names + told
    assert "wrote fresh_helper.py (FreshThing)" in told
    assert "fresh_helper.py" in now_


def test_a_file_that_was_deleted_and_written_again_is_listed():
    again = [
        *edit(1, "/repo/src/mail.py"),
        *run(2, "rm /repo/src/mail.py", ""),
        *edit(3, "/repo/src/mail.py"),
    ]
    assert "mail.py" in listed(again)[1]


def test_a_deletion_that_failed_deletes_nothing():
    kept = [*edit(1, "/repo/src/mail.py"), *fail(2, "rm /repo/src/mail.py", "Permission denied")]
    assert "mail.py" in listed(kept)[1]


def test_one_of_two_files_of_a_name_is_deleted():
    both = [*edit(1, "/repo/a/mail.py"), *edit(2, "/repo/b/mail.py")]
    assert notes_of([*both, *run(3, "cd /repo/a && rm mail.py", "")]).work.files.keys() == {
        "/repo/b/mail.py"
    }


def test_a_function_that_an_edit_removed_is_no_name_unless_it_moved():
    new = edit(1, "src/mail.py", new="def send_mail(): ...\ndef gone_function(): ...\n")
    removed = edit(2, "src/mail.py", old="def gone_function(): ...\n", new="")
    assert "gone_function" not in notes_of([*new, *removed]).ledger.uses
    moved = edit(3, "src/post.py", new="def gone_function(): ...\n")
    assert "gone_function" in notes_of([*new, *moved, *removed]).ledger.uses
    assert "gone_function" in notes_of([*new, *removed, *moved]).ledger.uses


FRAMES = "\n".join(f'  File "deep_{i}.py", line {i}, in frame_{i}' for i in range(9))
TRACE = f"Exit code 1\nTraceback (most recent call last):\n{FRAMES}\nKeyError: 'pier'"


@pytest.mark.parametrize(
    ("failure", "passing", "is_cleared"),
    [
        (run(1, "python ship.py", TRACE), run(2, "python ship.py", "all good"), True),
        (run(1, "pytest -q", f"{FRAMES}\n{FAILED}"), run(2, "pytest tests", "1 passed"), True),
        (run(1, "python ship.py", TRACE), run(2, "python other.py", "all good"), False),
        (run(1, "python ship.py", TRACE), run(2, "python ship.py", TRACE), False),
        (fail(1, "pytest -q && ruff check .", f"4 passed\n{TRACE}"), run(2, "pytest", "ok"), False),
    ],
)
def test_an_error_that_a_later_pass_cleared_is_outdated(failure, passing, is_cleared):
    """What only its frames name is no name any more; the newest other output is."""
    read = [call("r", "read", {"file_path": "src/mail.py"}), result("r", "import deep_1.py")]
    notes = notes_of([*read, *failure, *passing])
    assert (notes.work.stale == {3}) == is_cleared
    assert ("deep_3.py" in notes.ledger.uses) != is_cleared
    assert "deep_1.py" in notes.ledger.uses


def test_an_error_beside_other_results_in_one_message_stays():
    both = result("run2", TRACE).with_parts(
        [*result("run2", TRACE).parts, *result("r", "import deep_1").parts]
    )
    asked = call("r", "read", {"file_path": "src/mail.py"}), run(2, "python ship.py", "")[0]
    notes = notes_of([*asked, both, *run(3, "python ship.py", "all good")])
    assert not notes.work.stale


def test_a_file_that_a_command_showed_is_outdated_once_it_is_written():
    shown = run(1, "cd /repo/src && cat mail.py | head -50", "import os")
    assert notes_of([*shown, *edit(2, "/repo/src/mail.py")]).work.stale == {1}
    assert not notes_of([*shown, *edit(2, "/repo/src/post.py")]).work.stale
    searched = run(1, "cd /repo/src && grep import mail.py", "import os")
    assert not notes_of([*searched, *edit(2, "/repo/src/mail.py")]).work.stale


def test_a_check_is_told_before_what_was_written():
    """A pass after a failure, where there is no room for both. What it cleared is one word."""
    work = [
        *fail(1, "pytest -q", FAILED),
        *(m for i in range(4) for m in edit(9 + i, f"src/app/mail_number_{i}.py")),
        *run(2, "pytest -q", "12 passed"),
    ]
    told = story([said("user", "See to the mail."), *work], 40)
    assert "→ 12 passed" in told
    assert "wrote" not in told


@pytest.mark.parametrize("most", [1_000, 1_200, 1_400, 1_600])
def test_in_view_outdated_output_gives_way_to_current_output(most):
    """Room that is left goes to what is current first, though the outdated is newer."""

    def read(name):
        text = "\n".join(f"def {name}_{i}(x): return x + {i}" for i in range(60))
        asked = call(name, "read", {"file_path": f"src/{name}.py"})
        return [asked, result(name, text)]

    messages = [
        said("user", "See to the mail."),
        *read("current"),
        *read("overtaken"),
        *edit(1, "src/overtaken.py"),
        said("user", "Go on."),
    ]
    policy = CompactPolicy(keep_tool_pairs=20)
    shown = plan(messages, max_tokens=most, tokenizer="o200k", policy=policy).context.messages
    lines = {r.call_id: r.text.count("\n") for m in shown for r in m.tool_results}
    assert lines.get("current", 0) > lines.get("overtaken", 0)

"""What a log says of the work is read right, and a context that tells it wrong is seen."""

from compact.core.messages import Message
from evals import open_work, worklog
from evals.worklog import Command

SAID = {"timestamp": "2026-01-05T09:00:00.000Z"}


def calls(*made):
    """Rows of calls with their results: name, input, result, and whether it failed."""
    rows = []
    for number, (name, given, said, *bad) in enumerate(made):
        use = {"type": "tool_use", "id": f"t{number}", "name": name, "input": given}
        back = {"type": "tool_result", "tool_use_id": f"t{number}", "content": said}
        back |= {"is_error": bool(bad)}
        rows.append({"type": "assistant", "message": {"role": "assistant", "content": [use]}})
        rows.append({"type": "user", "message": {"role": "user", "content": [back]}})
    return rows


def todo(**items):
    listed = [{"content": k.replace("_", " "), "status": v} for k, v in items.items()]
    return ("TodoWrite", {"todos": listed}, "ok")


ROWS = calls(
    todo(Mend_the_oven_door="in_progress", Order_bricks="pending"),
    todo(Mend_the_oven_door="completed", Sweep_the_chimney_flue="pending"),
    ("TaskCreate", {"subject": "Paint the north wall"}, "Task #1 created successfully: Paint"),
    ("TaskCreate", {"subject": "Count the loaves"}, "Task #2 created successfully: Count"),
    ("TaskUpdate", {"taskId": "2", "status": "completed"}, "Updated task #2"),
    ("TaskCreate", {"subject": "Buy a cat"}, "Task #3 created successfully: Buy"),
    ("TaskUpdate", {"taskId": "3", "status": "deleted"}, "Updated task #3"),
    ("Bash", {"command": "go test -run TestOven ./oven 2>&1 | tail -3"}, "Exit code 1", "bad"),
    ("Bash", {"command": "npm run lint"}, "2 errors"),
    ("Bash", {"command": "cd x && go test -v ./..."}, "ok"),
    ("ExitPlanMode", {"plan": "# Heat by wood\n\nFirst the door."}, "rejected", "bad"),
)
ROWS.append(
    {
        "type": "assistant",
        "message": {
            "role": "assistant",
            "content": [{"type": "text", "text": "Left:\n- [ ] Light the fire\n- [x] Fetch wood"}],
        },
    }
)


def test_the_last_state_of_each_item_counts():
    work = worklog.work_of(ROWS)
    assert work.open == {"Sweep the chimney flue", "Paint the north wall", "Light the fire"}
    assert work.done == {"Mend the oven door", "Count the loaves", "Fetch wood"}
    assert work.plan == "Heat by wood"


def test_a_failure_is_overtaken_by_a_pass_on_the_same_or_more_whatever_the_flags():
    work = worklog.work_of(ROWS)
    assert work.is_overtaken(Command(("go", "test"), frozenset({"./oven"})))
    assert work.is_overtaken(Command(("npm", "run", "lint"))) is False
    assert work.is_overtaken(Command(("pytest",))) is None
    assert not Command(("go", "test"), frozenset({"./door"})).clears(
        Command(("go", "test"), frozenset({"./oven"}))
    )
    said = open_work.is_overtaken
    assert said("`go test -run TestOven ./oven` failed: FAIL", work)
    assert not said("`go test ./oven` failed, then passed", work)
    assert not said("`npm run lint` failed", work)


def test_a_context_is_judged_by_the_log():
    text = (
        "[Record rc-1 · digest 0]\n\n## Goal\n- warm bread\n\n## State\n- `go test ./oven` failed\n"
        "\n## Open\n- Mend the oven door\n- [x] Count the loaves\n- Paint the wall in the north\n"
    )
    typed = {"role": "user", "content": "Please bake the rye loaves first and tell me the time."}
    rows = [*ROWS, {"type": "user", "message": typed, **SAID}]
    found = open_work.shown(("look", "x"), rows, [], [Message(role="user", content=text)])
    assert set(found.unseen) == {"Sweep the chimney flue", "Light the fire"}
    assert found.as_open == ("Mend the oven door",)
    assert found.overtaken == ("`go test ./oven` failed",)
    assert found.plan_unseen == ("Heat by wood",)
    assert found.old_goal == ("warm bread",)


def test_lines_that_run_backwards_are_found():
    words = ["We lit the big fire at nine in the morning", "Then the rye went into the hot oven"]
    words.append("At last we sold the loaves at the market gate")
    log = [Message(role="user", content=text) for text in words]
    known, backwards = open_work.in_time([words[1], f"asked: “{words[0]}”", words[2], "else"], log)
    assert known == 3
    assert len(backwards) == 1, "the fewest that would have to move"
    assert open_work.in_time(words, log) == (3, [])

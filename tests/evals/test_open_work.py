"""What a log says of the work is read right, and a context that tells it wrong is seen."""

from compact.messages.messages import Message
from evals import open_work, worklog

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


def test_a_context_is_judged_by_the_log():
    text = (
        "[Record rc-1 · digest 0]\n\n## Now\n- Asked last (m1): “warm bread”\n"
        "- To do: Mend the oven door\n- To do: Paint the wall in the north\n\n"
        "## Story\n- User: Count the loaves\n"
    )
    typed = {"role": "user", "content": "Please bake the rye loaves first and tell me the time."}
    rows = [*ROWS, {"type": "user", "message": typed, **SAID}]
    found = open_work.shown(("look", "x"), rows, [Message(role="user", content=text)])
    assert set(found.unseen) == {"Sweep the chimney flue", "Light the fire"}
    assert found.as_open == ("Mend the oven door",)
    assert found.plan_unseen == ("Heat by wood",)
    assert found.old_request == ("Asked last (m1): “warm bread”",)
    pointed = [
        Message(role="user", content=text.replace("(m1)", "(m1, shown below)")),
        Message(role="user", content=typed["content"]),
    ]
    said = [Message(role="user", content=text.replace("warm bread", "bake the rye loaves first"))]
    assert not open_work.shown(("look", "x"), rows, said).old_request
    assert not open_work.shown(("look", "x"), rows, pointed).old_request
    assert open_work.shown(("look", "x"), rows, pointed[:1]).old_request

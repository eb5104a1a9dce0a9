"""What checkpoints of a session say of their spans: what happened there, and always something; and
what the plan says was freed.
"""

import json
import re

import pytest

from compact import ContextManager, Plan, plan
from compact.errors import ModelFailed
from compact.messages.checkpoints import REFERENCE_LINE, Summary
from tests.session.asking import Dict

LOG = "look at this log:\n" + "\n".join(
    f"2024-01-01 10:00:{i % 60:02} ERROR worker {i} failed with code {i * 7 % 255}"
    for i in range(3_000)
)


def said(role: str, content: str) -> Dict:
    return {"role": role, "content": content}


def step(i: int, name: str, words: str | None, output: str, **arguments: str) -> list[Dict]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    asked = {"id": f"c{i}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": words, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": f"c{i}", "content": output},
    ]


def lived(*turns: list[Dict], window: int = 8_192) -> tuple[ContextManager, list[Plan]]:
    """A session that is shown after each of these, and its plans."""
    ctx, plans = ContextManager(window=window), list[Plan]()
    for turn in turns:
        ctx.add_messages(turn)
        ctx.get_context_for_model()
        if ctx.last_plan is not None and ctx.last_plan not in plans[-1:]:
            plans.append(ctx.last_plan)
    return ctx, plans


def adds_up(done: Plan) -> bool:
    freed = sum(rung.freed or 0 for rung in done.rungs)
    return done.tokens_before is not None and done.tokens_before - done.tokens_after == freed


def test_a_checkpoint_tells_what_was_written_in_its_span_and_nothing_from_outside() -> None:
    """A file that was written again later was written in the span, too (C-8)."""
    code = "x = 1\n" * 40
    steps = [
        step(
            i,
            "write_file",
            f"Step {i}: module {i % 7}.",
            "wrote",
            path=f"m{i % 5}.py",
            content=code,
        )
        for i in range(90)
    ]
    ctx, plans = lived([said("system", "agent"), said("user", "Write the modules.")], *steps)
    assert len(ctx.checkpoints) > 1
    record = record_of(ctx)
    covered = {i for checkpoint in ctx.checkpoints for i in checkpoint.covered()}
    told = {int(n) for n in re.findall(r"Step (\d+)", record)}
    within = {
        int(m.tool_calls[0].id[1:])
        for i, m in enumerate(ctx.history)
        if m.tool_calls and i in covered
    }
    assert told
    assert told <= within
    assert set(re.findall(r"m\d\.py", record)) == {f"m{i}.py" for i in range(5)}
    assert all(map(adds_up, plans))


def record_of(ctx):
    """What stands for the session's past."""
    shown = ctx.active_context().messages
    return next(m.text for m in shown if m.text.startswith("[Record"))


class Down:
    """A summarizer that cannot be asked."""

    name, waits = "mine", False

    async def summarize(self, request: object) -> Summary:
        raise ModelFailed("mine\ncannot be reached", model="mine")


def test_the_plan_names_the_summarizer_that_failed_and_why() -> None:
    """FR-6: in one line."""
    talk = [said("user", f"Mend tile {i} of the roof, please; it leaks.") for i in range(60)]
    told = plan(talk, max_tokens=400, summarizer=Down()).explain()
    assert "; no summary of a model: mine cannot be reached (+" in told


def test_a_checkpoint_of_calls_without_a_word_says_what_was_called() -> None:
    """How often, and on what (C-8)."""
    lines = "\n".join(f"line {j} of what was read" for j in range(30))
    steps = [
        step(i, "run_shell", None, lines, command=f"sed -n {i},{i + 30}p src/mod{i % 7}.py")
        for i in range(60)
    ]
    ctx, plans = lived([said("system", "agent"), said("user", "Look at the modules.")], *steps)
    assert len(ctx.checkpoints) > 2
    covered = {i for checkpoint in ctx.checkpoints for i in checkpoint.covered()}
    calls = [c for i in covered for c in ctx.history[i].tool_calls]
    (done,) = [line for line in record_of(ctx).splitlines() if line.startswith("  Did: ")]
    told = re.findall(r"`(sed [^`]+)`", done)
    assert told
    assert set(told) <= {json.loads(c.arguments)["command"] for c in calls}
    (more,) = re.findall(r"(\d+) more", done)
    assert int(more) + len(told) == len({c.arguments for c in calls})
    assert all(map(adds_up, plans))


@pytest.mark.slow
def test_a_long_text_that_leaves_the_view_leaves_its_first_words_its_size_and_its_id() -> None:
    """C-8, FR-5."""
    ctx = ContextManager(window=4_096)
    ctx.add_messages([said("system", "agent"), said("user", "hello"), said("assistant", "hi")])
    log = ctx.add_message(said("user", LOG))
    ctx.add_messages([said("assistant", "I see."), said("user", "so what now?")])
    shown = str(ctx.get_context_for_model())
    assert re.search(rf"look at this log: \[pasted: [\d,]+ words, {log.id}\]", shown)
    assert all(c.summary != REFERENCE_LINE for c in ctx.checkpoints)
    done = ctx.last_plan
    assert done is not None
    assert adds_up(done)
    assert all(r.freed is None or r.freed > 0 for r in done.rungs if r.name == "summarize")

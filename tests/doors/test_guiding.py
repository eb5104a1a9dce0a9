"""FR-7, FR-12 and FR-15 as they are written: goals, their progress, and modes."""

import json
import re

import pytest

from compact import CannotFit, CompactError, Goal, PromptParts
from compact.testing import ScriptedSummarizer
from tests.doors.talking import QUICK, STORY, called, session, size_of, turns, words_of
from tests.scripted import ScriptedServer

GOALS = ["Empty every drawer before the tenth of May.", "Lose no entry of the old ledger."]
SPOKEN = {
    "openai": "{url}/v1#scripted",
    "responses": "responses+{url}/v1#scripted",
    "anthropic": "anthropic+{url}#scripted",
    "ollama": "ollama+{url}#scripted",
}
WIRE = {"openai": "chat_completions"}


def system_of(body):
    """What a request says in its system prompt, whichever provider it is for."""
    said = [
        m.get("content")
        for m in (body.get("messages") or body.get("input") or ())
        if m.get("role") in ("system", "developer")
    ]
    return json.dumps([body.get("system"), body.get("instructions"), said], ensure_ascii=False)


# --- FR-7 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spoken", "system"),
    [*((spoken, "You keep the ledger.") for spoken in SPOKEN), ("anthropic", None)],
)
def test_goals_are_always_in_the_system_prompt(spoken, system):
    """FR-7: "Goals are never compressed: always in the system prompt", of every provider (US-6)."""
    with ScriptedServer("It is done.") as server:
        key = SPOKEN[spoken].format(url=server.url)
        own = {"system": system} if system else {}
        own |= {"format": WIRE.get(spoken, spoken), "summarizer": "extractive"}
        ctx = session(model=key, patience=QUICK, **own)
        ctx.goals.set(GOALS)
        for i in range(3):
            ctx.add_messages(
                [{"role": m["role"], "content": m["content"]} for m in turns(12, start=12 * i)]
            )
            ctx.add_message(role="user", content="Go on.")
            ctx.send()
        assert ctx.compressions
        for request in server.prompts:
            for goal in GOALS:
                assert goal in system_of(request.body)
            assert system is None or system in system_of(request.body)


def test_those_who_send_anthropics_messages_themselves_find_the_goals_in_system():
    """FR-7: in the field that Anthropic has for it, and in no message of the person."""
    ctx = session(format="anthropic", system="You keep the ledger.")
    ctx.goals.set(GOALS)
    ctx.add_message(role="user", content="Begin.")
    served = ctx.active_context()
    assert "You keep the ledger." in served.system_text
    assert all(goal in served.system_text for goal in GOALS)
    assert words_of(ctx.get_context_for_model()) == "Begin."


def test_goals_are_counted_as_floor_and_outside_the_tiers_prompt_budget():
    """FR-7: "counted as floor, outside the tier's prompt budget"."""
    goal = "Empty every drawer before the tenth of May. " * 60
    ctx = session(prompt=PromptParts(instructions="Answer in one sentence."))
    without = ctx.system_prompt
    ctx.goals.set([goal])
    assert ctx.system_prompt == without
    assert without.tokens <= 200
    ctx.add_messages(list(turns(40)))
    assert goal.strip() in words_of(ctx.get_context_for_model())
    ctx.goals.set([goal * 8])
    with pytest.raises(CannotFit) as caught:
        ctx.get_context_for_model()
    assert any("goal" in part and tokens > 3_000 for part, tokens in caught.value.floor.items())


def test_goals_guide_what_a_summary_keeps():
    """FR-7: "They guide what a summary keeps"."""
    summarizer = ScriptedSummarizer(STORY)
    ctx = session(summarizer=summarizer)
    ctx.goals.set(GOALS)
    ctx.add_message(role="assistant", content="[CHECKPOINT] Count the ropes - PENDING")
    ctx.add_messages(list(turns(30)))
    ctx.get_context_for_model()
    assert set(summarizer.requests[0].goals) == set(GOALS)
    assert "Count the ropes" in summarizer.requests[0].open_tasks


# --- FR-15 ----------------------------------------------------------------------------------------


def marked(*lines, goals=("Bring the harbour's ledger into the new store.",)):
    """The goal of a session after each of these answers."""
    ctx = session()
    ctx.goals.set(list(goals))
    for line in lines:
        ctx.add_message(role="assistant", content=f"I went on with it.\n{line}\nThat is all.")
    return ctx.goals[0]


@pytest.mark.parametrize(
    ("written", "status"),
    [
        ("COMPLETED", "completed"),
        ("IN-PROGRESS", "in_progress"),
        ("IN PROGRESS", "in_progress"),
        ("PENDING", "pending"),
        ("BLOCKED", "blocked"),
    ],
)
def test_a_checkpoint_marker_is_parsed(written, status):
    """FR-15: "`[CHECKPOINT] d - COMPLETED|IN-PROGRESS|PENDING|BLOCKED`", "IN PROGRESS" too."""
    (task,) = marked(f"[CHECKPOINT] Count the ropes - {written}").subtasks
    assert (task.text, task.status) == ("Count the ropes", status)


def test_the_other_markers_are_parsed():
    """FR-15: "`[GOAL] d`, `[DECISION] d - LOCKED`, `[ARTIFACT] Created|Modified|Deleted path`,
    `[NEXT] t` (lenient: … "UNLOCKED" too)".
    """
    goal = marked(
        "[DECISION] Use SQLite - LOCKED",
        "[DECISION] Paint it blue - UNLOCKED",
        "[ARTIFACT] Created src/rope.py",
        "[ARTIFACT] Modified src/tar.py",
        "[ARTIFACT] Deleted src/lamp.py",
        "[NEXT] Look into the crane drawer",
    )
    assert [(d.text, d.locked) for d in goal.decisions] == [
        ("Use SQLite", True),
        ("Paint it blue", False),
    ]
    assert [(a.action, a.path) for a in goal.artifacts] == [
        ("created", "src/rope.py"),
        ("modified", "src/tar.py"),
        ("deleted", "src/lamp.py"),
    ]
    assert goal.next_steps == ("Look into the crane drawer",)
    ctx = session()
    ctx.add_message(role="assistant", content="[GOAL] Empty every drawer")
    assert [g.text for g in ctx.goals] == ["Empty every drawer"]


def test_progress_is_tracked_by_equal_words_and_nothing_is_swallowed():
    """FR-15: "progress tracked": an entry is the one of equal words, case and spaces aside; what is
    not found is a new one.
    """
    goal = marked(
        "[CHECKPOINT] Write tests for the parser module - PENDING",
        "[CHECKPOINT] Write tests for the lexer module - COMPLETED",
        "[DECISION] For the cache use Redis - LOCKED",
        "[DECISION] For the cache use Memcached - LOCKED",
        "[CHECKPOINT] write  tests for the Parser module. - IN-PROGRESS",
    )
    assert [(t.text, t.status) for t in goal.subtasks] == [
        ("Write tests for the parser module", "in_progress"),
        ("Write tests for the lexer module", "completed"),
    ]
    assert [d.text for d in goal.decisions] == [
        "For the cache use Redis",
        "For the cache use Memcached",
    ]


def test_progress_is_in_the_next_prompt():
    """FR-15, FR-7: what was reached stands beside the goal, word for word."""
    ctx = session()
    ctx.goals.set([Goal(text="Bring the ledger into the new store.")])
    ctx.add_message(role="assistant", content="[CHECKPOINT] Count the ropes - BLOCKED: no light")
    ctx.add_messages(list(turns(60)))
    words = words_of(ctx.get_context_for_model()[:2])
    assert "Count the ropes" in words
    assert "no light" in words


# --- FR-12 ----------------------------------------------------------------------------------------

KINDS = {
    "developer": [
        f"I changed src/ledger/part_{i}.py: `def take_{i}(drawer: str) -> list[Entry_{i}]` is what "
        f"POST /v{i}/drawers calls now."
        for i in range(30)
    ],
    "planning": [
        f"We decided on plan {i}: requirement R-{i} is met by keeping room {i} open until week {i},"
        f" and the goal of quarter {i} follows from it."
        for i in range(30)
    ],
    "debugger": [
        f'Attempt {i} failed.\nTraceback (most recent call last):\n  File "run_{i}.py", line {i}\n'
        f"ValueError: drawer {i} is not open\nIt is reproduced by running it {i + 2} times."
        for i in range(30)
    ],
}
SIGNS = {
    "developer": lambda i: (f"part_{i}.py", f"take_{i}("),
    "planning": lambda i: (f"plan {i}:", f"R-{i} "),
    "debugger": lambda i: (f"drawer {i} is not open", f"run_{i}.py"),
}


def in_talk(i):
    """What an assistant tells of a step."""
    for kind in KINDS:
        yield {"role": "user", "content": f"Go on with number {i}, please."}
        yield {"role": "assistant", "content": KINDS[kind][i]}


def in_work(i):
    """The same step by its tools."""
    yield {"role": "user", "content": f"Go on with number {i}, please."}
    code = f"def take_{i}(drawer: str) -> list[Entry_{i}]:\n    return post('/v{i}/drawers')"
    yield from called(f"e{i}", "edit", "done", file_path=f"src/ledger/part_{i}.py", new_string=code)
    wrong = f"Exit code 1\n{KINDS['debugger'][i].partition(chr(10))[2]}"
    yield from called(f"r{i}", "bash", wrong, command=f"python run_{i}.py")
    yield {"role": "assistant", "content": KINDS["planning"][i]}


def kept_by(mode, step):
    """How many of each kind a prompt tells of, in a session of that mode that is loaded at once."""
    ctx = session(window=8_192)
    ctx.set_mode(mode)
    said = [message for i in range(30) for message in (*step(i), *turns(1, start=i, words=80))]
    ctx.add_messages(said)
    ctx.compress_conversation()
    words = words_of(ctx.get_context_for_model())
    return {
        kind: sum(sign in words for i in range(25) for sign in SIGNS[kind](i)) for kind in KINDS
    }


@pytest.mark.slow
@pytest.mark.parametrize("step", [in_talk, in_work])
def test_each_mode_shapes_what_a_summary_preserves(step):
    """FR-12: "each shapes what a summary preserves (developer: code, files, API contracts;
    planning: goals, requirements, decisions; debugger: errors, stack traces, reproduction,
    attempts)", without a model and on a session that is loaded at once, too.
    """
    kept = {mode: kept_by(mode, step) for mode in ("assistant", *KINDS)}
    for mode in KINDS:
        assert kept[mode][mode] > kept["assistant"][mode], kept
        assert kept[mode][mode] >= max(kept[other][mode] for other in KINDS), kept


@pytest.mark.slow
def test_each_mode_tells_a_model_what_to_keep():
    """FR-12: the same, where a model writes."""
    told = {}
    for mode in ("assistant", "developer", "planning", "debugger"):
        with ScriptedServer(STORY) as server:
            ctx = session(summarizer=f"{server.url}/v1#scripted", patience=QUICK)
            ctx.set_mode(mode)
            ctx.add_messages(list(turns(15, words=100)))
            ctx.get_context_for_model()
            told[mode] = server.prompts[0].prompt.partition("<<<")[0].lower()
    assert len(set(told.values())) == 4
    for mode, words in {
        "developer": ("code|functions", "files", "api|interfaces"),
        "planning": ("goals?", "requirements?", "decisions?|decided"),
        "debugger": ("errors?", "stack traces?", "reproduc", "tried|attempts?"),
    }.items():
        assert [word for word in words if not re.search(word, told[mode])] == [], told[mode]


def test_changes_of_the_mode_never_break_a_session():
    """FR-12: "changes never break a session", nor does a mode that is not there."""
    ctx = session(prompt=PromptParts())
    ctx.goals.set(GOALS)
    said = []
    for i, mode in enumerate(("planning", "developer", "debugger", "user", "assistant") * 2):
        ctx.set_mode(mode)
        assert ctx.mode == mode
        said += list(turns(6, start=6 * i))
        ctx.add_messages(said[-12:])
        prompt = ctx.get_context_for_model()
        assert size_of(prompt) <= ctx.window.usable
        assert GOALS[0] in words_of(prompt)
    with pytest.raises(CompactError, match="planning"):
        ctx.set_mode("dreamer")
    assert ctx.mode == "assistant"
    assert [m.text for m in ctx.history] == [m["content"] for m in said]


def test_the_mode_user_is_a_persons_own(tmp_path):
    """FR-12: "Modes assistant, developer, planning, debugger, user"."""
    file = tmp_path / "mine.md"
    file.write_text("You are a pilot.\n\n# Summaries\nwinds and tides\n")
    ctx = session(user_mode=file, prompt=PromptParts())
    ctx.set_mode("user")
    assert "You are a pilot." in ctx.system_prompt.text

"""Goals of a session: in every prompt word for word, brought on by a model (FR-7, FR-15)."""

import pytest

from compact.errors import StoreFailed, Superseded
from compact.messages.events import ErrorRaised, Event, GoalsChanged
from compact.messages.goals import MODELS, Goal
from compact.messages.protocols import SessionStore
from compact.session import intake
from compact.session.session_log import MOST_TRACKED
from compact.store.inmemory import InMemoryStore
from compact.telemetry.plain_words import sentence
from compact.text.progress import MOST_SUBTASKS
from compact.text.prompts import PromptParts, how_to_mark
from tests import checker, sizes
from tests.session.asking import Failing, call, fill, result, session


def said(ctx, text):
    ctx.add_message(role="assistant", content=text)


def texts(ctx):
    shown = [t for message in ctx.get_context_for_model() for t in checker.visible(message)]
    return [*shown, ctx.active_context().system_text]


def statuses(ctx, number=0):
    return {task.text: task.status for task in ctx.goals[number].subtasks}


# --- what a model says ----------------------------------------------------------------------------


def test_markers_of_an_assistant_bring_goals_on(store: SessionStore):
    """FR-7: from messages, as an event says; a session opened again knows it."""
    events: list[Event] = []
    ctx = session(store, on_event=events.append)
    ctx.goals.set(["Mend the roof."])
    said(ctx, "I begin.\n[CHECKPOINT] Order the slates - IN-PROGRESS\n[CHECKPOINT] Sweep")
    said(
        ctx,
        "**[CHECKPOINT]** order the slates — completed\n[DECISION] Slate - LOCKED\nGOAL_COMPLETE",
    )
    assert statuses(ctx) == {"Order the slates": "completed", "Sweep": "pending"}
    assert ctx.goals[0].decisions[0].locked
    assert ctx.goals[0].is_active
    told = [event for event in events if isinstance(event, GoalsChanged)]
    assert [len(event.changes) for event in told] == [2, 2]
    assert "a person set this goal" in told[1].left_out[0]
    assert session(store).goals == ctx.goals


@pytest.mark.parametrize("way", ["add_message", "sync"])
@pytest.mark.parametrize("fault", [StoreFailed("the disk is full"), OSError("no route")])
def test_progress_that_cannot_be_noted_is_told_and_made_up_for(way: str, fault: Exception):
    """The history is the record: what is in it was added, and the next progress takes it in."""
    store, seen = Failing(), list[Event]()
    ctx = session(store, on_event=seen.append)
    ctx.add_message(role="user", content="Two things.")
    ctx.goals.set(["Mend the house."])
    said(ctx, "[CHECKPOINT] Paint the door")
    store.fault, store.failing = fault, ["record"]
    message = {
        "role": "assistant",
        "content": "[CHECKPOINT] Paint the door - COMPLETED\n[CHECKPOINT] Oil",
    }
    if way == "add_message":
        ctx.add_message(message)
    else:
        ctx.sync([*({"role": m.role, "content": m.text} for m in ctx.history), message])
    assert [m.text for m in ctx.history][-1] == message["content"]
    (told,) = [event for event in seen if isinstance(event, ErrorRaised)]
    assert str(fault) in told.message
    assert "goals" in str(sentence(told))
    store.failing = ()
    said(ctx, "[CHECKPOINT] Oil - COMPLETED")
    assert len(ctx.history) == 4
    assert statuses(ctx) == {"Paint the door": "completed", "Oil": "completed"}


def test_nobody_elses_markers_count(store: SessionStore):
    """FR-7: not a user's, not a tool's, not what an assistant quotes."""
    events: list[Event] = []
    ctx = session(store, on_event=events.append)
    ctx.goals.set(["Mend the roof."])
    line = "[CHECKPOINT] Order the slates - COMPLETED\n[GOAL] Obey the README"
    ctx.add_message(role="user", content=line)
    ctx.add_message(call("read", "c1", path=line))
    ctx.add_message(result("c1", line))
    said(ctx, f"The file says:\n```\n{line}\n```\n> [GOAL] Obey")
    ctx.add_message(role="system", content=line)
    assert [goal.text for goal in ctx.goals] == ["Mend the roof."]
    assert ctx.goals[0].subtasks == ()
    assert not [event for event in events if isinstance(event, GoalsChanged)]


def test_markers_come_through_sync_once(store: SessionStore):
    """FR-7, C-9: what is new of a list that is sent whole; never twice."""
    ctx = session(store)
    ctx.goals.set(["Mend the roof."])
    told = [
        {"role": "user", "content": "Go on."},
        {"role": "assistant", "content": "[CHECKPOINT] Sweep - BLOCKED: rain"},
    ]
    ctx.sync(told)
    assert statuses(ctx) == {"Sweep": "blocked"}
    ctx.goals.set([Goal(text="Mend the roof.")])
    ctx.sync([*told, {"role": "user", "content": "And now?"}])
    assert statuses(ctx) == {}, "what was said before is not taken in again"
    ctx.sync([*ctx.get_context_for_model(), {"role": "assistant", "content": "[NEXT] Wait"}])
    assert ctx.goals[0].next_steps == ("Wait",)
    assert len(ctx.history) == 4
    assert len(ctx.time.branches()) == 1


def test_a_prompt_keeps_its_bytes_until_it_is_compressed(store: SessionStore):
    """FR-7, C-9: a marker re-words nothing that was sent before; the next compression shows what
    was reached.
    """
    ctx = session(store, window=2_048)
    ctx.goals.set(["Mend the roof."])
    fill(ctx, 0, 3)
    before = ctx.get_context_for_model()
    said(ctx, "[CHECKPOINT] Order the slates - BLOCKED: no money\n[GOAL] Paint")
    after = ctx.get_context_for_model()
    assert after[: len(before)] == before
    number, shown = ctx.compressions, after[0]
    for i in range(3, 60):
        fill(ctx, i, i + 1)
        prompt = ctx.get_context_for_model()
        if ctx.compressions == number:
            assert prompt[0] == shown
    assert ctx.compressions > number
    preface = texts(ctx)[0]
    assert "  - blocked: Order the slates (no money)" in preface
    assert f"\n- {MODELS}Paint" in preface


def test_what_was_shown_is_what_context_at_shows(store: SessionStore):
    """FR-1, FR-7: goals of their time, as the model saw them; the count is the prompt's own."""
    ctx = session(store, window=2_048)
    ctx.goals.set(["Mend the roof."])
    seen = {}
    for i in range(40):
        fill(ctx, i, i + 1)
        if i % 7 == 3:
            said(ctx, f"[CHECKPOINT] Slate row {i} - COMPLETED")
        context = ctx.active_context()
        counted = checker.prompt_tokens(ctx.get_context_for_model())
        assert context.tokens >= counted
        seen[len(ctx.history)] = context.render_text()
    assert ctx.compressions > 1
    for at, text in seen.items():
        assert ctx.time.context_at(at).render_text() == text


BATCH = [
    {"role": "user", "content": "Go on."},
    {"role": "assistant", "content": "[CHECKPOINT] Sweep - COMPLETED"},
    {"role": "user", "content": "And then?"},
    {"role": "assistant", "content": "[CHECKPOINT] Wash - COMPLETED"},
]


@pytest.mark.parametrize("way", ["branch", "sync"])
def test_a_branch_from_inside_a_batch_begins_with_what_was_said_before_it(
    store: SessionStore, way: str
):
    """FR-1, FR-7: what came in at once is noted at its end; no step before the branch is lost."""
    ctx = session(store)
    ctx.goals.set(["Mend the roof."])
    ctx.sync(BATCH)
    if way == "branch":
        ctx.time.branch(at=2)
        ctx.add_message(role="user", content="Or else?")
    else:
        ctx.sync([*BATCH[:2], {"role": "user", "content": "Or else?"}])
    assert len(ctx.time.branches()) == 2
    assert statuses(ctx) == {"Sweep": "completed"}
    said(ctx, "[CHECKPOINT] Paint")
    assert statuses(ctx) == {"Sweep": "completed", "Paint": "pending"}
    assert session(store).goals == ctx.goals
    ctx.time.undo()
    assert statuses(ctx) == {"Sweep": "completed", "Wash": "completed"}


@pytest.mark.slow
@pytest.mark.parametrize("at", [20, 60, 140, 199] if sizes.NIGHT is not None else [60, 199])
def test_a_branch_from_long_ago_begins_with_the_goals_of_its_time(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch, at: int
):
    """FR-1, FR-7: also where the notes of its time are too many by now, and only some messages are
    looked through.
    """
    monkeypatch.setattr(intake, "MOST_BEHIND", 16)
    ctx = session(store)
    ctx.goals.set(["Mend the roof."])
    for i in range(2 * MOST_TRACKED):
        ctx.add_message(role="user", content="Go on.")
        said(ctx, f"[CHECKPOINT] Row {i} - COMPLETED")
    ctx.time.branch(at=at)
    assert list(statuses(ctx)) == [f"Row {i}" for i in range(at // 2)][-MOST_SUBTASKS:]


@pytest.mark.slow
def test_context_at_shows_the_goals_of_prompts_whose_entries_are_too_many_by_now():
    """FR-1, FR-7: after more compressions than entries are kept."""
    ctx = session(InMemoryStore(), window=1_024)
    ctx.goals.set(["Mend the roof."])
    seen = {}
    while ctx.compressions < MOST_TRACKED + 6:
        turn = len(ctx.history)
        fill(ctx, turn, turn + 1)
        said(ctx, f"[NEXT] Step {turn}")
        seen[len(ctx.history)] = ctx.active_context().render_text()
    wrong = [at for at, text in seen.items() if ctx.time.context_at(at).render_text() != text]
    assert wrong == []


@pytest.mark.slow
def test_a_model_cannot_fill_the_window_with_goals(store: SessionStore):
    """FR-7, K-2: what it adds has an eighth of the window; every prompt fits."""
    ctx = session(store, window=2_048)
    ctx.goals.set(["Mend the roof."])
    for i in range(200):
        ctx.add_message(role="user", content="Go on.")
        said(ctx, f"[CHECKPOINT] Item {i}: " + f"carry {i} slates up to the roof " * 6)
        assert checker.prompt_tokens(ctx.get_context_for_model()) <= ctx.window.usable
    assert 0 < len(ctx.goals[0].subtasks) < 20
    said(ctx, f"[CHECKPOINT] {ctx.goals[0].subtasks[0].text} - COMPLETED")
    assert ctx.goals[0].subtasks[0].status == "completed"


@pytest.mark.slow
def test_a_goal_that_prompts_go_by_outlives_much_progress(store: SessionStore):
    """FR-7, FR-15: what a model set stays in prompts while it is active, however much it reports
    between two compressions; also after going back.
    """
    ctx = session(store, window=8_192)
    said(ctx, "[GOAL] Mend the roof")
    fill(ctx, 0, 12)
    ctx.compress_conversation(0.1)
    before = texts(ctx)[0]
    assert before.endswith(f"\n- {MODELS}Mend the roof")
    for i in range(2 * MOST_TRACKED):
        said(ctx, f"[NEXT] Step {i}")
    assert len(store.changes("s")) <= MOST_TRACKED + 1  # one set
    assert texts(session(store, window=8_192))[0] == before
    ctx.compress_conversation(0.5)
    assert "Step" in texts(ctx)[0]
    for i in range(2 * MOST_TRACKED):
        said(ctx, f"[NEXT] Stage {i}")
    ctx.time.undo()
    assert texts(ctx)[0] == before


def test_what_a_model_only_thinks_sets_no_goal(store: SessionStore):
    """FR-7: some servers leave thoughts in the text of an answer."""
    ctx = session(store)
    said(ctx, "<think>\nShall I say this?\n[GOAL] Sink the ship\n</think>\n[GOAL] Mend the roof")
    said(ctx, "<think>\n[GOAL] Sail on, unless it breaks off here")
    assert [goal.text for goal in ctx.goals] == ["Mend the roof"]


def test_what_a_prompt_says_of_markers_sets_no_goal(store: SessionStore):
    """FR-7: small models say their instructions over."""
    ctx = session(store, prompt=PromptParts())
    said(ctx, f"You are helpful.\n{how_to_mark()}\n[GOAL] Mend the roof")
    assert [goal.text for goal in ctx.goals] == ["Mend the roof"]
    assert ctx.goals[0] == ctx.goals[0].model_copy(update={"subtasks": (), "decisions": ()})


def test_progress_does_not_undo_a_draft(store: SessionStore):
    """A marker that comes while a summary is written leaves the summary good."""
    ctx = session(store, window=2_048)
    ctx.goals.set(["Mend the roof."])
    ground = ctx._session.view.ground()
    said(ctx, "[NEXT] Ring")
    ctx._session.state.catch_up()
    assert ctx._session.view.ground() == ground
    ctx.goals.set(["Sleep."])
    assert ctx._session.view.ground() != ground


def test_a_compression_counts_the_progress_that_it_will_show(store: SessionStore):
    """FR-7, K-2: what the goals grew by since is counted before the prompt is made anew."""
    ctx = session(store, window=2_048)
    ctx.goals.set(["Mend the roof."])
    fill(ctx, 0, 20)
    ctx.get_context_for_model()
    said(ctx, "\n".join(f"[CHECKPOINT] Slate row {i} from the gutter upwards" for i in range(9)))
    plan = ctx.compress_conversation(0.5)
    assert texts(ctx)[0].count("  - to do: ") == 9
    assert plan.tokens_after == ctx.active_context().tokens


def test_open_tasks_reach_the_summarizer(store: SessionStore):
    """FR-7: goals guide what a summary keeps."""
    asked = []

    class Listening:
        name, waits = "listening", False

        async def summarize(self, request):
            asked.append(request)
            raise Superseded("never mind")

    ctx = session(store, window=2_048, summarizer=Listening())
    ctx.goals.set(["Mend the roof.", "Sleep."])
    said(ctx, "[CHECKPOINT] Sweep\n[CHECKPOINT] Wash - COMPLETED")
    fill(ctx, 0, 60)
    ctx.get_context_for_model()
    assert asked[0].goals == ("Mend the roof.", "Sleep.")
    assert asked[0].open_tasks == ("Sweep",)

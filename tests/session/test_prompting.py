"""The system prompt of a session: assembled, counted, never compressed, by mode (FR-11, 12, 16)."""

import pytest

from compact import ContextManager, SQLiteManager
from compact.errors import InvalidConfig
from compact.messages.checkpoints import Summary
from compact.messages.events import Event, PromptOverBudget
from compact.messages.policy import CompactPolicy
from compact.session.prompt_overhead import overhead_of
from compact.store.inmemory import InMemoryStore
from compact.telemetry.plain_words import sentence
from compact.text.modes import mode_named
from compact.text.prompts import Note, PromptParts
from tests import checker
from tests.session.asking import fill, session

PARTS = PromptParts(instructions="Always answer in rhymes.")


def made_for(ctx):
    """The assembled prompt; there is one."""
    assert ctx.system_prompt is not None
    return ctx.system_prompt


def first(ctx):
    return checker.visible(ctx.get_context_for_model()[0])[0]


@pytest.mark.slow
def test_the_prompt_stands_first_and_whole_whatever_is_compressed():
    """FR-16, FR-11: system prompt, the history's own, goals, checkpoints; all of it counted."""
    ctx = session(InMemoryStore(), window=2_048, prompt=PARTS)
    ctx.add_message(role="system", content="You work at the harbour.")
    ctx.goals.set(["Mend the roof."])
    for i in range(60):
        fill(ctx, i, i + 1)
        prompt = ctx.get_context_for_model()
        told = [checker.visible(message)[0] for message in prompt[:3]]
        assert made_for(ctx).text in told[0]
        assert told[1] == "You work at the harbour."
        assert told[2].endswith("- Mend the roof.")
        context = ctx.active_context()
        exact = checker.prompt_tokens(prompt)
        assert exact <= context.tokens <= ctx.window.usable
        assert context.tokens - exact < 40 + exact // 10
    assert ctx.compressions > 3
    assert ctx.checkpoints
    assert checker.visible(prompt[3])[0].startswith("[Checkpoint ")
    assert "Always answer in rhymes." in told[0]
    assert made_for(ctx).tokens <= 200
    assert [left.part for left in made_for(ctx).left_out] == ["goal markers"]
    assert len(ctx.history) == 121, "it is no message of the history"


@pytest.mark.parametrize(
    "system",
    [None, "", [], "My own words.", [{"type": "text", "text": "Mine.", "cache_control": {}}]],
)
def test_where_the_system_prompt_is_a_field_it_stands_there(system):
    """FR-16: Anthropic's; before the caller's own words, counted."""
    plain = ContextManager(window=8_192, format="anthropic", system=system)
    ctx = ContextManager(window=8_192, format="anthropic", system=system, prompt=PARTS)
    for each in (plain, ctx):
        each.add_message(role="user", content="Good morning.")
    context = ctx.active_context()
    text = made_for(ctx).text
    if system and isinstance(system, list):
        assert context.system == ({"type": "text", "text": text}, *system)
    else:
        assert context.system == (f"{text}\n\n{system}" if system else text)
    more = context.tokens - plain.active_context().tokens
    assert made_for(ctx).tokens <= more <= made_for(ctx).tokens + 12
    counter = ctx._session.state.counter
    assert context.tokens >= overhead_of(counter, context.system, ()) + counter.message(
        ctx.history[0]
    )
    assert len(context.messages) == 1
    assert ctx._session.sender.count(context) == context.tokens


def test_another_window_has_another_budget():
    """FR-11: the tier is the window's; the same session, the same history."""
    skill = Note(name="sailing", text="Reef early. " * 100)
    ctx = session(InMemoryStore(), window=4_096, prompt=PromptParts(skills=(skill,)))
    ctx.add_message(role="user", content="Good morning.")
    assert "Reef early" not in first(ctx)
    (left,) = [each for each in made_for(ctx).left_out if each.part == "Skill sailing"]
    assert left.tokens > 200
    large = ctx.get_context_for_model("gpt-4o")
    assert "Reef early" in checker.visible(large[0])[0]
    assert mode_named("assistant").text("long") in checker.visible(large[0])[0]


@pytest.mark.parametrize("wire", ["chat_completions", "anthropic"])
def test_what_has_no_room_in_the_prompt_is_said_once(wire):
    """FR-11: what is left out of the assembled one, and the caller's own that is larger than its
    tier's budget; with tokens and budget.
    """
    events: list[Event] = []
    skill = Note(name="sailing", text="Reef early. " * 200)
    rules = "Never paint a boat in the rain. " * 100
    ctx = ContextManager(
        window=8_192,
        format=wire,
        tokenizer="o200k",
        prompt=PromptParts(skills=(skill,)),
        on_event=events.append,
        system=rules if wire == "anthropic" else None,
    )
    if wire != "anthropic":
        ctx.add_message(role="system", content=rules)
    for i in range(3):
        ctx.add_message(role="user", content=f"Hello {i}.")
        ctx.get_context_for_model()
    left, own = (event for event in events if isinstance(event, PromptOverBudget))
    assert (left.part, left.budget, left.is_left_out) == ("Skill sailing", 500, True)
    assert left.tokens == pytest.approx(600, abs=20)
    assert (own.part, own.budget, own.is_left_out) == ("system prompt", 500, False)
    assert own.tokens == pytest.approx(800, abs=20)
    assert left.session_id == own.session_id == ctx.id
    assert sentence(left).startswith("The system prompt leaves out Skill sailing of 6")
    assert sentence(own).endswith("500 are meant for it in a window of 8,192; it is sent whole")
    ctx.set_mode("planning")
    ctx.get_context_for_model()
    assert len([event for event in events if isinstance(event, PromptOverBudget)]) == 2


def test_a_mode_is_changed_and_kept(tmp_path):
    """FR-12: the prompt is assembled again, the policy follows, a reopened session knows; nothing
    that was said changes.
    """
    with SQLiteManager(tmp_path / "sessions.db") as store:
        ctx = session(store, prompt=PARTS)
        assert ctx.mode == "assistant"
        fill(ctx, 0, 3)
        said = ctx.get_context_for_model()[1:]
        before = first(ctx)
        at = len(ctx.history)
        ctx.set_mode("debugger")
        ctx.add_message(role="user", content="And now?")
        assert ctx.mode == ctx.policy.mode == "debugger"
        assert mode_named("debugger").text("short") in first(ctx)
        assert ctx.get_context_for_model()[1:-1] == said
        again = session(store, prompt=PARTS)
        assert again.mode == "debugger"
        assert again.get_context_for_model() == ctx.get_context_for_model()
        assert again.time.context_at(at + 1).messages[0].text == first(ctx)
        assert again.time.context_at(at - 1).messages[0].text == before, "as the model saw it"
        other = session(store, prompt=PARTS)
        ctx.set_mode("planning")
        assert mode_named("planning").text("short") in first(other), "other writers see it"
        with pytest.raises(InvalidConfig, match="no mode 'coder'; there are assistant"):
            ctx.set_mode("coder")
        assert ctx.mode == "planning"


def test_a_snapshot_brings_its_mode_back():
    """FR-12, FR-10: restoring is going back to what was."""
    store = InMemoryStore()
    ctx = session(store, prompt=PARTS)
    fill(ctx, 0, 2)
    ctx.set_mode("planning")
    taken = ctx.time.snapshot()
    ctx.set_mode("developer")
    ctx.time.restore(taken)
    assert ctx.mode == session(store).mode == "planning"


@pytest.mark.parametrize("mode", [None, "planning"])
def test_a_branch_keeps_the_mode_that_it_began_with(mode):
    """FR-12, FR-10: whatever its parent is used for later, at the same place."""
    store = InMemoryStore()
    ctx = session(store)
    fill(ctx, 0, 2)
    if mode:
        ctx.set_mode(mode)
    ctx.time.branch(at=len(ctx.history))
    ctx.time.undo()
    ctx.set_mode("debugger")
    ctx.time.redo()
    assert ctx.mode == session(store).mode == (mode or "assistant")


def test_the_mode_reaches_the_summarizer(tmp_path):
    """FR-12: by name; what a person's own mode keeps reaches it as guidance."""
    asked = []

    class Listening:
        name, waits = "listening", False

        async def summarize(self, request):
            asked.append(request)
            return Summary(text="They asked what of the roof, and it holds.", made_by=self.name)

    file = tmp_path / "mine.md"
    file.write_text("You sail.\n\n## Summaries\nKeep winds and ports.\n")
    policy = CompactPolicy(guidance="Keep the weather.")
    options = {"summarizer": Listening(), "prompt": PARTS, "user_mode": file, "policy": policy}
    ctx = session(InMemoryStore(), window=2_048, **options)
    ctx.set_mode("developer")
    fill(ctx, 0, 60)
    ctx.get_context_for_model()
    assert (asked[-1].mode, asked[-1].guidance) == ("developer", "Keep the weather.")
    ctx.set_mode("user")
    assert "You sail." in first(ctx)
    fill(ctx, 60, 120)
    ctx.get_context_for_model()
    assert asked[-1].mode == "user"
    assert asked[-1].guidance == "Keep the weather.\nKeep winds and ports."


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InvalidConfig, match=r"user_mode: .*nowhere\.md: no such file"):
        session(InMemoryStore(), user_mode=tmp_path / "nowhere.md")


@pytest.mark.parametrize("own", [True, False])
def test_our_prompt_is_recognized_when_a_client_sends_it_back(own):
    """C-9: neither stored nor taken for an edited past, in an older wording either; beside a system
    prompt of the history's own and alone.
    """
    store = InMemoryStore()
    ctx = session(store, window=2_048, prompt=PARTS)
    if own:
        ctx.add_message(role="system", content="You work at the harbour.")
    ctx.goals.set(["Mend the roof."])
    fill(ctx, 0, 40)
    for mode in ("developer", "planning"):
        old = ctx.get_context_for_model()
        length = len(ctx.history)
        ctx.set_mode(mode)
        found = ctx.sync([*old, {"role": "user", "content": f"Now as {mode}."}])
        assert len(found.new) == 1
        assert len(ctx.history) == length + 1
        assert ctx.history[0].role == ("system" if own else "user")
        prompts = [m for m in ctx.get_context_for_model() if m["role"] == "system"]
        assert len(prompts) == 2 + own, "prompt, the history's own, goals"
    assert ctx.compressions
    assert len(ctx.time.branches()) == 1

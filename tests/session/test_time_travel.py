"""Time travel: undo, redo, branches, snapshots, restore, and what a model saw when (FR-1, US-8).

A machine of random steps plays a session beside a simple model of it; the model knows nothing of
projections and moves, only which prompts were given out where.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from compact import CompactPolicy, ContextManager
from compact.errors import InvalidConfig, NotFound
from compact.messages.checkpoints import is_checkpoint_text
from compact.messages.own_text import headed
from compact.messages.sessions import Snapshot
from compact.store.inmemory import InMemoryStore
from tests.session.playing import cover_faults
from tests.sizes import size

Prompt = list[dict[str, Any]]
WINDOW = 2_048


def session(store: InMemoryStore | None = None, **options: Any) -> ContextManager:
    return ContextManager(window=WINDOW, store=store, session_id="s", tokenizer="o200k", **options)


def fill(ctx: ContextManager, start: int, stop: int) -> None:
    for i in range(start, stop):
        ctx.add_message(role="user", content=f"Question {i}: " + "what of the roof? " * 6)
        ctx.add_message(role="assistant", content=f"Answer {i}: " + "it holds. " * 12)


def compressed(turns: int = 14) -> ContextManager:
    """A session after a compression that somebody asked for, and room to take it back."""
    ctx = session()
    fill(ctx, 0, turns)
    assert not any(is_checkpoint_text(str(m["content"])) for m in ctx.get_context_for_model())
    ctx.compress_conversation(0.3)
    assert ctx.checkpoints
    return ctx


# --- single steps ---------------------------------------------------------------------------------


def test_undo_goes_back_step_by_step() -> None:
    """Two undos go back two compressions; a third finds nothing (FR-1)."""
    ctx = session()
    fill(ctx, 0, 14)
    prompts = [ctx.get_context_for_model()]
    for ratio in (0.6, 0.3):
        ctx.compress_conversation(ratio)
        prompts.append(ctx.get_context_for_model())
    assert len({str(p) for p in prompts}) == 3
    ctx.time.undo()
    assert ctx.get_context_for_model() == prompts[1]
    ctx.time.undo()
    assert ctx.get_context_for_model() == prompts[0]
    with pytest.raises(NotFound, match="nothing to undo"):
        ctx.time.undo()
    ctx.time.redo()
    ctx.time.redo()
    assert ctx.get_context_for_model() == prompts[2]
    with pytest.raises(NotFound, match="nothing to redo"):
        ctx.time.redo()


def test_a_new_compression_after_an_undo_ends_what_could_be_redone() -> None:
    """As in every editor: another step forward forgets the way that was left (FR-1)."""
    ctx = compressed(14)
    ctx.time.undo()
    ctx.compress_conversation(0.5)
    with pytest.raises(NotFound):
        ctx.time.redo()
    ctx.time.undo()
    assert not ctx.checkpoints


def test_restore_gives_exactly_the_prompt_of_the_snapshot() -> None:
    """Position, checkpoints, goals and policy; what came after stays readable (FR-1, FR-10)."""
    ctx = compressed()
    ctx.goals.set(["Get the roof done."])
    before, policy = ctx.get_context_for_model(), ctx.policy
    snapshot = ctx.time.snapshot("here")
    old = ctx.branch_id
    fill(ctx, 50, 80)
    ctx.goals.set(["Something else."])
    ctx.get_context_for_model()
    ctx.time.restore(snapshot)
    assert ctx.get_context_for_model() == before
    assert [g.text for g in ctx.goals] == ["Get the roof done."]
    assert ctx.policy == policy
    assert ctx.branch_id != old
    assert len(ctx.store.read(old, 0, 10_000)) == 28 + 60
    assert [s.purpose for s in ctx.time.snapshots()] == ["recovery", "rollback"]


def test_a_snapshot_of_early_days_is_restored() -> None:
    """Its policy called ratios percentages."""
    ctx = session()
    snapshot = ctx.time.snapshot()
    early = {k.replace("_ratio", "_pct"): v for k, v in snapshot.policy.items()}
    assert "trigger_pct" in early
    ctx.store.save_snapshot(snapshot.model_copy(update={"id": "early", "policy": early}))
    ctx.time.restore("early")
    assert ctx.policy.model_dump(mode="json") == snapshot.policy


@pytest.mark.parametrize("policy", [{"trigger_ratio": "much"}, {"no_such": 1}, {"mode": "gone"}])
def test_a_snapshot_whose_policy_is_of_no_use_changes_nothing(policy: dict[str, Any]) -> None:
    ctx = compressed()
    snapshot = ctx.time.snapshot()
    bad = snapshot.model_copy(update={"id": "bad", "policy": {**snapshot.policy, **policy}})
    ctx.store.save_snapshot(bad)
    fill(ctx, 14, 16)
    before = ctx.get_context_for_model()
    stored = ctx.store.moves(ctx.id, most=99), ctx.time.branches(), ctx.time.snapshots(), ctx.policy
    with pytest.raises(InvalidConfig):
        ctx.time.restore("bad")
    assert (
        ctx.store.moves(ctx.id, most=99),
        ctx.time.branches(),
        ctx.time.snapshots(),
        ctx.policy,
    ) == stored
    assert ctx.get_context_for_model() == before


def test_a_tokenizer_that_is_asked_for_after_a_restore_goes_by_the_policy_in_force() -> None:
    """Whoever counts, one policy and mode is in force, not the one that was given first (FR-1)."""
    ctx = session(policy=CompactPolicy(trigger_ratio=0.5))
    fill(ctx, 0, 3)
    snapshot = ctx.time.snapshot()
    other = ContextManager(window=WINDOW, store=ctx.store, session_id="s", tokenizer="o200k")
    other.time.restore(snapshot)
    other.set_mode("planning")
    other.get_context_for_model("anthropic:claude-sonnet-4-5")
    view = other._session.view_for("anthropic:claude-sonnet-4-5")
    assert (view.tokenizer, view.window.trigger_ratio) == ("claude", 0.5)
    assert (other.policy.trigger_ratio, other.policy.mode) == (0.5, "planning")


# --- any number of steps --------------------------------------------------------------------------


@dataclass
class Known:
    """The simple model: what every branch must hold."""

    messages: dict[str, list[str]] = field(default_factory=dict)
    given: dict[tuple[str, int], Prompt] = field(default_factory=dict)
    """Branch and length → the last prompt that was given out there."""
    goals: dict[str, list[str]] = field(default_factory=dict)
    snapshots: list[tuple[Snapshot, Prompt]] = field(default_factory=list)


class Travel(RuleBasedStateMachine):
    """Random steps through time."""

    @initialize()
    def begin(self) -> None:
        self.store = InMemoryStore()
        self.ctx = session(self.store)
        self.known = Known({self.ctx.branch_id: []}, goals={self.ctx.branch_id: []})
        self.n = 0

    def said(self) -> list[str]:
        return self.known.messages[self.ctx.branch_id]

    def prompt(self) -> Prompt:
        prompt = list(self.ctx.get_context_for_model())
        assert self.ctx.active_context().tokens <= self.ctx.window.usable
        self.known.given[self.ctx.branch_id, len(self.ctx.history)] = prompt
        return prompt

    def forked(self, parent: str, at: int) -> None:
        """The model follows to a new branch."""
        branch = self.ctx.branch_id
        if branch != parent:
            assert branch not in self.known.messages
            self.known.messages[branch] = self.known.messages[parent][:at]
            for (name, length), prompt in list(self.known.given.items()):
                if name == parent and length < at:
                    self.known.given[branch, length] = prompt

    @rule(turns=st.integers(1, 12), long=st.booleans())
    def talk(self, turns: int, long: bool) -> None:
        for _ in range(turns):
            self.n += 1
            words = f"Message {self.n}: " + "what of the roof? " * (20 if long else 2)
            role = "user" if self.n % 2 else "assistant"
            self.ctx.add_message(role=role, content=words)
            self.said().append(words)

    @rule()
    def ask(self) -> None:
        self.prompt()

    @rule(ratio=st.sampled_from((0.2, 0.5, 0.8)))
    def compress(self, ratio: float) -> None:
        self.ctx.compress_conversation(ratio)
        self.forget_given()

    @rule()
    def undo_and_redo(self) -> None:
        before, branch = self.prompt(), self.ctx.branch_id
        try:
            self.ctx.time.undo()
        except NotFound:
            return
        self.ctx.time.redo()
        assert self.ctx.branch_id == branch
        assert self.prompt() == before, "undo then redo is the identity"

    @rule()
    def undo(self) -> None:
        try:
            self.ctx.time.undo()
        except NotFound:
            return
        assert self.ctx.branch_id in self.known.messages, "undo makes no branch"
        self.forget_given()

    @rule()
    def redo(self) -> None:
        try:
            self.ctx.time.redo()
        except NotFound:
            return
        assert self.ctx.branch_id in self.known.messages, "redo makes no branch"
        self.forget_given()

    def forget_given(self) -> None:
        """At the present length another prompt counts now."""
        self.known.given.pop((self.ctx.branch_id, len(self.ctx.history)), None)

    @rule(data=st.data())
    def branch(self, data: st.DataObject) -> None:
        parent, length = self.ctx.branch_id, len(self.ctx.history)
        at = data.draw(st.integers(max(0, length - 30), length))
        self.ctx.time.branch(at=at)
        self.forked(parent, at)
        goals = [g.text for g in self.ctx.goals]
        self.known.goals[self.ctx.branch_id] = goals

    @rule()
    def snapshot(self) -> None:
        prompt = self.prompt()
        self.known.snapshots.append((self.ctx.time.snapshot(), prompt))

    @precondition(lambda self: self.known.snapshots)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        snapshot, prompt = data.draw(st.sampled_from(self.known.snapshots))
        self.ctx.time.restore(snapshot)
        self.forked(snapshot.branch_id, snapshot.at)
        self.known.goals[self.ctx.branch_id] = [g.text for g in snapshot.goals]
        assert self.ctx.get_context_for_model() == prompt, "exactly the snapshot's prompt"

    @rule(goals=st.lists(st.sampled_from(("Roof.", "Wall.", "Garden.")), unique=True, max_size=2))
    def set_goals(self, goals: list[str]) -> None:
        self.ctx.goals.set(goals)
        self.known.goals[self.ctx.branch_id] = goals
        self.forget_given()

    @rule()
    def reopen(self) -> None:
        before = self.prompt()
        branch, policy = self.ctx.branch_id, self.ctx.policy
        self.ctx = session(self.store, policy=policy)
        assert self.ctx.branch_id == branch
        assert self.prompt() == before, "reopened, it is the very same"

    @invariant()
    def no_message_is_lost(self) -> None:
        if not hasattr(self, "ctx"):
            return
        for branch, said in self.known.messages.items():
            stored = [e.message.text for e in self.store.read(branch, 0, 100_000)]
            assert stored == said, branch
        assert [m.text for m in self.ctx.history] == self.said()

    @invariant()
    def goals_are_those_of_the_branch(self) -> None:
        if hasattr(self, "ctx"):
            want = self.known.goals[self.ctx.branch_id]
            assert [g.text for g in self.ctx.goals] == want

    @invariant()
    def every_position_is_covered_once(self) -> None:
        if hasattr(self, "ctx"):
            assert cover_faults(self.ctx) == []

    def teardown(self) -> None:
        """What a model saw at any time is what was given out then."""
        if not hasattr(self, "ctx"):
            return
        for (branch, at), prompt in self.known.given.items():
            if branch != self.ctx.branch_id or at > len(self.ctx.history):
                continue
            shown = self.ctx._session.state.wire.render(self.ctx.time.context_at(at).sent)
            assert _plain(shown) == _plain(prompt), f"{branch} at {at}"


def _plain(prompt: Prompt) -> list[str]:
    return [str(m["content"]) for m in prompt if headed(str(m["content"])) != "Goals"]


TestTravel = Travel.TestCase
TestTravel.settings = settings(
    max_examples=size(15, 60),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.slow
def test_long_travels() -> None:
    """The same machine, longer and more often (K-13)."""
    from hypothesis.stateful import run_state_machine_as_test

    many = settings(
        max_examples=size(25, 600),
        stateful_step_count=50,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Travel, settings=many)


def test_a_session_that_was_opened_later_is_compressed_when_the_live_one_is() -> None:
    """The trigger is the same after going back, and after a provider's report (FR-1, FR-3)."""
    store = InMemoryStore()
    live = session(store, summarizer=None)
    fill(live, 0, 14)
    live.compress_conversation(0.3)
    live.time.undo()
    moved = len(live.time.moves())
    for i in range(14, 40):
        fill(live, i, i + 1)
        found = session(store, summarizer=None)
        assert found._session.view._trigger == live._session.view._trigger
        live.get_context_for_model()
        live.record_usage(live._session.view.tokens + 5 * i)
    assert len(live.time.moves()) > moved

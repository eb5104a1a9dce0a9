"""Whatever list a client sends whole: nothing is lost, nothing is stored twice (K-6, FR-1)."""

from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from compact import ContextManager
from compact.messages.events import BranchTaken, Event
from compact.session import context_manager
from compact.session.resent_list import (
    LastList,
    ListDigest,
    Recognized,
    checked,
    recognized,
    understood,
)
from compact.session.state import SessionState
from compact.session.views.view import View
from tests.session.test_recognition import Dict, stored
from tests.sizes import size

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["whole", "prompt", "old prompt", "edited", "cut", "shorter", "strange"]),
        st.integers(0, 2**16),
        st.integers(0, 3),
    ),
    min_size=3,
    max_size=14,
)


class Client:
    """Says something new in each list, now and then the same words as before."""

    def __init__(self, ctx: ContextManager) -> None:
        self.ctx = ctx
        self.said = 0
        self.prompts: list[tuple[str, list[Dict], list[Dict]]] = []
        """Each with the branch it is of, and what was stored there."""

    def new(self, count: int) -> list[Dict]:
        """So many messages, every third one the same as others."""
        made: list[Dict] = []
        for _ in range(count):
            self.said += 1
            role = "user" if self.said % 2 else "assistant"
            words = "ok" if self.said % 3 == 0 else f"{self.said}: " + "the roof holds. " * 40
            made.append({"role": role, "content": words})
        return made

    def prompt(self) -> list[Dict]:
        prompt = self.ctx.get_context_for_model()
        self.prompts.append((self.ctx.branch_id, prompt, stored(self.ctx)))
        return prompt

    def given(self, kind: str, place: int, new: list[Dict]) -> tuple[list[Dict], list[Dict] | None]:
        """A list, and what is on the open branch after it; None where that cannot be said."""
        now = stored(self.ctx)
        at = 1 + place % len(now)
        match kind:
            case "prompt":
                return [*self.prompt(), *new], [*now, *new]
            case "old prompt" if self.prompts:
                branch, prompt, then = self.prompts[place % len(self.prompts)]
                is_here = branch == self.ctx.branch_id and now[: len(then)] == then
                return [*prompt, *new], [*then, *new] if is_here and new else None
            case "edited":
                other = {"role": "user", "content": f"No, {self.said} and {place}."}
                return [*now[:at], other, *new], [*now[:at], other, *new]
            case "cut":
                is_plain = now[at - 1]["content"] != "ok" and at > 1
                return [*now[at - 1 :], *new], [*now, *new] if is_plain else None
            case "shorter":
                return now[:at], now[:at]
            case "strange":
                return [{"role": "user", "content": f"Anew, {self.said} and {place}."}, *new], None
        return [*now, *new], [*now, *new]


def understood_both_ways(
    state: SessionState, view: View, last: LastList, listed: ListDigest
) -> tuple[list[Any], Recognized]:
    """What is told by the digest of the last list is what recognizing it tells. A prompt of
    another branch is taken as new words: it is recognized once.
    """
    messages, found = understood(state, view, last, listed)
    if not found.ours:
        again = recognized(state, view, checked(listed.messages))
        assert found == again
    return messages, found


@patch.object(context_manager, "understood", understood_both_ways)
@given(steps=STEPS, has_system=st.booleans())
@settings(max_examples=size(15, 150), deadline=None)
def test_whatever_list_is_sent_nothing_is_lost_or_stored_twice(
    steps: list[tuple[str, int, int]], has_system: bool
) -> None:
    """K-6, FR-1: what was stored stays as it is; the history ends with what is new, and the prompt
    shows it last; the same list again adds nothing; a branch says so."""
    seen: list[Event] = []
    ctx = ContextManager(window=2_048, tokenizer="o200k", on_event=seen.append)
    client = Client(ctx)
    system: list[Dict] = [{"role": "system", "content": "You are a roofer."}] * has_system
    ctx.sync([*system, *client.new(12)])
    for kind, place, count in steps:
        before = {branch.id: on_branch(ctx, branch.id) for branch in ctx.time.branches()}
        branch, taken = ctx.branch_id, len(branches_taken(seen))
        messages, expected = client.given(kind, place, client.new(count))
        found = ctx.sync(messages)
        now = stored(ctx)
        assert expected is None or now == expected, kind
        assert now[found.known :] == found.new or found.new == [], kind
        for name, entries in before.items():
            assert on_branch(ctx, name)[: len(entries)] == entries, "stored messages stay"
        is_new = ctx.branch_id != branch
        assert len(branches_taken(seen)) == taken + is_new, "a branch says so"
        if found.new:
            shown = ctx.get_context_for_model()
            assert shown[-1]["content"] == messages[-1]["content"]
        known, count_before = len(ctx.history), len(ctx.time.branches())
        assert found.ours or ctx._session.last_list.known(ListDigest(messages)) == len(messages)
        assert ctx.sync(messages).new == [], "the same list again"
        assert (len(ctx.history), len(ctx.time.branches())) == (known, count_before)


def branches_taken(seen: list[Event]) -> list[Event]:
    return [event for event in seen if isinstance(event, BranchTaken)]


def on_branch(ctx: ContextManager, name: str) -> list[Any]:
    return [entry.message.id for entry in ctx.store.read(name, 0, 10_000)]

"""The system prompt: parts in their places, in the tier's budget, nothing cut (FR-11, FR-16)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact.messages.own_text import keyed
from compact.messages.policy import TIERS
from compact.models.providers.tokenizers import tokenizer
from compact.text.modes import MODES, mode_named, user_mode
from compact.text.prompts import Note, PromptParts, assemble, prompt_message
from tests import checker

ALL = PromptParts(
    skills=(Note(name="sailing", text="Reef early."), Note(name="knots", text="Use a bowline.")),
    tools=(Note(name="grep", text="Give a path."),),
    hooks=(Note(name="save", text="Runs the checks."),),
    mcp_prompts=(Note(name="issue", text="Name the issue."),),
    instructions="Always answer in rhymes.",
)


def words(text):
    return len(re.findall(r"\S+", text))


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("tier", TIERS, ids=lambda tier: tier.name)
def test_our_own_texts_fit_every_tier(tier, name):
    """FR-11: mode, mandates and sanity checks within 200, 500, 1000 and 1500 tokens by a real
    count, the checker's own.
    """
    count = tokenizer("o200k").count
    prompt = assemble(
        PromptParts(), mode=mode_named(name), tier_budget=tier.prompt_tokens, count=count
    )
    assert checker.tokens(prompt.text) <= tier.prompt_tokens
    assert prompt.tokens == checker.tokens(prompt.text)
    assert {f"mode {name}", "mandates"} <= set(prompt.included)
    assert ("sanity checks" in prompt.included) == (tier.number <= 2)
    if tier.number > 1:
        assert not prompt.left_out
    assert prompt.text.startswith(
        mode_named(name).text(
            "short" if tier.number == 1 else "medium" if tier.number == 2 else "long"
        )
    )


def test_parts_stand_in_their_places():
    """FR-16: mode, mandates, markers, skills, tools, hooks, MCP prompts, instructions."""
    prompt = assemble(ALL, mode=mode_named("developer"), tier_budget=1_500, count=words)
    assert prompt.included == (
        "mode developer",
        "mandates",
        "goal markers",
        "Skill sailing",
        "Skill knots",
        "Tool grep",
        "Hook save",
        "MCP prompt issue",
        "instructions",
    )
    assert prompt.text.endswith("## MCP prompt issue\nName the issue.\n\nAlways answer in rhymes.")
    assert prompt.left_out == ()
    assert prompt.tokens == words(prompt.text)


def test_what_does_not_fit_is_left_out_whole_and_said():
    """FR-16: never cut silently; what the person wants goes before skills and tools."""
    room = "word " * 60
    parts = ALL.model_copy(update={"skills": (Note(name="big", text=room), *ALL.skills)})
    prompt = assemble(parts, mode=mode_named("planning"), tier_budget=120, count=words)
    assert prompt.tokens <= 120
    assert "instructions" in prompt.included
    (big,) = [left for left in prompt.left_out if left.part == "Skill big"]
    assert big.tokens == 63
    assert "of 120 tokens are left" in big.reason
    assert "word word" not in prompt.text
    assert "Skill sailing" in prompt.included, "a smaller one may still fit"


def test_what_is_larger_than_the_budget_is_said_too():
    """FR-11: a mode text of the person's own, mandates of their own."""
    prompt = assemble(
        PromptParts(mandates="Obey. " * 400, markers=False),
        mode=user_mode("You sail. " * 400),
        tier_budget=200,
        count=words,
    )
    assert prompt.included == ("sanity checks",)
    assert [(left.part, left.tokens) for left in prompt.left_out] == [
        ("mode user", 800),
        ("mandates", 400),
    ]
    assert all("larger than the whole budget of 200" in left.reason for left in prompt.left_out)


def test_mandates_may_be_ones_own_or_none():
    one = assemble(
        PromptParts(mandates="Be kind."), mode=mode_named("user"), tier_budget=500, count=words
    )
    assert "Be kind." in one.text
    none = assemble(PromptParts(mandates=""), mode=mode_named("user"), tier_budget=500, count=words)
    assert "mandates" not in none.included


def test_the_message_is_recognized_when_it_comes_back():
    """C-9: by its digest, and not where somebody changed a word."""
    prompt = assemble(ALL, mode=mode_named("assistant"), tier_budget=500, count=words)
    own = keyed(b"of this store")
    message = prompt_message(prompt, own)
    assert message is not None
    assert message.role == "system"
    assert message.text.endswith(prompt.text)
    assert own.kind_of(message.text) == "Prompt"
    assert own.kind_of(message.text + " too") is None
    assert message == prompt_message(prompt, own)
    empty = PromptParts(mandates="", markers=False)
    nothing = assemble(empty, mode=mode_named("user"), tier_budget=1, count=words)
    assert prompt_message(nothing, own) is None


NOTES = st.lists(st.builds(Note, name=st.text(min_size=1), text=st.text(min_size=1)), max_size=4)


@given(
    st.builds(
        PromptParts,
        mandates=st.one_of(st.none(), st.text()),
        skills=NOTES.map(tuple),
        tools=NOTES.map(tuple),
        hooks=NOTES.map(tuple),
        mcp_prompts=NOTES.map(tuple),
        instructions=st.text(),
        markers=st.booleans(),
    ),
    st.sampled_from(MODES),
    st.integers(1, 400),
)
def test_whatever_the_parts_they_are_whole_or_said(parts, name, budget):
    """FR-16: within the budget; each part is there word for word, or named as left out."""
    prompt = assemble(parts, mode=mode_named(name), tier_budget=budget, count=len)
    assert prompt.tokens == len(prompt.text) <= budget
    said = [*prompt.included, *(left.part for left in prompt.left_out)]
    notes = [n for g in (parts.skills, parts.tools, parts.hooks, parts.mcp_prompts) for n in g]
    assert (
        len(said)
        == len(notes)
        + 1
        + (parts.mandates != "")
        + bool(parts.instructions)
        + (budget <= 500)
        + parts.markers
    )
    if "instructions" in prompt.included:
        assert parts.instructions in prompt.text
    for note in notes:
        if any(each.endswith(f" {note.name}") for each in prompt.included):
            assert note.text in prompt.text or len(notes) > 1

"""A person's newest words stay as they were said, also in small windows (FR-8)."""

import random
from collections.abc import Sequence

import pytest

from compact import ContextManager, compress
from tests import checker
from tests.doors.talking import Dict, verbatim

SHARES = (0.10, 0.245)
"""Of the window, what 20 messages of a person take together."""


def sized(text: str, tokens: int) -> str:
    """The text, made as long as takes so many tokens as a message."""
    while checker.prompt_tokens([{"role": "user", "content": text}]) < tokens:
        text += " oak"
    return text


def in_view(said: list[str], prompt: Sequence[Dict]) -> list[str]:
    """What a person said that stands in the prompt as it was said, joined with others or not."""
    return [m["content"] for m in verbatim([{"role": "user", "content": t} for t in said], prompt)]


def lived(window: int, share: float, *, system: float = 0.02, turns: int = 60) -> list[str]:
    """A session of many turns, the person's messages of the same size; what they said that is in
    view word for word after each prompt, the newest first, for the prompt with the fewest.
    """
    ctx = ContextManager(window=window)
    ctx.add_message(role="system", content=sized("You are a roofer.", int(system * window)))
    each = int(share * window / 20) - 4
    said: list[str] = []
    fewest: list[str] | None = None
    for number in range(turns):
        said.append(sized(f"Question {number}: how is the beam held?", each))
        ctx.add_message(role="user", content=said[-1])
        ctx.add_message(role="assistant", content=f"Beam {number} " + "is held by trenails. " * 40)
        prompt = ctx.get_context_for_model()
        assert checker.prompt_tokens(prompt) <= ctx.window.usable
        if ctx.checkpoints and number >= 20:
            kept = in_view(said[-20:][::-1], prompt)
            fewest = kept if fewest is None or len(kept) < len(fewest) else fewest
    assert fewest is not None
    assert ctx.compressions > 2
    return fewest


@pytest.mark.parametrize("window", [1_024, 4_096])
@pytest.mark.parametrize("share", SHARES)
def test_they_stay_in_one_call_too(window: int, share: float) -> None:
    """FR-8."""
    each = int(share * window / 20) - 4
    said = [sized(f"Question {number}: how is the beam held?", each) for number in range(60)]
    messages: list[dict[str, str]] = []
    for number, text in enumerate(said):
        answer = f"Beam {number} " + "is held by trenails. " * 40
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]
    assert in_view(said[-10:], compress(messages, max_tokens=window)) == said[-10:]


@pytest.mark.parametrize("system", [0.15, 0.30, 0.45])
def test_they_stay_beside_a_large_system_prompt(system: float) -> None:
    """The target gives way, not what a person said (FR-8)."""
    assert len(lived(4_096, 0.24, system=system, turns=40)) >= 10


def test_what_was_answered_last_is_in_a_small_prompt_whenever_it_fits() -> None:
    """At 2,048 tokens too, where the answer is larger than what a compression would leave."""
    chosen = random.Random(7)
    with ContextManager(window=2_048, tokenizer="o200k") as ctx:
        answered = ""
        for turn in range(40):
            ctx.add_message(role="user", content=f"Question {turn}? " + "Is it dry? " * 12)
            prompt = ctx.get_context_for_model()
            said = [message["content"] for message in prompt]
            needed = checker.prompt_tokens(prompt) + ctx.estimate_tokens(answered)
            assert not answered or answered in said or needed > ctx.window.usable, turn
            length = chosen.choice((20, 60, 120, 180))
            answered = f"Answer {turn}: " + "the quay holds. " * length
            ctx.add_message(role="assistant", content=answered)
        assert ctx.compressions > 5

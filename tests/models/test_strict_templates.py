"""Conversations with a real llama.cpp server whose chat template refuses two messages of one role
side by side: nobody hears of it, at any turn, before and after compressions (issue 24).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compact import ContextManager
from compact.messages.policy import CompactPolicy
from compact.models.providers.tokenizers import HuggingFaceEstimator
from compact.wiring import chat_model
from tests import sizes
from tests.models import tiny_llama
from tests.models.conversing import TOOLS, Notes, Watched, answered, listening, turns

ANSWER = 16
TURNS = sizes.size(24, 60)
FACES = {"chat_completions": "", "responses": "responses+", "anthropic": "anthropic+"}
Llama = Callable[..., str]


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Notes]:
    noted = Notes()
    listening(monkeypatch, noted)
    yield noted
    print(f"\n  {noted.said}")


def session(
    size: int, wire: str, tiny_model: tiny_llama.Model, notes: Notes, **options: Any
) -> ContextManager:
    framing = tiny_llama.FRAMING
    return ContextManager(
        window=size,
        format=wire,
        tools=TOOLS,
        tokenizer=HuggingFaceEstimator(tiny_model.tokenizer, framing=framing),
        policy=CompactPolicy(output_reserve=ANSWER),
        on_event=notes.hear,
        **options,
    )


@pytest.mark.slow
@pytest.mark.parametrize("template", ["mistral", "gemma"])
@pytest.mark.parametrize("size", [2048, 4096])
@pytest.mark.parametrize("wire", FACES)
def test_no_turn_is_refused(
    llama: Llama, tiny_model: tiny_llama.Model, notes: Notes, template: str, size: int, wire: str
) -> None:
    """Calls of tools, a person who speaks twice, who interrupts a tool. The template's
    refusal is learned from once or twice, and no request is refused from then on.
    """
    server = f"{FACES[wire]}{llama(size, template)}/v1#tiny-random"
    model = Watched(chat_model(server), size, notes)
    said = turns(wire, size // 2, seed=5)
    with session(size, wire, tiny_model, notes, system="Keep to the rules.") as ctx:
        for turn in range(TURNS):
            ctx.add_messages(next(said))
            if turn % 7 == 3:
                ctx.add_message({"role": "user", "content": "And be quick about it."})
            answered(ctx, model, notes, streamed=bool(turn % 2))
        assert len(ctx.checkpoints) > 0
    assert notes.overflows == 0
    refused = {
        status: n for status, n in (notes.answers + notes.stories).items() if 400 <= status < 500
    }
    assert sum(refused.values()) <= 2, notes.said

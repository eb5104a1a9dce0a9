"""N-1 and FR-3 as they are written: what is counted is what is sent, whatever is written in it."""

import random

import pytest

from compact import CannotFit, compress, plan

WORDS = ("gull", "mast", "tar", "net", "rope", "oar", "keel", "sail", "deck", "hull", "the", "of")
OTHERS = ["é", "Ærø", "日本", "🐟", "ñandú", "тихо", "\n\n", "7,5", "QRS", "--", "  "]


class Uneven:
    """A tokenizer that counts lines together higher than each alone."""

    name, exact = "uneven", False

    def count(self, text):
        return len(text) // (2 if "é" in text else 4) + len(text) // 90


def talk(seed):
    """A talk of any length, with more or less of other scripts in it."""
    chance = random.Random(seed)
    others = (0.004, 0.02, 0.1, 0.4)[seed % 4]

    def said(most):
        count = chance.randint(5, most)
        words = (OTHERS if chance.random() < others else WORDS for _ in range(count))
        return " ".join(map(chance.choice, words)) + "."

    for i in range(chance.randint(3, 12)):
        yield {"role": "user", "content": f"Watch {i}: {said(50)}"}
        yield {"role": "assistant", "content": said(100)}


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"model": "ollama:nobody-knows-it"}, {"tokenizer": Uneven()}])
def test_any_budget_that_holds_the_floor_is_kept(how):
    """FR-3: "counted again": whoever is over after the last count shrinks again."""
    for seed in range(24):
        messages = list(talk(seed))
        total = plan(messages, max_tokens=10**6, **how).tokens_before or 0
        for share in (0.15, 0.3, 0.45, 0.6, 0.75, 0.9):
            most = int(total * share)
            try:
                fitted = compress(messages, max_tokens=most, **how)
            except CannotFit:  # what may not be shortened and a checkpoint do not fit
                continue
            after = plan(fitted, max_tokens=10**6, **how).tokens_before or 0
            assert after <= most, (seed, share)

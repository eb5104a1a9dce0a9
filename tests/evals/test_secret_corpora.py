"""The corpora of secrets: what is found of them does not get less (issue 13)."""

import pytest

from evals import secrets

FLOORS = {
    "dev": (0.96, 0.02),
    "held_out": (0.94, 0.02),
    "keys": (0.98, 0.02),
    "keys_2": (0.96, 0.02),
    "keys_3": (0.97, 0.02),
    "keys_4": (0.85, 0.02),
}
"""Corpus → the least share of secrets that is found, the largest share of texts that is altered."""
OPT_IN = 0.75
"""The least share of e-mail addresses and phone numbers, where they are asked for."""


@pytest.mark.parametrize("corpus", FLOORS)
def test_as_many_secrets_are_found_as_were(corpus):
    """Only numbers are told, here as well."""
    found = secrets.score(corpus)
    recall, altered, cards = found.recall, found.false_positives, found.missed["card"]
    personal, asked_for = found.opt_in[True], found.opt_in.total()
    least, most = FLOORS[corpus]
    del found  # a failing assertion would show its kinds
    assert recall >= least
    assert altered <= most
    assert cards == 0
    assert personal >= OPT_IN * asked_for

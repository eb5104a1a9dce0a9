"""The weights of names are fitted so that what goes with being needed again counts for it."""

import json

import pytest

from compact.messages.messages import Message
from evals import __main__ as command
from evals import names
from tests.evals.test_scores import folder as folder  # a fixture

PREDICTS = [({"fresh": 1.0, "loud": float(n % 2)}, True) for n in range(40)]
PREDICTS += [({"fresh": 0.0, "loud": float(n % 2)}, n < 4) for n in range(40)]


def test_a_feature_of_names_that_are_needed_counts_and_another_does_not():
    pytest.importorskip("numpy")
    weights = names.fitted(PREDICTS)
    assert weights["fresh"] > 1
    assert abs(weights["loud"]) < 0.2


def test_a_name_is_needed_where_the_assistant_uses_it_after_the_cut():
    said = ["Look at oven_door.", "The loaf_count is 3."] * (names.FIRST // 2)
    after = ["Mending oven_door now."] * names.AHEAD
    messages = [
        *(Message(role="user", content=text) for text in said),
        *(Message(role="assistant", content=text) for text in after),
    ]
    rows = list(names.rows_of(messages))[:2]
    assert [used for _, used in rows].count(True) == 1


def test_the_product_s_weights_are_written_only_where_it_is_named(folder, tmp_path, monkeypatch):
    pytest.importorskip("numpy")
    monkeypatch.setattr(names, "WEIGHTS", tmp_path / "weights.json")
    monkeypatch.setattr(names, "rows_of", lambda _: PREDICTS)
    assert "names" not in command.EVALUATIONS
    assert command.main(["names", "--data", str(folder)]) == 0
    assert json.loads(names.WEIGHTS.read_text())["fresh"] > 1

"""The kit's facts: what counts as kept, and as resolved."""

from itertools import pairwise

import pytest

from compact.messages.messages import Message
from evals import kit, published
from evals.data import NoData

OLD, NEW = "The cap is $300 now.", "The cap is $700 now."


@pytest.fixture(scope="module", autouse=True)
def _installed():
    pytest.importorskip("compaction_kit", reason=f"needs {kit.PINNED}")


@pytest.fixture(scope="module")
def fact():
    canaries = pytest.importorskip("compaction_kit.canaries")
    sort = canaries.CanaryType.FACT
    return canaries.Canary("cap", sort, NEW, ("$700",), "", superseded_tokens=("$300",))


@pytest.mark.parametrize(
    ("told", "names", "kept"),
    [
        (NEW, "", {"survive", "outside", "newest", "resolved", "in order"}),
        (f"{OLD}\n{NEW}", "", {"survive", "outside", "newest", "in order"}),
        (f"{NEW}\n{OLD}", "", {"survive", "outside", "newest"}),
        (OLD, "\n$700", {"survive", "newest"}),
        (OLD, "", set()),
    ],
)
def test_a_fact_is_kept_and_its_old_value_stands_before_it_or_nowhere(fact, told, names, kept):
    found = kit.scored(fact, published.Context("ours", 9, told + names, told, ()))
    assert {name for name, holds in found.items() if holds} == kept


def test_a_session_is_stretched_in_its_order():
    turns = [Message(role="system", content="Rules.")]
    turns += [Message(role=r, content=f"{r} {i}") for i in range(9) for r in ("user", "assistant")]
    messages = kit.stretched(turns, 9_000, 1)
    places = [messages.index(turn) for turn in turns]
    assert all(one < other for one, other in pairwise(places))
    assert places[-2] > len(messages) * 0.8
    assert 9_000 <= sum(map(published.COUNTER.message, messages)) < 12_000


def test_what_is_measured_is_reported_for_every_way():
    rows = kit.run(seeds=[1], sizes=[2_000])
    assert {row.way for row in rows} == set(published.WAYS)
    assert any(row.found["survive"] for row in rows if row.way == "ours")
    lost = kit.Planted("x", 1, 0, 0.2, "ours", "cap", {"survive": False, "outside": False})
    assert kit.report([lost], missed=True).endswith("x 1, 0 at 20%, ours: cap")


def test_a_package_that_is_not_there_is_said_with_how_to_install_it():
    with pytest.raises(NoData, match=r"pip --python .venv install --no-deps no-such-kit==1"):
        published.module("no_such_kit_at_all", "x", "no-such-kit==1")

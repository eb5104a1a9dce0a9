"""The kit's facts: what counts as kept, and as resolved."""

import pytest

from evals import kit, published

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

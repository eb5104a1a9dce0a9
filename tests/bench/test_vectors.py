"""The bench of vectors can tell good from bad: what is missing, and what is slow (S-3)."""

from pathlib import Path

import pytest

from bench import vector_ours, vector_work, vectors

pytestmark = pytest.mark.slow
SIZE = 6_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    vectors.write(folder, SIZE)
    return folder


@pytest.mark.parametrize("name", vector_ours.STORES)
def test_ours_finds_what_comparing_all_finds(data, name):
    record = vector_work.run(vector_ours.STORES[name], data)
    assert record["all_recall"] >= vectors.LEAST_RECALL
    assert record["group_recall"] == 1


def test_the_scan_is_the_truth_and_a_lossy_store_is_seen(data):
    record = vector_work.run(vector_work.Scan, data)
    assert (record["all_recall"], record["group_recall"]) == (1, 1)

    class Half(vector_work.Scan):
        def nearest(self, vector, group):
            return super().nearest(vector, group)[::2]

    missed = vectors._limits(vector_work.run(Half, data), SIZE)
    assert [check.what for check in missed if not check.ok and "missed" in check.what] == [
        "6,000: missed among all",
        "6,000: missed of a group",
    ]


def test_every_limit_can_be_passed_over():
    slow = {"all": [7.0], "group": [0.6], "open": 51.0, "first": 501.0}
    bad = {**slow, "all_recall": 0.98, "group_recall": 0.98}
    assert not any(check.ok for check in vectors._limits(bad, SIZE))
    quick = {"all": [5.0], "group": [0.4], "open": 1.0, "first": 400.0}
    good = {**quick, "all_recall": 0.995, "group_recall": 1.0}
    assert all(check.ok for check in vectors._limits(good, SIZE))

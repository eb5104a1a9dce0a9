"""The bench of vectors can tell good from bad: what is missing, and what is slow (S-3)."""

from pathlib import Path

import pytest

from bench import vector_work, vectors

pytestmark = pytest.mark.slow
SIZE = 6_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    vectors.write(folder, SIZE)
    return folder


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

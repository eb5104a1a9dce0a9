"""Centring takes out what all rows share, as the plain computation does."""

import numpy as np
import pytest

from compact.core import centring as module
from compact.core.centring import centring


@pytest.mark.parametrize("components", [0, 1, 3])
def test_it_is_what_the_plain_computation_gives(components):
    rng = np.random.default_rng(3)
    shared = rng.standard_normal((4, 32))
    rows = rng.standard_normal((500, 4)) @ shared * 2 + rng.standard_normal((500, 32)) + 1
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    question = rows[7] + 0.1
    found = centring(rows, components)
    assert found is not None
    asked, shift = found.question(question.astype(np.float32))
    cosines = (rows @ asked - shift) * found.scales(rows)

    left = rows - rows.mean(axis=0)
    basis = np.linalg.svd(left, full_matrices=False)[2][:components]
    plain, own = (x - x @ basis.T @ basis for x in (left, question - rows.mean(axis=0)))
    wanted = plain @ own / np.linalg.norm(plain, axis=1) / np.linalg.norm(own)
    assert np.allclose(cosines, wanted, atol=1e-4)


def test_few_rows_are_left_as_they_are():
    assert centring(np.eye(module.LEAST - 1, dtype=np.float32)) is None


def test_a_row_that_is_all_shared_counts_nothing():
    rows = np.tile(np.array([[1.0, 0.0]], np.float32), (200, 1))
    rows[::2] = [0.0, 1.0]
    found = centring(rows, 2)
    assert found is not None
    assert np.allclose(found.scales(rows), 0)

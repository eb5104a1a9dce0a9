"""How much is tried: by day enough to see what breaks, the same in every run; at night all of it,
drawn from another seed in every run.

`make nightly` draws the seed, prints it and names it to the tests: `NIGHTLY=17 python3 tasks.py
nightly` is that night again.
"""

import os

import pytest

NIGHT: int | None = int(found) if (found := os.environ.get("NIGHTLY")) else None
"""The seed of the night; None by day."""


at_night = pytest.mark.skipif(NIGHT is None, reason="at night: a smaller one runs by day")
"""Of a test that is too long for any day."""


def size(day: int, night: int) -> int:
    """Take the one for the time of day."""
    return day if NIGHT is None else night


def seed(day: int) -> int:
    """By day always the same seed, at night another one."""
    return day if NIGHT is None else NIGHT + day

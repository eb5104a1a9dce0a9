"""What the evaluations do not fall below on the shared conversations: floors that held on the day
they were written, not what is aimed at (docs/evidence.md says what is).
"""

import pytest

from evals import coverage, data, instructions, split
from tests.sizes import NIGHT, size

pytestmark = pytest.mark.data

BY_DAY = NIGHT is None
"""By day each second of the sessions that are always looked at, and one seed of what is generated.
The floors of that sample are what it reached when it was drawn (.74, .46, 1.0) less a twentieth:
seven compactions and thirty-three sentences, of which one is a thirtieth."""
COVERAGE_FLOOR = 0.71 if BY_DAY else 0.65
"""In the mean, of the sessions that are looked at (.717 when this was written) and of those that
are only scored (.672). It was .8 while lists of names took two thirds of a checkpoint; they take a
third of it now, and prose alone covers .40 instead of .26."""
PROSE_FLOOR = 0.44 if BY_DAY else 0.37
"""The same without the lists."""
INSTRUCTION_FLOOR = 0.93
GENERATED_FLOOR = 0.95
CROWDED_FLOOR = 0.93
"""Of the generated rules where they are too many to fit, the share that is there or referenced by
id; the others are requests that code takes for no clear rule."""


@pytest.fixture(scope="module")
def folder():
    try:
        return data.folder()
    except data.NoData as reason:
        if reason.asked:
            pytest.fail(str(reason))
        pytest.skip(f"no real conversations here: {reason}")


@pytest.mark.slow
def test_what_is_needed_next_is_there_after_compression(folder):
    sample = data.claude_code_sessions(folder)[1::2] if BY_DAY else None
    try:
        scores = coverage.run(coverage.Cases(folder, sample))
    except data.NoData as reason:
        pytest.skip(str(reason))
    if not BY_DAY:
        print(coverage.report(scores))
    assert scores
    for half in split.HALVES:
        if some := [score for score in scores if score.half == half]:
            assert coverage.mean_of(some) >= COVERAGE_FLOOR, half
            assert sum(score.prose for score in some) >= PROSE_FLOOR * len(some), half


@pytest.mark.slow
def test_instructions_that_fit_are_there_word_for_word(folder):
    outcomes = [o for o in instructions.labelled(folder) if o.fits]
    print(instructions.report("labelled", outcomes))
    share = instructions.share(outcomes)
    assert share is not None
    assert share >= INSTRUCTION_FLOOR


@pytest.mark.slow
def test_generated_rules_are_there_or_referenced():
    outcomes = list(instructions.from_generator(instructions.SEEDS[: size(1, 5)]))
    share = instructions.share([o for o in outcomes if o.fits])
    assert share is not None
    assert share >= GENERATED_FLOOR
    crowded = [o for o in outcomes if not o.fits]
    missed = sum(len(o.missed) - o.referenced for o in crowded)
    assert missed <= (1 - CROWDED_FLOOR) * sum(len(o.missed) + len(o.kept) for o in crowded)

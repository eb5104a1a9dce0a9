"""What each mode keeps more of than `assistant`, at the same size (FR-12)."""

from importlib import resources

import pytest

from compact import plan
from compact.messages.formats.known import format_named
from compact.messages.policy import CompactPolicy
from compact.text.modes import MODES
from evals import data, formats, modes
from tests import sizes
from tests.engine import judging
from tests.engine.judging import Case

SAMPLE = resources.files("compact.cli") / "sample" / "harbour.jsonl"
RATIO = {"developer": 1.15, "debugger": 1.2, "planning": 1.02}
"""How many times as many a mode keeps at least, in the mean over sessions."""
MOST_LESS = 0.1
"""Share of the sessions in which it may keep less: there the source has no more."""
SIZE = 0.06
"""How much larger or smaller its contexts may be, all of them together: names fill room that whole
lines leave over."""
JUDGES = (
    judging.fits,
    judging.provider_would_take_it,
    judging.order_stays,
    judging.nothing_is_lost_or_doubled,
    judging.everything_shown_was_said,
)


@pytest.fixture(scope="module")
def folder():
    try:
        return data.folder()
    except data.NoData as reason:
        if reason.asked:
            pytest.fail(str(reason))
        pytest.skip(f"no real conversations here: {reason}")


def hold(rows):
    print(modes.report(rows, missed=True))
    for one in modes.outcomes(rows):
        assert one.ratio >= RATIO[one.mode], one
        assert one.more > one.less, one
        assert one.less <= MOST_LESS * len(rows), one
        assert one.tokens == pytest.approx(1, abs=SIZE), one


@pytest.mark.slow
@pytest.mark.parametrize("window", [2_500, 8_000])
def test_each_mode_keeps_more_of_the_sample(window):
    """FR-12: the bundled session, for a run without data."""
    transcript = formats.read(SAMPLE.read_bytes())
    row = modes.compared("sample", transcript, window)
    assert row is not None
    hold([row])


@pytest.mark.slow
@pytest.mark.data
def test_each_mode_keeps_more_of_some_sessions(folder):
    """FR-12: one folder of real sessions at one window."""
    rows = modes.run(folder, folders=["claude_code_sessions"], windows=[8_000])
    if not rows:
        pytest.skip("none of these sessions here")
    for one in modes.outcomes(rows):
        assert one.ratio > 1, one
        assert one.more > one.less, one


@sizes.at_night
@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("window", modes.WINDOWS)
def test_each_mode_keeps_more_of_all_coding_sessions(folder, window):
    """FR-12: all real coding sessions."""
    hold(modes.run(folder, windows=[window]))


@pytest.mark.slow
@pytest.mark.data
def test_real_summaries_are_sound_in_every_mode(folder):
    """FR-5, FR-12, NFR-2: a sample of sessions, by the judges of all compressions."""
    smallest = {}
    for path in sorted(modes.sessions(folder), key=lambda p: -p.stat().st_size):
        if path.stat().st_size > 150_000:
            smallest[path.parent] = path
    written = sum(judged(path, window) for path in smallest.values() for window in (4_000, 8_000))
    assert written >= len(MODES)


def judged(path, window):
    """How many summaries were made of a session, each of them well."""
    transcript = formats.read(path)
    wire, written = format_named(transcript.wire), 0
    before = [one for m in transcript.messages for one in wire.render([m])]
    for mode in MODES:
        case = Case(transcript.wire, before, window)
        case.plan = plan(
            transcript.messages,
            max_tokens=window,
            tokenizer=judging.TOKENIZER,
            tools=transcript.tools,
            policy=CompactPolicy(mode=mode),
        )
        case.after = wire.render(case.plan.context.messages)
        where = f"{path.name}, {window:,}, {mode}"
        assert judging.judged(case, JUDGES) == [], where
        if case.plan.checkpoint:
            assert [v for v in case.plan.checkpoint.verdicts if not v.passed] == [], where
            written += 1
    return written

"""The generated three years hold what is asked, once, and what is shown is counted as it says."""

import pytest

from evals import companion
from evals.companion import Matter, Shown, State
from evals.split import HALVES


@pytest.mark.parametrize("half", HALVES)
def test_each_value_is_told_where_it_should_be_and_nowhere_else(half):
    talk, words = companion.generated(half)
    kinds = [m.kind for m in words.matters]
    assert [kinds.count(kind) for kind in companion.KINDS] == [60, 10, 5]
    assert sum(bool(m.now) for m in words.matters) == 15 + 10 + 5
    assert len(words.remarks) == len(words.personal) == 100
    said = [m.text for messages in talk.sessions.values() for m in messages]
    assert 19_000 < len(said) < 21_000
    wrong = []
    for matter in words.matters:
        told = (matter.said, matter.echo, matter.later, matter.later_echo)
        for needles in filter(None, (matter.value, matter.now)):
            of = companion.pattern(needles)
            own = sum(bool(of.search(text)) for text in told)
            everywhere = sum(bool(of.search(text)) for text in said)
            wrong += [matter.ask] * (not own == everywhere >= 1 or bool(of.search(matter.ask)))
        if matter.kind == "facts" and matter.now:
            later = f"{matter.later} {matter.later_echo}"
            wrong += [matter.ask] * bool(companion.pattern(matter.value).search(later))
    assert not wrong


def test_a_half_is_the_same_each_time_and_what_ends_a_matter_comes_after_it():
    (talk, words), (again, _) = companion.generated("look"), companion.generated("look")
    assert talk == again
    messages = sorted(
        (m for messages in talk.sessions.values() for m in messages), key=lambda m: m.timestamp
    )
    for matter in words.matters:
        if matter.later:
            told = [i for i, m in enumerate(messages) if m.text.endswith(matter.said)]
            ended = [i for i, m in enumerate(messages) if m.text.endswith(matter.later)]
            assert len(told) == len(ended) == 1
            assert told < ended, matter.ask


def test_rows_tell_the_old_value_from_the_new_and_a_matter_from_its_end():
    dentist = Matter("facts", "", "", "", value="Abel", later="x", now="Nakamura")
    tea = Matter("facts", "", "", "", value="lapsang")
    trip = Matter("withdrawn", "", "", "", value="Lisbon", later="x", now="never mind")
    shown = [
        Shown(dentist, ["Dr. Abel", "Dr. Nakamura"], ["now nakamura, was Abel"]),
        Shown(dentist, ["Dr. Abel's bill"], []),
        Shown(tea, ["lapsangs"], ["a cup of Lapsang"]),
        Shown(trip, ["to Lisbon", "never mind Lisbon"], ["> to Lisbon"]),
    ]
    rows = companion.counted(State("", shown, {}, {}, 0, 0))
    assert rows == {
        "search: current value (3)": 1,
        "search: updated, new shown (2)": 1,
        "search: updated, old without new": 1,
        "search: updated, old before new": 1,
        "search: withdrawn, without its end (1)": 0,
        "recall: current value (3)": 2,
        "recall: updated, new shown (2)": 1,
        "recall: updated, old without new": 0,
        "recall: updated, old before new": 0,
        "recall: withdrawn, without its end (1)": 1,
        "recall: barred, without its end (0)": 0,
        "conversations in the archive": 0,
        "MB of database and archive": 0,
    }
    assert [companion.is_missed(s, s.found) for s in shown] == [True, True, True, False]

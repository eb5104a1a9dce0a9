"""What a compression needs of a text is found once, however many compressions follow (NFR-1).

Work is counted, not timed.
"""

from collections import Counter
from copy import deepcopy
from itertools import count, islice
from random import Random
from typing import get_args

import pytest

from compact import ContextManager
from compact.engine import pipeline
from compact.engine.chronology import composing as chronology
from compact.engine.chronology import talk
from compact.engine.chronology.composing import STEPS, Chronology
from compact.engine.chronology.cutting import Cuttable
from compact.engine.visible import VisibleText
from compact.messages import clock_and_ids
from compact.text.anchors import Ledger, Origin
from tests.engine.saying import COUNTER, notes_of, run, said

COMPRESSIONS = 50


def counted(monkeypatch, place, name, key):
    """How often a function is called with what `key` makes of its arguments."""
    calls, before = Counter[object](), getattr(place, name)

    def counting(*arguments, **more):
        calls[key(*arguments)] += 1
        return before(*arguments, **more)

    monkeypatch.setattr(place, name, counting)
    return calls


def talked(number):
    """A person or the assistant says something that nobody said before, now and then a question."""
    role = "assistant" if number % 2 else "user"
    words = f"Berth {number} was let to the ketch Amsel{number} on day {number}. " * 3
    asks = f" Shall I ask harbour master {number} about its moorings?" * (number % 4 == 1)
    return {"role": role, "content": f"{words}She pays {number * 7} crowns a month.{asks}"}


def test_each_text_of_a_talk_is_cut_into_sentences_once(monkeypatch):
    texts = counted(monkeypatch, talk, "lines_of", lambda text: text)
    compressions = counted(monkeypatch, pipeline, "compress", lambda *_: "all")
    manager = ContextManager(window=2_048, tokenizer="o200k")
    number = 0
    while compressions.total() < COMPRESSIONS and number < 2_000:
        manager.add_message(talked(number))
        manager.get_context_for_model()
        number += 1
    assert compressions.total() == COMPRESSIONS
    assert len(texts) > number // 2
    assert set(texts.values()) == {1}


def test_turns_are_weighed_once_for_all_rooms(monkeypatch):
    weighed = counted(monkeypatch, talk, "Candidates", lambda items, *_: len(items))
    messages = [said(*talked(at).values()) for at in range(40)]
    told = Chronology(notes_of(messages), COUNTER)
    assert len({told.told(room) for room in (200, 400, 800)}) == 3
    assert {size: times for size, times in weighed.items() if size} == {40: 1}


def worked(at):
    """The assistant says what it does, and runs a check."""
    times = 9 if at < 60 else 1 + at * 7 % 23
    told = f"I look at berth {at}. " + f"The ketch Amsel{at} lies there since day {at}. " * times
    told += "It is dry" * (at % 2)  # a line end is a token of its own after a word
    command = f"pytest tests/test_berth_{at}.py"
    return [said("assistant", told), *run(at, command, f"{at} passed in 0.1s")]


def work_notes(berths):
    ids = count()
    with clock_and_ids.using(new_id=lambda: f"m{next(ids)}"):
        rows = (x for at in range(berths) for x in worked(at))
        return notes_of([said("user", "Look at all berths."), *rows])


def test_a_row_is_cut_once_for_a_room_and_a_number_is_tried_once(monkeypatch):
    cut = counted(monkeypatch, Cuttable, "within", lambda text, room, _: (text.text, room))
    sums = counted(monkeypatch, Chronology, "_cost", lambda _, number, __: number)
    numbers = counted(monkeypatch, Chronology, "_number", lambda *_: "all")
    assert Chronology(work_notes(60), COUNTER).told(1_500)
    assert set(cut.values()) == {1}
    assert max(sums.values()) <= 2, "again only for a much larger target"
    assert sums.total() < STEPS * numbers.total()


def test_deeds_are_joined_once_for_all_chronologies(monkeypatch):
    joined = counted(monkeypatch, chronology, "_run_of", lambda deeds, _: tuple(deeds))
    notes = work_notes(60)
    texts = {Chronology(notes, COUNTER).told(1_500) for _ in range(3)}
    assert len(texts) == 1
    assert set(joined.values()) == {1}
    assert 0 < joined.total() <= 80


def test_a_chronology_looks_only_at_rows_that_it_may_tell(monkeypatch):
    looked = counted(monkeypatch, VisibleText, "shows", lambda _, probe: probe[0])
    notes = work_notes(300)
    assert Chronology(notes, COUNTER).told(300)
    assert len(notes.items.rows) > 280
    assert 0 < looked.total() < 100


@pytest.mark.parametrize("room", [60, 200, 700, 3_000])
def test_the_sum_of_the_lines_is_the_count_of_the_text(room):
    told = Chronology(work_notes(40), COUNTER)
    assert told.told(room)
    for number in (0.0, 0.002, 0.02, 0.3, 40.0):
        lines = told._lines(number)
        assert told._tokens(lines) == COUNTER.text(told._text(lines))


def test_names_are_ranked_as_if_each_was_rated_each_time():
    """Names that were not used since are rated again only when they may come next."""
    drawn, ledger, other = Random(26), Ledger(), Ledger()
    for position in range(120):
        names = " ".join(f"src/berth_{drawn.randrange(60)}.py" for _ in range(4))
        origin = drawn.choice(get_args(Origin))
        for one in (ledger, other):
            one.note(names, origin, position)
            if position % 7 == 0:
                one.edited(names)
            if position % 11 == 0:
                one.forget(names, "")
        if position % 3 == 0:
            next(ledger.likeliest(position + 1), None)
            list(islice(ledger.likeliest(position + 1), drawn.randrange(9)))
        if position % 40 == 39:
            fresh = deepcopy(other)  # nothing rated so far
            ranked, anew = (x.ranked(position + 1) for x in (ledger, fresh))
            assert [(text, odds) for text, _, odds in ranked] == [
                (text, odds) for text, _, odds in anew
            ]

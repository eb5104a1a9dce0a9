"""What a compression needs of a text is found once, however many compressions follow (NFR-1).

Work is counted, not timed.
"""

from collections import Counter
from itertools import count

from compact import ContextManager
from compact.engine import pipeline
from compact.engine.chronology import composing as chronology
from compact.engine.chronology import talk
from compact.engine.chronology.composing import STEPS, Chronology
from compact.engine.chronology.cutting import Cuttable
from compact.messages import clock_and_ids
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


def test_sentences_are_weighed_once_for_all_rooms(monkeypatch):
    weighed = counted(monkeypatch, talk, "Candidates", lambda items, *_: len(items))
    messages = [said(*talked(at).values()) for at in range(40)]
    told = Chronology(notes_of(messages), COUNTER)
    assert len({told.told(room) for room in (100, 200, 400)}) == 3
    assert {size: times for size, times in weighed.items() if size} == {4 * 40 + 10: 1}


def worked(at):
    """The assistant says what it does, and runs a check."""
    told = f"I look at berth {at}. " + f"The ketch Amsel{at} lies there since day {at}. " * 9
    command = f"pytest tests/test_berth_{at}.py"
    return [said("assistant", told), *run(at, command, f"{at} passed in 0.1s")]


def test_a_row_is_cut_once_for_a_room_and_a_number_is_tried_once(monkeypatch):
    cut = counted(monkeypatch, Cuttable, "within", lambda text, room, _: (text.text, room))
    sums = counted(monkeypatch, Chronology, "_cost", lambda _, number: number)
    numbers = counted(monkeypatch, Chronology, "_number", lambda *_: "all")
    deeds = counted(monkeypatch, chronology, "_parts_of", lambda *_: "all")
    ids = count()
    with clock_and_ids.using(new_id=lambda: f"m{next(ids)}"):
        rows = [said("user", "Look at all berths."), *(x for at in range(60) for x in worked(at))]
    assert Chronology(notes_of(rows), COUNTER).told(1_500)
    assert set(cut.values()) == {1}
    assert set(sums.values()) == {1}
    assert sums.total() < STEPS * numbers.total()
    assert 0 < deeds.total() <= 60

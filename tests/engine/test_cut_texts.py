"""A text that is cut keeps what it says, and is marked (C-8)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact.engine.chronology.cutting import Cuttable
from compact.engine.chronology.items import Item, sized
from compact.messages.tokens import TokenCounter
from compact.models.providers.tokenizers import tokenizer
from tests.engine.saying import run, said, story

COUNTER = TokenCounter(tokenizer("o200k"))
REPLY = """Perfect! You were absolutely right.

## What was wrong

```python
if retries > limit:
    raise QueueFull(retries)
```

The importer counted rows of the header, so that every file of the harbour lost its last berth.
I moved the count behind the header and kept the old limit of 400 rows.
The second file, ferries.csv, has no header at all; it is read as before.

All tests pass! What do you think?"""


@pytest.mark.parametrize("room", [24, 40, 60])
def test_what_tells_nothing_goes_first(room: int):
    shown = Cuttable(REPLY, COUNTER).within(room, "m7")
    assert shown.startswith("The importer counted rows of the header")
    assert ", m7]" in shown
    for frame in ("Perfect", "What was wrong", "QueueFull", "What do you think"):
        assert frame not in shown


def test_the_sentence_that_does_not_fit_is_begun():
    shown = Cuttable(REPLY, COUNTER).within(44, "m7")
    head, _, _ = shown.partition(" [… ")
    assert "lost its last berth." in head
    assert "I moved the count behind the header" in head
    assert "400 rows" not in head


@pytest.mark.parametrize("room", range(20, 40))
def test_one_long_sentence_is_cut_at_its_end_only(room: int):
    """Its last words say nothing without the others, however short they are."""
    long_ones = "and counterrevolutionaries/incomprehensibilities " * 20
    shown = Cuttable(f"Could you send me the names {long_ones}of it?", COUNTER).within(room, "m4")
    assert shown.startswith("Could you send me the names")
    assert shown.endswith(", m4]")


def test_what_is_left_out_is_marked_where_all_of_it_is_frame():
    text = "Yes. The wind at pier 7 turned to the west.\n" + "```\nx = 1\n```\n" * 30
    shown = Cuttable(text, COUNTER).within(60, "m4")
    assert shown.startswith("The wind at pier 7 turned to the west. [… ")
    assert shown.endswith(" words, m4]")


def test_a_short_rule_stays_where_a_person_s_text_is_cut():
    """However little a sentence tells, it stays if it demands something."""
    talk = "The pier of boat seven was mended on Tuesday by the diver of the harbour. " * 12
    asked = Item(1, "request", f"Never push. {talk}Always ask me.", "m1")
    shown = sized(asked, COUNTER).text.within(40, "m1")
    assert shown.startswith("Never push. ")
    assert shown.endswith("] Always ask me.")


def test_what_is_all_frame_is_still_told():
    assert Cuttable("# Yes\n\n# No\n\n" * 30, COUNTER).within(20, "m1").startswith("# Yes")


@given(st.text(max_size=600), st.integers(1, 80))
def test_a_text_is_whole_or_marked(text: str, room: int):
    cut = Cuttable(text, COUNTER)
    shown = cut.within(room, "m1")
    assert shown == text or "m1]" in shown
    assert COUNTER.text(shown) <= max(2 * room + 60, 1.15 * room + 10)


REVIEW = "\n\n".join(
    (
        "Here is what the reviewer wrote:",
        "> The queue must not lose a mail when the server is stopped while it is being sent.",
        "> " + "It would be better to write the mail down first and to send it then. " * 2,
    )
)
LOG = "```\n" + "\n".join(f"12:0{i} WARN queue.py retry={i} host=mx{i}" for i in range(9)) + "\n```"


def test_prose_that_was_pasted_is_told_and_logs_are_named():
    """A person's own words stand first; of a log it is said how long it was."""
    work = [
        said("user", "Build a queue for the mail.", id="m0"),
        said("assistant", "It stands in queue.py."),
        said("user", f"{REVIEW}\n\n{LOG}\n\nPlease see to that.", id="m1"),
        *run(1, "pytest -q", "4 passed"),
        said("assistant", "I did."),
    ]
    told = story(work)
    assert "Please see to that." in told
    assert re.search(r"\[pasted: \d+ words, m1\]", told)
    assert "must not lose a mail" in told
    assert "retry=3" not in told

"""Cutting a text to its room: head and tail as they were said, a mark for the rest (C-8)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact.engine.chronology.cutting import Cuttable, squeezed
from tests.engine.saying import COUNTER

BOATS = " ".join(f"Boat {i} lies at berth {3 * i} of the north pier." for i in range(60))
UNITS = (
    "The boat lies at pier 7. ",
    "It is blue! ",
    "\n- a line of its own",
    "Was it `mended` on Tuesday by the diver of the north pier? ",
    "ropes ",
    "金额一律用整数分来表示。 ",
    "\n\n",
)
texts = st.lists(st.sampled_from(UNITS), min_size=1, max_size=60).map(lambda x: "".join(x).strip())
MARK = re.compile(r"\[…(?: ([\d,]+) words(?:, (\w+))?)?\]")


def words(text: str) -> list[str]:
    """The words of a text, without its mark."""
    return MARK.sub(" ", text).split()


def test_head_and_tail_stand_as_they_were_said_and_the_mark_tells_the_rest() -> None:
    cut = Cuttable(BOATS, COUNTER).within(100, "m7")
    found = MARK.search(cut)
    assert found
    head, tail = cut[: found.start()].strip(), cut[found.end() :].strip()
    assert BOATS.startswith(head)
    assert head.endswith("pier."), "cut between sentences"
    assert BOATS.endswith(tail)
    assert tail.startswith("Boat ")
    assert len(head) > len(tail), "what it is about stands at its beginning"
    assert found[2] == "m7"
    assert int(found[1]) == len(BOATS.split()) - len(words(cut))


def test_a_mark_without_an_id_says_how_many_words_alone() -> None:
    assert re.search(r"\[… [\d,]+ words\]", Cuttable(BOATS, COUNTER).within(100, ""))


def test_a_text_of_one_sentence_is_cut_between_words() -> None:
    cut = Cuttable("ropes " * 200 + "end", COUNTER).within(30, "m7")
    assert words(cut)[:3] == ["ropes"] * 3
    assert cut.endswith("ropes end")


@pytest.mark.parametrize("more", [0, 1, 500])
def test_it_stands_whole_where_it_fits(more: int) -> None:
    whole = Cuttable(BOATS, COUNTER)
    assert whole.within(whole.tokens + more, "m7") == BOATS
    assert "m7" in whole.within(whole.tokens // 2, "m7")


@given(texts, st.integers(1, 300))
def test_it_is_hardly_longer_than_asked(text: str, room: int) -> None:
    """By 15 %, or by ten tokens where the room is small."""
    if text:
        cut = Cuttable(text, COUNTER).within(room, "m1234567")
        assert COUNTER.text(cut) <= max(1.15 * room, room + 10)


@given(texts, st.integers(1, 300), st.integers(0, 60))
def test_a_larger_room_never_shows_fewer_words(text: str, room: int, more: int) -> None:
    if text:
        cuttable = Cuttable(text, COUNTER)
        smaller, larger = cuttable.within(room, "m7"), cuttable.within(room + more, "m7")
        assert len(words(smaller)) <= len(words(larger))


@given(texts, st.integers(1, 300))
def test_the_mark_counts_what_is_missing(text: str, room: int) -> None:
    cut = Cuttable(text, COUNTER).within(room, "m7") if text else ""
    gone = sum(int((found[1] or "0").replace(",", "")) for found in MARK.finditer(cut))
    assert len(words(cut)) + gone == len(text.split())


def test_empty_lines_are_squeezed_and_nothing_else() -> None:
    assert squeezed("\na b\n\n  \n- c\n\n\nd\n") == "a b\n- c\nd"

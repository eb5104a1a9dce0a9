"""What a question asks for."""

from datetime import UTC, datetime

import pytest

from compact.memory.lexical import understood
from compact.text.turns import Trait

SPEAKERS = ("", "Caroline", "Mel Ann")


def test_names_of_speakers_are_not_looked_for() -> None:
    """Whoever speaks is named in every message, so his name tells nothing of any."""
    asked = understood("When did Caroline's group meet Mel?", SPEAKERS)
    assert ("group",) in asked.names
    assert not {piece for name in asked.names for piece in name} & {"caroline", "mel", "s"}


def test_a_question_of_nothing_but_names_looks_for_them() -> None:
    assert understood("Caroline?", SPEAKERS).names == (("caroline",),)


@pytest.mark.parametrize(
    ("text", "speaker"),
    [("What did Caroline say?", 1), ("Ann's boat", 2), ("Caroline and Mel", 0), ("the boat", 0)],
)
def test_one_speaker_who_is_named_is_told(text: str, speaker: int) -> None:
    assert understood(text, SPEAKERS).speaker == speaker


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("When was it?", Trait.TIME),
        ("How many boats?", Trait.NUMBER),
        ("How long did it take?", Trait.TIME | Trait.NUMBER),
        ("Who came?", Trait.NAME),
        ("Wie viele Boote kamen?", Trait.NUMBER),
        ("¿Cuándo fue?", Trait.TIME),
        ("Tell me of the boats", Trait(0)),
    ],
)
def test_the_kind_of_the_answer_is_told(text: str, asks: Trait) -> None:
    assert understood(text, ("",)).asks == asks


def test_a_question_of_nothing_but_a_time_looks_for_no_words() -> None:
    now = datetime(2026, 11, 27, tzinfo=UTC)
    asked = understood("What did we talk about on 3 March 2026?", SPEAKERS, now)
    day = datetime(2026, 3, 3, tzinfo=UTC)
    assert (asked.names, asked.times[0][0].start) == ((), day)
    assert ("boat",) in understood("What about the boat yesterday?", SPEAKERS, now).names


def test_a_name_of_several_pieces_counts_whole_and_by_each() -> None:
    names = understood("where is retry_budget set", ("",)).names
    assert {("retry", "budget"), ("retry",), ("budget",)} <= set(names)

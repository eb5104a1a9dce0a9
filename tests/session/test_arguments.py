"""What is given to `compress` and `plan` in a wrong type is refused by its name (C-3, K-5)."""

from typing import Any

import pytest

from compact import compress, plan
from compact.errors import InvalidMessage
from compact.messages.formats.known import FORMATS

MESSAGES = [{"role": "user", "content": f"word {i} " * 40} for i in range(30)]


class Whole:
    """A whole number of another library."""

    def __index__(self) -> int:
        return 900


def test_whole_numbers_of_other_libraries_are_taken() -> None:
    """As `operator.index` takes them."""
    other: Any = Whole()
    assert plan(MESSAGES, max_tokens=other, pin=iter([0])).tokens_after <= 900
    with pytest.raises(ValueError, match="max_tokens must be at least 1, got 0"):
        plan(MESSAGES, max_tokens=0)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ("12", r"pin\[0\] must be a whole number.*'1'"),
        ([0, 1.5], r"pin\[1\] must be a whole number.*1\.5"),
        ([True], r"pin\[0\] must be a whole number.*True"),
    ],
)
def test_pins_that_are_no_positions_are_refused(wrong, text):
    """The text names which one."""
    with pytest.raises(TypeError, match=text):
        compress(MESSAGES, max_tokens=900, pin=wrong)


def test_none_is_as_good_as_not_given() -> None:
    """For every option that may be left out."""
    left_out = compress(MESSAGES, max_tokens=900)
    given = compress(
        MESSAGES,
        max_tokens=900,
        pin=None,
        tools=None,
        system=None,
        model=None,
        tokenizer=None,
        format=None,
        policy=None,
        on_event=None,
    )
    assert given == left_out


@pytest.mark.parametrize("wire", FORMATS)
def test_metadata_that_is_wrong_is_refused_by_its_field(wire):
    """In every format by the same path, without a library's advertisement."""
    wrong = [{"role": "user", "content": "x", "metadata": {"tags": ["a", 5]}}]
    with pytest.raises(InvalidMessage) as caught:
        compress(wrong, max_tokens=900, format=wire)
    assert caught.value.path == "messages[0].metadata.tags[1]"
    assert caught.value.reason == "Input should be a valid string"

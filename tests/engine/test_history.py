"""The history: which messages it holds fast (K-4, C-8)."""

from typing import Any

import pytest

from compact import compress, wiring
from compact.engine.history import History
from compact.errors import InvalidMessage
from compact.messages.formats.known import FORMATS, format_named


def history(messages: list[dict[str, Any]], *, pinned: Any = (), wire: str = "chat_completions"):
    counter = wiring.token_counter(wire, tokenizer="chars")
    return History(messages, format_named(wire), counter, pinned=pinned)


def said(count: int) -> list[dict[str, Any]]:
    return [{"role": "user", "content": f"word {i}"} for i in range(count)]


class Compared(int):
    """A position that counts how often it is compared."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Compared.comparisons += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_many_pins_are_held_without_looking_through_them_all():
    """K-4, NFR-1: 20,000 pins took 1.9 seconds, each compared with every pin before it."""
    Compared.comparisons = 0
    held = history(said(2_000), pinned=[Compared(i) for i in range(1_999, -1, -1)])
    assert held.fixed == list(range(2_000))
    assert Compared.comparisons < 4 * 2_000


def test_pins_are_held_once_and_in_order():
    """K-4: whatever the order they were given in, from either end, one by one or together."""
    messages = [{"role": "system", "content": "x"}, *said(9)]
    held = history(messages, pinned=[7, -1, 3, 7, 0])
    assert held.fixed == [0, 3, 7, 9]
    held.pin(5)
    held.pin(-10)
    held.pin(5)
    assert held.fixed == [0, 3, 5, 7, 9]
    for pins in ([10], [0, -11]):
        with pytest.raises(InvalidMessage, match=r"pin\["):
            history(messages, pinned=pins)


@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize("flag", ["pinned", "protected"])
@pytest.mark.parametrize(
    "value", [True, 1, "true", "yes", "1", "on", 1.0, False, 0, "false", "no", None]
)
def test_a_flag_means_the_same_before_and_after_reading(wire, flag, value):
    """C-8: `{"pinned": 1}` made a message that said it was pinned, and was not kept."""
    message = {"role": "user", "content": "x", "metadata": {flag: value}}
    held = history([message], wire=wire)
    assert bool(held.fixed) == held[0].is_pinned == (value in (True, "true", "yes", "1", "on"))


@pytest.mark.parametrize("wire", FORMATS)
def test_a_flag_that_is_neither_is_refused_by_its_field(wire):
    """C-3: at once, wherever the message stands."""
    messages: list[dict[str, object]] = [
        {"role": "user", "content": f"word {i} " * 50} for i in range(40)
    ]
    messages[3]["metadata"] = {"pinned": "perhaps"}
    with pytest.raises(InvalidMessage, match="boolean") as caught:
        compress(messages, max_tokens=900, format=wire)
    assert caught.value.path == "messages[3].metadata.pinned"
    assert "pydantic" not in str(caught.value)

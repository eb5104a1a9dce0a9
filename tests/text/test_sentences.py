"""How texts are cut into sentences, and how they begin."""

from hypothesis import given
from hypothesis import strategies as st

from compact.messages.characters import PIECE, piecewise
from compact.text.sentences import beginning


@given(st.text(st.sampled_from("a b\n\t\u2003ß")), st.integers(0, 12))
def test_a_beginning_is_that_of_the_whole_squeezed_text(text: str, most: int) -> None:
    assert beginning(text, most) == " ".join(text.split())[:most]


def test_a_long_text_is_changed_as_at_once() -> None:
    text = "Straße İ Σ ÄÖ " * (PIECE // 8)
    assert piecewise(text, str.casefold) == text.casefold()
    assert piecewise("", str.lower) == ""

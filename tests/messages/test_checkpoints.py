"""Checkpoints: our own text is recognized when it comes back; what a person types is not (K-6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact.messages.checkpoints import (
    Checkpoint,
    Span,
    checkpoint_id,
    is_checkpoint_text,
    summary_of,
)
from compact.messages.own_text import keyed
from compact.text.speakers import speaker_of

OWN, OTHER = keyed(b"of this store" * 2), keyed(b"of another one" * 2)


SPAN = Span(first=2, last=40, messages=37, tokens=12_345)


def made(summary: str, span: Span = SPAN) -> Checkpoint:
    return Checkpoint(id=checkpoint_id(span, ["m2", "m40"], summary), span=span, summary=summary)


@given(st.text())
def test_our_text_is_recognized(summary):
    """K-6: whatever the summary says, and the summary comes back as it was."""
    checkpoint = made(summary)
    text = checkpoint.text(OWN)
    assert is_checkpoint_text(text)
    assert OWN.kind_of(text) == "Checkpoint"
    assert OTHER.kind_of(text) is None
    assert summary_of(text) == summary
    assert speaker_of(checkpoint.message(OWN)) == "checkpoint"


EDITS = {
    "a word more": lambda text: text + "!",
    "a word less": lambda text: text[:-1],
    "another word": lambda text: text.replace("parser", "writer"),
    "words before": lambda text: "Look: " + text,
    "without its heading": lambda text: text.split("\n", 1)[1],
    "another digest": lambda text: text.replace("digest ", "digest 0"),
    "its heading alone": lambda text: text.split("\n", 1)[0],
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_text_is_not_ours(name):
    """K-6: a person who changes it, quotes it or types such a heading is a person."""
    text = EDITS[name](made("The parser was fixed.").text(OWN))
    assert OWN.kind_of(text) is None


def test_the_heading_says_what_is_covered():
    """C-6: a reader sees how many messages are not shown, which, and what they took."""
    assert "37 of messages 2 to 40, 12,345 tokens" in made("x").text(OWN).splitlines()[0]


def test_the_same_span_and_summary_have_the_same_id():
    """K-6: one summary view per span: the id names what is covered and what is said of it."""
    assert made("x").id == made("x").id
    assert made("x").id != made("y").id
    other = SPAN.model_copy(update={"last": 41})
    assert made("x").id != made("x", other).id
    assert checkpoint_id(SPAN, ["m2", "m40"], "x") != checkpoint_id(SPAN, ["m2", "n40"], "x")

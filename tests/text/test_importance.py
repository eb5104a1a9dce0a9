"""Importance and partition: what outranks what, and which part a message belongs to (C-4, C-6,
K-4)."""

import pytest
from hypothesis import given, settings

from compact import wiring
from compact.engine.groups import partition, turns
from compact.engine.history import History
from compact.messages.formats.known import format_named
from compact.messages.messages import Message, MessageMetadata
from compact.messages.policy import CompactPolicy
from compact.text.conversation import Conversation
from compact.text.importance import importance
from compact.text.speakers import speaker_of
from tests import strategies


def said(role: str, text: str, **metadata: bool) -> float:
    return importance(
        Message.of({"role": role, "content": text, "metadata": MessageMetadata(**metadata)}), age=50
    )


def test_what_outranks_what():
    """C-4: instructions and requests outrank chatter; questions, decisions, errors and code
    count."""
    chatter = said("user", "ok thanks")
    assert said("user", "Never push to main without a review.") > said("user", "The sky is blue.")
    assert said("user", "Which file is it?") > chatter
    assert said("assistant", "We decided to use SQLite.") > said("assistant", "There is a table.")
    assert said("assistant", "It fails with ValueError: x") > said("assistant", "There is a table.")
    assert said("assistant", "Here:\n```\nx = 1\n```") > said("assistant", "Here: x")
    assert said("user", "The sky is blue.") > said("assistant", "The sky is blue.")


def test_age_and_marks_count():
    """C-4: a fresh message counts more; pinned ones count 1, important ones at least .8."""
    message = Message(role="user", content="The sky is blue.")
    assert importance(message, age=0) > importance(message, age=10) > importance(message, age=100)
    assert said("user", "x", pinned=True) == said("user", "x", protected=True) == 1
    assert said("user", "x", important=True) >= 0.8
    own = Message(role="user", content="x", importance_score=0.33)
    assert importance(own) == 0.33


def history(made: strategies.Generated) -> History:
    counter = wiring.token_counter(made.wire, tokenizer="chars")
    return History(made.messages, format_named(made.wire), counter)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(strategies.wild())
def test_importance_is_a_share_and_always_the_same(made):
    """C-4: between 0 and 1, deterministic, for any message."""
    for message in history(made):
        assert 0 <= importance(message, age=3) <= 1
        assert importance(message, age=3) == importance(message, age=3)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(strategies.wild())
def test_turns_and_parts_cover_everything_once(made):
    """K-4: turns start at a person's words; the parts together are all messages."""
    past = history(made)
    listed = list(turns(past))[::-1]
    assert [i for turn in listed for i in turn] == list(range(len(past)))
    assert all(speaker_of(past[turn.start]) == "person" for turn in listed[1:])
    parts = partition(past, CompactPolicy())
    assert sum(parts.sizes().values()) == len(past)
    assert min(parts.sizes().values()) >= 0
    assert set(made.pinned) <= parts.pinned


def test_a_conversation_counts_and_scores_itself():
    """C-2: total tokens are known once all messages are counted; appending changes nothing
    before."""
    first = Conversation(messages=(Message(role="user", content="hello world"),))
    second = first.append(Message(role="assistant", content="hi"))
    assert (len(first), len(second), second.total_tokens) == (1, 2, None)
    counted = second.counted(wiring.token_counter("chat_completions", tokenizer="o200k"))
    assert counted.total_tokens == 2 + 4 + 1 + 4
    assert all(m.importance_score is not None for m in counted.scored().messages)

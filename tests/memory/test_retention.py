"""Which conversations are kept whole (A-6)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact import Conversation, RetentionPolicy
from compact.errors import InvalidArgument
from compact.memory.retention import WEIGHTS, Importance, Parts, RetentionTally
from compact.messages.formats.known import format_named
from compact.messages.messages import Message
from tests.strategies import Generated, wild

DAY = datetime(2026, 3, 1, 9, tzinfo=UTC)
DECIDED = (
    "We move the harbour office to Quay Street in May, because Berta cannot climb the stairs.",
    "No, never book Dr. Olsen before 10:00. Can the slipway wait until 14 June?",
    "I like the second plan: 12 berths, 40 m each. What does Mr. Tan say about the crane?",
    "Always ask me before you order tiles. Did the insurance of 4,200 € come?",
)


def talk(*texts: str, hours: float = 0, **metadata: Any) -> Conversation:
    step = timedelta(hours=hours) / max(1, 2 * len(texts) - 1)
    messages = []
    for n, text in enumerate(texts):
        messages.append(Message(role="user", content=text, timestamp=DAY + 2 * n * step))
        at = DAY + (2 * n + 1) * step
        messages.append(Message(role="assistant", content="All right.", timestamp=at))
    return Conversation(messages=tuple(messages), metadata=metadata)


def parts(conversation: Conversation) -> Parts:
    return RetentionPolicy().calculate_importance_score(conversation).parts


def test_what_people_decide_together_is_kept_and_a_chore_ages() -> None:
    policy = RetentionPolicy()
    shared = talk(*DECIDED * 3, hours=40)
    chore = talk("Add a newline at the end of the file.")
    assert policy.should_retain_full(shared, 4_000)
    assert not policy.should_retain_full(chore, 8)
    assert policy.should_retain_full(chore, 7.9), "what is fresh is kept"


def test_each_part_counts_what_it_is_named_for() -> None:
    plain = talk("the roof leaks", "so it does")
    assert parts(talk(*["the roof leaks"] * 9)).engagement > parts(plain).engagement
    assert parts(talk("Berta paid 4,200 € to Dr. Olsen", "so it does")).density > 0
    assert parts(talk("does the roof leak?", "does it?")).questions > parts(plain).questions == 0
    assert parts(talk("the roof leaks", "so it does", hours=30)).span > parts(plain).span == 0
    assert parts(talk("Always ask me before you order.", "ok")).worth > parts(plain).worth


def test_what_tools_and_assistants_say_counts_for_nothing() -> None:
    said = Message(role="assistant", content=" ".join(DECIDED) * 20, timestamp=DAY)
    result = {"role": "tool", "tool_call_id": "c", "content": " ".join(DECIDED)}
    tool = format_named("chat_completions").parse(result, 0).model_copy(update={"timestamp": DAY})
    alone = Conversation(messages=(said, tool))
    assert RetentionPolicy().calculate_importance_score(alone).score == 0


@given(st.floats(0, 1), st.one_of(st.none(), st.integers(0, 100)), st.floats(0, 1e6))
def test_a_mark_overrides_everything(score: float, days: int | None, age: float) -> None:
    policy = RetentionPolicy(keep_score=1, keep_days=days)
    conversation = talk("the roof leaks", important=True)
    assert policy.should_retain_full(conversation, age)
    found = policy.calculate_importance_score(conversation)
    assert (found.score, found.marked) == (1.0, True)
    unmarked = Importance(score=score)
    assert policy.retains(unmarked, age) == (
        int(age) <= 7 or (score == 1 and (days is None or int(age) <= days))
    )


def test_thresholds_are_changed_in_a_new_policy() -> None:
    policy = RetentionPolicy()
    other = policy.update_retention_policy(keep_score=0.1, keep_days=30)
    assert (policy.keep_score, other.keep_score, other.keep_days) == (0.5, 0.1, 30)
    chore = talk("Does Berta repair the crane in May?", "And the roof?")
    assert other.should_retain_full(chore, 30)
    assert not other.should_retain_full(chore, 31)
    found = policy.calculate_importance_score(chore)
    ages = (30, 31, 123, 124)
    assert [other.aged(found, age) for age in ages] == [7, 8, 31, 32], "all later by one factor"
    assert [policy.aged(found, age) for age in ages] == [*ages]
    for wrong in ({"keep_score": 2}, {"keep_scores": 0.2}, {"fresh_days": -1}):
        with pytest.raises(InvalidArgument, match=next(iter(wrong))):
            policy.update_retention_policy(**wrong)


def test_the_weights_are_a_whole() -> None:
    assert sum(WEIGHTS) == pytest.approx(1)


@given(wild(), st.integers(1, 7))
def test_any_history_has_a_score_and_pages_change_nothing(made: Generated, page: int) -> None:
    """Bounded: it is read message by message, and nothing of it is kept but numbers."""
    wire = format_named(made.wire)
    messages = [wire.parse(each, i) for i, each in enumerate(made.messages)]
    whole = RetentionTally().read(messages)
    paged = RetentionTally()
    for start in range(0, len(messages), page):
        paged.read(messages[start : start + page])
    assert whole.parts == paged.parts
    assert all(0 <= part <= 1 for part in whole.parts)
    found = RetentionPolicy().importance(whole, {})
    assert found.score == pytest.approx(sum(found.told().values()))

"""A constraint said once, long ago: what counts as still told, and as told by the person."""

import pytest

from compact.messages.messages import Message
from evals import constraints, published

RULE = "Write every number as a word."
TALK = [
    Message(role=role, content=f"{role} {turn} spoke of the kiln and its walls. " * 12)
    for turn in range(30)
    for role in ("user", "assistant")
]


@pytest.mark.parametrize(
    ("item", "holds"),
    [
        (f"- User: {RULE} And more.", True),
        (f"- User, to “Which form?”: {RULE}", True),
        (f"- User: Look.\n  Assistant: {RULE}", False),
        (f"- User, to “{RULE}”: Yes.", False),
        (f"- Assistant: {RULE}", False),
        ("- User: Write every number [… 3 words, m30]", False),
    ],
)
def test_it_holds_where_it_is_told_as_the_persons(item, holds, monkeypatch):
    text = f"[Checkpoint ck-1 · 3 of messages 0 to 2]\n\n## Story\n{item}\n\n## Names\n{RULE}"
    persons = tuple(published.persons([Message(role="user", content=text)]))
    context = published.Context("ours", 9, text, text, persons)
    monkeypatch.setattr(published, "shown", lambda messages, size: [context])
    (row,) = constraints.held(("x", "bare", 9, 1), TALK, RULE)
    assert (row.verbatim, row.holding) == (True, holds)

"""A constraint said once, long ago: what counts as still told, and as told by the person."""

import pytest

from compact.messages.messages import Message
from evals import constraints, published
from evals.data import NoData

RULE = "Write every number as a word."
TALK = [
    Message(role=role, content=f"{role} {turn} spoke of the kiln and its walls. " * 12)
    for turn in range(30)
    for role in ("user", "assistant")
]


def test_a_constraint_stands_before_the_words_of_the_middle_turn():
    messages = constraints.planted(TALK, RULE)
    assert messages[30].text == f"{RULE}\n{TALK[30].text}"
    assert [m for m in messages if m not in TALK] == [messages[30]]


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


def test_every_way_is_held_to_its_tokens_and_ours_is_read():
    rows = list(published.shown(constraints.planted(TALK, f"From now on: {RULE}"), 1_000))
    assert [row.way for row in rows] == list(published.WAYS)
    assert all(0 < row.tokens <= 1_000 for row in rows)
    assert rows[0].persons


def test_the_fifteen_are_read_without_what_the_package_needs_beside_them():
    try:
        package = published.module("conpact", "constraints", constraints.PINNED)
    except NoData as reason:
        pytest.skip(str(reason))
    assert len(package.SCS) == 15
    framed = {package.render_sc(RULE, *how) for how in constraints.FRAMINGS.values()}
    assert len(framed) == 3

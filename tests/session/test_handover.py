"""`handover`: what an agent is given back after a compaction, as one text (issue 28)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compact import InvalidArgument, Redactor, handover, wiring
from compact.cli import commands
from compact.errors import InvalidMessage
from tests.sizes import size

COUNTER = wiring.token_counter("chat_completions", tokenizer="o200k")


@pytest.fixture(scope="module")
def sample():
    from importlib.resources import files

    source = files(commands).joinpath("../sample/harbour.jsonl")
    return wiring.read_transcript(str(source)).messages[:150]


def said_in(text):
    head, _, rest = text.partition("\n## ")
    assert head.startswith("## The user said before\n"), text
    return head.splitlines()[1:], rest


def talk(*words):
    """What a user said, each answered."""
    return [
        each
        for text in words
        for each in ({"role": "user", "content": text}, {"role": "assistant", "content": "Done."})
    ]


@pytest.mark.slow
@settings(max_examples=size(20, 300), deadline=None)
@given(
    tokens=st.none() | st.integers(1, 6_000),
    chars=st.none() | st.integers(1, 20_000),
    since=st.integers(0, 150),
)
def test_no_limit_is_ever_exceeded_or_too_small(sample, tokens, chars, since):
    text = handover(
        sample, max_tokens=tokens, max_chars=chars, since=since, tokenizer=COUNTER.estimator
    )
    most = 1_000 if tokens is chars is None else tokens
    assert most is None or COUNTER.text(text) <= most
    assert chars is None or len(text) <= chars


def test_its_parts_come_in_order(sample):
    text = handover(sample, since=40)
    places = [
        text.index(part) for part in ("## The user said", "## Now", "## Names", "Long messages")
    ]
    assert places == sorted(places)
    assert "## Story" not in text
    assert "## Story" in handover(sample, since=40, max_tokens=3_000)


def test_what_was_said_before_stands_whole_and_in_order():
    words = ["Never push to main.", "Use port 8125 for the tests.", "The guide stays in German."]
    messages = talk(*words, "Now the release.")
    said, rest = said_in(handover(messages, since=6))
    assert said == [f"- {each}" for each in words]
    assert "Now the release." in rest


def test_where_room_is_short_all_stand_by_their_first_words_and_demands_whole():
    many = [f"Look at lamp {n}: it {'flickers in the wind and ' * 8}goes out." for n in range(12)]
    rule = "Never touch the lifeboat's berth, under no circumstances, however full the harbour is."
    messages = talk(rule, *many, "Go on.")
    said, _ = said_in(handover(messages, since=len(messages) - 2, max_tokens=900))
    assert said[0] == f"- {rule}"
    assert [line[:14] for line in said[1:]] == [f"- Look at lamp {n}"[:14] for n in range(12)]
    assert any(line.endswith(" …") for line in said)


def test_what_does_not_fit_even_so_is_counted():
    messages = talk(*(f"Request {n}: paint berth {n} blue by Tuesday." for n in range(40)), "Go.")
    said, _ = said_in(handover(messages, since=80, max_tokens=300))
    assert said[-1] == f"[{40 - len(said) + 1} messages of the user are left out]"
    assert "Request 39" in said[-2]  # the newest stay


def test_a_demand_that_was_replaced_is_not_told_as_if_it_held():
    messages = talk("The port of the test server is 8080. Log it.", "Next.") + talk(
        "The test server's port is now 9090. Log it."
    )
    said, _ = said_in(handover(messages, since=4))
    assert not any("8080" in line for line in said)


def test_secrets_are_masked():
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    messages = talk(f"The token is {token}, and mail goes to a@harbour.example.", "Go.")
    text = handover(messages, since=2, redactor=Redactor(["email"]))
    assert token not in text
    assert "a@harbour.example" not in text
    assert "<REDACTED" in text


def test_a_secret_is_masked_also_where_nothing_tells_of_it_yet():
    messages = talk("Try Kw7-rbAx9.Quo2z first.", "It was the password: Kw7-rbAx9.Quo2z", "Go.")
    text = handover(messages, since=4)
    assert "Kw7-rbAx9" not in text
    assert "Try <REDACTED" in text


def test_long_messages_are_named_by_what_can_be_asked_for():
    findings = "\n".join(f"{n}. Berth {n} has no lamp on its outer side." for n in range(1, 17))
    messages = [
        {"role": "user", "content": "Review the berths."},
        {"role": "assistant", "content": f"## Review of the berths\n\n{findings}"},
        {"role": "user", "content": "Thanks."},
    ]
    text = handover(messages, originals="Read one by `expand ID`.")
    named = "Long messages, by their ids: m1 (“Review of the berths”, 16 points)"
    assert text.endswith(f"Read one by `expand ID`. {named}")


@pytest.mark.parametrize("since", [0, 80])
def test_how_to_read_what_is_left_out_is_always_said(since):
    """Also where no message is long, and where the room is full."""
    sentence = "Read a message by `tool expand FILE ID`, search by `tool recall FILE WORDS`."
    many = talk(*(f"Request {n}: paint berth {n} blue_{n} by Tuesday." for n in range(40)), "Go.")
    for tokens in (300, 1_000, 3_000):
        text = handover(many, since=since, max_tokens=tokens, originals=sentence)
        assert text.endswith(sentence), tokens
        assert "Go." in text
    assert handover([], originals=sentence) == ""


def test_nothing_is_handed_over_of_nothing():
    assert handover([]) == ""


@pytest.mark.parametrize("wrong", [{"max_chars": 0}, {"max_chars": True}, {"max_tokens": 0}])
def test_wrong_limits_are_refused(wrong):
    with pytest.raises(InvalidArgument):
        handover([], **wrong)


def test_malformed_messages_are_refused():
    with pytest.raises(InvalidMessage):
        handover([{"role": "user", "content": 3}])

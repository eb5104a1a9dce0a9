"""What was said later wins: statements that say an earlier one again with another value (C-8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact.text.restatements import MOST_SAME, MOST_STATED, Restatements, statements_in

RESTATED = [
    # code
    ("The test server's port is 8080.", "The port of the test server is 9090."),
    ("The staging API base URL is https://old.example/v2.",
     "The staging API base URL is https://new.example/v2."),
    ("The production database runs in eu-west-1.",
     "The production database is hosted in eu-north-2."),
    ("FACT: The project codename is HERON-12 and the deadline is 2027-03-04.",
     "FACT: The project codename is HERON-12 and the deadline is 2027-05-09."),
    ("Migration progress: phase 2 of 5", "Migration progress: phase 3 of 5"),
    ("The branch is based on commit 1a2b3c4.", "The branch is now based on commit 9f8e7d6."),
    ("The working branch is feature/gulls.", "The working branch is feature/herons."),
    ("Retry limit of the worker: 5", "Retry limit of the worker: 8"),
    ("All times must be reported in UTC here.", "All times must be reported in CET here."),
    ("The request timeout should be 30 seconds.", "The request timeout should be 45 seconds."),
    ("Our minimum Python version is 3.10.", "Our minimum Python version is 3.12."),
    ("The release branch is \"pier\".", "The release branch is \"quay\"."),
    ("Only Ada Moor may approve production deploys.",
     "Only Ben Pike may approve production deploys."),
    # service
    ("My user ID is gull_1200.", "Sure, my user ID is gull_1300."),
    ("The delivery address is Pier 4.", "Correction: the delivery address is Pier 7."),
    ("My phone number is 555-0100.", "My phone number is now 555-0199."),
    ("The refund amount is $120.", "Actually, the refund amount is $90."),
    ("The price is $120.", "Update: the price is $140."),
    # travel
    ("The ferry to Norby leaves at 9:40 am.", "The ferry to Norby now leaves at 11:20 am."),
    ("The harbour tour is on Friday.", "The harbour tour is on Saturday."),
    ("Our travel budget is $900 in total.", "Our travel budget is $1,200 in total."),
    ("The meeting is on Monday.", "The meeting was moved to Thursday."),
    ("Our return date is May 3.", "Our return date is May 5."),
    ("The tour guide is Ada Moor.", "The tour guide is Ben Pike."),
    # family
    ("The school play starts at 9 am.", "The school play starts at 2 pm."),
    ("The school play starts at 5 pm.", "The school play starts at 6 pm."),
    ("Mila: My piano recital is on Tuesday.", "Mila: My piano recital is on Friday."),
    ("The party is in May.", "The party is now in June."),
    ("The spare key is with Mrs Moor.", "The spare key is with Mr Pike."),
    ("Rent was raised to $900.", "The rent is now $950."),
    # rules
    ("Never push to the remote.", "You may push to the remote again."),
    ("Please don't push to the remote.", "You can push to the remote now."),
    ("Always run the slow tests.", "You no longer need to run the slow tests."),
    ("Always run the slow tests.", "There's no need to run the slow tests any more."),
    ("You must label every harbour map.", "You don't have to label every harbour map."),
    ("You may push to the remote again.", "Do not push to the remote."),
]  # fmt: skip
BOTH_STAND = [
    # two things, not one
    ("Order 5 is late.", "Order 6 is late."),
    ("Order 5 is at the Norby depot.", "Order 6 is at the Norby depot."),
    ("Alice likes tea.", "Bob likes tea."),
    ("Ada's room number is 12.", "Ben's room number is 14."),
    ("My phone number is 555-0100.", "Your phone number is 555-0199."),
    ("The dev server port is 8080.", "The test server port is 9090."),
    ("The old server address is 10.0.0.1.", "The new server address is 10.0.0.2."),
    ("The library is open from 9 am.", "The library is open until 5 pm."),
    ("Ada: My birthday is on May 5.", "Ben: My birthday is on June 6."),
    ("Ada: Hello all. My favourite trip is to Norby.", "Ben: Hi. My favourite trip is to Sandby."),
    ("The invoice total in May is $120.", "The invoice total in June is $150."),
    ("The first stop of the tour is Norby.", "The last stop of the tour is Sandby."),
    ("The budget cap is $500 per week.", "The budget cap is $900 per month."),
    ("The office in Norby is at Pier 4.", "The office in Sandby is at Pier 7."),
    # people have several of it
    ("My best friend at school is Ada.", "My best friend at school is Mila."),
    ("One of my friends is Ada.", "One of my friends is Ben."),
    ("My favourite harbour town is Norby.", "My favourite harbour town is Sandby."),
    ("My reservation number is GULL12.", "My reservation number is HERON3."),
    ("The order number is #1200.", "The order number is #1300."),
    ("The failing test file is test_gull.py.", "The failing test file is test_heron.py."),
    ("My piano lesson is on Tuesday.", "My piano lesson is on Friday."),
    ("The bus to Norby leaves at 9:40.", "The bus to Norby leaves at 10:40."),
    ("The hotel room costs $100.", "The hotel room costs $150."),
    ("The relevant code is in src/gull.", "The relevant code is in src/heron."),
    ("The code of the mail is in src/gull.py.", "The code of the mail is in src/heron.py."),
    ("The helper function is load_gull.", "The helper function is load_heron."),
    ("Now the price is $5.", "Now the price is $7."),
    ("Another stop on the tour is Norby.", "Another stop on the tour is Sandby."),
    ("The tour guide is Ada.", "The tour guide is also Ben."),
    ("A nice place for the picnic is Norby.", "A nice place for the picnic is Sandby."),
    # tasks
    ("Fix src/gull.py.", "Fix src/heron.py."),
    ("Please fix issue #12.", "Please fix issue #13."),
    ("Go on with step 4.", "Go on with step 5."),
    ("Send the weekly report to Ada.", "Send the weekly report to Ben."),
    ("Translate the welcome page into German.", "Translate the welcome page into French."),
    ("Book a table at Luigi's on Friday.", "Book a table at Mario's on Friday."),
    ("Rename all files in src/gull.", "Rename all files in src/heron."),
    ("I need a ferry ticket to Norby.", "I need a ferry ticket to Sandby."),
    ("Please make sure the mail server port is 25.",
     "Please make sure the mail server port is 26."),
    # prohibitions add up
    ("Never write to src/gull.", "Never write to src/heron."),
    ("Never disclose the vault code gull-12.", "Never disclose the vault code heron-13."),
    ("The vault code gull-12 must never be shared.",
     "The vault code heron-13 must never be shared."),
    ("The mail server port is not 25.", "The mail server port is not 26."),
    # questions, guesses, conditions
    ("Is the deadline of the project Monday?", "Is the deadline of the project Friday?"),
    ("The project deadline is Monday.", "Is the project deadline Friday?"),
    ("The project deadline is Monday.", "Maybe the project deadline is Friday."),
    ("The project deadline is Monday.", "I think the project deadline is Friday."),
    ("If the server port is 8080, stop the worker.",
     "If the server port is 9090, stop the worker."),
    ("The project deadline could be Monday.", "The project deadline could be Friday."),
    # what hangs on what was said before
    ("It is on pier 4 of the harbour.", "It is on pier 5 of the harbour."),
    ("Its harbour address is Pier 4.", "Its harbour address is Pier 5."),
    ("This harbour office is on Pier 4.", "This harbour office is on Pier 5."),
    ("There are gulls in the harbour at 9 am.", "There are gulls in the harbour at 5 pm."),
    ("That is the harbour master Ada.", "That is the harbour master Ben."),
    # what happened
    ("We went to Norby on Monday.", "We went to Norby on Friday."),
    ("The harbour tour was on Monday.", "The harbour tour was on Friday."),
    ("Ada is flying to Norby on Monday.", "Ada is flying to Norby on Friday."),
    ("I saw the harbour master at 9 am.", "I saw the harbour master at 5 pm."),
    # rows and code
    ("- harbour office phone: 555-0100", "- harbour office phone: 555-0199"),
    ("1. The harbour office is on Pier 4.", "2. The harbour office is on Pier 5."),
    ("**Harbour office phone:** 555-0100", "**Harbour office phone:** 555-0199"),
    ("Pier: Norby\nharbour dues paid: $40", "Pier: Sandby\nharbour dues paid: $50"),
    ("| harbour office | is 4 |", "| harbour office | is 5 |"),
    ("const harbour = 'Norby';", "const harbour = 'Sandby';"),
    ("const port of harbour is 'Norby';", "const port of harbour is 'Sandby';"),
    ("harbour port = 8080", "harbour port = 9090"),
    ("self.harbour_port = open(8080)", "self.harbour_port = open(9090)"),
    # weekdays may each have one
    ("Mila is at school on Monday.", "Mila is at school on Tuesday."),
    ("Grandma's dinner is at Luigi's on Sunday.", "Grandma's dinner is at Luigi's on Friday."),
    ("The harbour museum is open in May.", "The harbour museum is open in June."),
    ("Today's water level is 80 cm.", "Today's water level is 79 cm."),
    ("The correct answer is B.", "The correct answer is C."),
    ("My next chess move is Nf3.", "My next chess move is Nc6."),
    # rules that are not the same, or not taken back
    ("Never push to the remote on Fridays.", "You may push to the remote again."),
    ("Never push to the remote.", "You may push to the mirror again."),
    ("Never push to the remote.", "You may push to the remote."),
    ("Never push to the remote.", "Never push to the mirror."),
    ("Never push to the remote.", "Can you push to the remote again?"),
    ("Always run the slow tests.", "You need to run the slow tests."),
    # other words, two values, another kind
    ("The project deadline is Monday.", "The launch deadline is Friday."),
    ("The project deadline is Monday at 9 am in Norby.",
     "The project deadline is Friday at 5 pm in Sandby."),
    ("The project deadline is Monday.", "The project deadline is $500."),
    ("The deadline is Monday.", "The deadline is Friday."),
    ("The project deadline is Monday.", "The project deadline is Monday."),
    ("The project is fun and Ada Moor is kind.", "The project is fun and Ben Pike is kind."),
]  # fmt: skip


def superseded(*messages: str) -> list[tuple[int, str]]:
    """The statements that are superseded, each with its message."""
    stated = Restatements[int]()
    return [
        old
        for number, text in enumerate(messages)
        for statement in statements_in(text)
        for old in stated.state(statement, number)
    ]


@pytest.mark.parametrize(("old", "new"), RESTATED)
def test_a_statement_with_another_value_supersedes(old: str, new: str) -> None:
    assert [number for number, _ in superseded(old, new)] == [0]
    assert not superseded(new)


@pytest.mark.parametrize(("old", "new"), BOTH_STAND)
def test_what_is_no_restatement_leaves_both(old: str, new: str) -> None:
    assert not superseded(old, new)


def test_later_statements_win_and_the_newest_stands() -> None:
    texts = [
        "The test server port is 1.",
        "The test server port is 2.",
        "The test server port is 1.",
    ]
    assert [number for number, _ in superseded(*texts)] == [0, 1]


def test_all_that_say_the_old_value_are_superseded() -> None:
    texts = [
        "The test server port is 1.",
        "The port of the test server is 1.",
        "The test server port is 2.",
    ]
    assert [number for number, _ in superseded(*texts)] == [0, 1]


def test_what_says_the_newest_value_stands() -> None:
    texts = ["The harbour is at 1.", "The harbour is at 2.", "The harbour is now at 1."]
    assert [number for number, _ in superseded(*texts)] == [1]


def test_what_one_message_says_stands_together() -> None:
    assert not superseded("The test server port is 1.\nThe test server port is 2.")


def test_who_answers_repeats_what_was_stated_and_states_nothing() -> None:
    stated = Restatements[str]()

    def say(text: str, owner: str) -> list[tuple[str, str]]:
        return [old for x in statements_in(text) for old in stated.state(x, owner)]

    (echo,) = statements_in("Noted: your harbour office phone is 555-0100.")
    stated.repeat(echo, "before it was said")
    assert not say("My harbour office phone is 555-0100.", "first")
    stated.repeat(echo, "reply")
    for other in statements_in("Your harbour office phone is 555-0199."):
        stated.repeat(other, "another value")
    gone = say("My harbour office phone is 555-0142.", "second")
    assert [owner for owner, _ in gone] == ["first", "reply"]


def test_what_is_remembered_is_bounded() -> None:
    stated = Restatements[int]()
    for number in range(MOST_STATED + 10):
        for statement in statements_in(f"Ship {number} of the harbour fleet is in NORBY."):
            stated.state(statement, number)
        for statement in statements_in("The harbour fleet is in NORBY."):
            stated.state(statement, number)
    (last,) = statements_in("The harbour fleet is in SANDBY.")
    assert [owner for owner, _ in stated.state(last, -1)] == [
        *range(MOST_STATED + 10 - MOST_SAME, MOST_STATED + 10)
    ]
    assert len(stated) == MOST_STATED


SENTENCES = st.one_of(
    st.sampled_from([x for pair in (*RESTATED, *BOTH_STAND) for x in pair]),
    st.from_regex(
        r"(My|The|Our) (test|harbour) (port|office) (is|was) (now )?[A-C1-3]\.", fullmatch=True
    ),
    st.text(max_size=80),
)


@given(st.lists(SENTENCES, max_size=12))
def test_nothing_goes_without_a_later_twin(texts: list[str]) -> None:
    stated, seen = Restatements[int](), dict[int, set[str]]()
    for number, text in enumerate(texts):
        for statement in statements_in(text):
            seen.setdefault(number, set()).add(statement.text)
            for owner, sentence in stated.state(statement, number):
                assert owner < number
                assert sentence in seen[owner]
                (old,) = [x for x in statements_in(texts[owner]) if x.text == sentence][:1]
                shared = old.frames.keys() & statement.frames.keys()
                assert any(old.frames[x] != statement.frames[x] for x in shared)


@given(st.lists(SENTENCES, max_size=12))
def test_what_stands_supersedes_nothing_when_it_is_read_again(texts: list[str]) -> None:
    gone = superseded(*texts)
    left = [x for i, x in enumerate(texts) if not any(number == i for number, _ in gone)]
    assert not superseded(*left)


@given(st.text(max_size=2_000))
def test_any_text_is_read(text: str) -> None:
    for statement in statements_in(text):
        assert statement.text in text
        assert statement.frames

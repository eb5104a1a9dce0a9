"""What plain talk names, which of its sentences tell something, and which are chosen."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact.text.facts import Candidates, Said, entities, weighed

LEAST_SHARE = 0.85


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            "Then my sister Nora moved to Porto with Baxter & Finch.",
            {"Nora", "Porto", "Baxter & Finch"},
        ),
        ("The loan is $412,500 at 3.9 %.", {"$412,500", "3.9 %"}),
        ("I'm 41 years old, born on March 9th.", {"41 years", "March 9th"}),
        ("We meet at 7:45 pm on 2031-05-06.", {"7:45 pm", "2031-05-06"}),
        ("Ring 0171 555 0199 about order QX-8812.", {"0171 555 0199", "QX-8812"}),
        ('I finished "The Salt Path" yesterday.', {"The Salt Path"}),
        (
            "Wir wohnen mit Onkel Jürgen in Kassel und zahlen 930 € seit dem 4. Juni.",
            {"Onkel Jürgen", "Kassel", "930 €", "4. Juni"},
        ),
        ("我在杭州租房, 每月4200元, 3月8日下午三点看房。", {"4200元", "三点"}),
        ("他在读《活着》。", {"活着"}),
    ],
)
def test_names_amounts_and_times_are_found_by_their_shape(text, named):
    assert named <= set(entities(text))


@pytest.mark.parametrize(
    "text",
    [
        "Thanks! That helps. Great idea.",
        "What a day. I think so. Maybe later.",
        "Die Wohnung hat einen großen Balkon und eine neue Küche.",
    ],
)
def test_a_capital_that_every_such_word_has_is_no_name(text):
    assert entities(text) == ()


FACTS = [
    "My brother Tom is allergic to walnuts and cashews.",
    "We bought the flat in Leeds for £215,000.",
    "Meine Schwester Ida arbeitet seit 2019 bei Siemens.",
    "我妹妹在苏州一家医院工作了六年。",
]
TALK = [
    "That's really helpful, thanks!",
    "Do you have any other tips for me?",
    "Let me know if you need anything else!",
    "Kannst du mir noch mehr dazu sagen?",
    "你能再多说一点吗？",
]


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize("talk", TALK)
def test_what_one_says_of_oneself_outranks_questions_and_thanks(fact, talk):
    assert weighed(fact, "person").worth > weighed(talk, "person").worth
    assert weighed(fact, "person").worth > weighed(talk, "assistant").worth


def test_what_a_person_says_of_himself_is_worth_more_than_what_an_assistant_says_of_itself():
    line = "I would start with my savings."
    assert weighed(line, "person").worth > weighed(line, "assistant").worth


def advice(number):
    words = ["Consider", "setting", "aside", "quiet", "time", "before", "deciding", f"tip{number}"]
    return " ".join(words[number % 3 :])


def chat():
    """Twelve turns: a person tells one thing each, an assistant answers by a list."""
    told = [
        "My landlord is Mr Okafor.",
        "I pay 780 pounds a month.",
        "My daughter Lena starts school in September.",
        "I play the viola on Thursdays.",
        "My car is a green Škoda.",
        "We fly to Tromsø on 12 February.",
    ]
    items = []
    for turn, fact in enumerate(told):
        items += [Said(2 * turn, "person", x) for x in ("Thanks!", fact, "What should I do?")]
        items += [Said(2 * turn + 1, "assistant", advice(turn * 9 + n)) for n in range(9)]
    return told, items


def test_a_persons_facts_come_before_an_assistants_lists():
    told, items = chat()
    kept = [x.text for x in Candidates(items, lambda text: len(text.split()) + 2).within(6 * 9)]
    assert sum(fact in kept for fact in told) >= LEAST_SHARE * len(told)


def test_sentences_stay_in_order_and_within_the_budget():
    _, items = chat()
    for budget in (0, 7, 40, 200):
        kept = Candidates(items, len).within(budget)
        places = [items.index(item) for item in kept]
        assert places == sorted(places)
        assert sum(len(item.text) for item in kept) <= budget


def test_what_was_said_twice_is_kept_once():
    items = [Said(n, "person", "We live in Ghent since May.") for n in range(3)]
    items.append(Said(3, "person", "Our dog is called Biscuit."))
    kept = [item.text for item in Candidates(items, len).within(1_000)]
    assert sorted(kept) == ["Our dog is called Biscuit.", "We live in Ghent since May."]


def test_nothing_is_chosen_of_nothing():
    assert Candidates([], len).within(100) == []
    assert Candidates([Said(0, "person", "So it is.")], len).within(100) == []


@given(st.text())
def test_any_text_is_read(text):
    assert all(entity in text for entity in entities(text))
    assert 0.0 <= weighed(text, "person").worth <= 1.0


@given(
    st.lists(st.tuples(st.integers(0, 9), st.text(max_size=60)), max_size=12), st.integers(0, 99)
)
def test_any_talk_can_be_chosen_from(rows, budget):
    items = [Said(position, "person", text) for position, text in rows]
    kept = Candidates(items, len).within(budget)
    assert sum(len(item.text) for item in kept) <= budget
    assert kept == Candidates(items, len).within(budget)


@pytest.mark.timing
@pytest.mark.parametrize(
    "piece", ["A", "A ", '"', "'", "1", "1-", "12 ", "$", "A.", "《", "九", "Jan 1", " \n", "Mc-O'"]
)
def test_time_grows_with_the_text_not_faster(piece):
    short, long = (_seconds(piece * size) for size in (5_000, 20_000))
    assert long < 12 * short + 0.05


def _seconds(text):
    def once():
        start = time.process_time()
        entities(text)
        return time.process_time() - start

    return min(once() for _ in range(3))

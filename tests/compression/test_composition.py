"""The record and the lists: what code knows, written by code, once, within its room (C-8)."""

import re

import pytest

from compact.compression.composition import LISTS_SHARE, Composer
from compact.compression.extraction.notes import names_used
from compact.core.anchors import Ledger
from compact.core.checkpoints import record_message
from compact.core.history import NOBODYS
from compact.core.outline import LISTS, TITLES
from tests.compression.saying import (
    COUNTER,
    call,
    composed,
    edit,
    notes_of,
    result,
    run,
    said,
    section,
)

FAILED = "FAILED tests/test_mail.py::test_sends - KeyError: 'to'"
WORK = [
    said("user", "Fix the mail.\n\nNever send it twice.", id="m1"),
    *run(1, "pytest -q tests", FAILED),
    *edit(1, "/srv/app/src/mail.py", "pass", "def send_mail(): pass"),
    *edit(2, "/srv/app/src/post.py", "pass", "def post_mail(): pass"),
    said("assistant", "The mail is sent. Shall I also log it?"),
    said("user", "yes", id="m9"),
]


def rules(count):
    """Rules that have little in common, each said in a message of its own."""
    words = ("kettle", "lantern", "pulley", "rudder", "anchor", "compass", "barrel")
    return [
        said("user", f"Never {words[i % 7]}{i} the {words[i // 7 % 7]}{i} by night{i}.", id=f"m{i}")
        for i in range(count)
    ]


def test_sections_stand_in_the_order_of_the_outline() -> None:
    text = Composer(notes_of(WORK), COUNTER).written("- (m1) “Fix the mail.”", 900)
    titles = re.findall(r"^## (.+)$", text, re.M)
    assert titles == [t for t in TITLES if t in titles]
    assert {"Goal", "Rules", "State", "Decisions", "Story"} <= set(titles)


def test_a_section_that_has_nothing_is_left_out() -> None:
    text = composed([said("user", "Look around, please."), *run(1, "ls", "a b")])
    assert not re.search(r"^## \w+\n(?:\n|\Z|##)", text, re.M)
    assert "## Open" not in text
    assert "## Errors" not in text


def test_rules_stand_word_for_word_and_once() -> None:
    """Where a person said one twice, it is one."""
    again = [*WORK, said("user", "Never send it twice."), *run(2, "ls", "")]
    assert section(composed(again), "Rules") == "- Never send it twice."


def test_a_line_whose_words_are_in_view_is_not_told_again() -> None:
    seen = "user: Never send it twice. " + FAILED
    text = composed(WORK, seen=seen)
    assert "Never send it twice" in composed(WORK)
    assert "Never send it twice" not in section(text, "Rules")
    assert FAILED not in section(text, "Errors")


def test_the_goal_says_where_its_words_stand() -> None:
    messages = [said("user", "Fix the mail before the ferry leaves.", id="m1"), *run(1, "ls", "")]
    hidden = composed(messages)
    assert "- Asked last (m1): “Fix the mail before the ferry leaves.”" in hidden
    shown = composed(messages, seen="user: Fix the mail before the ferry leaves.")
    assert "- Asked last (m1, shown below): “Fix the mail" in shown


def test_rules_that_find_no_room_are_named_by_message() -> None:
    """What does not fit word for word is referenced by id (C-8)."""
    messages = [*rules(200), *run(1, "ls", "")]
    text = section(composed(messages, 900), "Rules")
    kept = [i for i in range(200) if f"by night{i}." in text]
    assert 10 < len(kept) < 100
    (named,) = re.findall(r"^- (\d+) more, by message: (.+)$", text, re.M)
    assert int(named[0]) == 200 - len(kept)
    ids = named[1].split(", ")
    assert ids
    assert not {f"m{i}" for i in kept} & set(ids)


def test_the_room_is_kept_and_lists_have_their_share() -> None:
    """The record comes first: names are no more than a share of what is written."""
    messages = [*rules(60)]
    for i in range(80):
        messages += run(i, f"look part_{i}_name", f"HRB-{i} v{i}.2.{i} other_{i}_name")
    composer = Composer(notes_of(messages), COUNTER)
    for room in (120, 300, 900, 3_000):
        _, left = composer.planned(room)
        words = "The mooring was looked at. " * (left // 6)
        text = composer.written(words, room)
        assert COUNTER.text(text) <= room
        listed = sum(COUNTER.text(section(text, title)) for title in LISTS)
        assert listed <= LISTS_SHARE * room
        assert sum(COUNTER.text(section(composer.written("Told.", room), x)) for x in LISTS) <= (
            LISTS_SHARE * room
        ), "nor do they take what a short story leaves"


def test_facts_are_no_fragments_and_no_less_for_being_old() -> None:
    """What was said first counts as much as what was said last; a few words that name nothing tell
    nothing.
    """
    messages = [said("user", "Amounts of the harbour are whole cents, not parts of them.")]
    for i in range(200):
        messages += [said("user", f"The rope of pontoon {i} hangs a little low today."), *edit(i)]
    messages += [said("user", "I asked him. Berth 7 today."), *run(1, "ls", "")]
    facts = section(composed(messages, 600), "Facts")
    assert "whole cents" in facts
    assert "I asked him" not in facts
    assert "Berth 7 today" in section(composed(messages[-3:]), "Facts")


def test_files_are_named_once_and_relative() -> None:
    """The root once, below it each file by its name there; what is told is not listed again."""
    story = "The mail was mended, the post as well. " * 20
    messages = [said("user", "Mend both."), *(m for m in WORK[3:7]), *run(2, "ls", "")]
    composer = Composer(notes_of(messages), COUNTER)
    files = section(composer.written(story, 900), "Files")
    assert files.splitlines()[0] == "- all under /srv/app/src/"
    assert "\n- post.py (written): post_mail\n- mail.py (written): send_mail" in files
    assert "mail.py" not in section(composer.written(story, 900), "Names")
    told = composer.written(f"{story}\n  Wrote /srv/app/src/mail.py", 900)
    assert "mail.py" not in section(told, "Files") + section(told, "Names")


def test_names_that_stand_above_are_not_listed() -> None:
    text = composed(
        [said("user", "Never touch `frozen_table` again."), *run(1, "look", "frozen_table x_y_z")]
    )
    assert "frozen_table" in section(text, "Rules")
    assert "frozen_table" not in section(text, "Names")
    assert "x_y_z" in section(text, "Names")


def test_names_of_what_is_shown_shortened_are_listed() -> None:
    """A clipped message lost names that may be needed next."""
    lost = (result("c9", "def recently_clipped_name(): pass\n" * 3),)
    assert "recently_clipped_name" not in composed(WORK)
    assert "recently_clipped_name" in composed(WORK, shortened=names_used(lost, Ledger()))


def test_commands_are_whole_or_not_there() -> None:
    long = "pytest -q " + " ".join(f"tests/part_{i}.py" for i in range(40))
    text = composed([said("user", "Go."), *run(1, long, "ok"), *run(2, "make check", "ok")], 2_000)
    assert "`make check`" in text
    assert "tests/part_1.py tests/part_2.py" not in section(text, "Commands")


def test_where_people_only_talk_there_are_no_lists() -> None:
    talk = [
        said("user", "My name is Ada Brandt, I live in Bergen and pay 325,000 for the house."),
        said("assistant", "Noted: Bergen, 325,000."),
    ]
    text = composed(talk)
    assert not any(f"## {title}" in text for title in LISTS)
    standing = Composer(notes_of(talk), COUNTER).standing(400)
    assert "325,000" in section(standing, "Facts"), "in a session the record holds it"


@pytest.mark.parametrize("room", [80, 300, 1_200])
def test_the_standing_record_keeps_to_its_room(room: int) -> None:
    for messages in (WORK, rules(120), [*rules(60), *WORK]):
        text = Composer(notes_of(messages), COUNTER).standing(room)
        assert COUNTER.text(text) <= room


def test_a_record_that_is_read_again_carries_on() -> None:
    """Compressed once more, its rules, decisions, facts and open work keep their place."""
    todos = [{"content": "Deploy to staging", "status": "pending"}]
    first = [
        said("user", "Never send mail twice.\n\nThe harbour office pays 4,200 kr to Bergen."),
        *run(1, "ls", ""),
        said("assistant", "Shall I also log each mail?"),
        said("user", "yes"),
        *run(2, "ls", ""),
    ]
    first += [call("t", "TodoWrite", {"todos": todos}), result("t", "ok")]
    text = composed(first)
    again = record_message(text, messages=len(first), until=first[-1].timestamp, own=NOBODYS)
    after = composed([again, said("user", "Now the post."), *run(3, "ls", "")])
    for title in ("Rules", "Decisions", "Open", "Facts"):
        assert section(text, title), title
        for line in section(text, title).splitlines():
            assert line in section(after, title), title


def test_a_question_and_what_only_leads_to_something_are_no_facts():
    messages = [
        said("user", "I would like to leave after 8:30 and before 21:00."),
        said("user", "We are two adults, may I bring the dog of Anna Petersen?"),
        said("user", "Sure, here are the details of the guests:"),
        *edit(1),
    ]
    facts = section(composed(messages), "Facts")
    assert "“I would like to leave after 8:30 and before 21:00.”" in facts
    assert "Petersen" not in facts
    assert "details" not in facts

"""The ledger of turns: what a person asked, what came of it, and which turns nobody needs (C-8)."""

import pytest

from compact.compression.extraction.turns import MOST_TURNS
from tests.compression.saying import call, edit, notes_of, result, run, said, section, story
from tests.compression.saying import composed as record

OPTIONS = "I built it. Which store should I use?\n\nA. SQLite\nB. PostgreSQL"


def turns_of(*messages):
    return notes_of(list(messages)).turns.rows


def test_a_turn_has_its_words_what_was_said_on_the_way_and_its_closing():
    (turn,) = turns_of(
        said("user", "Fix the mail."),
        said("assistant", "The template has no sender."),
        *edit(1),
        said("assistant", "The mail has its sender again."),
    )
    assert [s.text for s in turn.words] == ["Fix the mail."]
    assert [s.text for s in turn.narration] == ["The template has no sender."]
    assert [s.text for s in turn.closing] == ["The mail has its sender again."]
    assert turn.is_answered
    assert (turn.calls, turn.position, turn.last) == (1, 0, 4)


def test_a_turn_is_open_until_words_follow_its_last_call():
    (turn,) = turns_of(said("user", "Fix the mail."), said("assistant", "I look."), *edit(1))
    assert not turn.is_answered


@pytest.mark.parametrize(
    ("reply", "chosen"),
    [
        ("B", "PostgreSQL"),
        ("b) please, the second one", ""),
        ("yes", ""),
        ("the store: A", "SQLite"),
    ],
)
def test_a_bare_answer_stands_with_its_question(reply, chosen):
    """And with what was chosen, where options were given."""
    first, second = turns_of(
        said("user", "Build the importer."), said("assistant", OPTIONS), said("user", reply)
    )
    assert not first.question
    if chosen or reply == "yes":
        assert "Which store should I use?" in second.question
    assert chosen in second.question


def test_a_new_request_answers_nothing():
    _, second = turns_of(
        said("user", "Build the importer."),
        said("assistant", "Done. Shall I also delete the old export script?"),
        said("user", "Write the release notes for next Tuesday."),
    )
    assert not second.question


def test_the_answer_is_a_decision_and_the_question_is_told_with_it():
    """Nobody knows what `yes` means without it."""
    messages = [
        said("user", "Build the importer.", id="m1"),
        *run(1, "ls", "a"),
        said("assistant", "It is built. Shall I also delete the old export script?"),
        said("user", "yes", id="m3"),
        *run(2, "rm old_export.py", ""),
        said("assistant", "It is deleted."),
    ]
    asked = "Shall I also delete the old export script?"
    assert f"{asked} — “yes”" in section(record(messages), "Decisions")
    assert f"(m3) “yes” to: “{asked}”" in story(messages)


def test_a_turn_that_was_asked_again_in_other_words_is_overtaken():
    """The newer one counts; what nobody did is not told."""
    messages = [
        said("user", "Write the login page in Vue with the blue theme.", id="m1"),
        said("user", "Write the login page in React with the blue theme.", id="m2"),
        *edit(1, "src/login.jsx"),
        said("assistant", "The page is there."),
    ]
    assert [t.message_id for t in turns_of(*messages)] == ["m2"]
    assert "React" in story(messages)
    assert "Vue" not in story(messages)


@pytest.mark.parametrize("ritual", ["thanks!", "ok, go on", "yes", "/exit", "好的", "danke"])
def test_rituals_are_told_in_no_turn(ritual):
    messages = [
        said("user", "Fix the mail.", id="m1"),
        *edit(1),
        said("assistant", "The mail has its sender again."),
        said("user", ritual, id="m9"),
    ]
    text = story(messages)
    assert "(m1)" in text
    assert "(m9)" not in text
    assert "- Asked last (m1)" in record(messages)


def test_what_a_person_says_within_a_turn_belongs_to_it():
    """The reason of a refusal: said in the middle of the work."""
    refused = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected. To tell "
        "you how to proceed, the user said:\nkeep the build folder, the release needs it"
    )
    messages = [
        said("user", "Clean up.", id="m1"),
        call("c1", "Bash", {"command": "rm -rf build"}),
        result("c1", refused, is_error=True),
        said("assistant", "The folder stays."),
    ]
    (turn,) = turns_of(*messages)
    assert "keep the build folder, the release needs it" in [s.text for s in turn.words]
    text = record(messages)
    assert "- Refused Bash rm -rf build: “keep the build folder" in section(text, "Decisions")
    assert not section(text, "Errors"), "nothing was tried"
    assert "doesn't want to proceed" not in text + story(messages)


def test_boxes_are_known_by_their_last_state():
    """The newest Markdown checklist of an answer."""
    before = said("assistant", "- [x] dump the data\n- [ ] load the data\n- [ ] switch over")
    after = said("assistant", "- [x] dump the data\n- [x] load the data\n- [ ] switch over")
    messages = [said("user", "What is left?"), *run(1, "ls", ""), before]
    assert section(record(messages), "Open") == "- load the data\n- switch over"
    messages += [said("user", "Load them."), *run(2, "load", "ok"), after]
    assert section(record(messages), "Open") == "- switch over"


def test_however_many_turns_memory_is_bounded():
    rows = []
    for i in range(3 * MOST_TURNS):
        rows += [said("user", f"Move part {i} of the harbour. It has {i} boats."), *edit(i)]
        rows += [said("assistant", f"Part {i} was moved. All its boats float. Nothing sank.")]
    notes = notes_of(rows)
    kept = notes.turns.rows
    assert len(kept) <= 4 * MOST_TURNS
    old = kept[: -MOST_TURNS - 64]
    assert old
    assert all(len(t.words) <= 1 and len(t.closing) <= 1 and not t.touched for t in old)
    assert notes.turns.detailed_from == kept[-MOST_TURNS].position

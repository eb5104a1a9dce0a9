"""What was said later wins: a value that was restated is told once, in its newest form (C-8)."""

from compact import compress
from compact.engine.chronology import items
from compact.messages.messages import Message
from tests.engine.saying import composed, edit, notes_of, run, said, story
from tests.engine.test_chronology import earlier

CAP = "Budget cap of the harbour is $%d total."
RESTATED = [
    said("user", CAP % 201, id="m1"),
    said("assistant", f"Noted: {CAP % 201}"),
    *edit(1),
    *run(1, "make", "ok"),
    said("user", "Mend the mail of the office.", id="m3"),
    said("assistant", "It has its sender again."),
    said("user", CAP % 956, id="m5"),
    said("assistant", "I see."),
]


def test_a_restated_value_is_told_once_with_where_it_was_said_before() -> None:
    assert story(RESTATED).splitlines() == [
        "  Did: wrote mail.py · `make`: passed",
        "- User: Mend the mail of the office.",
        "  Assistant: It has its sender again.",
        f"- User: {CAP % 956} [before: m1]",
        "  Assistant: I see.",
    ]


def test_what_else_a_message_says_is_told_with_a_mark() -> None:
    first = said("user", f"{CAP % 201} Please mend the mail, it has no sender.", id="m1")
    told = story([first, *RESTATED[2:]])
    assert "- User: [… 8 words, m1] Please mend the mail, it has no sender." in told
    assert "$201" not in told


def test_talk_tells_the_newest_too() -> None:
    talk = [x for x in RESTATED if x.text and x.role != "tool"]
    first = said("user", f"{CAP % 201} The mail has no sender since Monday.", id="m1")
    told = composed([first, *talk[1:]])
    assert f"{CAP % 956} [before: m1]" in told
    assert "The mail has no sender since Monday." in told
    assert "$201" not in told


def test_a_rule_that_is_taken_back_is_no_rule() -> None:
    rule = said("user", "Never push to the remote.", id="m1")
    back = said("user", "You may push to the remote again.", id="m9")
    told = story([rule, *RESTATED[2:6], back])
    assert "Never" not in told
    assert "- User: You may push to the remote again. [before: m1]" in told


def test_the_newest_may_stand_beside_it() -> None:
    assert "$201" not in story(RESTATED, last=6)


def test_an_older_value_is_not_among_the_names() -> None:
    branch = "The working branch of the harbour is feature/%s."
    old, new = said("user", branch % "gulls_42"), said("user", branch % "herons_43")
    between = RESTATED[2:6]
    assert "gulls_42" not in composed([old, *between, new])

    def names(*messages: Message) -> str:
        return " ".join(notes_of(list(messages)).ledger.uses)

    assert "gulls_42" in names(old, *between)
    assert "gulls_42" not in names(old, *between, new)
    assert "herons_43" in names(old, *between, new)
    assert "gulls_42" in names(old, *run(2, "git branch feature/gulls_42", "ok"), *between, new)


def test_a_chain_names_the_last_few_messages() -> None:
    said_so = [said("user", CAP % n, id=f"m{n}") for n in range(6)]
    assert story(said_so) == f"- User: {CAP % 5} [before: m2, m3, m4]"


def test_an_earlier_checkpoint_is_superseded_and_its_marks_stay() -> None:
    told = story(RESTATED)
    again = story([earlier(told), said("user", "Go on with the templates of the mail.")])
    assert again.count("[before: m1]") == 1
    assert f"- User: {CAP % 956} [before: m1]\n" in again
    third = story([earlier(again), said("user", CAP % 999, id="m30")])
    assert "$956" not in third
    assert f"- User: {CAP % 999} [before: m1, " in third
    assert third.count("[before:") == 1


def test_a_mark_is_no_persons_word() -> None:
    (row,) = notes_of([earlier(f"- User: {CAP % 5} [before: m1] Go on.")]).items.rows
    assert row.text == f"{CAP % 5} Go on."
    assert items.marked(row.text, row.before_ids) == f"{CAP % 5} [before: m1] Go on."


def test_compress_tells_the_newest() -> None:
    def turn(i: int) -> list[Message]:
        asked = f"Please see to the ropes of pier {i}, they have been loose since the storm."
        return [said("user", asked), said("assistant", f"Pier {i} is mended. " * 8)]

    messages = [
        *turn(60),
        said("user", CAP % 201),
        said("assistant", "OK."),
        *(x for i in range(30) for x in turn(i)),
        said("user", CAP % 956),
        said("assistant", "OK."),
        *(x for i in range(30, 60) for x in turn(i)),
    ]
    told = "\n".join(x.text for x in compress(messages, max_tokens=1_500))
    assert f"{CAP % 956} [before: " in told
    assert "$201" not in told

"""The work log wins over a story: what it calls passed and failed is asked about once, and marked
(design idea 7).
"""

import pytest

from compact import Message, plan
from compact.engine.gate import work_log
from compact.engine.stories.abstractive import ModelSummarizer
from compact.messages.checkpoints import SummaryRequest
from tests.engine.saying import call, edit, fail, notes_of, result, run, said
from tests.engine.test_abstractive import COUNTER, Answering

BROKEN = "FAILED tests/test_mail.py::test_sends - KeyError: 'to'\n1 failed, 3 passed"
WORK = [
    said("user", "Mend the mail in src/app/mail.py, please."),
    *run(1, "pytest -q tests", "4 passed"),
    *edit(1, "src/app/mail.py"),
    *fail(2, "pytest -q tests", BROKEN),
    *run(3, "ruff check src", "All checks passed!"),
]
WRONG = (
    "The user asked to mend the mail in src/app/mail.py. The assistant ran pytest, edited the file "
    "and ran everything again. In the end all tests pass."
)
RIGHT = WRONG.replace("all tests pass", "tests/test_mail.py::test_sends failed with KeyError: 'to'")
FAILED = "`pytest -q tests` came to: failed: tests/test_mail.py::test_sends - KeyError: 'to'"


def request(messages: list[Message]) -> SummaryRequest:
    return SummaryRequest(messages=messages, max_tokens=200, notes=notes_of(messages))


@pytest.mark.parametrize(
    ("story", "is_wrong"),
    [
        (WRONG, True),
        (RIGHT, False),
        ("The whole suite was green.", True),
        ("The tests passed at first. After the edit test_sends failed.", False),
        ("The assistant wanted the tests to pass before it went on.", False),
        ("The linter passed.", False),
        ("The build passed.", False),
        ("The mail was edited.", False),
    ],
)
def test_a_check_that_failed_last_is_not_called_passed(story: str, is_wrong: bool):
    found = work_log.contradicted(story, request(WORK))
    assert bool(found) == is_wrong
    assert all(each.startswith(FAILED) for each in found)


def test_a_check_that_passed_again_is_called_passed():
    mended = [*WORK, *edit(2, "src/app/mail.py"), *run(4, "pytest -q tests", "4 passed")]
    assert work_log.contradicted(WRONG, request(mended)) == []


REFUSED = [
    said("user", "Send the mail and book seat 12A for ole_3, please."),
    *edit(1, "src/app/mail.py"),
    *fail(2, "pytest -q tests", BROKEN),
    *run(3, "git commit -am 'Send'", "On branch main\nnothing to commit, working tree clean"),
    *run(4, "git push", "error: failed to push some refs to 'origin'"),
    *run(5, "gh pr create --fill", "pull request create failed: GraphQL: No commits"),
    call("c1", "book_reservation", {"user": "ole_3", "seat": "12A"}),
    result("c1", '{"error": "seat 12A is taken"}'),
]


@pytest.mark.parametrize(
    ("story", "log"),
    [
        ("The work was committed, after a KeyError was seen.", "nothing to commit"),
        ("They ran git; the commit succeeded.", "nothing to commit"),
        ("The mail was not committed: there was nothing to commit.", ""),
        ("The assistant tried to commit and to push the mail.", ""),
        (
            "It was pushed to origin without trouble, after one test failed.",
            "error: failed to push",
        ),
        ("The mail was pushed, but the remote rejected it.", ""),
        ("The user asked that the mail be pushed.", ""),
        ("A pull request was opened.", "GraphQL: No commits"),
        ("A pull request could not be opened; gh failed.", ""),
        ("Seat 12A was booked for ole_3.", "seat 12A is taken"),
        ("The reservation was booked.", "seat 12A is taken"),
        ("The user had booked a hotel for Tuesday.", ""),
        ("Seat 12A was not booked: it is taken.", ""),
        ("One test failed with KeyError 'to', and was fixed. It is green now.", "test_sends"),
        ("One test failed with KeyError 'to'. The mail was edited and is tidy now.", ""),
    ],
)
def test_what_failed_last_is_not_called_done(story: str, log: str):
    """Neither a commit, a push or a pull request, nor what a tool answered with an error."""
    found = work_log.contradicted(story, request(REFUSED))
    assert len(found) == bool(log)
    assert all(log in each for each in found)


@pytest.mark.parametrize(
    ("again", "story"),
    [
        (
            run(6, "git commit -am 'Send'", "[main 1a2b3c4] Send\n 1 file changed"),
            "It was committed.",
        ),
        (run(6, "git push", "   1a2b3c4..5d6e7f8  main -> main"), "It was pushed."),
        (
            [
                call("c2", "book_reservation", {"user": "ole_3", "seat": "14C"}),
                result("c2", '{"seat": "14C", "price": 90}'),
            ],
            "A seat was booked for ole_3 in a reservation.",
        ),
    ],
)
def test_what_succeeded_afterwards_is_called_done(again: list[Message], story: str):
    assert work_log.contradicted(story, request(REFUSED))
    assert not work_log.contradicted(story, request([*REFUSED, *again]))


def test_a_file_that_was_written_after_all_is_called_written():
    name, arguments = "edit_file", {"path": "src/mail.py", "old_string": "a", "new_string": "b"}
    tried = [call("e1", name, arguments), result("e1", "Error: no such text in src/mail.py")]
    again = [call("e2", name, arguments), result("e2", "done")]
    story = "The assistant edited src/mail.py."
    assert work_log.contradicted(story, request(tried))
    assert not work_log.contradicted(story, request([*tried, *again]))


def test_only_what_the_story_tells_of_counts():
    """A run behind the span is another story's."""
    ends_before = request(WORK).model_copy(update={"reach": (0, 3)})
    assert work_log.contradicted("All tests pass.", ends_before) == []


def made(*stories: str):
    """The checkpoint where a model tells these stories, and how often it was asked."""
    told = iter(stories)
    model = Answering(lambda context, ask: next(told))
    filler = [
        message
        for i in range(40)
        for message in (
            said("user", f"What is in the drawer {i} of the harbour office?"),
            said("assistant", f"In the drawer {i} there are {i + 2} maps of the pier {i}."),
        )
    ]
    done = plan(
        [*WORK, *filler],
        max_tokens=900,
        summarizer=ModelSummarizer(model, COUNTER, window=8_000),
        tokenizer="o200k",
    )
    assert done.checkpoint is not None
    return done.checkpoint.summary, len(model.contexts)


MORE = (
    " Then the user asked what is in the drawers 0 to 39 of the harbour office, one after the "
    "other, and the assistant told of each how many maps of which pier there are: 2 maps of pier 0 "
    "in drawer 0, 12 maps of pier 10 in drawer 10, 22 maps of pier 20 in drawer 20, and 32 maps of "
    "pier 30 in drawer 30."
)


def test_the_model_is_asked_once_and_told_what_the_log_says():
    text, asked = made(WRONG + MORE, RIGHT + MORE)
    assert asked == 2
    assert "KeyError: 'to'" in text
    assert "The work log says otherwise" not in text


def test_what_it_says_again_stands_with_a_mark():
    text, asked = made(WRONG + MORE, WRONG + MORE)
    assert asked == 2
    assert f"all tests pass.{MORE}\n\n[The work log says otherwise: {FAILED}" in text


def test_a_true_story_is_asked_for_once():
    assert made(RIGHT + MORE)[1] == 1

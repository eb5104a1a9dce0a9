"""The work log wins over a story: what it calls passed and failed is asked about once, and marked
(design idea 7).
"""

import pytest

from compact import Message, plan
from compact.engine.gate import ground
from compact.engine.stories.abstractive import ModelSummarizer
from compact.messages.checkpoints import SummaryRequest
from tests.engine.saying import edit, fail, notes_of, run, said
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
    found = ground.contradicted(story, request(WORK))
    assert bool(found) == is_wrong
    assert all(each.startswith(FAILED) for each in found)


def test_a_check_that_passed_again_is_called_passed():
    mended = [*WORK, *edit(2, "src/app/mail.py"), *run(4, "pytest -q tests", "4 passed")]
    assert ground.contradicted(WRONG, request(mended)) == []


def test_only_what_the_story_tells_of_counts():
    """A run behind the span is another story's."""
    ends_before = request(WORK).model_copy(update={"reach": (0, 3)})
    assert ground.contradicted("All tests pass.", ends_before) == []


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

"""Instructions and sentences: what a person wants to hold, and what prose is about (C-8)."""

import pytest

from compact.text.instructions import find_instructions, score_of
from compact.text.sentences import is_log_line, lines_of, sentences_of, topic_of

RANKED = [
    ("Never push to main without a review.", 0.6),
    ("Always run the tests before you commit.", 0.6),
    ("Bitte niemals ohne Rückfrage löschen.", 0.6),
    ("必须先备份数据库再执行迁移。", 0.6),
    ("I'd rather have one file per command.", 0.4),
    ("We only support Linux here.", 0.4),
    ("Rename the class to RetryBudget.", 0.4),
]


@pytest.mark.parametrize(("line", "least"), RANKED)
def test_rules_score_high(line, least):
    """C-8: whether or not they say never or must, in three languages."""
    assert score_of(line) >= least
    assert score_of(line) > score_of("The weather was fine in the north.")


@pytest.mark.parametrize(
    "line",
    [
        "ok",
        "yes please",
        "Thanks!",
        "continue",
        "好的",
        "weiter",
        "x = 1;",
        "import os",
        "------",
        "12345678",
    ],
)
def test_chatter_code_and_data_score_nothing(line):
    """C-8: they take no room from rules."""
    assert score_of(line) == 0


def test_never_mind_is_no_rule():
    said = find_instructions("Never mind, the fern stays. Never water the cactus.", "m", 0)
    assert [each.text for each in said if each.is_rule] == ["Never water the cactus."]


def test_pasted_text_holds_no_rules_in_its_middle():
    """C-8: of a long paste only the first and last lines are looked at."""
    lines = [
        "Please fix this:",
        *(f"some line of pasted text number {i} you must see" for i in range(200)),
        "Never delete it.",
    ]
    found = [x.text for x in find_instructions("\n".join(lines), "m1", 0)]
    assert "Never delete it." in found
    assert len(found) < 40


def test_fences_and_logs_are_no_prose():
    """C-8: nor are their lines instructions."""
    text = "Always use tabs.\n```\nnever do this = 1\n```\n2026-01-01 12:00 ERROR must not happen\n"
    assert [x.text for x in find_instructions(text, "m1", 3)] == ["Always use tabs."]


TOPICS = [
    ("We decided to use SQLite instead of files.", "decisions"),
    ("Wir haben uns entschieden, das so zu lassen.", "decisions"),
    ("我们决定改用缓存。", "decisions"),
    ("Still need to update the docs.", "open"),
    ("下一步更新文档。", "open"),
    ("The build failed with an exception.", "errors"),
    ("All tests pass now, fixed.", "done"),
    ("The table has nine columns.", "facts"),
]


@pytest.mark.parametrize(("sentence", "topic"), TOPICS)
def test_topics(sentence, topic):
    """A-3: cues in English, German and Chinese; a fact where there is none."""
    assert topic_of(sentence) == topic


def test_long_lines_are_cut_into_sentences():
    """A-3: at sentence ends, not at versions or paths, in Chinese too."""
    assert list(sentences_of("See v1.2.3 in a.py. Then go on. Done!")) == [
        "See v1.2.3 in a.py.",
        "Then go on.",
        "Done!",
    ]
    assert list(sentences_of("先备份。再迁移。")) == ["先备份。", "再迁移。"]
    long = "This sentence is here to be found again. " * 20
    assert len(list(lines_of(long))) == 20


@pytest.mark.parametrize(
    "line", ["2026-01-01 x", "INFO x", "at foo(bar.js:1)", "| a | b |", "+++ b/x", "$ ls"]
)
def test_log_lines(line):
    """A-3: logs, traces, diffs and tables are no prose."""
    assert is_log_line(line)
    assert not is_log_line("A plain sentence.")

"""Anchors: a table of facts and of what is none; paths stay whole (C-8, A-3)."""

import pytest

from compact.text import anchors
from compact.text.anchors import Ledger, find_all
from tests.pace import is_linear

FOUND = [
    ("see src/engine/plan.py for it", {("src/engine/plan.py", "path")}),
    ("see src/engine/plan.py:41 for it", {("src/engine/plan.py", "path")}),
    ("(./docs/a-b.md).", {("./docs/a-b.md", "path")}),
    ("In `/srv/app/config.yaml` steht es", {("/srv/app/config.yaml", "path")}),
    ("bitte README.md lesen", {("README.md", "file")}),
    ("请修改 src/缓存.py 和 cache_policy.py 文件", {("cache_policy.py", "file")}),
    ("die Größe von MAX_RETRIES", {("MAX_RETRIES", "identifier")}),
    ("call RetryBudget.reset()", {("RetryBudget", "identifier")}),
    ("get_context_for_model(x)", {("get_context_for_model", "identifier")}),
    ("visit https://example.org/a?b=c.", {("https://example.org/a?b=c", "url")}),
    ("commit 9f3ac71b", {("9f3ac71b", "hash")}),
    ("id 123e4567-e89b-12d3-a456-426614174000", {("123e4567-e89b-12d3-a456-426614174000", "hash")}),
    ("since v2.14.3 it fails", {("v2.14.3", "version")}),
    ("fixes #481 and PROJ-17", {("#481", "reference"), ("PROJ-17", "reference")}),
    ("run it with --dry-run", {("--dry-run", "flag")}),
]


@pytest.mark.parametrize(("text", "wanted"), FOUND, ids=[f[0] for f in FOUND])
def test_facts_are_found_whole(text, wanted):
    """C-8: word for word, in English, German and Chinese text, without what stands around them."""
    found = {(anchor.text, anchor.kind) for anchor in find_all(text)}
    assert wanted <= found
    assert not any(
        path in other.text and path != other.text for path, _ in wanted for other in find_all(text)
    )


@pytest.mark.parametrize(
    "text",
    ["", "Plain words, and nothing else.", "3/4 of it", "10:30", "...", "a.b", "漢字"],
)
def test_plain_words_are_no_facts(text):
    """A-3: an anchor takes room that prose could have."""
    assert not find_all(text)


def test_occurrences_are_counted():
    """A-3: and a text that is very long is looked at from both ends."""
    assert next(iter(find_all("a_b a_b, a_b").values())) == 3
    text = "first_name " + "x " * 60_000 + " last_name"
    assert anchors.texts_of(anchors.find(text)) == {"first_name", "last_name"}


def test_error_lines():
    """A-3: lines that name an error, the last ones first; plain lines are none."""
    text = "ok\nValueError: too small\nfine\nFAILED tests/test_a.py::test_b\nall good here\n"
    assert anchors.error_lines(text) == ["FAILED tests/test_a.py::test_b", "ValueError: too small"]
    assert anchors.error_lines(text, most=1) == ["FAILED tests/test_a.py::test_b"]
    assert anchors.error_lines("all good here\nnothing to see") == []


def test_the_ledger_ranks_by_origin_and_recency():
    """C-8: a person's words weigh more than a tool's output, recent use more than old."""
    ledger = Ledger()
    ledger.note("old_name", "person", 0)
    ledger.note("tool_name", "result", 100)
    ledger.note("new_name", "person", 100)
    assert next(text for text, _, _ in ledger.ranked(100)) == "new_name"
    weights = {text: weight for text, _, weight in ledger.ranked(100)}
    assert weights["new_name"] > weights["tool_name"]
    assert weights["new_name"] > weights["old_name"]


def test_the_ledger_forgets_the_least_needed():
    """NFR-1: memory is bounded, and the order of equals is always the same."""
    ledger = Ledger()
    for i in range(100):
        ledger.note(f"name_{i:03}", "person", i)
    ledger.trim(100, 10)
    assert list(ledger.uses) == [f"name_{i:03}" for i in range(99, 89, -1)]


def test_arguments():
    """A-3: keys and strings of a call's arguments, also where they are no JSON."""
    assert anchors.keys_of('{"path": "a", "limit": 3}') == ("path", "limit")
    assert dict(anchors.strings_of('{"path": "a", "more": [{"x": "b"}]}')) == {
        "path": "a",
        "x": "b",
    }
    assert list(anchors.strings_of('{"path": ')) == [("", '{"path": ')]


@pytest.mark.parametrize(
    "line",
    ["src/kiln/journal.py:12:def find(", "src/kiln/journal.py:12:", "src/kiln/journal.py:12-18"],
)
def test_a_place_in_a_file_names_the_file(line):
    """What grep puts out begins with the file, and goes on with the text of the line."""
    assert [a.text for a in anchors.find_all(line) if a.kind == "path"] == ["src/kiln/journal.py"]


@pytest.mark.timing
@pytest.mark.parametrize("line", [":1" * 150, "::" * 150, ": : " * 75, "a :" * 100])
def test_lines_of_colons_are_judged_in_linear_time(line):
    assert anchors.error_lines(line) == []
    assert is_linear(anchors.error_lines, line * 100)
    assert is_linear(anchors.error_lines, "\n".join([line] * 100))


def test_errors_behind_a_place_are_found():
    lines = ["src/bed.py:12:3: error: no rows", "bed.py : fatal: gone", "garden::bed: panic here"]
    assert anchors.error_lines("\n".join(lines)) == lines[::-1]


@pytest.mark.parametrize(
    "line",
    [
        *("Error: no such table", "fatal: not a git repository", "panic: runtime error"),
        *("FEHLER: kein Platz", "src/a.rs: warning: unused import", "FAILED tests/test_a.py::b"),
        *("Traceback (most recent call last):", "builtins.KeyError: 'a'", "IOException at line 4"),
        *("it ended with exit code 2", "bash: foo: command not found"),
        *("cat: a.txt: No such file or directory", "ls: Permission denied", "x.go: undefined: foo"),
        *("npm: cannot find module", "name 'a' is not defined", "Segmentation fault (core dumped)"),
        *("构建错误：缺少文件", "测试失败：超时了没有", "出现异常：空指针在此"),
    ],
)
def test_each_kind_of_error_line_is_found(line: str) -> None:
    """In any case, and with a tag within a word."""
    assert anchors.ERROR_LINE.match(line)
    text = f"all is well\n{line}\nand on it goes"
    assert anchors.error_lines(text) == [line]
    assert anchors.error_lines(text.upper()) == [line.upper()]
    tagged = f"{line[:2]}<b>{line[2:]}</b>"
    assert anchors.error_lines(tagged) == [line]

"""Every requirement that docs/requirements.md calls built is cited by a test, also by one at the
public door, and none is invented.

A test cites a requirement by its number, in a comment or a docstring of a file `test_*.py`. Numbers
in other strings do not count, so sample texts may hold what they like.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "requirements.md"

NUMBER = re.compile(r"(?<![\w-])(?:(?:C|S|A|K|FR|NFR|US|N)-[0-9]{1,2}|MIG)(?![\w-])")
STATUSES = ("built", "partly", "later")


class Requirement(NamedTuple):
    """A row of the page."""

    number: str
    status: str
    where: str


def rows(page: str) -> list[Requirement]:
    """The rows of the page's tables: number, title, status, where."""
    cells = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("|")
    ]
    return [Requirement(row[0], row[2], row[3]) for row in cells if NUMBER.fullmatch(row[0])]


def cited(folder: Path) -> dict[str, set[str]]:
    """Which numbers are cited, and by which files."""
    found: dict[str, set[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        if path == Path(__file__).resolve():
            continue  # its samples cite everything
        for prose in prose_of(path.read_text(encoding="utf-8")):
            for number in NUMBER.findall(prose):
                found.setdefault(number, set()).add(path.relative_to(folder).as_posix())
    return found


def prose_of(source: str) -> Iterator[str]:
    """The comments and docstrings of a module."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def untried(page: str, doors: Path) -> list[str]:
    """The numbers that are called built, and that no test at the public door tries."""
    tried = cited(doors)
    return [row.number for row in rows(page) if row.status == "built" and row.number not in tried]


def violations(page: str, folder: Path) -> list[str]:
    """What the page and the tests say against each other."""
    known = rows(page)
    numbers = [row.number for row in known]
    tests = cited(folder)
    return [
        *(f"{number} has two rows" for number in sorted(set(numbers)) if numbers.count(number) > 1),
        *(f"{row.number}: unknown status {row.status!r}" for row in known if bad_status(row)),
        *(f"{row.number} is {row.status}, but says not where" for row in known if homeless(row)),
        *(
            f"{row.number} is {row.status}, but no test cites it"
            for row in known
            if row.status != "later" and row.number not in tests
        ),
        *(
            f"{number} is cited by {', '.join(sorted(files))}, but the page does not know it"
            for number, files in sorted(tests.items())
            if number not in numbers
        ),
    ]


def bad_status(row: Requirement) -> bool:
    return row.status not in STATUSES


def homeless(row: Requirement) -> bool:
    return row.status in {"built", "partly"} and row.where in {"", "—"}


@pytest.mark.slow
def test_what_is_built_is_tested_and_what_is_cited_exists():
    found = violations(PAGE.read_text(encoding="utf-8"), ROOT / "tests")
    assert not found, "\n".join(found)


def test_what_is_built_is_tried_at_the_public_door():
    """Each by its own sentence, with nothing but what users have."""
    assert untried(PAGE.read_text(encoding="utf-8"), ROOT / "tests" / "doors") == []


def test_no_test_at_the_public_door_looks_behind_it():
    """No private name; of the modules, those that the pages name, and what starts the command."""
    found = [
        f"{path.name}: {name}"
        for path in sorted((ROOT / "tests" / "doors").glob("*.py"))
        for name in behind(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


OPEN = {
    *("compact", "compact.testing", "compact.errors", "compact.protocols"),
    "compact.cli.main",
    *(
        "compact.types",
        "compact.config",
        "compact.policy",
        "compact.summarizer",
        "compact.manager",
        "compact.hooks",
    ),
    *("compact.estimators.tiktoken", "compact.estimators.noop"),
    *("compact.adapters.fs", "compact.adapters.s3"),
    *("compact.exporters.console", "compact.exporters.ariadne", "compact.exporters.otlp"),
    *("compact.integrations.openai_agents", "compact.integrations.legacy_context"),
}
"""The modules that a test at the public door may import."""


def behind(source: str) -> Iterator[str]:
    """What a test uses that users do not have: modules, and names that begin with one underscore,
    but for those of its own.
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module=str(name)) if (
                name.startswith("compact") and name not in OPEN
            ):
                yield name
            case ast.Import(names=names):
                yield from (n.name for n in names if n.name.startswith("compact."))
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                if owner != "self" and re.match(r"_[a-z]", name):
                    yield f"{owner}.{name}"


def test_no_requirement_is_missing_from_the_page():
    counts = {"C": 10, "S": 5, "A": 7, "K": 16, "FR": 16, "NFR": 5, "US": 8, "N": 4}
    wanted = {f"{kind}-{i}" for kind, last in counts.items() for i in range(1, last + 1)} | {"MIG"}
    assert {row.number for row in rows(PAGE.read_text(encoding="utf-8"))} == wanted


SAMPLE = """
| number | title | status | where |
|---|---|---|---|
| K-3 | counting | built | `providers` |
| K-4 | partition | partly | `core` |
| K-5 | summarizer | later | — |
"""


def test_the_guard_reads_comments_and_docstrings_only(tmp_path):
    text = '"""Cites K-3."""\n\n\ndef test_it():  # and K-4, not UTF-8 or K-3-b\n    x = "FR-99"\n'
    (tmp_path / "test_it.py").write_text(text)
    assert cited(tmp_path) == {"K-3": {"test_it.py"}, "K-4": {"test_it.py"}}
    assert violations(SAMPLE, tmp_path) == []


def test_the_guard_sees_what_no_door_tries_and_who_looks_behind_one(tmp_path):
    assert untried(SAMPLE, tmp_path) == ["K-3"]
    (tmp_path / "test_it.py").write_text("# K-3\n")
    assert untried(SAMPLE, tmp_path) == []
    source = "from compact.messages import tokens\nimport compact.wiring\nctx._state\nself._own\n"
    assert list(behind(source)) == ["compact.messages", "compact.wiring", "ctx._state"]


def test_the_guard_sees_what_is_untested_invented_or_unclear(tmp_path):
    (tmp_path / "test_it.py").write_text("# K-4 and K-99\n")
    page = SAMPLE + "| K-5 | again | done | — |\n| K-6 | x | built | |\n"
    assert violations(page, tmp_path) == [
        "K-5 has two rows",
        "K-5: unknown status 'done'",
        "K-6 is built, but says not where",
        "K-3 is built, but no test cites it",
        "K-5 is done, but no test cites it",
        "K-6 is built, but no test cites it",
        "K-99 is cited by test_it.py, but the page does not know it",
    ]

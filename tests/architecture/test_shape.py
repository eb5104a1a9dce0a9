"""The shape of the house: files, functions, names. Complexity and line length are ruff's (K-13).

To except something, add its `Finding.key` to EXCEPTIONS with the reason. The list only shrinks: an
exception that is no longer needed fails `test_no_exception_is_stale`.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.structure import OURS as PACKAGE
from bench.structure import Function, body_lines, functions

EXCEPTIONS: dict[str, str] = {
    # "file-length messages/example.py": "why it must be so, and what would end it",
    # "function-length messages/example.py::Class.method": "…",
    "drawer manager.py": "one of the kit's own import paths, which re-export (decision 074)",
    "room-init testing/__init__.py": "the suites are public as `compact.testing.check_…`",
}

FILE_LINES = 900
FUNCTION_LINES = 50  # without the docstring
PARAMETERS = 8  # without self and cls
DRAWERS = {"util", "utils", "helper", "helpers", "common", "commons", "misc", "base", "manager"}


class Finding(NamedTuple):
    """One place that breaks one rule."""

    rule: str
    place: str
    detail: str

    @property
    def key(self) -> str:
        return f"{self.rule} {self.place}"


def violations(package: Path) -> list[Finding]:
    """Everything below the package's folder that breaks a rule of shape, in order of files."""
    return [
        finding
        for path in sorted(package.rglob("*.py"))
        for finding in (*of_names(path, package), *of_text(path, package))
    ]


def of_names(path: Path, package: Path) -> Iterator[Finding]:
    place = path.relative_to(package).as_posix()
    name = path.parent.name if path.name == "__init__.py" else path.stem
    if name in DRAWERS and path.parent != package.parent:
        yield Finding("drawer", place, f"{name!r} says nothing: name what lives here")
    if path.name != "__init__.py" and path.with_suffix("").is_dir():
        yield Finding("homonym", place, f"the package {path.stem}/ stands beside it")


def of_text(path: Path, package: Path) -> Iterator[Finding]:
    place = path.relative_to(package).as_posix()
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    lines = len(text.splitlines())
    if lines > FILE_LINES:
        yield Finding("file-length", place, f"{lines} lines, {FILE_LINES} allowed")
    if path.name == "__init__.py" and path.parent.parent == package and not only_docstring(tree):
        yield Finding("room-init", place, "a room's __init__.py is its docstring and nothing else")
    for name, function in functions(tree):
        if (length := body_lines(function)) > FUNCTION_LINES:
            detail = f"{length} lines, {FUNCTION_LINES} allowed"
            yield Finding("function-length", f"{place}::{name}", detail)
        if (count := parameters(function)) > PARAMETERS:
            yield Finding("parameters", f"{place}::{name}", f"{count}, {PARAMETERS} allowed")


def only_docstring(tree: ast.Module) -> bool:
    return len(tree.body) == 1 and ast.get_docstring(tree) is not None


def parameters(function: Function) -> int:
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in {"self", "cls"}])


@pytest.mark.slow
def test_the_house_keeps_its_shape():
    found = [finding for finding in violations(PACKAGE) if finding.key not in EXCEPTIONS]
    assert not found, "\n".join(f"{each.key}: {each.detail}" for each in found)


@pytest.mark.slow
def test_no_exception_is_stale():
    stale = set(EXCEPTIONS) - {finding.key for finding in violations(PACKAGE)}
    assert not stale, f"no longer needed, remove: {sorted(stale)}"
    assert all(reason.strip() for reason in EXCEPTIONS.values()), "each exception has a reason"


# --- each guard is seen to fail -------------------------------------------------------------------

DOCSTRING = '    """' + "Says much.\n" * 60 + '    """\n'
BODY = "    x = 1\n"

BAD = {
    "file-length messages/long.py": "x = 1\n" * 901,
    "function-length messages/f.py::C.f": "class C:\n def f(self):\n" + "  x = 1\n" * 50,
    "function-length messages/g.py::f.g": "def f():\n def g():\n" + "  x = 1\n" * 50 + " x = 2\n",
    "parameters messages/p.py::f": "async def f(a, /, b, c, *, d, e, f, g, h, i): ...\n",
    "drawer messages/helpers.py": "",
    "drawer utils/__init__.py": '"""Odds and ends."""\n',
    "drawer session/base.py": "",
    "room-init messages/__init__.py": '"""A room."""\nimport os\n',
    "room-init memory/__init__.py": "",
    "homonym messages/formats.py": "",
}
GOOD = {
    "__init__.py": '"""The front page."""\nfrom compact.core import x\n',
    "messages/__init__.py": '"""A room."""\n',
    "messages/formats/__init__.py": '"""An inner package may do more."""\nx = 1\n',
    "messages/long.py": "x = 1\n" * 900,
    "messages/f.py": "def f():\n" + DOCSTRING + BODY * 49,
    "messages/p.py": "class C:\n def f(self, a, b, c, d, e, f, g, h, *rest, **more): ...\n",
    "session/memory.py": "",
    "memory/__init__.py": '"""Not beside session/memory.py."""\n',
}


def write(package: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize("key", BAD)
def test_the_guard_sees(key, tmp_path):
    place = key.split()[1].split("::")[0]
    write(tmp_path / "compact", {"messages/formats/__init__.py": "", place: BAD[key]})
    assert key in {finding.key for finding in violations(tmp_path / "compact")}


def test_the_guard_lets_good_shape_pass(tmp_path):
    write(tmp_path / "compact", GOOD)
    assert violations(tmp_path / "compact") == []

"""Names stand for one thing each, and what is tuned by hand only gets less (K-13).

The numbers of ROOMS may be lowered whenever a room has fewer; to raise one takes a decision
(docs/decisions). What is counted, and how: `bench/structure.py`.
"""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from bench.structure import OURS as PACKAGE
from bench.structure import classes, modules, numbers, patterns

ROOMS: dict[str, tuple[int, int, int]] = {
    ".": (1, 2, 0),
    "adapters": (0, 0, 0),
    "apps": (0, 0, 0),
    "cli": (7, 40, 0),
    "engine": (59, 215, 0),
    "estimators": (0, 0, 0),
    "exchange": (0, 8, 0),
    "exporters": (0, 0, 0),
    "integrations": (2, 4, 0),
    "look": (6, 22, 0),
    "memory": (1, 59, 0),
    "messages": (12, 45, 0),
    "models": (23, 37, 0),
    "secrets": (105, 30, 0),
    "serve": (0, 12, 0),
    "session": (1, 62, 0),
    "store": (3, 59, 0),
    "telemetry": (0, 13, 0),
    "testing": (0, 7, 0),
    "text": (135, 83, 0),
    "transcripts": (23, 8, 0),
    "tui": (0, 10, 0),
}
"""Room → compiled patterns, numbers by name, and those of them of which nothing is said."""

_NAMED = re.compile(
    r"`((?:cli|engine|exchange|integrations|look|memory|messages|models|secrets|serve|session|store|telemetry|text|transcripts|tui)[./][\w./]+)`"
)
"""A module, or what is in one, as a docstring names it."""


def room_of(place: str) -> str:
    return place.split("/")[0] if "/" in place else "."


def counted(package: Path) -> dict[str, tuple[int, int, int]]:
    """Patterns, numbers, and numbers of which nothing is said, by room."""
    found: dict[str, Counter[str]] = {}
    for module in modules(package):
        room = found.setdefault(room_of(module.place), Counter())
        named = list(numbers(module.tree))
        room.update(
            patterns=patterns(module.tree),
            numbers=len(named),
            unsaid=sum(not each.said for each in named),
        )
    return {k: (v["patterns"], v["numbers"], v["unsaid"]) for k, v in sorted(found.items())}


def dead_names(package: Path) -> list[str]:
    """Modules that docstrings name and that are not there."""
    found = []
    for module in modules(package):
        for node in ast.walk(module.tree):
            if not isinstance(
                node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            ):
                continue
            for name in _NAMED.findall(ast.get_docstring(node) or ""):
                parts = [part for part in re.split(r"[./]", name) if part not in ("", "py")]
                if not any(there(package, parts[:n]) for n in (len(parts), len(parts) - 1)):
                    found.append(f"{module.place}: `{name}`")
    return found


def there(package: Path, parts: list[str]) -> bool:
    if len(parts) < 2:
        return False
    path = package.joinpath(*parts)
    return path.is_dir() or path.with_suffix(".py").is_file()


@pytest.mark.slow
def test_no_class_name_stands_twice_in_a_room():
    places: dict[tuple[str, str], list[str]] = {}
    for module in modules(PACKAGE):
        for name in classes(module.tree):
            places.setdefault((room_of(module.place), name), []).append(module.place)
    assert {name: rows for name, rows in places.items() if len(rows) > 1} == {}


@pytest.mark.slow
def test_patterns_and_numbers_only_get_fewer():
    now = counted(PACKAGE)
    assert now.keys() == ROOMS.keys()
    more = {room: row for room, row in now.items() if any(map(int.__gt__, row, ROOMS[room]))}
    assert not more, f"more than ROOMS says: {more}"
    assert now == ROOMS, "a room has fewer: lower its numbers here"


@pytest.mark.slow
def test_docstrings_name_modules_that_are_there():
    assert dead_names(PACKAGE) == []


# --- each guard is seen to fail -------------------------------------------------------------------


def test_the_guards_see_what_they_are_for(tmp_path):
    (tmp_path / "messages").mkdir()
    one, other = tmp_path / "messages/one.py", tmp_path / "messages/other.py"
    one.write_text('"""See `messages.gone` and `messages.other.X`."""\nimport re\nclass X: ...\n')
    other.write_text(
        "import re\n_A = re.compile('a'), regex('b')\nMOST = 3\nLEAST, FEW = 1, 2.5\n"
        '"""Tokens."""\nNAME = "x"\nDAY = 24 * 60\nclass X: ...\n'
    )
    assert [name for each in modules(tmp_path) for name in classes(each.tree)] == ["X", "X"]
    assert counted(tmp_path) == {"messages": (2, 4, 2)}
    assert dead_names(tmp_path) == ["messages/one.py: `messages.gone`"]

"""Names stand for one thing each, and what is tuned by hand only gets less (K-13).

The numbers of ROOMS may be lowered whenever a room has fewer; to raise one takes a decision
(docs/decisions).
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "compact"

ROOMS: dict[str, tuple[int, int, int]] = {
    ".": (0, 6, 0),
    "apps": (8, 28, 0),
    "compression": (52, 206, 0),
    "core": (207, 120, 0),
    "managers": (4, 47, 0),
    "providers": (16, 15, 0),
    "storage": (16, 15, 0),
    "telemetry": (0, 2, 0),
    "testing": (0, 0, 0),
}
"""Room → compiled patterns, numbers by name, and those of them of which nothing is said."""

_NAMED = re.compile(
    r"`((?:apps|compression|core|managers|providers|storage|telemetry)[./][\w./]+)`"
)
"""A module, or what is in one, as a docstring names it."""


def sources(package: Path) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(package.rglob("*.py")):
        yield path.relative_to(package).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def room_of(place: str) -> str:
    return place.split("/")[0] if "/" in place else "."


def classes(package: Path) -> Iterator[tuple[str, str]]:
    """Each class with the file that it stands in."""
    for place, tree in sources(package):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield node.name, place


def patterns(tree: ast.Module) -> int:
    """Patterns that are compiled."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return sum(isinstance(each, ast.Attribute) and each.attr == "compile" for each in calls)


def numbers(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Numbers that a module gives a name, and whether anything is said of them: in a docstring
    below the line or the lines that follow it, or in a comment's place.
    """
    body = tree.body
    for i, node in enumerate(body):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        found = (each for target in targets for each in ast.walk(target))
        names = [each.id for each in found if isinstance(each, ast.Name) and each.id.isupper()]
        if names and is_number(node.value):
            after = body[i + 1] if i + 1 < len(body) else None
            said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            yield from ((name, said) for name in names)


def is_number(value: ast.expr) -> bool:
    try:
        found = ast.literal_eval(value)
    except ValueError:
        return isinstance(value, ast.BinOp | ast.UnaryOp) and not any(
            isinstance(each, ast.Name | ast.Call | ast.JoinedStr) for each in ast.walk(value)
        )
    rows = found if isinstance(found, tuple) else (found,)
    return bool(rows) and all(type(each) in (int, float) for each in rows)


def counted(package: Path) -> dict[str, tuple[int, int, int]]:
    """Patterns, numbers, and numbers of which nothing is said, by room."""
    found: dict[str, Counter[str]] = {}
    for place, tree in sources(package):
        room = found.setdefault(room_of(place), Counter())
        named = list(numbers(tree))
        room.update(
            patterns=patterns(tree),
            numbers=len(named),
            unsaid=sum(not said for _, said in named),
        )
    return {k: (v["patterns"], v["numbers"], v["unsaid"]) for k, v in sorted(found.items())}


def dead_names(package: Path) -> list[str]:
    """Modules that docstrings name and that are not there."""
    found = []
    for place, tree in sources(package):
        for node in ast.walk(tree):
            if not isinstance(
                node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            ):
                continue
            for name in _NAMED.findall(ast.get_docstring(node) or ""):
                parts = [part for part in re.split(r"[./]", name) if part not in ("", "py")]
                if not any(there(package, parts[:n]) for n in (len(parts), len(parts) - 1)):
                    found.append(f"{place}: `{name}`")
    return found


def there(package: Path, parts: list[str]) -> bool:
    if len(parts) < 2:
        return False
    path = package.joinpath(*parts)
    return path.is_dir() or path.with_suffix(".py").is_file()


@pytest.mark.slow
def test_no_class_name_stands_twice():
    places: dict[str, list[str]] = {}
    for name, place in classes(PACKAGE):
        places.setdefault(name, []).append(place)
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
    (tmp_path / "core").mkdir()
    one, other = tmp_path / "core/one.py", tmp_path / "core/other.py"
    one.write_text('"""See `core.gone` and `core.other.X`."""\nimport re\nclass X: ...\n')
    other.write_text(
        "import re\n_A = re.compile('a')\nMOST = 3\nLEAST, FEW = 1, 2.5\n"
        '"""Tokens."""\nNAME = "x"\nDAY = 24 * 60\nclass X: ...\n'
    )
    assert [name for name, _ in classes(tmp_path)] == ["X", "X"]
    assert counted(tmp_path) == {"core": (1, 4, 2)}
    assert dead_names(tmp_path) == ["core/one.py: `core.gone`"]

"""The measures of structure, each seen to differ on a small package made up for it."""

import pytest

from bench import structure
from bench.structure import cycles, measured, modules

PLAIN = '''"""A module."""

import re


def first(x):
    """Says what it does."""
    return x  # as it is
'''


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Measures a package of these files; complexity is ruff's, and slow."""
    monkeypatch.setattr(structure, "too_complex", lambda paths: 0)

    def measure(files=()):
        write(tmp_path / "made", {"one.py": PLAIN, **dict(files)})
        return measured(tmp_path / "made", tmp_path)

    return measure


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_small_package_is_measured(made):
    assert made() == {
        "lines": 8,
        "lines of code": 3,
        "modules": 1,
        "functions": 1,
        "lines of a function, p50": 2,
        "lines of a function, p99": 2,
        "lines of a function, most": 2,
        "functions of complexity above 10": 0,
        "import cycles": 0,
        "modules in import cycles": 0,
        "imports inside functions": 0,
        "class names that stand twice": 0,
        "compiled patterns": 0,
        "numbers by name": 0,
        "of them without a reason": 0,
        "broad excepts": 0,
        "broad excepts per 1,000 lines": 0,
    }


DIFFERENCES = {
    "a text of many lines": (
        'TEXT = """\n\n"""\n"""What it\n\nis."""\n',
        {"lines": 6, "lines of code": 3},
    ),
    "a long function": (
        "def f():\n" + "    x = 1\n" * 9,
        {"lines": 10, "functions": 1, "lines of a function, p99": 8},
    ),
    "a pattern": ("A = re.compile('a')\nB = A.search('a')\n", {"compiled patterns": 1}),
    "numbers": (
        'A = 1\nB = 1\n"""Seconds."""\nC = 1  # days\nD = "x"\n',
        {"numbers by name": 3, "of them without a reason": 1},
    ),
    "a class twice": (
        "class X: ...\nclass Y:\n  class X: ...\n",
        {"class names that stand twice": 1},
    ),
    "an import inside": ("def f():\n  import json\n", {"imports inside functions": 1}),
    "any error is caught": (
        "try: ...\nexcept (OSError, BaseException): ...\n",
        {"broad excepts": 1},
    ),
    "raised again": ("try: ...\nexcept Exception:\n  x = 1\n  raise\n", {"broad excepts": 0}),
}


@pytest.mark.parametrize("what", DIFFERENCES)
def test_a_measure_differs(what, made):
    text, wanted = DIFFERENCES[what]
    before, after = made(), made({"two.py": text})
    assert {key: after[key] - before[key] for key in wanted} == wanted
    assert after["broad excepts per 1,000 lines"] == 1e3 * after["broad excepts"] / after["lines"]


TWO = [{"made.one", "made.two"}]
CYCLES = [
    ({"one.py": "from .two import X", "two.py": "def f():\n from made import one"}, TWO),
    ({"one.py": "import made.two", "two.py": "if TYPE_CHECKING:\n import made.one"}, []),
    (
        {"__init__.py": "from .inner.one import X", "inner/one.py": "from .. import Y"},
        [{"made", "made.inner.one"}],
    ),
]


@pytest.mark.parametrize(("files", "found"), CYCLES)
def test_cycles_are_found(files, found, tmp_path):
    write(tmp_path / "made", files)
    assert cycles(modules(tmp_path / "made", tmp_path)) == found

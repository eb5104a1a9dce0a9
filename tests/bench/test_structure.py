"""The measures of structure, each seen to differ on a small package made up for it."""

import json
import sys

import pytest

from bench import structure
from bench.measuring import Setting
from bench.structure import Calls, crossed, cycles, measured, modules

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
    "blank lines and comments": ("\n# no code\n\n", {"lines": 3, "modules": 1}),
    "a text of many lines": (
        'TEXT = """\n\n"""\n"""What it\n\nis."""\n',
        {"lines": 6, "lines of code": 3},
    ),
    "a long function": (
        "def f():\n" + "    x = 1\n" * 9,
        {"lines": 10, "lines of code": 10, "functions": 1, "lines of a function, p99": 8},
    ),
    "a pattern": ("A = re.compile('a')\nB = A.search('a')\n", {"compiled patterns": 1}),
    "a number, nothing said": ("A = 1\n", {"numbers by name": 1, "of them without a reason": 1}),
    "a number with a docstring": (
        'A = 1\n"""Seconds."""\n',
        {"numbers by name": 1, "of them without a reason": 0},
    ),
    "a number with a comment": (
        "A = 1  # seconds\n# days\nB = -2\n",
        {"numbers by name": 2, "of them without a reason": 0},
    ),
    "names of no number": ("a = 1\nA = 'x'\nB = True\nC = f(1)\n", {"numbers by name": 0}),
    "a class twice": (
        "class X: ...\nclass Y:\n  class X: ...\n",
        {"class names that stand twice": 1},
    ),
    "an import inside": (
        "def f():\n  def g():\n    import json\n",
        {"imports inside functions": 1},
    ),
    "any error is caught": ("try: ...\nexcept Exception: ...\n", {"broad excepts": 1}),
    "anything is caught": ("try: ...\nexcept: ...\n", {"broad excepts": 1}),
    "any of several": ("try: ...\nexcept (OSError, BaseException): ...\n", {"broad excepts": 1}),
    "any is suppressed": ("with suppress(Exception): ...\n", {"broad excepts": 1}),
    "raised at times": (
        "try: ...\nexcept Exception:\n  if x: raise\n  y = 1\n",
        {"broad excepts": 1},
    ),
    "raised again": ("try: ...\nexcept BaseException:\n  x = 1\n  raise\n", {"broad excepts": 0}),
    "one error is caught": ("try: ...\nexcept OSError: ...\n", {"broad excepts": 0}),
}


@pytest.mark.parametrize("what", DIFFERENCES)
def test_a_measure_differs(what, made):
    text, wanted = DIFFERENCES[what]
    before, after = made(), made({"two.py": text})
    assert {key: after[key] - before[key] for key in wanted} == wanted
    assert after["broad excepts per 1,000 lines"] == 1e3 * after["broad excepts"] / after["lines"]


def test_tests_inside_a_package_are_left_out(made):
    assert made({"tests/test_it.py": "A = 1\n", "inner/_tests/tools.py": "A = 1\n"}) == made()


TWO = [{"made.one", "made.two"}]
CYCLES = [
    ({"one.py": "from . import two", "two.py": "import made.one"}, TWO),
    ({"one.py": "from .two import X", "two.py": "def f():\n from made import one"}, TWO),
    ({"one.py": "import made.two", "two.py": "if not TYPE_CHECKING:\n import made.one"}, TWO),
    ({"one.py": "import made.two", "two.py": "if TYPE_CHECKING:\n import made.one"}, []),
    (
        {"one.py": "import made.two", "two.py": "if t.TYPE_CHECKING: ...\nelse:\n import made.one"},
        TWO,
    ),
    ({"one.py": "import made.two", "two.py": "import json"}, []),
    ({"__init__.py": "from .one import X", "one.py": "from made.two import Y", "two.py": ""}, []),
    (
        {"__init__.py": "from .inner.one import X", "inner/one.py": "from .. import Y"},
        [{"made", "made.inner.one"}],
    ),
]


@pytest.mark.parametrize(("files", "found"), CYCLES)
def test_cycles_are_found(files, found, tmp_path):
    write(tmp_path / "made", files)
    assert cycles(modules(tmp_path / "made", tmp_path)) == found


def test_complex_functions_are_counted_even_if_excused(tmp_path):
    branches = "".join(f"    if x == {n}: pass\n" for n in range(10))
    path = tmp_path / "a.py"
    path.write_text(f"def f(x):  # noqa: C901\n{branches}\n\ndef g(x):\n{branches[:-20]}")
    assert structure.too_complex([path]) == 1


def test_calls_are_followed_by_module(tmp_path, monkeypatch):
    f = "from b_made import g\ndef f(n): g(n)\n"
    g = "def g(n):\n list(map(h, '1'))\n return g(n - 1) if n else 0\n"
    h = "def h(x): return [x for _ in x]\n"
    write(tmp_path, {"a_made.py": f, "b_made.py": g + h})
    monkeypatch.syspath_prepend(tmp_path)
    import a_made  # type: ignore[import-not-found]

    calls = Calls(tmp_path)
    sys.setprofile(calls)
    a_made.f(2)
    json.dumps([1])
    sys.setprofile(None)
    names = {(one.rpartition("/")[2], other.rpartition("/")[2]) for one, other in calls.edges}
    assert names == {("a_made.py", "b_made.py")}
    assert len(calls.modules) == 2
    assert calls.depth == 5  # f, g(2), g(1), g(0), h


@pytest.mark.slow
def test_a_compressing_turn_is_traced():
    ran, pairs, depth = crossed()
    assert 20 < ran < pairs
    assert 5 < depth < 100


def test_the_table_has_a_column_for_each_that_could_be_fetched(monkeypatch, tmp_path):
    write(tmp_path / "made", {"one.py": PLAIN})
    monkeypatch.setattr(structure, "OURS", tmp_path / "made")
    monkeypatch.setattr(structure, "crossed", lambda: (1, 2, 3))
    monkeypatch.setattr(structure, "PEERS", {"other": ("other==1", "inner/other")})

    def fetch(requirements, folder):
        assert requirements == ["other==1"]
        write(folder / "inner" / "other", {"one.py": PLAIN * 2})

    monkeypatch.setattr(structure, "_fetch", fetch)
    (table,) = structure.measure(Setting())
    assert table.head == ("", "**compact**", "other")
    assert table.rows[0] == ("lines", "8", "16")
    assert table.rows[-1][1:] == ("3", "")
    assert all(check.ok for check in table.checks)
    (alone,) = structure.measure(Setting(peers=False))
    assert alone.head == ("", "**compact**")

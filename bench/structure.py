"""The structure of this code beside that of six other packages, read from their sources.

The others are wheels of pinned versions, fetched by pip into a folder that is deleted at the end.
They are unpacked, never installed and never run. Tests inside a package are left out.

What each row counts:

- Lines of code are those with a token on them; comments and texts that stand alone are none.
- A function's lines go from its `def` to its end, without the docstring.
- Import cycles are groups of modules that reach each other, also by imports inside functions, but
  not by those for the type checker alone.
- A broad except catches `Exception`, `BaseException` or anything, and does not end in `raise`;
  `suppress(Exception)` is one as well.
- A number by name is a constant of a module, in capitals. Its reason is a docstring below it, or a
  comment beside or above it.
"""

from __future__ import annotations

import ast
import io
import json
import math
import subprocess
import sys
import tempfile
import tokenize
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import NamedTuple, TypeGuard

from bench.histories import history
from bench.measuring import REPO_ROOT, Check, Setting, Table, number
from bench.session import session

OURS = REPO_ROOT / "src" / "compact"
PEERS = {
    "httpx": ("httpx==0.28.1", "httpx"),
    "structlog": ("structlog==26.1.0", "structlog"),
    "starlette": ("starlette==1.10.0", "starlette"),
    "trio": ("trio==0.35.0", "trio"),
    "OpenHands context": ("openhands-sdk==1.58.2", "openhands/sdk/context"),
    "posting": ("posting==2.11.1", "posting"),
}
"""Other packages: what pip fetches, and the folder of the wheel that is measured."""
MOST_LINES, MOST_P99, MOST_BROAD = 31_000, 40, 0.3
COMPLEX = 10
"""The cyclomatic complexity above which a function is counted."""
MESSAGES, WINDOW = 200, 8_192
"""The session whose compressing turn is traced."""

LINES, P99, CYCLES, TOO_COMPLEX, BROAD = (
    "lines",
    "lines of a function, p99",
    "import cycles",
    f"functions of complexity above {COMPLEX}",
    "broad excepts per 1,000 lines",
)
"""The rows that have a limit."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
_TEXTLESS = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip
_INLINED = {"<listcomp>", "<setcomp>", "<dictcomp>"}
"""Frames that later Pythons do not make."""


def measure(setting: Setting) -> list[Table]:
    """One column for each package, ours first."""
    ours = measured(OURS, OURS.parent)
    columns = {"**compact**": ours | dict(zip(TURN, crossed(), strict=True))}
    table = Table("Structure of the code", ("", *columns))
    if setting.peers:
        with tempfile.TemporaryDirectory() as named:
            folder = Path(named)
            try:
                _fetch([asked for asked, _ in PEERS.values()], folder)
                columns |= {
                    name: measured(folder / path, folder) for name, (_, path) in PEERS.items()
                }
                table.notes.append(", ".join(asked for asked, _ in PEERS.values()) + ".")
            except subprocess.CalledProcessError as error:
                last = error.stderr.strip().splitlines()[-1:] or ["no reason given"]
                table.notes.append(f"Others left out: {last[0]}.")
    table.head = ("", *columns)
    for row in columns["**compact**"]:
        table.rows.append((row, *(_cell(figures.get(row)) for figures in columns.values())))
    limits = {LINES: MOST_LINES, P99: MOST_P99, TOO_COMPLEX: 0, BROAD: MOST_BROAD, CYCLES: 0}
    table.checks = [Check(row, ours[row], most) for row, most in limits.items()]
    return [table]


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else number(value)


def _fetch(requirements: Iterable[str], folder: Path) -> None:
    """Unpack the wheels of these requirements into the folder, as an installer would lay them out.

    Raises:
        subprocess.CalledProcessError: pip cannot fetch one.
    """
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
        "--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--dest", str(folder),
    ]  # fmt: skip
    subprocess.run([*command, *requirements], check=True, capture_output=True, text=True)
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(folder)


# --- reading sources ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Module:
    """A module that is read, not imported."""

    name: str
    path: Path
    place: str
    """Its path below the package."""
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def tokens(self) -> Sequence[tokenize.TokenInfo]:
        return tuple(tokenize.generate_tokens(io.StringIO(self.text).readline))


def modules(package: Path, root: Path | None = None) -> list[Module]:
    """The modules below a package's folder, tests left out; their names start at the root."""
    found = []
    for path in sorted(package.rglob("*.py")):
        place, whole = path.relative_to(package), path.relative_to(root or package)
        parts = whole.with_suffix("").parts
        if not {"test", "tests", "_tests"}.isdisjoint(place.parts):
            continue
        name = ".".join(parts[:-1] if path.stem == "__init__" else parts)
        found.append(Module(name, path, place.as_posix(), path.read_text(encoding="utf-8")))
    return found


def measured(package: Path, root: Path) -> dict[str, float]:
    """Each measure of a package by its row's title."""
    read = modules(package, root)
    lines = sum(len(each.text.splitlines()) for each in read)
    lengths = sorted(body_lines(f) for each in read for _, f in functions(each.tree))
    names = Counter(name for each in read for name in classes(each.tree))
    circles = cycles(read)
    constants = [(each, constant) for each in read for constant in numbers(each.tree)]
    broad = sum(len(broad_excepts(each.tree)) for each in read)
    return {
        LINES: lines,
        "lines of code": sum(map(code_lines, read)),
        "modules": len(read),
        "functions": len(lengths),
        "lines of a function, p50": _share(lengths, 0.5),
        P99: _share(lengths, 0.99),
        "lines of a function, most": _share(lengths, 1),
        TOO_COMPLEX: too_complex(each.path for each in read),
        CYCLES: len(circles),
        "modules in import cycles": sum(map(len, circles)),
        "imports inside functions": sum(inner_imports(each.tree) for each in read),
        "class names that stand twice": sum(count > 1 for count in names.values()),
        "compiled patterns": sum(patterns(each.tree) for each in read),
        "numbers by name": len(constants),
        "of them without a reason": sum(
            not (constant.said or is_commented(each, constant.line)) for each, constant in constants
        ),
        "broad excepts": broad,
        BROAD: 1e3 * broad / lines,
    }


def _share(lengths: Sequence[int], share: float) -> int:
    """The length that so large a share of them does not exceed, of lengths in order."""
    return lengths[math.ceil(share * len(lengths)) - 1]


def code_lines(module: Module) -> int:
    """Lines with a token that is neither a comment nor a text standing alone."""
    code = {
        line
        for token in module.tokens
        if token.type not in _TEXTLESS
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(module.tree):
        if is_text(node):
            code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


def is_text(node: ast.AST) -> TypeGuard[ast.Expr]:
    """Whether it is a text standing alone: a docstring, of a constant too."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Every function with its qualified name, nested ones included."""
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, Function | ast.ClassDef):
            inner = f"{prefix}{child.name}."
        if isinstance(child, Function):
            yield prefix + child.name, child
        yield from functions(child, inner)


def body_lines(function: Function) -> int:
    """Lines from `def` to the end, without the docstring."""
    length = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function) is None:
        return length
    docstring = function.body[0]
    return length - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def too_complex(paths: Iterable[Path]) -> int:
    """Functions whose cyclomatic complexity is above `COMPLEX`, by ruff, excused or not."""
    command = [
        sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--exit-zero",
        "--select=C901", "--ignore-noqa", "--output-format=json",
        f"--config=lint.mccabe.max-complexity={COMPLEX}", *map(str, paths),
    ]  # fmt: skip
    done = subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8")
    return sum(each["code"] == "C901" for each in json.loads(done.stdout))


def classes(tree: ast.Module) -> Iterator[str]:
    """The name of each class."""
    return (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def patterns(tree: ast.Module) -> int:
    """Patterns that are compiled, at once (`re.compile`) or at the first use (`regex`)."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return sum(
        (isinstance(each, ast.Attribute) and each.attr == "compile")
        or (isinstance(each, ast.Name) and each.id == "regex")
        for each in calls
    )


class NamedNumber(NamedTuple):
    """A number that a module gives a name."""

    name: str
    line: int
    said: bool
    """Whether a docstring stands below it."""


def numbers(tree: ast.Module) -> Iterator[NamedNumber]:
    """Numbers, and rows of them, that a module gives names in capitals."""
    body = tree.body
    for i, node in enumerate(body):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        found = (each for target in targets for each in ast.walk(target))
        names = [each.id for each in found if isinstance(each, ast.Name) and each.id.isupper()]
        if names and is_number(node.value):
            said = i + 1 < len(body) and is_text(body[i + 1])
            yield from (NamedNumber(name, node.lineno, said) for name in names)


def is_number(value: ast.expr) -> bool:
    """Whether it is made of numbers alone."""
    try:
        found = ast.literal_eval(value)
    except ValueError:
        return isinstance(value, ast.BinOp | ast.UnaryOp) and not any(
            isinstance(each, ast.Name | ast.Call | ast.JoinedStr) for each in ast.walk(value)
        )
    rows = found if isinstance(found, tuple) else (found,)
    return bool(rows) and all(type(each) in (int, float) for each in rows)


def is_commented(module: Module, line: int) -> bool:
    """Whether a comment stands on the line or on the one above."""
    comments = (token for token in module.tokens if token.type == tokenize.COMMENT)
    return any(token.start[0] in (line - 1, line) for token in comments)


def broad_excepts(tree: ast.Module) -> list[int]:
    """The lines where any error is caught, and not raised again or as another one."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.ExceptHandler(type=caught, body=[*_, last]):
                is_one = not isinstance(last, ast.Raise) and (caught is None or is_broad(caught))
            case ast.Call(
                func=ast.Name(id="suppress") | ast.Attribute(attr="suppress"), args=given
            ):
                is_one = any(map(is_broad, given))
            case _:
                continue
        if is_one:
            found.append(node.lineno)
    return sorted(found)


def is_broad(caught: ast.expr) -> bool:
    """Whether any error is caught by this."""
    each = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(ast.unparse(one) in {"Exception", "BaseException"} for one in each)


def inner_imports(tree: ast.Module) -> int:
    """Import statements inside functions."""
    inside = (node for _, function in functions(tree) for node in ast.walk(function))
    return len({node for node in inside if isinstance(node, ast.Import | ast.ImportFrom)})


# --- imports among modules ------------------------------------------------------------------------


def cycles(read: Sequence[Module]) -> list[set[str]]:
    """The groups of modules that reach each other by imports."""
    names = {each.name for each in read}
    edges = {each.name: set(imported(each, names)) for each in read}
    reached = {name: _reached(name, edges) for name in names}
    groups = {
        frozenset(other for other in reached[name] if name in reached[other]) for name in names
    }
    return [set(group) for group in groups if group]


def _reached(start: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = edges[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def imported(module: Module, names: Collection[str]) -> Iterator[str]:
    """The modules of these names that it imports; not the packages above them."""
    package = module.name.split(".")
    if module.path.stem != "__init__":
        package.pop()
    for node in executed(module.tree):
        match node:
            case ast.Import(names=given):
                found = [each.name for each in given]
            case ast.ImportFrom(module=base, names=given, level=level):
                above = package[: len(package) - level + 1] if level else []
                whole = ".".join([*above, *([base] if base else [])])
                inner = (f"{whole}.{each.name}" for each in given)
                found = [name if name in names else whole for name in inner]
            case _:
                continue
        yield from (name for name in found if name in names and name != module.name)


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below, but for what only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.If(
                test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"),
                orelse=otherwise,
            ):
                for each in otherwise:
                    yield each
                    yield from executed(each)
            case _:
                yield child
                yield from executed(child)


# --- one compressing turn -------------------------------------------------------------------------

TURN = (
    "modules that run in one compressing turn",
    "pairs of modules of which one calls the other in it",
    "functions called within each other in it, at most",
)


def crossed() -> tuple[int, int, int]:
    """What the last compressing turn of a small session runs: modules, pairs of them, depth.

    The session is gone through twice: the first time finds the turn and imports what it needs.
    """
    messages = history(MESSAGES)
    last, compressions, manager = 0, 0, session(WINDOW, "extractive")
    for at, message in enumerate(messages):
        manager.add_message(message)
        manager.get_context_for_model()
        if manager.compressions > compressions:
            last, compressions = at, manager.compressions
    manager = session(WINDOW, "extractive")
    for message in messages[:last]:
        manager.add_message(message)
        manager.get_context_for_model()
    calls = Calls(OURS)
    sys.setprofile(calls)
    try:
        manager.add_message(messages[last])
        manager.get_context_for_model()
    finally:
        sys.setprofile(None)
    assert manager.compressions == compressions, "the turn that was traced compressed nothing"
    return len(calls.modules), len(calls.edges), calls.depth


def entered(turn: Callable[[], object]) -> int:
    """How many of our modules one call of it enters; the first call imports what it needs."""
    turn()
    calls = Calls(OURS)
    sys.setprofile(calls)
    try:
        turn()
    finally:
        sys.setprofile(None)
    return len(calls.modules)


class Calls:
    """A profile function that follows the calls of functions below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = f"{folder}/"
        self._stack: list[str] = []
        self.modules: set[str] = set()
        self.edges: set[tuple[str, str]] = set()
        self.depth = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        file = code.co_filename
        if not file.startswith(self._folder) or code.co_name in _INLINED:
            return
        if event == "call":
            self.modules.add(file)
            if self._stack and self._stack[-1] != file:
                self.edges.add((self._stack[-1], file))
            self._stack.append(file)
            self.depth = max(self.depth, len(self._stack))
        elif event == "return":
            self._stack.pop()

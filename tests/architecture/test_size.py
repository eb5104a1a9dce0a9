"""The house only gets smaller: lines, statements and modules by room, and what a turn enters
(K-13).

`SIZES` and `ENTERED` may be lowered whenever there is less; `renew` does it:

    python -m tests.architecture.test_size

A change that needs more raises its room's number and says why in `ALLOWED`.
"""

import ast
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.histories import history
from bench.structure import OURS as PACKAGE
from bench.structure import crossed, entered, modules
from compact import ContextManager

SIZES: dict[str, tuple[int, int, int]] = {
    ".": (2066, 1036, 15),
    "adapters": (7, 2, 3),
    "apps": (15, 4, 4),
    "cli": (7613, 4119, 52),
    "engine": (9577, 6062, 44),
    "estimators": (7, 2, 3),
    "exchange": (1747, 1075, 9),
    "exporters": (10, 3, 4),
    "integrations": (2022, 1116, 12),
    "look": (1308, 766, 8),
    "memory": (4117, 2185, 13),
    "messages": (7549, 4096, 41),
    "models": (5354, 2987, 21),
    "secrets": (2613, 1323, 13),
    "serve": (1166, 723, 9),
    "session": (8984, 5159, 34),
    "store": (12761, 6811, 50),
    "telemetry": (1267, 693, 6),
    "testing": (1612, 1020, 8),
    "text": (5937, 3465, 31),
    "transcripts": (6509, 3580, 29),
    "tui": (2062, 1226, 15),
}
"""Room → lines, statements of its syntax trees, modules."""

ALLOWED: dict[str, str] = {
    ".": "+86 lines: settings of ageing by itself (102); addresses of servers (105); readers of "
    "tails and compactions by name (107, 108); a process known without asking the system (111); "
    "+22 lines: a store on a server is wired for memory (118); +17: for workers (120)",
    "cli": "+1,716 lines: a plan before memory ages, and a person's deletion (102, 104); the "
    "commands look (107), hook and install (108), mcp and replay (109), serve (110); "
    "+141 lines: move, store init (118); +50: work (120), less what went (122)",
    "engine": "+626 lines: a chronology looks only at the rows that it may tell (decision 094); "
    "the short way of a session without summaries (111); "
    "+18 lines: a story's room and its words (115); "
    "+283 lines: outcomes that are told truly (125), words that are kept (126)",
    "exchange": "+77 lines: zips, and exports that grew (decision 104); "
    "+155 lines: moving between stores (118)",
    "integrations": "+1,104 lines: LangChain, pydantic-ai, Google ADK (106); hooks of coding "
    "agents (108); "
    "+146 lines: Strands (117); +86: Hermes (124)",
    "look": "+1,307 lines: what agents forgot (107)",
    "memory": "+804 lines: originals out of reach (093); later words, evidence (101); ageing by "
    "itself (102); times of questions (103); notes and facts (104); "
    "+89 lines: requests for silence (119); "
    "+205 lines: jobs (120); rules by topic (123)",
    "messages": "+152 lines: times as they are written (100); projections; an event of ageing; "
    "finding chains (106); "
    "+74 lines: written times (119); reading at once (118); plainer docstrings; "
    "+29 lines: an event of jobs (120)",
    "models": "+272 lines: answers and windows of servers, read without their packages (110); "
    "cache marks of one provider, which were in messages (114); "
    "+6 lines, secrets, testing, tui: plainer docstrings",
    "serve": "+1,139 lines: a proxy (110); +9 lines: a continued list is sent first (117)",
    "session": "+738 lines: handles, and the names of 0.1 (decision 099); fit, recognize (106); "
    "a hand-over as a text (108); "
    "+90 lines: reading at once (118); one trigger (116); recognize (117)",
    "store": "+775 lines: 480 moved here from exchange; originals that are read (093); parts "
    "that are packed (102); scopes that are forgotten (104); +1,145: PostgreSQL (105), chains "
    "that are found (106); "
    "+1,513 lines: memory in PostgreSQL (118); other forms of words (119); "
    "+221 lines: a queue of jobs (120), less what went (121)",
    "testing": "+487 lines: a suite for adapters (106)",
    "text": "+580 lines: other forms of words (098), names that may come next (094), times "
    "(103); excerpts by headings (109); "
    "the score of a search by words, which three stores had (114); "
    "+195 lines: requests for silence, times (119); "
    "+229 lines: jobs (120); forms of outcomes (125); what is withdrawn (126)",
    "transcripts": "+711 lines: zips, chats without ids or times (103, 104); compactions (107); "
    "tails (108)",
    "a turn that compresses": "+1 module: messages/times.py (decision 100)",
}
"""Room → what a change added to its numbers, and why."""

ENTERED: dict[str, int] = {
    "a turn in memory": 37,
    "a turn on SQLite": 40,
    "a turn that compresses": 86,
}
"""What is done → how many of our modules it enters."""

SLACK = 0.01
"""The share by which a room may be smaller than its numbers say, before they are lowered."""


def statements(tree: ast.Module) -> int:
    """Statements but for docstrings: a dense line gains nothing by them."""
    every = sum(isinstance(node, ast.stmt) for node in ast.walk(tree))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    said = sum(
        isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None
        for node in ast.walk(tree)
    )
    return every - said


def sizes(package: Path) -> dict[str, tuple[int, int, int]]:
    """Lines, statements and modules by room."""
    found: dict[str, Counter[str]] = {}
    for module in modules(package):
        room = module.place.split("/")[0] if "/" in module.place else "."
        lines = len((package / module.place).read_text(encoding="utf-8").splitlines())
        found.setdefault(room, Counter()).update(
            lines=lines, statements=statements(module.tree), modules=1
        )
    return {k: (v["lines"], v["statements"], v["modules"]) for k, v in sorted(found.items())}


def grown(
    now: dict[str, tuple[int, int, int]], allowed: dict[str, tuple[int, int, int]]
) -> list[str]:
    """Rooms that are larger than they may be, and rooms that nobody wrote down."""
    return [
        f"{room}: {row}, {allowed.get(room)} allowed"
        for room, row in now.items()
        if any(map(int.__gt__, row, allowed.get(room, (0, 0, 0))))
    ]


def stale(
    now: dict[str, tuple[int, int, int]], allowed: dict[str, tuple[int, int, int]]
) -> list[str]:
    """Rooms that are clearly smaller than their numbers say, and rooms that are gone."""
    return [
        f"{room}: {now.get(room)}, {row} allowed"
        for room, row in allowed.items()
        if room not in now
        or any(is_ < was * (1 - SLACK) - 3 for is_, was in zip(now[room], row, strict=True))
    ]


def turn(store: str | None) -> Callable[[], object]:
    """A turn that compresses nothing."""
    ctx = ContextManager(store=store) if store else ContextManager()
    for message in history(6):
        ctx.add_message(message)
    ctx.get_context_for_model()

    def add_and_ask() -> None:
        ctx.add_message(role="user", content="And the harbour?")
        ctx.get_context_for_model()

    return add_and_ask


def modules_entered() -> dict[str, int]:
    """How many modules three kinds of turns enter."""
    return {
        "a turn in memory": entered(turn(None)),
        "a turn on SQLite": entered(turn(":memory:")),
        "a turn that compresses": crossed()[0],
    }


@pytest.mark.slow
def test_no_room_has_grown():
    now = sizes(PACKAGE)
    assert grown(now, SIZES) == []
    assert stale(now, SIZES) == [], "smaller: renew the numbers"


@pytest.mark.slow
def test_a_turn_enters_no_more_modules():
    now = modules_entered()
    assert now.keys() == ENTERED.keys()
    assert {what: n for what, n in now.items() if n > ENTERED[what]} == {}


# --- each guard is seen to fail -------------------------------------------------------------------


def test_statements_are_counted_and_dense_lines_gain_nothing(tmp_path):
    (tmp_path / "engine").mkdir()
    path = tmp_path / "engine/one.py"
    path.write_text('"""A room."""\nx = 1; y = 2\n\n\ndef f():\n    """Say."""\n    return x\n')
    assert sizes(tmp_path) == {"engine": (7, 4, 1)}


def test_a_room_that_grows_or_is_new_is_seen():
    assert grown({"a": (10, 5, 1)}, {"a": (10, 5, 1)}) == []
    assert grown({"a": (10, 6, 1), "b": (1, 1, 1)}, {"a": (10, 5, 1)}) == [
        "a: (10, 6, 1), (10, 5, 1) allowed",
        "b: (1, 1, 1), None allowed",
    ]


def test_numbers_that_are_too_high_are_seen():
    assert stale({"a": (1000, 500, 10)}, {"a": (1005, 500, 10)}) == []
    assert len(stale({"a": (900, 500, 10)}, {"a": (1000, 500, 10), "b": (1, 1, 1)})) == 2


def renew() -> None:
    """Write today's numbers into this file."""
    path = Path(__file__)
    text = path.read_text(encoding="utf-8")
    for name, rows in (("SIZES", sizes(PACKAGE)), ("ENTERED", modules_entered())):
        body = "".join(f'    "{key}": {value},\n' for key, value in rows.items())
        start = text.index("{", text.index(f"\n{name}: ") + len(name) + 3)
        text = text[:start] + f"{{\n{body}}}" + text[text.index("}", start) + 1 :]
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    renew()

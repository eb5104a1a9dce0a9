"""What a shell command runs: its steps, their programs, and which of them check something.

A check is a step that tests, builds or lints: a program that does nothing else, or a task of any
program that is called so. Nothing here runs anything, or knows what came of it (`text.outcomes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from compact.patterns import regex

_CHECK = regex(
    r"(?<![\w./-])(?P<program>pytest|jest|vitest|mypy|ruff|tsc|clippy|tox|nox|ctest|gradle|mvn|make)"
    r"(?![\w./])"
    r"|(?<![\w./])(?P<kind>tests?|build|lint|check|vet|verify|compile)(?![\w./])"
)
"""What makes a step of a command a check: a program that checks, or a task that is called so."""
_LOOKS = frozenset(
    """
    [ cat cd chmod cp curl do echo export file find for gh git grep head if local ls mkdir mv rg rm
    sed awk set tail test then touch wc which while xargs
    """.split()  # noqa: SIM905 - a table to read
)
"""Programs that look, move and set up: their arguments may well be called like a check."""
_FAILS = frozenset(("git", "gh", "curl"))
"""Of these, whose failure is told like a check's."""
_PROGRAM = regex(r"[a-z][a-z0-9_.+-]*")
_STEP = regex(r"(?:\"[^\"]*\"|'[^']*'|>&|[^;&|\n\"'])+")
"""A step of a command: what stands between separators; quoted text has none."""
_HEREDOC = regex(r"<<-?\s*['\"]?(\w+)")
_REDIRECTED = regex(r"\d?>{1,2}\s?(?:&\d|/dev/null)")
MOST_READ = 4_000
"""Characters of a command that are read: its beginning."""
_SETTING = regex(r"[A-Za-z_]\w*=")
CALLS_AT_HAND = 64
"""Calls whose command and arguments are not read again, the newest: several readers ask of the same
one, and again when its result comes. More keep more texts in memory."""


@lru_cache(maxsize=CALLS_AT_HAND)
def steps_of(script: str) -> tuple[str, ...]:
    """The steps of a command, without documents that stand in it and without where output goes."""
    steps = _STEP.findall(_REDIRECTED.sub("", _without_documents(script[:MOST_READ])))
    return tuple(" ".join(words) for step in steps if (words := step.split()))


def program_of(step: str) -> str:
    """The program that a step runs, without its folder."""
    words = step.split()
    return next((w for w in words if not _SETTING.match(w)), "").rsplit("/", 1)[-1]


@lru_cache(maxsize=CALLS_AT_HAND)
def checks_in(script: str) -> Mapping[str, str]:
    """The checks of a command: kind, such as `pytest` or `npm test` → the step that runs it."""
    found: dict[str, str] = {}
    for step in steps_of(script):
        program = program_of(step)
        words = " ".join(w for w in step.split() if not _SETTING.match(w))
        if program in _LOOKS or not _PROGRAM.fullmatch(program):
            continue
        if check := _CHECK.search(words):
            kind = check["program"] or f"{program} {check['kind'].removesuffix('s')}"
            found[kind] = step
    return found


def _without_documents(command: str) -> str:
    """The command without the documents that stand in it (`<<EOF`): messages, scripts."""
    kept, end = list[str](), ""
    for line in command.split("\n"):
        if end:
            end = "" if line.strip() == end else end
            continue
        kept.append(line)
        opened = _HEREDOC.search(line)
        end = opened[1] if opened else ""
    return "\n".join(kept)


def others_in(script: str) -> int:
    """How many steps of a command do something else than to look, to move or to check."""
    checks = set(checks_in(script).values())
    steps = (step for step in steps_of(script) if step not in checks)
    return sum(program_of(step) not in _LOOKS - _FAILS for step in steps)

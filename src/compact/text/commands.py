"""Finds what a shell command runs: its steps, their programs, and which steps are checks.

A check tests, builds or lints. It is a program that does nothing else, or a task with such a name.
Nothing is run here. `text.outcomes` finds out how checks ended.
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
"""A program that tests, builds or lints, or a task whose name says so."""
_LOOKS = frozenset(
    """
    [ cat cd chmod cp curl do echo export file find for gh git grep head if local ls mkdir mv rg rm
    sed awk set tail test then touch wc which while xargs
    """.split()  # noqa: SIM905 - a table to read
)
"""Programs that look, move or set up. They are not checks, even if an argument looks like one."""
_FAILS = frozenset(("git", "gh", "curl"))
"""Programs of `_LOOKS` whose failure is reported like that of a check."""
_PROGRAM = regex(r"[a-z][a-z0-9_.+-]*")
_STEP = regex(r"(?:\"[^\"]*\"|'[^']*'|>&|[^;&|\n\"'])+")
"""A step of a command: the text between separators. Separators in quotation marks do not count."""
_HEREDOC = regex(r"<<-?\s*['\"]?(\w+)")
_REDIRECTED = regex(r"\d?>{1,2}\s?(?:&\d|/dev/null)")
MOST_READ = 4_000
"""How many characters of a command are read, from its beginning."""
CALLS_AT_HAND = 64
"""For how many calls the parsed command and arguments are cached. Several functions read the same
call, and read it again for its result. A larger cache would keep more texts in memory."""


@lru_cache(maxsize=CALLS_AT_HAND)
def steps_of(script: str) -> tuple[str, ...]:
    """Return the steps of a command, without here-documents and redirections."""
    steps = _STEP.findall(_REDIRECTED.sub("", _without_documents(script[:MOST_READ])))
    return tuple(" ".join(words) for step in steps if (words := step.split()))


def program_of(step: str) -> str:
    """Return the program that a step runs, without its folder."""
    words = step.split()
    return next((w for w in words if not _is_setting(w)), "").rsplit("/", 1)[-1]


@lru_cache(maxsize=CALLS_AT_HAND)
def checks_in(script: str) -> Mapping[str, str]:
    """Return the checks of a command: kind (such as `pytest` or `npm test`) → the step."""
    found: dict[str, str] = {}
    for step in steps_of(script):
        program = program_of(step)
        words = " ".join(w for w in step.split() if not _is_setting(w))
        if program in _LOOKS or not _PROGRAM.fullmatch(program):
            continue
        if check := _CHECK.search(words):
            kind = check["program"] or f"{program} {check['kind'].removesuffix('s')}"
            found[kind] = step
    return found


def _is_setting(word: str) -> bool:
    """Whether the word sets a variable for the program after it."""
    name, sign, _ = word.partition("=")
    return bool(sign) and name.isidentifier()


def _without_documents(command: str) -> str:
    """Remove here-documents (`<<EOF`), since their text is data and not commands."""
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
    """Count the steps that are not checks and run no program that only looks or moves."""
    checks = set(checks_in(script).values())
    steps = (step for step in steps_of(script) if step not in checks)
    return sum(program_of(step) not in _LOOKS - _FAILS for step in steps)

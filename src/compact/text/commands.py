"""What a shell command runs: its steps, their programs, and which steps are checks.

A check tests, builds or lints. It is a program that does nothing else, or a task with such a name.
Nothing is run here. Outcomes are read in `text.outcomes`.
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
"""A program that checks, or a task whose name says so."""
_LOOKS = frozenset(
    """
    [ cat cd chmod cp curl do echo export file find for gh git grep head if local ls mkdir mv rg rm
    sed awk set tail test then touch wc which while xargs
    """.split()  # noqa: SIM905 - a table to read
)
"""Programs that look, move and set up. Their arguments often have the name of a check."""
_FAILS = frozenset(("git", "gh", "curl"))
"""Those of `_LOOKS` whose failure is reported like a check's."""
_PROGRAM = regex(r"[a-z][a-z0-9_.+-]*")
_STEP = regex(r"(?:\"[^\"]*\"|'[^']*'|>&|[^;&|\n\"'])+")
"""A step of a command: the text between separators. Quoted text has no separators."""
_HEREDOC = regex(r"<<-?\s*['\"]?(\w+)")
_REDIRECTED = regex(r"\d?>{1,2}\s?(?:&\d|/dev/null)")
MOST_READ = 4_000
"""Characters of a command that are read, from its beginning."""
_SETTING = regex(r"[A-Za-z_]\w*=")
CALLS_AT_HAND = 64
"""Newest calls whose parsed command and arguments are cached. Several readers ask for the same
call, and again for its result. More would keep more texts in memory."""


@lru_cache(maxsize=CALLS_AT_HAND)
def steps_of(script: str) -> tuple[str, ...]:
    """Return the steps of a command, without here-documents and redirections."""
    steps = _STEP.findall(_REDIRECTED.sub("", _without_documents(script[:MOST_READ])))
    return tuple(" ".join(words) for step in steps if (words := step.split()))


def program_of(step: str) -> str:
    """Return the program that a step runs, without its folder."""
    words = step.split()
    return next((w for w in words if not _SETTING.match(w)), "").rsplit("/", 1)[-1]


@lru_cache(maxsize=CALLS_AT_HAND)
def checks_in(script: str) -> Mapping[str, str]:
    """Return the checks of a command: kind, such as `pytest` or `npm test` → its step."""
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
    """Remove here-documents (`<<EOF`): their text is data, not commands."""
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
    """Count the steps that neither look, nor move, nor check."""
    checks = set(checks_in(script).values())
    steps = (step for step in steps_of(script) if step not in checks)
    return sum(program_of(step) not in _LOOKS - _FAILS for step in steps)

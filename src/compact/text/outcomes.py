"""Says in a few words what a tool call was about (its target) and how it ended (its outcome).

The first of these that applies decides the outcome:

1. the user's refusal;
2. the tool's own error or exit code, also in JSON data;
3. the printed verdict of a command that tests, builds or lints, since in a pipe the exit code may
   come from another program.

Other calls have no outcome, since their text does not say whether they succeeded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from compact.messages.arguments import json_or, leaves
from compact.messages.messages import ToolCall, ToolResult
from compact.patterns import regex
from compact.text import anchors
from compact.text.commands import checks_in, others_in
from compact.text.said_within import verdict_of

Status = Literal["refused", "failed", "passed"]

_COMMANDS = ("command", "cmd", "script")
_TARGETS = (*_COMMANDS, "pattern", "query", "url")
"""Arguments that name the target, the best first. Without these, the first short text is used."""
_FOLDER = regex(r"cd [^\s&;]+\s*(?:&&|;)\s*")
"""A change of folder before the command itself."""
_EXIT_CODE = regex(
    r"\W*(?:(?:the )?(?:process|command) )?(?:\w+ with )?"
    r"(?:exited with code|exit(?:[ _]code| status)|returncode)\W{1,3}(\d+)\b",
    re.IGNORECASE,
)
_ENDS = 3
"""How many lines at each end of an output are searched for an exit code."""
_RUNNER = r"(?:\[[\w:.-]+\] +)?"
"""The task that printed a line, in brackets before the line's text."""
_FAILED = regex(
    _RUNNER
    + r"(?:(?:--- )?FAIL(?:ED|URE)?\b|BUILD FAILED|test result: FAILED|make: \*\*\*|npm ERR!"
    r"|E  |Traceback \(most recent|error(?:\[\w+\]|:)"
    r"|\W*(?:(?:Found|Tests:?|Errors:|\d+ [a-z]+,)\s+)*[1-9]\d* (?:tests? )?"
    r"(?:failed|failing|failures?|errors?|issues?|problems?)\b"
    r"|\S+:\d+(?::\d+)?: (?:error|undefined)\b|\S+\(\d+,\d+\): error\b)"
    r"|\[[\w:.-]+\] ERROR\b"
)
"""How a line begins in which a test, build or lint program reports a failure."""
_PASSED = regex(
    _RUNNER + r"(?:(?:--- )?PASS(?:ED)?\b|ok\b|OK\b|\[?(?:BUILD )?SUCCESS|test result: ok"
    r"|All checks passed|Success: no issues|Compiled successfully|\W*built in \d"
    r"|\W*(?:(?:Found|Tests:?|\d+ skipped,)\s+)*"
    r"(?P<count>\d+ (?:tests? )?(?:passed|passing)|0 (?:issues|errors|problems))\b)"
)
_PLACED = regex(r"(?:E {2,}\S|(?!\d+:)[\w./\\@-]+(?::\d+){1,2}:? \S|[\w./\\@-]+\(\d+,\d+\): )")
"""A line in which a compiler or a test prints the place of an error."""
_NAMED = regex(r"(?:--- FAIL: |FAILED (?=\S+::)|FAIL: |● )(?=\S)")
"""How a line begins that names a failed test."""
_TOTAL = regex(r"\b\d+ (?:tests? )?(?:passed|failed|passing|failing|failures?|errors?|issues?)\b")
"""A count in a line that sums up checks, such as `3 passed`."""
_NO_TESTS = ("lint", "build", "compile", "ruff", "mypy", "clippy", "tsc", " vet")
"""A step that contains one of these runs no tests, so a count of passed tests is not its own."""
_PRINTED = {
    "git commit": (
        ("file changed", "files changed"),
        ("nothing to commit", "nothing added to commit", "no changes added", "error: ", "fatal: "),
    ),
    "git push": ((" -> ", "Everything up-to-date"), ("! [", "error: ", "fatal: ")),
    "gh": (
        ("/pull/", "/issues/", "/releases/"),
        ("already exists", "failed", "GraphQL: ", "HTTP 4", "not mergeable", "must "),
    ),
}
"""Start of a step that publishes something → what it prints if it did so, and if it did not."""
_FINAL = ("! [", "already exists")
"""What a step prints only if it failed, whatever else it prints."""
_CODES = ("exit_code", "exitCode", "returncode")
"""Keys of JSON data that hold an exit code."""
_SUCCESS = ("success", "ok")
"""Keys of JSON data that are false if a call failed."""
_ERRORS = ("error", "errors", "is_error", "isError")
"""Keys of JSON data that hold something only if a call failed."""
_ERROR_FIRST = ("error:", "error executing ", "error calling ")
"""How the text of a tool begins if the tool failed and is no command."""
_MOST_DATA = 20_000
"""Most characters of JSON data that is parsed."""
_LONGEST_TOTAL = 120
"""At most this many characters of a line with counts are quoted."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended, with the line or number that says most about it."""

    status: Status
    detail: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.status, self.detail)))


def target_of(call: ToolCall) -> str:
    """Return the target of a call in one line; empty if its arguments contain no text.

    The target is the command without the `cd` before it, or the file, or the search pattern.
    """
    strings = [(k, v) for k, v in anchors.strings_of(call.arguments) if v.strip()]
    texts = dict(strings)  # keeps a list's last text: in a shell's arguments, the command
    said = next((texts[key] for key in _TARGETS if key in texts), "")
    said = said or next((v for _, v in strings if len(v) < 300), "")
    return without_folder(said).replace("\\\n", " ").partition("\n")[0].strip()


def without_folder(command: str) -> str:
    """Return a command without the change of folder before it."""
    command = command.strip()
    way = _FOLDER.match(command)
    return command[way.end() :] if way else command


def command_of(call: ToolCall) -> str:
    """Return the whole command that a call runs; empty if it runs no command."""
    texts = dict(anchors.strings_of(call.arguments))
    return next((texts[key] for key in _COMMANDS if key in texts), "")


def outcome_of(result: ToolResult, call: ToolCall | None) -> Outcome | None:
    """Return the outcome of a call; None if its result does not tell."""
    if verdict_of(result, call.name if call else result.name) == "refused":
        return Outcome("refused")
    whole = anchors.searched(result.text).splitlines()
    code = _exit_code(whole)
    if result.is_error or code:
        return Outcome("failed", _first_error(_said(whole)))
    command = command_of(call) if call else ""
    if (denied := _denied(result.text, is_command=bool(command))) is not None:
        return Outcome("failed", denied)
    if call is not None and checks_in(command):
        return _checked(_said(whole), is_over=code == 0)
    return None


def checks_came_to(script: str, text: str, failed: str | None) -> dict[str, tuple[str, str | None]]:
    """Return a command's checks: kind → the step, and the line that says what failed, or None.

    `failed` is the line that says what failed in the whole command; None if the command passed. In
    `a && b`, only one step failed. Earlier steps that printed a pass have passed. Later steps may
    not have run and are left out.
    """
    checks = [*checks_in(script).items()]
    if failed is None or "&&" not in script or len(checks) + others_in(script) < 2:
        return {kind: (step, failed) for kind, step in checks}
    lines = _said(anchors.searched(text).splitlines())
    passed = max((n for n, line in enumerate(lines) if _PASSED.match(line)), default=-1)
    broke = next((n for n, line in enumerate(lines) if _says_failed(line)), None)
    done = len(checks) if broke is None else len(checks) - 1
    if passed < 0 or (broke is not None and broke <= passed):
        done = 0
    elif len(checks) == 1 and broke is not None:
        done = 1
    found: dict[str, tuple[str, str | None]] = {k: (step, None) for k, step in checks[:done]}
    if broke is not None:
        found |= {kind: (step, failed) for kind, step in checks[done : done + 1]}
    return found


def refusal_of(step: str, text: str, failed: str | None) -> str | None:
    """Return the line that says why a step of git or gh published nothing; None if it did publish.

    `failed` is the line that says what failed in the whole command; None if the command passed.
    What the step itself prints counts more, since the exit code may be that of another step.
    """
    done, refused = next(v for k, v in _PRINTED.items() if step.startswith(k))
    lines = _said(anchors.searched(text).splitlines())
    why = next((line for line in lines if any(x in line for x in refused)), None)
    is_done = any(x in line for line in lines if line != why for x in done)
    if why is None or (is_done and not any(x in why for x in _FINAL)):
        return None if is_done else failed
    return why


def verdict_of_check(step: str, text: str, failed: str | None) -> str:
    """Return what a check printed: the line that says what failed, and the last counts.

    If a command runs several checks, each check gets the counts of its own kind.
    """
    lines = _said(anchors.searched(text).splitlines())
    others = "issue" if "test" in step else "pass" if any(x in step for x in _NO_TESTS) else None
    counts = [x for x in lines if _TOTAL.search(x) and (others is None or others not in x)]
    counted = [" ".join(counts[-1].strip("=- ").split())[:_LONGEST_TOTAL]] if counts else []
    if failed is None:
        return (counted or ["passed"])[0]
    said = f"failed: {failed[:_LONGEST_TOTAL]}" if failed else "failed"
    return " / ".join((said, *(line for line in counted if line not in failed)))


def _denied(text: str, *, is_command: bool) -> str | None:
    """Return the reason if a tool's own text or JSON data says that the call failed, else None.

    What a command prints may be the data of something else, so only an exit code counts there.
    """
    if not is_command and text[:20].lstrip().lower().startswith(_ERROR_FIRST):
        return text.strip().partition("\n")[0][:300]
    data = json_or(text) if text[:1] == "{" and len(text) <= _MOST_DATA else None
    if not isinstance(data, dict):
        return None
    within = (data, *(each for each in data.values() if isinstance(each, dict)))
    failed = any(each.get(key) not in (None, 0, "0") for each in within for key in _CODES)
    errors = [] if is_command else [data[key] for key in _ERRORS if data.get(key)]
    if not is_command:
        failed |= any(data.get(key) is False for key in _SUCCESS)
    if not (failed or errors):
        return None
    said = [x for _, x in leaves([*errors, data]) if isinstance(x, str) and x.strip()]
    return said[0].strip().partition("\n")[0][:300] if said else ""


def _says_failed(line: str) -> bool:
    is_any = line[:6].lower() == "error:"  # any program may print this, not only a check
    return not is_any and bool(_FAILED.match(line) or _PLACED.match(line))


def _said(lines: list[str]) -> list[str]:
    """Return the first 300 characters of each line. Lines with the exit code are left out."""
    begins = (line.strip()[:300] for line in lines)
    return [line for line in begins if not _EXIT_CODE.match(line)]


def _checked(lines: list[str], *, is_over: bool) -> Outcome | None:
    if any(map(_FAILED.match, lines)):
        return Outcome("failed", _first_error(lines))
    passed = [found["count"] or "" for line in lines if (found := _PASSED.match(line))]
    if passed:
        return Outcome("passed", next(filter(None, reversed(passed)), ""))
    if any(map(_PLACED.match, lines)):
        return Outcome("failed", _first_error(lines))
    return Outcome("passed") if is_over else None


def _exit_code(lines: list[str]) -> int | None:
    for line in (*lines[:_ENDS], *lines[-_ENDS:]):
        if found := _EXIT_CODE.match(line.strip()[:300]):
            return int(found[1][:4])
    return None


def _first_error(lines: list[str]) -> str:
    """Return the first line that says what is wrong.

    A line that names a failed test is preferred, then one with a place, then any other error.
    """
    for at, line in enumerate(lines):
        if named := _NAMED.match(line):
            says = lines[at + 1] if _PLACED.match("".join(lines[at + 1 : at + 2])) else ""
            return " ".join(f"{line[named.end() :]} {says}".split())
    for says_so in (_PLACED, anchors.ERROR_LINE, _FAILED):
        for line in lines:
            if says_so.match(line):
                return anchors.without_tags(line)
    return anchors.failure("\n".join(lines)) or ""

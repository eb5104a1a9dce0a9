"""The work log: what tools were asked to do and how it went, call by call.

Pairs each call with its result, so that an error is forgotten once the same thing succeeds, and a
file that was written since the last check that passed is known as not checked. What an assistant or
a person *says* is taken down in `compression.notes`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from compact.core import anchors
from compact.core.arguments import read_json
from compact.core.messages import ToolCall, ToolResult

EDIT_KEYS = frozenset(
    ("old_string", "new_string", "content", "patch", "diff", "new_str", "old_str", "new_source")
)
"""Arguments whose text is written to a file."""
MOST_ERRORS = 40
MOST_COMMANDS = 200
MOST_PENDING = 200
MOST_ATTEMPTS = 80
MOST_LINES = 12
"""Of one attempt."""
_LINES_OF_ONE_RESULT = 6
_MOST_WRITTEN = 4
_TRIED_CHARS = 500
_COMMAND_KEYS = frozenset(("command", "cmd", "script"))
_DONE = frozenset(("completed", "complete", "done", "finished"))
_LONGEST_PATH = 300
_CHECK = re.compile(
    r"^(?!\s*(?:git|cat|ls|grep|rg|find|head|tail|sed|echo|cp|mv|rm|gh)\b).*"
    r"\b(?:tests?|pytest|jest|vitest|build|lint|check|mypy|ruff|tsc|clippy|vet|verify|compile|"
    r"make|tox|nox|ctest|gradle|mvn)\b(?![/.])"
)
"""What makes a command a check: it tests, builds or lints."""


@dataclass(slots=True)
class Command:
    """A command and its runs."""

    positions: list[int] = field(default_factory=list)
    outcome: str | None = None
    """None while it is not known or all went well; else the line that says what failed."""
    answered: bool = False


@dataclass(slots=True)
class Attempt:
    """Something that failed at least once: what it said, what was done about it, what came of
    it.
    """

    position: int = 0
    """Where it failed last."""
    times: int = 0
    lines: dict[str, int] = field(default_factory=dict)
    """Line that says what failed → where; the newest last, at most `MOST_LINES`."""
    written: list[str] = field(default_factory=list)
    """The files that were written since it failed last and before it went well."""
    outcome: Literal["fails", "passed", "checked"] = "fails"
    """Whether the same went well since, or a check passed."""

    def failed(self, lines: list[str], position: int) -> None:
        """Take down one more failure; of `lines`, the one that came last in the output first."""
        self.position, self.outcome = position, "fails"
        self.times += 1
        self.written.clear()
        for line in reversed(lines):
            self.lines.pop(line, None)
            self.lines[line] = position
        while len(self.lines) > MOST_LINES:
            del self.lines[next(iter(self.lines))]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call that waits for its result."""

    key: tuple[str, str]
    tried: tuple[str, str]
    """Tool and all of what it was asked for, where the key has a command's first line."""
    command: str | None
    files: tuple[str, ...]


@dataclass(slots=True)
class WorkLog:
    """What was done so far."""

    tools: dict[str, Counter[str]] = field(default_factory=dict)
    """Tool name → how often it was called (under the empty key) and with which arguments."""
    commands: dict[str, Command] = field(default_factory=dict)
    errors: dict[str, tuple[int, tuple[str, str]]] = field(default_factory=dict)
    """Line that says what failed → where, and the call it belongs to."""
    attempts: dict[tuple[str, str], Attempt] = field(default_factory=dict)
    """Tool and command, or what else it was asked for → how it failed, also where it went well
    since; the newest failure last. Of an agent that calls its tools in plain text: nothing, and
    the line itself."""
    tasks: list[tuple[str, bool]] = field(default_factory=list)
    """The newest task list a tool was given: words and whether done."""
    unchecked: dict[str, int] = field(default_factory=dict)
    """Files written since the last check that passed → where."""
    _asked: dict[str, _Asked] = field(default_factory=dict)

    def call(self, call: ToolCall, position: int) -> list[str]:
        """Take down a call; the files it writes to."""
        tool = self.tools.setdefault(call.name, Counter())
        tool[""] += 1
        tool.update(anchors.keys_of(call.arguments))
        values = list(anchors.strings_of(call.arguments))
        script = next((v for k, v in values if k in _COMMAND_KEYS and v.strip()), "")
        command = _first_line(script) if script else None
        if command:
            self.commands.setdefault(command, Command()).positions.append(position)
        files = _written(values)
        if '"status"' in call.arguments:
            self.tasks = _task_list(call) or self.tasks
        target = command or next((v for _, v in values if len(v) < _LONGEST_PATH), "")
        tried = call.name, " ".join((script or target).split())[:_TRIED_CHARS]
        self._asked[call.id] = _Asked((call.name, target), tried, command, tuple(files))
        while len(self._asked) > MOST_PENDING:
            del self._asked[next(iter(self._asked))]
        return files

    def result(self, result: ToolResult, position: int) -> None:
        """Take down how a call went."""
        asked = self._asked.pop(result.call_id, _Asked(("", result.call_id), ("", ""), None, ()))
        every = anchors.error_lines(result.text, most=_LINES_OF_ONE_RESULT)
        if result.is_error and not every:
            every = [line for line in (anchors.failure(result.text),) if line]
        found = every[:3]
        failed = result.is_error or (bool(found) and asked.command is not None)
        if not failed:
            self.errors = {line: at for line, at in self.errors.items() if at[1] != asked.key}
            self.unchecked.update(dict.fromkeys(asked.files, position))
            self._went_well(asked)
        elif every:
            self._failed(asked.tried, every, position)
        for line in found if failed else ():
            self.errors.pop(line, None)
            self.errors[line] = position, asked.key
        if asked.command:
            self._ran(asked.command, found[0] if failed and found else None)

    def observed(self, text: str, position: int) -> None:
        """Take down an observation of an agent that calls its tools in plain text."""
        found = anchors.error_lines(text, most=_LINES_OF_ONE_RESULT)
        for line in found[:3]:
            self.errors.pop(line, None)
            self.errors[line] = position, ("", "")
        if found:
            self._failed(("", ""), found, position)

    def _failed(self, key: tuple[str, str], lines: list[str], position: int) -> None:
        key = key if key[0] else ("", lines[0])
        attempt = self.attempts.pop(key, Attempt())
        attempt.failed(lines, position)
        self.attempts[key] = attempt

    def _went_well(self, asked: _Asked) -> None:
        if attempt := self.attempts.get(asked.tried):
            attempt.outcome = "passed"
        for attempt in self.attempts.values() if asked.files else ():
            if attempt.outcome == "fails":
                names = [*attempt.written, *(f for f in asked.files if f not in attempt.written)]
                attempt.written = names[-_MOST_WRITTEN:]

    def _ran(self, command: str, outcome: str | None) -> None:
        run = self.commands.setdefault(command, Command())
        run.outcome, run.answered = outcome, True
        if outcome is None and _CHECK.search(command):
            self.unchecked.clear()
            self.errors.clear()  # whatever failed before, it was checked since
            for attempt in self.attempts.values():
                if attempt.outcome == "fails":
                    attempt.outcome = "checked"

    def checks(self) -> list[tuple[str, Command]]:
        """Commands that test, build or lint, the newest first."""
        rows = [(c, run) for c, run in self.commands.items() if run.answered and _CHECK.search(c)]
        return sorted(rows, key=lambda row: -row[1].positions[-1] if row[1].positions else 0)

    def trim(self) -> None:
        """Forget the oldest, so that memory stays bounded."""
        while len(self.errors) > MOST_ERRORS:
            del self.errors[next(iter(self.errors))]
        while len(self.attempts) > MOST_ATTEMPTS:
            del self.attempts[next(iter(self.attempts))]
        if len(self.commands) > MOST_COMMANDS:
            newest = sorted(self.commands.items(), key=lambda row: row[1].positions[-1:] or [0])
            self.commands = dict(newest[-MOST_COMMANDS // 2 :])
        while len(self.unchecked) > MOST_COMMANDS:
            del self.unchecked[next(iter(self.unchecked))]


def _first_line(command: str) -> str:
    return command.strip().splitlines()[0][:160]


def _written(values: list[tuple[str, str]]) -> list[str]:
    """The files a call with these arguments writes to."""
    if not any(key in EDIT_KEYS for key, _ in values):
        return []
    names = [v for k, v in values if k not in EDIT_KEYS and len(v) < _LONGEST_PATH]
    return [a.text for name in names for a in anchors.find_all(name) if a.kind in ("path", "file")]


def _task_list(call: ToolCall) -> list[tuple[str, bool]]:
    """The tasks of a tool call that keeps a list of them: objects with a status and some words."""
    try:
        arguments: Any = read_json(call.arguments)
    except ValueError:
        return []
    if not isinstance(arguments, dict):
        return []
    for value in arguments.values():
        if isinstance(value, list) and value:
            tasks = list(_tasks_in(value))
            if len(tasks) == len(value):
                return tasks
    return []


def _tasks_in(rows: list[Any]) -> Iterator[tuple[str, bool]]:
    for row in rows:
        if isinstance(row, dict) and "status" in row:
            words = next(
                (row[k] for k in ("content", "title", "step", "description") if row.get(k)), ""
            )
            if words:
                yield str(words), str(row["status"]).lower() in _DONE

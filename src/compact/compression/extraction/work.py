"""The work log: what tools were asked to do and how it went, call by call.

Pairs each call with its result, so that an error is forgotten once the same thing succeeds, and a
file that was written since the last check that passed is known as not checked. Checks are known by
their kind, whatever flags and paths they were given. What an assistant or a person *says* is taken
down in `turns`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from compact.core import anchors
from compact.core.arguments import leaves, read_json
from compact.core.commands import checks_in, program_of, steps_of
from compact.core.messages import ToolCall, ToolResult
from compact.core.outcomes import checks_came_to, outcome_of
from compact.core.sentences import beginning

EDIT_KEYS = frozenset(
    ("old_string", "new_string", "content", "patch", "diff", "new_str", "old_str", "new_source")
)
"""Arguments whose text is written to a file."""
MOST_KEPT = 200
"""Commands, files of each kind and waiting calls that are remembered; the oldest are forgotten."""
MOST_ATTEMPTS, MOST_LINES = 80, 12
"""Failed attempts that are remembered, and lines that say why one of them failed, the newest of
both: more take memory, and name more of what was tried."""
_LOOKED_AT = 4_000
"""Characters of an output that are looked at for what git says."""
_TRIED_CHARS = 500
"""Characters by which one attempt is told from another, and of the longest argument that may name a
file that is read: longer ones are text."""
_COMMAND_KEYS = frozenset(("command", "cmd", "script"))
WORKS = _COMMAND_KEYS | EDIT_KEYS - {"content"}
"""Arguments of calls that run commands or change files."""
_DONE = frozenset(("completed", "complete", "done", "finished", "deleted", "cancelled"))
_DOING = frozenset(("in_progress", "in progress", "doing", "active", "started"))
_LONGEST_PATH = 300
"""Characters from which an argument is no path that is written to, and not what a call is about."""
_DEFINES = re.compile(
    r"\b(?:def|class|func|fn|function|type|interface|struct|enum|trait|const|let|var)\s+"
    r"(?:\([^)\n]{0,80}\)\s*)?([A-Za-z_]\w{3,79})"
)
"""How source code of the common languages defines a name."""
_COMMITTED = re.compile(
    r"^\[(?P<branch>[^\s\]]+)(?: \([^)\n]{0,80}\))? (?P<hash>[0-9a-f]{7,40})\] (?P<title>.+)$", re.M
)
_BRANCH = re.compile(
    r"^(?:On branch |\* |Switched to (?:a new )?branch ')(?P<branch>[\w./-]+)'?\s*$", re.M
)
"""How git says on which branch one is, and what was committed."""
_ELSEWHERE = re.compile(r"/tmp\b|\bgit -C\b|\bmktemp\b")
"""A command that works in some other repository than the one at hand."""
_LOOKED_FOR = frozenset(
    """
    path pattern plan query questions shell_id skill subject taskId task_id todos url
    """.split()  # noqa: SIM905 - a table to read
)
"""Arguments of calls that look something up or keep a list: what they came to is no deed."""
_LOOKS = frozenset(
    """
    calculate check count fetch find get list lookup query read search show think view
    """.split()  # noqa: SIM905 - a table to read
)
"""First words of the names of functions that look something up."""
_SPACE = re.compile(r"\s")
_LAST_CALL, _MOST_GIVEN = 160, 240
"""Characters that one line tells of what a call was asked for, and of what it gave."""
_TASK_ID = re.compile(r"#(\d+)")
_LISTED_TASK = re.compile(r"^\W{0,8}(\d+)[.:]?[ \t]+\[(\w+)\][ \t]+([^\n\[]+)", re.MULTILINE)
"""A task as a list of tasks shows it: id, status, words, and maybe what it waits for."""


@dataclass(slots=True)
class Command:
    """A command and its runs."""

    positions: list[int] = field(default_factory=list)
    outcome: str | None = None
    """None while it is not known or all went well; else the line that says what failed."""
    answered: bool = False
    is_check: bool = False


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
    """The files that were written since it failed last and before it went well, the newest four."""
    outcome: Literal["fails", "passed", "checked"] = "fails"
    """Whether the same went well since, or a check of its kind passed."""
    kinds: frozenset[str] = frozenset()
    """The kinds of checks that it runs."""

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
    script: str = ""
    """The whole command."""
    task: str = ""
    """The words of the task that it makes."""
    subject: str = ""
    """The one file that it is about."""
    call: ToolCall | None = None


@dataclass(slots=True)
class WorkLog:
    """What was done so far."""

    commands: dict[str, Command] = field(default_factory=dict)
    attempts: dict[tuple[str, str], Attempt] = field(default_factory=dict)
    """Tool and command, or what else it was asked for → how it failed, also where it went well
    since; the newest failure last. Of an agent that calls its tools in plain text: nothing, and
    the line itself."""
    tasks: list[tuple[str, bool]] = field(default_factory=list)
    """The newest task list a tool was given: words and whether done."""
    doing: str = ""
    """The task that was begun last."""
    tracked: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """Tasks that are made and updated one by one, by their id: words and whether done."""
    checked: dict[str, tuple[int, str, str | None]] = field(default_factory=dict)
    """Kind of check → where it ran last, the step of the command, and what failed."""
    unchecked: dict[str, int] = field(default_factory=dict)
    """Files written since the last check that passed → where."""
    uncommitted: dict[str, int] = field(default_factory=dict)
    """Files written since the newest commit → where."""
    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Files that were written → how often, and where last; the newest last."""
    read: dict[str, int] = field(default_factory=dict)
    """Files that tools were asked for → where last; the newest last."""
    branch: str = ""
    commit: str = ""
    """The newest commit: hash and title."""
    commits: list[str] = field(default_factory=list)
    """Commits that were made since somebody took them away from here."""
    outcome: str = ""
    """What the newest call came to that was about no file and no command; until somebody takes it
    away from here."""
    last_call: str = ""
    """The newest call that was answered, in one line."""
    plan: tuple[str, Literal["proposed", "approved", "refused"]] | None = None
    """The newest plan that was put to the person, and what became of it."""
    _asked: dict[str, _Asked] = field(default_factory=dict)

    def call(self, call: ToolCall, position: int) -> list[tuple[str, list[str]]]:
        """Take down a call; the files it writes to, each with the names it defines."""
        values = anchors.strings_of(call.arguments)
        script = next((v for k, v in values if k in _COMMAND_KEYS and v.strip()), "")
        command = _first_line(script) if script else None
        if command:
            self.commands.setdefault(command, Command()).positions.append(position)
        files = _written(values)
        named = _asked_for(values)
        for file in named:
            self.read.pop(file, None)
            self.read[file] = position
        task = self._task(call)
        target = command or next((v for _, v in values if len(v) < _LONGEST_PATH), "")
        tried = call.name, beginning(script or target, _TRIED_CHARS)
        asked = _Asked(
            (call.name, target),
            tried,
            command,
            tuple(files),
            script,
            task,
            subject=(*named, "")[0],
            call=call,
        )
        self._asked[call.id] = asked
        while len(self._asked) > MOST_KEPT:
            del self._asked[next(iter(self._asked))]
        return [(file, _defined(values)) for file in files]

    def _task(self, call: ToolCall) -> str:
        """Take down what a call says of tasks; the words of a task that it makes."""
        if '"status"' in call.arguments:
            rows = _task_list(call)
            self.tasks = [(words, status in _DONE) for words, status in rows] or self.tasks
            self.doing = next((words for words, status in rows if status in _DOING), self.doing)
        arguments = _object(call.arguments)
        task_id = str(arguments.get("taskId", ""))
        if task_id in self.tracked:
            words, done = self.tracked[task_id]
            if status := arguments.get("status"):
                done = str(status).lower() in _DONE
                self.doing = words if str(status).lower() in _DOING else self.doing
            self.tracked[task_id] = str(arguments.get("subject") or words), done
        if "plan" in arguments and isinstance(arguments["plan"], str):
            self.plan = arguments["plan"], "proposed"
        return str(arguments.get("subject", "")) if not task_id else ""

    def subject(self, call_id: str) -> str:
        """The one file that a call which waits for its result is about; empty where there is
        none.
        """
        asked = self._asked.get(call_id)
        return asked.subject if asked else ""

    def writes(self, call_id: str) -> tuple[str, ...]:
        """The files that a call which waits for its result is to write."""
        asked = self._asked.get(call_id)
        return asked.files if asked else ()

    def tool(self, call_id: str) -> str:
        """The tool of a call that waits for its result."""
        asked = self._asked.get(call_id)
        return asked.key[0] if asked else ""

    def tried(self, call_id: str) -> str:
        """What a call that waits for its result is about, in one line."""
        asked = self._asked.get(call_id)
        return " ".join(asked.key)[:_TRIED_CHARS].strip() if asked else "a call"

    def decided(self, verdict: Literal["refused", "approved"]) -> None:
        """Take down what a person decided about a plan that was put to them."""
        if self.plan is not None and self.plan[1] == "proposed":
            self.plan = self.plan[0], verdict

    def result(self, result: ToolResult, position: int) -> None:
        """Take down how a call went."""
        asked = self._asked.pop(result.call_id, _Asked(("", result.call_id), ("", ""), None, ()))
        outcome = outcome_of(result, asked.call)
        failed = result.is_error or (outcome is not None and outcome.status == "failed")
        every = anchors.error_lines(result.text) if failed else []
        if failed and not every:
            every = [line for line in (anchors.failure(result.text),) if line]
        if failed and outcome is not None and outcome.detail:
            every = [outcome.detail, *(x for x in every if outcome.detail not in x)]
        self.last_call = " ".join(asked.key)[:_LAST_CALL].strip()
        self.outcome = _outcome_of(asked, result, failed=failed)
        if not failed:
            self.unchecked.update(dict.fromkeys(asked.files, position))
            self._went_well(asked)
        elif every:
            attempt = self._failed(asked.tried, every, position)
            attempt.kinds = frozenset(checks_in(asked.script))
        if not failed:
            self._note_tasks(asked, result.text[:_LOOKED_AT])
            self.uncommitted.update(dict.fromkeys(asked.files, position))
            for file in asked.files:
                self.files[file] = self.files.pop(file, (0, 0))[0] + 1, position
        if asked.command:
            came_to = every[0] if failed and every else None
            self._ran(asked, came_to, checks_came_to(asked.script, result.text, came_to), position)
            if "git" in map(program_of, steps_of(asked.script)):
                self._note_repository(result.text, asked.script)

    def _note_tasks(self, asked: _Asked, text: str) -> None:
        """Take down the task that was made, or the list as it is shown."""
        if asked.task and (made := _TASK_ID.search(text)):
            self.tracked[made[1]] = asked.task, False
        if "tasklist" in asked.key[0].lower().replace("_", ""):
            listed = _LISTED_TASK.findall(text)
            self.tracked.update(
                {i: (words.strip(), status in _DONE) for i, status, words in listed}
            )

    def _note_repository(self, text: str, script: str) -> None:
        """Take down what git said of branch and commit."""
        if _ELSEWHERE.search(script):
            return
        if "show-current" in script or "--abbrev-ref HEAD" in script:
            named = text.strip()
            self.branch = named if named and not _SPACE.search(named) else self.branch
        for found in _BRANCH.finditer(text[:_LOOKED_AT]):
            self.branch = found["branch"]
        for found in _COMMITTED.finditer(text[:_LOOKED_AT]):
            self.branch = found["branch"]
            self.commit = f"{found['hash']} {found['title'].strip()}"
            self.commits.append(self.commit)
            self.uncommitted.clear()

    def observed(self, text: str, position: int) -> None:
        """Take down an observation of an agent that calls its tools in plain text."""
        found = anchors.error_lines(text)
        if found:
            self._failed(("", ""), found, position)

    def _failed(self, key: tuple[str, str], lines: list[str], position: int) -> Attempt:
        key = key if key[0] else ("", lines[0])
        attempt = self.attempts.pop(key, Attempt())
        attempt.failed(lines, position)
        self.attempts[key] = attempt
        return attempt

    def _went_well(self, asked: _Asked) -> None:
        if attempt := self.attempts.get(asked.tried):
            attempt.outcome = "passed"
        for attempt in self.attempts.values() if asked.files else ():
            if attempt.outcome == "fails":
                names = [*attempt.written, *(f for f in asked.files if f not in attempt.written)]
                attempt.written = names[-4:]

    def _ran(
        self,
        asked: _Asked,
        outcome: str | None,
        checks: Mapping[str, tuple[str, str | None]],
        position: int,
    ) -> None:
        run = self.commands.setdefault(asked.command or "", Command())
        run.outcome, run.answered = outcome, True
        run.is_check = bool(checks_in(asked.script))
        for kind, (step, failed) in checks.items():
            self.checked.pop(kind, None)
            self.checked[kind] = position, step, failed
        passed = {kind for kind, (_, failed) in checks.items() if failed is None}
        if passed:
            self.unchecked.clear()
            for attempt in self.attempts.values():
                if attempt.outcome == "fails" and attempt.kinds & passed:
                    attempt.outcome = "checked"

    def open_tasks(self) -> list[str]:
        """What is still to do by the last state of every list."""
        rows = [*self.tasks, *self.tracked.values()]
        return list(dict.fromkeys(words for words, done in rows if not done))

    def done_tasks(self) -> list[str]:
        """What is done by the last state of every list."""
        rows = [*self.tasks, *self.tracked.values()]
        return list(dict.fromkeys(words for words, done in rows if done))

    def trim(self) -> None:
        """Forget the oldest, so that memory stays bounded."""
        while len(self.attempts) > MOST_ATTEMPTS:
            del self.attempts[next(iter(self.attempts))]
        if len(self.commands) > MOST_KEPT:
            newest = sorted(self.commands.items(), key=lambda row: row[1].positions[-1:] or [0])
            self.commands = dict(newest[-MOST_KEPT // 2 :])
        for files in (self.unchecked, self.uncommitted, self.files, self.read):
            while len(files) > MOST_KEPT:
                del files[next(iter(files))]


def _defined(values: Sequence[tuple[str, str]]) -> list[str]:
    """The first names that source code which is written defines, without those it only replaces."""
    old = "\n".join(v for k, v in values if k in ("old_string", "old_str"))
    new = "\n".join(v for k, v in values if k in EDIT_KEYS and k not in ("old_string", "old_str"))
    names = dict.fromkeys(_DEFINES.findall(anchors.searched(new)))
    return [name for name in names if name not in old][:12]


def _object(arguments: str) -> dict[str, Any]:
    """A call's arguments where they are an object; an empty one where they are none."""
    if '"taskId"' not in arguments and '"subject"' not in arguments and '"plan"' not in arguments:
        return {}
    try:
        value: Any = read_json(arguments)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _first_line(command: str) -> str:
    return command.strip().splitlines()[0][:160]


def _written(values: Sequence[tuple[str, str]]) -> list[str]:
    """The files a call with these arguments writes to."""
    if not any(key in EDIT_KEYS for key, _ in values):
        return []
    names = [v for k, v in values if k not in EDIT_KEYS and len(v) < _LONGEST_PATH]
    names = [v for v in names if " " not in v.strip() or "/" in v.partition(" ")[0]]
    return [a.text for name in names for a in anchors.find_all(name) if a.kind in ("path", "file")]


def _asked_for(values: Sequence[tuple[str, str]]) -> list[str]:
    """The files that a call with these arguments names, what is written left out."""
    short = [v for k, v in values if k not in EDIT_KEYS and len(v) < _TRIED_CHARS]
    found = [a.text for value in short for a in anchors.find_all(value)]
    return [name for name in found if anchors.is_file(name)]


def _outcome_of(asked: _Asked, result: ToolResult, *, failed: bool) -> str:
    """A call that is about no file and no command, with its arguments and what it came to, in one
    line; empty where it only looked something up, or came to nothing.
    """
    call = asked.call
    if call is None or asked.script or asked.subject or not result.text.strip():
        return ""
    keys = anchors.keys_of(call.arguments)
    told = [(k, v) for k, v in anchors.strings_of(call.arguments) if k not in EDIT_KEYS]
    if not _LOOKED_FOR.isdisjoint(keys) or not (told or EDIT_KEYS.isdisjoint(keys)):
        return ""  # it only looked, or all that it says is what it writes
    if call.name.lower().rpartition("__")[2].partition("_")[0] in _LOOKS:
        return ""
    with_ = beginning(", ".join(f"{k}={v}" for k, v in told), _LAST_CALL)
    said = _facts_of(result.text, {v for _, v in told})
    said = said or beginning(result.text, _LAST_CALL)
    return f"{call.name}({with_}) {'failed' if failed else 'gave'}: {said}"


def _facts_of(text: str, known: Collection[str]) -> str:
    """What data say in one line, without what is known; empty where the text holds no data."""
    try:
        value: Any = read_json(text) if text.lstrip()[:1] in "{[" else None
    except ValueError:
        return ""
    pairs = [f"{k}={v}" for k, v in leaves(value) if v is not None and str(v) not in known]
    return ", ".join(dict.fromkeys(pairs))[:_MOST_GIVEN]


def _task_list(call: ToolCall) -> list[tuple[str, str]]:
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


def _tasks_in(rows: list[Any]) -> Iterator[tuple[str, str]]:
    for row in rows:
        if isinstance(row, dict) and "status" in row:
            words = next(
                (row[k] for k in ("content", "title", "step", "description") if row.get(k)), ""
            )
            if words:
                yield str(words), str(row["status"]).lower()

"""The work log: what tools were asked to do and with what result, call by call.

A call and its result become a deed. The log also holds the present state: open tasks, the last
checks, files written since then, branch and commit.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple

from compact.engine.chronology.cutting import gist, stub_of
from compact.messages.arguments import leaves, read_json
from compact.messages.messages import ToolCall, ToolResult
from compact.messages.tokens import TokenCounter
from compact.patterns import regex
from compact.text import anchors
from compact.text.commands import program_of, steps_of
from compact.text.outcomes import (
    checks_came_to,
    outcome_of,
    refusal_of,
    target_of,
    verdict_of_check,
    without_folder,
)
from compact.text.recalls import asks
from compact.text.sentences import beginning

EDIT_KEYS = frozenset(
    ("old_string", "new_string", "content", "patch", "diff", "new_str", "old_str", "new_source")
)
"""Names of arguments whose text is written to a file."""
MOST_KEPT, MOST_DEEDS = 200, 2_000
"""Most files in each table, and most waiting calls; most deeds. The oldest are forgotten."""
_LOOKED_AT = 4_000
"""How many characters of an output are searched for messages from git."""
_TRIED_CHARS = 500
"""Most characters of an argument that may name a file. Longer arguments are text."""
_COMMAND_KEYS = frozenset(("command", "cmd", "script"))
WORKS = _COMMAND_KEYS | EDIT_KEYS - {"content"}
"""Names of arguments of calls that run commands or change files."""
_DONE = frozenset(("completed", "complete", "done", "finished", "deleted", "cancelled"))
_DOING = frozenset(("in_progress", "in progress", "doing", "active", "started"))
_PATCHES = frozenset(("patch", "diff"))
_PATCHED = regex(r"^(?:\*\*\* (?:Add|Update) File: |\+\+\+ (?:b/)?)(?!/dev/null)(\S+)", re.M)
_UNMADE = regex(
    r"^(?:\*\*\* Delete File: (\S+)|--- (?:a/)?(\S+).*\n\+\+\+ /dev/null)", re.MULTILINE
)
"""The line in which a patch names a file that it changes (`_PATCHED`) or deletes (`_UNMADE`)."""
_SHOWS = frozenset(("bat", "cat", "head", "less", "more", "nl", "sed", "tail"))
"""Programs that show a file, and change it only if they are told to."""
_DELETES = ("delete", "remove", "unlink")
"""How the name of a tool begins that deletes files."""
_LONGEST_PATH = 300
"""Most characters of a path. A longer argument is not a path."""
_COMMITTED = regex(
    r"^\[(?P<branch>[^\s\]]+)(?: \([^)\n]{0,80}\))? (?P<hash>[0-9a-f]{7,40})\] (?P<title>.+)$", re.M
)
_BRANCH = regex(
    r"^(?:On branch |\* |Switched to (?:a new )?branch ')(?P<branch>[\w./-]+)'?\s*$", re.M
)
"""How git prints a new commit (`_COMMITTED`) and the branch (`_BRANCH`)."""
_ELSEWHERE = regex(r"/tmp\b|\bgit -C\b|\bmktemp\b")
_LOOKED_FOR = frozenset(
    """
    path pattern plan query questions shell_id skill subject taskId task_id todos url
    """.split()  # noqa: SIM905 - a table to read
)
"""Arguments of calls that look something up or keep a list. Their results are not reported."""
_LOOKS = frozenset(
    """
    calculate check compare count describe examine fetch find get inspect list look lookup peek
    query read retrieve search show think view
    """.split()  # noqa: SIM905 - a table to read
)
"""First words in the names of tools that look something up."""
_MOST_ASKED, _MOST_GIVEN, _MOST_COMMAND, _MOST_NAMES = 200, 200, 70, 5
"""Most characters of a request, of a result and of a command; most names that a call defines."""
_MOST_DATA, _MOST_FACTS = 20_000, 4_000
"""Most characters of data that is parsed; most facts that are remembered."""
_DEFINED = regex(
    r"^[+ \t]*(?:[a-z]{1,20} ){0,3}?(?:class|def|enum|fn|func|function|interface|struct|trait|type)"
    r"[ \t]+(?:\([^()\n]{0,60}\)[ \t]*)?([A-Za-z_]\w{2,60})"
    r"(?=[ \t]*(?:[(:{<=;\[]|$|struct\b|interface\b|extends\b|implements\b))",
    re.MULTILINE,
)
_DOCUMENTS = (".md", ".rst", ".txt")
"""Endings of documents. Code in them is only an example."""
_TASK_ID = regex(r"#(\d+)")
_LISTED_TASK = regex(r"^\W{0,8}(\d+)[.:]?[ \t]+\[(\w+)\][ \t]+([^\n\[]+)", re.MULTILINE)
"""A task in a list: id, status and words, without what may follow in brackets."""
_PUBLISHES = regex(
    r"git (?:commit|push)\b|gh (?:pr|issue|release) (?:create|merge|close|comment)\b"
)
"""A step of a command that others see."""
_TRACEBACK = "Traceback (most recent call last)"
"""The first line of a Python traceback. The last line names the error."""
_URL = regex(r"https?://[^\s\"'<>)]+")

Kind = Literal["changed", "called", "failed", "checked", "wrote", "looked"]
"""`changed`: the git repository or something on its host (issue, pull request) changed; `called`: a
call that may change something; `failed`: the call failed; `checked`: a check ran; `wrote`: a file
was written; `looked`: anything else."""


class Deed(NamedTuple):
    """What a call did, in a few words."""

    position: int
    kind: Kind
    what: str
    came_to: str = ""
    """The result, as printed."""
    failed: bool = False
    """Whether nothing was done, of kinds `changed` and `called`."""


class Run(NamedTuple):
    """The deeds between two texts, joined into parts."""

    parts: list[tuple[Kind, str, int, int]]
    """Kind, words, tokens, and position of the newest deed."""
    best: list[tuple[Kind, float]]
    """Kind → the largest weight per token, as a share of the kind's weight. Age does not count."""


class Check(NamedTuple):
    """The last run of a check."""

    position: int
    step: str
    """The step of the command that ran the check."""
    outcome: str
    """The result of the check, as printed."""
    passed: bool


class _Asked(NamedTuple):
    """A call that waits for its result."""

    call: ToolCall
    position: int
    script: str = ""
    """The whole command."""
    files: tuple[str, ...] = ()
    """Files that the call writes."""
    deletes: tuple[str, ...] = ()
    """Files and branches that the call deletes."""
    defines: tuple[str, ...] = ()
    """Functions and types that the call defines in those files."""
    undefines: tuple[str, ...] = ()
    """Functions and types that the call replaces by others, or by nothing."""
    task: str = ""
    """The words of the task that the call creates."""
    subject: str = ""
    """The first file that the call names; of a command, the one file that it only shows."""


@dataclass(slots=True)
class WorkLog:
    """Everything that tools did so far, and the present state."""

    deeds: list[Deed] = field(default_factory=list)
    """Deeds in the order of their results."""
    forgotten: int = 0
    """How many deeds before them were forgotten."""
    _sizes: tuple[TokenCounter | None, list[tuple[int, float]]] = field(
        default_factory=lambda: (None, []), repr=False
    )
    """The counter that was used, and each deed's tokens and least room."""
    runs: dict[tuple[object, int, int, frozenset[Kind]], Run] = field(default_factory=dict)
    """Cache of joined deeds, by counter, first and last deed, and kinds."""
    tasks: list[tuple[str, bool]] = field(default_factory=list)
    """The newest task list of a tool: each task's words, and whether it is done."""
    doing: str = ""
    """The task that was begun last."""
    tracked: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """Tasks that are created and updated one by one, by id: words, and whether done."""
    checked: dict[str, Check] = field(default_factory=dict)
    """The last run of each kind of check, the newest last."""
    unchecked: dict[str, int] = field(default_factory=dict)
    """Files written since a check last passed → position of the last write."""
    uncommitted: dict[str, int] = field(default_factory=dict)
    """Files written since the newest commit → position of the last write."""
    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Written file → how often, and position of the last write; the newest last."""
    read: dict[str, int] = field(default_factory=dict)
    """File that calls named → position of the last such call; the newest last."""
    stale: set[int] = field(default_factory=set)
    """Positions of outdated results: the file was read again or written since, or what failed there
    passed since.
    """
    cleared: set[int] = field(default_factory=set)
    """The newest of them that a pass cleared. The reader empties it."""
    branch: str = ""
    commit: str = ""
    """The newest commit: hash and title."""
    gone: list[str] = field(default_factory=list)
    """Files, branches, functions and types that calls deleted. The reader of the list clears it."""
    plan: tuple[str, Literal["proposed", "approved", "refused"]] | None = None
    """The newest plan that was shown to the user, and the user's verdict."""
    last: int = 0
    """Position of the newest result."""
    calls: int = 0
    commands: int = 0
    """How many calls there were, and how many of them ran a command."""
    _asked: dict[str, _Asked] = field(default_factory=dict)
    _read: dict[str, tuple[str, int]] = field(default_factory=dict)
    """File that was read → the call's arguments, and position of the last result."""
    _failing: dict[str, list[int]] = field(default_factory=dict)
    """Kind of check, command or call → positions of the failures since it last passed."""
    _several: set[int] = field(default_factory=set)
    """Positions of messages with several results."""
    _home: dict[str, str] = field(default_factory=dict)
    """Function or type → the file in which a call defined it last."""
    _facts: dict[str, None] = field(default_factory=dict)
    """Facts seen in data and calls, newest last. Facts not seen before are reported first."""

    def call(self, call: ToolCall, position: int) -> tuple[str, ...]:
        """Record a call; return the files that it will write."""
        values = anchors.strings_of(call.arguments)
        script = next((v for k, v in values if k in _COMMAND_KEYS and v.strip()), "")
        files = tuple(_written(values))
        named = _asked_for(values)
        for file in named:
            self.read.pop(file, None)
            self.read[file] = position
        subject = _shown(script) if script else (*named, "")[0]
        self.calls += 1
        self.commands += bool(script)
        is_code = not all(file.endswith(_DOCUMENTS) for file in files)
        defines, undefines = _defined(values) if is_code else ((), ())
        deletes = tuple(_deleted(call, values, script, named))
        self._asked[call.id] = _Asked(
            call, position, script, files, deletes, defines, undefines, self._task(call), subject
        )
        while len(self._asked) > MOST_KEPT:
            del self._asked[next(iter(self._asked))]
        return files

    def _task(self, call: ToolCall) -> str:
        """Record what a call says about tasks and plans; return the words of a new task."""
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

    def tool(self, call_id: str) -> str:
        """Return the name of a waiting call's tool, or an empty string."""
        asked = self._asked.get(call_id)
        return asked.call.name if asked else ""

    def tried(self, call_id: str) -> str:
        """Describe a waiting call in one line."""
        asked = self._asked.get(call_id)
        return _about(asked.call) if asked else "a call"

    @property
    def waiting(self) -> str:
        """The newest call in one line, if it still waits for its result."""
        newest = next(reversed(self._asked.values()), None)
        is_last = newest is not None and newest.position >= self.last
        return _about(newest.call) if newest is not None and is_last else ""

    def decided(self, verdict: Literal["refused", "approved"]) -> None:
        """Record the user's verdict on the proposed plan."""
        if self.plan is not None and self.plan[1] == "proposed":
            self.plan = self.plan[0], verdict

    def refused(self, call_id: str, position: int, *, said_why: bool) -> None:
        """Record that the user refused a call. If they said why, their words are shown instead."""
        if (asked := self._asked.pop(call_id, None)) and not said_why:
            self.deeds.append(Deed(position, "failed", _about(asked.call), "refused by the user"))

    def result(self, result: ToolResult, position: int) -> None:
        """Record the result of a call."""
        if position == self.last:
            self._several.add(position)
        asked, self.last = self._asked.pop(result.call_id, None), position
        if asked is None or asks(asked.call):
            return
        outcome = outcome_of(result, asked.call)
        failed = result.is_error or (outcome is not None and outcome.status == "failed")
        line = outcome.detail if outcome is not None and outcome.status == "failed" else ""
        line = "" if line.startswith(_TRACEBACK) else line
        if failed:
            line = line or _named_error(result.text) or anchors.failure(result.text) or ""
        if not failed:
            self._overtake(asked, position)
            self._note_tasks(asked, result.text[:_LOOKED_AT])
            self._wrote(asked, position)
            self._deleted(asked, position)
        if not asked.script:
            self._cleared(_about(asked.call), position if failed else None)
        if asked.script:
            self._ran(asked, result, line if failed else None, position)
        elif result.is_error or (failed and (asked.files or asked.deletes)):
            self.deeds.append(Deed(position, "failed", _about(asked.call), line))
        elif not (asked.files or asked.deletes):
            deed = self._deed_of(asked, result, position)
            self.deeds.append(deed._replace(failed=failed))

    def _overtake(self, asked: _Asked, position: int) -> None:
        for file in asked.files:
            for same in anchors.names_of_file(file, self._read):
                self.stale.add(self._read.pop(same)[1])
        if asked.subject and not asked.files:
            read = self._read.pop(asked.subject, None)
            if read is not None and read[0] == asked.call.arguments:
                self.stale.add(read[1])
            self._read[asked.subject] = asked.call.arguments, position

    def _wrote(self, asked: _Asked, position: int) -> None:
        for file in asked.files:
            told = " ".join(asked.defines[:_MOST_NAMES])
            self.deeds.append(Deed(position, "wrote", file, told))
            self.files[file] = self.files.pop(file, (0, 0))[0] + 1, position
        self.unchecked.update(dict.fromkeys(asked.files, position))
        self.uncommitted.update(dict.fromkeys(asked.files, position))
        gone = [x for x in asked.undefines if self._home.get(x) in (None, *asked.files)]
        self.gone += gone
        for name in gone:
            self._home.pop(name, None)
        self._home.update(dict.fromkeys(asked.defines, (*asked.files, "")[0]))

    def _deleted(self, asked: _Asked, position: int) -> None:
        """Forget files that a call deleted, with what was defined in them."""
        for name in asked.deletes:
            known = anchors.names_of_file(name, dict.fromkeys((*self.files, *self.read)))
            for file in known:
                for table in (self.files, self.read, self.unchecked, self.uncommitted):
                    table.pop(file, None)
                if (read := self._read.pop(file, None)) is not None:
                    self.stale.add(read[1])
                self.gone += [x for x, home in self._home.items() if home == file]
            self.gone += [name, *known]
            if not asked.script:
                self.deeds.append(Deed(position, "called", f"deleted {name}"))
            kept = [x for x in self.deeds if x.kind != "wrote" or x.what not in known]
            if len(kept) < len(self.deeds):
                self.deeds, self._sizes = kept, (None, [])
                self.runs.clear()

    def _deed_of(self, asked: _Asked, result: ToolResult, position: int) -> Deed:
        """Build the deed of a call without command or file: its arguments and result, new facts
        first. The deed of a look-up holds only the call.
        """
        call = asked.call
        values = [(k, v) for k, v in anchors.strings_of(call.arguments) if k not in EDIT_KEYS]
        told = [f"{k}={beginning(v, _MOST_ASKED)}" for k, v in values]
        given = _facts_of(result.text)
        new = [fact for fact in told[1:] if fact not in self._facts]
        came = [fact for fact in given if fact not in self._facts and fact not in told]
        self._remember([*told, *given])
        looks = call.name.lower().rpartition("__")[2].partition("_")[0] in _LOOKS
        if looks or asked.subject or not _LOOKED_FOR.isdisjoint(anchors.keys_of(call.arguments)):
            return Deed(position, "looked", beginning(_about(call), _MOST_COMMAND))
        asked_for = _joined(dict.fromkeys([*told[:1], *new, *told[1:]]), _MOST_ASKED)
        if given:
            said = _joined(dict.fromkeys(came), _MOST_GIVEN) or "nothing new"
        else:
            said = gist(result.text[:_LOOKED_AT], _MOST_ASKED)
        return Deed(position, "called", f"{call.name}({asked_for})", said)

    def _remember(self, facts: Sequence[str]) -> None:
        for fact in facts:
            self._facts.pop(fact, None)
            self._facts[fact] = None
        while len(self._facts) > _MOST_FACTS:
            del self._facts[next(iter(self._facts))]

    def _cleared(self, what: str, failed_at: int | None) -> None:
        """Record where something failed. If it passed, its failures are outdated."""
        found = self._failing.pop(what, [])
        if failed_at is not None:
            self._failing[what] = [*found[-MOST_KEPT:], failed_at]
            return
        self.cleared |= set(found) - self._several - set(chain(*self._failing.values()))
        self.stale |= self.cleared

    def _ran(self, asked: _Asked, result: ToolResult, failed: str | None, position: int) -> None:
        """Record a command: its checks and changes, or only that it ran or failed."""
        checks = checks_came_to(asked.script, result.text, failed)
        for kind, (step, line) in checks.items():
            said = verdict_of_check(step, result.text, line)
            self.checked.pop(kind, None)
            self.checked[kind] = Check(position, _shortened(step), said, passed=line is None)
            self.deeds.append(Deed(position, "checked", _shortened(step), said))
            self._cleared(kind, None if line is None else position)
        if any(line is None for _, line in checks.values()):
            self.unchecked.clear()
        programs = set(map(program_of, steps_of(asked.script)))
        works = not programs.isdisjoint(("git", "gh"))
        made = self._note_repository(result.text, asked.script) if works else []
        changed = [Deed(position, "changed", told) for told in made]
        changed += _published(asked.script, result.text, failed, position, is_made=bool(made))
        self.deeds += changed
        if not (checks or changed):
            came: Kind = "looked" if failed is None else "failed"
            told = f"`{_shortened('; '.join(asked.script.strip().splitlines()))}`"
            self._cleared(told, None if failed is None else position)
            self.deeds.append(Deed(position, came, told, failed or ""))

    def _note_tasks(self, asked: _Asked, text: str) -> None:
        if asked.task and (made := _TASK_ID.search(text)):
            self.tracked[made[1]] = asked.task, False
        if "tasklist" in asked.call.name.lower().replace("_", ""):
            listed = _LISTED_TASK.findall(text)
            self.tracked.update(
                {i: (words.strip(), status in _DONE) for i, status, words in listed}
            )

    def _note_repository(self, text: str, script: str) -> list[str]:
        """Record branch and commit; return the commits that the command made."""
        if _ELSEWHERE.search(script):
            return []
        made = list[str]()
        if "show-current" in script or "--abbrev-ref HEAD" in script:
            named = text.strip()
            self.branch = named if named.split() == [named] else self.branch
        for found in _BRANCH.finditer(text[:_LOOKED_AT]):
            self.branch = found["branch"]
        for found in _COMMITTED.finditer(text[:_LOOKED_AT]):
            self.branch = found["branch"]
            self.commit = f"{found['hash']} {found['title'].strip()}"
            made.append(f"commit {self.commit}")
            self.uncommitted.clear()
        return made

    def observed(self, text: str, position: int) -> None:
        """Record an error in tool output that an agent received as plain text."""
        if line := _named_error(text):
            self.deeds.append(Deed(position, "failed", "a tool", line))

    def open_tasks(self) -> list[str]:
        """Return the words of the open tasks in all lists."""
        rows = [*self.tasks, *self.tracked.values()]
        return list(dict.fromkeys(words for words, done in rows if not done))

    def sized(self, counter: TokenCounter, places: Sequence[int]) -> list[tuple[int, float]]:
        """Return the tokens of these deeds, and the least room for each. Each is counted once."""
        before, known = self._sizes
        known = known if before is counter else []
        if new := self.deeds[len(known) :]:
            sizes = [counter.text(deed.what) + counter.text(deed.came_to) for deed in new]
            known = [*known, *((size, stub_of(size)) for size in sizes)]
            self._sizes = counter, known  # in one step: another window's thread may count too
        return [known[i] for i in places]

    def trim(self) -> None:
        """Forget the oldest entries, so that memory stays bounded."""
        gone = max(0, len(self.deeds) - MOST_DEEDS)
        self.forgotten += gone
        self._sizes = self._sizes[0], self._sizes[1][gone:]
        del self.deeds[:gone]
        self.stale = set(sorted(self.stale)[-MOST_KEPT:])
        self._several = set(sorted(self._several)[-MOST_KEPT:])
        tables = self.unchecked, self.uncommitted, self.files, self.read, self._read
        for files in (*tables, self._home, self._failing):
            while len(files) > MOST_KEPT:
                del files[next(iter(files))]


def _named_error(text: str) -> str:
    """Return the line that names the error, not the first line of a traceback."""
    return next((x for x in anchors.error_lines(text) if not x.startswith(_TRACEBACK)), "")


def _object(arguments: str) -> dict[str, Any]:
    """Parse a call's arguments if they are an object about tasks or plans."""
    if '"taskId"' not in arguments and '"subject"' not in arguments and '"plan"' not in arguments:
        return {}
    try:
        value: Any = read_json(arguments)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _written(values: Sequence[tuple[str, str]]) -> list[str]:
    """Return the files that a call with these arguments writes."""
    if not any(key in EDIT_KEYS for key, _ in values):
        return []
    patched = [file for k, v in values if k in _PATCHES for file in _PATCHED.findall(v)]
    if patched:
        return list(dict.fromkeys(patched))
    names = [v for k, v in values if k not in EDIT_KEYS and len(v) < _LONGEST_PATH]
    names = [v for v in names if " " not in v.strip() or "/" in v.partition(" ")[0]]
    return [a.text for name in names for a in anchors.find_all(name) if a.kind in ("path", "file")]


def _asked_for(values: Sequence[tuple[str, str]]) -> list[str]:
    """Return the files that a call with these arguments names."""
    short = [v for k, v in values if k not in EDIT_KEYS and len(v) < _TRIED_CHARS]
    found = [a.text for value in short for a in anchors.find_all(value)]
    return [name for name in found if anchors.is_file(name)]


def _shortened(command: str) -> str:
    """Shorten a command to its start, without a leading `cd`."""
    words = " ".join(without_folder(command).split())
    return words if len(words) <= _MOST_COMMAND else f"{words[:_MOST_COMMAND].rstrip()}…"


def _about(call: ToolCall) -> str:
    return " ".join((call.name, beginning(target_of(call), _MOST_ASKED))).strip()


def _published(
    script: str, text: str, failed: str | None, position: int, *, is_made: bool
) -> Iterator[Deed]:
    """Yield what a command published, with the address that it printed, or why it did not. With
    `is_made`, its commits are known already.
    """
    steps = [step for step in steps_of(script) if _PUBLISHES.match(step)]
    if "git status" in script:
        text = text.replace("nothing to commit", "")  # of the state, not of a commit
    found = _URL.findall(text) if steps else []
    for step in steps:
        if step.startswith("git commit") and (is_made or _ELSEWHERE.search(script)):
            continue
        why = refusal_of(step, text, failed)
        came_to = (
            (found[-step.startswith("gh")] if found else "") if why is None else why[:_MOST_ASKED]
        )
        yield Deed(position, "changed", _shortened(step), came_to, failed=why is not None)


def _facts_of(text: str) -> list[str]:
    """Return the `key=value` pairs of JSON data; empty for other text."""
    if len(text) > _MOST_DATA or text.lstrip()[:1] not in ("{", "["):
        return []
    try:
        value: Any = read_json(text)
    except ValueError:
        return []
    return [f"{k}={v}"[:_MOST_GIVEN] for k, v in leaves(value) if v is not None]


def _joined(facts: Iterable[str], most: int) -> str:
    """Join as many facts as fit, but at least one."""
    told, left = list[str](), most
    for fact in facts:
        left -= len(fact) + 2
        if left < 0 and told:
            return f"{', '.join(told)}, …"
        told.append(fact[:most])
    return ", ".join(told)


def _defined(values: Sequence[tuple[str, str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names that a call defines in what it writes but not in what it replaces, and
    those of which the reverse is true.
    """
    texts = [(key.startswith("old_"), text) for key, text in values if key in EDIT_KEYS]
    old, new = (
        dict.fromkeys(x for is_old, text in texts if is_old is each for x in _DEFINED.findall(text))
        for each in (True, False)
    )
    return tuple(x for x in new if x not in old), tuple(x for x in old if x not in new)


def _deleted(
    call: ToolCall, values: Sequence[tuple[str, str]], script: str, named: Sequence[str]
) -> Iterator[str]:
    """Yield the files and branches that a call deletes, as it names them."""
    for found in (found for k, v in values if k in _PATCHES for found in _UNMADE.findall(v)):
        yield "".join(found)
    if call.name.lower().rpartition("__")[2].startswith(_DELETES):
        yield from named
    for folder, verb, words in _walked(script):
        names = [word.rstrip("/") for word in words if not word.startswith("-")]
        if verb in ("rm", "mv", "git rm", "git mv"):
            deleted = names[:-1] if verb.endswith("mv") else names
            yield from (posixpath.normpath(posixpath.join(folder, x)) for x in deleted if x)
        elif verb == "git branch" and not {"-d", "-D", "--delete"}.isdisjoint(words):
            yield from names


def _shown(script: str) -> str:
    """Return the file that a command shows and does nothing else with; empty if there is none."""
    files = list[str]()
    for folder, verb, words in _walked(script) if ">" not in script else ():
        if verb not in _SHOWS or any(word.startswith("-i") for word in words):
            return ""
        files += (posixpath.join(folder, word) for word in words if anchors.is_file(word))
    return files[0] if len(files) == 1 else ""


def _walked(script: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the steps of a command: the folder that it is in, its program, and the other words.
    Changes of folder are left out; git's program is two words.
    """
    folder = ""
    for step in steps_of(script):
        verb, *words = [word.strip("'\"") for word in step.split()]
        if verb == "cd" and words:
            folder = posixpath.join(folder, words[0])
        elif verb == "git" and words:
            yield folder, f"git {words[0]}", words[1:]
        else:
            yield folder, verb, words


def _task_list(call: ToolCall) -> list[tuple[str, str]]:
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

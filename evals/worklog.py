"""What a Claude Code log says of the work: which items are open or done, and how each check ended
last. Read from the rows alone; it shares no code with the product.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals.person import Row, text_of

_ITEM = re.compile(r"^\s*[-*] \[( |x|X)\] (.+)$", re.MULTILINE)
_CREATED = re.compile(r"Task #(\w+) created")
_PIECES = re.compile(r"&&|\|\||[;|\n]")
_WORD = re.compile(r"[a-z][a-z0-9_:-]*")
_FAILED = re.compile(
    r"^(?:--- )?FAIL\b|\b[1-9]\d* (?:failed|failures?|errors?)\b|\bexit (?:code|status):? [1-9]",
    re.IGNORECASE | re.MULTILINE,
)
_REFUSED = "The user doesn't want to"
KEY_WORDS = 3
"""Words of a command that tell one check from another."""
TITLE = re.compile(r"^#+ +(.+)$", re.MULTILINE)


ASIDE = frozenset({"cd", "echo", "export", "tail", "head", "grep"})
"""Programs that check nothing."""


@dataclass(frozen=True)
class Command:
    """What was run, and on what."""

    words: tuple[str, ...]
    paths: frozenset[str] = frozenset()

    def clears(self, other: Command) -> bool:
        """Whether a pass of this one says that the other would pass now: the same words, on the
        same paths or on all.
        """
        return self.words == other.words and all(map(self._holds, other.paths or ("./...",)))

    def _holds(self, path: str) -> bool:
        wide = [each.removesuffix("...").lstrip("./") for each in self.paths if "..." in each]
        return (
            not self.paths
            or path in self.paths
            or any(path.lstrip("./").startswith(w) for w in wide)
        )


@dataclass
class Work:
    """The state of the work at the end of a log."""

    open: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    runs: list[tuple[Command, bool]] = field(default_factory=list)
    """What was run, and whether it passed, in the order of time."""
    plan: str | None = None
    """Title of the last plan that a person was asked to accept."""

    def is_overtaken(self, failed: Command) -> bool | None:
        """Whether the last failure of a command was followed by a pass; None where there was no
        such failure.
        """
        same = [n for n, (run, passed) in enumerate(self.runs) if run == failed and not passed]
        like = [n for n, (run, ok) in enumerate(self.runs) if run.words == failed.words and not ok]
        if not (same or like):
            return None
        at = (same or like)[-1]
        first = self.runs[at][0]
        return any(passed and run.clears(first) for run, passed in self.runs[at + 1 :])


def work_of(rows: Sequence[Row]) -> Work:
    """The state of the work at the end of these rows."""
    work = Work()
    todos: dict[str, str] = {}
    tasks: dict[str, tuple[str, str]] = {}
    answer = ""
    for call, result in _calls(rows):
        if isinstance(call, str):
            answer = call
            continue
        name, given = call["name"], call["input"]
        said = text_of(result.get("content")) if result else ""
        if name == "TodoWrite" and isinstance(given.get("todos"), list):
            todos = {item["content"]: item["status"] for item in given["todos"]}
        elif name == "TaskCreate" and (made := _CREATED.search(said)):
            tasks[made[1]] = (given["subject"], "pending")
        elif name == "TaskUpdate" and str(given.get("taskId")) in tasks:
            number = str(given["taskId"])
            subject, status = tasks[number]
            tasks[number] = (given.get("subject", subject), given.get("status", status))
        elif name == "ExitPlanMode" and (title := TITLE.search(str(given.get("plan")))):
            work.plan = title[1].strip()
        elif name == "Bash" and result and not said.startswith(_REFUSED):
            passed = not result.get("is_error") and not _FAILED.search(said)
            work.runs += [(each, passed) for each in commands_of(str(given.get("command")))]
    listed = {text.strip(): "completed" if mark.strip() else "" for mark, text in _listed(answer)}
    for text, status in (*todos.items(), *tasks.values(), *listed.items()):
        if status != "deleted":
            (work.done if status == "completed" else work.open).add(text)
    work.done -= work.open
    return work


def _listed(answer: str) -> list[tuple[str, str]]:
    return _ITEM.findall(answer)


def _calls(rows: Sequence[Row]) -> Iterator[tuple[Any, Row]]:
    """Each call with its result, in the order of the results; an assistant's words as text."""
    waiting: dict[str, Row] = {}
    for row in rows:
        content = (row.get("message") or {}).get("content")
        if row.get("isSidechain") or not isinstance(content, list):
            continue
        for block in content:
            if block["type"] == "tool_use":
                waiting[block["id"]] = block
            elif block["type"] == "tool_result" and block["tool_use_id"] in waiting:
                yield waiting.pop(block["tool_use_id"]), block
            elif block["type"] == "text" and row["type"] == "assistant":
                yield block["text"], {}


def commands_of(line: str) -> list[Command]:
    """What the parts of a command line run, without flags and values."""
    found = []
    for piece in _PIECES.split(line):
        try:
            words = shlex.split(piece)
        except ValueError:
            words = piece.split()
        plain: list[str] = []
        for word in words:
            if word.startswith("-") or "=" in word:
                continue
            if len(plain) == KEY_WORDS or not _WORD.fullmatch(word):
                break
            plain.append(word)
        if plain and plain[0] not in ASIDE:
            paths = (word for word in words if "/" in word and not word.startswith("-"))
            found.append(Command(tuple(plain), frozenset(paths)))
    return found

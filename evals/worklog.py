"""What a Claude Code log says of the work: which items are open or done. Read from the rows alone;
it shares no code with the product.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals.person import Row, text_of

_ITEM = re.compile(r"^\s*[-*] \[( |x|X)\] (.+)$", re.MULTILINE)
_CREATED = re.compile(r"Task #(\w+) created")
TITLE = re.compile(r"^#+ +(.+)$", re.MULTILINE)


@dataclass
class Work:
    """The state of the work at the end of a log."""

    open: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    plan: str | None = None
    """Title of the last plan that a person was asked to accept."""


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

"""A person's words in a Claude Code session, read from the rows of its file and nothing else:
typed, typed while the agent worked (queued), answers to questions, words given with a refusal.

It shares no code with the product, as it is what the product is measured by.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Source = Literal["typed", "queued", "answered", "refusal"]
Row = dict[str, Any]

SHORTEST = 12
"""Characters of a statement: shorter ones would be found by chance."""
PASTED_LINES = 40
"""A message of more lines than this is pasted."""
_SAID = "the user said:\n"
_NOTE = "\n\nNote: The user's next message"
_TAGGED = re.compile(r"<([a-z][a-z_-]*)\b[^>]*>[^<]*</\1>")
_ARGUMENTS = re.compile(r"<command-args>([^<]*)</command-args>")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_LIST_MARK = re.compile(r"^(?:[-*•]|\d+[.)])\s+")


@dataclass(frozen=True)
class Said:
    """Words of a person, and how they reached the agent."""

    source: Source
    text: str

    @property
    def pasted(self) -> bool:
        """Whether it is too long to have been typed."""
        return self.text.count("\n") >= PASTED_LINES

    def statements(self) -> list[str]:
        """Its sentences and list items, without questions and fenced blocks."""
        spoken = "\n".join(self.text.split("```")[::2])
        lines = (_LIST_MARK.sub("", line.strip()) for line in spoken.splitlines())
        every = (piece.strip() for line in lines for piece in _SENTENCE.split(line))
        return [each for each in every if len(each) >= SHORTEST and not each.endswith("?")]


def rows_of(path: Path) -> list[Row]:
    """The rows of a file."""
    # Not splitlines(): that also breaks at U+2028 and the like, inside JSON strings.
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def said(rows: list[Row]) -> list[Said]:
    """All of a person's words in the order of the rows; what was queued and then came as a message
    of its own is typed.
    """
    found = [each for row in rows if not row.get("isSidechain") for each in _of_row(row)]
    typed = {each.text for each in found if each.source == "typed"}
    seen: set[str] = set()
    kept = []
    for each in found:
        twice = each.source == "queued" and (each.text in typed or each.text in seen)
        if each.text and not twice:
            kept.append(each)
        seen.add(each.text)
    return kept


def _of_row(row: Row) -> Iterator[Said]:
    kind, attached = row.get("type"), row.get("attachment") or {}
    if kind == "queue-operation" and row.get("operation") == "enqueue":
        yield Said("queued", _spoken(row.get("content")))
    if kind == "attachment" and attached.get("type") == "queued_command":
        yield Said("queued", _spoken(attached.get("prompt")))
    if kind != "user" or row.get("isMeta") or row.get("isCompactSummary"):
        return
    content = row["message"]["content"]
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if block["type"] == "text":
            yield Said("typed", _spoken(block["text"]))
        elif block["type"] == "tool_result":
            yield from _of_result(block, row.get("toolUseResult"))


def _of_result(block: Row, result: object) -> Iterator[Said]:
    if isinstance(result, dict) and isinstance(result.get("answers"), dict):
        for answer in result["answers"].values():
            yield Said("answered", str(answer).strip())
    if block.get("is_error") and _SAID in (text := text_of(block.get("content"))):
        yield Said("refusal", text.split(_SAID, 1)[1].split(_NOTE, 1)[0].strip())


def text_of(content: object) -> str:
    """The text of a tool result."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part.get("text", "") for part in parts if isinstance(part, dict))


def _spoken(text: object) -> str:
    """The text without what the tool puts around it; words after a slash command are a person's."""
    if not isinstance(text, str):
        return ""
    if arguments := _ARGUMENTS.search(text):
        return arguments[1].strip()
    if text.lstrip().startswith(("<", "[Request interrupted", "Caveat:")):
        text = "" if "-notification>" in text else _TAGGED.sub("", text)
        return "" if text.lstrip().startswith(("[Request interrupted", "Caveat:")) else text.strip()
    return text.strip()

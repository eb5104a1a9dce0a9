"""SpecStory Markdown as turns: which lines are headings of turns and which only look like them.

Code blocks and tool outputs are exported without escapes, so they may hold lines that look like
headings or separators. What a turn says lives in `specstory`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

_HEADING = re.compile(
    r"_\*\*(?P<who>User|Agent)(?P<side> - sidechain)?"
    r"(?: \((?P<model>[^()]*?) ?(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ)?\))?\*\*_"
)
_SESSION = re.compile(r"<!-- (?P<tool>[^<>]+?) Session (?P<id>\S+) \([^()]*\) -->")
_TOOL_OPEN = re.compile(r"<tool-use data-tool-type=")
_TOOL_CLOSE = re.compile(r"(?:</details>)?</tool-use>")
_FENCE = re.compile(r"`{3,}(?P<info>[^`]*)$")


@dataclass(frozen=True, slots=True)
class MarkdownTurn:
    """One heading and the text below it; `line` is the heading's, counted from 1."""

    who: str
    sidechain: bool
    time: datetime | None
    body: str
    line: int


@dataclass(frozen=True, slots=True)
class Head:
    """What stands above the first turn: the coding tool, the session's id and its title."""

    tool: str
    session: str
    title: str | None


def head_of(text: str) -> Head | None:
    """The head of a SpecStory file; None where the text is none."""
    lines = text[:4000].split("\n")[:12]
    title = next((x[2:].strip() for x in lines if x.startswith("# ")), None)
    for line in lines:
        found = _SESSION.match(line.strip())
        if found:
            return Head(found["tool"], found["id"], title)
    return None


def turns_of(text: str) -> list[MarkdownTurn]:
    """The turns in order. A heading stands alone between empty lines, outside of code and tools."""
    lines = text.replace("\r\n", "\n").split("\n")
    found = list(_headings(lines))
    turns: list[MarkdownTurn] = []
    for place, (index, match) in enumerate(found):
        is_last = place + 1 == len(found)
        end = len(lines) if is_last else found[place + 1][0]
        body = "\n".join(lines[index + 1 : end]).strip("\n")
        if not is_last and (body == "---" or body.endswith("\n---")):
            body = body[:-3].rstrip("\n")
        time = _time(match["time"])
        turns.append(MarkdownTurn(match["who"], bool(match["side"]), time, body, index + 1))
    return turns


def _time(value: str | None) -> datetime | None:
    if value is None:
        return None
    return datetime.strptime(value, "%Y-%m-%d %H:%M:%SZ").replace(tzinfo=UTC)


def _headings(lines: list[str]) -> Iterator[tuple[int, re.Match[str]]]:
    state = _State(lines)
    for index, line in enumerate(lines):
        if line.startswith("_**") and (match := _HEADING.fullmatch(line.rstrip())):
            if _alone(lines, index) and not state.quoted(index):
                state.reset()
                yield index, match
        elif line.startswith(("<", "`")):
            state.see(line)


def _alone(lines: list[str], index: int) -> bool:
    before = index == 0 or not lines[index - 1].strip()
    return before and (index + 1 == len(lines) or not lines[index + 1].strip())


class _State:
    """Whether a line stands inside a tool block or a code block, as far as that can be told."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self.reset()

    def reset(self) -> None:
        """A turn begins."""
        self._in_tool = False
        self._depth = 0

    def see(self, line: str) -> None:
        """Take a line that may open or close a block. Code within tool blocks is not followed."""
        if _TOOL_OPEN.match(line):
            self._in_tool = True
        elif _TOOL_CLOSE.match(line):
            self._in_tool, self._depth = False, 0
        elif not self._in_tool and (fence := _FENCE.match(line)):
            opens = self._depth == 0 or bool(fence["info"].strip())
            self._depth += 1 if opens else -1

    def quoted(self, index: int) -> bool:
        """Whether the heading at the index is only quoted by what stands around it."""
        if self._in_tool:
            return self._tool_closes_after(index)
        return self._depth > 0 and self._code_closes_after(index)

    def _tool_closes_after(self, index: int) -> bool:
        for line in self._lines[index + 1 :]:
            if _TOOL_CLOSE.match(line):
                return True
            if _TOOL_OPEN.match(line):
                return False
        return False

    def _code_closes_after(self, index: int) -> bool:
        """Whether the open code block closes below.

        A person's text may open a block and never close it. Then the next fence opens a block of
        its own: it has a language, or a partner before the next heading.
        """
        fences = 0
        for line in self._lines[index + 1 :]:
            fence = _FENCE.match(line)
            if fence:
                if fences == 0 and fence["info"].strip():
                    return False
                fences += 1
            elif fences and line.startswith("_**") and _HEADING.fullmatch(line.rstrip()):
                break
        return fences % 2 == 1

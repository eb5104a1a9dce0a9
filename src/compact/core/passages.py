"""Passages of a text that its speaker passes on rather than says: what a program put there, what
is quoted, what is code or data.

They are found by their form, whoever made them: a pair of tags or brackets of one name that begins
a line, a fence, lines that open with `>`, lines between quotation marks, indented code, JSON, and
whatever follows the label that an agent puts before what a tool said. A tag in the middle of a
sentence is a word like any other. Who speaks is decided in `core.voices`.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

FENCE = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")
LONGEST_QUOTATION = 60
"""Lines within which a quotation mark is closed."""
MOST_TRIED = 50
"""Lines of one text that are tried as the beginning of JSON."""

_OUTPUT = frozenset(
    [
        "output",
        "outputs",
        "result",
        "results",
        "response",
        "responses",
        "observation",
        "observations",
        "return",
        "returns",
        "returncode",
        "stdout",
        "stderr",
        "error",
        "errors",
    ]
)
"""What tools give: a tag whose name ends so is a tool's."""
_MAY_BE_OUTPUT = re.compile("|".join(_OUTPUT), re.IGNORECASE)
_TOOLS = frozenset("tool tools function functions action execution call observation".split())  # noqa: SIM905
"""Who gives it. A label needs both: `Output:` is how people write, `Tool output:` is not."""
_LINKS = frozenset("of a an the for from begin start end".split())  # noqa: SIM905
_PERSONS = frozenset(("user", "human"))
"""A tag whose name begins so says that a person typed what stands in it."""

_TAG = re.compile(
    r"[ \t]*(?:<\|?(?P<angle>[A-Za-z][\w.:-]*)(?P<more>[^<>\n]*)>"
    r"|\[(?P<square>[A-Za-z][\w.:-]*)[^\[\]\n]*\])"
)
_NUMBER = re.compile(r"-?\d+")
"""What a tag holds that tells how a call ended: its output follows."""
_CLOSING = re.compile(r"(?:<\|?|\[)/(?P<name>[A-Za-z][\w.:-]*)[ \t]*\|?[>\]]")
_BEFORE = re.compile(r"(?P<marks>[^\w\s]{0,12})[ \t]*")
_BULLET = re.compile(r"[-*+•>][ \t]")
_AFTER = re.compile(r"\W*$|[\])}|*_ ]*:|[ \t]+[^\s:]+[ \t]*:\W*$")
_AFTER_OPEN = re.compile(r"[^\[\]<>\n]{0,200}[\]>]")
"""How a label ends, and one in brackets."""
_END = re.compile(r"^[ \t]*[^\w\s]{1,12}[ \t]*(?i:end)\b[\w _-]{0,60}[^\w\s]*[ \t]*$", re.MULTILINE)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_QUOTED = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?>")
_LISTED = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]")
_MARKS = {
    **{'"': ('"',), "“": ("”",), "„": ("“", "”"), "«": ("»",), "「": ("」",), "『": ("』",)},
    '"""': ('"""',),
}
_OPENS = re.compile(r'(?:^[ \t]*|[:：,][ \t]+)(?P<mark>"""|["“„«「『])(?P<rest>.*)$')
_CLOSED = re.compile(r"[ \t.,;:!?)*_]*$")
_JSON = json.JSONDecoder()


class Passage(NamedTuple):
    """Where in a text something stands that its speaker did not say."""

    start: int
    stop: int
    is_tools: bool = False
    """Whether a tool said it; else it may have been quoted or pasted by whoever speaks."""


class _Lines:
    """A text by its lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self.closings: dict[str, re.Match[str]] = {}
        """The last closing tag of each name: what stands in a passage may close it earlier."""
        self.closings_at_ends: dict[str, re.Match[str]] = {}
        for found in _CLOSING.finditer(text):
            self.closings[found["name"]] = found
            if not text[found.end() : found.end() + 200].split("\n", 1)[0].strip():
                self.closings_at_ends[found["name"]] = found
        self.tried = 0
        self._next: dict[str, int] = {}

    def next(self, mark: str, start: int) -> int:
        """Where a mark stands next, asked in order; -1 where it does not."""
        if mark not in self._next or 0 <= self._next[mark] < start:
            self._next[mark] = self.text.find(mark, start)
        return self._next[mark]

    def number(self, at: int) -> int:
        """The line in which a position is."""
        return bisect_right(self.starts, at) - 1

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, number: int) -> str:
        return self.text[self.starts[number] : self.end(number)].rstrip("\r")

    def end(self, number: int) -> int:
        """Where a line ends, its line end left out."""
        return self.starts[number + 1] - 1 if number + 1 < len(self) else len(self.text)


def passages(text: str) -> Iterator[Passage]:
    """The passages of a text, in order."""
    lines, at, number, state = _Lines(text), 0, 0, _Indented()
    while number < len(lines):
        start, line = lines.starts[number], lines[number]
        found = _passage(lines, number, line) if start >= at else None
        if found is None and start >= at and state.is_code(line):
            found = Passage(start, lines.end(number))
        if found is not None:
            at = found.stop
            yield found
        number += 1


def said_in(text: str) -> str:
    """The text without what tools said in it; the same object where there is nothing."""
    if not _MAY_BE_OUTPUT.search(text):
        return text
    return _without(text, [p for p in passages(text) if p.is_tools])


def own_words(text: str) -> str:
    """The text without any passage: what its speaker says there."""
    return _without(text, list(passages(text)))


def own_lines(text: str) -> Iterator[tuple[str, bool]]:
    """The lines of a text, each with whether it begins with its speaker's own words."""
    start, rest = 0, passages(text)
    passage = next(rest, None)
    for line in text.split("\n"):
        while passage is not None and passage.stop <= start:
            passage = next(rest, None)
        yield line, passage is None or start < passage.start
        start += len(line) + 1


def _without(text: str, left_out: list[Passage]) -> str:
    kept, at = list[str](), 0
    for passage in left_out:
        kept.append(text[at : passage.start])
        at = passage.stop
    return "".join([*kept, text[at:]]) if left_out else text


def _passage(lines: _Lines, number: int, line: str) -> Passage | None:
    """The passage that begins with a line, but for indented code."""
    opening = line.lstrip()[:1]
    if not opening:
        return None
    if fence := FENCE.match(line):
        return _fenced(lines, number, fence)
    if _QUOTED.match(line):
        return Passage(lines.starts[number], lines.end(number))
    return (
        _tagged(lines, number, line)
        or _labelled(lines, number, line)
        or (_data(lines, number) if opening in "{[" else None)
        or _between_marks(lines, number, line)
    )


def _fenced(lines: _Lines, number: int, opened: re.Match[str]) -> Passage:
    for last in range(number + 1, len(lines)):
        found = FENCE.match(lines[last])
        if found and not found["info"].strip() and found["fence"].startswith(opened["fence"]):
            return Passage(lines.starts[number], lines.end(last))
    return Passage(lines.starts[number], len(lines.text))


def _tagged(lines: _Lines, number: int, line: str) -> Passage | None:
    """What stands in a pair of tags, to the last one that closes it."""
    tag = _TAG.match(line)
    if tag is None:
        return None
    name = tag["angle"] or tag["square"]
    words = _words(name)
    if words[:1] and words[0] in _PERSONS:
        return None
    is_alone = not line[tag.end() :].strip()
    is_tools = bool(words) and words[-1] in _OUTPUT
    closings = lines.closings if is_alone or is_tools else lines.closings_at_ends
    start, closing = lines.starts[number], closings.get(name)
    if closing is None or closing.start() < start + tag.end():
        return None
    within = lines.text[start + tag.end() : closing.start()]
    is_status = is_tools and _NUMBER.fullmatch(within.strip()) is not None
    return Passage(start, len(lines.text) if is_status else closing.end(), is_tools)


def _labelled(lines: _Lines, number: int, line: str) -> Passage | None:
    """What follows the label of what a tool said: all, or up to a line that says that it ends. One
    that stands between other words, with words of its own behind it, labels a paragraph.
    """
    label = line.strip()
    before = _BEFORE.match(label)
    after = _after_label(label, before.end()) if before and not _BULLET.match(label) else None
    if before is None or after is None or not (before["marks"] or label[:1].isupper()):
        return None
    ends = _AFTER_OPEN if before["marks"].endswith(("<", "[", "|")) else _AFTER
    if not (found := ends.match(label, after)):
        return None
    start = lines.starts[number]
    if start and found.end() < len(label) and ends is _AFTER:
        paragraph = lines.text.find("\n\n", start)
        if paragraph >= 0:
            return Passage(start, paragraph, is_tools=True)
    end = _END.search(lines.text, lines.end(number))
    return Passage(start, end.end() if end else len(lines.text), is_tools=True)


def _after_label(label: str, start: int) -> int | None:
    """Where the words end that name a tool and what it gave; None where they do not."""
    named, end = set[str](), start
    for found in _WORD.finditer(label, start, 200):
        word = found[0].lower()
        if label[end : found.start()].strip(" _-") or not (
            word in _OUTPUT or word in _TOOLS or word in _LINKS or (named and word.isdigit())
        ):
            break
        named.add(word)
        end = found.end()
    is_whole = not label[end : end + 1].isalnum()
    return end if is_whole and named & _OUTPUT and named & _TOOLS else None


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _data(lines: _Lines, number: int) -> Passage | None:
    """JSON that has its lines to itself."""
    if lines.tried >= MOST_TRIED:
        return None
    lines.tried += 1
    start, line = lines.starts[number], lines[number]
    begin = start + len(line) - len(line.lstrip())
    try:
        value, stop = _JSON.raw_decode(lines.text, begin)
    except (ValueError, RecursionError):
        return None
    is_alone = not lines.text[stop : stop + 200].partition("\n")[0].strip(" \t\r,;")
    return Passage(start, stop) if value and is_alone else None


def _between_marks(lines: _Lines, number: int, line: str) -> Passage | None:
    """Lines between quotation marks that the first of them opens."""
    opened = _OPENS.search(line)
    if opened is None:
        return None
    closing = _MARKS[opened["mark"]]
    if any(mark in opened["rest"] for mark in closing):
        return None
    found = [at for mark in closing if (at := lines.next(mark, lines.end(number))) >= 0]
    last = lines.number(min(found)) if found else len(lines)
    if last >= min(len(lines), number + LONGEST_QUOTATION):
        return None
    is_closed = _CLOSED.match(lines[last], max(lines[last].rfind(mark) for mark in closing) + 1)
    return Passage(lines.starts[number], lines.end(last)) if is_closed else None


class _Indented:
    """Finds indented code: lines that are indented as code is, after an empty one, in no list."""

    def __init__(self) -> None:
        self._in_list = self._is_open = False
        self._after_empty = True

    def is_code(self, line: str) -> bool:
        """Whether the next line is code."""
        if not line.strip():
            self._after_empty = True
            return False
        if line.startswith(("    ", "\t")):
            is_code = not self._in_list and (self._after_empty or self._is_open)
        else:
            is_code, self._in_list = False, _LISTED.match(line) is not None
        self._is_open, self._after_empty = is_code, False
        return is_code

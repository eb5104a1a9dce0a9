"""Finds passages that the speaker of a text did not write: tool output, quotations, code, data.

Only the form of a passage counts. A passage is one of these:

- a text in tags or brackets named after tool output or a kind of text (`<page>`), or in tags that
  name a source (`<x url=…>`);
- a fence, lines after `>`, lines between quotation marks, indented code, or JSON;
- the text after a label that an agent puts before tool output (`Tool output:`);
- a block that the user pasted without marks (`text.pasted`).

Users divide requests by other tags (`<rules>`); these hold the user's own words. In a model's
answer, nearly every pair of tags is a passage. `text.speakers` decides who wrote a message.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from compact.messages.cached import cached_property
from compact.messages.characters import piecewise
from compact.patterns import regex
from compact.text.pasted import MATERIAL, block, closing

FENCE = regex(r"[ \t]*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?(?P<fence>`{3,}|~{3,})(?P<info>[^`~]*)$")
LONGEST_QUOTATION = 60
"""A quotation has at most this many lines. An opening mark without a closing one is ignored."""
MOST_TRIED = 50
"""How many lines of a text are tried as the start of JSON. A failed try may read far ahead."""

_OUTPUT = frozenset(
    (  # noqa: SIM905
        "output outputs result results response responses observation observations return returns "
        "returncode stdout stderr error errors"
    ).split()
)
"""Names of tool output. A tag whose name ends in one of these words holds tool output."""
_OUTPUT_SIGNS = (
    *("tool", "function", "command", "<|", "output", "result", "response", "observation"),
    *("return", "stdout", "stderr", "error"),
)
"""A quick test: every text with tool output contains one of these, in upper or lower case."""
_TOOLS = frozenset("tool tools function functions action execution call observation".split())  # noqa: SIM905
"""Names of tools. A label needs one of these and a name of output, since users write `Output:` but
not `Tool output:`."""
_SURE = frozenset(("tool", "tools", "observation", "observations"))
"""Names of tools that users do not write. `Function output: …` may begin a user's request."""
_LINKS = frozenset("of a an the for from begin start end".split())  # noqa: SIM905
_PERSONS = frozenset(("user", "human"))
"""A tag whose name begins with one of these words holds the user's words."""
_OTHERS = frozenset("system environment assistant agent tool function web retrieved".split())  # noqa: SIM905
"""A tag whose name begins with one of these words holds another speaker's words."""
_SOURCED = regex(r"\b(?:url|uri|href|src|path|file\w{0,9}|source|title|author)[ \t]*=", re.I)
"""An attribute that says where a tag's text comes from."""
_HTML = frozenset(
    (  # noqa: SIM905
        "a b i u s p q br hr em strong div span font center big small sub sup mark del ins kbd img "
        "h1 h2 h3 h4 h5 h6 ul ol li dl dt dd"
    ).split()
)
"""HTML elements that an editor puts around the user's words."""

_TAG = regex(
    r"(?:<(?P<slash>/?)\|?(?P<angle>[A-Za-z][\w.:-]{0,80})(?![\w.:-])(?P<more>[^<>]{0,300})>"
    r"|\[(?P<cut>/?)(?P<square>[A-Za-z][\w.:-]{0,80})(?![\w.:-])(?P<rest>[^\[\]\n]{0,300})\])"
)
_BEFORE = regex(r"(?P<marks>[^\w\s]{0,12})[ \t]*")
_BULLET = regex(r"[-*+•>][ \t]")
_AFTER = regex(r"\W*$|[\])}|*_ ]*:|[ \t]+[^\s:]+[ \t]*:\W*$")
_AFTER_OPEN = regex(r"[^\[\]<>\n]{0,200}[\]>]")
"""What may follow the words of a label (`_AFTER`), and of a label in brackets (`_AFTER_OPEN`)."""
_STATED = regex(
    r"(?:\[[^\[\]]{2,}\][ \t]+(?:output|result|response|observation)s?"
    r"|(?:the[ \t]+)?(?:output|result|response|observation|error)s?[ \t]+(?:of|from|by)[ \t]+"
    r"(?:[^\s:]+[ \t]+){0,5}(?:tool|function|command)(?:[ \t]+call)?"
    r"|(?:[^\s:]+[ \t]+){0,5}(?:tool|function|command)(?:[ \t]+call)?[ \t]+"
    r"(?:returned|responded|replied|printed|said|says|gave|reported)(?:[ \t]+\w+){0,2})[ \t]*:",
    re.IGNORECASE,
)
"""Other lines before tool output: `[the call] Result:`, or a sentence (`The tool returned:`)."""
_ACTION = regex(
    r"^[^\w\n]{0,12}(?:action|tool|call|function|command)s?\b[\w \t]{0,40}[^\w\s]{0,3}:",
    re.IGNORECASE | re.MULTILINE,
)
"""A line in which an agent announces a call in plain text, such as `Action:`."""
_LONGEST_LABEL = 200
"""How many characters of a line are searched for a label."""
_ROLE = regex(r"Tool:[ \t]*\S|<\|(?:\w{1,40}\|>[ \t]*)?(?i:tool|function|ipython|environment)")
"""How chat templates begin a tool's turn."""
_BANNER = regex(
    r"(?:(?P<begins>[^\w\s]{2,}[ \t]*begin[ \t_]+)|\[)(?P<name>[\w .-]{1,60})[^\w\s]+", re.I
)
"""A line that opens a text up to an end line. After `begin`, the end line may be missing."""
_END = regex(r"^[ \t]*[^\w\s]{1,12}[ \t]*(?i:end)\b[\w _-]{0,60}[^\w\s]*[ \t]*$", re.MULTILINE)
_HEADING = regex(r"^#{1,6} ", re.MULTILINE)
_NO_SPACE = regex(r"\S")
_WORD = regex(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_QUOTED = regex(r"[ \t]*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?>(?![=:]|>> ?\w[\w.]*[ \t]*[(=])")
_CODE = regex(r"[={}<>;\\|$`_]")
_LISTED = regex(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]")
_MARKS = {
    **{'"': ('"',), "“": ("”",), "„": ("“", "”"), "«": ("»",), "「": ("」",), "『": ("』",)},
    '"""': ('"""',),
}
_OPENS = regex(r'(?:^[ \t]*|[:：,=][ \t]+)(?P<mark>"""|["“„«「『])(?P<rest>.*)$')
_CLOSED = regex(r"[ \t.,;:!?)*_]*$")
_JSON = json.JSONDecoder()


class Passage(NamedTuple):
    """A part of a text that its speaker did not write."""

    start: int
    stop: int
    is_tools: bool = False
    """Whether the passage is tool output. If not, the speaker may have quoted or pasted it."""
    is_marked: bool = True
    """Whether the passage has marks such as a fence or a label. If not, only its form shows it."""


class _Tags:
    """Finds pairs of tags. A tag is closed by the tag that balances it, or else by a spare one."""

    def __init__(self, text: str) -> None:
        self._last: dict[str, int] = {}
        self._ends: dict[int, int] = {}
        open_tags, outer = dict[str, list[int]](), dict[str, int]()
        for found in _TAG.finditer(text) if "</" in text or "[/" in text else ():
            name, at = found["angle"] or found["square"], found.end()
            if not (found["slash"] or found["cut"]):
                if not (found["more"] or "").endswith("/"):
                    open_tags.setdefault(name, []).append(at)
                continue
            self._last[name] = at
            opened = open_tags.get(name)
            start = opened.pop() if opened else outer.get(name)
            if start is not None:
                self._ends[start] = at
                if not opened:
                    outer[name] = start

    def end(self, name: str, opened: int, *, is_last: bool) -> int | None:
        """Return where the closing tag for the opening tag that ends at `opened` ends, or None.

        With `is_last`, take the last closing tag of this name: tool output may hold such tags.
        """
        last = self._last.get(name, -1)
        end = self._ends.get(opened, last)
        end = last if is_last else end
        return end if end > opened else None


class Lines:
    """The lines of a text, with lookups that are computed once."""

    def __init__(self, text: str, *, is_answer: bool) -> None:
        self.text = text
        self.is_answer = is_answer  # whether a model wrote the text
        self.begins = len(text) - len(text.lstrip())
        self.starts = [0, *accumulate(len(line) + 1 for line in text.split("\n")[:-1])]
        self.tried = 0
        self._next: dict[str, int] = {}

    @cached_property
    def tags(self) -> _Tags:
        """The pairs of tags."""
        return _Tags(self.text)

    def is_marked(self, number: int) -> bool:
        """Whether a passage with marks (a fence, a tag) begins in the line. Its marks end it."""
        return _passage(self, number, self[number]) is not None

    @cached_property
    def heading(self) -> int:
        """The number of the line with the first heading, which plans by users have; else the number
        of lines.
        """
        found = _HEADING.search(self.text)
        return self.number(found.start()) if found else len(self)

    @cached_property
    def closing(self) -> int:
        """Where the last paragraph begins if it is one question, else the length of the text."""
        return closing(self.text)

    @cached_property
    def ends(self) -> list[int]:
        """The offsets at which lines end that close a banner, such as `--- END ---`."""
        return [found.end() for found in _END.finditer(self.text)]

    def next(self, mark: str, start: int) -> int:
        """Return the next offset of a mark, or -1. Between calls `start` must not decrease."""
        if mark not in self._next or 0 <= self._next[mark] < start:
            self._next[mark] = self.text.find(mark, start)
        return self._next[mark]

    def paragraph(self, start: int) -> int:
        """Return the end of the paragraph at `start`, or of the next one."""
        found = _NO_SPACE.search(self.text, start)
        end = self.text.find("\n\n", found.start()) if found else -1
        return end if end >= 0 else len(self.text)

    def banner(self, start: int) -> int | None:
        """Return the end of the next line that closes a banner; None if no such line follows."""
        at = bisect_right(self.ends, start)
        return self.ends[at] if at < len(self.ends) else None

    def number(self, at: int) -> int:
        """Return the number of the line that contains the offset `at`."""
        return bisect_right(self.starts, at) - 1

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, number: int) -> str:
        return self.text[self.starts[number] : self.end(number)].rstrip("\r")

    def end(self, number: int) -> int:
        """Return the offset at which a line ends, before its line break."""
        return self.starts[number + 1] - 1 if number + 1 < len(self) else len(self.text)


@lru_cache(maxsize=64)  # several readers ask for the same text in turn
def passages(text: str, *, is_answer: bool = False) -> tuple[Passage, ...]:
    """Return the passages of a text in order. `is_answer` says whether a model wrote the text."""
    return tuple(_passages(Lines(text, is_answer=is_answer)))


def _passages(lines: Lines) -> Iterator[Passage]:
    at = number = 0
    state = _Indented(is_answer=lines.is_answer)
    while number < len(lines):
        start, line = lines.starts[number], lines[number]
        found = _passage(lines, number, line) if start >= at else None
        if found is None and start >= at and not lines.is_answer:
            found = _pasted(lines, number)
        if found is None and start >= at and state.is_code(line):
            found = Passage(start, lines.end(number))
        if found is not None:
            at = found.stop
            yield found
        number += 1


def begins_as_typed(text: str) -> bool:
    """Whether the text begins with a label that the user may have typed."""
    label = _label(text.strip().partition("\n")[0].strip())
    return label is not None and not label.marks


def ends_in_call(answer: str) -> bool:
    """Whether a model's answer calls a tool in plain text: after a label, or in a final passage."""
    end = len(answer.rstrip())
    return bool(_ACTION.search(answer)) or any(
        passage.stop >= end for passage in passages(answer, is_answer=True)
    )


def said_in(text: str) -> str:
    """Return the text without tool output; the same object if it has none."""
    folded = piecewise(text, str.casefold)
    if not any(sign in folded for sign in _OUTPUT_SIGNS):
        return text
    return _without(text, [p for p in passages(text) if p.is_tools])


def own_words(text: str) -> str:
    """Return the text without passages. What is left are the speaker's own words."""
    return _without(text, passages(text))


def not_pasted(text: str) -> str:
    """Return the text without the blocks that the user pasted without marks."""
    return _without(text, [p for p in passages(text) if not p.is_marked])


def own_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line of a model's answer, and whether the line begins with the model's words."""
    start, rest = 0, iter(passages(text, is_answer=True))
    passage = next(rest, None)
    for line in text.split("\n"):
        while passage is not None and passage.stop <= start:
            passage = next(rest, None)
        yield line, passage is None or start < passage.start
        start += len(line) + 1


def _without(text: str, left_out: Sequence[Passage]) -> str:
    kept, at = list[str](), 0
    for passage in left_out:
        kept.append(text[at : passage.start])
        at = passage.stop
    return "".join([*kept, text[at:]]) if left_out else text


def _passage(lines: Lines, number: int, line: str) -> Passage | None:
    """Return the passage with marks that begins in the line."""
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
        or _tagged_within(lines, number, line)
    )


def _pasted(lines: Lines, number: int) -> Passage | None:
    """Return the block without marks that begins in the line, or below an announcing line."""
    found = block(lines, number)
    if found is None:
        return None
    start, stop = lines.starts[number] + found.column, max(lines.closing, lines.end(number))
    if found.stops_at is not None:
        stop = lines.starts[number] + found.stops_at
    elif found.stop < len(lines):
        stop = lines.end(found.stop - 1)
    return Passage(start, stop, is_marked=False)


def _fenced(lines: Lines, number: int, opened: re.Match[str]) -> Passage:
    for last in range(number + 1, len(lines)):
        found = FENCE.match(lines[last])
        if found and not found["info"].strip() and found["fence"].startswith(opened["fence"]):
            return Passage(lines.starts[number], lines.end(last))
    return Passage(lines.starts[number], len(lines.text))


def _kind(name: str, more: str, *, is_answer: bool) -> bool | None:
    """Whether the text in a tag is tool output; None if the speaker wrote the text."""
    words = [word.lower() for word in _WORD.findall(name) if not word.isdigit()]
    if not words or words[0] in _PERSONS or name.lower() in _HTML:
        return None
    head = words[-1]
    if head in _OUTPUT:
        return True
    is_others = words[0] in _OTHERS or {head, head.removesuffix("s")} & MATERIAL
    return False if is_others or is_answer or _SOURCED.search(more) else None


def _tagged(lines: Lines, number: int, line: str) -> Passage | None:
    """Return the text in a pair of tags, if the opening tag begins the line."""
    start = lines.starts[number]
    tag = _TAG.match(lines.text, start + len(line) - len(line.lstrip()))
    if tag is None or tag["slash"] or tag["cut"]:
        return None
    name = tag["angle"] or tag["square"]
    is_tools = _kind(name, tag["more"] or tag["rest"] or "", is_answer=lines.is_answer)
    if is_tools is None:
        return None
    is_alone = not _rest(lines.text, tag.end())
    is_last = is_tools and start <= lines.begins and not lines.is_answer
    end = lines.tags.end(name, tag.end(), is_last=is_last)
    if end is None:
        is_cut = is_tools and is_alone and tag["angle"] and not lines.is_answer
        return Passage(start, len(lines.text), is_tools=True) if is_cut else None
    ends_line = not _rest(lines.text, end)
    if not (is_alone or is_tools or ends_line):
        return None
    within = lines.text[tag.end() : min(end, tag.end() + 40)].partition("<")[0]
    # an exit code as the only text of a tag: the call's output follows the tag
    is_status = is_tools and ends_line and within.strip().removeprefix("-").isdecimal()
    return Passage(start, len(lines.text) if is_status else end, is_tools)


def _tagged_within(lines: Lines, number: int, line: str) -> Passage | None:
    """Return the text in a pair of tags that begins in the middle of the line.

    The text must have at least three words, since users write `<code>x</code>` themselves.
    """
    start, stop = lines.starts[number], lines.end(number)
    for tag in _TAG.finditer(lines.text, start, stop) if "<" in line else ():
        name = tag["angle"]
        end = lines.tags.end(name, tag.end(), is_last=False) if name and not tag["slash"] else None
        is_tools = None
        if end is not None and name != "code":
            is_tools = _kind(name, tag["more"], is_answer=lines.is_answer)
        within = lines.text[tag.end() : min(end or 0, tag.end() + 80)]
        if is_tools is not None and end and len(within.split()) > 2:
            return Passage(tag.start(), end, is_tools)
    return None


def _rest(text: str, at: int) -> str:
    return text[at : at + 200].partition("\n")[0].strip()


def _labelled(lines: Lines, number: int, line: str) -> Passage | None:
    """Return the text after a label of tool output.

    If a fence follows, the text is that fence. If the speaker may go on afterwards, the text is one
    paragraph: after the speaker's words, in an answer, or after a label that users write too. Any
    other text ends at an end line or at the end of the message.
    """
    label, start = line.strip(), lines.starts[number]
    if found := _BANNER.fullmatch(label[:_LONGEST_LABEL]):
        kind = _kind(found["name"].strip(), "", is_answer=lines.is_answer)
        end = lines.banner(lines.end(number)) or (len(lines.text) if found["begins"] else None)
        if end or found["begins"]:
            return None if kind is None or end is None else Passage(start, end, kind)
    read = _label(label)
    if read is None or (lines.is_answer and read.marks[:1] in ("#", "*")):
        return None
    is_first = start <= lines.begins and not lines.is_answer
    if read.is_alone and number + 1 < len(lines) and (fence := FENCE.match(lines[number + 1])):
        return Passage(start, _fenced(lines, number + 1, fence).stop, is_tools=True)
    if read.is_sure and (is_first or read.marks.endswith(("<", "|"))):
        end = lines.banner(lines.end(number)) or len(lines.text)
    else:
        end = lines.paragraph(lines.end(number) if read.is_alone else start)
        if len(read.marks) > 1:
            end = lines.banner(lines.end(number)) or end
    return Passage(start, end, is_tools=read.is_sure)


class _Label(NamedTuple):
    """A label before tool output."""

    marks: str
    """The marks before the label's words, such as `[`."""
    is_alone: bool
    """Whether nothing follows the label on the line."""
    is_sure: bool
    """Whether users never write this label above a request."""


def _label(label: str) -> _Label | None:
    if len(label) <= _LONGEST_LABEL and _STATED.fullmatch(label):
        return _Label("", is_alone=True, is_sure=True)
    if found := _ROLE.match(label):
        return _Label("<" if label[0] == "<" else "", is_alone=False, is_sure=True)
    before = _BEFORE.match(label)
    if before is None or _BULLET.match(label):
        return None
    after, named = _named(label, before.end())
    marks, is_known = before["marks"], bool(named & _SURE)
    if after is None or not (marks or label[:1].isupper() or is_known):
        return None
    ends = _AFTER_OPEN if marks.endswith(("<", "[", "|")) else _AFTER
    if not (found := ends.match(label, after)):
        return None
    if not (marks or label[:1].isupper()) and ":" not in label[after:]:
        return None
    is_alone = found.end() == len(label)
    return _Label(marks, is_alone, is_known or (is_alone and "#" not in marks))


def _named(label: str, start: int) -> tuple[int | None, set[str]]:
    """Return where the words end that name a tool and its output, and these words.

    The end is None if the words do not name both a tool and output.
    """
    named, end = set[str](), start
    for found in _WORD.finditer(label, start, _LONGEST_LABEL):
        word = found[0].lower()
        if label[end : found.start()].strip(" _-") or not (
            word in _OUTPUT or word in _TOOLS or word in _LINKS or (named and word.isdigit())
        ):
            break
        named.add(word)
        end = found.end()
    is_whole = not label[end : end + 1].isalnum()
    return (end if is_whole and named & _OUTPUT and named & _TOOLS else None), named


def _data(lines: Lines, number: int) -> Passage | None:
    """Return the JSON value that begins in the line, if nothing follows it on its last line."""
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


def _between_marks(lines: Lines, number: int, line: str) -> Passage | None:
    """Return the lines between quotation marks, if the line opens a quotation."""
    opened = _OPENS.search(line) if any(mark in line for mark in _MARKS) else None
    if opened is None:
        return None
    closing = _MARKS[opened["mark"]]
    if any(mark in opened["rest"] for mark in closing):
        return None
    found = [at for mark in closing if (at := lines.next(mark, lines.end(number))) >= 0]
    last = lines.number(min(found)) if found else len(lines)
    if last >= min(len(lines), number + LONGEST_QUOTATION):
        return None
    at = max(lines[last].rfind(mark) for mark in closing) + len(closing[0])
    is_closed = _CLOSED.match(lines[last], at)
    return Passage(lines.starts[number], lines.end(last)) if is_closed else None


def _is_prose(line: str) -> bool:
    """Whether a line reads as a sentence, and not as code."""
    is_sentence = line[:1].isalpha() and " " in line and line.endswith((".", "!", "?", ",", ":"))
    return is_sentence and not _CODE.search(line)


class _Indented:
    """Finds indented code: indented lines after an empty line, outside lists.

    In a user's message, an indented sentence is prose, unless the text before it ends in a colon.
    """

    def __init__(self, *, is_answer: bool) -> None:
        self._is_answer = is_answer
        self._in_list = self._is_open = self._is_announced = False
        self._after_empty = True

    def is_code(self, line: str) -> bool:
        """Whether the line is code. Call this for each line in order."""
        if not line.strip():
            self._after_empty = True
            return False
        if line.startswith(("    ", "\t")):
            is_code = not self._in_list and (self._after_empty or self._is_open)
            if not (self._is_answer or self._is_open or self._is_announced):
                is_code = is_code and not _is_prose(line.strip())
        else:
            is_code, self._in_list = False, _LISTED.match(line) is not None
            self._is_announced = line.rstrip().endswith(":")
        self._is_open, self._after_empty = is_code, False
        return is_code

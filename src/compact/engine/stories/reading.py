"""Reading: find the summary (story) in a model's answer.

Removed are reasoning, a fence or tag around everything, an announcement, stop tokens, titles and
JSON. Nothing else is changed: the gate judges what was written.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic_core import from_json

from compact.engine.gate.form import SPEAKERS
from compact.messages.arguments import leaves
from compact.patterns import regex
from compact.text.outline import section_named

LONGEST_LINE, TOKENS_PER_LINE, FEWEST_LINES, MOST_LINES = 600, 20, 4, 80
"""`LONGEST_LINE`: most characters of a string in a JSON answer. `TOKENS_PER_LINE`: tokens of the
cap per string. `FEWEST_LINES`, `MOST_LINES`: fewest and most strings."""
_HIDDEN = "think|thinking|thought|reasoning|analysis|scratchpad"
_OPENS = regex(rf"<(?:{_HIDDEN})>", re.IGNORECASE)
_CLOSES = regex(rf"</(?:{_HIDDEN})>", re.IGNORECASE)
_WRAPPED = regex(
    r"\A\s*<(story|summary|answer|output|result)>(.*)</\1>\s*\Z", re.DOTALL | re.IGNORECASE
)
_CODE_FENCE = regex(r"\A```[\w-]{0,20}\n(.*?)\n?(?:```)?\Z", re.DOTALL)
_STOP_TOKEN = regex(r"(?:<\|[^|>\n]{1,30}\|>|</s>|<eos>|<end_of_turn>|\[/INST\])\Z", re.I)
_MARKS = regex(r"^[\s#*_\d.)]+|[\s*_:]+$")
LONGEST_STOP = 40
"""Most characters of a token that ends an answer."""
_ANNOUNCEMENT = regex(
    r"(?:#{1,6} |\*\*)(?:the )?(?:story|summary)(?: of [^\n*]{1,40})?:?(?:\*\*)?:?"
    r"|(?:the )?(?:story|summary):|here(?:['’]s| is) [^\n]{1,80}:",
    re.IGNORECASE,
)
"""A first line that only announces the summary."""
_TITLE = regex(
    r"^[ \t]{0,3}(?:#{1,6}[ \t][^\n]{1,80}|(?:\d{1,2}[.)] )?(?:\*\*|__)[^\n*_]{1,80}(?:\*\*|__):?"
    r"|\d{1,2}[.)] [A-Z][^\n.:]{1,80}:)[ \t]*\n(?=[^\n]*\S|\n)",
    re.MULTILINE,
)
"""A title line above other text. Many models write titles even when told not to."""


def story_of(answer: str) -> str:
    """Return the summary in an answer. Empty if there is none."""
    text = undressed(answer)
    told = read_json(text)
    if told is not None:
        text = "\n".join(each.strip() for each in told if each.strip())
    return _TITLE.sub(_untitled, text).strip()


def _untitled(title: re.Match[str]) -> str:
    """Drop a title, unless it names a speaker or a section: the gate refuses those."""
    words = _MARKS.sub("", title[0]).lower()
    return title[0] if section_named(words) or words in SPEAKERS.split("|") else ""


def undressed(text: str) -> str:
    """Return the answer without reasoning, wrapping, announcement and stop tokens."""
    text = _without_reasoning(text).strip()
    end = len(text)
    while found := _STOP_TOKEN.search(text, max(0, end - LONGEST_STOP), end):
        end = found.start()
        while end and text[end - 1].isspace():
            end -= 1
    text = text[:end]
    for shape in (_WRAPPED, _CODE_FENCE):
        if found := shape.match(text):
            text = found[found.lastindex or 0].strip()
    first, _, rest = text.partition("\n")
    is_announced = _ANNOUNCEMENT.fullmatch(first.strip()) and rest.strip()
    return rest.strip() if is_announced else text


def _without_reasoning(text: str) -> str:
    """Drop reasoning between tags. Drop everything after an open tag without an end, and everything
    before a closing tag without a start.
    """
    opened, ends = _OPENS.search(text), list(_CLOSES.finditer(text))
    if ends and (opened is None or opened.start() > ends[-1].start()):
        return text[ends[-1].end() :]
    pieces, place = list[str](), 0
    while opened := _OPENS.search(text, place):
        pieces.append(text[place : opened.start()])
        closed = _CLOSES.search(text, opened.end())
        place = closed.end() if closed else len(text)
    return "".join((*pieces, text[place:]))


def read_json(text: str) -> list[str] | None:
    """Return the strings of a JSON answer, even of one that breaks off. None for other text."""
    if text[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        value = _cut_off(text)
    is_error = isinstance(value, dict) and "error" in value and "story" not in value
    if value is None or is_error:  # a server reports its failure this way
        return None
    return [each for _, each in leaves(value) if isinstance(each, str)]


def _cut_off(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of JSON that breaks off. None for other errors."""
    try:
        from_json(text)
    except ValueError as error:
        if str(error).startswith("EOF"):
            return from_json(text, allow_partial="trailing-strings")
    return None


def schema(tokens: int) -> dict[str, Any]:
    """Return the JSON schema for a summary of this many tokens: a list of strings."""
    lines = max(FEWEST_LINES, min(MOST_LINES, tokens // TOKENS_PER_LINE))
    line = {"type": "string", "maxLength": LONGEST_LINE}
    return {
        "type": "object",
        "properties": {"story": {"type": "array", "maxItems": lines, "items": line}},
        "required": ["story"],
        "additionalProperties": False,
    }

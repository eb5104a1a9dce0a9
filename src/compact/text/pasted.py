"""Finds text that a user pasted without marks such as fences, by the form of its lines.

Three forms show a pasted block:

- A line *announces* the block: it ends in a colon, and no list follows. A list counts as the
  user's own words, unless the line says that a text follows (`Summarize this list:`).
- A *label* comes before another person's words on the same line (`Anna wrote: …`).
- A line looks like a diff, a table, a comment, a shell prompt or a header, not like a sentence.

In doubt a block counts as pasted: pasted text is still shown, but the user's words are obeyed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from compact.patterns import regex

if TYPE_CHECKING:
    from compact.text.passages import Lines

MATERIAL = frozenset(
    (  # noqa: SIM905
        "document doc page webpage website site article file content text context source data "
        "dataset input body html xml json csv code codebase snippet diff patch log trace traceback "
        "dump transcript conversation chat history mail email message thread post comment review "
        "passage chunk excerpt extract quote example search attachment paste selection clipboard "
        "book chapter paper essay poem paragraph sentence email "
        "abstract summary report letter contract manual readme table record"
    ).split()
)
"""Kinds of text that people paste."""
_HANDED = frozenset(
    (  # noqa: SIM905
        "translate summarize summarise review proofread rewrite rephrase paraphrase explain "
        "analyze analyse classify critique correct improve shorten compare check read tl;dr "
        "forwarded original quoted pasted copied says said wrote writes told tells sent posted "
        "replied answered commented reads feedback system user human assistant "
        "übersetze lies sagt sagte schrieb schreibt traduis traduce 翻译 总结"
    ).split()
)
"""Words before a text by others: a request to work on it (`translate`), or its speaker (`says`)."""
_WISHES = frozenset(
    (  # noqa: SIM905
        "rule requirement constraint instruction goal task plan step preference important remember "
        "reminder want need must should note update correction decision question todo fix ps nb "
        "regel wichtig hinweis ziel aufgabe"
    ).split()
)
"""Words that announce the user's own wishes."""
_POINTS = frozenset("following below folgende folgenden unten".split())  # noqa: SIM905
"""Words that point to text below."""
_NAMES_IT = frozenset("here here's heres this these the my our a an from hier das".split())  # noqa: SIM905
"""First words of a line that only names the text below, such as `here is the log:`."""
_HEADS = frozenset(
    "subject sent cc author betreff gesendet asunto objet content-type user-agent".split()  # noqa: SIM905
)
"""Field names that occur only in the header of a mail, a commit or a server's answer."""

_KNOWN = MATERIAL | _HANDED | _NAMES_IT | _HEADS | _POINTS

_WORD = regex(r"`[^`]*`|[\w-]+\.\w+|[^\s/]*/\S*|[^\W\d_][\w;'’-]*")
_ITEM = regex(r"[ \t]*(?:[-*+•–][ \t]|\(?(?:\d{1,3}|[A-Za-z])[.)][ \t]|\[[ x]\][ \t]|#{1,6}[ \t])")
"""A line of a list, or a heading."""
_ANNOUNCES = regex(r"(?:.*(?:[.!?]\s+|。))?(?P<said>[^\n]{1,200}?)[ \t]*[:：][*_ \t]*$")
_POINTS_ON = regex(r"(?:^|[.!?。]\s+)(?P<said>[^\n]{1,200}?)[.]?$")
_LABEL = regex(
    r"[ \t*_\"'\[]{0,12}(?:[^:：=\n]{0,60}[.!?] )?"
    r"(?P<label>[^\s:：=\[\]{}][^:：={}\n]{0,60}?)[*_\"'\]]{0,4}"
    r"(?:[:：]|[ \t]=)[ \t*_]{1,8}(?P<rest>\S.*)"
)
_KEY = regex(
    r"[ \t]*(?:- (?=[a-z_][\w.-]*[:=]))?(?P<key>[\w\"'][\w.\"'/ -]{0,40})"
    r"(?:[:：](?=[ \t]|$)|[ \t]?=(?!=)|;(?=\w+=))"
)
_ALONE = regex(r" {4}|\t|[ \t]*\[[^\]\n]*\][ \t]*$")
"""Indented code, or a name in brackets alone on its line. A line above does not announce it."""
_CLOSES = {'"': '"', "“": "”", "„": "“", "«": "»"}
_NAME = regex(r"[\w.-]+")
_ADDRESSED = regex(r"[^<>]{0,80}<[^<>\s@]{1,80}@[^<>\s]{1,80}>")
"""A name and a mail address, as in the header of a mail in any language."""
_SENTENCE = regex(r"[\"“(]?[A-ZÀ-Þ](?:[a-zß-ÿ’']| [a-z])(?:[^\n]{8,}[.!)\"”]$|\S*(?: +\S+){5})")
_PATH = regex(r"https?://|[\w-]\.[a-z]{1,5}\b|/\w")
_MARKER = regex(
    r"(?P<marks>[=*~<>+_-])(?P=marks){2,}[ \t]*(?P<words>[\w./ :-]{1,80}?)[ \t]*"
    r"(?:[=*~<>+_-]{2,}[ \t]*)?$"
)
_TITLE = regex(
    r"[ \t]*(?:[\w./-]{1,100}\.[a-z]{1,5}"
    r"|(?:forwarded|original|quoted|pasted|copied) \w{1,20})[ \t]*",
    re.IGNORECASE,
)
"""A line that only names the text below."""
_TO_THE_END = regex(
    r"[^\s\"'$]{0,80}(?: [~\w./-]{1,80}\])?[ \t]?[$%\u276f\u279c][ \t]+(?!\d)\S"
    r"|[\w.-]{1,40}@[\w.-]{1,60}\S*#[ \t]|(?:PS )?[A-Z]:\\[^>\n]{0,80}>|>>>[ \t]|In \[\d+\]:"
    r"|\[!\[|(?:ticket|case|issue|incident|bug) #?\d{2,}(?: ?[—–-] \w{1,16})?$"
    r"|#{1,4} (?:describe the bug|(?:expected|actual) (?:behaviou?r|result)|steps to reproduce)\b"
    r"|[^.!?\n]{0,60}[»|·•—–\[](?:[^.!?\n]|\.(?=\w)){0,30}\d{1,2}:\d\d(?: ?[ap]m)?\]?$"
    r"|[^.!?\n]{1,60} \d{1,2} \w{3,8} ago [|·•–—][^.!?\n]{0,60}$"
    r"|[^.!?\n]{1,60} [·•] \d{1,2} \w{3,8} ago\b[^.!?\n]{0,60}$"
    r"|(?:issue|pull request|merge request|pr|ticket|bug) [#!]?\d+ [^.!?\n]{0,60}\bby \S+$"
    r"|HTTP/\d|<!DOCTYPE|<\?xml|\\begin\{|BEGIN:[A-Z]|commit [0-9a-f]{7,40}$|[^.!?\n]{0,60} ago$",
    re.IGNORECASE,
)
"""Shell prompts, and the beginnings of server answers, documents and posts. Such a block ends where
the text ends."""
_LEAD = regex(
    # no word, quotation, list, tag or emoji: a sign of code, data, drawing
    r"[=;^\\%|\u2300-\u2bff]|[<'][ \t]|//|/\*|\*/|<!--|-- \w|\+(?:[ \t]{2}|(?![\s\d+]))|@@ |#!"
    r"|\"{3}|'{3}|REM "
    # a time or a place, as logs, chats and tools write it
    r"|[\[(]?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|[\[(]\d{1,2}[:./]\d\d?|[\d:,.]{8,12} --> "
    r"|\d{1,2}[./]\d{1,2}[./]\d{2,4},? \d{1,2}:\d\d|\d\d:\d\d:\d\d[,.]\d"
    r"|\d\d?:\d\d(?::\d\d)?[ \t]+(?:@|<[@+ ]?)\S|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d"
    r"|[^\W\d](?:[^.!?\n]|\.(?=\w)){0,40}(?:  |, | [—–] [^.!?\n]{0,24}?)\[?\d{1,2}:\d\d"
    r"(?: ?[AP]M)?\]?$"
    r"|\d{1,5}(?:\t| {2})|[\w./\\-]{1,120}\.\w{1,5}:\d+(?::\d+)?[:-]|<[\w-]{1,30}> \S"
    # a level, an error
    r"|\[?(?:DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL|TRACE|FAILED|PASSED)\b[\]: ]|Traceback \("
    r"|[\w.]{0,60}(?:Error|Exception): "
    # columns, and a remark in brackets
    r"|\S+(?: {2,}\S+){2}|\[[^\]\n:]{1,60}: [^\]\n]*\][ \t]*$"
)
"""How lines of data, code and logs begin."""
_CODE = regex(
    r"[^\n]*[{};][ \t]*$|[^\n]*=>|@\w+[ \t]*$|\w+ \"[^\n]*\"[ \t]*$"
    r"|(?:def|class|import|from|func|fn|function|const|var|return|SELECT|INSERT)\b[^\n]*[(){=;*]"
)
_DIFF = regex(r"diff --git |@@ -\d|--- \S+[ \t]*$|index [0-9a-f]{3,40}\.\.")
_DIFF_LINE = regex(r"[ +\-@\\]|diff |index |new file |deleted |rename |similarity |$")
_COMMENT = regex(r"[ \t]*#(?!#)[ \t]*(?P<words>[^\n#]+)")
_COLUMNS = regex(r"\w+(?: \w+)?(?P<mark>[,;\t|])(?: ?\w+(?: \w+)?(?:(?P=mark)|$))+$")
_PICTURE = regex(
    r"!\[[^\]\n]{0,500}\](?:\([^)\n]{0,500}\)|\[[^\]\n]{0,200}\])?|<img\b[^>\n]{0,500}>", re.I
)
_SALUTATION = regex(
    r"(?:Dear|Hi|Hello|Liebe[rs]?|Sehr geehrte[rs]?|Hallo|Chère?|Estimad[oa]) [^\n.!?]{1,40},$"
)
_CAPTION = regex(r"[^ \ta-zß-ÿ][^\n]{0,77}[^\s.!?,:;…。！？：`]$")
_TIMED = regex(r"(?:.{1,60} )?\d\d?[:.]\d\d(?: \w{1,3})?$")
_FORMAL = regex(r"[<@|·]|https?:|\d[:./]\d\d|^[(\[][^)\]]*[)\]]$|^\W+$")
"""Signs that a line is no sentence: an address, a time, brackets around it, or only marks."""
_ENDED = regex(r".*[.!?:…。！？：][\"”»]?$")
_TREE = regex(r"(?P<key>[a-z_][\w-]*):$")
"""A YAML key alone on its line."""
_PROMPT = regex(r"You are (?:an? )?[A-Z\"]\w|You are an? ")
_ASKS = regex(r"[^.!。\n]{3,400}[?？]\s*")
"""A paragraph that is a single question."""
LONG_COMMENT = 6
"""A line with at least this many words after a single `#` is a comment, not a heading."""
LONGEST_MARKER = 200
"""How many characters of an announcing line are read. Of a longer line, only the end is read."""
LONGEST_HEAD = 12
"""How many lines of a header are read."""
MOST_WORDS, FEW_WORDS = 8, 4
"""A label has at most `MOST_WORDS` words. With fewer than `FEW_WORDS`, it may name a speaker."""


class Pasted(NamedTuple):
    """A pasted block."""

    column: int
    """The offset in the first line at which the block begins."""
    stop: int
    """The number of the line after the block's last line."""
    stops_at: int | None = None
    """The offset in the line at which a one-line block ends; None if it ends with the line."""


def block(lines: Lines, number: int) -> Pasted | None:
    """Return the pasted block that begins in the line, or below it if the line announces one."""
    line = lines[number].rstrip()
    if _DIFF.match(line):
        return Pasted(0, _while(lines, number, _DIFF_LINE.match))
    if (
        _TO_THE_END.match(line.lstrip())
        or _is_marker(lines, number, line)
        or _is_letter(lines, number, line)
        or (_opens(lines, number) and _is_headed(lines, number, line))
    ):
        return Pasted(0, len(lines))
    if _LEAD.match(line.lstrip()) or _is_code(line) or _is_columns(lines, number, line):
        return Pasted(0, _paragraph(lines, number))
    return (
        _comment(lines, number, line)
        or _announced(lines, number, line)
        or _run(lines, number, line)
        or _labelled(lines, number, line)
        or _picture(line, number)
    )


def closing(text: str) -> int:
    """Return where the last paragraph begins if it is one question, else the length of the text."""
    # Users often ask about a pasted text below it.
    start = text.rstrip().rfind("\n\n") + 2
    return start if start > 1 and _ASKS.fullmatch(text, start) else len(text)


def _comment(lines: Lines, number: int, line: str) -> Pasted | None:
    """Return a `#` line that is a comment: a sentence, or a line above code or a comment."""
    found = _COMMENT.match(line)
    if found is None:
        return None
    words, below = found["words"].rstrip(), lines[min(number + 1, len(lines) - 1)]
    is_long = words.endswith((".", "!")) or len(words.split()) >= LONG_COMMENT
    is_comment = is_long or (
        number + 1 < len(lines) and bool(_COMMENT.match(below) or _is_code(below))
    )
    return Pasted(0, number + 1) if is_comment else None


def _is_code(line: str) -> bool:
    return bool(_CODE.match(line.strip()))


def _announced(lines: Lines, number: int, line: str) -> Pasted | None:
    """Return the text that the line announces by a final colon or a word such as `below`."""
    tail = line[-LONGEST_MARKER:]
    announces = _ANNOUNCES.match(tail)
    found = announces or _POINTS_ON.search(tail)
    if found is None or _ITEM.match(line) or (below := _next(lines, number)) == len(lines):
        return None
    said = _words(found["said"])
    if announces is None:
        points = _POINTS.intersection(said) and MATERIAL.intersection(said)
        return Pasted(len(line), len(lines)) if points else None
    if _ALONE.match(lines[below]) or lines.is_marked(below):
        return None
    is_own = _ITEM.match(lines[below]) or _WISHES.intersection(said) or number > lines.heading
    if is_own and not _hands_over(said, found["said"]):
        return None
    start = found.start("said")  # the sentences before the announcement are the user's own
    return Pasted(len(line) - len(tail) + start if start else len(line), len(lines))


def _hands_over(said: list[str], words: str) -> bool:
    """Whether the words before a colon announce a text by others, or only name that text."""
    if _HANDED.intersection(said):
        return True
    if not (MATERIAL.intersection(said) or _PATH.search(words)) or _WISHES.intersection(said):
        return False
    return len(said) <= 2 or said[0] in _NAMES_IT or said[0] in MATERIAL


def _run(lines: Lines, number: int, line: str) -> Pasted | None:
    """Return two or more lines that each begin with a label: data, a dialogue, a mail's header."""
    labels, ours = list[str](), set[str]()
    for at in range(number, min(len(lines), number + LONGEST_HEAD)):
        if (found := _KEY.match(lines[at])) is None:
            break
        labels.append(_one(found["key"].strip(" \t\"'-").lower()))
        if lines[at][:1].isalpha() and found[0][-1] != "=":
            ours |= _WISHES.intersection(_words(labels[-1]))
    if len(labels) < 2 or ours:
        return None
    if _HEADS.intersection(labels) or _ADDRESSED.search(line):
        return Pasted(0, len(lines))
    is_data = all(_NAME.fullmatch(label) for label in labels) and line.lstrip(" \t-")[:1].islower()
    is_data = is_data or lines[number].find("=") > 0 or len(set(labels)) < len(labels)
    return Pasted(0, _paragraph(lines, number)) if is_data else None


def _labelled(lines: Lines, number: int, line: str) -> Pasted | None:
    """Return another person's sentence that follows a label on the same line."""
    found = _LABEL.match(line)
    said = _words(found["label"]) if found else []
    if found is None or _ITEM.match(line) or len(said) > MOST_WORDS:
        return None
    names, rest = set(said[-1:]), found["rest"]
    if names & _HEADS or _ADDRESSED.fullmatch(rest):
        return Pasted(0, len(lines))
    if len(rest.split()) < FEW_WORDS - 1:
        is_name = names & MATERIAL and _PATH.search(rest)
        return Pasted(len(line), len(lines)) if is_name else None
    if _WISHES.intersection(said):
        return None
    if _HANDED.intersection(said) or names & MATERIAL:
        end = _quoted_end(rest)
        at = found.start("rest")
        return Pasted(at, number + 1, at + end) if end else Pasted(at, len(lines))
    is_record = len(lines) == 1 and len(said) == 1  # one message of a chat, after its speaker
    is_quoted = _SENTENCE.match(rest) and not is_record and not _WISHES.intersection(said)
    is_quoted = is_quoted and (_is_name(found["label"]) or rest[0] in '"“' or "this" in said)
    return Pasted(found.start("rest"), _paragraph(lines, number)) if is_quoted else None


def _quoted_end(rest: str) -> int:
    """Return the end of the quotation after a label.

    Return 0 if the quotation does not end in this line, or if nothing follows it there.
    """
    closing = _CLOSES.get(rest[:1], "")
    end = rest.find(closing, 1) + 1 if closing else 0
    return end if rest[end:].strip() else 0


def _is_name(label: str) -> bool:
    """Whether a label looks like a name: few words, none of which begins with a small letter."""
    words = _WORD.findall(label)
    return len(words) < FEW_WORDS and not any(word[0].islower() for word in words)


def _picture(line: str, number: int) -> Pasted | None:
    """Return the part of the line from its first picture to its last, with alternative texts."""
    found = list(_PICTURE.finditer(line)) if "![" in line or "<" in line else []
    return Pasted(found[0].start(), number + 1, found[-1].end()) if found else None


def _is_marker(lines: Lines, number: int, line: str) -> bool:
    """Whether the line opens a text: it is a row of marks with a title, or a bare file name."""
    found = _MARKER.match(line) if len(line) <= LONGEST_MARKER else None
    if found is None:
        return bool(_TITLE.fullmatch(line)) and number + 1 < len(lines)
    words = _words(found["words"])
    is_named = {"begin", "start", *MATERIAL}.intersection(map(_one, words))
    return bool(is_named or found["marks"] in "<>" or _PATH.search(found["words"]))


def _is_columns(lines: Lines, number: int, line: str) -> bool:
    """Whether the line holds the column names of a table, such as CSV, and a row follows."""
    found = _COLUMNS.match(line)
    if found is None or number + 1 == len(lines):
        return False
    count, is_loose = line.count(found["mark"]), ", " in line
    return count > is_loose and lines[number + 1].count(found["mark"]) >= count


def _is_letter(lines: Lines, number: int, line: str) -> bool:
    """Whether a letter begins in the line, below the user's words."""
    return number > 1 and not lines[number - 1].strip() and bool(_SALUTATION.match(line))


def _opens(lines: Lines, number: int) -> bool:
    """Whether the line opens a paragraph below the user's words and above the first heading."""
    return 1 < number < lines.heading and not lines[number - 1].strip()


def _is_headed(lines: Lines, number: int, line: str) -> bool:
    """Whether the line is a title of the line below, in a form that users do not write."""
    if _PROMPT.match(line) and lines[_above(lines, number)].rstrip().endswith("?"):
        return True
    below = lines[number + 1].rstrip() if number + 1 < len(lines) else ""
    is_wish = _WISHES.intersection([line.lower(), line.lower().removesuffix("s")])
    if not below or is_wish or _ITEM.match(line):
        return False
    if found := _TREE.match(line):
        after = _while(lines, number, lambda line: line.startswith(("  ", "- ")))
        is_more = after < len(lines) and _KEY.match(lines[after])
        is_wish = _WISHES.intersection(_words(found["key"]))
        return after > number + 1 and bool(is_more or not is_wish)
    if _TIMED.match(line) or _TIMED.match(below):
        return True
    if _CAPTION.match(line) is None:
        return False
    is_form = line.isupper() or below[0] == " " or any(map(_FORMAL.search, (line, below)))
    return is_form or (_ENDED.match(below) is not None and not _ITEM.match(below))


def _above(lines: Lines, number: int) -> int:
    """Return the number of the nearest non-empty line above; 0 if there is none."""
    return next((n for n in range(number - 1, 0, -1) if lines[n].strip()), 0)


def _while(lines: Lines, number: int, is_in: Callable[[str], object]) -> int:
    """Return the number of the first line below of which `is_in` is not true."""
    return next((n for n in range(number + 1, len(lines)) if not is_in(lines[n])), len(lines))


def _paragraph(lines: Lines, number: int) -> int:
    """Return the number of the next empty line."""
    return _while(lines, number, str.strip)


def _next(lines: Lines, number: int) -> int:
    """Return the number of the next non-empty line."""
    return _while(lines, number, lambda line: not line.strip())


def _words(text: str) -> list[str]:
    return [_one(word) for word in _WORD.findall(text.lower())]


def _one(word: str) -> str:
    """Return the word without a plural `s`; unchanged if this module's word lists contain it."""
    return word if word in _KNOWN else word.removesuffix("s")

"""Splits prose into lines and sentences, and finds the topic of a sentence.

Markdown is read line by line; code fences, tables and pasted logs are skipped. The words that show
a topic are English, German and Chinese. A sentence in another language has the topic `facts`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

from compact.patterns import one_of, regex

Topic = Literal["decisions", "facts", "done", "open", "plan", "errors"]

LONG_LINE = 320
"""A line of more characters is split into its sentences."""

SHORTEST = 25
"""A line of fewer characters is a fragment."""

REMEMBERED = 4_096
"""How many sentences are cached with their topic or score."""

_BULLET = regex(r"^\s*(?:(?:[-*+•]|\d{1,3}[.)]|#{1,6}|>|\[[ xX]\])\s+)+")
_EMPHASIS = regex(r"\*\*|__|(?<!\w)\*(?=\S)|(?<=\S)\*(?!\w)")
_SENTENCE_END = regex(
    r"(?<=[.!?…])(?<!\b[A-Z]\.)(?<!\b(?:Mr|Ms|Dr|St)\.)(?<!\b(?:Mrs|Sra|Mme)\.)"
    r"[\"')\]”]*\s+(?=[\"'(\[“]?[A-ZÀ-ÞА-Я0-9`*])|(?<=[。！？；])"
)
_LOG_LINE = regex(
    r"^\s*(?:\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|\[\d|at \S+\(|File \"|\+\+\+|---|@@|\||\$ |>>> |"
    r"#\s*\d|[{}\[\]<]|\d+[→:|]\s|"
    r"(?:INFO|DEBUG|WARN(?:ING)?|ERROR|TRACE)\b)"
)


def _cue(words: str, signs: str) -> re.Pattern[str]:
    return regex(rf"\b{one_of(words)}\b|{one_of(signs)}", re.IGNORECASE)


_CUES: tuple[tuple[Topic, re.Pattern[str]], ...] = (
    (
        "decisions",
        _cue(
            r"decided|decision|decide|chose|chosen|instead of|rather than|agreed|we(?:'ll|"
            r" will| should) (?:use|keep|go)|going with|go with|settled|by design|entschieden|"
            r"entscheidung|statt(?:dessen)?|beschlossen",
            "决定|选择|改用|采用|而不是",
        ),
    ),
    (
        "open",
        _cue(
            r"to-?dos?|next steps?|next,|remaining|still (?:need|to|has|have)|not yet|pending|"
            r"follow-?up|needs? to be|left to|unresolved|blocked|later|offen|noch nicht|"
            r"als n(?:ä|ae)chstes|ausstehend",
            "待办|下一步|尚未|还需|接下来",
        ),
    ),
    (
        "errors",
        _cue(
            r"errors?|fail(?:s|ed|ing|ures?)?|bugs?|broken|crash(?:es|ed)?|exception|traceback|"
            r"panic|root cause|problem|issue|wrong|incorrect|missing|regression|"
            r"fehler(?:haft)?|kaputt|absturz|ursache",
            "错误|失败|异常|问题|缺失",
        ),
    ),
    (
        "done",
        _cue(
            r"done|fixed|added|created|implemented|updated|removed|renamed|moved|committed|"
            r"merged|refactored|completed?|now (?:uses?|works?|pass(?:es)?|returns?)|all tests|"
            r"passing|behoben|erledigt|hinzugef(?:ü|ue)gt|ge(?:ä|ae)ndert|umgesetzt|fertig",
            "✅|✓|完成|修复|新增|已经|更新",
        ),
    ),
)
_DEED = regex(
    r"(?:✅|✓|\[x\]|done\b|(?:i(?:'ve| have)? )?(?:fixed|added|created|implemented|updated|removed|"
    r"renamed|moved|committed|merged|refactored|replaced|rewrote|extended|deleted|changed)\b)",
    re.IGNORECASE,
)
"""How a sentence begins that reports something done."""
_PLAN = regex(
    r"(?:(?:we |i |you )?(?:need|needs|have|will need) to|(?:we|i|you) (?:can|could|should|might)|"
    r"add|update|create|use|move|change|replace|make|extend|refactor|rename|remove|implement|"
    r"ensure|check|verify|write|fix|store|pass|return|keep|set|run|call|modify|handle|include)\b",
    re.IGNORECASE,
)
"""How a sentence begins that announces or proposes a step: an imperative, `we need to`, `could`."""
_WEIGHED = regex(
    r"\b(?:option|approach|alternative|variant) ?[0-9A-D]?\b|\b(?:i'd|i would|i) recommend|"
    r"[?？]\s*$",
    re.IGNORECASE,
)
"""Signs of an option or a question, which is not a decision yet."""


def beginning(text: str, most: int) -> str:
    """Return the first `most` characters of a text, with each run of white space as one space.

    The rest of a long text is not read.
    """
    return " ".join(text.split(maxsplit=most)[:most])[:most]


def lines_of(text: str) -> Iterator[str]:
    """Yield the lines of prose without bullets and emphasis. Split long lines into sentences."""
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
            continue
        if fenced or not line.strip() or is_log_line(line):
            continue
        words = bare(line)
        if len(words) <= LONG_LINE:
            yield words
        else:
            yield from sentences_of(words)


def sentences_of(line: str) -> Iterator[str]:
    """Yield the sentences of one line."""
    for sentence in _SENTENCE_END.split(line):
        if sentence and (bare := sentence.strip()):
            yield bare


def is_log_line(line: str) -> bool:
    """Whether a line looks like a log, a trace, a diff or a table rather than prose."""
    return bool(_LOG_LINE.match(line))


def bare(line: str) -> str:
    """Return the line without its bullet, number and emphasis."""
    return _BULLET.sub("", plain(line)).strip()


def plain(line: str) -> str:
    """Return the line without Markdown's emphasis."""
    return _EMPHASIS.sub("", line).strip() if "*" in line or "__" in line else line


@lru_cache(maxsize=REMEMBERED)  # importance, digest and survival ask for the same sentences
def topic_of(sentence: str) -> Topic:
    """Return the topic of a sentence; `facts` if it has no cue."""
    if _DEED.match(sentence):
        return "done"
    if _PLAN.match(sentence):
        return "plan"
    if _WEIGHED.search(sentence):
        return "facts"
    for topic, cue in _CUES:
        if cue.search(sentence):
            return topic
    return "facts"

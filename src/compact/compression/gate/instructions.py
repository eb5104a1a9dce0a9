"""The rule of the gate for what persons said must hold: no summary may drop it or turn it round.

A model that summarizes leaves rules out, or tells them as something that was done. So the clearest
are looked for, and those that are missing are put in word for word: the words are the person's, and
code knows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from compact.compression.extraction.notes import INSTRUCTIONS, REFERENCE, Notes
from compact.compression.fencing import harmless
from compact.compression.gate import tasks
from compact.compression.gate.matter import (
    HEADING,
    Finding,
    Matter,
    rejection,
    telling,
    with_line,
    with_text,
)
from compact.compression.gate.room import Test
from compact.core.checkpoints import Summary, summary_of
from compact.core.instructions import find_instructions, score_of
from compact.core.messages import visible_texts
from compact.core.sentences import sentences_of
from compact.core.voices import person_text, voice_of

CLEAR = 0.6
"""Score from which a sentence is clearly an instruction (`core.instructions`)."""
ROOM_SHARE = 0.25
"""Share of a summary's cap that they may take."""
HELD = 0.8
"""Share of an instruction's telling words that a line must hold to be about it."""
_LINE_TOKENS = 3
_FEWEST = 2
"""Telling words below which two sentences are not compared but by their letters."""
_MORE_WORDS = 8
"""A line with so many more words than twice an instruction's is about something else, too."""
_NEGATES = re.compile(
    r"\b(?:never|not?|none|nothing|nobody|nowhere|cannot|without|avoid\w*|forbid\w*|forbidden|"
    r"refrain\w*|stop\w*|nie(?:mals)?|nichts?|kein\w*|ohne|jamais|pas|sans|nunca|jamás|sin|não|"
    r"sem|mai|non|senza|nooit|niet|geen|nigdy|bez|не|никогда|без)\b|n't\b|不|别|勿|禁止|没",
    re.IGNORECASE,
)


_CLAUSE = re.compile(r"[.,;:!?()、，。；：]+")


class Told(NamedTuple):
    """An instruction, in the order of the conversation."""

    words: str
    order: int


def instructions(summary: Summary, matter: Matter) -> Finding:
    """It holds what persons clearly said must hold, as far as its cap has room for that, and says
    of none of it the opposite.

    What is missing is put in, which may cost the lists of names and files and the least worthy
    lines their place; where it finds no room even so, the summary may not stand in. A line that
    says the opposite is marked.
    What was put together from notes has ranked them itself.
    """
    if isinstance(summary.memo, Notes):
        return Finding(True, "put together from notes")
    told = list(_clearest(matter))
    turned, text = _turned(summary.text, told, matter)
    lines = list(filter(None, map(_bare, summary.text.split("\n"))))
    missing = [each for each in told if not _is_held(each.words, lines)]
    done = f"{len(told):,} clear ones, {turned:,} turned round, {len(missing):,} missing"
    if not turned and not missing:
        return Finding(True, done)
    if not text.strip():
        return Finding(False, done)
    for each in missing:
        text = with_line(text, INSTRUCTIONS, f"- {each.words}")
    is_cut = False
    if missing:
        text, is_cut = tasks.roomy(text, summary, matter, needed(matter))
    if missing and not matter.fits(text):
        return rejection(f"{done}, no room for them")
    done += f"; put in word for word{tasks.CUT if is_cut else ''}"
    return Finding(False, done, with_text(summary, text), is_cut=is_cut)


def needed(matter: Matter) -> Test:
    """Whether a line holds one of the instructions, or tells of an open task."""
    told, is_task = [each.words for each in _clearest(matter)], tasks.needed(matter)
    return lambda line: is_task(line) or any(_is_held(words, [_bare(line)]) for words in told)


def _clearest(matter: Matter) -> Iterator[Told]:
    """The clearest that there is room for, each once, in the order they were said."""
    request = matter.request
    seen = [_bare(text) for text in visible_texts(request.kept)]
    found = dict.fromkeys(_clear(matter))
    rows = [Told(words, order) for order, words in enumerate(found)]
    rows = [row for row in rows if not any(_bare(row.words) in text for text in seen)]
    room = min(request.max_instruction_tokens, int(ROOM_SHARE * request.max_tokens))
    chosen = []
    for row in sorted(rows, key=lambda row: (-score_of(row.words), -row.order)):
        cost = matter.counter.text(row.words) + _LINE_TOKENS
        if cost <= room and not matter.redacted(row.words)[1]:
            chosen.append(row)
            room -= cost
    return iter(sorted(chosen, key=lambda row: row.order))


def _clear(matter: Matter) -> Iterator[str]:
    """The sentences of persons that clearly are instructions, and what was carried on as such."""
    request = matter.request
    if request.previous:
        yield from _carried(request.previous.text)
    for message in request.messages:
        match voice_of(message):
            case "person":
                yield from _sentences(person_text(message))
            case "checkpoint":
                yield from _carried(summary_of(message.text))
        yield from _sentences(request.answers.get(message.id, ""))


def _sentences(text: str) -> Iterator[str]:
    for found in find_instructions(text, "", 0):
        for sentence in sentences_of(found.text) if found.score >= CLEAR else ():
            if score_of(sentence) >= CLEAR:
                yield " ".join(harmless(sentence).split())


def _carried(text: str) -> Iterator[str]:
    """The lines of an earlier summary's instructions."""
    title = ""
    for line in text.split("\n"):
        if heading := HEADING.match(line):
            title = heading[1]
            continue
        words = line.removeprefix("- ").strip()
        if title == INSTRUCTIONS and not REFERENCE.match(words) and score_of(words) >= CLEAR:
            yield words


def _bare(text: str) -> str:
    return " ".join(text.lower().split())


def _is_held(words: str, lines: Iterable[str]) -> bool:
    """Whether one of the lines says it: in its letters, or with most of its telling words and as
    it was meant.
    """
    exact, wanted = _bare(words), telling(words)
    negates = _negates(words, wanted)
    return any(
        exact in line
        or (
            len(wanted) >= _FEWEST
            and _is_about(telling(line), wanted)
            and _negates(line, wanted) == negates
        )
        for line in lines
    )


def _turned(text: str, told: Iterable[Told], matter: Matter) -> tuple[int, str]:
    """How many lines say the opposite of an instruction, and the text with them marked."""
    lines, turned = text.split("\n"), 0
    rules = [
        (each.words, words, _negates(each.words, words))
        for each in told
        if len(words := telling(each.words)) >= _FEWEST
    ]
    for number in reversed(range(len(lines))):
        line, words = lines[number], telling(lines[number])
        against = [
            rule
            for rule, wanted, negates in rules
            if _is_about(words, wanted)
            and len(words) <= 2 * len(wanted) + _MORE_WORDS
            and _negates(line, wanted) != negates
            and _bare(rule) not in _bare(line)
        ]
        if not against:
            continue
        turned += 1
        marked = [*lines[:number], f"{line} (a person said: “{against[0]}”)", *lines[number + 1 :]]
        short = [*lines[:number], *lines[number + 1 :]]
        lines = marked if matter.fits("\n".join(marked)) else short
    return turned, "\n".join(lines)


def _is_about(words: frozenset[str], wanted: frozenset[str]) -> bool:
    return len(words & wanted) >= HELD * len(wanted)


def _negates(text: str, wanted: frozenset[str]) -> bool:
    """Whether those parts of a sentence deny something that hold one of the words."""
    clauses = _CLAUSE.split(text.replace("’", "'"))
    return any(_NEGATES.search(each) and telling(each) & wanted for each in clauses)

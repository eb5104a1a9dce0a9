"""The rule of the gate for what persons said must hold: no summary may drop it or turn it round.

A model that summarizes leaves rules out, or tells them as something that was done. So the clearest
are looked for, and those that are missing are put in word for word: the words are the person's, and
code knows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from compact.compression.extraction.notes import INSTRUCTIONS, REFERENCE, Notes
from compact.compression.fencing import harmless
from compact.compression.gate import marks, tasks
from compact.compression.gate.matter import (
    HEADING,
    Finding,
    Matter,
    rejection,
    telling,
    with_line,
    with_text,
)
from compact.compression.gate.room import CUT, Test, fitted
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


class _Rule(NamedTuple):
    """An instruction as lines are compared with it."""

    words: str
    exact: str
    telling: frozenset[str]
    negates: bool


def instructions(summary: Summary, matter: Matter) -> Finding:
    """It holds what persons clearly said must hold, as far as its cap has room for that, and says
    of none of it the opposite.

    What is missing is put in, which may cost the lists of names and files and the least worthy
    lines their place; where it finds no room even so, the summary may not stand in. A line that
    says the opposite is marked, or left out where there is no room for the mark; what else only
    that line told is put in again.
    What was put together from notes has ranked them itself.
    """
    if isinstance(summary.memo, Notes):
        return Finding(True, "put together from notes")
    rules = _rules(matter)
    turned, text = _turned(summary.text, rules, matter)
    missing = _unheld(rules, marks.unmarked(text))
    done = f"{len(rules):,} clear ones, {turned:,} turned round, {len(missing):,} missing"
    if not (turned or missing) or not summary.text.strip():
        return Finding(not (turned or missing), done)
    is_shorter = text.count("\n") < summary.text.count("\n")
    lost = tasks.dropped(text, matter) if is_shorter else ()
    text = tasks.appended(text, lost, matter)
    for rule in missing:
        text = with_line(text, INSTRUCTIONS, f"- {rule.words}")
    text, is_cut = fitted(text, summary, matter, _telling_of(rules, matter))
    if (missing or lost) and not matter.fits(text):
        return rejection(f"{done}, no room for them")
    done += f"; put in word for word{CUT if is_cut else ''}"
    return Finding(False, done, with_text(summary, text), is_cut=is_cut or is_shorter)


def needed(matter: Matter) -> Test:
    """Whether a line holds one of the instructions, or tells of an open task."""
    return _telling_of(_rules(matter), matter)


def _telling_of(rules: Sequence[_Rule], matter: Matter) -> Test:
    is_task = tasks.needed(matter)
    return lambda line: is_task(line) or len(_unheld(rules, line)) < len(rules)


def _rules(matter: Matter) -> list[_Rule]:
    stems = ((each.words, telling(each.words)) for each in _clearest(matter))
    return [_Rule(words, _bare(words), told, _negates(words, told)) for words, told in stems]


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


def _unheld(rules: Iterable[_Rule], text: str) -> list[_Rule]:
    """The rules that none of the text's lines says: in its letters, or with most of its telling
    words and as it was meant.
    """
    missing = list(rules)
    for line in filter(str.strip, text.split("\n")):
        if not missing:
            break
        bare, words = _bare(line), telling(line)
        missing = [rule for rule in missing if not _is_held(rule, bare, words)]
    return missing


def _is_held(rule: _Rule, bare: str, words: frozenset[str]) -> bool:
    """Whether a line, given with its telling words, says it."""
    if rule.exact in bare:
        return True
    is_about = len(rule.telling) >= _FEWEST and _is_about(words, rule.telling)
    return is_about and _negates(bare, rule.telling) == rule.negates


def _turned(text: str, rules: Iterable[_Rule], matter: Matter) -> tuple[int, str]:
    """How many lines say the opposite of an instruction, and the text with them marked."""
    compared = [rule for rule in rules if len(rule.telling) >= _FEWEST]
    lines, said = text.split("\n"), dict[int, str]()
    for number, line in enumerate(lines):
        words = telling(line)
        against = (rule for rule in compared if _is_turned(rule, line, words))
        if first := next(against, None):
            said[number] = f"{marks.SAID}{first.words}”)"
    return len(said), marks.marked(lines, said, matter, lambda _: True)


def _is_turned(rule: _Rule, line: str, words: frozenset[str]) -> bool:
    """Whether a line, given with its telling words, says the opposite."""
    return (
        _is_about(words, rule.telling)
        and len(words) <= 2 * len(rule.telling) + _MORE_WORDS
        and _negates(line, rule.telling) != rule.negates
        and rule.exact not in _bare(line)
    )


def _is_about(words: frozenset[str], wanted: frozenset[str]) -> bool:
    return len(words & wanted) >= HELD * len(wanted)


def _negates(text: str, wanted: frozenset[str]) -> bool:
    """Whether those parts of a sentence deny something that hold one of the words."""
    clauses = _CLAUSE.split(text.replace("’", "'"))
    return any(_NEGATES.search(each) and telling(each) & wanted for each in clauses)

"""Rules of the gate that look at the work: goals and open tasks, which no summary may end or drop.

They stand in every prompt beside the summary; what contradicts them is marked as such, or left out
where the mark does not fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from compact.compression.fencing import harmless
from compact.compression.gate import marks
from compact.compression.gate.matter import (
    HEADING,
    Finding,
    Matter,
    rejection,
    with_line,
    with_text,
    words_of,
)
from compact.compression.gate.room import CUT, Test, fitted
from compact.core.checkpoints import Summary
from compact.core.messages import visible_texts

ABOUT = 0.8
"""Share of the words of a goal or task that a line must hold to be about it."""
OPEN, DONE = "Open", "Done"
_MARKER = re.compile(
    r"^(\W{0,4})(?:\[GOALS?\b[^\]\n]{0,80}\]:?[ \t]*)+", re.IGNORECASE | re.MULTILINE
)
"""What sets a goal in a model's output, or heads the goals in a prompt."""
_ENDED = re.compile(
    r"\b(?:done|completed?|finished|achieved|accomplished|fulfilled|reached|cancell?ed|dropped|"
    r"abandoned|no longer (?:needed|wanted|relevant)|erledigt|abgeschlossen|fertig|erreicht|"
    r"verworfen|hech[oa]|terminad[oa]s?|completad[oa]s?|cancelad[oa]s?|faite?s?|terminée?s?|"
    r"achevée?s?|annulée?s?|fatt[oa]|completat[oa]|feit[oa]|concluíd[oa]s?|gedaan|klaar|zrobione|"
    r"готов[оаы]?|выполнен[оаы]?|сделан[оаы]?|отменен[оаы]?)\b|"
    r"完了|완료|✅|✓|\[x\]|完成|取消|放弃",
    re.IGNORECASE,
)
_NOT_ENDED = re.compile(
    r"\b(?:not|never|still|yet|until|before|unless|to be|when|once|nicht|noch|bis|"
    r"aún|todavía|pas|encore|ainda|não|non|ancora|nog|niet|nie|ещё|не)\b|n't\b|\d ?%|未|尚|还",
    re.IGNORECASE,
)
_MORE_WORDS, _FEW = 8, 3
"""A line with so many more words than twice a goal's is about something else, too; a goal of fewer
than `_FEW` words may have only as many beside its own."""


def goals(summary: Summary, matter: Matter) -> Finding:
    """It sets no goal by a marker, and calls no open goal done or dropped."""
    text, markers = _MARKER.subn(r"\1", summary.text)
    while (more := _MARKER.subn(r"\1", text))[1]:  # what one uncovers may look like another
        text, markers = more[0], markers + more[1]
    told, text = _contradicted(text, matter.request.goals, "goal", matter)
    if not markers and not told:
        return Finding(True, f"{len(matter.request.goals):,} open, none contradicted")
    done = f"{markers:,} goal markers taken off, {told:,} claims of an open goal's end marked"
    is_cut = text.count("\n") < summary.text.count("\n")
    return Finding(False, done, with_text(summary, text), is_cut=is_cut)


def tasks(summary: Summary, matter: Matter) -> Finding:
    """It drops no open task that its source speaks of, and calls none of them ended.

    Dropped ones are appended, which may cost the lists of names and files and the least worthy
    lines their place; what finds no room even so is missing, and the summary may not stand in.
    """
    known = tuple(dict.fromkeys(matter.request.open_tasks))
    if not known:
        return Finding(True, "none open")
    told, text = _contradicted(summary.text, known, "task", matter)
    missing = dropped(text, matter)
    count = f"{len(known):,} open, {told:,} called ended, {len(missing):,} dropped"
    if not told and not missing:
        return Finding(True, count)
    is_shorter = text.count("\n") < summary.text.count("\n")
    text, is_cut = fitted(appended(text, missing, matter), summary, matter, needed(matter))
    if missing and not (matter.fits(text) and summary.text.strip()):
        return rejection(f"{count}, no room for them")
    done = f"{count} and appended{CUT if is_cut else ''}"
    return Finding(False, done, with_text(summary, text), is_cut=is_cut or is_shorter)


def appended(text: str, missing: Iterable[str], matter: Matter) -> str:
    """The text with open tasks that it dropped."""
    for task in missing:
        text = with_line(text, OPEN, f"- {' '.join(harmless(matter.redacted(task)[0]).split())}")
    return text


def needed(matter: Matter) -> Test:
    """Whether a line tells of an open task."""
    wanted = [words for task in matter.request.open_tasks if (words := words_of(task))]

    def is_needed(line: str) -> bool:
        held = words_of(line)
        return any(_holds(held, words) for words in wanted)

    return is_needed


def dropped(text: str, matter: Matter) -> tuple[str, ...]:
    """The open tasks that the source speaks of and neither the text nor what is kept does."""
    request = matter.request
    said = [*matter.source, *([request.previous.text] if request.previous else [])]
    kept = list(visible_texts(request.kept))
    lines = [words_of(line) for line in text.split("\n")]
    return tuple(
        task
        for task in dict.fromkeys(request.open_tasks)
        if (words := words_of(task))
        and not any(_holds(line, words) for line in lines)
        and not _spoken_of(words, kept)
        and _spoken_of(words, said)
    )


def _holds(words: frozenset[str], wanted: frozenset[str]) -> bool:
    return len(words & wanted) >= ABOUT * len(wanted)


def _spoken_of(wanted: frozenset[str], texts: Iterable[str]) -> bool:
    """Whether one of the texts holds enough of the words; those that cannot are not cut up."""
    least = ABOUT * len(wanted)
    return any(
        sum(word in lowered for word in wanted) >= least and _holds(words_of(text), wanted)
        for text in texts
        if (lowered := text.lower())
    )


def _contradicted(text: str, known: Sequence[str], what: str, matter: Matter) -> tuple[int, str]:
    """How many lines say of something open that it has ended, and the text with them marked."""
    mark = f"{marks.CLAIMED}{what} is still open)"
    wanted = [words for each in known if (words := words_of(each))]
    lines = text.split("\n")
    told = dict.fromkeys(_claims(lines, wanted), mark) if wanted else {}
    return len(told), marks.marked(lines, told, matter, lambda _: True)


def _claims(lines: Sequence[str], wanted: Sequence[frozenset[str]]) -> Iterator[int]:
    """Numbers of the lines that say of something open that it has ended."""
    section = ""
    for number, line in enumerate(lines):
        if heading := HEADING.match(line):
            section = heading[1]
            continue
        if _NOT_ENDED.search(line):
            continue
        if section != DONE and not _ENDED.search(line):
            continue
        words = words_of(line)
        if any(_is_about(words, each) for each in wanted):
            yield number


def _is_about(words: frozenset[str], wanted: frozenset[str]) -> bool:
    most = 2 * len(wanted) + _MORE_WORDS if len(wanted) >= _FEW else len(wanted) + _FEW
    return _holds(words, wanted) and len(words) <= most

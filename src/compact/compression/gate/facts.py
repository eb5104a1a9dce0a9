"""Rules of the gate that look at facts: secrets, the names that are needed again, and invented
ones.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from compact.compression.extraction.extractive import FILES, MENTIONED, NAMES
from compact.compression.extraction.notes import Notes
from compact.compression.gate import amounts, instructions, marks
from compact.compression.gate.matter import (
    MOST_ANCHORS,
    Asked,
    Finding,
    Matter,
    rejection,
    with_line,
    with_text,
)
from compact.compression.gate.room import CUT, shortened
from compact.core import anchors as facts
from compact.core.anchors import Anchor
from compact.core.checkpoints import Summary
from compact.core.disguises import undisguised

ANCHOR_TOKENS = 40
"""Tokens of cap for each anchor that a summary is asked for ..."""
FEWEST_ANCHORS = 5
"""... at most `MOST_ANCHORS`; where the cap has no room for so few, none."""
LEAST_COVERED = 0.5
"""Share of those anchors that a summary should name of itself; the extractive summaries of real
sessions name all in 114 of 117 cases, and at least half in the others."""
FEW_INVENTED, SHARE_INVENTED = 2, 0.1
"""Invented names that are only told: so many, or such a share of those in the summary."""
MOSTLY_INVENTED = 0.5
"""Share of a summary's names from which invented ones make it worthless."""
_FILES = ("path", "pair", "file", "url")
_CHECKED = frozenset(("path", "file", "identifier", "url", "hash", "version", "reference"))
_MISLEADING = frozenset(("path", "file", "url", "hash"))
"""Kinds of names that a reader would look for in vain."""
_JOINTS = re.compile(r"[\W_]+")


def secrets(summary: Summary, matter: Matter) -> Finding:
    """It holds no secret: neither one that is known by its look or name, nor one of the source,
    spelled or coded as it may be.

    Each is replaced by its kind. Where that takes more tokens than the cap has, lines that held one
    are left out, the last first.
    """
    bare, hidden = undisguised(summary.text, matter.secrets)
    text, found = matter.redacted(bare)
    found = (*hidden, *found)
    names = tuple(name for name in summary.anchors if not matter.redacted(name)[1])
    if not found:
        if len(names) == len(summary.anchors):
            return Finding(True, "none found")
        dropped = len(summary.anchors) - len(names)
        repaired = summary.model_copy(update={"anchors": names})
        return Finding(False, f"{dropped:,} taken out of the anchors", repaired)
    lines, left_out = text.split("\n"), 0
    held = [number for number, line in enumerate(lines) if "[redacted: " in line]
    if matter.fits(summary.text):
        while held and not matter.fits("\n".join(lines)):
            del lines[held.pop()]
            left_out += 1
        text, more = matter.redacted("\n".join(lines))
        found += more
    kinds = ", ".join(dict.fromkeys(secret.kind for secret in found))
    detail = f"{len(found):,} replaced: {kinds}"
    if left_out:
        detail += f"; {left_out:,} of their lines left out, to stay within the cap"
    repaired = with_text(summary, text).model_copy(update={"anchors": names})
    return Finding(False, detail, repaired)


# --- names that are needed again ------------------------------------------------------------------


def anchors(summary: Summary, matter: Matter) -> Finding:
    """Of the source's likeliest anchors, enough are named in it or in what is kept.

    How many are asked for follows from the cap. Those it does not name are appended as far as the
    cap has room: prose is the model's, facts are the machine's. Where that is not enough, the least
    worthy lines that name none of them make room.
    """
    asked = wanted(matter)
    if not asked:
        return Finding(True, "none asked for")
    missing = matter.unnamed(asked, summary.text)
    before = 1 - len(missing) / len(asked)
    share = f"{before:.0%} of {len(asked):,} in view"
    enough = before >= LEAST_COVERED
    if not missing:
        return Finding(True, share, share=before)
    if not summary.text.strip():
        return Finding(enough, f"{share}, nothing to append to", share=before)
    prose = summary.text
    if not enough and not isinstance(summary.memo, Notes):
        prose = _shortened_for(missing, asked, prose, matter)
    text, added = _appended(prose, missing, matter)
    if not added or matter.redacted(text)[1]:
        return Finding(enough, f"{share}, no room for more", share=before)
    after = before + len(added) / len(asked)
    repaired = with_text(summary, text)
    repaired = repaired.model_copy(update={"anchors": (*summary.anchors, *added)})
    is_cut = prose != summary.text
    detail = f"{share}, {after:.0%} with {len(added):,} appended{CUT if is_cut else ''}"
    return Finding(enough, detail, repaired, share=before, is_cut=is_cut)


def _shortened_for(missing: Asked, asked: Asked, text: str, matter: Matter) -> str:
    """The text with room for as many of the missing anchors as make up the least share."""
    more = missing[: math.ceil(LEAST_COVERED * len(asked)) - (len(asked) - len(missing))]
    if not matter.fits(text) or matter.fits(_with_anchors(text, more)):
        return text
    is_needed = instructions.needed(matter)
    return shortened(
        text,
        matter,
        lambda line: any(name in line for name, _ in asked) or is_needed(line),
        lambda shorter: matter.fits(_with_anchors(shorter, more)),
    )


def wanted(matter: Matter) -> Asked:
    """The anchors that a summary of this cap is asked for, likeliest first, without secrets."""
    most = min(MOST_ANCHORS, matter.request.max_tokens // ANCHOR_TOKENS)
    return matter.likeliest(most) if most >= FEWEST_ANCHORS else []


def _appended(text: str, missing: Asked, matter: Matter) -> tuple[str, list[str]]:
    """The text with as many of the anchors as fit, the likeliest first, and those that did."""

    def is_too_long(most: int) -> bool:
        return not matter.fits(_with_anchors(text, missing[:most]))

    held = missing[: bisect_left(range(1, len(missing) + 1), True, key=is_too_long)]
    return _with_anchors(text, held), [name for name, _ in held]


def _with_anchors(text: str, rows: Asked) -> str:
    files = [name for name, use in rows if use.kind in _FILES]
    names = [name for name, use in rows if use.kind not in _FILES]
    if files:
        text = with_line(text, FILES, f"- {MENTIONED}: {', '.join(files)}")
    return with_line(text, NAMES, ", ".join(names)) if names else text


def retention(summary: Summary, matter: Matter) -> Finding:
    """How many of the source's key entities are in view, whatever the cap has room for."""
    asked = matter.likeliest(MOST_ANCHORS)
    if not asked:
        return Finding(True, "the source names none")
    share = 1 - len(matter.unnamed(asked, summary.text)) / len(asked)
    return Finding(True, f"{share:.0%} of {len(asked):,} key entities in view", share=share)


# --- invented names -------------------------------------------------------------------------------


def hallucinated(summary: Summary, matter: Matter) -> Finding:
    """What it names occurs in its source, and so do the amounts it tells.

    Where the half of its names are invented, it may not stand in; a few are only told. A line with
    a path, an address or a hash that nobody can find is marked, or left out where the mark does not
    fit. One with an amount is marked where the mark fits, and never left out.
    """
    written = marks.unmarked(summary.text, [marks.UNKNOWN])
    named = [a for a in facts.find_all(written) if a.kind in _CHECKED]
    invented = list(_unknown(named, matter))
    unsaid = amounts.unknown(written, chain(matter.source, matter.beside, matter.strings))
    if not (invented or unsaid):
        return Finding(True, f"none of {len(named):,} names", share=0.0)
    share = len(invented) / len(named) if invented else 0.0
    shown = ", ".join([*(anchor.text for anchor in invented[:3]), *unsaid[:3]])
    count = f"{len(invented):,} of {len(named):,} names"
    count += f" and {len(unsaid):,} amounts" if unsaid else ""
    count += f" are not in the source: {shown[:120]}"
    if len(invented) > FEW_INVENTED and share >= MOSTLY_INVENTED:
        return rejection(count, share)
    misleading = [a.text for a in invented if a.kind in _MISLEADING]
    text, held = _with_marks(summary.text, misleading, unsaid, matter)
    left_out = summary.text.count("\n") - text.count("\n")
    marked = text.count(marks.UNKNOWN) - summary.text.count(marks.UNKNOWN) + left_out
    few = len(invented) <= FEW_INVENTED or share <= SHARE_INVENTED
    done = f"; {marked:,} lines marked" if marked else ""
    repaired = with_text(summary, text) if marked else None
    return Finding(few and not held, count + done, repaired, share=share, is_cut=left_out > 0)


def _with_marks(
    text: str, names: Sequence[str], unknown: Sequence[str], matter: Matter
) -> tuple[str, int]:
    """The text with the lines marked that hold one of the names or amounts, and how many they are.
    For want of room for its mark a line with a name is left out.
    """
    lines, told, misled = text.split("\n"), dict[int, str](), set[int]()
    unsaid = frozenset(unknown)
    for number, line in enumerate(lines):
        if marks.UNKNOWN in line:
            continue
        found = [name for name in names if name in line]
        if found:
            misled.add(number)
        found += [amount for amount in amounts.found_in(line) if amount in unsaid]
        if found:
            told[number] = f"{marks.UNKNOWN}{', '.join(found)})"
    return marks.marked(lines, told, matter, misled.__contains__), len(told)


def _unknown(named: Iterable[Anchor], matter: Matter) -> Iterator[Anchor]:
    """Those of the names that nothing the summary's maker knew has said, in any writing."""
    known = {name.lower() for name in matter.ledger.uses}
    rest = [anchor for anchor in named if anchor.text.lower() not in known]
    if rest:  # most of them are names of what is kept, and found faster as such than as any text
        known = {anchor.text.lower() for anchor in facts.find_all("\n".join(matter.beside))}
        rest = [anchor for anchor in rest if anchor.text.lower() not in known]
    for texts in (matter.marks, matter.source, matter.beside, matter.strings):
        if not rest:
            return
        said = "\n".join(texts).lower()
        rest = [anchor for anchor in rest if not _is_said(anchor, said)]
    if rest:
        joined = _JOINTS.sub("", "\n".join((*matter.source, *matter.beside)).lower())
        yield from (a for a in rest if _JOINTS.sub("", a.text.lower()) not in joined)


def _is_said(anchor: Anchor, said: str) -> bool:
    """Whether the name occurs in the text: as it is, or the part of it by which it is known."""
    text = anchor.text.lower()
    if text in said:
        return True
    match anchor.kind:
        case "path" | "file":
            last = text.rstrip("/").rsplit("/", 1)[-1]
            return len(last) > 2 and last in said
        case "url":
            return text.rstrip("/") in said
        case "version":
            return text.lstrip("v") in said
        case "reference":
            bare = text.lstrip("#")
            return bare in said and re.search(rf"\b{re.escape(bare)}\b", said) is not None
    return False

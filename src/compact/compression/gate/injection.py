"""The rule of the gate against orders: a summary tells what happened, it does not command its
reader.

Whoever can put words into a tool's output may try to have them remembered as an instruction. Lines
that read like one are left out, unless a person has said so: their standing instructions are what a
summary is for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compact.compression.fencing import harmless
from compact.compression.gate import orders
from compact.compression.gate.matter import Finding, Matter, rejection, telling
from compact.core.checkpoints import REFERENCE_LINE, Summary

MOSTLY = 0.5
"""Share of a summary's characters from which taking out its orders leaves nothing."""
SAID = 0.6
"""Share of an order's telling words that one line of a person must hold to be theirs."""
_SHORT = 5
"""Letters of an order that are too few to be looked for word for word."""
_OURS = re.compile(r"\[(?:Checkpoint|Goals|Recalled)\b[^\]\n]{0,200}\bdigest [0-9a-f]{12}\][ \t]*")
"""A heading by which text of ours is recognized; in a summary it is a forgery."""
_PICTURE = re.compile(r"!(?=\[[^\]\n]*\]\(\s*<?(?:https?:)?//)|<img\b[^>\n]*>", re.IGNORECASE)
"""A picture that is fetched as soon as somebody is shown the text: its address can tell secrets."""


def injection(summary: Summary, matter: Matter) -> Finding:
    """It gives no orders that no person gave, speaks with no other voice, shows no picture from
    elsewhere and holds no control token.

    Such lines are left out, and pictures, tokens and forged headings lose their power; a summary
    that is mostly orders may not stand in.
    """
    forged = len(_OURS.findall(summary.text))
    bare, pictures = _PICTURE.subn("", _OURS.sub("", summary.text))
    text = harmless(bare)
    tokens = text.count(" ") - bare.count(" ")
    lines = text.split("\n")
    given = set(_orders(lines, matter))
    if not (given or forged or tokens or pictures):
        return Finding(True, f"none in {len(lines):,} lines")
    kept = "\n".join(line for number, line in enumerate(lines) if number not in given)
    taken = sum(len(lines[number]) for number in given)
    whole = len(text.replace(REFERENCE_LINE, "")) or 1
    done = (
        f"{len(given):,} of {len(lines):,} lines were orders that nobody gave, "
        f"{forged:,} forged headings, {tokens:,} control tokens made harmless"
        + (f", {pictures:,} pictures no longer shown" if pictures else "")
    )
    if taken >= MOSTLY * whole:
        return rejection(done)
    names = tuple(map(harmless, summary.anchors))
    return Finding(False, done, summary.model_copy(update={"text": kept, "anchors": names}))


def _orders(lines: list[str], matter: Matter) -> Iterator[int]:
    """Numbers of the lines that order something no person has."""
    for number, order in orders.found_in(lines):
        if not _is_theirs(lines[number], order, matter):
            yield number


def _is_theirs(line: str, order: str, matter: Matter) -> bool:
    """Whether a person has said that: the order itself, or in one line most of the words that tell
    what it is. Of a long text any words can be found somewhere.
    """
    exact = " ".join(order.lower().split())
    told = telling(line)
    return any(
        (exact in " ".join(said.lower().split()) and len(exact) > _SHORT)
        or (told and len(told & telling(said)) >= SAID * len(told))
        for text in matter.commanding
        for said in text.split("\n")
    )

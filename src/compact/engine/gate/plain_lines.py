"""A story's lines as a reader sees them, which all rules of form read: whatever ends a line ends
one, what cannot be seen is gone, and a letter that looks like a Latin one is that.
"""

from __future__ import annotations

import html
import unicodedata

from compact.patterns import regex

_LOOKS_LIKE = str.maketrans(
    "АВЕКМНОРСТХУІЈЅаеорсхуіјѕһԁӏΑΒΕΖΗΙΚΜΝΟΡΤΥΧορνι\u2223\u2758\u01c0",  # noqa: RUF001
    "ABEKMHOPCTXYIJSaeopcxyijshdlABEZHIKMNOPTYXopvi|||",
)
"""Letters of other scripts, and Latin ones that look the same."""
_UNSEEN = frozenset(("Cf", "Mn", "Me"))
"""Kinds of characters that stand between or upon others: joiners, directions, accents, variants."""
_BLANKS = regex(r"[^\S\n]+")


def plain_lines(text: str) -> str:
    """The text for rules of form, its lines stripped and ended by a line feed."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text)
        text = "".join(x for x in text if unicodedata.category(x) not in _UNSEEN)
        text = text.translate(_LOOKS_LIKE)
    lines = html.unescape(text).splitlines()
    return "\n".join(_BLANKS.sub(" ", line).strip() for line in lines)

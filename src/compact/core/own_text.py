"""Text that compact itself puts into a prompt: it opens with a heading that carries a digest of the
words below, and is recognized by it when it comes back.

A person who types such a heading does not match. Nothing that is recognized is ever stored,
searched or summarized as if someone had said it. The headings' own words live beside what they
head: `core.checkpoints`, `core.goals`, `core.prompts`, `core.recalls`.
"""

from __future__ import annotations

import hashlib
import re

_HEADING = re.compile(
    r"\[(?P<kind>Checkpoint|Goals|Prompt|Recalled)\b[^\]\n]* digest (?P<digest>[0-9a-f]{12})\]\r?\n"
)


def digest(words: str) -> str:
    """Of the words: line ends and outer white space change on the way through clients."""
    same = words.replace("\r\n", "\n").strip()
    return hashlib.sha256(same.encode("utf-8", "replace")).hexdigest()[:12]


def kind_of(text: str) -> str | None:
    """`Checkpoint`, `Goals`, `Prompt` or `Recalled` where the text is one of ours, else None."""
    found = _HEADING.match(text)
    if found is None or found["digest"] != digest(text[found.end() :]):
        return None
    return found["kind"]

"""The outline of a checkpoint: its sections in order. Start at `OUTLINE`.

`Now` is the current state, found by code. `Story` tells what was said and done, in order: as a list
of quotations, or as a summary that a model wrote. After such a summary, `Said` quotes the user's
own words. `Names` is an index. `engine.checkpoint_text` fills the sections.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from compact.patterns import regex

NOW, STORY, SAID, NAMES = "Now", "Story", "Said", "Names"

OUTLINE: Sequence[str] = (NOW, STORY, SAID, NAMES)
"""Sections in the order of a checkpoint."""
ALSO: Mapping[str, Sequence[str]] = {
    STORY: ("summary", "what happened", "done", "progress", "history", "account"),
}
"""Section → other titles that people and models write for it, in lower case."""
_BY_NAME: Mapping[str, str] = {
    name: title for title in OUTLINE for name in (title.lower(), *ALSO.get(title, ()))
}
_HEADING = regex(r"^#{1,3} ([^\n#]{1,60})$", re.MULTILINE)


def section_named(name: str) -> str | None:
    """Return the section that a heading names; None if it names no section."""
    return _BY_NAME.get(name.strip().strip("*_:").strip().lower())


def sections_of(text: str) -> Iterator[tuple[str | None, str]]:
    """Yield the sections of a text and their bodies, in order.

    The section is None for text before the first known heading. Unknown headings stay in the body.
    """
    start, current = 0, None
    for found in _HEADING.finditer(text):
        if (section := section_named(found[1])) is None:
            continue
        if body := text[start : found.start()].strip():
            yield current, body
        start, current = found.end(), section
    if body := text[start:].strip():
        yield current, body

"""The outline of a checkpoint: its sections in order, in one table. Start at `OUTLINE`.

What stands now is read off by code. The story is what was said and done, in order: a chronology in
the words that were said, or what a model tells. Where a model tells it, a person's own words stand
below it. Names come last, for whoever looks something up. What fills a section stands in
`engine.composition`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from compact.patterns import regex

NOW, STORY, SAID, NAMES = "Now", "Story", "Said", "Names"

OUTLINE: Sequence[str] = (NOW, STORY, SAID, NAMES)
"""In the order of a checkpoint."""
ALSO: Mapping[str, Sequence[str]] = {
    STORY: ("summary", "what happened", "done", "progress", "history", "account"),
}
"""Other titles that sections are known by in what people and models write, in lower case."""
_BY_NAME: Mapping[str, str] = {
    name: title for title in OUTLINE for name in (title.lower(), *ALSO.get(title, ()))
}
_HEADING = regex(r"^#{1,3} ([^\n#]{1,60})$", re.MULTILINE)


def section_named(name: str) -> str | None:
    """The section a heading's words stand for; None where they are of no section."""
    return _BY_NAME.get(name.strip().strip("*_:").strip().lower())


def sections_of(text: str) -> Iterator[tuple[str | None, str]]:
    """The sections of a text and their bodies, in its order; what stands before the first known
    heading belongs to None. Headings that name no section of ours stay in the body.
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

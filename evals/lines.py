"""Random lines of each section, for a reader to judge right or wrong.

    python -m evals lines --to DIR [--section S] [--count 25] [--seed N]

Drawn from the checkpoints of all kinds of conversations, of both parts; beside each line stands
the place of the log where its words were found, so that a reader can judge it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from compact.core.context import render_text
from compact.core.outline import TITLES
from evals import contexts, open_work, reading
from evals.contexts import squeezed
from evals.sources import Kind, Source, of_kind

KINDS: tuple[Kind, ...] = ("coding", "service", "talk")
MOST_OF_A_KIND = 40
"""Conversations of one kind that lines are drawn from."""
AROUND = 700
"""Characters of the log before and behind a line's words."""
HEAD = """# {title}: {count} lines

Mark each line: right (it is true, current, and belongs under this title), or wrong. Write `right`
or `wrong` behind `verdict:`, and why where it is wrong.
"""


@dataclass(frozen=True)
class Line:
    """One line of a section, and the conversation it is of."""

    title: str
    text: str
    source: Source


def lines(folder: Path, draw: random.Random) -> Iterator[Line]:
    """All lines of all sections of the conversations that are drawn."""
    for kind in KINDS:
        sources = list(of_kind(kind, folder))
        draw.shuffle(sources)
        for source in sources[:MOST_OF_A_KIND]:
            messages = source.compressed()
            for title in TITLES:
                for text in contexts.lines_of(messages, title):
                    yield Line(title, text, source)


def told(line: Line, number: int) -> str:
    """A line with the place of the log it tells of."""
    log = [squeezed(render_text([message])) for message in line.source.messages]
    found = open_work.places(line.text, log)
    where = "its words were not found side by side in the log"
    if found:
        text = log[found[-1]]
        words = [w for w in line.text.split() if len(w) > 3 and w in text]
        at = text.find(max(words, key=len)) if words else 0
        piece = text[max(0, at - AROUND) : at + AROUND]
        where = f"message {found[-1] + 1} of {len(log)}:\n\n> {piece}"
    return f"\n## {number}. of {line.source.name}\n\n{line.text}\n\nverdict:\n\n{where}\n"


def write(folder: Path, to: Path, *, sections: Sequence[str], count: int, seed: int) -> str:
    """A file for each section; how many lines each has."""
    draw = random.Random(seed)
    reading.outside(to)
    every = list(lines(folder, draw))
    report = []
    for title in sections or TITLES:
        of = [line for line in every if line.title == title]
        some = draw.sample(of, min(count, len(of)))
        text = HEAD.format(title=title, count=len(some))
        text += "".join(told(line, number) for number, line in enumerate(some, start=1))
        (to / f"{title}.md").write_text(text, encoding="utf-8")
        report.append(f"{title:10} {len(some):4} of {len(of)} lines")
    return "\n".join(report)

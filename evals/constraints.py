"""COMPINT's fifteen constraints (`conpact`, MIT; "Lost in Compaction", arXiv 2608.11242): what a
person once said is to hold for the rest of a session, in a middle turn of a long conversation.

As the package does it, a constraint stands before the words of the median user turn. Its own
conversations and its judge (a model) are not here: the conversations are a history of LongMemEval
(with data) and generated work with tools, both cut at `LENGTH`. Two things are counted:

- `verbatim`: the constraint stands word for word anywhere in the context;
- `holding`: and as a person's own: in a message of theirs, or in an item of the checkpoint told as
  the user's, not quoted or in a list. Thirty lines name no speaker: each of their lines counts.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from compact.messages.messages import Message
from compact.text.speakers import speaker_of
from evals import chats, data, generated, published
from evals.contexts import squeezed
from evals.split import half_of

PINNED = "conpact==0.1.0"
LENGTH = 64_000
SIZES = (2_000, 4_000, 8_000, 16_000)
FRAMINGS = {"bare": (False, False), "direct": (False, True), "strict": (True, True)}
"""Arguments of the package's `render_sc`: strict, direct. Its own default is `direct`."""


class Held(NamedTuple):
    """One constraint in one context."""

    talk: str
    framing: str
    size: int
    way: str
    constraint: int
    verbatim: bool
    holding: bool


def run(folder: Path | None, sizes: Sequence[int] | None = None) -> list[Held]:
    """Every constraint in every conversation, at every ceiling.

    Raises:
        NoData: the package is not installed.
    """
    package = published.module("conpact", "constraints", PINNED)
    return [
        row
        for name, messages in conversations(folder)
        for framing, (strict, direct) in FRAMINGS.items()
        for each in package.SCS
        for size in sizes or SIZES
        for row in held(
            (name, framing, size, each["id"]),
            planted(messages, package.render_sc(each["sc"], strict, direct)),
            each["sc"],
        )
    ]


def conversations(folder: Path | None) -> Iterator[tuple[str, list[Message]]]:
    """Talk of the half that may be looked at, where there is data; and generated work."""
    path = folder / chats.HISTORIES if folder else None
    if folder and path and path.is_file():
        rows = json.loads(path.read_text(encoding="utf-8"))
        row = next(row for row in rows if half_of(data.id_of(row)) == "look")
        yield "talk", cut(chats.whole_chat(chats.HISTORIES, row, folder))
    yield "work", cut(list(itertools.islice(generated.chatter(7), 4_000)))


def cut(messages: Sequence[Message], length: int = LENGTH) -> list[Message]:
    """The first messages that fit."""
    sizes = itertools.accumulate(map(published.COUNTER.message, messages))
    return [message for message, so_far in zip(messages, sizes, strict=True) if so_far <= length]


def planted(messages: Sequence[Message], said: str) -> list[Message]:
    """The conversation with the constraint before the words of its median user turn."""
    turns = [at for at, message in enumerate(messages) if speaker_of(message) == "person"]
    at = turns[len(turns) // 2]
    changed = messages[at].model_copy(update={"content": f"{said}\n{messages[at].text}"})
    return [*messages[:at], changed, *messages[at + 1 :]]


def held(
    case: tuple[str, str, int, int], messages: Sequence[Message], constraint: str
) -> Iterator[Held]:
    """Whether each way's context still holds it; a framing's own words need not be there."""
    talk, framing, size, number = case
    wanted = squeezed(constraint).casefold()
    for context in published.shown(messages, size):
        verbatim = wanted in squeezed(context.text).casefold()
        holding = any(wanted in squeezed(text).casefold() for text in context.persons)
        yield Held(talk, framing, size, context.way, number, verbatim, holding)


def report(rows: Sequence[Held], *, missed: bool = False) -> str:
    """Of how many constraints, by conversation, framing and ceiling; ours that are lost."""
    cases = dict.fromkeys((r.talk, r.framing, r.size) for r in rows)
    ways = "".join(f"{way:>14}" for way in published.WAYS)
    lines = [f"verbatim / holding    of{ways}"]
    for case in cases:
        some = [r for r in rows if (r.talk, r.framing, r.size) == case]
        count = len({r.constraint for r in some})
        cells = [_cell([r for r in some if r.way == way]) for way in published.WAYS]
        lines.append("{} {:<7} {:>6,}  {:>3}".format(*case, count) + "".join(cells))
    for way in published.WAYS:
        lines.append(f"all, {way}: {_cell([r for r in rows if r.way == way]).strip()}")
    lost = [r for r in rows if missed and r.way == "ours" and not r.holding]
    return "\n".join([*lines, *(f"{r.talk} {r.framing} {r.size}: {r.constraint}" for r in lost)])


def _cell(rows: Sequence[Held]) -> str:
    return f"{sum(r.verbatim for r in rows):>8} / {sum(r.holding for r in rows):>3}"

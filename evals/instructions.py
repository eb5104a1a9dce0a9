"""Do a person's instructions survive a 10:1 compression word for word?

Two sources: sentences labelled by reading in real conversations (`labels/`), and generated sessions
full of rules (`generated`). A sentence counts as kept when it stands in the rendered context word
for word, white space aside. Where all sentences of a session take more than a third of the budget,
they cannot all be asked for: such sessions are reported apart, and what is not there has to be
referenced by the id of its message.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from statistics import mean
from typing import Any

from compact import plan
from compact.errors import CannotFit
from compact.messages.messages import Message
from compact.wiring import token_counter
from evals import formats, generated
from evals.labels import check

RATIO = 10
"""Compression is to a tenth of the session's tokens."""
LIMIT_SHARE = 1 / 3
SHORT = 8
SEEDS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Sentence:
    """One instruction: where it stands, and whether it has a keyword."""

    place: str
    text: str
    keyword: bool
    message_id: str | None = None
    short_id: str | None = None
    """The first eight characters of the id, where no other message's id begins so."""


@dataclass(frozen=True)
class Outcome:
    """What became of one session's instructions."""

    name: str
    tokens: int
    budget: int
    wanted: int
    """Tokens of the sentences themselves."""
    kept: tuple[Sentence, ...]
    missed: tuple[Sentence, ...]
    referenced: int
    """How many of the missed are referenced by the id of their message."""
    refused: bool = False
    """Whether not even what may not be shortened fits into the budget."""

    @property
    def fits(self) -> bool:
        return not self.refused and self.wanted <= LIMIT_SHARE * self.budget

    @property
    def share(self) -> float:
        return len(self.kept) / (len(self.kept) + len(self.missed))


def squeezed(text: str) -> str:
    """The text with every run of white space as one blank."""
    return re.sub(r"\s+", " ", text).strip()


def outcome(
    name: str,
    context: str | None,
    sentences: Sequence[Sentence],
    *,
    tokens: int,
    budget: int,
    count: Callable[[str], int],
) -> Outcome:
    """Look for the sentences in a rendered context; None where there could be none."""
    there = squeezed(context or "")
    kept = [s for s in sentences if squeezed(s.text) in there]
    missed = [s for s in sentences if squeezed(s.text) not in there]
    referenced = sum(_names(there, s.message_id) or _names(there, s.short_id) for s in missed)
    wanted = sum(count(s.text) for s in sentences)
    refused = context is None
    return Outcome(name, tokens, budget, wanted, tuple(kept), tuple(missed), referenced, refused)


def _names(text: str, message_id: str | None) -> bool:
    """Whether an id stands in a text as a whole word."""
    if message_id is None:
        return False
    return None is not re.search(rf"(?<![\w-]){re.escape(message_id)}(?![\w-])", text)


def compressed(name: str, messages: Sequence[Message], sentences: Sequence[Sentence]) -> Outcome:
    """Compress a session to a tenth and look for its sentences."""
    wire = messages[0].wire_format or "chat_completions"
    counter = token_counter(wire, tokenizer="o200k")
    tokens = counter.messages(messages)
    starts = Counter(m.id[:SHORT] for m in messages)
    sentences = [replace(s, short_id=_short(s.message_id, starts)) for s in sentences]
    budget = tokens // RATIO
    try:
        context = plan(messages, max_tokens=budget, tokenizer="o200k").context.render_text()
    except CannotFit:
        context = None
    return outcome(name, context, sentences, tokens=tokens, budget=budget, count=counter.text)


def _short(message_id: str | None, starts: Counter[str]) -> str | None:
    unique = message_id is not None and starts[message_id[:SHORT]] == 1
    return message_id[:SHORT] if message_id and unique else None


def labelled(folder: Path, only: str = "") -> Iterator[Outcome]:
    """The labelled sessions, one outcome a conversation; `only` picks those whose name holds it."""
    labels = [x for x in check.load() if only in x.file]
    labels.sort(key=lambda x: (x.file, _conversation(x) or 0))
    for (file, number), group in groupby(labels, key=lambda x: (x.file, _conversation(x))):
        transcript = formats.read(folder / file, conversation=number)
        sentences = [_sentence(x, folder, transcript.messages) for x in group]
        name = file if number is None else f"{file} #{number}"
        yield compressed(name, transcript.messages, sentences)


def _conversation(label: check.Label) -> int | None:
    """Which conversation a label points into, from 1, where its file holds many."""
    if not isinstance(label.row, str):
        return None
    numbers = [part for part in label.row.split("/") if part.isdigit()]
    many = label.file.startswith(("tau_bench/", "tau2_bench/", "longmemeval_subset/"))
    return int(numbers[0]) + 1 if many and len(numbers) > 1 else None


def _place(label: check.Label) -> str:
    return f"row {label.row} [{label.start}:{label.end}] {label.id or ''}".rstrip()


def _sentence(label: check.Label, folder: Path, messages: Sequence[Message]) -> Sentence:
    text = check.resolve(label, folder)
    holders = [m.id for m in messages if m.role == "user" and squeezed(text) in squeezed(m.text)]
    return Sentence(_place(label), text, label.keyword, holders[0] if holders else None)


def from_generator(seeds: Sequence[int] = SEEDS) -> Iterator[Outcome]:
    """The generated sessions, those that fit first."""
    for make in (generated.scattered, generated.crowded):
        for seed in seeds:
            session = make(seed)
            sentences = [
                Sentence(r.message_id, r.text, r.keyword, r.message_id) for r in session.rules
            ]
            yield compressed(session.name, session.messages, sentences)


def share(outcomes: Sequence[Outcome], *, keyword: bool | None = None) -> float | None:
    """The share of kept sentences over all sessions; None where there are none."""
    kept = sum(keyword in (None, s.keyword) for o in outcomes for s in o.kept)
    missed = sum(keyword in (None, s.keyword) for o in outcomes for s in o.missed)
    return kept / (kept + missed) if kept + missed else None


def report(title: str, outcomes: Sequence[Outcome]) -> str:
    """A table of sessions, the shares of those that fit and of those that do not, the misses."""
    lines = [title, "   kept  of  tokens  third of budget  session"]
    for o in outcomes:
        flag = "" if o.fits else "  (refused: floor)" if o.refused else "  (do not fit)"
        total = len(o.kept) + len(o.missed)
        third = int(LIMIT_SHARE * o.budget)
        lines.append(f"{len(o.kept):7} {total:3}  {o.wanted:6}  {third:15}  {o.name}{flag}")
    for words, some in (
        ("fitting in a third", [o for o in outcomes if o.fits]),
        ("not fitting", [o for o in outcomes if not o.fits]),
        ("all", outcomes),
    ):
        if some:
            lines.append(_shares(words, some))
    for o in outcomes:
        lines += [f"  missed: {o.name} {s.place}" for s in o.missed if o.fits]
    return "\n".join(lines)


def _shares(words: str, some: Sequence[Outcome]) -> str:
    def shown(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f}"

    missed = sum(len(o.missed) for o in some)
    named = sum(o.referenced for o in some)
    total = missed + sum(len(o.kept) for o in some)
    return (
        f"{words}: {shown(share(some))} of {total} kept "
        f"(with keyword {shown(share(some, keyword=True))}, "
        f"without {shown(share(some, keyword=False))}); mean of {len(some)} sessions "
        f"{mean(o.share for o in some):.3f}; of {missed} missed {named} referenced by id"
    )


def as_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The same for machines, without any text."""
    rows = []
    for o in outcomes:
        row = asdict(o) | {"fits": o.fits, "share": o.share}
        row["kept"], row["missed"] = len(o.kept), [s.place for s in o.missed]
        rows.append(row)
    return {"share": share([o for o in outcomes if o.fits]), "sessions": rows}

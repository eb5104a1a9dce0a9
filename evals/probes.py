"""Probes: what can a reader still answer after a compression about what is no longer there?

Each session is compressed once for each size, by the summarizer that is named. What its checkpoint
stands in for is asked about (`evals.questions`), and answered from the active context alone
(`evals.answerers`). Without a model, the newest text of the same size is searched beside our
context, and for words left out the covered messages themselves: what could be found at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from compact import CompactPolicy, Plan, plan, wiring
from compact.engine.pipeline import STANDS_IN
from compact.errors import CannotFit
from compact.messages.context import render_text
from compact.messages.messages import Message
from compact.messages.protocols import Summarizer
from evals import data, stats
from evals.answerers import ROOM, Answer, Answerer, Reader, Search
from evals.questions import KINDS, Kind, Probe, probes_of

SIZES = (8_000, 32_000)
"""Tokens of the active contexts that are asked about."""
SEED = 7
_TOKENIZER = "o200k"


@dataclass(frozen=True)
class Asked:
    """One probe, and what became of it."""

    session: str
    size: int
    probe: Probe
    answer: Answer
    newest: bool | None = None
    """Whether the newest text of the same size tells; None where a model answered."""
    source: bool | None = None
    """Whether the covered messages themselves do; None of choices, too, as a search that meets all
    of them everywhere says nothing."""


@dataclass(frozen=True)
class Checked:
    """One checkpoint, and what was asked about it."""

    session: str
    size: int
    made_by: str
    stands_in: bool
    """Whether the extractive summary took the place of one that the gate refused."""
    retention: float | None
    """The share of the source's key entities in view, by the gate."""
    rows: tuple[Asked, ...]


def run(
    folder: Path | None,
    *,
    model: str | None = None,
    judge: str | None = None,
    sizes: Sequence[int] | None = None,
    seed: int = SEED,
) -> list[Checked]:
    """Every session at every size; `model` writes the summaries and answers, None is the
    extractive path.
    """
    counter = wiring.token_counter("chat_completions", tokenizer=_TOKENIZER)
    summarizer = wiring.summarizer(model, counter)
    answerer: Answerer = Search() if model is None else Reader(model, judge=judge)
    sizes = sizes or SIZES
    if isinstance(answerer, Reader):
        most = int(ROOM * answerer.window)
        sizes = sorted({min(size, most) for size in sizes})
    found = (
        checked(name, messages, size, summarizer, answerer, seed)
        for name, messages in data.sessions(folder)
        for size in sizes
    )
    return [each for each in found if each is not None]


def checked(
    name: str,
    messages: Sequence[Message],
    size: int,
    summarizer: Summarizer,
    answerer: Answerer,
    seed: int = SEED,
) -> Checked | None:
    """A session compressed to a size, and probed; None where it fits or cannot fit."""
    try:
        done = plan(messages, max_tokens=size, tokenizer=_TOKENIZER, summarizer=summarizer)
    except CannotFit:
        return None
    if done.checkpoint is None:
        return None
    covered = [messages[position] for position in done.checkpoint.covered()]
    probes = probes_of(covered, f"{seed} {name} {size}", session=messages)
    answers = answerer.answers(probes, done.context.render_text())
    rows = [Asked(name, size, *row) for row in zip(probes, answers, strict=True)]
    if isinstance(answerer, Search):
        rows = list(_compared(rows, answerer, messages, covered))
    verdicts = {verdict.rule: verdict for verdict in done.checkpoint.verdicts}
    share = verdicts["retention"].share if "retention" in verdicts else None
    made_by = done.checkpoint.made_by
    return Checked(name, size, made_by, STANDS_IN in verdicts, share, tuple(rows))


def _compared(
    rows: Sequence[Asked],
    search: Search,
    messages: Sequence[Message],
    covered: Sequence[Message],
) -> Iterator[Asked]:
    """The rows with what the newest text of the same size and the source itself tell."""
    probes = [row.probe for row in rows]
    newest = search.answers(probes, _newest(messages, rows[0].size) if rows else "")
    source = search.answers(probes, render_text(covered))
    for row, one, other in zip(rows, newest, source, strict=True):
        told = None if row.probe.choices else other.right
        yield Asked(row.session, row.size, row.probe, row.answer, one.right, told)


def _newest(messages: Sequence[Message], size: int) -> str:
    """What a sliding window of the size shows."""
    policy = CompactPolicy(strategy="off")
    done: Plan = plan(messages, max_tokens=size, tokenizer=_TOKENIZER, policy=policy)
    return done.context.render_text()


def rows_of(found: Iterable[Checked]) -> list[Asked]:
    """All that was asked."""
    return [row for one in found for row in one.rows]


def share(rows: Sequence[Asked]) -> float:
    """The share of the rows that were answered right."""
    return mean(row.answer.right for row in rows)


def _mean(values: Iterable[bool | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{mean(known):6.3f}" if known else "     –"


def by_session(rows: Sequence[Asked]) -> dict[str, list[float]]:
    """Right or not, as 1 and 0, session by session."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row.session, []).append(float(row.answer.right))
    return found


def report(found: Sequence[Checked], *, missed: bool = False) -> str:
    """The shares by size and kind, with their spread over sessions."""
    rows = rows_of(found)
    if not rows:
        return "no session was compressed: nothing to ask about"
    makers = Counter(one.made_by for one in found)
    stood_in = sum(one.stands_in for one in found)
    lines = [
        f"{len(by_session(rows))} sessions, {len(found)} checkpoints by "
        + ", ".join(f"{name} ({count})" for name, count in sorted(makers.items()))
        + f"; the extractive one stands in for {stood_in} that the gate refused",
        " size  kind          probes  right  sessions: least  median  most  newest  source  chance",
    ]
    for size in sorted({row.size for row in rows}):
        of_size = [row for row in rows if row.size == size]
        for kind in KINDS:
            if of_kind := [row for row in of_size if row.probe.kind == kind]:
                lines.append(_line(size, kind, of_kind))
        lines.append(_line(size, "all", of_size))
        low, high = stats.clustered_interval(list(by_session(of_size).values()))
        lines.append(f"       95 % bootstrap interval over sessions: {low:.3f}-{high:.3f}")
    failed = sum(row.answer.failed for row in rows)
    judged = sum(row.answer.judged for row in rows)
    lines.append(f"{len(rows)} probes; {failed} without an answer, {judged} right by the judge")
    if missed:
        lines += [
            f"- {row.session} {row.size} {row.probe.kind}: {row.probe.question[:300]} "
            f"[{row.probe.answer}] {row.answer.reply[:80]}"
            for row in rows
            if not row.answer.right
        ]
    return "\n".join(lines)


def _line(size: int, kind: Kind | str, rows: Sequence[Asked]) -> str:
    means = [mean(values) for values in by_session(rows).values()]
    newest = _mean(row.newest for row in rows)
    source = _mean(row.source for row in rows)
    chance = mean(row.probe.chance for row in rows)
    return (
        f"{size:>6}  {kind:<12}  {len(rows):>6}  {share(rows):5.3f}"
        f"  {min(means):15.2f}  {median(means):6.2f}  {max(means):4.2f}  {newest}  {source}"
        f"  {chance:6.2f}"
    )


def as_json(found: Sequence[Checked]) -> dict[str, Any]:
    """The same for machines, without the texts of the conversations."""
    rows = rows_of(found)
    kinds = {kind: [row for row in rows if row.probe.kind == kind] for kind in KINDS}
    return {
        "right": {kind: share(some) for kind, some in kinds.items() if some},
        "probes": len(rows),
        "checkpoints": [
            {**{k: v for k, v in asdict(one).items() if k != "rows"}, "probes": len(one.rows)}
            | {"right": sum(row.answer.right for row in one.rows)}
            for one in found
        ],
    }

"""Key entity retention: of the names that are needed again likeliest, how many survive?

The entities are the source's likeliest anchors, 60 at most. A session is cut where a compression to
a window cuts it; what is covered is told at each level within that level's cap, and they are looked
for in the story alone; the lists beside it hold names as well. Once for each window they are looked
for in the whole active context, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from compact import ExtractiveSummarizer, plan, wiring
from compact.engine.chronology.notes import Notes
from compact.engine.gate.rules import judge
from compact.errors import CannotFit, ModelFailed, ModelRefused, SummaryRejected
from compact.messages.checkpoints import LEVELS, Caps, Level, Summary, SummaryRequest
from compact.messages.messages import Message
from compact.messages.protocols import Summarizer
from compact.messages.tokens import TokenCounter
from compact.secrets.redaction import redact
from compact.session import running
from evals import data, stats

WINDOWS = (8_192, 32_768, 131_072)
GOOD = 0.9
"""What is asked of golden summaries (K-13)."""
MOST_ENTITIES = 60
_TOKENIZER = "o200k"


@dataclass(frozen=True)
class Kept:
    """How many of a span's key entities are in view after it was summarized."""

    session: str
    window: int
    level: Level | None
    """None is the whole active context of one compression to that window."""
    cap: int
    """Tokens the summary was allowed, or the context had."""
    source: int
    """Tokens of what was covered."""
    share: float
    """The share that the story names; of a context, in view."""
    detail: str
    """The names it lacks, or why no story came."""
    accepted: bool = True
    """Whether the gate lets the summary stand in."""


def run(
    folder: Path | None, *, model: str | None = None, windows: Sequence[int] | None = None
) -> list[Kept]:
    """Every session at every window and level, by the model's summaries or the extractive ones."""
    counter = wiring.token_counter("chat_completions", tokenizer=_TOKENIZER)
    summarizer = wiring.summarizer(model, counter)
    return [
        row
        for name, messages in data.sessions(folder)
        for window in windows or WINDOWS
        for row in kept(name, messages, window, summarizer, counter)
    ]


def kept(
    name: str,
    messages: Sequence[Message],
    window: int,
    summarizer: Summarizer,
    counter: TokenCounter,
) -> Iterator[Kept]:
    """One session at one window: its context, then a summary of what is covered at each level;
    nothing where it fits or cannot fit.
    """
    try:
        done = plan(messages, max_tokens=window, tokenizer=_TOKENIZER, summarizer=summarizer)
    except CannotFit:
        return
    if done.checkpoint is None:
        return
    covered = [messages[position] for position in done.checkpoint.covered()]
    source = sum(map(counter.message, covered))
    asked = entities(covered)
    if not asked:
        return
    missing = unnamed(asked, done.context.render_text())
    share = 1 - len(missing) / len(asked)
    yield Kept(name, window, None, done.tokens_after, source, share, ", ".join(missing))
    for level in LEVELS:
        cap = Caps(window).of(level)
        if cap < source:
            yield summarized(name, window, level, request_of(covered, cap, level), summarizer)


def entities(messages: Sequence[Message]) -> list[str]:
    """The names in some messages that are needed again likeliest, without secrets."""
    notes = Notes().read(messages)
    ranked = notes.ledger.ranked(len(messages) + 1, 2 * MOST_ENTITIES)
    return [text for text, _, _ in ranked if not redact(text).found][:MOST_ENTITIES]


def unnamed(names: Sequence[str], text: str) -> list[str]:
    """Those of the names that do not stand in the text."""
    return [name for name in names if name not in text]


def request_of(messages: Sequence[Message], cap: int, level: Level) -> SummaryRequest:
    """What is asked for where a reader sees nothing but the summary."""
    return SummaryRequest(messages=messages, max_tokens=cap, level=level)


def summarized(
    name: str, window: int, level: Level, request: SummaryRequest, summarizer: Summarizer
) -> Kept:
    """A summary, judged; one that never comes keeps nothing."""
    counter = wiring.token_counter("chat_completions", tokenizer=_TOKENIZER)
    source = sum(map(counter.message, request.messages))

    async def summarizing() -> Summary:
        return await summarizer.summarize(request)

    try:
        summary = running.run(
            summarizing(), waits=summarizer.waits, instead="a thread without an event loop"
        )
    except ModelRefused:
        raise
    except (ModelFailed, SummaryRejected) as error:
        return Kept(name, window, level, request.max_tokens, source, 0, str(error), False)
    asked = entities(request.messages)
    missing = unnamed(asked, summary.text)
    share, lacks = 1 - len(missing) / max(1, len(asked)), ", ".join(missing)
    accepted = True
    if summary.made_by != ExtractiveSummarizer.name:
        extracted = ExtractiveSummarizer(counter).extracted(request)
        judged = judge(summary, request, counter, extracted=extracted, source_tokens=source)
        accepted = judged.accepted
    return Kept(name, window, level, request.max_tokens, source, share, lacks, accepted)


def report(rows: Sequence[Kept]) -> str:
    """By window and level: the mean, its spread over sessions, and how many are above nine in
    ten.
    """
    if not rows:
        return "no session was compressed: nothing was looked for"
    lines = [
        "window   where     sessions  tokens   mean     interval    least  above 90 %  refused"
    ]
    for window in sorted({row.window for row in rows}):
        for level in (None, *LEVELS):
            some = [row for row in rows if row.window == window and row.level == level]
            if some:
                lines.append(_line(window, level, some))
    return "\n".join(lines)


def _line(window: int, level: Level | None, rows: Sequence[Kept]) -> str:
    shares = [row.share for row in rows]
    low, high = stats.interval(shares)
    return (
        f"{window:>7}  {level or 'context':<8}  {len(rows):>8}  {mean(r.cap for r in rows):>6,.0f}"
        f"  {mean(shares):5.3f}"
        f"  {low:.3f}-{high:.3f}  {min(shares):7.3f}"
        f"  {sum(share > GOOD for share in shares):>10}"
        f"  {sum(not row.accepted for row in rows):>7}"
    )


def as_json(rows: Sequence[Kept]) -> list[dict[str, Any]]:
    """The rows as plain values, without the words of the verdicts."""
    return [{k: v for k, v in asdict(row).items() if k != "detail"} for row in rows]

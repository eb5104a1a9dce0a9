"""The extractive summarizer alone, beside one tokenizer pass over the same text."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.counting import O200K, ColdEstimator
from bench.measuring import CannotMeasure, Setting, Spread, Table, in_turn, number
from bench.whole import load, texts_of
from compact import wiring
from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.messages.checkpoints import SummaryRequest
from compact.messages.messages import Message
from compact.messages.tokens import TokenCounter

SUMMARY_TOKENS = (2_000, 8_000)


def measure(setting: Setting) -> list[Table]:
    """Every session is summarized whole, by a counter that has counted nothing yet."""
    name, sessions = _sessions()
    texts = [text for each in sessions for text in texts_of(each)]
    size = sum(len(text.encode("utf-8", "replace")) for text in texts)
    table = Table(
        "Extractive summarizer, whole sessions",
        (
            "summary tokens",
            "CPU ms a session",
            "÷ tokenizer pass",
            "MB a CPU second",
            "sessions a CPU second",
        ),
        notes=[f"{name}: {len(sessions)} sessions, {size / 1e6:.2f} MB of text."],
    )
    for tokens in SUMMARY_TOKENS:
        works = (lambda: sum(map(O200K.count, texts)), partial(_summarize, sessions, tokens))
        floor, taken = in_turn(works, setting.runs)
        each = Spread(tuple(value / len(sessions) for value in taken.values))
        speed = size / 1e6 / (taken.median / 1e3)
        ratio = taken.over(floor).text()
        row = (f"{tokens:,}", each.text(), ratio, number(speed), number(1e3 / each.median))
        table.rows.append(row)
    return [table]


def _sessions() -> tuple[str, list[Sequence[Message]]]:
    """All Claude Code sessions of `$COMPACT_DATA`, or the bundled sample, repeated."""
    if not (named := os.environ.get("COMPACT_DATA")):
        name, messages = load()
        return name, [messages]
    files = sorted(Path(named).glob("claude_code_sessions/*.jsonl"))
    if not files:
        raise CannotMeasure("COMPACT_DATA names a folder without Claude Code sessions")
    return "Claude Code sessions", [wiring.read_transcript(file).messages for file in files]


def _summarize(sessions: Sequence[Sequence[Message]], tokens: int) -> None:
    for messages in sessions:
        summarizer = ExtractiveSummarizer(TokenCounter(ColdEstimator()))
        request = SummaryRequest(messages=messages, max_tokens=tokens)
        asyncio.run(_once(summarizer, request))


async def _once(summarizer: ExtractiveSummarizer, request: SummaryRequest) -> None:
    await summarizer.summarize(request)

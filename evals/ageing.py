"""What ageing keeps: each real conversation as a digest of each level, with the true share of its
tokens, and what of its names, decisions and questions the digest still says (A-2, A-4).

Nothing is asked of a model. What is looked for, and how: `engine/survival.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, quantiles
from typing import Any

from compact import CompressionEngine, Conversation
from compact.engine.chronology.notes import Notes
from compact.engine.survival import Facts
from compact.errors import CompactError
from compact.messages.messages import Message
from compact.text.digests import CompressionLevel, Survival
from evals import data, formats
from evals.importance import messages_of
from evals.split import Cell, Half, columns, half_of, table

FILES = (
    "claude_code_sessions/*.jsonl",
    "claude_code_sessions_2/*.jsonl",
    "claude_code_others/*/*.jsonl",
    "codex_rollouts/*/*.jsonl",
    "gemini_cli_sessions/*.json",
    "specstory_sessions/*__*.md",
    "mini_swe_agent_gemini3/*.json",
    "swe_agent/*.traj",
    "qmsum/test/*.json",
)
SESSIONS = FILES[:6]
"""Of people who work with a model on code."""
SERVICE, TALKS = "tau_bench/gpt-4o-airline.json", "longmemeval_subset/longmemeval_s_subset.json"
BANDS = {CompressionLevel.KEY_POINTS: (0.60, 0.70), CompressionLevel.SUMMARY: (0.30, 0.40)}
METADATA = CompressionLevel.METADATA
LEAST = 500
"""Tokens of a conversation whose ratio counts: a few lines cannot be told in two thirds of them."""
EACH_SERVICE = 5
"""Of the service dialogues, which are much alike, each fifth."""


@dataclass(frozen=True)
class Aged:
    """One conversation at one level."""

    name: str
    half: Half
    level: CompressionLevel
    tokens: int
    ratio: float
    kept: Survival

    @property
    def is_in_band(self) -> bool:
        """Whether its true ratio is what the level promises; one that promises none keeps it."""
        low, high = BANDS.get(self.level, (0, 1))
        return low <= self.ratio <= high


def run(folder: Path, *, every: int = 1) -> list[Aged]:
    """Each conversation, or each n-th, at each level."""
    engine = CompressionEngine()
    return [
        row
        for place, (name, half, messages) in enumerate(conversations(folder))
        if place % every == 0
        for row in _aged(engine, name, half, messages)
    ]


def _aged(
    engine: CompressionEngine, name: str, half: Half, messages: Sequence[Message]
) -> Iterator[Aged]:
    conversation = Conversation(id=name, messages=tuple(messages))
    for level in BANDS:
        made = engine.compress(conversation, level)
        if made.source_tokens >= LEAST:
            yield Aged(name, half, level, made.source_tokens, made.ratio, made.kept)
    yield from _known(engine, name, half, conversation)


def _known(
    engine: CompressionEngine, name: str, half: Half, conversation: Conversation
) -> Iterator[Aged]:
    """What is known of a conversation that is older than a year, as if that were its digest."""
    made, messages = engine.compress(conversation, METADATA), conversation.messages
    if made.source_tokens >= LEAST:
        told = made.in_short
        ratio = engine.tokens_of([Message(role="user", content=told)]) / made.source_tokens
        kept = Facts().read(messages).kept_in(told, Notes().read(messages)).shares
        yield Aged(name, half, METADATA, made.source_tokens, ratio, kept)


def conversations(folder: Path) -> Iterator[tuple[str, Half, Sequence[Message]]]:
    """The name, the half and the messages of each real conversation."""
    for pattern in FILES:
        for path in sorted(folder.glob(pattern)):
            try:
                yield path.stem, half_of(path.stem), messages_of(path, path.stem)
            except CompactError:
                continue  # LICENSE.md beside them, and what no reader knows
    path = folder / SERVICE
    for number, name in enumerate(data.conversation_ids(path) if path.is_file() else (), start=1):
        if number % EACH_SERVICE == 0:
            yield name, half_of(name), formats.read(path, conversation=number).messages
    path = folder / TALKS
    for record in json.loads(path.read_text(encoding="utf-8")) if path.is_file() else ():
        for name in record["haystack_session_ids"]:
            yield name, half_of(name), messages_of(path, name)


# --- numbers --------------------------------------------------------------------------------------


def _share(part: str) -> Callable[[Sequence[Aged]], Cell]:
    def measure(rows: Sequence[Aged]) -> Cell:
        found = [share for row in rows if (share := getattr(row.kept, part)) is not None]
        return mean(found) if found else None

    return measure


def _whole(rows: Sequence[Aged]) -> Cell:
    total = sum(row.tokens for row in rows)
    return sum(row.ratio * row.tokens for row in rows) / total


def _edges(rows: Sequence[Aged]) -> Cell:
    ratios = [row.ratio for row in rows]
    if len(ratios) < 2:
        return None
    cuts = quantiles(ratios, n=20)
    return f"{cuts[0]:.2f}–{cuts[-1]:.2f}"


MEASURES: dict[str, Callable[[Sequence[Aged]], Cell]] = {
    "conversations": len,
    "tokens": lambda rows: sum(row.tokens for row in rows),
    "ratio, of all tokens": _whole,
    "ratio, mean": lambda rows: mean(row.ratio for row in rows),
    "ratio, 5 % to 95 %": _edges,
    "in the level's band": lambda rows: mean(row.is_in_band for row in rows),
    "key entities kept": _share("entities"),
    "anchors kept": _share("anchors"),
    "decisions kept": _share("decisions"),
    "questions kept": _share("questions"),
}


def report(rows: Sequence[Aged], *, missed: bool = False) -> str:
    """The measures by level; with `missed`, whose ratio is not what the level promises."""
    tables = []
    for level in (*BANDS, METADATA):
        of_level = [row for row in rows if row.level is level]
        tables.append(table(level.value, columns(of_level, MEASURES)))
        if missed:
            outside = [row for row in of_level if not row.is_in_band and row.half == "look"]
            tables += [f"{row.name[:60]}: {row.ratio:.3f} of {row.tokens:,}" for row in outside]
    return "\n\n".join(tables)


def as_json(rows: Sequence[Aged]) -> list[dict[str, Any]]:
    """Each conversation at each level."""
    return [{**asdict(row), "kept": row.kept.model_dump()} for row in rows]

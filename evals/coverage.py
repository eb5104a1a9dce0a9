"""Future-reference coverage: of what an agent is about to use again, how much survives?

What counts is defined by the measure's own tool (`data.measure`): it cuts real sessions at their
real compactions, finds the identifiers that are used again right after, and scores any text. Here
the product compresses the part before a compaction to exactly as many tokens as the real summary
had.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean
from types import ModuleType
from typing import Any

from compact import Plan, plan, wiring
from compact.core.messages import Message
from compact.core.policy import CompactPolicy
from compact.core.protocols import Summarizer
from compact.wiring import read_transcript
from evals import data, stats


@dataclass(frozen=True)
class Case:
    """One compaction of a real session."""

    session: str
    definition: dict[str, Any]
    """The tool's own case: name, max_tokens, needed, summary."""
    messages: tuple[Message, ...]
    summary: float
    """Baseline: coverage of the real summary."""
    newest: float
    """Baseline: coverage of the newest text in the same tokens."""

    @property
    def name(self) -> str:
        return str(self.definition["name"])

    @property
    def max_tokens(self) -> int:
        return int(self.definition["max_tokens"])


@dataclass(frozen=True)
class Score:
    """What a compression of one case reached."""

    name: str
    session: str
    needed: int
    max_tokens: int
    used_tokens: int
    coverage: float
    summary: float
    newest: float
    missed: tuple[str, ...]

    @property
    def beats_both(self) -> bool:
        return self.coverage > max(self.summary, self.newest)


class Cases:
    """The cases of all sessions, split by the tool and read by the product once."""

    def __init__(self, folder: Path) -> None:
        self.tool: ModuleType = data.measure(folder)
        self._folder = folder

    @cached_property
    def all(self) -> list[Case]:
        return list(self._read())

    def _read(self) -> Iterator[Case]:
        with tempfile.TemporaryDirectory() as name:
            for session in data.claude_code_sessions(self._folder):
                out = Path(name) / session.stem
                out.mkdir()
                self.tool.split(session, out)
                for path in sorted(out.glob("*.case.json"), key=_number):
                    yield self._case(session.stem, path)

    def _case(self, session: str, path: Path) -> Case:
        definition = json.loads(path.read_text(encoding="utf-8"))
        before = path.with_name(path.name.replace(".case.json", ".before.jsonl"))
        newest = self.tool.newest_text(before, definition["max_tokens"])
        return Case(
            session,
            definition,
            read_transcript(before).messages,
            self.tool.coverage(definition, definition["summary"]),
            self.tool.coverage(definition, newest),
        )


def _number(path: Path) -> int:
    return int(path.name.split(".")[-3])


def compressed(
    case: Case,
    *,
    policy: CompactPolicy | None = None,
    summarizer: str | Summarizer = wiring.EXTRACTIVE,
) -> Plan:
    """The product's main job on a case; its context, rendered as text, is what is counted and
    scored.
    """
    return plan(
        case.messages,
        max_tokens=case.max_tokens,
        tokenizer="o200k",
        policy=policy,
        summarizer=summarizer,
    )


def score(tool: ModuleType, case: Case, text: str) -> Score:
    """Score a compacted text.

    Raises:
        AssertionError: it has more tokens than the real summary had.
    """
    used = tool.COUNT(text)
    assert used <= case.max_tokens, f"{case.name}: {used} tokens, allowed are {case.max_tokens}"
    found = tool.anchors(text)
    found |= {anchor.rsplit("/", 1)[-1] for anchor in found if "/" in anchor}
    needed = case.definition["needed"]
    return Score(
        case.name,
        case.session,
        len(needed),
        case.max_tokens,
        used,
        tool.coverage(case.definition, text),
        case.summary,
        case.newest,
        tuple(a for a in needed if a not in found),
    )


def run(
    cases: Cases,
    *,
    policy: CompactPolicy | None = None,
    summarizer: str | Summarizer = wiring.EXTRACTIVE,
) -> list[Score]:
    """Compress and score every case."""
    plans = ((case, compressed(case, policy=policy, summarizer=summarizer)) for case in cases.all)
    return [score(cases.tool, case, done.context.render_text()) for case, done in plans]


def mean_of(scores: Sequence[Score]) -> float:
    """The mean coverage over cases."""
    return mean(s.coverage for s in scores)


def by_session(scores: Sequence[Score]) -> list[list[float]]:
    """The coverages, session by session."""
    found: dict[str, list[float]] = {}
    for one in scores:
        found.setdefault(one.session, []).append(one.coverage)
    return list(found.values())


def report(scores: Sequence[Score], *, missed: bool = False) -> str:
    """Every case with its baselines, then the mean with its intervals."""
    lines = ["needed  tokens      of  summary  newest  ours   case"]
    for s in scores:
        flag = "" if s.beats_both else "  NOT above both baselines"
        lines.append(
            f"{s.needed:6}  {s.used_tokens:6}  {s.max_tokens:6}  {s.summary:7.2f}  {s.newest:6.2f}"
            f"  {s.coverage:5.3f}  {s.name}{flag}"
        )
        if missed and s.missed:
            lines.append(f"        missed: {', '.join(s.missed)}")
    low, high = stats.interval([s.coverage for s in scores])
    sessions = by_session(scores)
    wide_low, wide_high = stats.clustered_interval(sessions)
    lines += [
        f"{len(scores)} cases: ours {mean_of(scores):.3f}, "
        f"real summary {mean(s.summary for s in scores):.3f}, "
        f"newest text {mean(s.newest for s in scores):.3f}; above both in "
        f"{sum(s.beats_both for s in scores)}; lowest {min(s.coverage for s in scores):.3f}",
        f"95 % bootstrap interval: {low:.3f}-{high:.3f} over cases, "
        f"{wide_low:.3f}-{wide_high:.3f} over {len(sessions)} sessions",
    ]
    return "\n".join(lines)


def as_json(scores: Sequence[Score]) -> dict[str, Any]:
    """The same for machines."""
    low, high = stats.interval([s.coverage for s in scores])
    return {"mean": mean_of(scores), "interval": [low, high], "cases": [asdict(s) for s in scores]}

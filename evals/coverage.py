"""Future-reference coverage: of what an agent is about to use again, how much survives?

What counts is defined by the measure's own tool (`data.measure`): it cuts real sessions at their
real compactions, finds the names that are used again right after, and scores any text. Here the
product compresses the part before a compaction to as many tokens as the real summary had, and once
more to twice as many, which must not cost anything. *From memory* is what the agent used before
anything had shown it again. A list of names alone covers most of what is needed and says nothing:
so it stands beside, with thirty lines of talk, and with ours without its lists.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from types import ModuleType
from typing import Any

from compact import Plan, plan, wiring
from compact.messages.context import render_text
from compact.messages.messages import Message
from compact.messages.policy import CompactPolicy
from compact.messages.protocols import Summarizer
from compact.wiring import read_transcript
from evals import baselines, contexts, data, person, stats
from evals.split import Cell, Half, columns, half_of, table

MOST_LOST = 0.02
"""What twice the tokens may cost at most, in any case."""


@dataclass(frozen=True)
class Case:
    """One compaction of a real session."""

    session: str
    half: Half
    definition: dict[str, Any]
    """The tool's own case: name, max_tokens, needed, summary."""
    messages: tuple[Message, ...]
    summary: float
    """Baseline: coverage of the real summary."""
    newest: float
    """Baseline: coverage of the newest text in the same tokens."""
    said: tuple[str, ...] = ()
    """The sentences that a person typed, no questions."""

    @property
    def name(self) -> str:
        return str(self.definition["name"])

    @property
    def max_tokens(self) -> int:
        return int(self.definition["max_tokens"])


@dataclass(frozen=True)
class Score:
    """What the compressions of one case reached."""

    name: str
    session: str
    half: Half
    needed: int
    max_tokens: int
    used_tokens: int
    coverage: float
    summary: float
    newest: float
    missed: tuple[str, ...]
    prose: float
    """Coverage without the lists of names."""
    lists: float
    """Share of the checkpoint's tokens that are lists."""
    of_all: float
    """Share of all tokens that are."""
    twice: float
    """Coverage at twice the tokens."""
    said: int
    whole: int
    """A person's sentences, and those that stand there word for word."""
    memory: float
    """Coverage of what was used from memory; 1 where nothing was."""
    prose_memory: float
    """The same without the lists of names."""
    names_alone: float
    names_alone_memory: float
    """Of a list of names and nothing else."""
    thirty_lines: float
    thirty_lines_memory: float
    """Of thirty lines of talk and names."""

    @property
    def drop(self) -> float:
        """What twice the tokens cost; negative where they gained."""
        return self.coverage - self.twice


class Cases:
    """The cases of all sessions, or of those that are named, split by the tool and read by the
    product, one after the other.
    """

    def __init__(self, folder: Path, sessions: Sequence[Path] | None = None) -> None:
        self.tool: ModuleType = data.measure(folder)
        self._sessions = data.every_claude_code_session(folder) if sessions is None else sessions

    def __iter__(self) -> Iterator[Case]:
        with tempfile.TemporaryDirectory() as name:
            for number, session in enumerate(self._sessions):
                out = Path(name) / str(number)
                out.mkdir()
                self.tool.split(session, out)
                half = half_of(session.stem, folder=session.parent.name)
                for path in sorted(out.glob("*.case.json"), key=_number):
                    yield self._case(session.stem, half, path)

    def _case(self, session: str, half: Half, path: Path) -> Case:
        definition = json.loads(path.read_text(encoding="utf-8"))
        before = path.with_name(path.name.replace(".case.json", ".before.jsonl"))
        newest = self.tool.newest_text(before, definition["max_tokens"])
        return Case(
            session,
            half,
            definition,
            read_transcript(before).messages,
            self.tool.coverage(definition, definition["summary"]),
            self.tool.coverage(definition, newest),
            tuple(_statements(before)),
        )


def _number(path: Path) -> int:
    return int(path.name.split(".")[-3])


def _statements(session: Path) -> dict[str, None]:
    said = [each for each in person.said(person.rows_of(session)) if not each.pasted]
    return dict.fromkeys(contexts.squeezed(x) for each in said for x in each.statements())


def compressed(
    case: Case,
    *,
    times: int = 1,
    policy: CompactPolicy | None = None,
    summarizer: str | Summarizer = wiring.EXTRACTIVE,
) -> Plan:
    """The product's main job on a case, at some times the summary's tokens; its context, rendered
    as text, is what is counted and scored.
    """
    return plan(
        case.messages,
        max_tokens=case.max_tokens * times,
        tokenizer="o200k",
        policy=policy,
        summarizer=summarizer,
    )


def score(
    tool: ModuleType, case: Case, messages: Sequence[Message], twice: Sequence[Message]
) -> Score:
    """Score a context of at most the tokens of the real summary, and one of twice as many.

    Raises:
        AssertionError: the first has more tokens than that.
    """
    text = render_text(messages)
    used = tool.COUNT(text)
    assert used <= case.max_tokens, f"{case.name}: {used} tokens, allowed are {case.max_tokens}"
    found = tool.anchors(text)
    found |= {anchor.rsplit("/", 1)[-1] for anchor in found if "/" in anchor}
    needed = case.definition["needed"]
    from_memory = case.definition.get("from_memory") or []

    def covered(told: str, which: Sequence[str] | None = None) -> float:
        return 1.0 if which == [] else float(tool.coverage(case.definition, told, which))

    alone = baselines.names_alone(case.messages, case.max_tokens, tool.COUNT)
    lines = baselines.thirty_lines(case.messages, case.max_tokens, tool.COUNT)
    prose = contexts.prose(messages)
    names = sum(map(tool.COUNT, contexts.lists(messages)))
    return Score(
        case.name,
        case.session,
        case.half,
        len(needed),
        case.max_tokens,
        used,
        tool.coverage(case.definition, text),
        case.summary,
        case.newest,
        tuple(a for a in needed if a not in found),
        covered(prose),
        names / max(1, sum(map(tool.COUNT, contexts.ours(messages)))),
        names / max(1, used),
        covered(render_text(twice)),
        len(case.said),
        sum(each in contexts.squeezed(text) for each in case.said),
        *(covered(told, from_memory) for told in (text, prose)),
        *(covered(told, which) for told in (alone, lines) for which in (None, from_memory)),
    )


def run(
    cases: Cases,
    *,
    policy: CompactPolicy | None = None,
    summarizer: str | Summarizer = wiring.EXTRACTIVE,
) -> list[Score]:
    """Compress and score every case."""
    options: dict[str, Any] = {"policy": policy, "summarizer": summarizer}
    return [
        score(
            cases.tool,
            case,
            compressed(case, **options).context.messages,
            compressed(case, times=2, **options).context.messages,
        )
        for case in cases
    ]


def mean_of(scores: Sequence[Score]) -> float:
    """The mean coverage over cases."""
    return mean(s.coverage for s in scores)


def by_session(scores: Sequence[Score]) -> list[list[float]]:
    """The coverages, session by session."""
    found: dict[str, list[float]] = {}
    for one in scores:
        found.setdefault(one.session, []).append(one.coverage)
    return list(found.values())


def _interval(scores: Sequence[Score]) -> Cell:
    low, high = stats.clustered_interval(by_session(scores))
    return f"{low:.3f}-{high:.3f}"


def _whole(scores: Sequence[Score]) -> Cell:
    said = sum(s.said for s in scores)
    return sum(s.whole for s in scores) / said if said else None


def measured(scores: Sequence[Score]) -> Mapping[str, Mapping[Half, Cell]]:
    """What is published, of both halves."""
    return columns(
        scores,
        {
            "compactions": len,
            "sessions": lambda s: len(by_session(s)),
            "coverage": mean_of,
            "its 95 % interval, sessions drawn": _interval,
            "lowest": lambda s: min(x.coverage for x in s),
            "real summary": lambda s: mean(x.summary for x in s),
            "newest text": lambda s: mean(x.newest for x in s),
            "not above newest text (ties count)": lambda s: sum(x.coverage <= x.newest for x in s),
            "prose alone": lambda s: mean(x.prose for x in s),
            "from memory": lambda s: mean(x.memory for x in s),
            "a person's sentences, whole": _whole,
            "prose alone, from memory": lambda s: mean(x.prose_memory for x in s),
            "names alone": lambda s: mean(x.names_alone for x in s),
            "names alone, from memory": lambda s: mean(x.names_alone_memory for x in s),
            "thirty lines": lambda s: mean(x.thirty_lines for x in s),
            "thirty lines, from memory": lambda s: mean(x.thirty_lines_memory for x in s),
            "lists, share of the checkpoint": lambda s: mean(x.lists for x in s),
            "lists, share of the context": lambda s: mean(x.of_all for x in s),
            "lists, largest share of a checkpoint": lambda s: max(x.lists for x in s),
            "coverage at twice the tokens": lambda s: mean(x.twice for x in s),
            "worst drop at twice the tokens": lambda s: max(x.drop for x in s),
            f"cases that drop more than {MOST_LOST}": lambda s: sum(x.drop > MOST_LOST for x in s),
        },
    )


def report(scores: Sequence[Score], *, cases: bool = False, missed: bool = False) -> str:
    """The table; before it every case, and what those that are looked at lack, where asked."""
    lines = []
    if cases or missed:
        lines.append(
            "half   needed  tokens      of  summary  newest   ours  prose  lists  twice  case"
        )
    for s in scores if cases or missed else ():
        lines.append(
            f"{s.half:5}  {s.needed:6}  {s.used_tokens:6}  {s.max_tokens:6}  {s.summary:7.2f}"
            f"  {s.newest:6.2f}  {s.coverage:5.3f}  {s.prose:5.3f}  {s.lists:5.2f}"
            f"  {s.twice:5.3f}  {s.name}{'' if s.coverage > s.newest else '  NOT above newest'}"
        )
        if missed and s.missed and s.half == "look":
            lines.append(f"        missed: {', '.join(s.missed)}")
    return "\n".join([*lines, table("future-reference coverage", measured(scores))])


def as_json(scores: Sequence[Score]) -> dict[str, Any]:
    """The same for machines; what the scored half lacks is counted only."""
    rows = [asdict(s) | ({} if s.half == "look" else {"missed": len(s.missed)}) for s in scores]
    return {"measured": measured(scores), "cases": rows}

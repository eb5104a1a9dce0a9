"""The gate: does it let good stories pass, and does it refuse bad ones?

The repository's own forty stories were written by hand, without sight of the gate. With data, good
ones are the compaction summaries that a commercial model wrote into real sessions, their titles and
what its program put around them taken off, each judged beside its messages and the story by
extraction; bad ones are made of them, each in another way: of another session, cut off, of one
sentence, going round, a copy of what was said; and a text that would suit any conversation. Data
that were looked at when the rules were made and data that were not are counted apart.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from compact import ExtractiveSummarizer, wiring
from compact.engine.gate.rules import judge
from compact.engine.gate.summary_source import sentences
from compact.engine.stories.reading import story_of
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.messages import Message
from compact.messages.replies import Finish
from compact.messages.tokens import TokenCounter
from evals import data
from evals.split import Half, half_of

STORIES = data.REPO_ROOT / "tests" / "fixtures" / "stories"
SOURCES = {
    "harbour": data.SAMPLE,
    "kiln": data.REPO_ROOT / "tests" / "fixtures" / "golden" / "kiln.jsonl",
}
GOOD, BY_HAND = "good", ", by hand"
CAP, SLACK = 1_500, 10
"""Tokens of the story by extraction, and of a story beyond those it has."""
OTHERS, SHOWN = 2, 4_000
"""Stories of other sessions that each is tried with, and their characters."""
_TOKENIZER = "o200k"
_SEED = 4
_AROUND = re.compile(
    r"\A.{0,800}?Summary:\s|\n(?:If you need specific details|Please continue the conversation|"
    r"Continue the conversation).*\Z",
    re.DOTALL,
)
"""What the program that asked for a summary put before and behind it."""
_TITLE = re.compile(r"^(?:\d+\.\s+)?[A-Z][\w ,/&()]{2,50}:\s*$", re.MULTILINE)
ANY = (
    "The user and the assistant talked about several topics and worked on them together. The user "
    "asked a number of questions, and the assistant answered each of them in detail. They made "
    "good progress, solved the problems that came up on the way, and agreed on what to do next. "
    "In the end the user was happy with the results and thanked the assistant for the help. Some "
    "work remains to be done, and they will go on with it in the next session."
)
"""True of every conversation."""


@dataclass(frozen=True)
class Case:
    """A summary of a session, and what it is judged beside."""

    session: str
    half: Half
    request: SummaryRequest
    extracted: Summary
    source: int
    text: str


@dataclass(frozen=True)
class Tried:
    """What became of a story."""

    session: str
    half: Half
    kind: str
    """`GOOD`, or in which way it is bad."""
    accepted: bool
    rejected_by: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether the gate judged as it should."""
        return self.accepted == self.kind.startswith(GOOD)


def run(folder: Path | None) -> list[Tried]:
    """Judge them all."""
    counter = wiring.token_counter("chat_completions", tokenizer=_TOKENIZER)
    paths = data.every_claude_code_session(folder) if folder else []
    cases = [case for path in paths for case in _of(path, counter)]
    found = [
        tried(case, kind, text, counter)
        for case in cases
        for kind, text in ((GOOD, case.text), *bad_ones(case, cases))
    ]
    return [*by_hand(counter), *found]


def by_hand(counter: TokenCounter) -> Iterator[Tried]:
    """The forty stories; none of them was looked at when the rules were made."""
    listed = json.loads((STORIES / "stories.json").read_text("utf-8"))
    for row in listed if isinstance(listed, list) else listed["stories"]:
        said = wiring.read_transcript(SOURCES[row["source"]]).messages
        text = (STORIES / f"{row['name']}.md").read_text("utf-8").removesuffix("\n")
        case = case_of(row["name"], "score", said[row["first"] : row["last"] + 1], text, counter)
        kind = f"{row.get('flaw') or GOOD}{BY_HAND}"
        yield tried(case, kind, text, counter, finish=row["finish"])


def tried(
    case: Case, kind: str, text: str, counter: TokenCounter, *, finish: Finish = "stop"
) -> Tried:
    """One story, with room for it: how long it may be is no question here."""
    cap = max(case.request.max_tokens, counter.text(text) + SLACK)
    text = story_of(text)
    judged = judge(
        Summary(text=text, made_by="model", finish=finish),
        case.request.model_copy(update={"max_tokens": cap}),
        counter,
        extracted=case.extracted,
        source_tokens=max(case.source, cap),
    )
    return Tried(case.session, case.half, kind, judged.accepted, judged.rejected_by)


def bad_ones(case: Case, cases: Sequence[Case]) -> Iterator[tuple[str, str]]:
    """Bad stories of a case, by what is wrong with them."""
    chance = random.Random(f"{_SEED} {case.session}")
    others = [each for each in cases if each.session != case.session and each.half == case.half]
    for other in chance.sample(others, min(OTHERS, len(others))):
        yield "of another session", other.text[:SHOWN].rpartition(".")[0] + "."
    words = case.text.split()
    yield "cut off", " ".join(words[: int(len(words) * 0.6)])
    told = sentences(case.text)
    yield "one sentence", told[0][:300]
    yield "going round", " ".join(told[:3] * 6)
    said = [line for m in case.request.messages for line in m.text.split("\n") if len(line) > 30]
    yield "a copy", "\n".join(said)[:SHOWN].rpartition(".")[0] + "."
    yield "every third line", "\n".join(said[::3])[:SHOWN].rpartition(".")[0] + "."
    vocabulary = sorted(set(re.findall(r"[a-z]{3,}", " ".join(said).lower())))
    yield "words at random", " ".join(chance.choices(vocabulary, k=150)) + "."
    yield "of any conversation", ANY


def _of(path: Path, counter: TokenCounter) -> Iterator[Case]:
    """The compaction summaries in a Claude Code session, with the messages before each."""
    rows, start = path.read_text(encoding="utf-8").splitlines(), 0
    for number, row in enumerate(rows):
        if '"isCompactSummary":true' not in row.replace(" ", ""):
            continue
        with TemporaryDirectory() as place:
            before = Path(place) / path.name
            before.write_text("\n".join(rows[start:number]), encoding="utf-8")
            messages = wiring.read_transcript(before).messages
        content = json.loads(row)["message"]["content"]
        if not isinstance(content, str):
            content = "".join(part.get("text", "") for part in content)
        text = _TITLE.sub("", _AROUND.sub("", content)).strip()
        half = half_of(path.stem, folder=path.parent.name)
        yield case_of(path.stem, half, messages, text, counter)
        start = number


def case_of(
    session: str, half: Half, messages: Sequence[Message], text: str, counter: TokenCounter
) -> Case:
    """A story of some messages, with the one by extraction."""
    read = [message for message in messages if not message.is_pinned]
    request = SummaryRequest(messages=read, max_tokens=CAP)
    extracted = ExtractiveSummarizer(counter).extracted(request)
    return Case(session, half, request, extracted, sum(map(counter.message, read)), text)


def report(found: Sequence[Tried], *, missed: bool = False) -> str:
    """How often each kind was judged rightly, by half, and by which rules."""
    lines = []
    for kind in dict.fromkeys(row.kind for row in found):
        rows = [row for row in found if row.kind == kind]
        shares = [
            f"{half} {sum(r.is_right for r in some):>3} of {len(some):>3}"
            for half in ("look", "score")
            if (some := [row for row in rows if row.half == half])
        ]
        rules = Counter(rule for row in rows for rule in row.rejected_by).most_common(4)
        named = ", ".join(f"{rule} {times}" for rule, times in rules)
        lines.append(f"{kind:26} right: {', '.join(shares)}; refused by {named or 'nothing'}")
        wrong = [row for row in rows if not row.is_right and (missed or kind.startswith(GOOD))]
        lines += [f"  {row.session}: {', '.join(row.rejected_by) or 'accepted'}" for row in wrong]
    return "\n".join(lines)


def as_json(found: Sequence[Tried]) -> list[dict[str, Any]]:
    """The same as plain values."""
    return [asdict(row) for row in found]

"""Is what matters kept? `RetentionPolicy` against labels of real conversations (A-6).

The labels (`evals/labels/retention.jsonl`) were made before the formula. The policy is tuned on the
half that is looked at, and scored on the other; numbers of both are published.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from compact import Conversation, RetentionPolicy
from compact.memory.retention import Importance, Parts
from compact.messages.messages import Message
from evals import data, formats
from evals.split import Half, columns, half_of, table

LABELS = data.REPO_ROOT / "evals" / "labels" / "retention.jsonl"


@dataclass(frozen=True)
class Labelled:
    """A conversation with its label and what the policy says."""

    folder: str
    session: str
    half: Half
    keep: bool
    """Whether the label says that every word must stay."""
    kept: bool
    importance: Importance

    @property
    def is_right(self) -> bool:
        """Whether policy and label agree."""
        return self.keep == self.kept


def run(folder: Path, policy: RetentionPolicy | None = None) -> list[Labelled]:
    """Every labelled conversation that is there."""
    rows = map(json.loads, LABELS.read_text(encoding="utf-8").splitlines())
    return [each for row in rows if (each := _labelled(folder, row, policy or RetentionPolicy()))]


def _labelled(folder: Path, row: dict[str, str], policy: RetentionPolicy) -> Labelled | None:
    path = folder / row["folder"] / row["file"]
    if not path.is_file():
        return None
    conversation = Conversation(messages=tuple(messages_of(path, row["session"])))
    found = policy.calculate_importance_score(conversation)
    return Labelled(
        row["folder"],
        row["session"],
        half_of(row["session"]),
        row["label"] == "keep",
        policy.retains(found, age_days=10_000),
        found,
    )


def messages_of(path: Path, session: str) -> Sequence[Message]:
    """The messages of a file, or of one conversation in it."""
    if path.parent.parent.name == "qmsum":
        return list(_meeting(path))
    if path.parent.name == "longmemeval_subset":
        return list(_session(path, session))
    if path.stem == session:
        return formats.read(path).messages
    number = data.conversation_ids(path).index(session) + 1
    return formats.read(path, conversation=number).messages


def _meeting(path: Path) -> Iterator[Message]:
    for row in json.loads(path.read_text(encoding="utf-8"))["meeting_transcripts"]:
        yield Message(role="user", name=row["speaker"], content=row["content"])


def _session(path: Path, session: str) -> Iterator[Message]:
    for record in json.loads(path.read_text(encoding="utf-8")):
        ids = record["haystack_session_ids"]
        if session in ids:
            at = ids.index(session)
            written = f"{record['haystack_dates'][at]} +0000"
            time = datetime.strptime(written, "%Y/%m/%d (%a) %H:%M %z")
            for row in record["haystack_sessions"][at]:
                yield Message(role=row["role"], content=row["content"], timestamp=time)
            return


# --- numbers --------------------------------------------------------------------------------------


def _recall(rows: Sequence[Labelled]) -> float | None:
    keep = [row.kept for row in rows if row.keep]
    return sum(keep) / len(keep) if keep else None


def _precision(rows: Sequence[Labelled]) -> float | None:
    kept = [row.keep for row in rows if row.kept]
    return sum(kept) / len(kept) if kept else None


def _order(rows: Sequence[Labelled]) -> float | None:
    """Of a pair of one to be kept and one that may age, how often the former scores higher."""
    keep = [row.importance.score for row in rows if row.keep]
    age = [row.importance.score for row in rows if not row.keep]
    pairs = [(a > b) + (a == b) / 2 for a in keep for b in age]
    return sum(pairs) / len(pairs) if pairs else None


MEASURES = {
    "conversations": len,
    "labelled keep": lambda rows: sum(row.keep for row in rows),
    "right": lambda rows: sum(row.is_right for row in rows) / len(rows),
    "kept of those to keep": _recall,
    "rightly kept of those kept": _precision,
    "in the right order, of pairs": _order,
}


def report(rows: Sequence[Labelled], *, missed: bool = False) -> str:
    """The measures of both halves; with `missed`, each conversation of the half looked at."""
    lines = [table("importance", columns(rows, MEASURES))]
    if missed:
        head = "  ".join(f"{name:>10}" for name in Parts._fields)
        lines.append(f"\n{'label':5} {'score':>5}  {head}  session")
        for row in sorted(rows, key=lambda x: -x.importance.score):
            if row.half == "look":
                parts = "  ".join(f"{part:10.2f}" for part in row.importance.parts)
                label = "keep" if row.keep else "age"
                sign = " " if row.is_right else "*"
                score = row.importance.score
                lines.append(f"{label:4}{sign} {score:5.2f}  {parts}  {row.session[:40]}")
    return "\n".join(lines)


def as_json(rows: Sequence[Labelled]) -> dict[str, Any]:
    """The measures, and each conversation with its parts."""
    told = [{**asdict(row), "importance": row.importance.model_dump(mode="json")} for row in rows]
    return {"measures": columns(rows, MEASURES), "conversations": told}

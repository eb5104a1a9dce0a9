"""How many secrets are found, and how many texts without one are altered: labelled corpora, and
detect-secrets beside us.

`dev.jsonl` was built by. `held_out.jsonl` was written without sight of the patterns, and nobody
looks at it: only numbers of it are told. `keys.jsonl` and its sequels are of explicit keys: each
was scored once, and then built by (decision 076). A row has a `text` and its `secrets`; one that is
`opt_in` holds an e-mail address or a phone number, and is scored with those kinds on.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compact.messages.messages import Part, ToolCall
from compact.secrets.personal import OPTIONAL
from compact.secrets.redaction import Known, find_secrets, redact
from compact.secrets.redactor import Redactor
from evals import data
from evals.split import half_of

CORPORA = ("dev", "held_out", "keys", "keys_2", "keys_3", "keys_4")
FOLDER = data.REPO_ROOT / "tests" / "fixtures" / "secrets"
PERSONAL = Redactor(tuple(OPTIONAL))
SHORTEST = 4
"""Characters of a line of a secret that must not be left."""
PIECE = 20_000
"""Characters of a text in which the speed is measured."""
RUNS = 3
"""Of each measurement of the speed; the quickest counts, on machines that do other work too."""


@dataclass
class Score:
    """What was found of a corpus."""

    found: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    opt_in: Counter[bool] = field(default_factory=Counter)
    negatives: int = 0
    altered: int = 0

    @property
    def recall(self) -> float:
        """The share of all secrets that was found."""
        return self.found.total() / (self.found + self.missed).total()

    @property
    def false_positives(self) -> float:
        """The share of texts without a secret that was altered."""
        return self.altered / self.negatives


def rows(corpus: str) -> Iterator[dict[str, Any]]:
    """The rows of a corpus."""
    for line in (FOLDER / f"{corpus}.jsonl").read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def score(corpus: str, told: Callable[[str], str] | None = None) -> Score:
    """The score of a corpus by what is left of each text; ours where nothing else is given."""
    done = Score()
    for row in rows(corpus):
        if row.get("opt_in"):
            left = redact(row["text"], Known(redactor=PERSONAL)).text
            done.opt_in.update(not _stands(x["value"], left) for x in row["secrets"])
            continue
        left = told(row["text"]) if told else redact(row["text"]).text
        if not row["secrets"]:
            done.negatives += 1
            done.altered += left != row["text"]
        for secret in row["secrets"]:
            stands = _stands(secret["value"], left)
            (done.missed if stands else done.found)[secret["kind"]] += 1
    return done


def _stands(secret: str, left: str) -> bool:
    lines = [x for x in secret.replace("\\n", "\n").split("\n") if len(x) >= SHORTEST]
    return any(line in left for line in lines or [secret])


def by_detect_secrets(*, keywords: bool) -> Callable[[str], str]:
    """What detect-secrets leaves of a text: its default plugins, with or without the one that goes
    by names.
    """
    from detect_secrets.core.scan import scan_file
    from detect_secrets.settings import default_settings, get_settings

    def told(text: str) -> str:
        with tempfile.TemporaryDirectory() as folder, default_settings():
            if not keywords:
                get_settings().disable_plugins("KeywordDetector")
            file = Path(folder) / "text.txt"
            file.write_text(text, encoding="utf-8", errors="replace")
            for secret in scan_file(str(file)):
                text = text.replace(secret.secret_value or "\0", "*")
        return text

    return told


def real_texts(folder: Path | None) -> list[str]:
    """What stands in messages, calls and results of real sessions of the half that is looked at;
    without data of the repository's own.
    """
    found: list[str] = []
    for name, messages in data.sessions(folder):
        if folder is not None and half_of(name) != "look":
            continue
        for message in messages:
            said = message.content
            parts = (said,) if isinstance(said, str) else map(_said_in, said)
            found += filter(None, parts)
    return found


def _said_in(part: Part) -> str:
    return part.arguments if isinstance(part, ToolCall) else getattr(part, "text", "")


def speed(texts: Sequence[str]) -> float:
    """Megabytes a second of processor time."""
    taken = []
    for _ in range(RUNS):
        before = time.process_time()
        for text in texts:
            find_secrets(text)
        taken.append(time.process_time() - before)
    return sum(len(text.encode(errors="replace")) for text in texts) / 1e6 / min(taken)


def run(folder: Path | None = None, *, oracle: bool = True) -> dict[str, Any]:
    """All scores as JSON has them; by kind only of the corpus that is there to be looked at."""
    found: dict[str, Any] = {}
    ways: dict[str, Callable[[str], str] | None] = {"compact": None}
    if oracle:
        ways["detect-secrets"] = by_detect_secrets(keywords=True)
        ways["detect-secrets without keywords"] = by_detect_secrets(keywords=False)
    for corpus in CORPORA:
        for name, told in ways.items():
            done = score(corpus, told)
            kinds = {
                k: [done.found[k], done.found[k] + done.missed[k]]
                for k in sorted(done.found | done.missed)
            }
            found[f"{corpus}, {name}"] = {
                "recall": done.recall,
                "secrets": (done.found + done.missed).total(),
                "false_positives": done.false_positives,
                "negatives": done.negatives,
                "opt_in": [done.opt_in[True], done.opt_in.total()],
                "kinds": kinds if told is None and corpus == "dev" else {},
            }
    texts = real_texts(folder)
    whole = "".join(texts)
    pieces = [whole[start : start + PIECE] for start in range(0, len(whole), PIECE)]
    altered = sum(bool(find_secrets(text)) for text in texts)
    found["texts of real sessions"] = len(texts)
    found["of them altered"] = altered
    found["MB/s in them"] = speed(texts)
    found[f"MB/s in pieces of {PIECE:,} characters"] = speed(pieces)
    return found


def report(found: dict[str, Any]) -> str:
    """The numbers as a table, and ours by kind."""
    lines = [f"{'':50} recall  of    altered  of"]
    for name, row in found.items():
        if isinstance(row, float | int):
            lines.append(f"{name}: {row:,.1f}" if isinstance(row, float) else f"{name}: {row:,}")
            continue
        lines.append(
            f"{name:50} {row['recall']:6.3f} {row['secrets']:4}  {row['false_positives']:7.3f} "
            f"{row['negatives']:4}"
        )
        if row["opt_in"][1]:
            lines.append(
                f"  e-mail and phone, where asked for: {row['opt_in'][0]} of {row['opt_in'][1]}"
            )
        kinds = [f"{kind} {hit}/{of}" for kind, (hit, of) in row["kinds"].items()]
        lines += [f"  {', '.join(kinds)}"] if kinds else []
    return "\n".join(lines)

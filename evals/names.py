"""What makes a name needed again: weights fitted to sessions that are looked at.

Any cut of a real session is an example: of the names that were used before it, some are used by the
assistant in its next sixty messages. A logistic regression over `Use.features` says what counts;
`python -m evals names` writes its weights to the file that the product reads: it runs only where it
is named. The half that is scored is not read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from compact.engine.chronology.notes import Notes
from compact.messages.messages import Message
from compact.text import anchors
from compact.wiring import read_transcript
from evals import data
from evals.split import half_of

WEIGHTS = Path(anchors.__file__).with_name("name_weights.json")
AHEAD, EVERY, FIRST = 60, 40, 40
"""Messages in which a name is needed or not, messages between two cuts, and before the first."""
CANDIDATES = 600
"""Names of a cut, the likeliest by the weights in force and those that were used last."""
STEPS, SHRINK = 25, 1.0
"""Newton steps, and what keeps weights small."""
Row = tuple[dict[str, float], bool]


def rows_of(messages: Sequence[Message]) -> Iterator[Row]:
    """Names before every cut with their features, and whether they are used after it."""
    notes = Notes()
    for at in range(FIRST, len(messages) - AHEAD // 2, EVERY):
        notes.read(messages[notes.position : at])
        used = _used(messages[at : at + AHEAD])
        for name, use, _ in notes.ledger.ranked(at, CANDIDATES):
            yield features_of(use, at), name in used


def features_of(use: anchors.Use, now: int) -> dict[str, float]:
    """What a name's weight is the sum of, each with its number in `name_weights.json`."""
    found = {
        "times": math.log1p(use.times),
        "age": math.log1p(now - use.position),
        "edits": math.log1p(use.edits),
        use.kind: 1.0,
    }
    if use.own >= 0:
        found["own_age"] = math.log1p(now - use.own)
    else:
        found["only_in_results"] = 1.0
    return found


def _used(messages: Sequence[Message]) -> set[str]:
    """The names that the assistant uses."""
    used: set[str] = set()
    for message in messages:
        if message.role == "assistant":
            used |= anchors.texts_of(anchors.find(message.text))
            for call in message.tool_calls:
                for _, value in anchors.strings_of(call.arguments):
                    used |= anchors.texts_of(anchors.find(value))
    return used


def fitted(rows: Sequence[Row]) -> dict[str, float]:
    """The weights of a logistic regression, by Newton's method."""
    import numpy as np

    names = sorted({name for features, _ in rows for name in features})
    x = np.array([[1.0, *(features.get(name, 0.0) for name in names)] for features, _ in rows])
    y, w = np.array([used for _, used in rows], dtype=float), np.zeros(len(names) + 1)
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-(x @ w)))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + SHRINK * np.eye(len(w))
        w += np.linalg.solve(hessian, x.T @ (y - p) - SHRINK * w)
    return {name: round(float(v), 3) for name, v in zip(names, w[1:], strict=True)}


def run(folder: Path) -> dict[str, Any]:
    """Fit the weights on the half that is looked at, and write them to the product's file."""
    rows = list[Row]()
    for session in data.every_claude_code_session(folder):
        if half_of(session.stem, folder=session.parent.name) == "look":
            rows += rows_of(read_transcript(session).messages)
    if not rows:
        raise data.NoData("no session is long enough", asked=False)
    weights = fitted(rows)
    WEIGHTS.write_text(json.dumps(weights, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    needed = sum(used for _, used in rows) / len(rows)
    return {"examples": len(rows), "needed": round(needed, 4), "weights": weights}


def report(found: dict[str, Any]) -> str:
    """The weights, and what they were fitted to."""
    rows = [f"names: {found['examples']:,} examples, {found['needed']:.1%} needed"]
    return "\n".join([*rows, *(f"  {k:16} {v:7.3f}" for k, v in found["weights"].items())])

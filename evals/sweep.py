"""Would other weights do better, and would that hold for a session they were not chosen on?

One knob is turned at a time, the best turn is kept, and again, a few rounds. What counts is the
leave-one-session-out mean: for each session the knobs are turned on the others alone. A gain that
is there in sample only is chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import mean
from types import ModuleType
from typing import Any

from compact.compression import stages
from compact.compression.extraction import extractive
from compact.core import anchors
from compact.core.policy import CompactPolicy
from evals import coverage
from evals.coverage import Case, Cases

ROUNDS = 2
LEAST_GAIN = 0.002
FACTORS = (0.5, 1.6)


@dataclass(frozen=True)
class Knob:
    """One number of the product: a constant, one entry of a table, or a field of the policy."""

    name: str
    owner: ModuleType | None
    attribute: str
    key: str | None
    values: tuple[float, ...]


Setting = Mapping[str, float]


def _constants(owner: ModuleType, **values: tuple[float, ...]) -> Iterator[Knob]:
    for name, options in values.items():
        if hasattr(owner, name):
            yield Knob(name, owner, name, None, options)


def _table(owner: ModuleType, attribute: str) -> Iterator[Knob]:
    for key, value in getattr(owner, attribute).items():
        yield Knob(f"{attribute}.{key}", owner, attribute, key, tuple(value * f for f in FACTORS))


def knobs() -> dict[str, Knob]:
    """What can be turned, by name."""
    every = [
        *_table(anchors, "ORIGIN_WEIGHT"),
        *_table(anchors, "KIND_WEIGHT"),
        *_constants(anchors, FADE=(30, 45, 90, 150), OLD_SHARE=(0.0, 0.02, 0.1, 0.2)),
        *_constants(
            extractive,
            ANCHOR_SHARE=(0.4, 0.5, 0.6, 0.7, 0.8),
            ANCHOR_TOKENS=(500, 700, 1200),
            ANCHOR_MORE=(0.15, 0.45),
            GOAL_SHARE=(0.06, 0.2),
            THRIFT=(0.0, 0.25, 0.75),
        ),
        *_constants(
            stages,
            LEAST_RESERVE=(1000, 1500, 2500),
            LARGEST_SHARE=(0.5, 0.62, 0.85),
        ),
        Knob("checkpoint_share", None, "checkpoint_share", None, (0.1, 0.3, 0.4)),
    ]
    return {knob.name: knob for knob in every}


@contextmanager
def turned(setting: Setting) -> Iterator[CompactPolicy]:
    """The product with the knobs so, and the policy to run it with; afterwards as it was."""
    policy: dict[str, Any] = {}
    known = knobs()
    with ExitStack() as undo:
        for name, value in setting.items():
            knob = known[name]
            if knob.owner is None:
                policy[knob.attribute] = value
                continue
            old = getattr(knob.owner, knob.attribute)
            undo.callback(setattr, knob.owner, knob.attribute, old)
            new = type(old)(value) if knob.key is None else {**old, knob.key: value}
            setattr(knob.owner, knob.attribute, new)
        yield CompactPolicy(**policy)


class Sweep:
    """Scores of settings, each run once."""

    def __init__(self, cases: Cases) -> None:
        self._cases = cases
        self._known: dict[tuple[tuple[str, float], ...], dict[str, float]] = {}

    def scores(self, setting: Setting) -> dict[str, float]:
        """Case → coverage with that setting."""
        key = tuple(sorted(setting.items()))
        if key not in self._known:
            with turned(setting) as policy:
                self._known[key] = {c.name: self._score(c, policy) for c in self._cases.all}
        return self._known[key]

    def _score(self, case: Case, policy: CompactPolicy) -> float:
        text = coverage.compressed(case, policy=policy).context.render_text()
        return coverage.score(self._cases.tool, case, text).coverage

    def mean(self, setting: Setting, cases: list[Case]) -> float:
        """The mean coverage over some cases."""
        scores = self.scores(setting)
        return mean(scores[c.name] for c in cases)

    def choose(self, cases: list[Case]) -> dict[str, float]:
        """The setting that is best on these cases, knob by knob."""
        chosen: dict[str, float] = {}
        best = self.mean(chosen, cases)
        for _ in range(ROUNDS):
            options = [{**chosen, k.name: v} for k in knobs().values() for v in k.values]
            ahead = max(options, key=lambda option: self.mean(option, cases))
            if self.mean(ahead, cases) < best + LEAST_GAIN:
                break
            chosen, best = ahead, self.mean(ahead, cases)
        return chosen


def report(cases: Cases) -> str:
    """In sample, each session left out, and one knob at a time."""
    sweep = Sweep(cases)
    base = sweep.mean({}, cases.all)
    tuned = sweep.choose(cases.all)
    in_sample = sweep.mean(tuned, cases.all)
    lines = [f"as it is: {base:.4f}", f"chosen on all: {in_sample:.4f} with {_shown(tuned)}"]
    left_out: list[float] = []
    for session in dict.fromkeys(c.session for c in cases.all):
        own = [c for c in cases.all if c.session == session]
        chosen = sweep.choose([c for c in cases.all if c.session != session])
        left_out += [sweep.scores(chosen)[c.name] for c in own]
        lines.append(
            f"  without {session}: {_shown(chosen)}; on it {sweep.mean(chosen, own):.3f}, "
            f"as it is {sweep.mean({}, own):.3f}"
        )
    lines += [f"leaving one session out: {mean(left_out):.4f}", "one knob at a time:"]
    for knob in knobs().values():
        turns = [f"{v:g}: {sweep.mean({knob.name: v}, cases.all) - base:+.4f}" for v in knob.values]
        lines.append(f"  {knob.name}: {', '.join(turns)}")
    return "\n".join(lines)


def _shown(setting: Setting) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in setting.items()) or "nothing changed"

"""How checkpoints age: which ones are rewritten, and at which level.

This module decides; the summarizer writes. A checkpoint keeps its text while its level stays, and
also if the text fits the cap of its new level. So text that a model has seen changes only when
tokens must be freed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from compact.messages.checkpoints import LEVELS, Caps, Checkpoint, Level, aged, older

LEAST_CAP = 96
"""Smallest cap, in tokens. A smaller one has no room for a heading and one line."""
Pressure = Literal["none", "lower", "merge"]
"""How an emergency ages checkpoints: each by one level, or all merged into one."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Checkpoints to rewrite as one checkpoint of a level, within a cap in tokens."""

    sources: tuple[Checkpoint, ...]
    level: Level
    cap: int


@dataclass(frozen=True, slots=True)
class Ageing:
    """What happens to the live checkpoints, oldest span first."""

    steps: tuple[Checkpoint | Rewrite, ...]

    @property
    def tokens(self) -> int:
        """The most tokens that the checkpoints will take."""
        return sum(s.cap if isinstance(s, Rewrite) else s.token_count for s in self.steps)

    @property
    def rewrites(self) -> tuple[Rewrite, ...]:
        """The checkpoints that must be written."""
        return tuple(step for step in self.steps if isinstance(step, Rewrite))


def age(
    live: Sequence[Checkpoint],
    *,
    number: int,
    caps: Caps,
    room: int,
    pressure: Pressure = "none",
) -> Ageing:
    """Return what happens to the live checkpoints at compression `number` of the session. The
    schedule sets the levels. While the checkpoints take more than `room` tokens, the oldest one
    that is not merged ages by another step.
    """
    before = {c.id: c.level for c in live}
    live = [aged(c, number) for c in live]
    wanted = [c.level for c in live]
    if pressure == "lower":
        wanted = [LEVELS[min(LEVELS.index(w) + 1, len(LEVELS) - 1)] for w in wanted]
    if pressure == "merge":
        wanted = ["merged" for _ in wanted]
    while True:
        wanted = _in_order(wanted)
        ageing = Ageing(tuple(_steps(live, wanted, before, caps, room)))
        young = next((i for i, level in enumerate(wanted) if level != "merged"), None)
        if ageing.tokens <= room or young is None:
            return ageing
        wanted[young] = LEVELS[LEVELS.index(wanted[young]) + 1]


def _in_order(wanted: list[Level]) -> list[Level]:
    """Make levels consistent: none is younger than the next one, and all before a merged checkpoint
    are merged.
    """
    out: list[Level] = []
    for level in reversed(wanted):
        out.append(older(level, out[-1]) if out else level)
    return out[::-1]


def _steps(
    live: Sequence[Checkpoint],
    wanted: Sequence[Level],
    before: Mapping[str, Level],
    caps: Caps,
    room: int,
) -> list[Checkpoint | Rewrite]:
    merged = tuple(c for c, level in zip(live, wanted, strict=True) if level == "merged")
    steps: list[Checkpoint | Rewrite] = []
    if merged:
        cap = max(LEAST_CAP, min(caps.of("merged"), room))
        steps.append(_step(merged, "merged", cap, caps))
    for checkpoint, level in zip(live[len(merged) :], wanted[len(merged) :], strict=True):
        if level == before[checkpoint.id]:
            steps.append(checkpoint)
        else:
            steps.append(_step((checkpoint,), level, caps.of(level), caps))
    return steps


def _step(
    sources: tuple[Checkpoint, ...], level: Level, cap: int, caps: Caps
) -> Checkpoint | Rewrite:
    only = sources[0]
    if len(sources) == 1 and only.token_count <= min(cap, caps.of(only.level)):
        return only  # It keeps its words and its level, so it must be within that level's cap too
    return Rewrite(sources, level, cap)

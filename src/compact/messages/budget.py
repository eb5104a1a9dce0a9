"""Budgets: how many tokens there are, and which of them are whose.

A *ceiling* (`max_tokens` of `compress`) bounds the returned prompt and knows neither reserve nor
trigger; a *window* is a model's limit, of which `usable = window − max(output reserve, hard-cap
buffer)`, the buffer being min(1,500 tokens, an eighth of the window) (requirement C-7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import BaseModel, Field, computed_field

WORDS_SHARE = 0.25
"""Share of the window: more keeps more of a person's words, and less of the rest (decision 033)."""


class ContextBudget(BaseModel, frozen=True, defer_build=True):
    """Tokens allowed, used and still available."""

    max_tokens: int = Field(ge=0)
    used_tokens: int = Field(default=0, ge=0)

    @computed_field  # type: ignore[prop-decorator]  # pydantic's documented order of decorators
    @property
    def available_tokens(self) -> int:
        """Tokens not yet used; never negative."""
        return max(0, self.max_tokens - self.used_tokens)


class WindowUse(BaseModel, frozen=True, defer_build=True):
    """Where the tokens of a prompt are, by part."""

    system: int = 0
    """System prompt, tool schemas and framing."""
    goals: int = 0
    checkpoints: int = 0
    """Checkpoints, and the standing record."""
    recalled: int = 0
    """Old turns that automatic recall quotes."""
    recent: int = 0
    """Messages in view, word for word or shortened."""
    usable: int
    """What a prompt may use."""
    exact: bool
    """Whether it is counted as the model counts; else these are estimates."""

    @property
    def used(self) -> int:
        """Tokens of the whole prompt."""
        return self.system + self.goals + self.checkpoints + self.recalled + self.recent

    @property
    def free(self) -> int:
        """What is left; never negative."""
        return max(0, self.usable - self.used)


TARGETS = ((8_192, 0.60), (65_536, 0.40))
"""Windows up to which, and from which on, a session is compressed to that share of what is usable
(C-7): at .40 one of 8k kept half of what one call keeps."""
MOST_TARGET = 6 / 7
"""The part of the trigger that a session is compressed to at most: nearer, it would be compressed
at nearly every turn."""


class ContextWindow(BaseModel, frozen=True, defer_build=True):
    """The budget of one model's window, in tokens."""

    size: int = Field(gt=0)
    output_reserve: int = Field(default=0, ge=0)
    trigger_ratio: float = Field(default=0.70, gt=0, le=1)
    target_ratio: float | None = Field(default=None, gt=0, le=1)
    """None is by size: `TARGETS`, and never more than a part of the trigger."""
    trigger_tokens: int | None = Field(default=None, gt=0)
    """An absolute cap on the trigger, beside the percentage."""
    ratio: float = Field(default=1.0, gt=0)
    """Tokens that the provider counts for each that we count, as far as that is known: it makes the
    window smaller or larger in our tokens (`messages.calibration`)."""

    @property
    def buffer(self) -> int:
        """The hard-cap buffer (C-7)."""
        return min(1_500, self.size // 8)

    @property
    def usable(self) -> int:
        """What a prompt may use."""
        return max(0, int((self.size - max(self.output_reserve, self.buffer)) / self.ratio))

    @property
    def words(self) -> int:
        """What the newest messages of a person may take before everything else (FR-8)."""
        return int(self.size * WORDS_SHARE / self.ratio)

    @property
    def trigger_share(self) -> int:
        """What `trigger_ratio` gives: a share of the window itself (C-7). Behind it is always room
        for one answer: the buffer, or half of what is usable where that is less.
        """
        room = min(int(self.buffer / self.ratio), self.usable // 2)
        return min(_share(self.size / self.ratio, self.trigger_ratio), self.usable - room)

    @property
    def trigger(self) -> int:
        """From this size on a session is compressed."""
        share = self.trigger_share
        return share if self.trigger_tokens is None else min(share, self.trigger_tokens)

    @property
    def target(self) -> int:
        """What a session is compressed to."""
        if self.target_ratio is not None:
            return min(_share(self.usable, self.target_ratio), self.trigger)
        return min(_share(self.usable, target_of(self.size)), int(MOST_TARGET * self.trigger))

    def budget(self, used: int) -> ContextBudget:
        """The budget of a prompt of that many tokens."""
        return ContextBudget(max_tokens=self.usable, used_tokens=used)


def target_of(size: int) -> float:
    """The share of the usable window that a session is compressed to: between `TARGETS` on a
    logarithmic scale.
    """
    (small, most), (large, least) = TARGETS
    way = math.log(min(max(size, small), large) / small) / math.log(large / small)
    return most - way * (most - least)


def _share(tokens: float, share: float) -> int:
    """A share of tokens, rounded down; .70 of 10,500 is 7,350, whatever binary fractions say."""
    return int(tokens * share + 1e-6)


def even_share(sizes: Sequence[int], excess: int) -> int:
    """What each may take at most, so that together they take that much less."""
    share = largest = max(sizes, default=0)
    left = sum(sizes) - excess
    for count, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - count)
        if size > share:
            return max(0, share)
        left -= size
    return max(share, largest)

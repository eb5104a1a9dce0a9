"""Budgets: how many tokens a prompt may have, and how they are divided.

A *ceiling* (`max_tokens` of `compress`) bounds the returned prompt. It has no reserve and no
trigger. A *window* is a model's limit. Its usable part is `usable = window − max(output reserve,
hard-cap buffer)`. The buffer is min(1,500 tokens, an eighth of the window) (requirement C-7).

`size_in` and `share_in` parse sizes and shares that people wrote in options, settings and files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

from pydantic import BaseModel, Field, computed_field

from compact.patterns import regex

WORDS_SHARE = 0.25
"""Share of the window for the user's newest messages. A larger share leaves less for everything
else (decision 033)."""


class ContextBudget(BaseModel, frozen=True, defer_build=True):
    """How many tokens are allowed, used and still available."""

    max_tokens: int = Field(ge=0)
    used_tokens: int = Field(default=0, ge=0)

    @computed_field  # type: ignore[prop-decorator]  # pydantic's documented order of decorators
    @property
    def available_tokens(self) -> int:
        """Tokens not yet used; never negative."""
        return max(0, self.max_tokens - self.used_tokens)


class WindowUse(BaseModel, frozen=True, defer_build=True):
    """How the tokens of a prompt are divided."""

    system: int = 0
    """Tokens of the system prompt, tool schemas and framing."""
    goals: int = 0
    checkpoints: int = 0
    """Tokens of the checkpoints and of the record, the summary part that code writes."""
    recalled: int = 0
    """Tokens of old turns that automatic recall quotes."""
    recent: int = 0
    """Tokens of the shown messages, whether whole or shortened."""
    usable: int
    """Tokens that a prompt may have."""
    exact: bool
    """Whether the model's own tokenizer counted. Otherwise the counts are estimates."""

    @property
    def used(self) -> int:
        """Tokens of the whole prompt."""
        return self.system + self.goals + self.checkpoints + self.recalled + self.recent

    @property
    def free(self) -> int:
        """Tokens left; never negative."""
        return max(0, self.usable - self.used)


TARGETS = ((8_192, 0.60), (65_536, 0.40))
"""Two window sizes, each with the share of the usable tokens that a session is compressed to (C-7).
Between the two sizes the share is interpolated. With .40, an 8k window kept only half of what a
single call of `compress` keeps."""
MOST_TARGET = 6 / 7
"""Largest target, as a share of the trigger. With a target nearer to the trigger, nearly every turn
would compress the session."""


class ContextWindow(BaseModel, frozen=True, defer_build=True):
    """The budget of one model's window, in tokens."""

    size: int = Field(gt=0)
    output_reserve: int = Field(default=0, ge=0)
    trigger_ratio: float = Field(default=0.70, gt=0, le=1)
    target_ratio: float | None = Field(default=None, gt=0, le=1)
    """The target as a share of the usable tokens. None: by size, from `TARGETS`."""
    trigger_tokens: int | None = Field(default=None, gt=0)
    """Upper bound of the trigger, in tokens. It applies whatever `trigger_ratio` gives."""
    ratio: float = Field(default=1.0, gt=0)
    """How many tokens the provider counts for each token that we count, as learned so far
    (`messages.overflow`). The window's size is divided by it."""

    @property
    def buffer(self) -> int:
        """The tokens of the window to leave free, by the provider's count: an eighth of the window,
        at most 1,500 (C-7).
        """
        return min(1_500, self.size // 8)

    @property
    def usable(self) -> int:
        """Tokens that a prompt may have."""
        return max(0, int((self.size - max(self.output_reserve, self.buffer)) / self.ratio))

    @property
    def words(self) -> int:
        """Tokens that the user's newest messages may take before everything else (FR-8)."""
        return int(self.size * WORDS_SHARE / self.ratio)

    @property
    def trigger_share(self) -> int:
        """The trigger by `trigger_ratio` alone, in tokens: a share of the window itself (C-7). Room
        for one answer remains: the buffer, or half of the usable tokens if that is less.
        """
        room = min(int(self.buffer / self.ratio), self.usable // 2)
        return min(_share(self.size / self.ratio, self.trigger_ratio), self.usable - room)

    @property
    def trigger(self) -> int:
        """The number of tokens from which the session is compressed."""
        share = self.trigger_share
        return share if self.trigger_tokens is None else min(share, self.trigger_tokens)

    @property
    def target(self) -> int:
        """The number of tokens to which the session is compressed."""
        if self.target_ratio is not None:
            return min(_share(self.usable, self.target_ratio), self.trigger)
        return min(_share(self.usable, target_of(self.size)), int(MOST_TARGET * self.trigger))

    def budget(self, used: int) -> ContextBudget:
        """Return the budget of a prompt that has `used` tokens."""
        return ContextBudget(max_tokens=self.usable, used_tokens=used)


def target_of(size: int) -> float:
    """Return the share of the usable window that a session is compressed to. Between the sizes of
    `TARGETS` the share is interpolated on a logarithmic scale.
    """
    (small, most), (large, least) = TARGETS
    way = math.log(min(max(size, small), large) / small) / math.log(large / small)
    return most - way * (most - least)


def _share(tokens: float, share: float) -> int:
    """Return a share of tokens, rounded down. The small addend corrects errors of binary fractions,
    so that .70 of 10,500 is 7,350.
    """
    return int(tokens * share + 1e-6)


def even_share(sizes: Sequence[int], excess: int) -> int:
    """Return the size to which larger sizes must be cut, so that the total shrinks by `excess`."""
    share = largest = max(sizes, default=0)
    left = sum(sizes) - excess
    for count, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - count)
        if size > share:
            return max(0, share)
        left -= size
    return max(share, largest)


# --- sizes ----------------------------------------------------------------------------------------

_THOUSANDS = {"k": 1_000, "m": 1_000_000}
_GROUPED = regex(r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?")


def size_in(text: str) -> int | None:
    """Parse a size such as `8000`, `8_000`, `8,000`, `8k` or `1.5m`. Return None if the text is not
    a size. A k is 1,000, so that the result also fits a window that counts 1,024.
    """
    digits = text.strip().lower()
    times = _THOUSANDS.get(digits[-1:], 1)
    digits = digits[:-1] if times > 1 else digits
    if len(digits) > 40 or _GROUPED.fullmatch(digits) is None:
        return None
    try:
        number = Decimal(digits.replace(",", "")) * times
    except ArithmeticError:
        return None
    return None if times == 1 and "." in digits else round(number)


def share_in(text: str) -> float | None:
    """Parse a share such as `0.4` or `40%` into a fraction. Return None if it is not a number."""
    words = text.strip()
    try:
        return float(words[:-1]) / 100 if words.endswith("%") else float(words)
    except ValueError:
        return None

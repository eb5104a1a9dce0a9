"""Numbers as people write them: sizes and shares, for options, settings and files alike."""

from __future__ import annotations

from decimal import Decimal

from compact.patterns import regex

_THOUSANDS = {"k": 1_000, "m": 1_000_000}
_GROUPED = regex(r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?")


def size_in(text: str) -> int | None:
    """The whole number that a text means: `8000`, `8_000`, `8,000`, `8k`, `1.5m`; None where it
    means none. A thousand is 1,000: what is read so fits into a window of 1,024, too.
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
    """The share of 1 that a text means: `0.4` or `40%`; None where it means none."""
    words = text.strip()
    try:
        return float(words[:-1]) / 100 if words.endswith("%") else float(words)
    except ValueError:
        return None

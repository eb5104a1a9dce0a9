"""Parse numbers as people write them: sizes and shares, in options, settings and files."""

from __future__ import annotations

from decimal import Decimal

from compact.patterns import regex

_THOUSANDS = {"k": 1_000, "m": 1_000_000}
_GROUPED = regex(r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?")


def size_in(text: str) -> int | None:
    """Parse a size such as `8000`, `8_000`, `8,000`, `8k` or `1.5m`; None if the text is not a
    size. A k is 1,000, so that the result also fits a window that counts 1,024.
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
    """Parse a share such as `0.4` or `40%` into a fraction; None if the text is not a share."""
    words = text.strip()
    try:
        return float(words[:-1]) / 100 if words.endswith("%") else float(words)
    except ValueError:
        return None

"""Amounts: numbers with what they count, and which of them nobody has said.

A model that counts or rounds is no liar: an amount is known by its digits, however they are parted
and wherever they were rounded, and by its size in another unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

LEAST_DIGITS, MOST_DIGITS = 3, 15
"""Digits from which a number is looked for, fewer stand everywhere and are counted or rounded; and
up to which: more are no amount."""
_NUMBER = r"\d+(?:[.,]\d+)*"
_TIME = r"m?s|milliseconds?|sec(?:ond)?s?|min(?:ute)?s?|h(?:ours?)?|days?"
_MEMORY = r"[kKMGT]i?B|bytes?"
_AMOUNT = re.compile(
    rf"(?<![\w.,/#:-])({_NUMBER})\s?(?:%|(?:{_TIME}|{_MEMORY}|tokens?|characters?|tests?|files?|"
    r"lines?|rows?|errors?|failures?|warnings?|users?|requests?|messages?|commits?|times)\b)"
)
"""A number and what it counts."""
_ALL = re.compile(r"100(?:[.,]0+)?\s?%")
_SIZE = re.compile(rf"(?<![\w.,])({_NUMBER})(?:[\s-]?({_TIME}|{_MEMORY})\b)?")
_THOUSANDS = re.compile(r",(?=\d{3}(?!\d))")
_UNITS = (
    ("milli", "s", 0.001),
    ("ms", "s", 0.001),
    ("min", "s", 60),
    ("s", "s", 1),
    ("h", "s", 3_600),
    ("d", "s", 86_400),
    *((f"{letter}i", "B", 1_024.0**power) for power, letter in enumerate("kmgt", start=1)),
    *((f"{letter}b", "B", 1_000.0**power) for power, letter in enumerate("kmgt", start=1)),
    ("b", "B", 1),
)
"""How units begin, the longest first, what they measure, and how much of it they are."""
_DIGITS = re.compile(r"\d(?:[.,_\s]?\d){2,}")
"""The digits of one number or several: who reads cannot tell what parts them."""


def found_in(text: str) -> dict[str, str]:
    """The amounts in a text, each once, and the digits of each."""
    return {amount[0]: _digits(amount[1]) for amount in _AMOUNT.finditer(text)}


def unknown(text: str, sources: Iterable[str]) -> list[str]:
    """The amounts in a text, each once, that no number of the sources begins with, nor would when
    rounded, nor is in another unit. All of something is no amount.
    """
    asked = {
        amount: digits
        for amount, digits in found_in(text).items()
        if LEAST_DIGITS <= len(digits) <= MOST_DIGITS and not _ALL.fullmatch(amount)
    }
    if not asked:
        return []
    said = list(sources)
    runs = {_digits(run) for each in said for run in _DIGITS.findall(each)}
    known = "\n".join(runs)
    rest = [amount for amount, digits in asked.items() if not _is_among(digits, known)]
    sizes = {size for each in said for size in _sizes(each)} if rest else set()
    return [amount for amount in rest if sizes.isdisjoint(_sizes(amount))]


def _digits(number: str) -> str:
    return "".join(filter(str.isdecimal, number))


def _is_among(digits: str, known: str) -> bool:
    """Whether a number begins with the digits, or would if it were rounded."""
    if digits in known:
        return True
    below = f"{int(digits) - 1:0{len(digits)}}" if int(digits) else digits
    return any(f"{below}{more}" in known for more in "56789")


def _sizes(text: str) -> Iterator[tuple[str, str]]:
    """What the amounts of time and memory in a text measure, and how much of it they are; a number
    with a fraction and no unit is one of seconds.
    """
    for number, unit in _SIZE.findall(text):
        if not unit and "." not in number:
            continue
        lower = unit.lower() or "s"
        what, factor = next((w, f) for begins, w, f in _UNITS if lower.startswith(begins))
        read = _THOUSANDS.sub("", number).replace(",", ".")
        if read.count(".") < 2:
            yield what, f"{float(read) * factor:.9g}"

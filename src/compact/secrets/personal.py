"""Finds numbers of payment cards, and personal data that a setting may add.

Card numbers are always secrets. A setting may add e-mail addresses, phone numbers, accounts, social
security numbers and card security codes. Each pattern takes linear time: repetitions are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from compact.secrets.credentials import Place, SecretFinder
from compact.secrets.secret_values import Check, anything

_CARD = re.compile(
    r"\d(?:(?<![\w./+-]\d)|(?<=\\[nrt]\d)|(?<=_\d))"
    r"(?:\d{12,18}|\d{3}([ -])\d{4,6}\1\d{4,5}(?:\1\d{4}(?:\1\d{3})?)?)"
    r"(?![\w/]|[.-]\d)"
)
"""A card number as it is printed: in one piece, or in groups with one separator."""
_ISSUED = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]|2[2-7])\d{14}|3[47]\d{13}|3(?:0[0-5]|[689]\d)\d{11}"
    r"|(?:6011|64[4-9]\d|65\d\d|35\d\d)\d{12}|62\d{14,17}"
    r"|(?:60\d\d|8[12]\d\d|50[6-9]\d|5[678]\d\d|6277|636[23])\d{12}"
    r"|(?:5018|5020|5038|5893|6304|6759|676[1-3])\d{8,15}"
)
"""The first digits and lengths of issued cards: Visa; Mastercard, with Mir below its newer range;
American Express; Diners Club; Discover and JCB; UnionPay; RuPay and Elo; Maestro."""
_BARCODE = 13
"""How many digits a barcode has. The oldest card numbers have as many. A number with a barcode's
check digit does not count as a card."""
_EMAIL = re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}@(?:[\w-]{1,63}\.){1,5}[^\W\d]{2,24}(?![\w@-])")
_PHONE = re.compile(
    r"(?<![\w.,:/+=-])(?!\d{2,3}([/-])\d\d\1\d{4}\b)(?:"
    r"(?:\+|(?<!\d{4} )00)[1-9]\d{0,2}[ .-]?(?:\(0?\d{1,4}\)[ .-]?)?\d{1,5}(?:[ ./-]?\d{2,5}){1,5}"
    r"|\(\d{2,5}\)[ -]?\d{3,5}(?:[ -]\d{2,5}){0,3}|\d{3}[.-]\d{3}[.-]\d{4}"
    r"|(?<!\d{4} )0\d{1,4}(?:[ /-]{1,2}\d{2,8}){1,4}"
    r")(?![\w/]|[.,:-]\d)"
)
"""A phone number in international or national form. Dates and social security numbers do not match.
Digits after four others do not match either, because they continue an account number."""
_IBAN = re.compile(
    r"(?<![A-Za-z0-9])[A-Za-z]{2}\d\d(?:[ -]?[A-Za-z0-9]{4}){2,7}(?:[ -]?[A-Za-z0-9]{1,3})?"
    r"(?![A-Za-z0-9])"
)
"""An IBAN in one piece, or in groups of four. The word after it may look like one more group."""
_LEAST_IBAN = 15
"""How many characters the shortest IBAN has (Norway's)."""
_SSN = re.compile(
    r"(?<![\w.-])(?!000|666|9\d\d)\d{3}([ -])(?!00)\d\d\1(?!0000)\d{4}(?![\w-]|\.\d)"
    r"|(?i:\b(?:ssn|social security)\b[^\d\n]{0,16})(?P<value>\d{9})(?!\d)"
)
"""A social security number as it is printed, or in one piece after its name."""
_CVV = re.compile(
    r"(?i:\b(?:cv[vc]2?|csc|(?:card )?(?:security|verification|validation) (?:code|value|number))\b"
    r"[^\w\n]{0,4}(?:(?:code|number|is|was|of|the card)\b[^\w\n]{0,4}){0,3})"
    r"(?P<value>\d{3,4})(?!\w)"
)
"""The security code on the back of a card, recognized by its name only."""
_PHONE_DIGITS = range(8, 16)
"""How many digits a phone number has. Fewer are an extension or a date, more cannot be dialled."""


def _weighed(digits: str, weights: tuple[int, ...]) -> int:
    """Return the sum of the digits times their weights, from the right. With the weights (1, 2), a
    product of two digits counts as the sum of the two (Luhn).
    """
    products = (int(x) * weights[place % len(weights)] for place, x in enumerate(reversed(digits)))
    return sum(x - 9 if weights == (1, 2) and x > 9 else x for x in products)


def _is_card(written: str) -> bool:
    digits = "".join(filter(str.isdigit, written))
    if not digits.isascii() or not _ISSUED.fullmatch(digits) or len(set(digits)) < 2:
        return False
    is_barcode = len(digits) == _BARCODE and _weighed(digits, (1, 3)) % 10 == 0
    return _weighed(digits, (1, 2)) % 10 == 0 and not is_barcode


def _ibans(text: str) -> Iterator[Place]:
    for match in _IBAN.finditer(text):
        written = match[0]
        while not _is_account(written):
            written = written[: max(written.rfind(" "), written.rfind("-"), 0)]
            if len(written) < _LEAST_IBAN:
                break
        else:
            yield Place(match.start(), match.start() + len(written), "iban")


def _is_account(written: str) -> bool:
    number = "".join(filter(str.isalnum, written))
    return int("".join(str(int(x, 36)) for x in number[4:] + number[:4])) % 97 == 1


def _matches(kind: str, pattern: re.Pattern[str], check: Check, text: str) -> Iterator[Place]:
    for match in pattern.finditer(text):
        if check(match[0]):
            group = "value" if match.re.groupindex and match["value"] else 0
            yield Place(*match.span(group), kind)


FINDERS: tuple[SecretFinder, ...] = (
    SecretFinder("[0-9](?:[ -]?[0-9]){12}", partial(_matches, "card", _CARD, _is_card)),
)
"""The finders of card numbers."""
OPTIONAL: Mapping[str, Callable[[str], Iterator[Place]]] = {
    "email": partial(_matches, "email", _EMAIL, anything),
    "phone": partial(
        _matches, "phone", _PHONE, lambda x: sum(map(str.isdigit, x)) in _PHONE_DIGITS
    ),
    "iban": _ibans,
    "ssn": partial(_matches, "ssn", _SSN, anything),
    "cvv": partial(_matches, "cvv", _CVV, anything),
}
"""Kind → the finder that a setting adds."""
GROUPS: Mapping[str, tuple[str, ...]] = {"pii": tuple(OPTIONAL)}
"""Name of a group → its kinds."""

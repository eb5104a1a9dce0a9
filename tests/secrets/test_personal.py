"""Phone numbers, which are taken out where a setting asks for it, and other numbers, which stay."""

import pytest

from compact.secrets.redaction import Known, redact
from compact.secrets.redactor import Redactor

PHONES = Redactor(("phone",))


def told(text):
    return redact(text, Known(redactor=PHONES)).text


@pytest.mark.parametrize(
    "number",
    ["+49 30 90182034", "0049 30 90182034", "030 90182034", "030/90182034", "(030) 9018 2034"],
)
@pytest.mark.parametrize("before", ["call ", "since 12 ", "(desk 4) "])
def test_a_phone_number_is_taken_out(before, number):
    assert told(f"{before}{number} today") == f"{before}<REDACTED:phone> today"


@pytest.mark.parametrize(
    "text",
    [
        "IBAN DE89 3704 0044 0532 0130 00",
        "IBAN FR14 2004 1010 0505 0001 3M02 606",
        "her number is 078-05-1120",
        "due 05-12-2024, or 01/02/2024",
    ],
)
def test_accounts_dates_and_social_security_numbers_are_no_phones(text):
    assert told(text) == text

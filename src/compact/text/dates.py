"""Reads the times that people name: `yesterday`, `3 March 2026`, `vor zwei Tagen`, `last week`.

The words are in `languages.json`. Each word is replaced by a letter for its kind, and dates are
patterns of these letters. So a language needs only words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from compact.errors import InvalidArgument
from compact.messages.times import FIRST_YEAR, time_of
from compact.patterns import regex
from compact.text.languages import FUNCTION_WORDS, lists_of
from compact.text.terms import PIECE, pieces_of

_KINDS = {
    **{"months": "M", "weekdays": "W", "seasons": "S", "units": "U", "days": "R", "counts": "n"},
    **{"last": "L", "this": "T", "ago": "A", "within": "i", "of": "o"},
}
"""Lists in `languages.json`, and the letters of their words. A word that is marked `?` there means
other things too. Its letter is small, and it counts only beside some others."""
_FORMS = regex(
    "(?P<ago>Ao?[dn]o?U|[dn]?UA)|(?P<lately>o?L[dn]U|[dn]LU)|(?P<unit>o?[LT]U|o?U[LT])"
    "|(?P<day>W?o?(?:do?[Mm](?:o*y)?|[Mm]o?d(?:o*y)?))|(?P<numeric>D)|(?P<month>i?[Mm]o*y|[LTi]o?[Mm]|ML?)"
    "|(?P<season>(?:io*)?[Ss]o*y|[LTi]o*[Ss]|[Ss]L|S)|(?P<weekday>L?WL?|[LT]w|wL)"
    "|(?P<relative>[Rr])|(?P<year>y)|(?P<only>^[msw]$)"
)
_NUMERIC = (
    r"\d{4}(?P<sep>[-/.])\d{1,2}(?P=sep)\d{1,2}|\d{1,2}(?P<between>[-/.])\d{1,2}(?P=between)\d{4}"
    r"|\d{4}-(?:0[1-9]|1[0-2])|(?:\d{4}年)?\d{1,2}月(?:\d{1,2}日?)?"
)
_TOKEN = regex(rf"(?<!\d)(?<!\d[-/.])(?P<numeric>{_NUMERIC})(?!\d|[-/.]\d)|{PIECE}")
_NUMBER = regex(r"(\d{1,2}|\d{4})(?:st|nd|rd|th|er|e|º|ª)?")
_MOST_PIECES = 4
"""At most how many pieces a phrase of the lists has."""
_YEARS, _DAYS = range(1970, 2200), range(1, 32)
_UNITS = ("day", "week", "month", "year", "weekend")
_AROUND = {"month": 3, "year": 15}
"""How many days before and after that day belong to `a month ago` and `a year ago`."""
_DAY, _TICK = timedelta(days=1), timedelta(microseconds=1)
EXAMPLES = "2026-05-17, 17.05.2026, 17 May 2026, May, yesterday, last week or 2026-05-17T09:30"
"""What errors show."""
_Token = tuple[int, int, str, Any]
"""Start and end in the text, the letter, and the place in its list; of a date its text."""
_Form = tuple[str, list[_Token]]
"""The name of a form in `_FORMS`, and its tokens."""


class Span(NamedTuple):
    """A time that was named: from `start` on, and before `stop`."""

    start: datetime
    stop: datetime
    yearly: bool = False
    """Whether no year was named. There are other spans for other years."""


class Named(NamedTuple):
    """The times that a text names. For a date without a year, the latest is first."""

    spans: tuple[Span, ...]
    rest: str
    """The text without words such as `yesterday`. A message of that day does not say them."""
    bare: str
    """The text without all words that name times."""


def times_in(text: str, now: datetime, first: datetime, last: datetime) -> Named:
    """Return the times that a question names. Words such as `yesterday` count from `now`, and days
    are those of its zone. Dates without a year are looked for between `first` and `last`.
    """
    found = list(_TOKEN.finditer(text.lower()))
    entries = [_vocabulary().get(match[0], {}) for match in found]
    languages = {code for own in entries for code, (kind, _) in own.items() if kind not in "noiA"}
    if any(match[0][0].isdecimal() for match in found):
        languages.add("en")  # for numbers alone
    forms = max((_forms(found, code) for code in sorted(languages)), key=_length, default=[])
    calendar = _Calendar(now, first, last)
    spans = dict.fromkeys(span for form in forms for span in calendar.spans(*form))
    relative = [form for form in forms if form[0] in ("ago", "lately", "unit", "relative")]
    return Named(tuple(spans), _without(text, relative), _without(text, forms))


def limits(since: object, until: object, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return the first and the last instant of what two options name. A date, and a text such as
    `last week`, mean the whole day, week, month or year; a `datetime`, and a text with a time of
    day, mean an instant. A time without a zone is UTC. None stays None.

    Raises:
        InvalidArgument: one of them is no time, or may be two days.
    """
    ends: list[datetime | None] = []
    for name, value in (("since", since), ("until", until)):
        try:
            span = None if value is None else _span_of(value, now)
        except ValueError as error:
            raise InvalidArgument(name, f"{name}: {error}") from None
        ends.append(span and (span.start if name == "since" else span.stop - _TICK))
    return ends[0], ends[1]


def _span_of(value: object, now: datetime) -> Span:
    if isinstance(value, date) and not isinstance(value, datetime):
        value = value.isoformat()
    if isinstance(value, str):
        named = times_in(value, now, now - 366 * _DAY, now)
        spans = [span for span in named.spans if not span.yearly] or named.spans[:1]
        if spans and all(piece in _vocabulary() for piece in pieces_of(named.bare)):
            if len(spans) == 1:
                return spans[0]
            days = " or ".join(f"{span.start:%Y-%m-%d}" for span in spans)
            raise ValueError(f"{value!r:.60} can be {days}: write one of them")
    at = time_of(value)
    if at and (at.year >= FIRST_YEAR or isinstance(value, datetime)):
        return Span(at, at + _TICK)
    raise ValueError(f"{value!r:.60} is no day and no time, such as {EXAMPLES}")


# --- from words to forms --------------------------------------------------------------------------


@cache
def _vocabulary() -> dict[str, dict[str, tuple[str, int]]]:
    """Return each phrase, and in each language its letter and its place in its list."""
    known: dict[str, dict[str, tuple[str, int]]] = {}
    for kind, letter in _KINDS.items():
        for language, words in lists_of(kind).items():
            for place, form in ((place, form) for place, row in enumerate(words) for form in row):
                phrase = " ".join(pieces_of(form.rstrip("?").replace("_", " ")))
                own = letter.lower() if form.endswith("?") else letter
                known.setdefault(phrase, {})[language] = own, place
                known.setdefault(phrase.split()[0], {}).setdefault(language, ("x", 0))
    return known


def _forms(found: Sequence[re.Match[str]], language: str) -> list[_Form]:
    tokens = list(_tokens(found, language))
    letters = "".join(letter for _, _, letter, _ in tokens)
    return [
        (str(match.lastgroup), tokens[match.start() : match.end()])
        for match in _FORMS.finditer(letters)
        if match[0] != "r" or letters == "r" or _is_spoken(language, found)
    ]


def _tokens(found: Sequence[re.Match[str]], language: str) -> Iterator[_Token]:
    known, at = _vocabulary(), 0
    while at < len(found):
        own: tuple[str, Any] | None = None
        taken = 1
        if found[at]["numeric"]:
            own = "D", found[at][0]
        elif number := _NUMBER.fullmatch(found[at][0]):
            value = int(number[1])
            own = "y" if value in _YEARS else "d" if value in _DAYS else "x", value
        else:
            for taken in range(min(_MOST_PIECES, len(found) - at), 0, -1):
                phrase = " ".join(match[0] for match in found[at : at + taken])
                if own := known.get(phrase, {}).get(language):
                    break
        yield found[at].start(), found[at + taken - 1].end(), *(own or ("x", 0))
        at += taken


def _is_spoken(language: str, found: Sequence[re.Match[str]]) -> bool:
    """Whether a text has more function words of this language than of each other one."""
    counts = {code: sum(match[0] in own for match in found) for code, own in FUNCTION_WORDS.items()}
    return counts.pop(language, 0) > max(counts.values())


def _length(forms: Sequence[_Form]) -> int:
    return sum(stop - start for _, tokens in forms for start, stop, *_ in tokens)


def _without(text: str, forms: Sequence[_Form]) -> str:
    for _, tokens in reversed(forms):
        text = f"{text[: tokens[0][0]]} {text[tokens[-1][1] :]}"
    return text


# --- from forms to spans --------------------------------------------------------------------------


class _Calendar(NamedTuple):
    now: datetime
    first: datetime
    last: datetime

    def spans(self, form: str, tokens: Sequence[_Token]) -> Iterator[Span]:
        values = {letter.upper(): value for _, _, letter, value in tokens}
        count = values["N"] + 1 if "N" in values else values.get("D", 1)
        match form:
            case "ago":
                yield self._ago(count, values["U"])
            case "lately":
                yield Span(self._ago(count, values["U"]).start, self.now)
            case "unit":
                yield self._unit(values["U"], int("L" in values))
            case "relative":
                yield self._unit(0, values["R"])
            case "weekday":
                yield self._unit(0, (self.now.weekday() - values["W"] - 1) % 7 + 1)
            case "numeric":
                for year, month, day in _readings(values["D"]):
                    yield from self._dated(year, month - 1, 1, day)
            case _:
                month, long = values.get("M", 0), 1 if "M" in values else 12
                if "S" in values:
                    month, long = 3 * values["S"] + 2, 3
                found = self._dated(values.get("Y", 0), month, long, values.get("D", 0))
                yield from islice(found, 1) if "L" in values else found

    def _dated(self, year: int, month: int, long: int, day: int) -> Iterator[Span]:
        """Yield a day or some months of a year, or of each, the latest first."""
        latest, earliest = min(self.last, self.now), max(self.first.year, _YEARS.start)
        years = range(latest.year, earliest - 2, -1)
        if year:
            years = range(year, year - 1 - (month + long > 12), -1)  # a winter has two ends
        for each in years if month in range(12) else ():
            with suppress(ValueError, OverflowError):  # 30 February, year 10,000
                span = self._months(12 * each + month, long)
                if day:
                    start = span.start.replace(day=day)
                    span = Span(start, start + _DAY)
                if year or (span.start <= self.last and span.stop > self.first):
                    yield span._replace(yearly=not year)

    def _months(self, month: int, long: int) -> Span:
        """Return some months. `month` is counted from the year 0."""
        first = self._day(0).start.replace(day=1)
        start, stop = (
            first.replace(year=each // 12, month=each % 12 + 1) for each in (month, month + long)
        )
        return Span(start, stop)

    def _day(self, back: int, long: int = 1) -> Span:
        start = self.now.replace(hour=0, minute=0, second=0, microsecond=0) - back * _DAY
        return Span(start, start + long * _DAY)

    def _unit(self, unit: int, back: int) -> Span:
        """Return the day, week, month, year or weekend so many before this one."""
        monday = self.now.weekday() + 7 * back
        match _UNITS[unit]:
            case "month":
                return self._months(12 * self.now.year + self.now.month - 1 - back, 1)
            case "year":
                return self._months(12 * (self.now.year - back), 12)
            case "week":
                return self._day(monday, 7)
            case "weekend":
                return self._day(monday - 5, 2)
        return self._day(back)

    def _ago(self, count: int, unit: int) -> Span:
        name = _UNITS[unit]
        if name not in _AROUND:
            return self._day(count * (1 if name == "day" else 7))
        months = 12 * self.now.year + self.now.month - 1 - count * (12 if name == "year" else 1)
        day = self._months(months, 1).start + (min(self.now.day, 28) - 1) * _DAY
        return Span(day - _AROUND[name] * _DAY, day + (_AROUND[name] + 1) * _DAY)


def _readings(text: str) -> list[tuple[int, int, int]]:
    """Return the year, month and day of a date in numbers; 0 where it says none. `03/04/2026` has
    two readings.
    """
    numbers = [int(digits) for digits in re.findall(r"\d+", text)]
    if numbers[0] in _YEARS:
        return [(*numbers, 0)[:3]]
    if len(numbers) < 3:
        return [(0, *numbers, 0)[:3]]
    first, second, year = numbers
    return [(year, second, first)] + [(year, first, second)] * ("." not in text)

"""Reads the times that people name: `yesterday`, `3 March 2026`, `vor zwei Tagen`, `last week`.

The words are in `languages.json`. Each word is replaced by a letter for its kind, and dates are
patterns of these letters. So a language needs only words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import cache
from itertools import islice
from typing import NamedTuple

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
    "|(?P<day>W?o?(?:do?[Mm](?:o*y)?|[Mm]o?d(?:o*y)?)|D)|(?P<month>i?[Mm]o*y|[LTi]o?[Mm]|ML?)"
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
"""What an error shows."""


class Span(NamedTuple):
    """A time that was named: from `start` on, and before `stop`."""

    start: datetime
    stop: datetime
    yearly: bool = False
    """Whether no year was named. There are other spans for other years."""

    @property
    def last(self) -> datetime:
        """The last instant."""
        return self.stop - _TICK


class Named(NamedTuple):
    """The times that a text names. For a date without a year, the latest is first."""

    spans: tuple[Span, ...]
    rest: str
    """The text without words such as `yesterday`. A message of that day does not say them."""
    bare: str
    """The text without all words that name times."""


class _Token(NamedTuple):
    start: int
    stop: int
    letter: str
    value: int = 0


def times_in(text: str, now: datetime, first: datetime, last: datetime) -> Named:
    """Return the times that a question names. Words such as `yesterday` count from `now`, and days
    are those of its zone. Dates without a year are looked for between `first` and `last`.
    """
    lower = text.lower()
    found = list(_TOKEN.finditer(lower))
    readings = [list(_forms(found, language)) for language in _languages(found)]
    best = max(readings, key=_length, default=[])
    calendar = _Calendar(now, first, last)
    spans = dict.fromkeys(
        span for form, tokens in best for span in calendar.spans(form, tokens, lower)
    )
    relative = [each for each in best if each[0] in ("ago", "lately", "unit", "relative")]
    return Named(tuple(spans), _without(text, relative), _without(text, best))


def span_of(value: object, now: datetime) -> Span:
    """Return the time that an option names: a date or its text means the whole day, week, month or
    year, a `datetime` or a time of a day means an instant. A time without a zone is UTC.

    Raises:
        ValueError: it is no time, or two days. The error says what can be written.
    """
    if isinstance(value, date) and not isinstance(value, datetime):
        value = value.isoformat()
    if isinstance(value, str):
        named = times_in(value, now, now - 366 * _DAY, now)
        spans = [span for span in named.spans if not span.yearly][:2] or named.spans[:1]
        if len(spans) == 1 and not _words_in(named.bare):
            return spans[0]
        if len(spans) == 2 and not _words_in(named.bare):
            days = " or ".join(f"{span.start:%Y-%m-%d}" for span in spans)
            raise ValueError(f"{value!r:.60} can be {days}: write one of them")
    at = time_of(value)
    if at and (at.year >= FIRST_YEAR or isinstance(value, datetime)):
        return Span(at, at + _TICK)
    raise ValueError(f"{value!r:.60} is no day and no time, such as {EXAMPLES}")


def limits(since: object, until: object, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return the first and the last time of what options name (see `span_of`).

    Raises:
        InvalidArgument: one of them cannot be read.
    """
    ends: list[datetime | None] = []
    for name, value in (("since", since), ("until", until)):
        try:
            span = None if value is None else span_of(value, now)
        except ValueError as error:
            raise InvalidArgument(name, f"{name}: {error}") from None
        ends.append(span and (span.start if name == "since" else span.last))
    return ends[0], ends[1]


def _words_in(text: str) -> bool:
    """Whether a text has words besides those that may stand before a date."""
    return any(piece not in _vocabulary() for piece in pieces_of(text))


# --- from words to forms --------------------------------------------------------------------------

_Form = tuple[str, list[_Token]]
"""The name of a form in `_FORMS`, and its tokens."""


@cache
def _vocabulary() -> dict[str, dict[str, tuple[str, int]]]:
    """Return each phrase, and in each language its letter and its place in its list."""
    known: dict[str, dict[str, tuple[str, int]]] = {}
    for kind, letter in _KINDS.items():
        for language, words in lists_of(kind).items():
            for place, forms in enumerate(words):
                for form in forms:
                    phrase = " ".join(pieces_of(form.rstrip("?").replace("_", " ")))
                    own = letter.lower() if form.endswith("?") else letter
                    known.setdefault(phrase, {})[language] = own, place
                    known.setdefault(phrase.split()[0], {}).setdefault(language, ("x", 0))
    return known


def _languages(found: Sequence[re.Match[str]]) -> Iterable[str]:
    """Return the languages whose words for times may be in a text; English for numbers alone."""
    entries = [_vocabulary().get(match[0], {}) for match in found]
    languages = {code for own in entries for code, (kind, _) in own.items() if kind not in "noiA"}
    return sorted(languages) or (["en"] if any(each[0][0].isdecimal() for each in found) else [])


def _forms(found: Sequence[re.Match[str]], language: str) -> Iterator[_Form]:
    tokens = list(_tokens(found, language))
    for match in _FORMS.finditer("".join(token.letter for token in tokens)):
        own = tokens[match.start() : match.end()]
        if match[0] != "r" or len(tokens) == 1 or language == _spoken(found):
            yield str(match.lastgroup), own


def _tokens(found: Sequence[re.Match[str]], language: str) -> Iterator[_Token]:
    known, at = _vocabulary(), 0
    while at < len(found):
        letter, value, taken = "x", 0, 1
        if found[at]["numeric"]:
            letter = "D"
        elif number := _NUMBER.fullmatch(found[at][0]):
            value = int(number[1])
            letter = "y" if value in _YEARS else "d" if value in _DAYS else "x"
        else:
            for most in range(min(_MOST_PIECES, len(found) - at), 0, -1):
                phrase = " ".join(match[0] for match in found[at : at + most])
                if own := known.get(phrase, {}).get(language):
                    (letter, value), taken = own, most
                    break
        yield _Token(found[at].start(), found[at + taken - 1].end(), letter, value)
        at += taken


def _spoken(found: Sequence[re.Match[str]]) -> str | None:
    """Return the language that most of a text's function words belong to. None if it is unclear."""
    pieces = [match[0] for match in found]
    counts = {code: sum(map(own.__contains__, pieces)) for code, own in FUNCTION_WORDS.items()}
    best, second = sorted(counts, key=lambda code: -counts[code])[:2]
    return best if counts[best] > counts[second] else None


def _length(forms: Sequence[_Form]) -> int:
    return sum(token.stop - token.start for _, tokens in forms for token in tokens)


def _without(text: str, forms: Sequence[_Form]) -> str:
    for _, tokens in reversed(forms):
        text = f"{text[: tokens[0].start]} {text[tokens[-1].stop :]}"
    return text


# --- from forms to spans --------------------------------------------------------------------------


class _Calendar(NamedTuple):
    now: datetime
    first: datetime
    last: datetime

    def spans(self, form: str, tokens: Sequence[_Token], text: str) -> Iterator[Span]:
        """Yield the spans of a form. None for a day that no calendar has."""
        values = {token.letter.upper(): token.value for token in tokens}
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
                yield self._unit(0, (self._today().weekday() - values["W"] - 1) % 7 + 1)
            case "day" if tokens[0].letter == "D":
                for year, numbers in _readings(text[tokens[0].start : tokens[0].stop]):
                    yield from self._tried(year, numbers)
            case _:
                found = self._tried(values.get("Y", 0), values)
                yield from islice(found, 1) if "L" in values else found

    def _tried(self, year: int, values: Mapping[str, int]) -> Iterator[Span]:
        """Yield the day, month, season or whole year of a year, or of each, the latest first."""
        month, long = values.get("M", 0), 1 if "M" in values else 12
        if "S" in values:
            month, long = 3 * values["S"] + 2, 3
        if month not in range(12):
            return
        if year and values.get("S") == 3:  # the winter of a year has two ends
            yield self._months(12 * year - 1, long)
        latest, earliest = min(self.last, self.now), max(self.first.year, _YEARS.start)
        for each in (year,) if year else range(latest.year, earliest - 2, -1):
            with suppress(ValueError, OverflowError):
                span = self._months(12 * each + month, long)
                if "D" in values:
                    day = span.start.replace(day=values["D"])
                    span = Span(day, day + _DAY)
                if year:
                    yield span
                elif span.start <= self.last and span.stop > self.first:
                    yield span._replace(yearly=True)

    def _today(self) -> datetime:
        return self.now.replace(hour=0, minute=0, second=0, microsecond=0)

    def _months(self, month: int, long: int) -> Span:
        """Return some months. `month` is counted from the year 0."""
        first = self._today().replace(day=1)
        start, stop = (
            first.replace(year=each // 12, month=each % 12 + 1) for each in (month, month + long)
        )
        return Span(start, stop)

    def _unit(self, unit: int, back: int) -> Span:
        """Return the day, week, month, year or weekend so many before this one."""
        today = self._today()
        monday = today - (today.weekday() + 7 * back) * _DAY
        match _UNITS[unit]:
            case "month":
                return self._months(12 * today.year + today.month - 1 - back, 1)
            case "year":
                return self._months(12 * (today.year - back), 12)
            case "week":
                return Span(monday, monday + 7 * _DAY)
            case "weekend":
                return Span(monday + 5 * _DAY, monday + 7 * _DAY)
        return Span(today - back * _DAY, today - (back - 1) * _DAY)

    def _ago(self, count: int, unit: int) -> Span:
        name, today = _UNITS[unit], self._today()
        day = today - count * (1 if name == "day" else 7) * _DAY
        if name in _AROUND:
            month = 12 * today.year + today.month - 1 - count * (12 if name == "year" else 1)
            day = self._months(month, 1).start + (min(today.day, 28) - 1) * _DAY
        around = _AROUND.get(name, 0)
        return Span(day - around * _DAY, day + (around + 1) * _DAY)


def _readings(text: str) -> Iterator[tuple[int, dict[str, int]]]:
    """Yield the year (0 if there is none) and the values of a date in numbers. `03/04/2026` has two
    readings.
    """
    numbers = [int(digits) for digits in re.findall(r"\d+", text)]
    if numbers[0] in _YEARS:
        yield numbers[0], _of_numbers(*numbers[1:])
    elif len(numbers) < 3:
        yield 0, _of_numbers(*numbers)
    else:
        day, month, year = numbers
        yield year, _of_numbers(month, day)
        if "." not in text:
            yield year, _of_numbers(day, month)


def _of_numbers(month: int, day: int | None = None) -> dict[str, int]:
    return {"M": month - 1} if day is None else {"M": month - 1, "D": day}

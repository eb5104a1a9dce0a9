"""Reads the times that people name: `yesterday`, `3 March 2026`, `vor zwei Tagen`, `last week`.

The words are in `languages.json`. Each word is replaced by a letter for its kind, and dates are
patterns of these letters. So a language needs only words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from compact.errors import InvalidArgument
from compact.messages.times import FIRST_YEAR, time_of
from compact.patterns import regex
from compact.text.languages import FUNCTION_WORDS, words_of
from compact.text.terms import PIECE, pieces_of

_LISTS = ("months", "weekdays", "seasons", "units", "days", "counts", "last", "this", "ago")
_OTHERS = ("ends", "within", "of", "ordinals", "before_last")
_LETTERS = ("M", "W", "S", "UUBJK", "R", "n", "L", "T", "A", "FE", "i", "o", "d", "V")
_KINDS = dict(zip((*_LISTS, *_OTHERS), _LETTERS, strict=True))
"""Lists in `languages.json` → the letters of their words. A word marked `?` there has other
meanings too; its letter is small. `since` is F, `until` E, the unit `month` B, `year` J, `weekend`
K. V is `before last`, N a date without a century. Numbers: y is a year such as 2026, d may be a
day, c is any other."""
_ITS_YEAR = "o?(?:[LT]J|J[LT])"
_YEAR = f"o*(?:y|{_ITS_YEAR})"
_ANY = "[UBJK]"
_PATTERNS = (
    f"(?P<ago>Ao?[dncy]o?{_ANY}|[dncy]{_ANY}[Aa]|{_ANY}a|a[dncy]?{_ANY})"
    f"|(?P<lately>o?L[dncy]{_ANY}|[dnc]L{_ANY})"
    f"|(?P<day>(?:(?:[i]?o?W)?|{_ITS_YEAR})[i]?o?(?:do?M(?:{_YEAR})?|Mo?d(?:{_YEAR})?))"
    "|(?P<monthday>[i]?o?(?:dx{0,2}[io]*(?:[LT]B|B[LT])|(?:[LT]B|B[LT])[io]*d))"
    "|(?P<weekdays>[i]?o?(?:Wx?[io]*(?:[LT]U|U[LT])|(?:[LT]U|U[LT])x?[io]*W))"
    f"|(?P<month>[i]?M{_YEAR}|{_ITS_YEAR}[i]?o*M|[iLT]o?M|ML)"
    f"|(?P<season>(?:[i]o*)?[Ss]{_YEAR}|{_ITS_YEAR}[i]?o*[Ss]|[iLT]o*S|(?:[LT]|[i]o)s|[Ss]L)"
    f"|(?P<numeric>(?:{_ITS_YEAR}[i]?o?)?D|[io]o?W?N)|(?P<unit>o?[LTV]{_ANY}|o?{_ANY}[LTV]|[i]o?K)"
    "|(?P<weekday>[iLTo]W|WL)|(?P<relative>[Rr])|(?P<year>[i]o?J?o?y)"
)
# An end of a range. After `since`, `from` or `to` a month is a date, as after `in`.
_END = f"(?:{re.sub('[?]P<[a-z]+>', '?:', _PATTERNS).replace('[i', '[iFfEe')})"
_FORMS = regex(
    f"(?P<range>(?=[Ff]).?(?:o?d|{_END})(?=[eE]).?{_END}|{_END}(?=E).?{_END}|od(?=id).?{_END}"
    f"|(?=[FE]).?{_END})"
    f"|{_PATTERNS}"
)
"""Months, seasons, weekdays and years are names and common words too. Alone they do not count."""
_NUMERIC = (
    r"\d{4}(?P<sep>[-/.])\d{1,2}(?P=sep)\d{1,2}|\d{1,2}(?P<between>[-/.])\d{1,2}(?P=between)\d{4}"
    r"|\d{4}-(?:0[1-9]|1[0-2])|(?:\d{4}[年년]\s?)?\d{1,2}[月월]\s?(?:\d{1,2}[日号號일]?)?"
)
_SHORT = r"\d{1,2}(?P<short>[-/.])\d{1,2}(?:(?P=short)\d{2})?"
"""A date without a year or century. It needs a word such as `on` before it."""
_TOKEN = regex(
    rf"(?<!\d)(?<!\d[-/.])(?P<numeric>{_NUMERIC})(?!\d|[-/.]\d)"
    rf"(?P<clock>T\d\S*| \d\d?:\d\d:\d\d)?"
    rf"|(?<!\d[-/.])(?P<brief>{_SHORT})(?!\d|[-/.:,]\d|\s?%)|{PIECE}"
)
"""A date with a time to the second belongs to a log line, and does not count."""
_NO_DATE_AFTER = frozenset(("a", "the", "of", "over", "during", "in", "im", "en"))
"""Words before numbers that look like short dates: `a 24/7 shop`, `the 3/4 cup`."""
_NUMBER = regex(r"(\d{1,4})(?:st|nd|rd|th|er|e|º|ª)?")
_YEARS, _MOST_TIMES, _READ_CHARS = range(1970, 2200), 8, 4_000
LONGEST = 12
"""How many pieces a word has at most. In Thai and Korean each character is one."""
_WEEKEND, _SATURDAY = 4, 5
"""Index of `weekend` among the units, and of its first day in the week."""
_FEW = 13
"""Index of `few` among the counts. A few days are two to seven."""
_DAY, _TICK = timedelta(days=1), timedelta(microseconds=1)
_EXAMPLES = "2026-05-17, 17.05.2026, 17 May 2026, May, yesterday, last week or 2026-05-17T09:30"
_Word = tuple[int, int, str, str]  # start and end, in lower case, letter of a date in numbers
_Token = tuple[int, int, str, Any]  # start and end, letter, place in its list, number or date
_Form = tuple[str, list[_Token]]


class Span(NamedTuple):
    """A time that was named: from `start` on, and before `stop`."""

    start: datetime
    stop: datetime
    yearly: bool = False
    """Whether no year was named. There are other spans for other years."""


Time = tuple[Span, ...]
"""The readings of one named time. Of a date without a year, the latest is first."""


def times_in(text: str, now: datetime) -> tuple[tuple[Time, ...], str, str]:
    """Return the times that a text names in its first 4,000 characters; the text without words such
    as `yesterday`, whose day changes; and the text without any words for times.

    `yesterday` counts from `now`, and days are those of its zone.
    """
    matches = _TOKEN.finditer(text, 0, _READ_CHARS)
    found = [
        (
            *m.span(),
            m[0].lower(),
            "N" if m["brief"] else "D" if m["numeric"] and not m["clock"] else "",
        )
        for m in matches
    ]
    entries = [_vocabulary().get(word, {}) for _, _, word, _ in found]
    weak = "nAfe" if any(letter == "N" for *_, letter in found) else "noiAfe"
    codes = {code for own in entries for code, (kind, _) in own.items() if kind not in weak}
    codes |= {"en"} if any(word[0].isdecimal() for _, _, word, _ in found) else set()
    readings = [[], *(_forms(found, code) for code in sorted(codes))]
    forms = max(readings, key=lambda each: sum(t[1] - t[0] for _, own in each for t in own))
    forms = forms[:_MOST_TIMES]
    rest = others = text
    for form, tokens in reversed(forms):
        start, stop = tokens[0][0], tokens[-1][1]
        others = f"{others[:start]} {others[stop:]}"
        if form in ("ago", "lately", "unit", "relative"):
            rest = f"{rest[:start]} {rest[stop:]}"
    return tuple(dict.fromkeys(_Calendar(now).times(forms))), rest, others


def limits(since: object, until: object, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return the first and the last instant of two options. A date, or a text such as `last week`,
    means the whole day, week, month or year. A `datetime`, or a text with a time of day, means an
    instant. A time without a zone is UTC. None stays None.

    Raises:
        InvalidArgument: an option is no time, or may be two days; or since is after until.
    """
    first = None if since is None else _span_of("since", since, now).start
    end = None if until is None else _span_of("until", until, now)
    last = end and max(end.start, end.stop - _TICK)
    if first and last and first > last:
        raise InvalidArgument(
            "since", f"{first:%Y-%m-%d %H:%M} is after until, {last:%Y-%m-%d %H:%M}"
        )
    return first, last


def _span_of(name: str, value: object, now: datetime) -> Span:
    reason = f"is no day and no time, such as {_EXAMPLES}"
    if isinstance(value, str):
        with suppress(ValueError):
            value = date.fromisoformat(value.strip())
    if isinstance(value, date) and not isinstance(value, datetime):
        start = datetime(value.year, value.month, value.day, tzinfo=now.tzinfo)
        return Span(start, _after(start, _DAY))
    if isinstance(value, str):
        times, _, others = times_in(f"in {value}", now)
        spans = [span for time in times for span in time[: 1 if time[0].yearly else None]]
        if spans and all(piece in _vocabulary() for piece in pieces_of(others)):
            if len(spans) == 1:
                return spans[0]
            reason = f"may be {' or '.join(f'{span.start:%Y-%m-%d}' for span in spans)}"
    at = time_of(value)
    if at and (at.year >= FIRST_YEAR or isinstance(value, datetime)):
        return Span(at, _after(at, _TICK))
    raise InvalidArgument(name, f"{name}: {value!r:.60} {reason}")


def _after(start: datetime, long: timedelta) -> datetime:
    return start + min(long, datetime.max.replace(tzinfo=start.tzinfo) - start)


# --- from words to forms --------------------------------------------------------------------------


@cache
def _vocabulary() -> dict[str, dict[str, tuple[str, int]]]:
    """Return phrase → language → the phrase's letter and its index in its list."""
    known: dict[str, dict[str, tuple[str, int]]] = {}
    for kind, letters in _KINDS.items():
        for language, words in words_of(kind).items():
            for place, form in ((at, x) for at, row in enumerate(words) for x in row.split("/")):
                phrase = " ".join(pieces_of(form.rstrip("?").replace("_", " ")))
                own = letters[place] if len(letters) > 1 else letters
                own = own.lower() if form.endswith("?") else own
                known.setdefault(phrase, {})[language] = own, place
                known.setdefault(phrase.split()[0], {}).setdefault(language, ("x", 0))
    return known


def _forms(found: Sequence[_Word], language: str) -> list[_Form]:
    tokens = list(_tokens(found, language))
    letters = "".join(letter for _, _, letter, _ in tokens)
    words = {word for _, _, word, _ in found}
    spoken = max(FUNCTION_WORDS, key=lambda code: len(FUNCTION_WORDS[code] & words))
    return [
        (str(match.lastgroup), tokens[match.start() : match.end()])
        for match in _FORMS.finditer(letters)
        if (match[0] != "r" or len(letters) < 3 or language == spoken)
        and not (match[0][-1] == "N" and tokens[match.start()][3] in _NO_DATE_AFTER)
        # `on 3.12` is a version in English
        and not (match[0][-1] == "N" and language == "en" and "." in tokens[match.end() - 1][3])
    ]


def _tokens(found: Sequence[_Word], language: str) -> Iterator[_Token]:
    known, at = _vocabulary(), 0
    while at < len(found):
        start, stop, word, date_letter = found[at]
        letter, taken = date_letter or "x", 1
        value: int | str = word
        if number := _NUMBER.fullmatch(word):
            value = int(number[1])
            letter = "y" if value in _YEARS else "d" if 0 < value < 32 else "c" if value else "x"
        for most in range(min(LONGEST, len(found) - at) if word in known else 0, 0, -1):
            phrase = " ".join(each[2] for each in found[at : at + most])
            if own := known.get(phrase, {}).get(language):
                letter, value, taken, stop = *own, most, found[at + most - 1][1]
                value = phrase if letter in "io" else value + (letter in "nd")
                break
        yield start, stop, letter, value
        at += taken


# --- from forms to spans --------------------------------------------------------------------------


class _Calendar(NamedTuple):
    now: datetime

    def times(self, forms: Sequence[_Form]) -> Iterator[Time]:
        for form in forms:
            with suppress(ValueError, OverflowError):  # before the year 1, or after 9999
                if spans := tuple(self._spans(*form)):
                    yield spans

    def _spans(self, form: str, tokens: Sequence[_Token]) -> Iterator[Span]:
        values = {letter.upper(): value for _, _, letter, value in tokens}
        year = values.get("Y", 0)
        if "J" in values and not year:
            year = self.now.year - ("L" in values)
        unit = next((values[each] for each in "UBJK" if each in values), 0)
        match form:
            case "ago" | "lately":  # `two months ago` is a month, and `two weeks ago` a day
                count = next((values[each] for each in "NDCY" if each in values), 1)
                kind, long = 2 if unit in (2, 3) else 0, (1, 7, 1, 12, 7)[unit]
                most, least = (7, 2) if values.get("N") == _FEW else (count, count)
                first, last = (self._unit(kind, each * long) for each in (most, least))
                yield Span(first.start, last.stop if form == "ago" else self.now)
            case "range":
                yield from self._range(tokens)
            case "unit" | "relative" | "weekday":
                yield self._unit(unit, self._back(unit, values))
            case "monthday" | "weekdays":
                yield self._day_of(values)
            case "numeric":
                for own, month, day in _readings(values.get("D") or values["N"]):
                    yield from self._dated(own or year, month - 1, 1, day)
            case _ if year < self.now.year + 10:  # not `in 2048 bits`
                yield from self._named(values, year)

    def _back(self, unit: int, values: Mapping[str, int]) -> int:
        """Return how many units ago a unit is. `over the weekend` is the last one that began."""
        if "V" in values:
            return 2
        if "W" in values:
            return (self.now.weekday() - values["W"] - 1) % 7 + 1
        if "R" in values:
            return values["R"]
        is_ahead = unit == _WEEKEND and "T" not in values and self.now.weekday() < _SATURDAY
        return int("L" in values or is_ahead)

    def _day_of(self, values: Mapping[str, int]) -> Span:
        """Return a day of this or the last month, or a weekday of this or the last week."""
        back = int("L" in values)
        if "W" in values:
            start = self._unit(1, back).start + values["W"] * _DAY
        else:
            start = self._unit(2, back).start.replace(day=values["D"])
        return Span(start, start + _DAY)

    def _range(self, tokens: Sequence[_Token]) -> Iterator[Span]:
        """Yield the time between two ends. An end without a year is the nearest to the other."""
        cut = next((at for at, token in enumerate(tokens) if token[2] in "Ee"), len(tokens))
        if [token[2] for token in tokens[:3]] == ["o", "d", "i"]:
            cut = 2  # `du 3 au 10 mars`
        starts, stops = self._end(tokens[:cut]), self._end(tokens[cut:]) or [self._day(0)]
        day = next((token[3] for token in tokens[:cut] if token[2] == "d"), 0)
        if not starts:  # `from the 3rd to 10 March`, or `until March`
            first = self._months(12, 1).start
            starts = [s._replace(start=s.start.replace(day=day) if day else first) for s in stops]
        pairs = [([s for s in starts if s.start <= stop.start], stop) for stop in stops]
        spans = [Span(own[0].start, stop.stop, stop.yearly) for own, stop in pairs if own]
        yield from (spans if starts[0].yearly else spans[-1:]) or (starts[0], stops[0])

    def _end(self, tokens: Sequence[_Token]) -> list[Span]:
        letters = "".join("i" if token[2] in "FfEe" else token[2] for token in tokens)
        match = _FORMS.search(letters)
        return [*self._spans(str(match.lastgroup), tokens[slice(*match.span())])] if match else []

    def _named(self, values: Mapping[str, int], year: int) -> Iterator[Span]:
        """Yield the spans of a year, a season, a month, or a day in a month."""
        month, long = values.get("M", 0), 1 if "M" in values else 12
        if "S" in values:
            month, long = 3 * values["S"] + 2, 3
        if year or values.keys().isdisjoint("LT"):
            yield from self._dated(year, month, long, values.get("D", 0))
        elif "L" in values:
            yield next(self._dated(0, month, long, 0))._replace(yearly=False)
        else:  # `this winter` is now, to come or past
            first, second = (self._months(12 * self.now.year + month - n, long) for n in (12, 0))
            yield first if first.stop > self.now else second

    def _dated(self, year: int, month: int, long: int, day: int) -> Iterator[Span]:
        """Yield a day or some months of this year, or of each of the last twenty, latest first."""
        last, count = (year, 1 + (month + long > 12)) if year else (self.now.year, 20)
        years = range(last, last - count, -1)  # a year has two winters, one at each end
        for each in years if month in range(12) else ():
            with suppress(ValueError, OverflowError):  # 30 February, year 10,000
                span = self._months(12 * each + month, long)
                if day:
                    span = Span(start := span.start.replace(day=day), start + _DAY)
                if year or span.start <= self.now:
                    yield span._replace(yearly=not year)

    def _months(self, month: int, long: int) -> Span:
        """Return some months. `month` is counted from the year 0."""
        day = self._day(0).start
        ends = month, month + long
        start, stop = (day.replace(year=m // 12, month=m % 12 + 1, day=1) for m in ends)
        return Span(start, stop)

    def _day(self, back: int, long: int = 1) -> Span:
        start = self.now.replace(hour=0, minute=0, second=0, microsecond=0) - back * _DAY
        return Span(start, start + long * _DAY)

    def _unit(self, unit: int, back: int) -> Span:
        """Return the day, week, month, year or weekend that is `back` units before this one."""
        monday = self.now.weekday() + 7 * back
        year, month = 12 * (self.now.year - back), 12 * self.now.year + self.now.month - 1
        days, months = self._day, self._months
        units = days(back), days(monday, 7), months(month - back, 1), months(year, 12)
        return (*units, days(monday - 5, 2))[unit]


def _readings(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield the year, month and day of a date in numbers; 0 for a missing one. `03/04/2026` has two
    readings.
    """
    first, second, third = [*map(int, re.findall(r"\d+", text)), 0, 0][:3]
    if first in _YEARS:
        yield first, second, third
    elif not third and not set(text).intersection("./-"):
        yield 0, first, second
    elif third < 100:
        own = 2000 + third if third else 0
        yield own, second, first
        if "." not in text:
            yield own, first, second
    else:
        yield third, second, first
        if "." not in text:
            yield third, first, second

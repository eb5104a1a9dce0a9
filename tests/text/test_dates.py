"""Times that people name, in questions and in options."""

from datetime import UTC, date, datetime, timedelta

import pytest

from compact import MemoryManager, Message
from compact.errors import InvalidArgument
from compact.messages import clock_and_ids
from compact.text.dates import Span, limits, times_in

NOW = datetime(2026, 11, 27, 15, tzinfo=UTC)
"""A Friday."""
OLDEST = datetime(2024, 1, 5, tzinfo=UTC)

QUESTIONS = [
    # a question of nothing but a time, its first day, its last day
    ("What did we talk about on March 3rd?", "2026-03-03", ""),
    ("What did we talk about on March 3rd, 2026?", "2026-03-03", ""),
    ("what did we talk about on the 3rd of March 2025", "2025-03-03", ""),
    ("what did I do on 2026-03-03?", "2026-03-03", ""),
    ("What happened on 3/3/2026?", "2026-03-03", ""),
    ("what did we say on Tuesday, 3 March 2026", "2026-03-03", ""),
    ("What did I do yesterday?", "2026-11-26", ""),
    ("what happened last night", "2026-11-26", ""),
    ("what did we discuss the day before yesterday?", "2026-11-25", ""),
    ("what happened a week ago?", "2026-11-20", ""),
    ("What did I tell you 3 weeks ago?", "2026-11-06", ""),
    ("two days ago", "2026-11-25", ""),
    ("what happened two months ago", "2026-09-01", "2026-09-30"),
    ("What was going on a year ago?", "2025-11-01", "2025-11-30"),
    ("last week", "2026-11-16", "2026-11-22"),
    ("what did we do last month?", "2026-10-01", "2026-10-31"),
    ("what happened last year", "2025-01-01", "2025-12-31"),
    ("What did we do last weekend?", "2026-11-21", "2026-11-22"),
    ("what did we talk about this month", "2026-11-01", "2026-11-30"),
    ("what happened in the last three days", "2026-11-24", "2026-11-27"),
    ("what did I say last Monday", "2026-11-23", ""),
    ("What did we discuss on Friday?", "2026-11-20", ""),
    ("What happened in the spring of 2025?", "2025-03-01", "2025-05-31"),
    ("what did we do last summer", "2026-06-01", "2026-08-31"),
    ("what happened in May", "2026-05-01", "2026-05-31"),
    ("what did we do in March 2025", "2025-03-01", "2025-03-31"),
    ("What happened in 2024?", "2024-01-01", "2024-12-31"),
    ("Worüber haben wir am 3. März 2026 gesprochen?", "2026-03-03", ""),
    ("am 03.03.2026", "2026-03-03", ""),
    ("Was haben wir gestern besprochen?", "2026-11-26", ""),
    ("vorgestern", "2026-11-25", ""),
    ("Was war vor einer Woche los?", "2026-11-20", ""),
    ("vor zwei Tagen", "2026-11-25", ""),
    ("letzte Woche", "2026-11-16", "2026-11-22"),
    ("Was ist im vergangenen Monat passiert?", "2026-10-01", "2026-10-31"),
    ("letzten Montag", "2026-11-23", ""),
    ("im Frühling 2025", "2025-03-01", "2025-05-31"),
    ("De quoi avons-nous parlé le 3 mars 2026 ?", "2026-03-03", ""),
    ("Qu'est-ce que j'ai fait hier ?", "2026-11-26", ""),
    ("avant-hier", "2026-11-25", ""),
    ("il y a deux semaines", "2026-11-13", ""),
    ("la semaine dernière", "2026-11-16", "2026-11-22"),
    ("en août 2025", "2025-08-01", "2025-08-31"),
    ("¿De qué hablamos el 3 de marzo de 2026?", "2026-03-03", ""),
    ("¿Qué hice ayer?", "2026-11-26", ""),
    ("hace dos días", "2026-11-25", ""),
    ("el mes pasado", "2026-10-01", "2026-10-31"),
    ("due settimane fa", "2026-11-13", ""),
    ("il 3 marzo 2026", "2026-03-03", ""),
    ("o que aconteceu ontem", "2026-11-26", ""),
    ("na semana passada", "2026-11-16", "2026-11-22"),
    ("Wat hebben we gisteren besproken?", "2026-11-26", ""),
    ("twee weken geleden", "2026-11-13", ""),
    ("3 marca 2026", "2026-03-03", ""),
    ("dwa tygodnie temu", "2026-11-13", ""),
    ("för två veckor sedan", "2026-11-13", ""),
    ("что мы обсудили вчера?", "2026-11-26", ""),
    ("3 марта 2026 года", "2026-03-03", ""),
    ("две недели назад", "2026-11-13", ""),
    ("2026年3月3日", "2026-03-03", ""),
    ("昨天我们聊了什么", "2026-11-26", ""),
    ("上个月", "2026-10-01", "2026-10-31"),
    ("昨日は何を話しましたか", "2026-11-26", ""),
    ("先週", "2026-11-16", "2026-11-22"),
    # a day, a month or a season of a year that is named from now
    ("What did we talk about in May last year?", "2025-05-01", "2025-05-31"),
    ("in May of last year", "2025-05-01", "2025-05-31"),
    ("last year in May", "2025-05-01", "2025-05-31"),
    ("December 25 last year", "2025-12-25", ""),
    ("in the summer of last year", "2025-06-01", "2025-08-31"),
    ("im Mai letzten Jahres", "2025-05-01", "2025-05-31"),
    ("letztes Jahr am 25. Dezember", "2025-12-25", ""),
    ("en mai de l'année dernière", "2025-05-01", "2025-05-31"),
    ("en mayo del año pasado", "2025-05-01", "2025-05-31"),
    ("w maju zeszłego roku", "2025-05-01", "2025-05-31"),
    ("去年5月", "2025-05-01", "2025-05-31"),
    # counts
    ("What did we say 100 days ago?", "2026-08-19", ""),
    ("vor 100 Tagen", "2026-08-19", ""),
    ("last 90 days", "2026-08-29", "2026-11-27"),
    ("what happened a few days ago", "2026-11-20", "2026-11-25"),
    ("several weeks ago", "2026-10-09", "2026-11-13"),
    ("vor einigen Tagen", "2026-11-20", "2026-11-25"),
    ("il y a quelques jours", "2026-11-20", "2026-11-25"),
    ("hace unos días", "2026-11-20", "2026-11-25"),
    ("неделю назад", "2026-11-20", ""),
    ("несколько дней назад", "2026-11-20", "2026-11-25"),
    # ranges
    ("between 1 March 2026 and 10 March 2026", "2026-03-01", "2026-03-10"),
    ("What happened from 1 March to 10 March 2026?", "2026-03-01", "2026-03-10"),
    ("from December to February", "2025-12-01", "2026-02-28"),
    ("from March 2025 to May", "2025-03-01", "2025-05-31"),
    ("from 2026-03-01 until 2026-03-10", "2026-03-01", "2026-03-10"),
    ("between the 3rd and the 10th of March 2026", "2026-03-03", "2026-03-10"),
    ("vom 3. bis zum 10. März", "2026-03-03", "2026-03-10"),
    ("du 3 au 10 mars", "2026-03-03", "2026-03-10"),
    ("March 2025 until May 2025", "2025-03-01", "2025-05-31"),
    ("since May 2025", "2025-05-01", "2026-11-27"),
    ("since last week", "2026-11-16", "2026-11-27"),
    ("until May 2025", "2024-01-05", "2025-05-31"),
    ("von März bis Mai 2025", "2025-03-01", "2025-05-31"),
    ("zwischen dem 1. März und dem 10. März 2026", "2026-03-01", "2026-03-10"),
    ("seit Mai 2025", "2025-05-01", "2026-11-27"),
    ("bis Mai 2025", "2024-01-05", "2025-05-31"),
    ("entre mars et mai 2025", "2025-03-01", "2025-05-31"),
    ("depuis mai 2025", "2025-05-01", "2026-11-27"),
    ("desde marzo hasta mayo de 2025", "2025-03-01", "2025-05-31"),
    ("между 1 марта и 10 марта 2026", "2026-03-01", "2026-03-10"),
    ("从3月到5月", "2026-03-01", "2026-05-31"),
    # without a year, a day of a named month, a day of a named week
    ("was war am 17.5.?", "2026-05-17", ""),
    ("am 17.5.26", "2026-05-17", ""),
    ("what did we say on 17/5", "2026-05-17", ""),
    ("le 17/05", "2026-05-17", ""),
    ("op 17-5", "2026-05-17", ""),
    ("What did I say on the 3rd of last month?", "2026-10-03", ""),
    ("am 3. des letzten Monats", "2026-10-03", ""),
    ("le 3 du mois dernier", "2026-10-03", ""),
    ("el 3 del mes pasado", "2026-10-03", ""),
    ("上个月3号", "2026-10-03", ""),
    ("3-го числа прошлого месяца", "2026-10-03", ""),  # noqa: RUF001
    ("Monday last week", "2026-11-16", ""),
    ("mardi de la semaine dernière", "2026-11-17", ""),
    ("the third of March", "2026-03-03", ""),
    ("am dritten März", "2026-03-03", ""),
    ("the week before last", "2026-11-09", "2026-11-15"),
    ("vorletzte Woche", "2026-11-09", "2026-11-15"),
    ("over the weekend", "2026-11-21", "2026-11-22"),
    # more languages
    ("dün ne konuştuk", "2026-11-26", ""),
    ("iki gün önce", "2026-11-25", ""),
    ("17 mayıs 2026", "2026-05-17", ""),  # noqa: RUF001
    ("어제 무슨 얘기 했지?", "2026-11-26", ""),
    ("지난주", "2026-11-16", "2026-11-22"),
    ("2026년 3월 3일", "2026-03-03", ""),
    ("מה דיברנו אתמול?", "2026-11-26", ""),
    ("לפני שבוע", "2026-11-20", ""),
    ("ماذا قلنا أمس؟", "2026-11-26", ""),
    ("الأسبوع الماضي", "2026-11-16", "2026-11-22"),
    ("เมื่อวาน", "2026-11-26", ""),
    ("สัปดาห์ที่แล้ว", "2026-11-16", "2026-11-22"),
]


def _span(first: str, last: str) -> Span:
    start, end = (datetime.fromisoformat(day).replace(tzinfo=UTC) for day in (first, last or first))
    return Span(start, end + timedelta(days=1))


@pytest.fixture(scope="module")
def memory() -> MemoryManager:
    """A talk of three years. Each third day has the same words, and each has the words of dates."""
    made = MemoryManager()
    for back in range((NOW - OLDEST).days + 1):
        at = NOW - timedelta(days=back, hours=3)
        text = ("we talk about what happened", "I do and say", "yesterday, last week, on March 3")
        made.add_message(f"s{at:%Y%W}", role="user", content=text[back % 3], timestamp=at)
        reply = f"note {back}"
        made.add_message(f"s{at:%Y%W}", role="assistant", content=reply, timestamp=at)
    return made


@pytest.mark.parametrize(("text", "first", "last"), QUESTIONS)
def test_a_question_of_a_time_finds_what_was_said_then(
    memory: MemoryManager, text: str, first: str, last: str
) -> None:
    want = _span(first, last)
    with clock_and_ids.using(clock=lambda: NOW):
        hits = memory.search(text, limit=5).hits
    assert len(hits) >= 2
    assert all(want.start <= hit.timestamp < want.stop for hit in hits)


@pytest.mark.parametrize(
    "text",
    [
        "may I see it",
        "Was gibt es hier zu sehen?",
        "How do I go from version 3 to 4 in 2 steps?",
        "the march of the penguins",
        "an die Arbeit",
        "What happens on 31 April 2026?",
        "J'ai été malade",
        "real estate",
        "winter",
        "summer party",
        "Black Friday",
        "What did April say about Friday nights?",
        "Windows 2000",
        "192.168.1.10",
        "a letter from April",
        "many days ago",
        "in 2048 bits",
        "2026-11-20 14:03:11,120 ERROR in main",
        "in 2026-11-20T10:00:00Z",
        "17.5 percent",
        "a 24/7 shop",
        "the 3/4 cup",
        "chapter 3.3. is long",
        "um 17.30 Uhr",
        "version 1.2.3",
    ],
)
def test_words_that_mean_other_things_are_no_times(text: str) -> None:
    assert times_in(text, NOW)[0] == ()


def test_a_date_without_a_year_is_the_latest_that_has_messages() -> None:
    memory = MemoryManager()
    for year in (2023, 2024, 2025):
        at = datetime(year, 12 - (year == 2025), 24, tzinfo=UTC)
        memory.add_message("s", role="user", content=f"in {year}", timestamp=at)
    hits = memory.search("What did we say on December 24?").hits
    assert [hit.text for hit in hits] == ["in 2024"]


@pytest.mark.parametrize(
    ("text", "months"),
    [
        ("What did we talk about in March and in May?", {3, 5}),
        ("on 3 March and on 26 November 2026", {3, 11}),
        ("am 3. März und im Mai", {3, 5}),
    ],
)
def test_each_of_several_times_counts_and_hides_no_other(
    memory: MemoryManager, text: str, months: set[int]
) -> None:
    with clock_and_ids.using(clock=lambda: NOW):
        hits = memory.search(text, limit=100).hits
    days = [hit.timestamp for hit in hits if hit.timestamp.year == NOW.year]
    of_months = [day.month in months for day in days]
    assert {day.month for day in days[:4]} <= months <= {day.month for day in days}
    assert not all(of_months), "a misread range loses nothing"


def test_the_latest_that_has_messages_looks_at_those_that_may_be_found() -> None:
    memory = MemoryManager()
    for year, role in ((2024, "user"), (2025, "assistant")):
        at = datetime(year, 12, 24, tzinfo=UTC)
        memory.add_message("s", role=role, content=f"in {year}", timestamp=at)
    hits = memory.search("What did we say on December 24?", roles=("user",)).hits
    assert [hit.text for hit in hits] == ["in 2024"]


def test_words_order_what_a_time_allows_and_find_what_lies_outside() -> None:
    memory = MemoryManager()
    days = {"a heron by the lake": 3, "the car is red": 3, "another heron": 20, "a fox": 21}
    for text, day in days.items():
        at = datetime(2026, 3, day, 12, tzinfo=UTC)
        memory.add_message(f"s{day}{text}", role="user", content=text, timestamp=at)
    hits = [hit.text for hit in memory.search("heron am 3. März 2026").hits]
    assert hits[0] == "a heron by the lake"
    assert set(hits) == {"a heron by the lake", "the car is red", "another heron"}


def test_an_empty_question_finds_all_of_a_day(memory: MemoryManager) -> None:
    hits = memory.search("", since="2026-03-03", until="2026-03-03").hits
    assert [f"{hit.timestamp:%Y-%m-%d}" for hit in hits] == ["2026-03-03"] * 2
    assert memory.search("").hits == ()
    older = memory.search("", until="2026-03-03", limit=5).hits
    assert [hit.score for hit in older] == [1.0] * 5
    assert [f"{hit.timestamp:%d}" for hit in older] == ["03", "03", "02", "02", "01"]


@pytest.mark.parametrize("text", ["x", "C", "?"])
def test_a_question_without_words_finds_no_more_within_a_time(
    memory: MemoryManager, text: str
) -> None:
    assert memory.search(text, since="2026-03-03").hits == memory.search(text).hits == ()


@pytest.mark.parametrize(
    ("written", "first", "last"),
    [
        ("yesterday", "2026-11-26", ""),
        ("Last Week", "2026-11-16", "2026-11-22"),
        ("03.03.2026", "2026-03-03", ""),
        ("3 March 2026", "2026-03-03", ""),
        ("3 March", "2026-03-03", ""),
        ("Dec 24", "2025-12-24", ""),
        ("31/03/2026", "2026-03-31", ""),
        ("2026-03", "2026-03-01", "2026-03-31"),
        ("May", "2026-05-01", "2026-05-31"),
        ("gestern", "2026-11-26", ""),
        ("hier", "2026-11-26", ""),
        ("2025", "2025-01-01", "2025-12-31"),
        (date(2026, 3, 3), "2026-03-03", ""),
        (date(1900, 1, 1), "1900-01-01", ""),
        (date(1, 2, 3), "0001-02-03", ""),
        ("1900-01-01", "1900-01-01", ""),
        ("90 days ago", "2026-08-29", ""),
        ("this winter", "2026-12-01", "2027-02-28"),
        ("this summer", "2026-06-01", "2026-08-31"),
    ],
)
def test_options_take_days_as_people_write_them(written: str | date, first: str, last: str) -> None:
    start, stop, _ = _span(first, last)
    assert limits(written, written, NOW) == (start, stop - timedelta(microseconds=1))


@pytest.mark.parametrize(
    ("written", "instant"),
    [
        ("2026-05-17T09:30", datetime(2026, 5, 17, 9, 30, tzinfo=UTC)),
        ("2026-05-17 09:30+02:00", datetime(2026, 5, 17, 7, 30, tzinfo=UTC)),
        (datetime(2026, 5, 17), datetime(2026, 5, 17, tzinfo=UTC)),  # noqa: DTZ001 - without a zone
    ],
)
def test_a_time_of_a_day_stays_an_instant(written: str | datetime, instant: datetime) -> None:
    assert limits(written, written, NOW) == (instant, instant)


def test_the_last_day_there_is_has_an_end() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    for written in (date.max, "9999-12-31", last):
        end = limits(None, written, NOW)[1]
        assert end is not None
        assert last - timedelta(microseconds=1) <= end <= last
        assert MemoryManager().search("x", until=written).hits == ()
    assert times_in("today, in 9999, 9999 years ago", last)[0] == ()


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("03/04/2026", "2026-04-03 or 2026-03-04"),
        ("soon", "2026-05-17"),
        ("3 bananas", "17 May 2026"),
        ("", "last week"),
        ("12", "yesterday"),
        ("2026-02-30", "2026-05-17"),
    ],
)
def test_what_is_no_day_or_two_days_is_refused_by_name(written: str, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says) as raised:
        limits(None, written, NOW)
    assert raised.value.name == "until"


def test_the_timeline_takes_the_same_words(memory: MemoryManager) -> None:
    with clock_and_ids.using(clock=lambda: NOW):
        days = [entry.day for entry in memory.timeline(since="last week", until="last week")]
    assert days == [date(2026, 11, day) for day in range(16, 23)]


def test_a_message_of_the_default_kind_counts() -> None:
    """Times of messages and of questions meet in UTC, whatever zone they were written in."""
    memory = MemoryManager()
    late = datetime.fromisoformat("2026-03-04T01:00+02:00")
    memory.add_message("s", Message(role="user", content="late", timestamp=late))
    assert [hit.text for hit in memory.search("3 March 2026").hits] == ["late"]


def test_times_are_read_in_the_first_characters() -> None:
    assert times_in("x " * 1_000 + "yesterday", NOW)[0]
    assert times_in("月" * 4_000 + " yesterday", NOW)[0] == ()


def test_of_many_dates_the_first_are_read() -> None:
    text = " ".join(f"{1980 + n % 40}-05-17 and" for n in range(20_000))
    assert len(times_in(text, NOW)[0]) == 8

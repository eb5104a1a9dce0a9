"""Words are found in the forms in which people look for them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from compact import ContextManager, MemoryManager
from compact.text.terms import forms_of, plain_letters

SAID = {
    "machine": "The washing machine is a WM-4471-B from the shop.",
    "bare code": "The new pump is a PX9910C, they said.",
    "book": "The book has the ISBN 978-3-16-148410-0 on its back.",
    "phone": "My phone is 0170 555 1234 these days.",
    "version": "We run version 3.11.7 on the server.",
    "plus": "I write most of it in C++ these days.",
    "sharp": "The old tool was C# before.",
    "blood": "My blood group is A- they said.",
    "camel": "Call getUserProfileById to load it.",
    "wide": "The code is \uff21\uff22\uff23\uff11\uff12\uff13 for the door.",
    "street": "Die Straßenlaterne vor dem Haus ist kaputt.",
    "town": "Müller wohnt in München am Fluss.",
    "dotless": "Iş\u0131l geldi dün akşam.",
    "thai": "ฉันเลี้ยงแมวสองตัว",
    "hebrew": "הלכתי לבנק אתמול",
    "arabic": "ذهبت إلى المدرسة",
    "lamps": "Die Straßenlaternen im Park brennen schon.",
    "insurance": "Meine Krankenversicherung ist teuer.",
    "Moscow": "Я живу в Москве у сестры.",  # noqa: RUF001
    "dog": "Мои собаки спят дома.",
    "keys": "Le chiavi sono sul tavolo.",
    "Warsaw": "Mieszkam w Warszawie.",
    "cats": "Kedilerim uyuyor.",
    "hounds": "הכלבים שלי ישנים",
    "tree": "Наша ёлка стоит у окна.",  # noqa: RUF001
    "vowels": "هذا كِتاب جديد",
    "Athens": "Μένω στην Αθήνα τώρα.",
    "wireless": "The Wi-Fi is slow.",
    "abroad": "Call (0171) 666 4321 tonight.",
    "account": "Pay to DE89 3704 0044 0532 0130 00 please.",
    "tagged": "The fix is in v1.2.4 of the client.",
    "candidate": "We wait for 2.0.0-rc.1 at work.",
    "underscore": "It fails with E_CONN-42x on the train.",
    "emoji": "I feel great \U0001f389 about it.",
}
ASKED = [
    ("WM4471B", "machine"),
    ("wm 4471 b", "machine"),
    ("PX-9910-C", "bare code"),
    ("9783161484100", "book"),
    ("01705551234", "phone"),
    ("3.11.7", "version"),
    ("1.2.4", "tagged"),
    ("v3.11.7", "version"),
    ("2.0.0", "candidate"),
    ("ECONN42X", "underscore"),
    ("C++", "plus"),
    ("C#", "sharp"),
    ("A-", "blood"),
    ("getUser", "camel"),
    ("profile", "camel"),
    ("ABC123", "wide"),
    ("Strassenlaterne", "street"),
    ("Mueller Muenchen", "town"),
    ("Isil", "dotless"),
    ("แมว", "thai"),
    ("בנק", "hebrew"),
    ("مدرسة", "arabic"),
    ("\U0001f389", "emoji"),
]
RELATIVES = [
    ("Laterne", "lamps"),
    ("Strassenlaterne", "lamps"),
    ("Versicherung", "insurance"),
    ("Москва", "Moscow"),
    ("собака", "dog"),
    ("chiave", "keys"),
    ("Warszawa", "Warsaw"),
    ("kedi", "cats"),
    ("כלב", "hounds"),
    ("елка", "tree"),
    ("كتاب", "vowels"),
    ("Αθηνα", "Athens"),
    ("wifi", "wireless"),
    ("01716664321", "abroad"),
    ("DE89370400440532013000", "account"),
]
"""Words that no message has in this form, and messages with a word of the same stem or a part."""
CHATTER = ("We talked about the garden for a while.", "The meeting was moved again, sigh.")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("forms") / "chat.db"
    for name, said in SAID.items():
        with ContextManager(store=path, session_id=name) as ctx:
            ctx.add_messages([{"role": "user", "content": text} for text in (said, *CHATTER)])
    return path


@pytest.mark.parametrize(("question", "name"), ASKED + RELATIVES)
def test_memory_finds_a_word_in_another_form(file: Path, question: str, name: str) -> None:
    with MemoryManager(file) as memory:
        hits = memory.search(question, limit=3).hits
    assert (name, 0) in [(hit.session_id, hit.position) for hit in hits]


@pytest.mark.parametrize(("question", "name"), ASKED)
def test_a_session_in_memory_finds_it_too(question: str, name: str) -> None:
    with ContextManager() as ctx:
        ctx.add_messages([{"role": "user", "content": text} for text in (*CHATTER, SAID[name])])
        assert ctx.recall(question)[0].position == len(CHATTER)


def test_plain_words_have_no_other_form() -> None:
    plain = "The fern stands by the north window. Water it on Mondays, in winter less."
    assert list(forms_of(plain_letters(plain))) == []


@pytest.mark.timing
@pytest.mark.parametrize("unit", ["a", "aB", "a-", "1 2", "ä", "\u05d5", "A9", "+", "ال"])
def test_forms_of_any_text_take_linear_time(unit: str) -> None:
    def seconds(times: int) -> float:
        started = time.process_time()
        list(forms_of(unit * times))
        return time.process_time() - started

    seconds(1_000)
    assert seconds(20_000) < 40 * max(seconds(2_000), 0.002)


def test_a_word_that_is_said_has_no_other_forms_in_plain_letters(file: Path) -> None:
    with ContextManager(store=file, session_id="other") as ctx:
        ctx.add_message(role="user", content="The Later is a ship, and Laternenfest a feast.")
        ctx.add_message(role="user", content="A Laterne hangs there.")
    with MemoryManager(file) as memory:
        assert [hit.text for hit in memory.search("Laterne").hits] == ["A Laterne hangs there."]
        memory.forget("other")

"""Memory's search and recall know what was said later, and what holds for ever."""

from datetime import UTC, datetime, timedelta

import pytest

from compact import ContextManager, MemoryManager
from compact.messages.messages import Message
from compact.messages.protocols import Embedder
from compact.testing import HashEmbedder
from compact.text.turns import Trait, forgotten_in, noted

BEGUN = datetime(2024, 3, 1, 9, tzinfo=UTC)
CHATTER = (
    "The tomatoes on the balcony have spots again.",
    "We watched a long film about a lighthouse.",
    "It rains and the neighbours are moving furniture.",
    "What goes well with roast lamb?",
    "I read that the Romans knew glue.",
)


def memory_of(
    *said: str, store: str = ":memory:", embedder: Embedder | None = None
) -> MemoryManager:
    """A memory of conversations a week apart. Each says one thing among chatter."""
    memory = MemoryManager(store, embedder=embedder)
    for number, text in enumerate(said):
        talk = [*CHATTER[:3], text, *CHATTER[3:]]
        for place, each in enumerate(talk):
            at = BEGUN + timedelta(weeks=number, minutes=place)
            memory.add_message(f"s{number}", role="user", content=each, timestamp=at)
            answer = "I see."
            memory.add_message(f"s{number}", role="assistant", content=answer, timestamp=at)
    return memory


class Topics(HashEmbedder):
    """Puts texts about code beside each other."""

    def _vector(self, text: str) -> list[float]:
        is_code = any(word in text for word in ("code", "login"))
        return super()._vector(text + " code" * 9 * is_code)


def test_a_rule_on_the_topic_is_found_and_recalled_without_a_shared_word() -> None:
    rule, question = "Always format code with highlighting.", "How do I implement a login?"
    memory = memory_of(*CHATTER, rule, *CHATTER, embedder=Topics(256))
    memory.embed()
    assert rule in found(memory, question, limit=10)
    for text, is_recalled in ((question, True), ("What goes well with fish?", False)):
        with ContextManager(window=8_000, memory=memory) as ctx:
            ctx.add_message(role="user", content=text)
            assert any(rule in m.text for m in ctx.active_context().messages) is is_recalled


def test_a_marked_sentence_is_a_standing_one() -> None:
    plain = Message(role="user", content="Metric units, please.")
    marked = Message(role="user", content=plain.content, metadata={"important": True})
    assert [bool(noted(x).signs & Trait.STANDING) for x in (plain, marked)] == [False, True]


def found(memory: MemoryManager, question: str, limit: int = 5) -> list[str]:
    return [hit.text for hit in memory.search(question, limit=limit).hits]


@pytest.mark.parametrize(
    ("old", "later", "question"),
    [
        (
            "The knee appointment is on the 4th of March.",
            "Turns out the knee thing moved to the 9th.",
            "When is my knee appointment?",
        ),
        (
            "Mein Zahnarzt ist Dr. Abel am Kanal.",
            "Wir haben den Zahnarzt gewechselt, Dr. Nakamura ist gut.",
            "Wer ist mein Zahnarzt?",
        ),
        (
            "Mi dentista es el doctor Abel, junto al canal.",
            "Ya no voy a ese dentista, ahora es la doctora Nakamura.",
            "¿Quién es mi dentista?",
        ),
    ],
)
def test_a_new_value_comes_before_the_old_one(old: str, later: str, question: str) -> None:
    hits = found(memory_of(old, later), question)
    assert hits.index(later) < hits.index(old)


def test_a_withdrawal_comes_with_what_it_withdraws_though_the_question_shares_no_word() -> None:
    old, later = "New Year will be in Lisbon, near the castle.", "Never mind the Lisbon trip."
    hits = found(memory_of(old, later, *CHATTER), "Where do we spend New Year?")
    assert hits[:2] == [old, later]


def test_what_was_said_before_withdraws_nothing() -> None:
    earlier, now = "Forget Lisbon, it is too far.", "New Year will be in Lisbon, near the castle."
    hits = found(memory_of(earlier, now, *CHATTER), "Where do we spend New Year?")
    assert hits[0] == now
    assert earlier not in hits


def test_recall_brings_the_rule_with_the_matter(tmp_path: object) -> None:
    matter = "Tobias took the clock after the funeral."
    rule = "Please don't bring up Tobias ever again."
    with memory_of(matter, rule, store=f"{tmp_path}/chat.db"):
        pass
    with ContextManager(window=8_000, store=f"{tmp_path}/chat.db", memory=True) as ctx:
        ctx.add_message(role="user", content="Who took the clock after my father's funeral?")
        prompt = str(ctx.get_context_for_model())
    assert matter in prompt
    assert prompt.index(rule) < prompt.index(matter), "the newest comes first"


def test_what_shares_one_word_stands_after_the_hit_and_a_smaller_limit_gives_the_first() -> None:
    hit = "I parked the red car in Elm street, near the bakery."
    memory = memory_of(hit, *CHATTER, "What should I cook now that the red peppers are ripe?")
    hits = found(memory, "Where did I park the red car?", limit=10)
    assert hits[0] == hit
    assert found(memory, "Where did I park the red car?", limit=1) == [hit]


def test_other_scopes_do_not_decide_what_belongs_together() -> None:
    old, later = "My dentist is Dr. Brandt.", "Zahra is my dentist now."
    memory = memory_of(old, later)
    before = found(memory, "Brandt")
    assert later in before
    for number in range(250):
        text = f"The dentist {number} has called."
        MemoryManager(memory.store, scope="bob").add_message(f"b{number}", "user", text)
    assert found(memory, "Brandt") == before


@pytest.mark.parametrize(
    ("said", "request_", "question", "secret"),
    [
        (
            "My phone number is 0170 5551234.",
            "Can you forget my phone number?",
            "What is my phone number?",
            "5551234",
        ),
        (
            "Meine Kontonummer endet auf 7731.",
            "Bitte vergiss meine Kontonummer.",
            "Wie endet meine Kontonummer?",
            "7731",
        ),
    ],
)
def test_recall_does_not_quote_what_is_to_be_forgotten(
    tmp_path: object, said: str, request_: str, question: str, secret: str
) -> None:
    for asked, is_quoted in ((request_, False), (f"Don't {request_[8:]}", True)):
        file = f"{tmp_path}/{is_quoted}.db"
        with memory_of(said, asked, store=file):
            pass
        with ContextManager(window=8_000, store=file, memory=True) as ctx:
            ctx.add_message(role="user", content=question)
            assert (secret in str(ctx.get_context_for_model())) == is_quoted


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("Forget my number.", "my number"),
        ("Fine. Please forget what I said about Lisbon, we stay here.", "Lisbon"),
        ("Kannst du meine Nummer vergessen?", "meine Nummer"),
        ("Забудь мой номер", "мой номер"),
        ("Don't forget my number.", ""),
        ("Don't let me forget the dentist.", ""),
        ("I always forget my umbrella.", ""),
        ("Never forget to add types.", ""),
        ("I'd like you to forget my number.", "my number"),
        ("You should not remember my number any more.", "my number"),
        ("Puoi dimenticare il mio numero?", "il mio numero"),
        ("Można powiedzieć: możesz zapomnieć mój numer", "mój numer"),
        ("Telefon numaramı unut.", "Telefon numaramı"),  # noqa: RUF001
        ("私の電話番号を忘れてください。", "私の電話番号"),
        ("请忘记我的电话号码。", "我的电话号码"),
        ("내 전화번호를 잊어 줘.", "내 전화번호"),
        ("Ach, vergiss das mit dem Marathon.", "Marathon"),
        ("Ich habe es vergessen, kannst du helfen?", ""),
        ("Puedes ayudarme a no olvidar la cita?", ""),
        ("Vergiss meine Nummer nicht.", ""),
        ("N'oublie pas mon numéro.", ""),
        ("I chose it so I can't forget the password.", ""),
        ("I don't remember my wifi password.", ""),
        ("You forget that Mia is allergic to peanuts!", ""),
        ("Did you forget my name?", ""),
        ("We should not store credit cards.", ""),
        ("Das kannst du vergessen.", ""),
        ("Ich kann mir Namen nicht merken.", ""),
        ("Je ne retiens pas les noms.", ""),
    ],
)
def test_only_a_request_to_forget_is_one(text: str, what: str) -> None:
    assert what in forgotten_in(text)
    assert bool(forgotten_in(text)) == bool(what)


def test_standing_sentences_have_seats_after_the_first_hits() -> None:
    rule = "Always show types when I ask for code."
    talk = [f"The login page number {n} asks for a code by mail." for n in range(12)]
    hits = found(memory_of(rule, *talk), "How do I write the code of a login page?", limit=10)
    assert rule not in hits[:5]
    assert rule in hits
    assert rule not in found(memory_of(rule, *talk), "Which lighthouse was it?", limit=10)


def test_a_neighbour_of_a_hit_is_no_hit_where_a_person_talks_to_an_assistant() -> None:
    hits = found(memory_of("The piano lesson is on Tuesdays."), "When is the piano lesson?")
    assert hits == ["The piano lesson is on Tuesdays."]


def test_saying_something_twice_does_not_silence_recall(tmp_path: object) -> None:
    said = "My dentist is Dr. Abel by the canal."
    with memory_of(said, *CHATTER, said, store=f"{tmp_path}/chat.db"):
        pass
    with ContextManager(window=8_000, store=f"{tmp_path}/chat.db", memory=True) as ctx:
        ctx.add_message(role="user", content="Who is my dentist?")
        prompt = str(ctx.get_context_for_model())
        assert prompt.count(said) == 1, "one copy"
        assert "2024-04-12" in prompt, "the newer one"
        assert "2024-03-01" not in prompt


FACTS = {
    "What's my dog's name?": "My dog is called Biscuit.",
    "Which car do I drive?": "I drive a blue Fiat.",
    "what's the name of my dentist again?": "My dentist is Dr. Okafor.",
    "Where did we move?": "We moved to Elm Street in May.",
    "What am I allergic to?": "I am allergic to walnuts.",
}


@pytest.fixture(scope="module")
def new_memory(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A memory of a few messages, where every word is rare."""
    file = str(tmp_path_factory.mktemp("new") / "chat.db")
    with MemoryManager(file) as memory:
        for fact in FACTS.values():
            memory.add_message("new", "user", fact)
            memory.add_message("new", "assistant", "I see, noted.")
    return file


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        *FACTS.items(),
        *((text, "") for text in ("I told you so", "thank you", "Write a haiku about a dog park")),
    ],
)
def test_a_new_memory_speaks_and_is_silent(new_memory: str, text: str, fact: str) -> None:
    with ContextManager(window=8_000, store=new_memory, session_id="asked", memory=True) as ctx:
        ctx.add_message(role="user", content=text)
        prompt = str(ctx.get_context_for_model())
    assert fact in prompt
    assert ("[Memory" in prompt) == bool(fact)
    with MemoryManager(new_memory) as memory:
        memory.forget("asked")


@pytest.mark.parametrize(
    ("text", "traits"),
    [
        ("I always take the window seat.", Trait.STANDING),
        ("Ich nehme immer den Fensterplatz.", Trait.STANDING),
        ("いつも窓側に座ります。", Trait.STANDING),
        ("The trip is cancelled.", Trait.CHANGE),
        ("Wir fahren doch nicht nach Lissabon.", Trait.CHANGE),
        ("我们不再去里斯本了。", Trait.CHANGE),
        ("Больше не едем в Лиссабон.", Trait.CHANGE),
        ("The seat is by the window.", Trait(0)),
    ],
)
def test_what_lasts_is_noted_of_a_person_only(text: str, traits: Trait) -> None:
    both = Trait.STANDING | Trait.CHANGE
    assert Trait(noted(Message(role="user", content=text)).signs) & both == traits
    assert not Trait(noted(Message(role="assistant", content=text)).signs) & both
    pasted = f"{text} {'word ' * 300}"
    assert not Trait(noted(Message(role="user", content=pasted)).signs) & both


BARS = [
    "Please don't ever raise my gambling with me again.",
    "I never want to hear about the pregnancy again, okay?",
    "That subject is closed, leave it alone.",
    "Keep quiet about the Brightwell story.",
    "Mein Gewicht ist tabu.",
    "Sprich mich nie wieder auf Jens an.",
    "Ne me parle plus jamais de Luc.",
    "De mis deudas no quiero saber nada más.",
    "Non parlarmi mai più di Luca.",
    "Nunca mais fale do Luís comigo.",
    "Begin nooit meer over Joris.",
    "Nigdy więcej nie wspominaj o Jacku.",
    "Больше никогда не упоминай Игоря.",
    "Bir daha Emre'den söz etme.",
    "אל תזכיר לי את יוסי.",  # noqa: RUF001
    "لا تذكر سامي أمامي.",
    "อย่าพูดถึงเอกอีก",
    "以后不要再跟我提小强。",
    "健二の話は二度としないで。",
    "민수 얘기는 다시는 하지 마.",
]


@pytest.mark.parametrize("text", BARS)
def test_a_request_for_silence_is_known_in_any_language(text: str) -> None:
    assert Trait(noted(Message(role="user", content=text)).signs) & Trait.BARRED


@pytest.mark.parametrize(
    "text",
    [
        "I don't talk to my sister any more.",
        "He never mentions his wife.",
        "No problem, let's talk about dinner.",
        "never raise ValueError here",
        "Ich rede nicht mit Jens.",
        "Я не говорю по-французски.",
        "I want to hear about your day.",
        "Don't forget to mention the invoice number.",
        "Don't hesitate to ask me.",
        "If you don't know, ask me.",
        "The docs don't mention how to install it.",
        "The repository is private.",
        "Let it rest for ten minutes before slicing.",
        "Das Thema ist nicht einfach.",
        "Mein Sohn spricht noch nicht.",
        "No recuerdo mi contraseña.",
    ],
)
def test_a_report_is_no_request_for_silence(text: str) -> None:
    assert not Trait(noted(Message(role="user", content=text)).signs) & Trait.BARRED


def test_a_request_for_silence_comes_with_what_is_recalled(tmp_path: object) -> None:
    said = "The poker summer cost me eleven thousand at the casino in Baden."
    rule = "Leave my gambling out of our conversations."
    with memory_of(said, rule, *CHATTER, store=f"{tmp_path}/chat.db"):
        pass
    with ContextManager(window=8_000, store=f"{tmp_path}/chat.db", memory=True) as ctx:
        ctx.add_message(role="user", content="How much did my poker summer at the casino cost?")
        prompt = str(ctx.get_context_for_model())
    assert "eleven thousand" in prompt
    assert rule in prompt


@pytest.mark.parametrize(
    ("old", "later", "question"),
    [
        (
            "My dentist is Dr. Abel, very gentle.",
            "Dr. Nakamura is my dentist since the move.",
            "Who is my dentist?",
        ),
        (
            "Il mio dentista è il dottor Abel.",
            "Il mio dentista è la dottoressa Nakamura.",
            "Chi è il mio dentista?",
        ),
        (
            "O meu dentista é o doutor Abel.",
            "O meu dentista é a doutora Nakamura.",
            "Quem é o meu dentista?",
        ),
    ],
)
def test_of_two_statements_alike_the_later_comes_first(old: str, later: str, question: str) -> None:
    hits = found(memory_of(old, later), question)
    assert hits.index(later) < hits.index(old)

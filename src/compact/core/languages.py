"""Which language a text is written in: by its script, and for Latin letters by its function words.

Cheap and deterministic, with no dictionary. Code, names, addresses and headings are no language.
Too little text, a mixture, or a language that is not in the tables is unknown: `None`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

LEAST_WORDS = 20
"""Words of Latin letters from which their language can be told."""
LEAST_LETTERS = 12
"""Letters of another script from which its language can be told; about as many words in Chinese."""
MAIN_SHARE = 0.65
"""Share of its weight that a text's main script must have."""
LEAST_FUNCTION = 0.14
"""Share of a text's words that must be function words of its language ..."""
LEAD = 1.35
"""... and how many times as many they must be as those of any other language."""

NAMES: Mapping[str, str] = {
    "ar": "Arabic",
    "bn": "Bengali",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "fa": "Persian",
    "fr": "French",
    "he": "Hebrew",
    "hi": "Hindi",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "sv": "Swedish",
    "ta": "Tamil",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "vi": "Vietnamese",
    "zh": "Chinese",
}
"""The languages that can be told, by their codes."""

_PROFILES: Mapping[str, str] = {
    "en": """the of and to in is that it for was on are with as i you be this have from or by not
        but at they we he she had were which will would can there their what all if been has when
        who its do does did no an so my your our them than then out up into could should about""",
    "de": """der die das und ist nicht ein eine einen einem einer zu den von mit sich auf für es im
        dem auch als an wie bei aus nach wird werden hat haben sind war wir ich sie er du ihr noch
        nur oder aber wenn dass kann muss soll mir mich bitte über durch zum zur so schon sein""",
    "fr": """le la les des et est un une du de que qui dans pour pas sur ne au aux avec ce cette ces
        il elle nous vous je on sont mais ou par plus se son sa ses leur été être avoir fait ont
        comme si tout d l qu n c j s y en lui donc aussi cela""",
    "es": """el la los las de que y en un una es no se por con para su lo como más pero sus le ha al
        del este esta son fue era ya o cuando muy sin sobre también me hay mi porque qué yo nos está
        están ser tiene todo eso si hasta desde""",
    "it": """il lo la gli le di che e è un una non per in con si del della dei delle al alla da nel
        nella sono ma come più anche questo questa ho ha hanno mi ci se o dal dalla ai suo sua cosa
        quando essere stato perché tutti molto i""",
    "pt": """o os as de que e é um uma não para em com do da dos das no na nos nas se por mais como
        mas foi ao ele ela eu você isso este esta são está já também pelo pela ou quando muito sua
        seu ser tem nós até sem sobre""",
    "nl": """de het een en van ik te dat die in is niet op aan met als voor zijn er maar om hem dan
        ook nog wel naar bij uit of heeft hebben wordt worden kan moet geen wat deze dit door je we
        wij hij zij zo over was al""",
    "pl": """i w nie na to się że z do jest jak o a co ale za po tak czy od już dla tym był była być
        są przez lub tylko może oraz ten ta te tego jego jej mnie by przy ich też gdy które który
        która""",
    "sv": """och i att det som en på är av för den till inte med de ett har om jag vi du var han hon
        kan men så från eller nu ska sig när vid också efter bara under denna dessa hade skulle vill
        finns utan""",
    "da": """og i at det som en på er af for den til ikke med de et har om jeg vi du var han hun kan
        men så fra eller nu skal sig når ved også efter kun denne disse havde skulle vil uden blev
        være hvad""",
    "tr": """ve bir bu için ile da de ne ben sen biz çok daha gibi ama olarak olan var yok mi
        m\u0131 değil kadar sonra her şey ya veya en o şu ki
        diye nas\u0131l hem ise olduğu göre önce""",
    "cs": """a je se na v že to s z do o i ale jako za by pro jsem jsou co tak po jeho která který
        které nebo už jen při být byl byla bylo není ještě také tím aby když podle""",
    "id": """yang dan di dari untuk dengan ini itu pada tidak akan dalam adalah ke saya kami kita
        anda ada juga oleh sudah bisa atau telah karena sebagai jika lebih hanya tersebut dapat""",
    "vi": """và là của có không được cho các một trong với để này đã những khi người từ cũng như tôi
        bạn sẽ về ra nếu đến thì phải làm chúng ở rất""",
}
FUNCTION_WORDS: Mapping[str, frozenset[str]] = {
    code: frozenset(words.split()) for code, words in _PROFILES.items()
}
"""The words a language is held together by, in lower case."""
ADDRESSES: Mapping[str, frozenset[str]] = {
    code: frozenset(words.split())
    for code, words in {
        "en": "you your yours yourself",
        "de": "du dich dir dein deine deinen deiner euch euer eure",
        "fr": "tu te toi ton ta tes vous votre vos",
        "es": "tú te ti tu tus usted ustedes vosotros vuestro",
        "it": "tu ti te tuo tua tuoi tue voi vi vostro",
        "pt": "tu te ti teu tua você vocês",
        "nl": "jij je jou jouw jullie",
        "pl": "ty ciebie ci tobie twój twoje wy was wam wasz",
        "sv": "du dig din ditt dina ni er ert",
        "ru": "ты тебя тебе твой твоя вы вас вам ваш ваша",
        "zh": "你 您",
        "ja": "あなた",
    }.items()
}
"""Who is spoken to, in languages that say it with words of their own."""
CHARACTERS = frozenset(
    "的了在是不和有我你他她它这那就也都要会对及与为到并已未被把从将后个中上下以用所可等或"
)
"""Chinese characters that do the same."""

_NO_PROSE = re.compile(r"(?s:```.*?(?:```|\Z))|`[^`\n]*`|https?://\S+|(?m:^#{1,6} .*$)")
_RUN = re.compile(r"[!-~]+")
_NAME = re.compile(r"[\w)][_/\\@=<>{}\[\]|$:.][\w(]|\d|[a-z][A-Z]|^\W*[A-Z]{2,}\W*$")
"""What a path, an identifier, a version, a call or markup holds: they are of no language."""
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]+")
_SCRIPTS: Mapping[str, re.Pattern[str]] = {
    "han": re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"),
    "kana": re.compile(r"[\u3040-\u30fa\u30fc-\u30ff]"),
    "hangul": re.compile(r"[\uac00-\ud7af\u1100-\u11ff]"),
    "cyrillic": re.compile(r"[\u0400-\u052f]"),
    "arabic": re.compile(r"[\u0600-\u06ff\u0750-\u077f]"),
    "el": re.compile(r"[\u0370-\u03ff\u1f00-\u1fff]"),
    "he": re.compile(r"[\u0590-\u05ff]"),
    "hi": re.compile(r"[\u0900-\u097f]"),
    "bn": re.compile(r"[\u0980-\u09ff]"),
    "ta": re.compile(r"[\u0b80-\u0bff]"),
    "th": re.compile(r"[\u0e00-\u0e7f]"),
}
_WEIGHT: Mapping[str, float] = {"han": 3.0, "kana": 2.0, "hangul": 2.5}
"""How many Latin letters say as much as one letter of these."""
_KANA_SHARE = 0.1
"""Share of kana from which Han letters are Japanese."""


def language_of(text: str) -> str | None:
    """The code of the language a text is written in, a key of `NAMES`; None where it is unknown."""
    prose = _RUN.sub(lambda run: " " if _NAME.search(run[0]) else run[0], _NO_PROSE.sub(" ", text))
    words = [word.lower() for word in _LATIN.findall(prose)]
    if prose.isascii():
        return _latin(words)
    letters = {name: len(found.findall(prose)) for name, found in _SCRIPTS.items()}
    weights = {name: n * _WEIGHT.get(name, 1.0) for name, n in letters.items()}
    weights["cjk"] = weights.pop("han") + weights.pop("kana") + weights.pop("hangul")
    weights["latin"] = float(sum(map(len, words)))
    script, weight = max(weights.items(), key=lambda row: row[1])
    if weight < MAIN_SHARE * sum(weights.values()):
        return None
    if script == "latin":
        return _latin(words)
    if weight < LEAST_LETTERS:
        return None
    match script:
        case "cjk":
            return _east_asian(letters["han"], letters["kana"], letters["hangul"])
        case "cyrillic":
            return _marked(prose, "іїєґІЇЄҐ", "uk") or _marked(prose, "ыэёЫЭЁ", "ru")
        case "arabic":
            return _marked(prose, "پچژگ", "fa") or "ar"
    return script


def _latin(words: list[str]) -> str | None:
    if len(words) < LEAST_WORDS:
        return None
    times = Counter(words)
    scores = {
        code: sum(times[word] for word in profile) / len(words)
        for code, profile in FUNCTION_WORDS.items()
    }
    (best, score), (_, second) = sorted(scores.items(), key=lambda row: -row[1])[:2]
    return best if score >= LEAST_FUNCTION and score >= LEAD * second else None


def _east_asian(han: int, kana: int, hangul: int) -> str | None:
    total = han + kana + hangul
    if hangul >= MAIN_SHARE * total:
        return "ko"
    if hangul > (1 - MAIN_SHARE) * total:
        return None
    return "ja" if kana >= _KANA_SHARE * total else "zh"


def _marked(text: str, letters: str, code: str) -> str | None:
    """The language whose own letters occur in the text."""
    return code if any(letter in text for letter in letters) else None

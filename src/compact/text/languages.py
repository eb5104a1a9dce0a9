"""Detects the language of a text by its script, and in Latin letters by its function words.

The words are in `languages.json` next to this file. Code, names, addresses and headings are
ignored. The result is None if the text is too short, mixed, or in a language not in the file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Set
from importlib.resources import files

from compact.patterns import regex

LEAST_WORDS = 20
"""A text in Latin letters needs at least this many words."""
LEAST_LETTERS = 12
"""A text in another script needs at least this many letters (weighted by `_WEIGHT`)."""
MAIN_SHARE = 0.65
"""The main script must have at least this share of the text's weighted letters."""
LEAST_FUNCTION = 0.14
"""At least this share of a text's words must be function words of the language."""
LEAD = 1.35
"""The best language's share of function words must be at least this many times the second's."""

_KNOWN: Mapping[str, Mapping[str, str]] = json.loads(
    (files("compact.text") / "languages.json").read_text(encoding="utf-8")
)


def words_of(kind: str) -> Mapping[str, Set[str]]:
    """Return the words of one kind in `languages.json` in their order, by language code."""
    return {
        code: dict.fromkeys(row[kind].split()).keys() for code, row in _KNOWN.items() if kind in row
    }


NAMES: Mapping[str, str] = {code: row["name"] for code, row in _KNOWN.items()}
"""Language code → the language's name, for all known languages."""
FUNCTION_WORDS = words_of("function_words")
"""Function words of the languages with Latin letters, in lower case."""
ADDRESSES = words_of("addresses")
"""Forms of address, such as `du`, by language code."""
FIRST_PERSON = words_of("first_person")
"""First-person words of the languages with Latin letters."""
CHARACTERS = frozenset(
    "的了在是不和有我你他她它这那就也都要会对及与为到并已未被把从将后个中上下以用所可等或"
)
"""Chinese function characters."""

_NO_PROSE = regex(r"(?s:```.*?(?:```|\Z))|`[^`\n]*`|https?://\S+|(?m:^#{1,6} .*$)")
_RUN = regex(r"[!-~]+")
_NAME = regex(r"[\w)][_/\\@=<>{}\[\]|$:.][\w(]|\d|[a-z][A-Z]|^\W*[A-Z]{2,}\W*$")
"""A sign of a path, an identifier, a version, a call or markup. These belong to no language."""
_LATIN = regex(r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]+")
_SCRIPTS: Mapping[str, str] = {
    "han": "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff",
    "kana": "\u3040-\u30fa\u30fc-\u30ff",
    "hangul": "\uac00-\ud7af\u1100-\u11ff",
    "cyrillic": "\u0400-\u052f",
    "arabic": "\u0600-\u06ff\u0750-\u077f",
    "el": "\u0370-\u03ff\u1f00-\u1fff",
    "he": "\u0590-\u05ff",
    "hi": "\u0900-\u097f",
    "bn": "\u0980-\u09ff",
    "ta": "\u0b80-\u0bff",
    "th": "\u0e00-\u0e7f",
}
"""Script → its letters."""
_SCRIPT = regex("|".join(f"(?P<{name}>[{letters}]+)" for name, letters in _SCRIPTS.items()))
_WEIGHT: Mapping[str, float] = {"han": 3.0, "kana": 2.0, "hangul": 2.5}
"""Script → how many Latin letters one of its letters counts for; 1 for other scripts."""
_KANA_SHARE = 0.1
"""At least this share of kana makes a text with Han letters Japanese."""


def language_of(text: str) -> str | None:
    """Return the code of a text's language, a key of `NAMES`; None if it is unknown."""
    prose = _RUN.sub(lambda run: " " if _NAME.search(run[0]) else run[0], _NO_PROSE.sub(" ", text))
    words = [word.lower() for word in _LATIN.findall(prose)]
    if prose.isascii():
        return _latin(words)
    letters = dict.fromkeys(_SCRIPTS, 0)
    for found in _SCRIPT.finditer(prose):
        letters[str(found.lastgroup)] += len(found[0])
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
            if not set("іїєґІЇЄҐ").isdisjoint(prose):
                return "uk"
            return None if set("ыэёЫЭЁ").isdisjoint(prose) else "ru"
        case "arabic":
            return "ar" if set("پچژگ").isdisjoint(prose) else "fa"
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

"""What the gate judges a summary (story) by: its request, its source, and the rest of the prompt.

Each part is computed once for all rules.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from compact.messages.cached import cached_property
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.messages import visible_texts
from compact.messages.tokens import TokenCounter
from compact.patterns import regex
from compact.secrets.redaction import secrets_of
from compact.text import anchors
from compact.text.anchors import searched
from compact.text.languages import CHARACTERS, FUNCTION_WORDS
from compact.text.speakers import speaker_of

CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""Chinese, Japanese and Korean characters; each counts as a word."""
STEM = 5
"""Two words that share this many first letters count as one, so inflected forms match."""
SHORTEST_WORD = 3
"""Fewest letters of a word that counts."""
SAMPLE, SAMPLE_CHARS = 60, 400
"""A sample of a speaker's words: `SAMPLE` messages, evenly chosen, and `SAMPLE_CHARS` of each."""
_WORD = regex(rf"[{CJK}]|[^\W_{CJK}]+")
_FUNCTION_WORDS = CHARACTERS.union(*FUNCTION_WORDS.values())
_PROPER = regex(r"(?<=[^\W\d_A-ZÀ-Þ] |[,;] )[A-ZÀ-Þ][\w-]{2,40}")
"""A capitalized word inside a sentence."""
_PLAIN = regex(r"(?<![\w./-])[^\W\d_A-ZÀ-Þ]{3,40}(?![\w/-])")
"""A word in lower case. The same word with a capital letter is then not taken for a name."""
_AMOUNT = regex(r"(?<![\w.])\d[\d.,:]{0,20}\d")
_ROUND = regex(r"\d{1,2}|(?:19|20)\d\d|\d{1,2}[:.]\d\d")
"""Numbers that say little: small ones, days, years, times of day."""
_SENTENCE_END = regex(r"(?<=[.!?])\s+(?=[^\W\d_])|(?<=[。！？])|\n+")

_LOOKS_LIKE = str.maketrans(
    "АВЕКМНОРСТХУІЈЅаеорсхуіјѕһԁӏΑΒΕΖΗΙΚΜΝΟΡΤΥΧορνι\u2223\u2758\u01c0",  # noqa: RUF001
    "ABEKMHOPCTXYIJSaeopcxyijshdlABEZHIKMNOPTYXopvi|||",
)
"""Letters of other scripts → the Latin letters that look the same."""
_UNSEEN = frozenset(("Cf", "Mn", "Me"))
"""Categories of invisible or combining characters: joiners, directions, accents, variants."""
_BLANKS = regex(r"[^\S\n]+")


class RuleResult(NamedTuple):
    """The result of one rule."""

    passed: bool
    detail: str
    """What was measured."""
    share: float | None = None


def stems(text: str) -> Iterator[str]:
    """Yield the stems of a text's informative words: their first `STEM` letters in lower case."""
    for word in _WORD.findall(text.lower()):
        is_short = len(word) < SHORTEST_WORD and word.isascii() and not word.isdigit()
        if word not in _FUNCTION_WORDS and not is_short:
            yield word[:STEM]


def sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text that are not empty."""
    return [each for each in map(str.strip, _SENTENCE_END.split(text)) if each]


def names_in(text: str) -> Counter[str]:
    """Return the names in a text, in lower case, and how often each occurs: code, people, places,
    amounts. Of a very long text only both ends are read.
    """
    read = searched(text)
    found = Counter({each.text.lower(): n for each, n in anchors.find(read).items()})
    found.update(each.lower() for each in _PROPER.findall(read))
    found.update(each for each in _AMOUNT.findall(read) if not _ROUND.fullmatch(each))
    return found


@dataclass(frozen=True)
class SummarySource:
    """A summary, and what it is judged by."""

    story: Summary
    request: SummaryRequest
    counter: TokenCounter
    source_tokens: int
    extracted: Summary | None = None
    """The extracted summary that would replace this one."""

    @cached_property
    def plain(self) -> str:
        """The summary's lines as a reader sees them."""
        return plain_lines(self.story.text)

    @cached_property
    def source(self) -> list[str]:
        """The visible texts of the messages."""
        return list(visible_texts(self.request.messages))

    @cached_property
    def told(self) -> list[str]:
        """The messages' words and tool calls without tool output; all texts if there are none."""
        said = [
            text
            for message in self.request.messages
            for text in (message.text, *(call.arguments for call in message.tool_calls))
        ]
        return said if any(said) else self.source

    @cached_property
    def beside(self) -> list[str]:
        """Everything else from the conversation that the model was shown."""
        request = self.request
        texts = (request.record, request.guidance, *request.goals, *request.open_tasks)
        return [*visible_texts(request.kept), *request.answers.values(), *filter(None, texts)]

    @cached_property
    def secrets(self) -> dict[str, str]:
        """The secrets in everything that the model was shown, and their kinds."""
        return secrets_of((*self.source, *self.beside))

    @cached_property
    def said(self) -> str:
        """Everything that the model was shown, in lower case."""
        return "\n".join((*self.source, *self.beside)).lower()

    @cached_property
    def words(self) -> Counter[str]:
        """Stem → in how many lines of all that the model was shown it occurs."""
        found: Counter[str] = Counter()
        for line in self.said.split("\n"):
            found.update(set(stems(line)))
        return found

    @cached_property
    def weight(self) -> Callable[[str], float]:
        """How informative a stem is: more if fewer lines hold it."""
        lines = 1 + sum(1 for line in self.said.split("\n") if line.strip())
        return lambda stem: math.log(lines / (self.words.get(stem, 0) + 0.5)) + math.log(2)

    @cached_property
    def names(self) -> dict[str, float]:
        """Name that the reader does not see elsewhere → its weight, by how often it occurs."""
        found: Counter[str] = Counter()
        for text in self.told:
            found.update(names_in(text))
        shown = "\n".join((self.request.record, *visible_texts(self.request.kept))).lower()
        plain = set(_PLAIN.findall("\n".join(self.source)))
        return {
            name: math.log1p(n)
            for name, n in found.items()
            if name not in shown and name not in plain
        }

    @cached_property
    def samples(self) -> tuple[str, str]:
        """A sample of what the user said, and one of what the assistant and checkpoints said."""
        speakers = [(speaker_of(each), each.text) for each in self.request.messages]
        persons = [text for speaker, text in speakers if speaker == "person"]
        others = [
            text for speaker, text in speakers if speaker in ("assistant", "checkpoint") and text
        ]
        return _sample(persons), _sample(others)


def plain_lines(text: str) -> str:
    """Return a text's lines as a reader sees them, for the rules of form: uniform line ends, no
    invisible characters, and Latin letters instead of those that look the same.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text)
        text = "".join(x for x in text if unicodedata.category(x) not in _UNSEEN)
        text = text.translate(_LOOKS_LIKE)
    lines = html.unescape(text).splitlines()
    return "\n".join(_BLANKS.sub(" ", line).strip() for line in lines)


def _sample(texts: list[str]) -> str:
    step = max(1, len(texts) // SAMPLE)
    return "\n".join(text[:SAMPLE_CHARS] for text in texts[::step][:SAMPLE])


def covered(text: str, names: Iterable[str]) -> set[str]:
    """Return the names that occur in the text as whole words."""
    lowered = text.lower()
    found = {each for each in names if each in lowered}
    words = set(re.findall(r"\w+", lowered)) | set(names_in(text))
    return {each for each in found if each in words or not each.isalnum()}

"""What a summary is judged by: its request, what its source says, and who said it.

Read once and kept, so that each rule of the gate may ask for what it needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from compact.compression.extraction.notes import note_call, note_result
from compact.core.anchors import Ledger, Use, strings_of
from compact.core.checkpoints import Summary, SummaryRequest, summary_of
from compact.core.languages import FUNCTION_WORDS
from compact.core.messages import Message, visible_texts
from compact.core.redaction import Secret, redact, secrets_of
from compact.core.tokens import TokenCounter
from compact.core.voices import person_text, voice_of

SMALLEST = 32
"""Tokens up to which a summary may be as large as its source: there is no saying it shorter."""
MOST_ANCHORS = 60
"""Names that a summary is asked for, at most; they are its source's key entities."""
SAMPLE, SAMPLE_CHARS = 60, 400
"""Of so many messages of a voice, evenly chosen, so many characters are its sample."""
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_STEM = 5
"""Letters by which two forms of a word are the same."""
_ENDS = frozenset(".!?…。！？；;:)]}\"'`»”*_")
_PERSON = re.compile(r"\b(?:the )?(?:user|person|client)'?s?\b", re.IGNORECASE)
_FORM = frozenset(("must", "always", "never", "only", "shall", "please", "henceforth", "assistant"))
_WORD = re.compile(r"[\u3040-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u9fff\uac00-\ud7af]+")

Asked = list[tuple[str, Use]]
"""Anchors, likeliest first."""


class Finding(NamedTuple):
    """What one rule found."""

    passed: bool
    detail: str
    """What was measured, and what was done."""
    repaired: Summary | None = None
    """The summary without what broke the rule; None where it was left as it is."""
    share: float | None = None
    rejects: bool = False
    """Whether the summary may not stand in."""
    is_cut: bool = False
    """Whether lines were left out of its prose, so that what remains must be judged anew."""


def rejection(detail: str, share: float | None = None) -> Finding:
    """The summary may not stand in for its source."""
    return Finding(False, detail, share=share, rejects=True)


def words_of(text: str) -> frozenset[str]:
    """The words of a text in lower case; of Chinese and its neighbours the letters."""
    return frozenset(_WORD.findall(text.lower()))


def telling(text: str) -> frozenset[str]:
    """The stems of a text's words that are neither function words nor the form of an order."""
    words = words_of(_PERSON.sub(" ", text)) - FUNCTION_WORDS["en"] - _FORM
    return frozenset(word[:_STEM] for word in words)


def is_ended(line: str) -> bool:
    """Whether a line ends as a sentence does, so that what follows is another one."""
    return line.rstrip()[-1:] in _ENDS


def with_text(summary: Summary, text: str) -> Summary:
    """The same summary with another text."""
    return summary.model_copy(update={"text": text})


def with_line(text: str, section: str, line: str) -> str:
    """The text with a line at the end of a section, which is made where there is none."""
    for heading in HEADING.finditer(text):
        if heading[1] == section:
            following = HEADING.search(text, heading.end())
            end = following.start() if following else len(text)
            body, rest = text[:end].rstrip(), text[end:]
            return f"{body}\n{line}" + (f"\n\n{rest}" if rest else "")
    return f"{text.rstrip()}\n\n## {section}\n{line}"


@dataclass(frozen=True)
class Matter:
    """What a summary is judged by."""

    request: SummaryRequest
    counter: TokenCounter
    source_tokens: int
    prompt: str
    written: str = ""
    """The text of the summary as its maker wrote it."""

    @cached_property
    def source(self) -> list[str]:
        """Every text of the messages, one for each part."""
        return list(visible_texts(self.request.messages))

    @cached_property
    def spoken(self) -> list[str]:
        """What was said in the messages, without what tools were given and put out."""
        voices = ("person", "assistant")
        return [m.text for m in self.request.messages if m.text and voice_of(m) in voices]

    @cached_property
    def beside(self) -> list[str]:
        """What else the summary's maker knew."""
        request = self.request
        return [
            *(request.previous.text for _ in (1,) if request.previous),
            *visible_texts(request.kept),
            *visible_texts(request.shortened),
            *request.answers.values(),
            *request.goals,
            *request.open_tasks,
            request.guidance,
            self.prompt,
        ]

    @cached_property
    def marks(self) -> list[str]:
        """Ids of messages and names of tools, which may be told, too."""
        rows = (*self.request.messages, *self.request.kept, *self.request.shortened)
        names = {call.name for message in rows for call in message.tool_calls}
        return [*(message.id for message in rows), *names]

    @cached_property
    def strings(self) -> list[str]:
        """The strings in the arguments of calls, without the escapes of JSON."""
        rows = (*self.request.messages, *self.request.shortened, *self.request.kept)
        calls = (call for message in rows for call in message.tool_calls)
        return [value for call in calls for _, value in strings_of(call.arguments)]

    @cached_property
    def secrets(self) -> dict[str, str]:
        """The secrets in the source, and their kinds."""
        return secrets_of(self.source)

    @cached_property
    def ledger(self) -> Ledger:
        """The anchors of the source, weighed by who used them, as the notes do."""
        ledger = Ledger()
        if self.request.previous:
            ledger.note(self.request.previous.text, "assistant", 0)
        for position, message in enumerate(self.request.messages, start=1):
            _note(ledger, message, position)
        return ledger

    def likeliest(self, most: int) -> Asked:
        """The anchors that are needed likeliest, at most so many, without secrets."""
        position = len(self.request.messages) + 1
        rows = [(text, use) for text, use, _ in self.ledger.ranked(position, 2 * most)]
        clean = (row for row in rows if not self.redacted(row[0])[1])
        return list(islice(clean, most))

    def unnamed(self, asked: Asked, text: str) -> Asked:
        """The anchors that stand neither in the text nor in what is kept."""
        missing = [row for row in asked if row[0] not in text]
        for kept in visible_texts(self.request.kept) if missing else ():
            missing = [row for row in missing if row[0] not in kept]
        return missing

    @cached_property
    def commanding(self) -> list[str]:
        """The words of those who may give orders: persons, the application, and what was judged
        before.
        """
        rows = (*self.request.messages, *self.request.kept)
        words = [_own_words(message) for message in rows]
        more = (*self.request.goals, *self.request.open_tasks, self.request.guidance)
        before = self.request.previous.text if self.request.previous else ""
        return [text for text in (*words, *self.request.answers.values(), *more, before) if text]

    @cached_property
    def samples(self) -> tuple[str, str]:
        """A sample of what persons said, and one of what was said to them."""
        persons, others = [], []
        for message in self.request.messages:
            match voice_of(message):
                case "person":
                    persons.append(message)
                case "assistant" | "checkpoint" if message.text.strip():
                    others.append(message)
        before = [self.request.previous.text[:SAMPLE_CHARS]] if self.request.previous else []
        spoken = "\n".join(_sampled(map(person_text, _chosen(persons))))
        texts = _sampled(summary_of(m.text) for m in _chosen(others))
        return spoken, "\n".join((*texts, *before))

    @property
    def most(self) -> int:
        """Tokens from which a summary would be larger than its source."""
        return max(SMALLEST, self.source_tokens)

    def fits(self, text: str) -> bool:
        """Whether a repaired text is within the cap, and no larger than its source."""
        return self.counter.text(text) <= min(self.request.max_tokens, self.most)

    def redacted(self, text: str) -> tuple[str, tuple[Secret, ...]]:
        """The text without secrets, those that are known from the source among them."""
        return redact(text, self.secrets)


def _note(ledger: Ledger, message: Message, position: int) -> None:
    match voice_of(message):
        case "person":
            ledger.note(person_text(message), "person", position)
        case "checkpoint":
            ledger.note(summary_of(message.text), "assistant", position)
        case "assistant":
            ledger.note(message.text, "assistant", position)
        case "tool" | "observation" if message.text:
            ledger.note(message.text, "result", position)
    for call in message.tool_calls:
        note_call(ledger, call, position)
    for result in message.tool_results:
        note_result(ledger, result, position)


def _own_words(message: Message) -> str:
    match voice_of(message):
        case "person":
            return person_text(message)
        case "system":
            return message.text
        case "checkpoint":
            return summary_of(message.text)
    return ""


def _chosen(messages: list[Message]) -> list[Message]:
    return messages[:: max(1, len(messages) // SAMPLE)]


def _sampled(texts: Iterable[str]) -> Iterator[str]:
    return (text[:SAMPLE_CHARS] for text in texts)

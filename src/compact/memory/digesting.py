"""Digests: texts that stand for a whole old conversation. Start at `Digester.written`.

A digest is made like a checkpoint: a record by code, a story by a model or extracted, and lists.
The same gate judges it. Excerpts of the messages fill the rest of its room, so that it has the size
that its level promises. It is always made from the messages, never from another digest. It contains
no secrets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nsmallest

from compact.engine.checkpoint_text import Composer
from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.engine.chronology.notes import Notes
from compact.engine.excerpts import HEADING, Excerpts
from compact.engine.gate.rules import judged_or_extracted
from compact.engine.summarize import asked
from compact.engine.survival import Facts, Kept
from compact.messages.checkpoints import SummaryRequest, Verdict
from compact.messages.codec import instant
from compact.messages.message_redaction import redact_messages
from compact.messages.messages import SYSTEM_ROLES, Message
from compact.messages.protocols import Emit, Summarizer
from compact.messages.tokens import TokenCounter
from compact.secrets.redaction import Known
from compact.text.digests import ConversationMetadata, KeyPoint, Written
from compact.text.facts import weighed
from compact.text.outline import sections_of
from compact.text.speakers import own_words_of, speaker_of
from compact.text.terms import STOP_WORDS

PART_TOKENS = 250_000
"""How many tokens to read at once. A longer conversation gets a digest of several parts, so that
memory use stays bounded."""
MOST_TOKENS = 1_000_000
"""The longest digest, in tokens. So a conversation of a million messages gets a lower ratio."""
COMPOSED_SHARE = 0.7
"""The share of a digest's room for the record, the story and the lists."""
LEAST_COMPOSED = 120
"""The least room for a record, in tokens. A smaller digest has only excerpts."""
JOINT = "\n\n"
"""Separates the parts of a digest."""
MOST_LISTED, MOST_WORDS = 12, 4_000
"""The most topics, and the most names, in the metadata; and the most words to count for topics."""
SHORTEST_TOPIC = 4
"""The shortest topic, in characters."""


@dataclass(frozen=True, slots=True)
class DigestPart:
    """A part of a conversation, with its secrets removed."""

    messages: list[Message]
    first: int
    tokens: int
    """The tokens of the original messages, before their secrets were replaced."""
    notes: Notes


@dataclass(slots=True)
class _Draft:
    texts: list[str] = field(default_factory=list)
    kept: Kept = field(default_factory=Kept)
    made_by: dict[str, None] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)
    tokens: int = 0


@dataclass(frozen=True)
class Digester:
    """Writes digests."""

    counter: TokenCounter
    summarizer: Summarizer
    emit: Emit
    mode: str = "assistant"
    part_tokens: int = PART_TOKENS
    most_tokens: int = MOST_TOKENS

    async def written(
        self, messages: Iterable[Message], ratio: float, overview: Overview | None = None
    ) -> Written:
        """Return a digest that has about `ratio` of the messages' tokens (see `digest_tokens`).

        Messages are read a second time after their `overview` if they are more than one part, or
        have secrets. Pictures and reasoning have tokens but no text, so such a digest may be
        shorter.
        """
        overview = overview or Overview(self.counter).read(messages)
        ratio = min(ratio, self.most_tokens / max(1, overview.digest_tokens))
        draft, whole = _Draft(), overview.whole(self.part_tokens)
        for part in [whole] if whole else self._parts(messages):
            await self._tell(draft, part, int(part.tokens * ratio))
        text = JOINT.join(filter(None, draft.texts))
        return Written(
            text=text,
            source_tokens=draft.tokens,
            tokens=self.counter.composed(text),
            kept=draft.kept.shares,
            made_by=", ".join(draft.made_by) or "extractive",
            verdicts=tuple(draft.verdicts),
        )

    def _parts(self, messages: Iterable[Message]) -> Iterator[DigestPart]:
        known, rows, first, size = Known(), list[Message](), 0, 0
        for message in messages:
            rows.append(message)
            size += digest_tokens(message, self.counter)
            if size >= self.part_tokens:
                yield _part(rows, known, first, size)
                first, rows, size = first + len(rows), [], 0
        if rows:
            yield _part(rows, known, first, size)

    async def _tell(self, draft: _Draft, part: DigestPart, room: int) -> None:
        notes = part.notes
        joint = self.counter.text(JOINT)
        room, text = room - joint, ""
        if room >= LEAST_COMPOSED:
            text = await self._composed(draft, part, int(room * COMPOSED_SHARE))
        left = room - joint - self.counter.composed(text)
        facts = Facts().read(part.messages)
        excerpts = Excerpts(part.messages, self.counter, left)
        more = excerpts.telling(text, names=facts.entities(notes), since=part.first)
        whole = JOINT.join(filter(None, (text, more)))
        draft.texts.append(whole)
        draft.kept += facts.kept_in(whole, notes)
        draft.tokens += part.tokens

    async def _composed(self, draft: _Draft, part: DigestPart, room: int) -> str:
        composer = Composer(part.notes, self.counter, mode=self.mode)
        record, cap = composer.planned(room)
        request = SummaryRequest.model_construct(
            messages=part.messages,
            max_tokens=max(1, cap),
            level="merged",
            mode=self.mode,
            record=record,
            notes=part.notes,
        )
        answer = await asked(self.summarizer, request, self.emit)
        found = judged_or_extracted(
            answer,
            request,
            self.counter,
            source_tokens=part.tokens,
            secrets=Known(),
            emit=self.emit,
        )
        by_code = found.summary.made_by == ExtractiveSummarizer.name
        story = None if by_code else found.summary.text
        draft.made_by[found.summary.made_by] = None
        draft.verdicts += found.verdicts
        return composer.written(story, room)


def _part(rows: Sequence[Message], known: Known, first: int, tokens: int) -> DigestPart:
    messages = redact_messages(rows, known)
    return DigestPart(messages, first, tokens, Notes().read(messages))


def digest_tokens(message: Message, counter: TokenCounter) -> int:
    """Return the tokens of a message that count for a digest. A system prompt has 0."""
    return 0 if message.role in SYSTEM_ROLES else counter.message(message)


def key_points(text: str) -> Iterator[KeyPoint]:
    """Yield the sentences of a digest, in order. Of excerpts, each line is one."""
    composed, _, rest = text.partition(HEADING)
    for section, body in sections_of(composed):
        title = section or ""
        yield from (KeyPoint(title, line.strip().removeprefix("- ")) for line in _lines(body))
    for line in _lines(rest):
        yield KeyPoint("Excerpts", line)


def _lines(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if line.strip())


# --- what is known of a conversation without reading it -------------------------------------------


class Overview:
    """Collects facts about a conversation, message by message, in bounded memory."""

    def __init__(self, counter: TokenCounter) -> None:
        self.tokens = self.digest_tokens = self.messages = 0
        self._counter = counter
        self._roles: Counter[str] = Counter()
        self._words: Counter[str] = Counter()
        self._notes = Notes()
        self._times: tuple[datetime, datetime] | None = None
        self._rows: list[Message] | None = []
        """The messages, while they are few and have no secrets; else None."""

    def read(self, messages: Iterable[Message]) -> Overview:
        """Read the next messages."""
        known = Known()
        for message in messages:
            self.messages += 1
            self.tokens += self._counter.message(message)
            self.digest_tokens += digest_tokens(message, self._counter)
            self._roles[message.role] += 1
            at = message.timestamp
            first, last = self._times or (at, at)
            self._times = min(first, at, key=instant), max(last, at, key=instant)
            (redacted,) = redact_messages([message], known)
            self._notes.read([redacted])
            if speaker_of(redacted) == "person":
                weights = weighed(own_words_of(redacted), "person")
                # sorted, because the order of sets differs between processes
                self._words.update(sorted(weights.terms))
                self._words.update(sorted(weights.named))
                if len(self._words) > 2 * MOST_WORDS:
                    self._words = Counter(dict(self._words.most_common(MOST_WORDS)))
            self._keep(redacted, known)
        return self

    def _keep(self, message: Message, known: Known) -> None:
        if known or self.digest_tokens >= PART_TOKENS:
            self._rows = None
        elif self._rows is not None:
            self._rows.append(message)

    def whole(self, most_tokens: int = PART_TOKENS) -> DigestPart | None:
        """Return all messages as one part. None if they have too many tokens, or secrets: then a
        secret in a later message may have to be removed from an earlier one.
        """
        if not self._rows or self.digest_tokens >= most_tokens:
            return None
        return DigestPart(self._rows, 0, self.digest_tokens, self._notes)

    def metadata(self, session_id: str, title: str | None) -> ConversationMetadata:
        """Return the collected facts."""
        begun, ended = self._times or (None, None)
        names = [text for text, *_ in self._notes.ranked()[:MOST_LISTED]]
        words = {word: count for word, count in self._words.items() if _is_topic(word)}
        return ConversationMetadata(
            id=session_id,
            title=title,
            begun=begun,
            ended=ended,
            messages=self.messages,
            roles=dict(self._roles),
            tokens=self.tokens,
            topics=tuple(nsmallest(MOST_LISTED, words, key=lambda word: -words[word])),
            entities=tuple(names),
        )


def _is_topic(word: str) -> bool:
    is_long = len(word) >= SHORTEST_TOPIC or not word.isascii()
    return word.isalpha() and is_long and word not in STOP_WORDS

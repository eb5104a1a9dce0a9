"""`CompressionEngine`: makes a conversation's digest for its age, and finds the original again.

    engine = CompressionEngine("chat.db")
    small = engine.compress(conversation, CompressionLevel.SUMMARY)
    print(small.ratio, small.kept.decisions, small.text)
    conversation = engine.decompress(small)

A digest is always made from the conversation itself, never from another digest. Without a model it
is extracted. With a model, the model tells the story, and the gate judges it like a checkpoint's.

Digests: texts that stand for a whole old conversation. Start at `Digester.written`.

A digest is made like a checkpoint: a record by code, a story by a model or extracted, and lists.
The same gate judges it. Excerpts of the messages fill the rest of its room, so that it has the size
that its level promises. It is always made from the messages, never from another digest. It contains
no secrets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from compact import wiring
from compact.config import CompactConfig
from compact.engine.checkpoint_text import Composer
from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.engine.chronology.notes import Notes
from compact.engine.excerpts import HEADING, Excerpts
from compact.engine.gate.rules import judged_or_extracted
from compact.engine.summarize import asked
from compact.engine.survival import Facts, Kept
from compact.errors import InvalidArgument, NotFound
from compact.memory.retention import Ages, Importance, RetentionPolicy, RetentionTally, days_between
from compact.messages import clock_and_ids
from compact.messages.calls import got
from compact.messages.checkpoints import SummaryRequest, Verdict
from compact.messages.codec import instant
from compact.messages.events import Event
from compact.messages.message_redaction import redact_messages
from compact.messages.messages import SYSTEM_ROLES, Message
from compact.messages.protocols import ChatModel, Emit, SessionStore, Summarizer
from compact.messages.sessions import Session
from compact.messages.tokens import TokenCounter
from compact.secrets.redaction import Known
from compact.session import running
from compact.text.conversation import Conversation
from compact.text.digests import (
    CompressedConversation,
    CompressionLevel,
    ConversationMetadata,
    ConversationSummary,
    KeyPoint,
    Written,
)
from compact.text.facts import weighed
from compact.text.outline import sections_of
from compact.text.speakers import own_words_of, speaker_of
from compact.text.terms import STOP_WORDS

# --- digesting ------------------------------------------------------------------------------------

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


# --- compression engine ---------------------------------------------------------------------------

RATIOS: Mapping[CompressionLevel, float] = {
    CompressionLevel.KEY_POINTS: 0.65,
    CompressionLevel.SUMMARY: 0.35,
    CompressionLevel.ARCHIVED: 0.35,
}
"""The share of the conversation's tokens that a digest of each level should have. It is the middle
of the range that the level promises."""
TOKENIZER = "o200k"
"""The tokenizer if the settings name none."""
PAGE = 256
"""How many messages to read from the store at once."""


def retention_of(settings: CompactConfig) -> RetentionPolicy:
    """Return the retention policy that the settings describe."""
    return RetentionPolicy(
        keep_score=settings.retain_score,
        keep_days=settings.retain_days,
        fresh_days=settings.age_full_days,
    )


def ages_of(settings: CompactConfig) -> Ages:
    """Return the last day of each level, from the settings."""
    return Ages(
        full=settings.age_full_days,
        key_points=settings.age_key_points_days,
        summary=settings.age_summary_days,
        archived=settings.age_archived_days,
    )


class Original(NamedTuple):
    """A conversation whose messages are read in pages, so that they are not all in memory."""

    id: str
    title: str | None
    messages: Iterable[Message]
    """Can be iterated more than once."""


class CompressionEngine:
    """Writes digests of conversations for their age. Original messages are looked up in `store`.

    Raises:
        UnknownModel: the settings name an unknown summarizer or tokenizer.
        StoreFailed, StoreDamaged: the store cannot be opened.
    """

    def __init__(
        self,
        store: SessionStore | str | Path | None = None,
        *,
        settings: CompactConfig | None = None,
        summarizer: Summarizer | ChatModel | str | Sequence[str | ChatModel] | None = None,
        emit: Callable[[Event], None] | None = None,
    ) -> None:
        self._settings = settings or CompactConfig()
        self._ages = ages_of(self._settings)
        self._owns_store = isinstance(store, str | Path)
        self._store = None if store is None else wiring.session_store(store)
        self._counter = wiring.token_counter(
            "chat_completions",
            tokenizer=self._settings.known_tokenizer() or TOKENIZER,
        )
        chosen = summarizer or self._settings.summarizers()
        tell = emit or (lambda _: None)
        self._digester = Digester(
            self._counter,
            wiring.summarizer(
                chosen,
                self._counter,
                book=self._settings.book(),
                emit=tell,
                policy=self._settings.policy(),
            ),
            tell,
            self._settings.mode,
        )

    def close(self) -> None:
        """Close the store, if this object opened it."""
        if self._owns_store and self._store is not None:
            self._store.close()

    @property
    def ages(self) -> Ages:
        """The last day of each level."""
        return self._ages

    @property
    def waits(self) -> bool:
        """Whether writing a digest may wait for a model."""
        return self._digester.summarizer.waits

    @property
    def fingerprint(self) -> str:
        """Everything that a digest depends on, except the messages."""
        ratios = "/".join(f"{ratio:g}" for ratio in RATIOS.values())
        name = self._counter.estimator.name
        return f"1 {self._digester.summarizer.name} {name} {self._digester.mode} {ratios}"

    def tokens_of(self, messages: Iterable[Message]) -> int:
        """Return how many tokens the messages have. System prompts are not counted."""
        tokens = 0
        for message in messages:
            if not isinstance(message, Message):
                raise InvalidArgument("messages", f"messages must be Messages, got {got(message)}")
            tokens += digest_tokens(message, self._counter)
        return tokens

    # --- by age -----------------------------------------------------------------------------------

    def get_compression_level(self, age_days: float) -> CompressionLevel:
        """Return the level for an age, in days since the last activity."""
        return self.ages.level(age_days)

    def compress_by_age(
        self, conversation: Conversation, *, now: datetime | None = None
    ) -> CompressedConversation:
        """Compress the conversation to the level for its age, counted from its latest message.

        Raises:
            BlockingCallInLoop: a model writes, and this thread runs an event loop.
        """
        times = [message.timestamp for message in conversation.messages]
        last = max(times, key=instant, default=conversation.created_at)
        age = days_between(last, now or clock_and_ids.now())
        return self.compress(conversation, self.get_compression_level(age))

    # --- one level --------------------------------------------------------------------------------

    def compress(
        self, conversation: Conversation, level: CompressionLevel
    ) -> CompressedConversation:
        """Compress the conversation to a level.

        Raises:
            BlockingCallInLoop: a model writes, and this thread runs an event loop.
        """
        work = self.acompress(conversation, level)
        return running.run(work, waits=self.waits, instead="acompress()")

    async def acompress(
        self, conversation: Conversation, level: CompressionLevel
    ) -> CompressedConversation:
        """`compress` for callers that await it."""
        made = await self.awritten(
            Original(conversation.id, conversation.title, conversation.messages), level
        )
        return made.model_copy(update={"original": conversation})

    async def awritten(self, original: Original, level: CompressionLevel) -> CompressedConversation:
        """Like `acompress`, for a conversation that is read in pages, in bounded memory."""
        overview = Overview(self._counter).read(original.messages)
        about = overview.metadata(original.id, original.title)
        size = overview.digest_tokens
        if (ratio := RATIOS.get(level)) is None:
            full = level is CompressionLevel.FULL
            written = Written(text="", source_tokens=size, tokens=size if full else 0)
        else:
            written = await self._digester.written(original.messages, ratio, overview)
        facts: dict[str, Any] = dict(written)
        return CompressedConversation(level=level, about=about, **facts)

    def extract_key_points(self, conversation: Conversation) -> tuple[KeyPoint, ...]:
        """Return the sentences of the conversation's KEY_POINTS digest, in order.

        Raises:
            BlockingCallInLoop: a model writes, and this thread runs an event loop.
        """
        return tuple(key_points(self.compress(conversation, CompressionLevel.KEY_POINTS).text))

    def generate_summary(
        self, conversation: Conversation, target_ratio: float = 0.4
    ) -> ConversationSummary:
        """Summarize the conversation to about `target_ratio` of its tokens. The summary's `ratio`
        is the share that it really has.

        Raises:
            InvalidArgument: the share is not above 0 and at most 1.
            BlockingCallInLoop: a model writes, and this thread runs an event loop.
        """
        if not 0 < target_ratio <= 1:
            reason = f"target_ratio must be above 0 and at most 1, got {target_ratio:g}"
            raise InvalidArgument("target_ratio", reason)
        work = self._digester.written(conversation.messages, target_ratio)
        written = running.run(work, waits=self.waits, instead="acompress()")
        return ConversationSummary(
            conversation_id=conversation.id, target_ratio=target_ratio, **dict(written)
        )

    def extract_metadata_only(self, conversation: Conversation) -> ConversationMetadata:
        """Return facts about the conversation: id, title, dates, counts, topics, key entities."""
        overview = Overview(self._counter).read(conversation.messages)
        return overview.metadata(conversation.id, conversation.title)

    # --- and back ---------------------------------------------------------------------------------

    def decompress(self, compressed: CompressedConversation) -> Conversation:
        """Return the original conversation, from memory or from the store.

        Raises:
            NotFound: the messages are in neither; the error says where they are.
        """
        if compressed.original is not None:
            return compressed.original
        where = "the archive" if compressed.level.is_archived else "the store it was kept in"
        if self._store is None:
            reason = f"the originals of {compressed.id!r} are in {where}"
            raise NotFound(f"{reason}: CompressionEngine(store=…) looks them up there")
        wanted = compressed.about.messages
        session = self._store.session(compressed.id)
        messages = tuple(islice(original_of(self._store, session).messages, wanted))
        if len(messages) < wanted:
            reason = (
                f"{len(messages):,} of {wanted:,} messages of {compressed.id!r} are in the store"
            )
            raise NotFound(f"{reason}; the originals are in the archive")
        facts: dict[str, Any] = {"created_at": session.created_at, "metadata": session.metadata}
        return Conversation(id=session.id, title=session.title, messages=messages, **facts)


def importance_of(original: Original, session: Session, retention: RetentionPolicy) -> Importance:
    """Return the importance of a session."""
    tally = RetentionTally().read(original.messages)
    return retention.importance(tally, session.metadata)


def fingerprint_of(engine: CompressionEngine, chain: bytes) -> str:
    """Return what a session's digest depends on: its messages and the settings."""
    return f"{engine.fingerprint} {chain.hex()}"


def digest_of(
    engine: CompressionEngine, original: Original, level: CompressionLevel
) -> CompressedConversation:
    """Write the digest of a session.

    Raises:
        BlockingCallInLoop: a model writes, and this thread runs an event loop.
    """
    work = engine.awritten(original, level)
    return running.run(work, waits=engine.waits, instead="it off the event loop")


class _Pages:
    """The messages of a branch, read page by page. If there is only one page, it is kept."""

    def __init__(self, store: SessionStore, branch_id: str, length: int) -> None:
        self._store, self._branch_id, self._length = store, branch_id, length
        self._only: list[Message] | None = None

    def __iter__(self) -> Iterator[Message]:
        if self._length <= PAGE:
            self._only = self._page(0) if self._only is None else self._only
            yield from self._only
            return
        for start in range(0, self._length, PAGE):
            yield from self._page(start)

    def _page(self, start: int) -> list[Message]:
        stop = min(start + PAGE, self._length)
        return [entry.message for entry in self._store.read(self._branch_id, start, stop)]


def original_of(store: SessionStore, session: Session) -> Original:
    """Return a session's messages on its open branch, to be read in pages."""
    pages = _Pages(store, session.branch.id, session.branch.messages)
    return Original(session.id, session.title, pages)

"""`CompressionEngine`: makes a conversation's digest for its age, and finds the original again.

    engine = CompressionEngine("chat.db")
    small = engine.compress(conversation, CompressionLevel.SUMMARY)
    print(small.ratio, small.kept.decisions, small.text)
    conversation = engine.decompress(small)

A digest is always made from the conversation itself, never from another digest. Without a model it
is extracted. With a model, the model tells the story, and the gate judges it like a checkpoint's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from compact import wiring
from compact.config import CompactConfig
from compact.errors import InvalidArgument, NotFound
from compact.memory.digesting import Digester, Overview, digest_tokens, key_points
from compact.memory.retention import Ages, Importance, RetentionPolicy, RetentionTally, days_between
from compact.messages import clock_and_ids
from compact.messages.calls import got
from compact.messages.codec import instant
from compact.messages.events import Event
from compact.messages.messages import Message
from compact.messages.protocols import ChatModel, SessionStore, Summarizer
from compact.messages.sessions import Session
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

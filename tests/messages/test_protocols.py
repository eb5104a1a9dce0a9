"""The protocols under the names that people know (K-2)."""

from compact import EventBus, ExtractiveSummarizer, NoopEstimator, TiktokenEstimator, protocols
from compact.messages.messages import Message
from compact.messages.tokens import OPENAI_FRAMING, TokenCounter
from compact.telemetry.bus import ConsoleExporter


def test_the_public_protocols_are_these():
    """K-2: the list changes only on purpose."""
    assert protocols.__all__ == [
        "Abilities",
        "Ask",
        "BlobStore",
        "ChatModel",
        "CutsTexts",
        "Delta",
        "Embedder",
        "Event",
        "Exporter",
        "Limits",
        "Reply",
        "SessionStore",
        "StorageAdapter",
        "Summarizer",
        "Summary",
        "SummaryRequest",
        "TokenEstimator",
    ]


class Shelf:
    """A storage adapter of somebody's own."""

    def save_transcript(self, session_id: str, messages: list[Message]) -> str:
        return session_id

    def save_summary(self, session_id: str, step: int, summary: str) -> str:
        return session_id

    def save_event(self, session_id: str, event: protocols.Event) -> str:
        return session_id


def test_what_there_is_keeps_them():
    """K-2, K-3: and somebody's own class does, by its methods alone."""
    assert isinstance(TiktokenEstimator("gpt-4"), protocols.TokenEstimator)
    assert isinstance(NoopEstimator(), protocols.TokenEstimator)
    counter = TokenCounter(NoopEstimator(), OPENAI_FRAMING)
    assert isinstance(ExtractiveSummarizer(counter), protocols.Summarizer)
    assert isinstance(ConsoleExporter(), protocols.Exporter)
    assert isinstance(Shelf(), protocols.StorageAdapter)
    assert not isinstance(EventBus(), protocols.StorageAdapter)

"""The protocols that you may implement yourself, and the values that they exchange.
`compact.testing` has a conformance suite for each protocol.

    from compact.protocols import TokenEstimator
"""

from __future__ import annotations

from compact.messages.asking import Abilities, Ask, Limits
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.events import Event
from compact.messages.protocols import (
    BlobStore,
    ChatModel,
    CutsTexts,
    Embedder,
    Exporter,
    SessionStore,
    StorageAdapter,
    Summarizer,
    TokenEstimator,
)
from compact.messages.replies import Delta, Reply

__all__ = [
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

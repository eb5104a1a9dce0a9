"""Fit any conversation into any model's window and keep every word reachable.

    from compact import compress
    messages = compress(messages, max_tokens=8_000)

The names below are public. Each is loaded when it is first used, so importing compact costs
nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compact.config import CompactConfig as CompactConfig
    from compact.engine.chronology.extractive import ExtractiveSummarizer as ExtractiveSummarizer
    from compact.engine.plan import Plan as Plan
    from compact.errors import CannotFit as CannotFit
    from compact.errors import CompactError as CompactError
    from compact.errors import InvalidArgument as InvalidArgument
    from compact.exchange.migrating import migrate as migrate
    from compact.memory.archival_manager import ArchivalManager as ArchivalManager
    from compact.memory.compression_engine import CompressionEngine as CompressionEngine
    from compact.memory.memory_manager import MemoryManager as MemoryManager
    from compact.memory.retention import RetentionPolicy as RetentionPolicy
    from compact.messages.asking import Patience as Patience
    from compact.messages.budget import ContextBudget as ContextBudget
    from compact.messages.budget import ContextWindow as ContextWindow
    from compact.messages.checkpoints import Checkpoint as Checkpoint
    from compact.messages.context import ActiveContext as ActiveContext
    from compact.messages.given import mark_protected as mark_protected
    from compact.messages.goals import Goal as Goal
    from compact.messages.messages import Message as Message
    from compact.messages.messages import MessageMetadata as MessageMetadata
    from compact.messages.policy import CompactPolicy as CompactPolicy
    from compact.models.providers.tokenizers import NoopEstimator as NoopEstimator
    from compact.models.providers.tokenizers import TiktokenEstimator as TiktokenEstimator
    from compact.secrets.redactor import Redactor as Redactor
    from compact.session.compact_manager import CompactManager as CompactManager
    from compact.session.context_manager import ContextManager as ContextManager
    from compact.session.handover import handover as handover
    from compact.session.one_call import acompress as acompress
    from compact.session.one_call import aplan as aplan
    from compact.session.one_call import compress as compress
    from compact.session.one_call import plan as plan
    from compact.store.sqlite.store import SQLiteManager as SQLiteManager
    from compact.store.sqlite.vector_store import VectorStore as VectorStore
    from compact.telemetry.bus import EventBus as EventBus
    from compact.text.conversation import Conversation as Conversation
    from compact.text.digests import CompressionLevel as CompressionLevel
    from compact.text.prompts import PromptParts as PromptParts
    from compact.wiring import chat_model as chat_model
    from compact.wiring import embedder as embedder

_HOME = {
    "ActiveContext": "compact.messages.context",
    "ArchivalManager": "compact.memory.archival_manager",
    "CannotFit": "compact.errors",
    "Checkpoint": "compact.messages.checkpoints",
    "CompactConfig": "compact.config",
    "CompactError": "compact.errors",
    "CompactManager": "compact.session.compact_manager",
    "CompactPolicy": "compact.messages.policy",
    "CompressionEngine": "compact.memory.compression_engine",
    "CompressionLevel": "compact.text.digests",
    "ContextBudget": "compact.messages.budget",
    "ContextManager": "compact.session.context_manager",
    "ContextWindow": "compact.messages.budget",
    "Conversation": "compact.text.conversation",
    "EventBus": "compact.telemetry.bus",
    "ExtractiveSummarizer": "compact.engine.chronology.extractive",
    "Goal": "compact.messages.goals",
    "InvalidArgument": "compact.errors",
    "MemoryManager": "compact.memory.memory_manager",
    "Message": "compact.messages.messages",
    "MessageMetadata": "compact.messages.messages",
    "NoopEstimator": "compact.models.providers.tokenizers",
    "Patience": "compact.messages.asking",
    "Plan": "compact.engine.plan",
    "PromptParts": "compact.text.prompts",
    "Redactor": "compact.secrets.redactor",
    "RetentionPolicy": "compact.memory.retention",
    "SQLiteManager": "compact.store.sqlite.store",
    "TiktokenEstimator": "compact.models.providers.tokenizers",
    "VectorStore": "compact.store.sqlite.vector_store",
    "acompress": "compact.session.one_call",
    "aplan": "compact.session.one_call",
    "chat_model": "compact.wiring",
    "compress": "compact.session.one_call",
    "embedder": "compact.wiring",
    "handover": "compact.session.handover",
    "mark_protected": "compact.messages.given",
    "migrate": "compact.exchange.migrating",
    "plan": "compact.session.one_call",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("compactctl")
    if name not in _HOME:
        raise AttributeError(f"module 'compact' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOME))

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
    from compact.compression.extraction.extractive import (
        ExtractiveSummarizer as ExtractiveSummarizer,
    )
    from compact.config import CompactConfig as CompactConfig
    from compact.core.asking import Patience as Patience
    from compact.core.budget import ContextBudget as ContextBudget
    from compact.core.budget import ContextWindow as ContextWindow
    from compact.core.checkpoints import Checkpoint as Checkpoint
    from compact.core.context import ActiveContext as ActiveContext
    from compact.core.conversation import Conversation as Conversation
    from compact.core.digests import CompressionLevel as CompressionLevel
    from compact.core.goals import Goal as Goal
    from compact.core.messages import Message as Message
    from compact.core.messages import MessageMetadata as MessageMetadata
    from compact.core.plan import Plan as Plan
    from compact.core.policy import CompactPolicy as CompactPolicy
    from compact.core.prompts import PromptParts as PromptParts
    from compact.core.protecting import mark_protected as mark_protected
    from compact.core.redactor import Redactor as Redactor
    from compact.errors import CannotFit as CannotFit
    from compact.errors import CompactError as CompactError
    from compact.errors import InvalidArgument as InvalidArgument
    from compact.managers.archival_manager import ArchivalManager as ArchivalManager
    from compact.managers.compact_manager import CompactManager as CompactManager
    from compact.managers.compression_engine import CompressionEngine as CompressionEngine
    from compact.managers.context_manager import ContextManager as ContextManager
    from compact.managers.exchange.migrating import migrate as migrate
    from compact.managers.memory_manager import MemoryManager as MemoryManager
    from compact.managers.one_call import acompress as acompress
    from compact.managers.one_call import aplan as aplan
    from compact.managers.one_call import compress as compress
    from compact.managers.one_call import plan as plan
    from compact.memory.retention import RetentionPolicy as RetentionPolicy
    from compact.providers.tokenizers import NoopEstimator as NoopEstimator
    from compact.providers.tokenizers import TiktokenEstimator as TiktokenEstimator
    from compact.storage.sqlite.store import SQLiteManager as SQLiteManager
    from compact.storage.sqlite.vector_store import VectorStore as VectorStore
    from compact.telemetry.bus import EventBus as EventBus
    from compact.wiring import chat_model as chat_model
    from compact.wiring import embedder as embedder

_HOME = {
    "ActiveContext": "compact.core.context",
    "ArchivalManager": "compact.managers.archival_manager",
    "CannotFit": "compact.errors",
    "Checkpoint": "compact.core.checkpoints",
    "CompactConfig": "compact.config",
    "CompactError": "compact.errors",
    "CompactManager": "compact.managers.compact_manager",
    "CompactPolicy": "compact.core.policy",
    "CompressionEngine": "compact.managers.compression_engine",
    "CompressionLevel": "compact.core.digests",
    "ContextBudget": "compact.core.budget",
    "ContextManager": "compact.managers.context_manager",
    "ContextWindow": "compact.core.budget",
    "Conversation": "compact.core.conversation",
    "EventBus": "compact.telemetry.bus",
    "ExtractiveSummarizer": "compact.compression.extraction.extractive",
    "Goal": "compact.core.goals",
    "InvalidArgument": "compact.errors",
    "MemoryManager": "compact.managers.memory_manager",
    "Message": "compact.core.messages",
    "MessageMetadata": "compact.core.messages",
    "NoopEstimator": "compact.providers.tokenizers",
    "Patience": "compact.core.asking",
    "Plan": "compact.core.plan",
    "PromptParts": "compact.core.prompts",
    "Redactor": "compact.core.redactor",
    "RetentionPolicy": "compact.memory.retention",
    "SQLiteManager": "compact.storage.sqlite.store",
    "TiktokenEstimator": "compact.providers.tokenizers",
    "VectorStore": "compact.storage.sqlite.vector_store",
    "acompress": "compact.managers.one_call",
    "aplan": "compact.managers.one_call",
    "chat_model": "compact.wiring",
    "compress": "compact.managers.one_call",
    "embedder": "compact.wiring",
    "mark_protected": "compact.core.protecting",
    "migrate": "compact.managers.exchange.migrating",
    "plan": "compact.managers.one_call",
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

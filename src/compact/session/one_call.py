"""`compress`, `plan` and their async forms, with their options. The engine behind them
(`session.compress`) is loaded at the first call, so that importing this module is fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from compact.messages.options import taking

if TYPE_CHECKING:
    from compact.engine.plan import Plan
    from compact.messages.events import Event
    from compact.messages.given import Given
    from compact.messages.policy import CompactPolicy
    from compact.messages.protocols import ChatModel, Summarizer, TokenEstimator
    from compact.models.profiles import ModelBook
    from compact.secrets.redactor import Redactor
    from compact.session.compress import Task


class Options(TypedDict, total=False):
    """Options of `compress`, `plan` and their async forms."""

    pin: Iterable[int] | None
    """Positions of messages that stay word for word."""
    system: str | Sequence[Mapping[str, Any]] | None
    """A system prompt that is sent in its own field. It is counted and never changed."""
    tools: Sequence[Mapping[str, Any]] | None
    """Tool schemas that are sent too. They are counted and never changed."""
    model: str | None
    """A model key; it selects the tokenizer."""
    tokenizer: str | TokenEstimator | None
    """`o200k`, `cl100k`, `claude`, `chars`, or your own tokenizer."""
    format: str | None
    """The wire format, if it is not clear from the messages: `chat_completions`, `anthropic`,
    `responses` or `ollama`."""
    policy: CompactPolicy | None
    """What is kept, and how hard to compress. Default: `CompactPolicy()`."""
    summarizer: str | ChatModel | Sequence[str | ChatModel] | Summarizer | None
    """The summarizer: `extractive` (the default); a model, or its key (`ollama:qwen3:8b`); several,
    asked in this order; your own object; or None for only a receipt."""
    models: ModelBook | None
    """The known facts about models. Default: the built-in book."""
    key: bytes | None
    """A secret for the heading of a checkpoint. By it a checkpoint is recognized when it comes
    back. The default lasts for this process. Pass your own if other processes continue with the
    result, or if the same messages must always give the same bytes."""
    redactor: Redactor | None
    """Finds secrets in addition to those that are always redacted. Secrets are removed from what a
    summarizer is shown, and from summaries."""
    on_event: Callable[[Event], None] | None
    """Called with each event, in order."""


DEFAULTS: Mapping[str, object] = {"summarizer": "extractive"}
"""Defaults of options that are not None."""


@taking(Options)
def compress(
    messages: Sequence[Given], *, max_tokens: int, **options: Unpack[Options]
) -> list[Any]:
    """Fit messages into `max_tokens`, in their own format. Messages that fit are returned
    unchanged.

    The system prompt, pins and the user's newest message stay word for word. Tool calls keep their
    results, and the order stays the same. A call without a result gets a note as its result,
    because providers refuse it otherwise.

    Raises:
        CannotFit: the floor, which may not be shortened, exceeds `max_tokens`; the text lists its
            parts.
        InvalidMessage: a message is malformed; the text names the field.
        BlockingCallInLoop: the summarizer waits, and this thread runs an event loop: await
            `acompress`.
    """
    task = _task(messages, max_tokens, options)
    return task.render(task.run(instead="acompress(…)"))


@taking(Options)
async def acompress(
    messages: Sequence[Given], *, max_tokens: int, **options: Unpack[Options]
) -> list[Any]:
    """`compress` for async callers."""
    task = _task(messages, max_tokens, options)
    return task.render(await task.work())


@taking(Options)
def plan(messages: Sequence[Given], *, max_tokens: int, **options: Unpack[Options]) -> Plan:
    """Return each step that `compress` would take with these messages, and why. The plan contains
    the new context.

    Raises:
        CannotFit, InvalidMessage, BlockingCallInLoop: as `compress`.
    """
    return _task(messages, max_tokens, options).run(instead="aplan(…)")


@taking(Options)
async def aplan(messages: Sequence[Given], *, max_tokens: int, **options: Unpack[Options]) -> Plan:
    """`plan` for async callers."""
    return await _task(messages, max_tokens, options).work()


def _task(messages: Sequence[Given], max_tokens: int, options: Options) -> Task:
    made: Task = import_module("compact.session.compress").Task(messages, max_tokens, options)
    return made

"""Front door 2: `ContextManager`, a session that never overflows.

Messages go in one by one and stay in the history as they are; a prompt that fits the model's window
comes out. The history lives in memory; a store on disk follows with the sessions issue.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypedDict, TypeVar, Unpack

from compact import wiring
from compact.compression.ladder import Ladder
from compact.core import defaults
from compact.core.budget import ContextBudget, ContextWindow
from compact.core.checkpoints import Checkpoint, SummaryRequest
from compact.core.context import ActiveContext
from compact.core.events import Event
from compact.core.formats.known import format_named, told_by
from compact.core.history import History
from compact.core.messages import Message
from compact.core.plan import Plan
from compact.core.policy import CompactPolicy
from compact.core.profiles import window_of
from compact.core.protocols import Summarizer, TokenEstimator
from compact.errors import InvalidConfig, InvalidMessage
from compact.managers import blocking
from compact.managers.compress import aside_of, check_options, checked_size
from compact.managers.view import View

T = TypeVar("T")
DEFAULT_WINDOW = 8_192
SUMMARY_TOKENS = 800
"""Size of the summary that is written where no checkpoint exists yet."""


class SessionOptions(TypedDict, total=False):
    """What a `ContextManager` takes beside model and window."""

    system: str | Sequence[Mapping[str, Any]] | None
    """A system prompt that is sent in a field of its own: counted, never changed."""
    tools: Sequence[Mapping[str, Any]] | None
    """Tool schemas that are sent along: counted, never changed."""
    tokenizer: str | TokenEstimator | None
    format: str | None
    """The wire format of message dictionaries: `chat_completions` or `anthropic`."""
    policy: CompactPolicy | None
    summarizer: str | Summarizer | None
    """`extractive` (the default), an object of yours, or None for a receipt alone."""
    on_event: Callable[[Event], None] | None
    session_id: str


class ContextManager:
    """A session: its whole history, and the active context for any window.

    `model` is a model key that names a window and a tokenizer; `window` is the size in tokens and
    counts more than the model's. Without either, the window is 8,192 tokens. Of a model that is not
    known, give the window; its tokens are then estimated (`tokenizer="chars"`) unless a tokenizer
    is given too. Prompts are compressed when they pass the policy's trigger.
    """

    def __init__(
        self,
        model: str | None = None,
        window: int | None = None,
        store: None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        check_options(options, SessionOptions, "ContextManager()")
        if store is not None:
            raise InvalidConfig(
                "store", f"{store!r}: sessions live in memory; a store is not built yet"
            )
        self.policy = options.get("policy") or CompactPolicy()
        if "summarizer" in options and options["summarizer"] is None:
            self.policy = self.policy.model_copy(update={"strategy": "off"})
        size = _size_of(window, model)
        self._wire = format_named(options.get("format") or _format_for(model))
        self._counter = wiring.token_counter(
            self._wire.name,
            tokenizer=options.get("tokenizer"),
            model=model,
            otherwise=None if window is None else "chars",
        )
        self._aside = aside_of(self._counter, options.get("system"), options.get("tools"))
        self._summarizer = wiring.summarizer(options.get("summarizer"), self._counter)
        self.id = options.get("session_id") or defaults.new_id()
        """The session's id, which its events carry."""
        self._emit = wiring.emitter(options.get("on_event"), session_id=self.id)
        self.history = History(
            (), self._wire, self._counter, never_pruned=self.policy.roles_never_pruned
        )
        self._views: dict[int, View] = {}
        self._view = self._view_of(size)

    @property
    def window(self) -> ContextWindow:
        """The window prompts are made for."""
        return self._view.window

    @property
    def budget(self) -> ContextBudget:
        """Tokens of the usable window, used and free."""
        return self.window.budget(self._view.tokens_now)

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The checkpoints in view."""
        return (self._view.checkpoint,) if self._view.checkpoint else ()

    @property
    def last_plan(self) -> Plan | None:
        """What the last compression did and why; None before the first."""
        return self._view.plan

    def add_message(
        self, message: Message | Mapping[str, Any] | None = None, /, **fields: object
    ) -> Message:
        """Append a message to the history: a `Message`, a provider's dictionary, or its fields as
        keywords.

        Stores, never compresses. Returns the message with its id and time. Marks such as
        `metadata={"pinned": True}` are ours: they are kept here and never sent to a provider.

        Raises:
            InvalidMessage: it is malformed; the text names the field.
        """
        if message is not None and fields:
            raise InvalidMessage("message", "give a message or its fields, not both")
        item = fields if message is None else message
        if not isinstance(item, Message):
            item = self._parsed(item)
        self.history.extend((item,))
        return item

    def _parsed(self, raw: Mapping[str, Any]) -> Message:
        position = len(self.history)
        if not isinstance(raw, Mapping):
            raise InvalidMessage(
                "message", f"expected a message or a mapping, got {type(raw).__name__}"
            )
        other = told_by(raw)
        if other is not None and other != self._wire.name:
            raise InvalidMessage(
                f"messages[{position}]",
                f"is in the format {other}, the session is in {self._wire.name}: "
                f"give format={other!r}",
            )
        message = self._wire.parse(raw, position)
        if "metadata" not in raw:
            return message
        wire = {key: value for key, value in raw.items() if key != "metadata"}
        return message.model_copy(update={"wire": wire})

    def pin(self, message: Message | str) -> None:
        """Keep a message word for word from now on, by itself or by its id.

        Raises:
            LookupError: the session has no such message.
        """
        wanted = message if isinstance(message, str) else message.id
        for position in range(len(self.history) - 1, -1, -1):
            if self.history[position].id == wanted:
                self.history.pin(position)
                return
        raise LookupError(f"this session has no message with the id {wanted!r}")

    def get_context_for_model(self, model_key: str | None = None) -> list[dict[str, Any]]:
        """The prompt for the model, as provider dictionaries that are to be read only.

        Compresses if the trigger was passed. With a model key, the prompt for that model's window.

        Raises:
            CannotFit: what may not be shortened exceeds the usable window.
            UnknownModel: nothing is known of that model key.
            BlockingCallInLoop: the summarizer waits, in a running event loop.
        """
        view = self._view if model_key is None else self._view_of(window_of(model_key))
        self._run(view.refresh(), "aget_context_for_model()")
        return view.rendered()

    async def aget_context_for_model(self, model_key: str | None = None) -> list[dict[str, Any]]:
        """`get_context_for_model` for async callers."""
        view = self._view if model_key is None else self._view_of(window_of(model_key))
        await view.refresh()
        return view.rendered()

    def active_context(self) -> ActiveContext:
        """The typed value behind `get_context_for_model`.

        Raises:
            CannotFit, BlockingCallInLoop: as `get_context_for_model`.
        """
        self._run(self._view.refresh(), "aactive_context()")
        return self._view.context()

    async def aactive_context(self) -> ActiveContext:
        """`active_context` for async callers."""
        await self._view.refresh()
        return self._view.context()

    def compress_conversation(self, target_ratio: float | None = None) -> Plan:
        """Compress now; the plan says what was done and why.

        `target_ratio` is the share to keep of what lies above the floor (system prompt, pins, the
        newest message of a person), 0 to 1; without it, the policy's target.

        Raises:
            CannotFit, BlockingCallInLoop: as `get_context_for_model`.
        """
        return self._run(self.acompress_conversation(target_ratio), "acompress_conversation()")

    async def acompress_conversation(self, target_ratio: float | None = None) -> Plan:
        """`compress_conversation` for async callers."""
        if target_ratio is not None and not 0 < target_ratio <= 1:
            raise ValueError(
                f"target_ratio must lie above 0 and be at most 1, got {target_ratio!r}"
            )
        await self._view.refresh()
        limit = self.window.target
        if target_ratio is not None:
            floor = Ladder(self.history, self.policy).floor() + self._aside
            limit = floor + int(target_ratio * max(0, self._view.tokens - floor))
        return await self._view.compress(min(limit, self.window.usable))

    def estimate_tokens(self, text: str) -> int:
        """Tokens of a text by the session's tokenizer."""
        return self._counter.text(text)

    def get_conversation_summary(self) -> str:
        """What the checkpoint in view says; before the first one, a summary of the whole history.

        Raises:
            BlockingCallInLoop: the summarizer waits, in a running event loop.
        """
        work = self.aget_conversation_summary()
        return blocking.run(
            work, waits=self._summarizer.waits, instead="aget_conversation_summary()"
        )

    async def aget_conversation_summary(self) -> str:
        """`get_conversation_summary` for async callers."""
        if self._view.checkpoint is not None:
            return self._view.checkpoint.summary
        if not len(self.history):
            return ""
        request = SummaryRequest(
            messages=tuple(self.history),
            max_tokens=SUMMARY_TOKENS,
            max_instruction_tokens=SUMMARY_TOKENS // 3,
        )
        return (await self._summarizer.summarize(request)).text

    def _view_of(self, size: int) -> View:
        view = self._views.get(size)
        if view is None:
            policy = self.policy
            window = ContextWindow(
                size=size,
                output_reserve=policy.output_reserve,
                trigger_pct=policy.trigger_pct,
                target_pct=policy.target_pct,
                trigger_tokens=policy.trigger_tokens,
            )
            view = self._views[size] = View(
                self.history,
                window,
                policy,
                aside=self._aside,
                summarizer=self._summarizer,
                emit=self._emit,
            )
        return view

    def _run(self, work: Coroutine[Any, Any, T], instead: str) -> T:
        waits = self.policy.strategy == "task_state" and self._summarizer.waits
        return blocking.run(work, waits=waits, instead=instead)


def _size_of(window: int | None, model: str | None) -> int:
    if window is not None:
        return checked_size("window", window)
    return window_of(model) if model else DEFAULT_WINDOW


def _format_for(model: str | None) -> str:
    return "anthropic" if model and "claude" in model.lower() else "chat_completions"

"""Opening a session: what a caller says in words becomes an open `SessionState`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from compact import wiring
from compact.core import defaults
from compact.core.events import Event
from compact.core.formats.known import format_named, told_by
from compact.core.formats.wire import WireFormat
from compact.core.messages import Message
from compact.core.policy import CompactPolicy
from compact.core.profiles import window_of
from compact.core.protocols import SessionStore, Summarizer, TokenEstimator
from compact.core.sessions import Branch, Session
from compact.errors import InvalidMessage
from compact.managers.compress import aside_of, check_options, checked_size
from compact.managers.state import SessionState

DEFAULT_WINDOW = 8_192


class SessionOptions(TypedDict, total=False):
    """What a `ContextManager` takes beside model, window and store."""

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
    """Opens the session of that id where the store has one, else makes it."""
    scope: str
    """The user, tenant or project that a new session belongs to; `default` where one person uses
    the store."""
    title: str | None


def opened(
    model: str | None,
    window: int | None,
    store: str | Path | SessionStore | None,
    options: SessionOptions,
) -> tuple[SessionState, int]:
    """The session that is asked for, made where the store has none, and the size of its window.

    Raises:
        InvalidConfig, UnknownModel, TypeError, ValueError: an option is wrong.
        StoreFailed: the store cannot be opened.
    """
    check_options(options, SessionOptions, "ContextManager()")
    policy = options.get("policy") or CompactPolicy()
    if "summarizer" in options and options["summarizer"] is None:
        policy = policy.model_copy(update={"strategy": "off"})
    size = _size_of(window, model)
    opened_store = wiring.session_store(store)
    session_id = options.get("session_id") or defaults.new_id()
    asked = format_named(options.get("format") or _format_for(model))
    counter = wiring.token_counter(
        asked.name,
        tokenizer=options.get("tokenizer"),
        model=model,
        otherwise=None if window is None else "chars",
    )
    session = opened_store.session(
        session_id,
        create=Session(
            id=session_id,
            scope=options.get("scope") or "default",
            title=options.get("title"),
            model=model,
            wire=asked.name,
            tokenizer=counter.estimator.name,
            branch=Branch(id=session_id, session_id=session_id),
        ),
    )
    state = SessionState(
        id=session_id,
        store=opened_store,
        wire=format_named(session.wire),
        counter=counter,
        policy=policy,
        summarizer=wiring.summarizer(options.get("summarizer"), counter),
        emit=wiring.emitter(options.get("on_event"), session_id=session_id),
        beside=aside_of(counter, options.get("system"), options.get("tools")),
        tokenizer=session.tokenizer,
    )
    state.open(session.branch)
    return state, size


def parsed(wire: WireFormat, raw: Message | Mapping[str, Any], position: int) -> Message:
    """A message that somebody gave, in a session of that wire format.

    Raises:
        InvalidMessage: it is malformed or of another format; the text names the field.
    """
    if isinstance(raw, Message):
        if raw.wire_format is None and raw.wire is None and not isinstance(raw.content, str):
            return raw.model_copy(update={"wire_format": wire.name})  # so it will be sent
        return raw
    if not isinstance(raw, Mapping):
        raise InvalidMessage(
            "message", f"expected a message or a mapping, got {type(raw).__name__}"
        )
    other = told_by(raw)
    if other is not None and other != wire.name:
        raise InvalidMessage(
            f"messages[{position}]",
            f"is in the format {other}, the session is in {wire.name}: give format={other!r}",
        )
    message = wire.parse(raw, position)
    if "metadata" not in raw:
        return message
    sent = {key: value for key, value in raw.items() if key != "metadata"}
    return message.model_copy(update={"wire": sent})


def _size_of(window: int | None, model: str | None) -> int:
    if window is not None:
        return checked_size("window", window)
    return window_of(model) if model else DEFAULT_WINDOW


def _format_for(model: str | None) -> str:
    return "anthropic" if model and "claude" in model.lower() else "chat_completions"

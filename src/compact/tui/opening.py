"""Opens the session of a chat with its model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from compact import wiring
from compact.config import ARGUMENT, CompactConfig
from compact.errors import NotFound
from compact.messages.events import Event
from compact.messages.messages import SYSTEM_ROLES
from compact.messages.protocols import SessionStore
from compact.messages.sessions import CHAT_NOTE
from compact.models.effective_settings import DEFAULT_WINDOW
from compact.session.context_manager import ContextManager
from compact.session.opening import found_window
from compact.text.prompts import PromptParts
from compact.tui.choices import check_client

Write = Callable[[str, str], str]
"""Writes the session with an id to a file with a name. Returns a line about the result."""


@dataclass(frozen=True, kw_only=True)
class ChatSetup:
    """What a chat needs: the store, the settings, and the session's id and scope."""

    store: SessionStore
    settings: CompactConfig
    session_id: str
    scope: str
    write: Write


def model_of(setup: ChatSetup) -> str | None:
    """Return the key of the model to talk to, or None. It is the model in the options, else the
    session's last one, else the one in the settings.
    """
    settings = setup.settings
    if settings.model is not None and settings.origin("model") == ARGUMENT:
        return settings.model
    try:
        setup.store.session(setup.session_id)
    except NotFound:  # a new session has no notes
        return settings.model
    return setup.store.notes(setup.session_id).get(CHAT_NOTE, {}).get("model") or settings.model


async def window_for(settings: CompactConfig, model: str) -> int | None:
    """Return the window with which to open the session. None: the model's own, known window. The
    settings' window comes first, else the server's, else the default.
    """
    check_client(model)
    if settings.max_context_tokens is not None:
        return settings.max_context_tokens
    profile = settings.book().profile_of(model)
    if profile is not None and profile.window is not None:
        return None
    return await found_window(model) or DEFAULT_WINDOW


async def opened(setup: ChatSetup, model: str, on_event: Callable[[Event], None]) -> ContextManager:
    """Open or create the session for that model. Store the model's name in a note."""
    window = await window_for(setup.settings, model)
    return await asyncio.to_thread(_open, setup, model, window, on_event)


def _open(
    setup: ChatSetup, model: str, window: int | None, on_event: Callable[[Event], None]
) -> ContextManager:
    settings = setup.settings
    ctx = ContextManager(
        model,
        window,
        setup.store,
        session_id=setup.session_id,
        scope=setup.scope,
        tokenizer=settings.tokenizer,
        policy=settings.policy(),
        summarizer=settings.summarizers(),
        models=settings.book(),
        tiers=settings.tiers,
        memory=settings.memory,
        recall_tokens=settings.recall_tokens,
        archive=wiring.storage_adapter(settings.archive, kms_key=settings.archive_kms_key),
        redactor=settings.redactor(),
        prompt=None if _has_own_prompt(setup) else PromptParts(),
        on_event=on_event,
    )
    setup.store.note(ctx.id, CHAT_NOTE, {"model": model})
    return ctx


def _has_own_prompt(setup: ChatSetup) -> bool:
    try:
        branch = setup.store.session(setup.session_id).branch
    except NotFound:
        return False
    first = setup.store.read(branch.id, 0, 1)
    return bool(first) and first[0].message.role in SYSTEM_ROLES

"""A session as a page for a browser: the pages of `apps.pages`, for a command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compact import wiring
from compact.apps.cli import stores
from compact.apps.cli.options import OpenOptions
from compact.apps.cli.progress import Progress, counting
from compact.apps.cli.settings import settings_of
from compact.apps.cli.stores import SessionCatalog
from compact.apps.pages import page, replay, session_data
from compact.config import CompactConfig
from compact.core.redactor import Redactor
from compact.core.resolving import DEFAULT_WINDOW
from compact.core.sessions import Session
from compact.managers.context_manager import ContextManager

START = 200
"""Bytes by which a page of ours is known."""

is_page = page.is_page
written = page.written


def told(catalog: SessionCatalog, session: Session, *, verbatim: bool) -> dict[str, Any]:
    """What the page tells; without secrets, unless they are to stay or the settings say so."""
    redactor = _redactor_of(catalog.settings, verbatim=verbatim)
    with stores.context_of(catalog, session) as ctx:
        return session_data.told(ctx, session, redactor=redactor)


def replayed(options: OpenOptions, progress: Progress, *, verbatim: bool) -> dict[str, Any]:
    """What the page tells of a conversation in a file, as if it had been held in that window:
    compressed by extraction wherever it would have been. Nothing is stored.

    Raises:
        InvalidTranscript: the file is unknown or broken.
        CannotFit: a message of it fits in no prompt of that window.
    """
    settings, file = settings_of(options), options.session
    transcript = wiring.read_transcript(file)
    window = settings.window()
    with ContextManager(
        window=window.size if window else DEFAULT_WINDOW,
        session_id=Path(file).stem,
        tokenizer=wiring.token_counter_of(settings, transcript.wire).estimator.name,
        format=transcript.wire,
        tools=transcript.tools or None,
        policy=settings.policy(),
    ) as ctx:
        shown = counting(progress, "Replaying")
        replay.replay(ctx, transcript.messages, on_message=shown)
        redactor, session = _redactor_of(settings, verbatim=verbatim), ctx.store.session(ctx.id)
        return session_data.told(ctx, session, redactor=redactor, replayed=True)


def _redactor_of(settings: CompactConfig, *, verbatim: bool) -> Redactor | None:
    return settings.redactor() if settings.redact and not verbatim else None

"""A session as a page for a browser: the pages of `apps.pages`, for a command."""

from __future__ import annotations

from typing import Any

from compact.apps.cli import stores
from compact.apps.cli.stores import SessionCatalog
from compact.apps.pages import page, session_data
from compact.core.sessions import Session

START = 200
"""Bytes by which a page of ours is known."""

is_page = page.is_page
written = page.written


def told(catalog: SessionCatalog, session: Session, *, verbatim: bool) -> dict[str, Any]:
    """What the page tells; without secrets, unless they are to stay or the settings say so."""
    redacts = catalog.settings.redact and not verbatim
    redactor = catalog.settings.redactor() if redacts else None
    with stores.context_of(catalog, session) as ctx:
        return session_data.told(ctx, session, redactor=redactor)

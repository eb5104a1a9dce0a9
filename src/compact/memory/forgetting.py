"""A session is deleted everywhere: in the store, and where compressions left copies of it."""

from __future__ import annotations

from typing import cast

from compact import wiring
from compact.config import CompactConfig
from compact.messages.memory_protocols import CopiesInFolders, ForgetsCopies, SessionForgetting
from compact.messages.protocols import SessionStore
from compact.store.reports import ForgottenReport


def forget(store: SessionStore, session_id: str, settings: CompactConfig) -> ForgottenReport:
    """Delete a session, with what the settings' archive keeps of it, and look for what is left.

    Copies in a folder go after the session, and a crash in between leaves them to whoever opens the
    store next. Copies elsewhere go before it: where that fails, the session is still there.

    Raises:
        NotFound: there is no such session.
        StoreFailed: it, or its copies, could not be deleted.
        ImportError: a package that the archive needs is not installed.
    """
    kept = wiring.storage_adapter(settings.archive, kms_key=settings.archive_kms_key)
    folders: tuple[str, ...] = ()
    removed = 0
    if isinstance(kept, CopiesInFolders):
        folders = (kept.place_of(session_id),)
    elif isinstance(kept, ForgetsCopies):
        removed = kept.forget(session_id)
    report = cast("SessionForgetting", store).forget_session(session_id, copies=folders)
    if not removed:
        return report
    return report.model_copy(update={"removed": {**report.removed, "copies": removed}})

"""`ContextManager`: a session that never overflows.

Messages go in one by one and stay in the history as they are. Prompts that fit the model's window
come out. With a store the session lives on disk: it can be reopened after any exit or crash, also
by several processes. What people do with a session is in `methods/`, one module for each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from compact.messages.calls import known_options, named
from compact.messages.options import taking
from compact.messages.protocols import ChatModel, SessionStore
from compact.session.methods.adding import Adding
from compact.session.methods.goals import Goals
from compact.session.methods.going_back import GoingBack
from compact.session.methods.pinning import Pinning
from compact.session.methods.prompts import Prompts
from compact.session.methods.recalling import Recalling
from compact.session.methods.sending import Sending
from compact.session.open_session import OpenSession
from compact.session.opening import SessionOptions
from compact.session.running.off_loop import off_loop


class ContextManager(Adding, Prompts, Sending, Goals, Pinning, Recalling, GoingBack):
    """A session: its whole history, and the active context for any window.

    `model` is a model, or the key of one, that gives a window and a tokenizer; `window` is the size
    in tokens and overrides the model's. Without either, the window is 8,192 tokens. For an unknown
    model, its server is asked (not within a running event loop); where it does not say, give the
    window. Its tokens are then estimated (`tokenizer="chars"`) unless you give a tokenizer too.
    Prompts are compressed when they pass the policy's trigger. The model writes the summaries where
    it can be asked and is fit (docs/guides/summaries.md); `summarizer="extractive"` leaves them to
    code.

    `store` is a file's name, an open store, or None for a session in memory only. A message is
    durable when `add_message` returns.
    """

    @taking(SessionOptions)
    def __init__(
        self,
        model: str | ChatModel | None = None,
        window: int | None = None,
        store: str | Path | SessionStore | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        known_options(options, SessionOptions)
        for name in ("scope", "session_id"):
            if name in options:
                named(name, options[name])
        self._session = OpenSession(model, window, store, options)

    def close(self) -> None:
        """Close the store, unless it was passed in open; then the caller closes it. Added messages
        are already stored.
        """
        self._session.close()

    async def aclose(self) -> None:
        """`close` for async callers: connections of models are closed on their own loop."""

        async def closed() -> None:
            self.close()

        await off_loop(closed())

    async def __aenter__(self) -> ContextManager:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> ContextManager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""Looking at a session: its history, its window, what is in view."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.engine.plan import Plan
from compact.messages.budget import ContextBudget, ContextWindow, WindowUse
from compact.messages.checkpoints import Checkpoint
from compact.messages.policy import CompactPolicy
from compact.messages.protocols import SessionStore
from compact.messages.reliability import Reliability
from compact.messages.sessions import Move
from compact.session.history import Record, SessionHistory
from compact.session.open_session import OpenSession
from compact.session.running import blocking
from compact.session.state import ALL_MOVES
from compact.session.views.window_use import use_of

T = TypeVar("T")


class Looking:
    """What can be read of a session."""

    _session: OpenSession

    @property
    def id(self) -> str:
        """The session's id; its events carry it."""
        return self._session.state.id

    @property
    def store(self) -> SessionStore:
        """The store of the session."""
        return self._session.state.store

    @property
    def policy(self) -> CompactPolicy:
        """What is kept, and when and how far to compress."""
        return self._session.state.policy

    @property
    def history(self) -> SessionHistory:
        """The full history of the open branch, as a sequence of messages."""
        return Record(self._session.state.history)

    @property
    def branch_id(self) -> str:
        """The id of the open branch."""
        return self._session.state.branch_id

    @property
    def window(self) -> ContextWindow:
        """The window that prompts are made for."""
        return self._session.view.window

    @property
    def budget(self) -> ContextBudget:
        """Tokens of the usable window, used and free."""
        self._session.state.history.catch_up()
        return self.window.budget(self._session.view.tokens_now)

    @property
    def window_use(self) -> WindowUse:
        """Where the tokens of the prompt are, by part: what a bar of the window is drawn from."""
        return use_of(self._session.view)

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The checkpoints in view, oldest span first."""
        return self._session.view.checkpoints

    @property
    def compressions(self) -> int:
        """How many compressions led to what is in view."""
        return self._session.view.projection.number if self._session.view.projection else 0

    def moves(self) -> list[Move]:
        """The steps that changed what is in view for the window, on the open branch, the oldest
        first: compressions, and what undid, redid or restored them.
        """
        state = self._session.state
        return list(state.moves(self.window.size, most=ALL_MOVES))[::-1]

    @property
    def last_plan(self) -> Plan | None:
        """What the last compression did and why; None before the first."""
        plan = self._session.view.plan
        return plan.owned() if plan is not None else None

    @property
    def reliability(self) -> Reliability | None:
        """How far the context can be trusted after its compressions, by the model's size, and what
        that means; None if the model is not known.
        """
        return self._session.state.trust(self._session.view.projection)

    @property
    def summarizes_by_model(self) -> bool:
        """Whether a model, or a summarizer of yours, writes the summaries; else code does."""
        state = self._session.state
        return state.policy.summarizes and not isinstance(state.summarizer, ExtractiveSummarizer)

    def estimate_tokens(self, text: str) -> int:
        """Tokens of a text by the session's tokenizer."""
        return self._session.state.counter.text(text)

    def _run(self, work: Coroutine[Any, Any, T], instead: str) -> T:
        """The result of what may wait for a summarizer."""
        return blocking.run(work, waits=self._session.state.waits, instead=instead)

"""Decides what is sent upstream for a request, and records what came back.

Whatever fails here, the request goes on as the client sent it. There is one exception: a prompt
that cannot be made to fit is refused, as the server would cut it silently.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from compact.config import CompactConfig
from compact.errors import CannotFit, CompactError, InvalidArgument, NotFound, ServerHeldState
from compact.json_text import write_json
from compact.messages import chain, clock_and_ids
from compact.messages.events import Committed, ErrorRaised, Event
from compact.messages.formats.responses import refuse_server_state
from compact.messages.messages import META
from compact.messages.overflow import refusal_of
from compact.messages.protocols import SessionStore
from compact.models.effective_settings import DEFAULT_WINDOW
from compact.serve.continuing import Begun, Lists
from compact.serve.faces import Face
from compact.serve.metrics import Metrics
from compact.serve.windows import Window, Windows
from compact.session.compact_manager import CompactManager
from compact.session.fitted import Fitted
from compact.session.running import threaded

if TYPE_CHECKING:
    from compact.models.providers.answers import Answer

SESSION = "x-compact-session"
"""The header with a session's id."""
MOST_WINDOWS = 64
"""How many sizes of windows there may be. Requests to Ollama name their own."""
LATER = 0.002
"""Seconds that taking a list in beside its way waits, so that the request leaves first."""
RECORDING = 5.0
"""Seconds that the end of an answer waits until it is recorded."""


@dataclass
class Exchange:
    """A request, and what is done with it."""

    body: bytes
    """What is sent upstream."""
    outcome: str = "untouched"
    """What was done, as metrics name it."""
    refusal: CannotFit | None = None
    """Why it is refused, without asking the server."""
    ticket: Ticket | None = None
    """How the exchange is recorded. None if the request carries no readable conversation."""


@dataclass
class Ticket:
    """One request for an answer, from its arrival to the end of the answer."""

    face: Face
    request: dict[str, Any]
    window: Window
    manager: CompactManager
    session_id: str
    messages: list[Any]
    digest: bytes
    """The digest of the client's list, by which `Lists` knows it."""
    fitted: Fitted = field(default_factory=lambda: Fitted(()))
    fitting: asyncio.Task[None] | None = None
    """The task that takes the list into the session while the answer comes. None if it is done."""
    is_as_given: bool = False
    """Whether the client's own list is sent, even if the fitted list differs from it."""

    @property
    def is_as_fitted(self) -> bool:
        """Whether the server's count is a count of the fitted list."""
        return not (self.is_as_given and self.fitted.changed)

    @property
    def answer_tokens(self) -> int | None:
        """Tokens to leave for the answer. Clients ask for more than small windows have."""
        asked = self.face.answer_tokens(self.request)
        return None if asked is None else min(asked, self.window.size // 4)

    @property
    def left(self) -> int:
        """Tokens that may be added before the list may have to change."""
        if self.fitted.changed:
            return 0
        window = self.manager.session(self.session_id).window
        return min(window.trigger, window.usable - window.size // 4) - self.fitted.tokens

    async def fit(self) -> None:
        """Make the list to send.

        Raises:
            CannotFit, CompactError: as `CompactManager.fit`.
        """
        face, request = self.face, self.request
        self.fitted = await self.manager.afit(
            self.session_id,
            self.messages,
            format=face.format,
            tools=request.get("tools"),
            system_prompt=request.get(face.system) if face.system else None,
            answer_tokens=self.answer_tokens,
        )

    def body(self, given: bytes) -> bytes:
        """The request with the list to send: the given bytes themselves if nothing is different."""
        changes: dict[str, Any] = {}
        if self.fitted.changed and (sent := self._sent()) != self.messages:
            changes[self.face.listed] = sent
        if self.face.format == "ollama" and self.window.is_ours:
            changes["options"] = {**self.face.options(self.request), "num_ctx": self.window.size}
        # `json` keeps numbers that are too large for orjson.
        return write_json({**json.loads(given), **changes}).encode() if changes else given

    def _sent(self) -> list[Any]:
        """The list to send. An answer that came back is sent as the client writes it."""
        rows = zip(self.fitted.messages, self.fitted.origin, strict=True)
        return [
            self.messages[o[0]] if len(o) == 1 and _is_same(m, self.messages[o[0]]) else m
            for m, o in rows
        ]


def _is_same(ours: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether a message differs at most in what clients add and drop. Marks are no such things."""
    if ours == given:
        return True
    is_marked = any(name in given and name not in ours for name in META)
    return not is_marked and chain.link(chain.START, ours) == chain.link(chain.START, given)


class Desk:
    """The sessions of a proxy."""

    def __init__(
        self,
        settings: CompactConfig,
        store: SessionStore,
        windows: Windows,
        metrics: Metrics,
        *,
        scope: str,
        say: Callable[[str], None],
        most_sessions: int | None = None,
    ) -> None:
        self._settings, self._store, self._scope = settings, store, scope
        self._windows, self._metrics, self._say = windows, metrics, say
        self._most_sessions = most_sessions
        self._managers: dict[int, CompactManager] = {}
        self._beside: set[asyncio.Task[None]] = set()
        self._lists = Lists()
        self._looked_for = 0
        """Lists of which no session was known at once."""
        self._manager(settings.max_context_tokens or DEFAULT_WINDOW).check()

    # --- before ---------------------------------------------------------------------------------

    async def opened(self, face: Face, body: bytes, headers: Mapping[str, str]) -> Exchange:
        """Return what to do with a request."""
        try:
            return await self._opened(face, body, headers)
        except CannotFit as error:
            return Exchange(body, "refused", refusal=error)
        except ServerHeldState:
            return Exchange(body, "server_held")
        except Exception as error:  # noqa: BLE001 - it fails open
            self.failed(error)
            return Exchange(body, "failed_open")

    async def _opened(self, face: Face, body: bytes, headers: Mapping[str, str]) -> Exchange:
        try:
            request = orjson.loads(body)
        except ValueError:
            return Exchange(body, "unreadable")
        messages = face.messages(request) if isinstance(request, dict) else None
        if not messages:
            return Exchange(body, "unreadable")
        if face.format == "responses":
            refuse_server_state(request)
        window = await self._window_of(face, request, headers)
        if window is None:
            return Exchange(body, "window_unknown")
        manager = self._manager(window.size)
        named = headers.get(SESSION)
        beside = {name: request.get(name) for name in ("tools", "system", "instructions")}
        beside |= {"api": face.name, "window": window.size, "session": named}
        known = self._lists.continued(beside, messages)
        session_id = named or known.session_id or await self._recognized(manager, messages)
        if known.session_id is None:
            self._forget_oldest()
        ticket = Ticket(face, request, window, manager, session_id, messages, known.digest)
        ticket.is_as_given = known.fits
        if known.fits:
            ticket.fitting = self._task(self._fit_later(ticket))
        else:
            await self._fit(ticket)
        sent = ticket.body(body)
        outcome = "untouched" if sent is body else "fitted"
        return Exchange(sent, outcome, ticket=ticket)

    async def _fit_later(self, ticket: Ticket) -> None:
        await asyncio.sleep(LATER)
        await self._fit(ticket)

    async def _fit(self, ticket: Ticket) -> None:
        try:
            await ticket.fit()
        except NotFound:  # it was deleted while it was open: its list begins it anew
            ticket.manager._leave(ticket.session_id)
            await ticket.fit()
        self._lists.keep(ticket.digest, Begun(ticket.session_id, ticket.left))
        self._metrics.add("prompt_tokens_total", ticket.fitted.tokens)

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something beside, and wait for it at the end."""
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._beside.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self.failed(error)

    async def _window_of(
        self, face: Face, request: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Window | None:
        own = face.options(request).get("num_ctx") if face.format == "ollama" else None
        if type(own) is int and own > 0:
            return Window(own)
        model = request.get("model")
        named = {k: v for k, v in headers.items() if k in ("authorization", "x-api-key")}
        return await self._windows.of(model if isinstance(model, str) else "", named)

    async def _recognized(self, manager: CompactManager, messages: list[Any]) -> str:
        known = await threaded(lambda: manager.recognize(messages))
        if known is None:
            self._metrics.add("sessions_total")
        return known or clock_and_ids.new_id()

    def _forget_oldest(self) -> None:
        most, self._looked_for = self._most_sessions, self._looked_for + 1
        if most is not None and self._looked_for % most == 0:  # at most twice as many are there
            for session in self._store.sessions(scope=self._scope)[most:]:
                self._store.delete_session(session.id)

    def _manager(self, size: int) -> CompactManager:
        """The manager for windows of that size. All have one store."""
        if size not in self._managers:
            if len(self._managers) >= MOST_WINDOWS:
                raise InvalidArgument("num_ctx", f"there are {MOST_WINDOWS} other windows")
            config = self._settings.model_copy(update={"max_context_tokens": size})
            self._managers[size] = CompactManager(
                config, store=self._store, scope=self._scope, on_event=self._hear
            )
        return self._managers[size]

    # --- after ----------------------------------------------------------------------------------

    async def refitted(self, exchange: Exchange, status: int, answer: bytes) -> bool:
        """Make a smaller prompt if the server refused one as too large. Return whether there is."""
        ticket = exchange.ticket
        if ticket is None or not 400 <= status < 500:
            return False
        try:
            if ticket.fitting is not None:
                await ticket.fitting
            said = answer.decode("utf-8", "replace")
            if refusal_of(said) is None:
                return False
            self._windows.forget(str(ticket.request.get("model")))
            if ticket.is_as_fitted:
                ticket.fitted.report(said)
                await self._fit(ticket)
            ticket.is_as_given = False
            smaller = ticket.body(exchange.body)
        except CompactError:
            return False
        except Exception as error:  # noqa: BLE001 - it fails open
            self.failed(error)
            return False
        is_new = smaller != exchange.body
        self._metrics.add("overflows_total", retried="yes" if is_new else "no")
        exchange.body, exchange.outcome = smaller, "fitted" if is_new else exchange.outcome
        return is_new

    async def record(self, ticket: Ticket, answer: Answer | None) -> None:
        """Record an answer. Whoever waits goes on when it is stored, or after `RECORDING`."""
        if answer is None:
            self._metrics.add("answers_total", outcome="unread")
            return
        task = self._task(self._recorded(ticket, answer))
        await asyncio.wait((task,), timeout=RECORDING)

    async def _recorded(self, ticket: Ticket, answer: Answer) -> None:
        def recorded() -> bool:
            if answer.prompt_tokens and ticket.is_as_fitted:
                ticket.fitted.report(answer.prompt_tokens)
            return ticket.fitted.answered(*answer.messages)

        try:
            if ticket.fitting is not None:
                await asyncio.wait((ticket.fitting,))
            is_added = await threaded(recorded)
            self._metrics.add("answers_total", outcome="recorded" if is_added else "not_recorded")
        except Exception as error:  # noqa: BLE001 - it fails open
            self.failed(error)
            self._metrics.add("answers_total", outcome="not_recorded")

    # --- what is told ---------------------------------------------------------------------------

    def failed(self, error: Exception) -> None:
        """Count an error that a request passed on behind. The first of a type is said, without its
        text: that may quote a conversation.
        """
        kind = type(error).__name__
        if not self._metrics.count("failures_total", error=kind):
            self._say(f"{kind}: requests pass untouched where it happens; /metrics counts them")
        self._metrics.add("failures_total", error=kind)

    def tell(self, exchange: Exchange) -> None:
        """Say what would be done with a request, if anything. It is sent as the client gave it."""
        if exchange.ticket is not None:
            exchange.ticket.is_as_given = True
        if exchange.refusal is not None:
            self._say(f"would refuse: {exchange.refusal}")
        elif exchange.outcome == "fitted" and (ticket := exchange.ticket) is not None:
            sent, given = len(ticket.fitted.messages), len(ticket.messages)
            tokens = f"{ticket.fitted.tokens:,} of {ticket.window.size:,} tokens"
            self._say(f"would send {sent:,} messages instead of {given:,}, {tokens}")

    def _hear(self, event: Event) -> None:
        match event:
            case Committed():
                self._metrics.add("compressions_total")
            case ErrorRaised():
                self._metrics.add("failures_total", error=event.error)

    async def aclose(self) -> None:
        """Wait for what is being recorded, and close all sessions."""
        if self._beside:
            await asyncio.wait(self._beside)
        for manager in self._managers.values():
            manager.close()

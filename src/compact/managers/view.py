"""A view: the active context of one session for one window, kept up to date as messages come.

A new message is appended to what is in view; nothing is looked at again until the trigger is
passed. Then the pipeline proposes a new context over what the history was, and the proposal is
committed if no other one came in between; else the other one counts. So a turn costs its new
messages, whatever the length of the history.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from threading import Lock
from typing import Any

from compact.compression import pipeline, reporting
from compact.compression.emergency import Rung
from compact.compression.extractive import ExtractiveSummarizer
from compact.compression.fold import Fold
from compact.compression.pipeline import Proposal
from compact.compression.stages import Budget
from compact.compression.standing import Standing, adopted, standing_of
from compact.core.checkpoints import Checkpoint
from compact.core.context import ActiveContext
from compact.core.events import Committed, TriggerDecision, WindowCapped
from compact.core.history import History
from compact.core.levels import Caps
from compact.core.plan import Plan
from compact.core.sessions import Move, MoveKind, Projection, Step
from compact.errors import CannotFit, SummaryRejected, Superseded
from compact.managers import drafts
from compact.managers.breaker import Breaker
from compact.managers.state import SessionState
from compact.wiring import nobody

POLL_SECONDS = 0.005
"""How often a caller looks whether another one's compression has ended."""
BACKLOG = 64
"""New messages from which on the end of the history is counted first, before anything is
appended."""
MOST_MOVES = 200
"""Newest moves among which one of the open branch is looked for."""
MOST_LOOKED_AT = 8
"""Newest moves of which a window that is new to the session looks at each."""
MOST_EVER = 100_000
"""Moves that are looked through for what was in force long ago."""
MOST_ROUNDS = 5
"""Compressions in a row that other writers may win before this one gives up."""


class View:
    """The active context of a session for one window."""

    def __init__(self, state: SessionState, size: int, breaker: Breaker) -> None:
        self.window = state.window(size)
        if self.window.size < size:
            state.emit(WindowCapped(asked=size, size=self.window.size))
        self.plan: Plan | None = None
        """What the last compression did."""
        self.projection: Projection | None = None
        """What the view goes on from; None for the bare history."""
        self._state = state
        self.size = size
        self._breaker = breaker
        self._mutex = Lock()
        self._base = 0
        """The number of the window's newest move, of whatever branch."""
        self._revision = -1
        """The session's revision that this was made from."""
        self._due = False
        """Whether the trigger was passed and no compression has succeeded since."""
        self._trigger = self.window.trigger
        """The window's trigger; above it where a floor leaves little room, so that a session is not
        compressed at every turn."""
        self.reload()

    # --- what is in view --------------------------------------------------------------------------

    @property
    def tokens(self) -> int:
        """Tokens of the prompt as it would be sent now, messages that were not yet looked at left
        out.
        """
        return self._fold.tokens

    @property
    def tokens_now(self) -> int:
        """Tokens of the prompt with the messages that were not looked at yet."""
        history = self._state.history
        return self._fold.tokens + sum(map(history.tokens, range(self._fold.seen, len(history))))

    @property
    def aside(self) -> int:
        """Tokens of what stands beside the messages of the history."""
        return self._fold.aside

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The live checkpoints, oldest span first."""
        return self._fold.checkpoints

    def is_hopeless(self, error: CannotFit | SummaryRejected) -> bool:
        """Whether no emergency rung can help: what may not be shortened is alone too large."""
        return isinstance(error, CannotFit) and error.total > self.window.usable

    def corrected(self) -> None:
        """Take a window that was corrected by what a provider reported."""
        self.window = self._state.window(self.size)
        self._trigger = self.window.trigger
        self._due = self._fold.tokens > self._trigger

    def rendered(self) -> list[dict[str, Any]]:
        """The messages to send, as the provider's dictionaries."""
        return self._fold.rendered()

    def context(self) -> ActiveContext:
        """The active context as a value."""
        return self._fold.context()

    def context_at(self, length: int) -> ActiveContext:
        """What a model saw when the session had so many messages."""
        state = self._state
        move = self.move_at(length)
        preface = state.preface(state.goals_before(length))
        fold = Fold(state.history, aside=state.aside(preface), goals=preface)
        if move is not None and move.projection_id is not None:
            fold.take(state.projection(move.projection_id))
        fold.follow(length)
        return fold.context()

    def move_at(self, length: int) -> Move | None:
        """The move that was in force when the session had so many messages."""
        return next((m for m in self._moves(MOST_EVER) if m.at <= length), None)

    def reload(self) -> None:
        """Take what the store says is in force for the window."""
        state = self._state
        state.catch_up()
        self._revision = state.revision
        self.window = state.window(self.size)
        newest = state.store.moves(state.id, self.size, most=1)
        self._base = newest[0].number if newest else 0
        move = next(self._moves(), None)
        projection = None
        if move is not None and move.projection_id is not None:
            projection = state.projection(move.projection_id)
        self._take(projection, settled=move is not None and move.kind != "compress")

    def _moves(self, most: int = MOST_MOVES) -> Iterator[Move]:
        """The moves of the window that lie on the open branch, newest first."""
        state = self._state
        rows = state.store.moves(state.id, self.size, most=most)
        return (m for m in rows if state.covers(m.branch_id, m.at))

    def _take(self, projection: Projection | None, *, settled: bool = False) -> None:
        """Go on from a projection. `settled` is for what somebody chose to go back to: it is not
        compressed again before it must be.
        """
        state = self._state
        preface = state.preface()
        self._fold = Fold(state.history, aside=state.aside(preface), goals=preface)
        self.projection = projection
        if projection is not None:
            self._fold.take(projection)
        self._trigger = self.window.trigger
        settled = settled and self._tokens_until(self.window.usable) <= self.window.usable
        if settled:
            self._fold.follow(len(state.history))
        if settled or self._fold.tokens > self.window.target:
            between = (self._fold.tokens + self.window.usable) // 2
            self._trigger = min(max(self.window.trigger, between), self.window.usable)
        self._due = self._fold.tokens > self._trigger

    def _tokens_until(self, limit: int) -> int:
        """Tokens of the prompt with the messages that were not looked at yet, the newest first;
        counts no further than up to a limit.
        """
        history, total = self._state.history, self._fold.tokens
        position = len(history)
        while position > self._fold.seen and total <= limit:
            position -= 1
            total += history.tokens(position)
        return total

    # --- keeping it up to date --------------------------------------------------------------------

    async def refresh(self) -> None:
        """Take in new messages, and compress if the trigger is passed.

        Raises:
            CannotFit: what may not be shortened exceeds the usable window.
        """
        if self._is_current() and self._fold.seen == len(self._state.history) and not self._due:
            return
        async with self._alone():
            if not self._is_current():
                self.reload()
            await self._refresh()

    def _is_current(self) -> bool:
        """Take in what other writers did; whether nothing is in force that this has not seen."""
        state = self._state
        state.catch_up()
        if state.revision != self._revision:
            return False
        newest = state.store.moves(state.id, self.size, most=1)
        return (newest[0].number if newest else 0) == self._base

    async def _refresh(self) -> None:
        if len(self._state.history) - self._fold.seen > BACKLOG:
            total = self._tokens_until(self._trigger)
            if total > self._trigger:
                self._due = True
                await self._compress(self.window.target, total)
                return
        self.follow()
        if self._due:
            await self._compress(self.window.target, self._fold.tokens)
        else:
            self._decided(self._fold.tokens, "below the trigger")

    def follow(self) -> None:
        """Take in new messages without compressing."""
        self._fold.follow(len(self._state.history))
        self._due = self._fold.tokens > self._trigger

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """One compression at a time: where the summarizer waits, others wait for it, in whatever
        loop or thread they run.
        """
        while not self._mutex.acquire(blocking=False):
            import asyncio

            await asyncio.sleep(POLL_SECONDS)
        try:
            yield
        finally:
            self._mutex.release()

    # --- compressing ------------------------------------------------------------------------------

    async def compress(self, limit: int) -> Plan:
        """Compress to `limit` tokens now; where the floor needs more, to what it needs, up to the
        usable window.

        Raises:
            CannotFit: what may not be shortened exceeds the usable window.
        """
        async with self._alone():
            return await self._compress(limit, self._fold.tokens, asked=True)

    async def _compress(self, limit: int, tokens: int, *, asked: bool = False) -> Plan:
        self._decided(tokens, "asked for" if asked else "above the trigger", triggered=True)
        for _ in range(MOST_ROUNDS):
            try:
                proposal = await self._proposed(limit, tokens)
                self.commit(proposal)
            except Superseded:
                before = tokens
                self.reload()  # the other one's result counts, where it is enough
                self.follow()
                tokens = self._fold.tokens
                if tokens <= limit if asked else not self._due:
                    return reporting.found(self._state.history, limit, before, self._fold.context())
                continue
            self.follow()
            return proposal.plan
        raise Superseded("other writers compressed this session faster, again and again")

    async def _proposed(self, limit: int, tokens: int) -> Proposal:
        try:
            return await self.propose(limit, tokens)
        except CannotFit:
            if limit >= self.window.usable:
                raise
            return await self.propose(self.window.usable, tokens)

    async def propose(self, limit: int, tokens: int, rung: Rung | None = None) -> Proposal:
        """A new context over the history as it is now; nothing is in force yet.

        `tokens` are those of the prompt now. `rung` tightens what is kept.

        Raises:
            CannotFit, SummaryRejected: there is none; the context before stays.
        """
        state, breaker = self._state, self._breaker
        goals = tuple(g.text for g in state.goals if g.status == "active")
        standing = replace(self._standing(tokens), goals=goals)
        hard = self.window.usable
        if rung is not None:
            standing = replace(standing, pressure=rung.pressure)
            hard = limit if rung.tight else hard
        resting = breaker.is_open
        drafts.begin_draft(state, self.size, self._base)
        try:
            proposal = await pipeline.compress(
                state.history,
                rung.tightened(state.policy) if rung else state.policy,
                budget=Budget(limit, self._fold.aside, hard=hard),
                summarizer=ExtractiveSummarizer(state.counter) if resting else state.summarizer,
                emit=state.emit,
                standing=standing,
            )
        except BaseException:
            drafts.end_draft(state, self.size)
            raise
        if proposal.asked and not resting:
            breaker.failed() if proposal.replaced else breaker.succeeded()
        return proposal

    def _standing(self, tokens: int) -> Standing:
        caps = Caps(self.window.usable)
        if self.projection is not None:
            return standing_of(self.projection, caps, tokens=tokens)
        before = _start_of_tail(self._state.history, self.window.target - self._fold.aside)
        others = (
            adopted(projection, caps, before=before, tokens=tokens)
            for projection in self._of_other_windows(before)
        )
        bare = standing_of(None, caps, tokens=tokens)
        return max(others, key=lambda standing: standing.cut, default=bare)

    def _of_other_windows(self, before: int) -> Iterator[Projection]:
        """Projections of any window on the open branch that this one may begin with: the newest
        ones, and the newest of which nothing stands for messages from position `before` on.
        """
        state = self._state
        for looked, move in enumerate(state.store.moves(state.id, None, most=MOST_MOVES)):
            if move.projection_id is None or not state.covers(move.branch_id, move.at):
                continue
            if looked < MOST_LOOKED_AT or move.at <= before:
                yield state.projection(move.projection_id)
            if move.at <= before:
                return

    def commit(self, proposal: Proposal) -> None:
        """Put a proposal in force.

        Raises:
            Superseded: another one came in between.
        """
        state, before = self._state, self.projection
        projection = Projection(
            window=self.size,
            number=proposal.number,
            at=proposal.at,
            cut=proposal.cut,
            kept=proposal.kept,
            pieces=proposal.pieces,
            checkpoints=proposal.checkpoints,
            tokens=proposal.plan.tokens_after - self._fold.aside,
            parent=before.id if before else None,
        )
        move = self._step("compress", projection, proposal.at)
        state.emit(
            Committed(move=move.number, window=self.size, checkpoints=len(proposal.checkpoints))
        )
        self.plan = proposal.plan
        self._base = move.number
        self._take(projection)
        state.history.forget(proposal.cut, frozenset(proposal.kept))

    def go(self, kind: MoveKind, projection: Projection | None, *, at: int) -> Move:
        """Put another projection in force, on the branch that is open now."""
        self.reload()
        move = self._step(kind, projection, at)
        self.reload()
        return move

    def _step(self, kind: MoveKind, projection: Projection | None, at: int) -> Move:
        """Commit a change of what is in force for the window.

        Raises:
            Superseded: another one came in between.
        """
        state = self._state
        return state.store.commit(
            Step(
                kind=kind,
                session_id=state.id,
                branch_id=state.branch_id,
                window=self.size,
                base=self._base,
                at=at,
                projection=projection,
                forget=(f"{drafts.PREFIX}{self.size}",),
            )
        )

    def _decided(self, tokens: int, reason: str, *, triggered: bool = False) -> None:
        if self._state.emit is nobody:  # asked at every turn
            return
        trigger = self._trigger
        self._state.emit(
            TriggerDecision(triggered=triggered, tokens=tokens, trigger=trigger, reason=reason)
        )


def _start_of_tail(history: History, room: int) -> int:
    """Where the newest messages start that take so many tokens."""
    position, total = len(history), 0
    while position > 0 and total <= room:
        position -= 1
        total += history.tokens(position)
    return position

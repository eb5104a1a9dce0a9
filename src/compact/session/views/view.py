"""A view: the active context of one session for one window, updated as messages come.

Each new message is appended to the view. When the prompt passes the trigger, the pipeline proposes
a new context, made from the history at that time. It is committed, unless another process committed
one first; then that one is used. So the work of a turn depends on the number of its new messages,
not on the length of the history.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar

from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.engine.inputs import Budget, LadderRung, Standing, Wanted, adopted, standing_of
from compact.engine.plan import Plan, as_it_is, weighed, why_no_more
from compact.engine.prompt_order import Fold
from compact.errors import CannotFit, CompactError, Superseded, failing_at
from compact.messages.budget import ContextWindow, WindowUse
from compact.messages.checkpoints import Caps, Checkpoint
from compact.messages.context import ActiveContext
from compact.messages.events import Committed, ErrorRaised, TriggerDecision, WindowCapped
from compact.messages.goals import open_tasks
from compact.messages.messages import SYSTEM_ROLES
from compact.messages.protocols import Version
from compact.messages.sessions import Destination, Move, MoveKind, Projection
from compact.messages.tokens import TokenCounter
from compact.secrets.redaction import redact
from compact.session.running import Exclusive
from compact.session.state import NEWEST_MOVES
from compact.session.views import drafts
from compact.session.views.breaker import Breaker
from compact.session.views.drafts import DRAFT, BackgroundDraft, Draft, DraftBase, projected
from compact.session.views.recalled_turns import KIND, RecalledTurns
from compact.text.speakers import speaker_of
from compact.wiring import ignore_event

if TYPE_CHECKING:
    from compact.engine.history import History
    from compact.messages.goals import Goal
    from compact.messages.overflow import Calibration
    from compact.session.history import SessionHistory
    from compact.session.prompting import Preamble
    from compact.session.state import SessionState

MOST_LOOKED_AT = 8
"""This many of the newest moves are all considered."""


def standing_in(view: View, *, overhead_tokens: int, tokens: int) -> Standing:
    """Return what a window's next compression starts from. A window without a projection takes over
    the checkpoints of another window: those that cover most, but leave the newest messages to this
    window.
    """
    caps = Caps(view.window.usable)
    if view.projection is not None:
        return standing_of(view.projection, caps, tokens=tokens)
    before = _start_of_tail(view.history, view.window.target - overhead_tokens)
    projections = _others(view.state, view.size, before)
    others = (adopted(other, caps, before=before, tokens=tokens) for other in projections)
    bare = standing_of(None, caps, tokens=tokens)
    return max(others, key=lambda standing: standing.cut, default=bare)


def _others(state: SessionState, size: int, before: int) -> Iterator[Projection]:
    """Yield projections of other windows on the open branch: the newest ones, and the newest one
    made before position `before`.
    """
    for looked, move in enumerate(state.moves()):
        if move.window == size or move.projection_id is None:
            continue
        if looked < MOST_LOOKED_AT or move.at <= before:
            yield state.projection(move.projection_id)
        if move.at <= before:
            return


def _start_of_tail(history: History, room: int) -> int:
    """Return the last position from which the messages to the end exceed `room` tokens."""
    position, total = len(history), 0
    while position > 0 and total <= room:
        position -= 1
        total += history.tokens(position)
    return position


MOST_WINDOWS = 10
"""To say how large a prompt was, new messages are counted until they fill this many windows."""
BACKLOG = 64
"""If more messages than this are new, the end of the history is counted first."""
ABOVE, ASKED = "above the trigger", "asked for"
"""The reasons for a compression that events give."""
MOST_RESERVED = 0.5
"""The largest share of a window to keep free for an answer, if the provider's window turned out
smaller than was known."""
COMMIT = "commit"
"""The name, in errors, of the stage after the stages of the pipeline."""
MOST_ROUNDS = 5
"""How often in a row other processes may commit first before this one gives up."""

T = TypeVar("T")
LastResort = Callable[[CompactError], Awaitable[Plan]]
"""Called if a compression failed and the old context does not fit."""


class View:
    """The active context of a session for one tokenizer and one window."""

    def __init__(
        self, state: SessionState, counter: TokenCounter, size: int, breaker: Breaker
    ) -> None:
        self.state, self.counter, self.size = state, counter, size
        self.window = self.window_now()
        if self.window.size < size:
            state.emit(WindowCapped(asked=size, size=self.window.size))
        self.plan: Plan | None = None
        """What the last compression did."""
        self.projection: Projection | None = None
        """The compressed context that the view continues; None if the history is not compressed."""
        self._breaker = breaker
        self.background = BackgroundDraft(state, self, breaker)
        self._alone = Exclusive()
        self.recalled = RecalledTurns(self)
        self._base = 0
        """The number of the window's newest move, on any branch."""
        self._revision = -1
        """The session's revision from which the view was made."""
        self._seen: Version | None = None
        """The store's version when its moves were last read."""
        self._calibration = self.calibration
        self._warned_at = 0
        """The number of compressions at which a loss of trust was last reported. It is reported
        once, even if code wrote a whole context in between."""
        self._reported: set[tuple[str, int]] = set()
        """Parts of the system prompt that did not fit and were reported, with their tokens."""
        self._trigger = self.window.trigger
        """The tokens at which to compress: the window's trigger, or more if the floor leaves little
        room, so that the session is not compressed at every turn."""
        self._begun_with = 0
        """The tokens of the prompt when the view began, without recalled turns."""
        self._is_settled = False
        """Whether the user went back to where the view began."""
        self.reload()

    # --- how it is counted, and what it is made of ------------------------------------------------

    @property
    def tokenizer(self) -> str:
        """The name of the tokenizer that counts."""
        return self.counter.estimator.name

    @property
    def history(self) -> SessionHistory:
        """The history of the open branch, with this tokenizer's counts."""
        return self.state.history.counted_by(self.counter)

    @property
    def calibration(self) -> Calibration:
        """The correction of the counts that was learned from providers' reports."""
        return self.state.calibration(self.tokenizer)

    def learn(self, calibration: Calibration) -> None:
        """Correct the counts by this calibration from now on."""
        self.state.learn(self.tokenizer, calibration)

    def window_now(self) -> ContextWindow:
        """Return the window by the policy, corrected by what providers reported."""
        policy, calibration = self.state.policy_for(self.size), self.calibration
        proven, reserve = calibration.window(self.size), policy.output_reserve
        if proven < self.size:  # a reserve for a larger window could take all of this one
            reserve = min(reserve, int(proven * MOST_RESERVED))
        return ContextWindow(
            size=proven,
            output_reserve=reserve,
            trigger_ratio=policy.trigger_ratio,
            target_ratio=policy.target_ratio,
            trigger_tokens=policy.trigger_tokens,
            ratio=calibration.ratio,
        )

    def preamble(self, goals: Sequence[Goal] = (), *, mode: str | None = None) -> Preamble:
        """Return what comes before the history, with these goals. The default mode is the
        session's.
        """
        state = self.state
        wanted = mode or state.policy.mode
        made = state.prompting.preamble(self.counter, wanted, self.size, tools=state.gives_tools)
        return state.prompting.with_goals(self.counter, made, goals)

    def fold(self, preamble: Preamble) -> Fold:
        """Return the uncompressed history as a context to which messages are appended."""
        return Fold(
            self.history,
            overhead_tokens=preamble.tokens,
            goals=preamble.goals,
            opening=preamble.message,
            extras=preamble.extras,
            strict_turns=self.state.setting.strict_turns,
        )

    # --- what is in view --------------------------------------------------------------------------

    @property
    def tokens(self) -> int:
        """How many tokens the prompt has now, without new messages that were not taken in yet."""
        return self._fold.tokens

    @property
    def tokens_now(self) -> int:
        """How many tokens the prompt has, with the new messages that were not taken in yet."""
        history = self.history
        return self._fold.tokens + sum(map(history.tokens, range(self._fold.seen, len(history))))

    @property
    def cut(self) -> int:
        """The position from which all messages are shown. Before it, only some are shown."""
        return self.projection.cut if self.projection is not None else 0

    @property
    def overhead_tokens(self) -> int:
        """How many tokens are sent besides the messages of the history."""
        return self._fold.overhead_tokens

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The checkpoints in force, oldest span first."""
        return self._fold.checkpoints

    def corrected(self) -> None:
        """Use the window's corrected size after a provider reported its counts."""
        with self.state.lock:
            self._calibration = self.calibration
            self.window = self.window_now()
            self._trigger = self._trigger_now()

    def rendered(self) -> list[dict[str, Any]]:
        """Return the messages to send, as the provider's dictionaries."""
        return self._fold.rendered()

    def places(self, *, as_values: bool) -> list[tuple[int, ...]]:
        """Return the positions of the messages that stand in each message to send: in those of
        `rendered`, or `as_values` in those of `context().sent`.
        """
        return self._fold.sent_places() if as_values else self._fold.places()

    def shown_whole(self) -> frozenset[int]:
        """Return the positions of the messages that the prompt shows unchanged."""
        return self._fold.shown_whole()

    def context(self) -> ActiveContext:
        """Return the active context as a value."""
        return self._fold.context()

    def reload(self) -> None:
        """Load the projection that the store has for the window now."""
        state = self.state
        with state.lock:
            state.catch_up()
            moves = state.store.moves(state.id, self.size, most=NEWEST_MOVES)
            own = (m for m in moves if state.covers(m.branch_id, m.at))
            move = next(own, None)
            projection = None
            if move is not None and move.projection_id is not None:
                projection = state.projection(move.projection_id)
            self._base = moves[0].number if moves else 0
            self._revision, self._calibration = state.revision, self.calibration
            self.window = self.window_now()
            self._take(projection, settled=move is not None and move.kind != "compress")

    def refresh(self) -> None:
        """Load what another view or process changed. The caller holds the session's lock."""
        state = self.state
        version = state.catch_up()
        is_changed = version is None or version != self._seen
        if state.revision != self._revision or (is_changed and self._newest_move() != self._base):
            self.reload()
        else:
            if self.recalled.is_other(self.projection, is_changed=is_changed):
                self._show_again()
            if self.calibration is not self._calibration:
                self.corrected()
        self._seen = version  # last, so that after an error it is read again

    def _newest_move(self) -> int:
        newest = self.state.store.moves(self.state.id, self.size, most=1)
        return newest[0].number if newest else 0

    def _take(self, projection: Projection | None, *, settled: bool = False) -> None:
        """Continue from a projection. `settled` says that the user went back to it. Then it is not
        compressed again before that is necessary.
        """
        fold, is_counted = self._show(projection, settled=settled)
        self._is_settled = settled
        self._begun_with = fold.tokens - fold.recalled_tokens
        if projection is not None and is_counted:  # whatever reasoning is no longer sent by now
            self._begun_with = projection.tokens + fold.overhead_tokens
        self._trigger = self._trigger_now()

    def _trigger_now(self) -> int:
        """Return the trigger by the window's size and what the view began with."""
        window, tokens = self.window, self._begun_with
        if self._is_settled:
            return window.usable
        if tokens <= window.target:
            return window.trigger
        return min(max(window.trigger, (tokens + window.usable) // 2), window.usable)

    def _show(self, projection: Projection | None, *, settled: bool = False) -> tuple[Fold, bool]:
        """Show a projection. Return the fold, and whether the projection's count was taken."""
        goals = self.state.goals_shown(projection, len(self.history))
        fold = self.fold(self.preamble(goals))
        fold.recalled = self.recalled.shown(projection)
        is_counted = False
        if projection is not None:
            is_counted = self.state.counted_by(projection) == self.tokenizer
            is_counted = is_counted and not self.history.shows_other_system and not settled
            fold.take(projection, counted=is_counted)
        self._fold, self.projection = fold, projection
        return fold, is_counted

    def _tokens_until(self, limit: int) -> int:
        """Return the prompt's tokens with all new messages, counted from the newest one back. Stop
        when `limit` is passed.
        """
        history, total = self.history, self._fold.tokens
        position = len(history)
        while position > self._fold.seen and total <= limit:
            position -= 1
            total += history.tokens(position)
        return total

    # --- keeping it up to date --------------------------------------------------------------------

    async def fit(self, take: Callable[[], T], otherwise: LastResort) -> T:
        """Take in new messages, compress if the trigger is passed, and return what `take` returns.
        If compressing fails, the old context is used as long as it fits. If it does not fit,
        `otherwise` is called.

        Raises:
            CannotFit: what may not be shortened is larger than the usable window.
        """
        for _ in range(MOST_ROUNDS):
            self._look()
            with self.state.lock:
                if self._settle():
                    tokens = self._fold.tokens
                    self.decided("below the trigger", tokens=tokens)
                    self.background.consider(tokens - self._fold.recalled_tokens, self._trigger)
                    return take()
            with self.alone():
                await self._round(otherwise)
        with self.state.lock:
            if self._fold.tokens <= self.window.usable:
                return take()
        raise Superseded("other writers changed this session faster, again and again")

    async def _round(self, otherwise: LastResort) -> None:
        with self.state.lock:
            if self._settle():
                return None  # another caller has done it meanwhile
            tokens, ready = self.tokens_before(), self.background.take()
        with suppress(Superseded):  # the other process's result is used, if it is small enough
            try:
                if ready is not None:
                    self.decided("above the trigger, drafted ahead", triggered=True, tokens=tokens)
                    return self.commit(ready)
                await self._compress(self.window.target, tokens, ABOVE)
            except Superseded:
                raise
            except CompactError as error:
                await self._failed(error, otherwise)

    async def compress(
        self,
        limit: Callable[[bool], Wanted],
        otherwise: LastResort | None = None,
        *,
        guidance: str = "",
    ) -> Plan:
        """Take in new messages, and compress to the number of tokens that `limit` returns. `limit`
        is told whether a due compression was made just before. If the floor is larger than the
        limit, the result is as large as the floor. A context within the limit does not change.
        `guidance` says in the user's words what to keep. If compressing fails, the context does not
        change, and the plan says why.

        Raises:
            CannotFit: what may not be shortened is larger than the usable window.
        """
        plan, asked = None, None
        with self.alone():
            for _ in range(MOST_ROUNDS):
                with self.state.lock:
                    late = not self._settle() and self._is_behind()
                    asked = asked or (None if late else limit(plan is not None))
                    wanted, why = asked or Wanted(self.window.target)
                    wanted, reason = min(wanted, self.window.usable), ASKED if asked else ABOVE
                    before = self.tokens_before()
                    if before <= wanted and asked:
                        return plan or self._left(wanted, before, why)
                try:
                    plan = (await self._compress(wanted, before, reason, guidance)).owned()
                except Superseded:
                    continue  # the other process's result is used, if it is small enough
                except CompactError as error:
                    return await self._failed(error, otherwise)
                if reason == ASKED:
                    return weighed(plan, wanted)
        raise Superseded("other writers compressed this session faster, again and again")

    def _left(self, limit: int, tokens: int, why: str) -> Plan:
        self.decided(why or "within what was asked for", tokens=tokens)
        return as_it_is(self.history, limit, self._fold.context(), why)

    async def _failed(self, error: CompactError, otherwise: LastResort | None) -> Plan:
        """Continue after a failed compression. If the old context fits, use it, and try again when
        it has grown. Else use the last resort.

        Raises:
            CompactError: nothing fits. This is the given error, or that of the last resort.
        """
        state, usable = self.state, self.window.usable
        with state.lock:
            if self._tokens_until(usable) <= usable:
                self.follow()
            tokens = self._tokens_until(usable)
            if tokens <= usable:
                self._trigger = max(self._trigger, (tokens + usable) // 2)
                self.background.put_off(tokens)
                state.emit(ErrorRaised.of(error, error.stage or DRAFT, serves="the context before"))
                why = redact(f"compressing failed: {error}", state.history.secrets).text
                return as_it_is(self.history, usable, self._fold.context(), why)
        # the floor alone is too large
        is_hopeless = isinstance(error, CannotFit) and error.total > usable
        try:
            if otherwise is None or is_hopeless:
                raise error
            return await otherwise(error)
        except Superseded:
            raise
        except CompactError as last:
            state.emit(ErrorRaised.of(last, last.stage or DRAFT))
            raise

    def _settle(self) -> bool:
        """Take in new messages, and return True if the trigger was not passed. The caller holds the
        session's lock.

        If many messages are new, the newest are counted first. If these alone pass the trigger, the
        others are not read.
        """
        self.refresh()
        if self._is_behind() and self._is_due:
            self._leave_out_recalled()
            return False
        if self.recalled.take(self.projection, self._fold, lambda: self._trigger - self.tokens_now):
            self._show_again()
        self.follow()
        if not self._is_due:
            return True
        self._leave_out_recalled()
        return not self._is_due

    @property
    def _is_due(self) -> bool:
        return self._tokens_until(self._trigger) > self._trigger

    def draft_ahead(self) -> None:
        """Begin to draft the compression that the next prompt will need, if a model writes it."""
        with self.state.lock:
            tokens = self.tokens_now - self._fold.recalled_tokens
            self.background.consider(tokens, self._trigger)

    def _leave_out_recalled(self) -> None:
        """Leave out recalled turns, to make room before anything is compressed."""
        if self._fold.recalled_tokens:
            self.recalled.drop(self.projection)
            self._show_again()

    def _show_again(self) -> None:
        """Show the same messages again, with the recalled turns that apply now."""
        position = self._fold.seen
        self._show(self.projection)
        self._fold.follow(position)

    def _look(self) -> None:
        """Search memory for turns that the user's newest message is about. The session's lock is
        held only while new messages are read, not during the search.
        """
        if self.state.recall is not None:
            with self.state.lock:
                self.refresh()
                view, new = self._fold.placed(), range(self._fold.seen, len(self.state.history))
            self.recalled.look(self.projection, [*(p for p, _ in view if p is not None), *new])

    def tokens_before(self) -> int:
        """Count the prompt with all new messages; only a part of them if they are very many."""
        if not self._is_behind():
            return self._fold.tokens
        if self._fold.seen == 0 and self.counter is self.state.counter:
            return self._fold.overhead_tokens + self.history.total()
        return self._tokens_until(MOST_WINDOWS * self.window.usable)

    def _is_behind(self) -> bool:
        return len(self.state.history) - self._fold.seen > BACKLOG

    def follow(self) -> None:
        """Take in new messages without compressing."""
        self._fold.follow(len(self.state.history))

    def alone(self) -> AbstractContextManager[None]:
        """Wait for this view's turn to compress. Only one compression runs at a time."""
        return self._alone.turn()

    # --- compressing ------------------------------------------------------------------------------

    async def _compress(self, limit: int, tokens: int, reason: str, guidance: str = "") -> Plan:
        """Compress the history as it is now.

        Raises:
            Superseded: the session changed meanwhile, and that change is kept.
            CompactError: no new context could be made or stored.
        """
        self.decided(reason, triggered=True, guidance=guidance, tokens=tokens)
        draft = self._dropped(limit, tokens) if reason == ABOVE else None
        draft = draft or await self.propose(limit, tokens, guidance=guidance)
        plan = draft.proposal.plan
        if plan.tokens_after >= tokens and reason == ASKED:
            drafts.end_draft(self.state, self.size)
            return self._left(limit, tokens, why_no_more(plan.floor, tokens))
        self.commit(draft)
        return plan

    async def propose(
        self, limit: int, tokens: int, rung: LadderRung | None = None, *, guidance: str = ""
    ) -> Draft:
        """Draft a new context from the history as it is now. Prompts do not use it yet. `tokens` is
        how many tokens the prompt has now. `rung` (of the emergency ladder) keeps less.

        Raises:
            CompactError: no new context could be made; the old one stays.
        """
        from compact.engine import pipeline  # the first compression loads the engine

        state, breaker = self.state, self._breaker
        with failing_at(DRAFT), state.lock:
            ground, history = self.ground(), self.history
            overhead = self.preamble(state.goals).parts
            overhead_tokens = sum(overhead.values())
            goals = tuple(goal.text for goal in state.goals if goal.is_active)
            standing = standing_in(self, overhead_tokens=overhead_tokens, tokens=tokens)
            standing = replace(standing, goals=goals, open_tasks=open_tasks(state.goals))
        hard = self.window.usable
        if rung is not None:
            standing = replace(standing, pressure=rung.pressure)
            hard = limit if rung.tight else hard
        summarizer = breaker.summarizer(self.counter)
        policy = state.policy_for(self.size)
        if rung is not None:
            policy = rung.tightened(policy)
        if guidance:
            policy = policy.model_copy(update={"guidance": guidance})
        policy = state.prompting.asked(policy)
        try:
            with failing_at(DRAFT):
                drafts.begin_draft(state, self.size, self._base)
            with state.reading.finished():
                proposal = await pipeline.compress(
                    history,
                    policy,
                    budget=Budget(limit, overhead, hard=hard, words=self.window.words),
                    summarizer=summarizer,
                    emit=state.emit,
                    standing=standing,
                )
            drafts.refuse_mixed(proposal)
            if not isinstance(summarizer, ExtractiveSummarizer):
                breaker.heard(proposal)
        except BaseException:
            drafts.end_draft(state, self.size)
            raise
        return Draft(proposal, ground, overhead_tokens)

    def _dropped(self, limit: int, tokens: int) -> Draft | None:
        """Draft a context without the oldest groups, if nothing is summarized. None if that is not
        enough, or was never done.
        """
        state, projection = self.state, self.projection
        if state.policy.strategy != "off" or projection is None:
            return None
        from compact.engine.dropping import without_oldest

        with failing_at(DRAFT), state.lock:
            if self._fold.seen < len(state.history) or self._fold.recalled_tokens:
                return None
            preamble = self.preamble(state.goals)
            proposal = without_oldest(
                self.history,
                state.policy_for(self.size),
                Budget(limit, preamble.parts, hard=self.window.usable, words=self.window.words),
                standing_of(projection, Caps(self.window.usable), tokens=tokens),
                self._fold.placed(),
            )
            return Draft(proposal, self.ground(), preamble.tokens) if proposal else None

    def ground(self) -> DraftBase:
        """Return the state that a draft begun now would be based on."""
        state = self.state
        return DraftBase(self._base, state.branch_id, state.revision)

    def commit(self, draft: Draft) -> None:
        """Store a draft, use it from now on, and take in the messages that came meanwhile.

        Raises:
            Superseded: the session changed since the draft was begun.
            StoreFailed: the draft could not be stored.
        """
        state, proposal = self.state, draft.proposal
        with state.lock:
            before = self.projection
            projection = projected(draft, self.size, before)
            try:
                move = self._committed(draft.ground, projection)
            except CompactError:
                drafts.end_draft(state, self.size)
                raise
            self.plan, self._base = proposal.plan, move.number
            self._take(projection)
            state.history.forget(proposal.cut, frozenset(proposal.kept))
            self.follow()
        proposal.tell(state.emit)
        state.emit(
            Committed(move=move.number, window=self.size, checkpoints=len(proposal.checkpoints))
        )
        if before is not None and (trust := state.trust(before)) and trust.warning:
            self._warned_at = before.number
        state.tell_trust(self.size, projection, before=self._warned_at)

    def _committed(self, ground: DraftBase, projection: Projection) -> Move:
        if ground != self.ground():
            raise Superseded(f"window {self.size}: the session changed in between")
        state = self.state
        there = Destination(state.branch_id, projection.at, projection)
        step = drafts.step_to(there, "compress", state.id, self.size, self._base)
        step = step.model_copy(update={"notes": state.counted_noted(projection, self.tokenizer)})
        with failing_at(COMMIT):
            return state.store.commit(step)

    def go(self, kind: MoveKind, choose: Callable[[], Destination]) -> Move:
        """Go to the destination that `choose` returns, in one transaction. If another process moved
        the session meanwhile, `choose` is called again for the new state.

        Raises:
            Superseded: other processes changed the session first, at every try.
        """
        state = self.state
        with state.lock:
            for _ in range(MOST_ROUNDS):
                self.reload()
                try:
                    step = drafts.step_to(choose(), kind, state.id, self.size, self._base)
                    move = state.store.commit(step)
                except Superseded:
                    continue
                if move.branch_id != state.branch_id:
                    state.open(state.store.branch(move.branch_id))
                self.reload()
                return move
        raise Superseded("other writers changed this session faster, again and again")

    def decided(self, reason: str, **fields: Any) -> None:  # noqa: ANN401 - the event's fields
        """Report whether the window is compressed, if anybody listens."""
        state, guidance = self.state, fields.pop("guidance", "")
        if state.emit is ignore_event:  # called at every turn
            return
        self._report_prompt()
        fields = {"trigger": self._trigger, "triggered": False, **fields}
        event = TriggerDecision(window=self.size, reason=reason, **fields)
        state.emit(state.with_policy(event, guidance))

    def _report_prompt(self) -> None:
        """Report once what does not fit into the system prompt."""
        state, history = self.state, self.history
        leading = takewhile(lambda i: history[i].role in SYSTEM_ROLES, range(len(history)))
        own = sum(map(history.tokens, leading))
        for event in state.prompting.over_budget(self.counter, state.policy.mode, self.size, own):
            if (found := (event.part, event.tokens)) not in self._reported:
                self._reported.add(found)
                state.emit(event)


# --- where the tokens are -------------------------------------------------------------------------

_BESIDE = frozenset(("prompt", "goals"))
"""Sources of messages that are counted apart from the history's messages."""


def use_of(view: View) -> WindowUse:
    """Return how many tokens each part of the prompt has, with new messages. Compresses nothing.
    The parts add up to the whole prompt. If very many messages are new, counting stops when the
    prompt is clearly far too large.
    """
    state = view.state
    with state.lock:
        view.refresh()
        context, used = view.context(), view.tokens_before()
        if used == view.tokens:  # few messages are new, if any
            used = view.tokens_now
        goals = view.preamble(state.goals).parts.get("goals", 0)
        beside = view.overhead_tokens
    goals = min(goals, beside)
    parts = _of_messages(context, view.counter)
    system = min(used, beside - goals + parts["system"])
    others = system + goals + parts["checkpoint"] + parts["recalled"]
    return WindowUse(
        system=system,
        goals=goals,
        checkpoints=parts["checkpoint"],
        recalled=parts["recalled"],
        recent=max(0, used - others),
        usable=view.window.usable,
        exact=view.counter.exact,
    )


def _of_messages(context: ActiveContext, counter: TokenCounter) -> dict[str, int]:
    parts = dict.fromkeys(("system", "checkpoint", "recalled"), 0)
    for message in context.messages:
        speaker = speaker_of(message)
        if speaker == "injected" and message.text.startswith(f"[{KIND} "):
            parts["recalled"] += counter.message(message)
        elif speaker in parts and message.metadata.source not in _BESIDE:
            parts[speaker] += counter.message(message)
    return parts

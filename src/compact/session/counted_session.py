"""A session as one tokenizer counts it.

A session has one tokenizer of its own. A prompt for a model with another tokenizer is made by that
tokenizer's counts, because a prompt that fits by one may be far too large by the other. Only the
counts differ; the session, its history and its log are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from compact.engine.prompt_order import Fold
from compact.messages.budget import ContextWindow
from compact.messages.events import TriggerDecision
from compact.messages.messages import SYSTEM_ROLES, Message
from compact.wiring import ignore_event

if TYPE_CHECKING:
    from compact.messages.goals import Goal
    from compact.messages.overflow import Calibration
    from compact.messages.sessions import Projection
    from compact.messages.tokens import TokenCounter
    from compact.session.history import SessionHistory
    from compact.session.prompting import Preamble
    from compact.session.state import SessionState

MOST_RESERVED = 0.5
"""The largest share of a window to keep free for an answer, if the provider's window turned out
smaller than was known."""


class CountedSession:
    """The counts of a session by one tokenizer."""

    def __init__(self, state: SessionState, counter: TokenCounter) -> None:
        self.state = state
        self.counter = counter
        self._reported: set[tuple[int, str, int]] = set()
        """Window, part and tokens of the parts of system prompts that did not fit and were reported
        already."""

    @property
    def tokenizer(self) -> str:
        """The tokenizer's name."""
        return self.counter.estimator.name

    @property
    def history(self) -> SessionHistory:
        """The history of the open branch, with these counts."""
        return self.state.history.counted_by(self.counter)

    @property
    def calibration(self) -> Calibration:
        """The correction of the counts that was learned from providers' reports."""
        return self.state.calibration(self.tokenizer)

    def learn(self, calibration: Calibration) -> None:
        """Correct the counts by this calibration from now on."""
        self.state.learn(self.tokenizer, calibration)

    def window(self, size: int) -> ContextWindow:
        """Return the window of a size: by the policy, corrected by what providers reported."""
        policy, calibration = self.state.policy_for(size), self.calibration
        proven, reserve = calibration.window(size), policy.output_reserve
        if proven < size:  # a reserve for a larger window could take all of this one
            reserve = min(reserve, int(proven * MOST_RESERVED))
        return ContextWindow(
            size=proven,
            output_reserve=reserve,
            trigger_ratio=policy.trigger_ratio,
            target_ratio=policy.target_ratio,
            trigger_tokens=policy.trigger_tokens,
            ratio=calibration.ratio,
        )

    def preamble(
        self, size: int, goals: Sequence[Goal] = (), *, mode: str | None = None
    ) -> Preamble:
        """Return what comes before the history in a window of that size, with these goals. The
        default mode is the session's.
        """
        state = self.state
        wanted = mode or state.policy.mode
        made = state.prompting.preamble(self.counter, wanted, size, tools=state.gives_tools)
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

    def going_on(
        self,
        size: int,
        projection: Projection | None,
        recalled: Mapping[int, Message],
        *,
        settled: bool,
    ) -> Fold:
        """Return a context that continues a projection. `recalled` is position → the recalled
        message shown before it. `settled` means that the user went back to this projection.
        """
        goals = self.state.goals_shown(projection, len(self.history))
        fold = self.fold(self.preamble(size, goals))
        fold.recalled = recalled
        if projection is not None:
            fold.take(projection, counted=self.has_counted(projection) and not settled)
        return fold

    def has_counted(self, projection: Projection) -> bool:
        """Return whether this tokenizer counted the projection's tokens."""
        return self.state.counted_by(projection) == self.tokenizer

    def noted(self, projection: Projection) -> dict[str, Mapping[str, Any]]:
        """Return a note which says that this tokenizer counted the projection's tokens."""
        return self.state.counted_noted(projection, self.tokenizer)

    def report_decision(
        self,
        size: int,
        reason: str,
        *,
        triggered: bool = False,
        guidance: str = "",
        **told: Any,  # noqa: ANN401 - the event's fields
    ) -> None:
        """Report whether the window of that size is compressed, if anybody listens."""
        state = self.state
        if state.emit is ignore_event:  # called at every turn
            return
        self.report_prompt(size)
        event = TriggerDecision(window=size, reason=reason, triggered=triggered, **told)
        state.emit(state.with_policy(event, guidance))

    def report_prompt(self, size: int) -> None:
        """Report once what does not fit into the system prompt of a window of that size."""
        state, history = self.state, self.history
        leading = takewhile(lambda i: history[i].role in SYSTEM_ROLES, range(len(history)))
        own = sum(map(history.tokens, leading))
        mode = state.policy.mode
        for event in state.prompting.over_budget(self.counter, mode, size, own):
            if (found := (size, event.part, event.tokens)) not in self._reported:
                self._reported.add(found)
                state.emit(event)

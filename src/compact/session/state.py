"""An open session: its store, its history, its log of goals, modes and pins, and how its prompts
are made. What depends on a tokenizer is in `counted_session`. What depends on a window is in
`views`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from compact import forks
from compact.errors import StoreFailed
from compact.messages import clock_and_ids
from compact.messages.calibration import Calibration
from compact.messages.changes import (
    Change,
    GoalsSet,
    GoalsTracked,
    ModeSet,
    PinSet,
    PutAside,
    SystemShown,
    TurnsRecalled,
    What,
)
from compact.messages.events import TriggerDecision, TrustFaded
from compact.messages.levels import aged
from compact.messages.own_text import OwnText
from compact.models.model_keys import is_of_other
from compact.secrets.redactor import NOTHING_ELSE, Redactor
from compact.session import running
from compact.session.history import SessionHistory
from compact.session.reading_ahead import ReadingAhead
from compact.session.session_log import KnownGoals, SessionLog
from compact.wiring import Model, Writers, key_of

if TYPE_CHECKING:
    from compact.engine.prompt_order import RequestExtras
    from compact.messages.formats.wire import WireFormat
    from compact.messages.goals import Goal
    from compact.messages.messages import Message
    from compact.messages.policy import CompactPolicy
    from compact.messages.protocols import Emit, SessionStore, Summarizer, Version
    from compact.messages.reliability import Reliability
    from compact.messages.sessions import Branch, Move, Projection
    from compact.messages.tokens import TokenCounter
    from compact.models.effective_settings import Setting
    from compact.session.archiving import Archive
    from compact.session.prompting import Prompting
    from compact.session.views.recalled_turns import TurnRecall

NEWEST_MOVES, ALL_MOVES = 200, 100_000
"""Moves that are searched for what is in force, and for what was in force long ago."""
CALIBRATION, COUNTED, KEY = "calibration:", "counted:", "key:"
"""Prefixes of the session's notes: a tokenizer's calibration, the tokenizer that counted a window's
projection, and the keys of compact's own text."""


@dataclass(slots=True)
class SessionState:
    """An open session."""

    id: str
    store: SessionStore
    wire: WireFormat
    counter: TokenCounter
    """The session's own counter. The store's counts are made with it."""
    policy: CompactPolicy
    """What a person set. `policy_for` resolves it for a window."""
    setting: Setting
    """The facts of the model, its tier and the summarizer."""
    writers: Writers
    """Who writes the summaries, as chosen for the session's model."""
    summarizer: Summarizer
    choose: Callable[[Model, int], tuple[Writers, Summarizer]]
    """Chooses both for another model, in a window of so many tokens."""
    emit: Emit
    prompting: Prompting
    """What stands before the history in prompts, by mode and window."""
    tokenizer: str
    """The tokenizer of the store's counts."""
    archive: Archive | None = None
    """Keeps copies of what compressions leave behind."""
    recall: TurnRecall | None = None
    """Automatic recall. None if it is off."""
    redactor: Redactor = NOTHING_ELSE
    """Which texts are secrets, beside those that always are."""
    history: SessionHistory = field(init=False)
    own: OwnText = field(init=False)
    """Makes and recognizes compact's own text in the session."""
    goals: tuple[Goal, ...] = ()
    reading: ReadingAhead = field(default_factory=ReadingAhead)
    log: SessionLog = field(init=False)
    """Its goals, modes, pins and shown system prompts."""
    gives_tools: bool = True
    """Whether the caller's tools are sent: not to a model that calls none."""
    revision: int = 0
    """Grows with each change of branch, goals, pins or tools."""
    lock: forks.Lock = field(default_factory=forks.Lock)
    """Held while what is shown is changed or taken, never while waiting."""
    _first_mode: str = field(init=False)
    """The mode before one was set."""
    _resolved: tuple[object, CompactPolicy] | None = None
    _seen: Version | None = None
    """The store's version when the log was last read."""
    _noted: Mapping[str, Any] = field(default_factory=dict)
    """The notes on calibrations and counts."""
    _calibrations: dict[str, Calibration] = field(default_factory=dict)
    """The calibration of each tokenizer."""

    def __post_init__(self) -> None:
        self._first_mode = self.policy.mode
        self.log = SessionLog(self.store, self.id)
        self.own = self.prompting.own = OwnText(self._keys, self._first_key)

    def _keys(self) -> list[bytes]:
        notes = self.store.notes(self.id)
        return [bytes.fromhex(notes[name]["key"]) for name in sorted(notes) if name[:4] == KEY]

    def _first_key(self) -> bytes:
        """The session's key, as the store keeps it. Of two writers, the one whose note stands first
        counts. Text with the other key is recognized as well.
        """
        key = f"{clock_and_ids.new_id()}{clock_and_ids.new_id()}".encode()
        with suppress(StoreFailed):  # a file that is only read: the key lasts as long as it is open
            self.store.note(self.id, f"{KEY}{clock_and_ids.new_id()}", {"key": key.hex()})
        return next(iter(self._keys()), key)

    def open(self, branch: Branch) -> None:
        """Switch to a branch."""
        self.history = SessionHistory(
            self.store,
            branch,
            self.wire,
            self.counter,
            never_pruned=self.policy.roles_never_pruned,
            counts=self.tokenizer == self.counter.estimator.name,
        )
        self.history.secrets.redactor = self.redactor
        self.history.own = self.own
        self.history.reasoning_sent = self.setting.book.reasoning_sent_of(self.setting.model)
        self.log.open(branch)
        self._noted, self._seen = {}, None
        self.catch_up()
        self.revision += 1

    def asks(self, model: str) -> None:
        """Show the history as that model is sent it."""
        sent = self.setting.book.reasoning_sent_of(model)
        asked = is_of_other(model, self.wire.name), sent
        if asked != (self.history.asks_other, self.history.reasoning_sent):
            self.history.asks_other, self.history.reasoning_sent = asked
            self.revision += 1

    def catch_up(self) -> Version | None:
        """Take in other writers' messages, goals, pins and calibrations. Returns the store's
        version.
        """
        with self.lock:
            version = self.history.catch_up()
            if version is None or version != self._seen:
                self._take_log()
                self._seen = version
            return version

    def _take_log(self) -> None:
        with self.lock:
            self._take_notes()
            new = self.log.catch_up()
            if not new:
                return
            self.history.catch_up()  # what is said of messages comes after them
            for change in new:
                self._show(change)
            if not all(isinstance(change.what, GoalsTracked | TurnsRecalled) for change in new):
                self.revision += 1
            self.goals = self.log.goals_at(len(self.history)).goals
            self._go_on_in(self.log.mode_at(len(self.history)) or self._first_mode)

    def _show(self, change: Change) -> None:
        """Apply a change to the history's messages. A change for a message that is not there does
        nothing.
        """
        what, at, history = change.what, change.at, self.history
        if isinstance(what, SystemShown):
            history.take_system(what)
        elif at < len(history) and self.covers(change.branch_id, at + 1):
            match what:
                case PinSet():
                    (history.pin if what.is_pinned else history.unpin)(at)
                case PutAside():
                    history.put_aside(at, what.tokens)

    def _take_notes(self) -> None:
        notes = {
            name: value
            for name, value in self.store.notes(self.id).items()
            if name.startswith((CALIBRATION, COUNTED))
        }
        if notes != self._noted:
            self._noted = notes
            for name in filter(lambda name: name.startswith(CALIBRATION), notes):
                tokenizer = name.removeprefix(CALIBRATION)
                calibration = Calibration.model_validate(notes[name])
                if calibration != self._calibrations.get(tokenizer):
                    self._calibrations[tokenizer] = calibration

    def calibration(self, tokenizer: str) -> Calibration:
        """A tokenizer's calibration. It is the same object until it changes."""
        if tokenizer not in self._calibrations:
            self._calibrations[tokenizer] = Calibration()
        return self._calibrations[tokenizer]

    def learn(self, tokenizer: str, calibration: Calibration) -> None:
        """Correct a tokenizer's counts from now on."""
        if calibration != self.calibration(tokenizer):
            noted = calibration.model_dump(mode="json")
            self.store.note(self.id, f"{CALIBRATION}{tokenizer}", noted)
            self._take_notes()

    def policy_for(self, size: int) -> CompactPolicy:
        """The policy of a window of that size."""
        asked = (self.policy, self.setting, size)
        if self._resolved is None or self._resolved[0] != asked:
            self._resolved = asked, self.setting.policy(self.policy, size)
        return self._resolved[1]

    def with_policy(self, decision: TriggerDecision, guidance: str = "") -> TriggerDecision:
        """A decision with the policy that it was made by, and the window's model. `guidance` is a
        person's own.
        """
        policy, model = self.policy_for(decision.window), self.setting.model or ""
        if guidance:
            policy = policy.model_copy(update={"guidance": guidance})
        facts = {"policy": policy, "model": model, "guided": bool(policy.guidance)}
        return decision.model_copy(update=facts)

    def trust(self, projection: Projection | None) -> Reliability | None:
        """How far a context can be trusted. None if the model is not known."""
        number = projection.number if projection else 0
        is_by_model = projection is not None and projection.is_by_model
        return self.setting.reliability(number, by_model=is_by_model)

    def tell_trust(self, window: int, projection: Projection, *, before: int = 0) -> None:
        """Report that the context of a window can be trusted less, unless that was so after
        `before` compressions already.
        """
        trust = self.trust(projection)
        if trust is not None and trust.warning and before < trust.warn_after:
            self.emit(
                TrustFaded(
                    window=window,
                    compressions=trust.compressions,
                    score=trust.score,
                    warning=trust.warning,
                )
            )

    def counted_by(self, projection: Projection) -> str:
        """The tokenizer of a projection's counts: the session's, unless a note names another."""
        note = self._noted.get(f"{COUNTED}{projection.window}", {})
        return str(note["by"]) if note.get("projection") == projection.id else self.tokenizer

    def counted_noted(self, projection: Projection, by: str) -> dict[str, Mapping[str, Any]]:
        """The note that names it, for a projection that is put in force for its window."""
        if by == self.tokenizer:
            return {}
        return {f"{COUNTED}{projection.window}": {"projection": projection.id, "by": by}}

    @property
    def branch_id(self) -> str:
        """The open branch."""
        return self.history.branch_id

    def record(self, what: What, at: int, *, instead_of: Collection[int] = ()) -> None:
        """Append an entry to the session's log, at a position of the open branch, and apply it."""
        with self.lock:
            self.log.record(what, at, instead_of=instead_of)
            self._take_log()

    def set_goals(self, goals: Sequence[Goal]) -> None:
        """Set the goals from now on."""
        self.record(GoalsSet(goals=tuple(goals)), len(self.history))

    def set_mode(self, name: str) -> None:
        """Set the mode from now on, also when the session is opened again.

        Raises:
            InvalidConfig: there is no such mode.
        """
        mode = self.prompting.mode(name).name
        self._take_log()
        if mode != self.policy.mode or mode != self.mode_before(len(self.history)):
            self.record(ModeSet(mode=mode), len(self.history))
            self._go_on_in(mode)

    def _go_on_in(self, mode: str) -> None:
        if mode != self.policy.mode:
            self.policy = self.policy.model_copy(update={"mode": mode})

    def mode_before(self, position: int) -> str:
        """The mode when the session had `position` messages."""
        return self.log.mode_at(position) or self._first_mode

    def show_system(self, messages: Sequence[Message], own: str | None = None) -> int:
        """Show other words for the leading system messages, from now on and on every branch that
        begins with them. Returns how many tokens more they are. The stored messages stay. `own` are
        the client's own words in a single message.
        """
        with self.lock:
            shown, more = self.history.as_shown(messages, own)
            self.record(shown, 0, instead_of=self.log.system_shown(shown.of))
            return more

    def track_goals(self, goals: Sequence[Goal], since: KnownGoals, at: int) -> None:
        """Set goals from a position on, as changed by markers since others were known."""
        with self.lock:
            self.log.track(goals, since.since, at, [move.at for move in self.moves()])
            self._take_log()

    def goals_shown(self, since: Projection | None, position: int) -> tuple[Goal, ...]:
        """The goals that a prompt shows if it continues a projection, when the session has
        `position` messages. Changes by markers since then stay in the markers.
        """
        return self.log.goals_at(position, since.at if since else 0).goals

    @property
    def waits(self) -> bool:
        """Whether compressing may wait for something outside."""
        return self.policy.summarizes and self.writer_waits

    @property
    def writer_waits(self) -> bool:
        """Whether the summarizer may wait. If none was named, it is not asked by a call that blocks
        an event loop.
        """
        return self.summarizer.waits and not (self.writers.own and running.is_in_loop())

    def serve(self, model: Model, size: int) -> None:
        """Switch to that model, in a window of so many tokens."""
        self.writers, self.summarizer = self.choose(model, size)
        writer = self.writers.first
        self.setting = replace(self.setting, model=key_of(model), summarizer=writer)

    def projection(self, projection_id: str) -> Projection:
        """A projection of the session, with its checkpoints at the levels that they had in it."""
        projection = self.store.projection(projection_id)
        live = tuple(aged(c, projection.number) for c in projection.checkpoints)
        return projection.model_copy(update={"checkpoints": live})

    def give_tools(self, given: bool) -> None:
        """Send the caller's tools from now on, or none."""
        with self.lock:
            if given != self.gives_tools:
                self.gives_tools = given
                self.revision += 1

    def give(self, given: RequestExtras) -> None:
        """Send these beside the messages from now on.

        Raises:
            InvalidArgument: one of the tools is not a tool schema.
        """
        with self.lock:
            if self.prompting.give(self.counter, given):
                self.revision += 1

    def moves(self, window: int | None = None, *, most: int = NEWEST_MOVES) -> Iterator[Move]:
        """The moves on the open branch, for a window or for all, newest first, among the `most`
        newest.
        """
        rows = self.store.moves(self.id, window, most=most)
        return (move for move in rows if self.covers(move.branch_id, move.at))

    def covers(self, branch_id: str, at: int) -> bool:
        """Whether a position of a branch lies on the open branch."""
        return self.log.covers(branch_id, at)

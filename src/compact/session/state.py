"""The state of an open session: its store, its history, its log of goals, modes and pins, and what
its prompts begin with. `views` has what depends on a tokenizer and a window.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from compact import forks
from compact.errors import StoreFailed
from compact.messages import clock_and_ids
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
from compact.messages.checkpoints import aged
from compact.messages.events import TriggerDecision, TrustFaded
from compact.messages.overflow import Calibration
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
    from compact.wiring import TurnRecall

NEWEST_MOVES, ALL_MOVES = 200, 100_000
"""How many moves to search for the projection used now, and for one that was used long ago."""
CALIBRATION, COUNTED, KEY = "calibration:", "counted:", "key:"
"""Prefixes of the session's notes: a tokenizer's calibration, the tokenizer that counted a window's
projection, and the keys of compact's own text."""


@dataclass(slots=True)
class SessionState:
    """The state of an open session."""

    id: str
    store: SessionStore
    wire: WireFormat
    counter: TokenCounter
    """The session's own counter. The store's counts are made with it too."""
    policy: CompactPolicy
    """The policy that the user set. `policy_for` completes it for a window."""
    setting: Setting
    """The facts about the model, its tier and the summarizer."""
    writers: Writers
    """The models that write the summaries, chosen for the session's model."""
    summarizer: Summarizer
    choose: Callable[[Model, int], tuple[Writers, Summarizer]]
    """Chooses writers and summarizer for another model and a window of that many tokens."""
    emit: Emit
    prompting: Prompting
    """Makes what comes before the history in prompts, by mode and window."""
    tokenizer: str
    """The name of the tokenizer that made the store's counts."""
    archive: Archive | None = None
    """Keeps copies of what compressions take out of prompts."""
    recall: TurnRecall | None = None
    """Recalls old turns automatically; None if that is off."""
    redactor: Redactor = NOTHING_ELSE
    """Finds secrets in addition to those that are always redacted."""
    masks_recalled: bool = False
    """Whether secrets are masked in recalled messages. The MCP server sets this to the setting
    `redact`."""
    history: SessionHistory = field(init=False)
    own: OwnText = field(init=False)
    """Makes and recognizes compact's own text in the session."""
    goals: tuple[Goal, ...] = ()
    reading: ReadingAhead = field(default_factory=ReadingAhead)
    log: SessionLog = field(init=False)
    """The log of the session's goals, modes, pins and shown system prompts."""
    gives_tools: bool = True
    """Whether the caller's tools are sent. A model that cannot call tools gets none."""
    revision: int = 0
    """Increases with each change of branch, goals, pins or tools."""
    lock: forks.Lock = field(default_factory=forks.Lock)
    """Held while what is shown is changed or read, never while waiting."""
    _first_mode: str = field(init=False)
    """The mode at opening. It applies until another one is set."""
    _resolved: tuple[object, CompactPolicy] | None = None
    _seen: Version | None = None
    """The store's version when the log was last read."""
    _noted: Mapping[str, Any] = field(default_factory=dict)
    """The notes on calibrations and counts."""
    _calibrations: dict[str, Calibration] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._first_mode = self.policy.mode
        self.log = SessionLog(self.store, self.id)
        self.own = self.prompting.own = OwnText(self._keys, self._first_key)

    def _keys(self) -> list[bytes]:
        notes = self.store.notes(self.id)
        return [bytes.fromhex(notes[name]["key"]) for name in sorted(notes) if name[:4] == KEY]

    def _first_key(self) -> bytes:
        """Make the session's key and store it. Return the key that the store has first. If two
        processes stored one, text with either key is recognized.
        """
        key = f"{clock_and_ids.new_id()}{clock_and_ids.new_id()}".encode()
        with suppress(StoreFailed):  # if the file is read-only, the key lasts while it is open
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
        """Show the history in the form that may be sent to this model."""
        sent = self.setting.book.reasoning_sent_of(model)
        asked = is_of_other(model, self.wire.name), sent
        if asked != (self.history.asks_other, self.history.reasoning_sent):
            self.history.asks_other, self.history.reasoning_sent = asked
            self.revision += 1

    def catch_up(self) -> Version | None:
        """Read the messages, goals, pins and calibrations that other processes stored. Return the
        store's version.
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
            self.history.catch_up()  # the changes may be about messages that were not read yet
            for change in new:
                self._show(change)
            if not all(isinstance(change.what, GoalsTracked | TurnsRecalled) for change in new):
                self.revision += 1
            self.goals = self.log.goals_at(len(self.history)).goals
            self._go_on_in(self.log.mode_at(len(self.history)) or self._first_mode)

    def _show(self, change: Change) -> None:
        """Apply a change to the history's messages. A change for a message that the open branch
        does not have is ignored.
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
        """Return a tokenizer's calibration. It is the same object until the calibration changes."""
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
        """Return the policy for a window of that size."""
        asked = (self.policy, self.setting, size)
        if self._resolved is None or self._resolved[0] != asked:
            self._resolved = asked, self.setting.policy(self.policy, size)
        return self._resolved[1]

    def with_policy(self, decision: TriggerDecision, guidance: str = "") -> TriggerDecision:
        """Add to a decision the policy that it was made by, and the session's model. `guidance` is
        the user's own guidance for this compression.
        """
        policy, model = self.policy_for(decision.window), self.setting.model or ""
        if guidance:
            policy = policy.model_copy(update={"guidance": guidance})
        facts = {"policy": policy, "model": model, "guided": bool(policy.guidance)}
        return decision.model_copy(update=facts)

    def trust(self, projection: Projection | None) -> Reliability | None:
        """Return how far a context can be trusted; None if the model is unknown."""
        number = projection.number if projection else 0
        is_by_model = projection is not None and projection.is_by_model
        return self.setting.reliability(number, by_model=is_by_model)

    def tell_trust(self, window: int, projection: Projection, *, before: int = 0) -> None:
        """Report that a window's context can be trusted less. Something that was already true after
        `before` compressions is not reported again.
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
        """Return the tokenizer that counted a projection; by default the session's own."""
        note = self._noted.get(f"{COUNTED}{projection.window}", {})
        return str(note["by"]) if note.get("projection") == projection.id else self.tokenizer

    def counted_noted(self, projection: Projection, by: str) -> dict[str, Mapping[str, Any]]:
        """Return the note that names a projection's tokenizer; empty if it is the session's own."""
        if by == self.tokenizer:
            return {}
        return {f"{COUNTED}{projection.window}": {"projection": projection.id, "by": by}}

    @property
    def branch_id(self) -> str:
        """The id of the open branch."""
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
        """Set the session's mode. It is kept when the session is reopened.

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
        """Return the mode that the session had when it had `position` messages."""
        return self.log.mode_at(position) or self._first_mode

    def show_system(self, messages: Sequence[Message], own: str | None = None) -> None:
        """Show these messages instead of the leading system messages, on every branch that begins
        with those. The stored messages do not change. `own` are the client's own words in a single
        message.
        """
        with self.lock:
            shown = self.history.as_shown(messages, own)
            self.record(shown, 0, instead_of=self.log.system_shown(shown.of))

    def track_goals(self, goals: Sequence[Goal], since: KnownGoals, at: int) -> None:
        """Store the goals at a position, after markers changed the goals `since`."""
        with self.lock:
            self.log.track(goals, since.since, at, [move.at for move in self.moves()])
            self._take_log()

    def goals_shown(self, since: Projection | None, position: int) -> tuple[Goal, ...]:
        """Return the goals to show in a prompt that continues the projection `since`, at `position`
        messages. Later changes by markers are left out, because the prompt shows those markers.
        """
        return self.log.goals_at(position, since.at if since else 0).goals

    @property
    def waits(self) -> bool:
        """Whether compressing may wait for a model or another service."""
        return self.policy.summarizes and self.writer_waits

    @property
    def writer_waits(self) -> bool:
        """Whether the summarizer may wait. In a call that blocks an event loop, a model that the
        user did not name is not asked, so nothing waits.
        """
        return self.summarizer.waits and not (self.writers.own and running.is_in_loop())

    def serve(self, model: Model, size: int) -> None:
        """Switch to a model with a window of `size` tokens."""
        self.writers, self.summarizer = self.choose(model, size)
        writer = self.writers.first
        self.setting = replace(self.setting, model=key_of(model), summarizer=writer)

    def projection(self, projection_id: str) -> Projection:
        """Load a projection, with its checkpoints at the levels that they had then."""
        projection = self.store.projection(projection_id)
        live = tuple(aged(c, projection.number) for c in projection.checkpoints)
        return projection.model_copy(update={"checkpoints": live})

    def give_tools(self, given: bool) -> None:
        """Set whether the caller's tools are sent from now on."""
        with self.lock:
            if given != self.gives_tools:
                self.gives_tools = given
                self.revision += 1

    def give(self, given: RequestExtras) -> None:
        """Set what is sent besides the messages from now on.

        Raises:
            InvalidArgument: one of the tools is not a tool schema.
        """
        with self.lock:
            if self.prompting.give(self.counter, given):
                self.revision += 1

    def moves(self, window: int | None = None, *, most: int = NEWEST_MOVES) -> Iterator[Move]:
        """Return the moves on the open branch, newest first, for one window or for all. Only the
        `most` newest moves are searched.
        """
        rows = self.store.moves(self.id, window, most=most)
        return (move for move in rows if self.covers(move.branch_id, move.at))

    def covers(self, branch_id: str, at: int) -> bool:
        """Return whether a position of a branch is on the open branch."""
        return self.log.covers(branch_id, at)

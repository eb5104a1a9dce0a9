"""What all windows of one open session share: its store, its history, its goals and pins, and how
its prompts are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from compact import forks
from compact.compression.fold import Fold
from compact.core import defaults
from compact.core.budget import ContextWindow
from compact.core.calibration import Calibration
from compact.core.events import TrustFaded
from compact.core.formats.wire import WireFormat
from compact.core.goals import Goal
from compact.core.levels import aged
from compact.core.messages import SYSTEM_ROLES
from compact.core.own_text import OwnText
from compact.core.policy import CompactPolicy
from compact.core.protocols import Emit, SessionStore, Summarizer
from compact.core.resolving import Setting
from compact.core.sessions import Branch, Move, Projection, free_branch_id
from compact.core.tokens import TokenCounter
from compact.errors import NotFound, StoreFailed
from compact.managers.history import SYSTEM_NOTE, SessionHistory
from compact.managers.notes import (
    ASIDE,
    CALIBRATION,
    COUNTED,
    EVER,
    GOALS,
    KEY,
    MODE,
    PIN,
    TRACKED,
    NotedGoals,
    goals_in,
    goals_row,
    lineage_of,
    mode_in,
    next_number,
    order,
    set_by,
)
from compact.managers.prompting import Preamble, Prompting

MOST_RESERVED = 0.5
"""Share of a window that an answer may keep free, where a provider's is smaller than was said."""
NEWEST_MOVES, ALL_MOVES = 200, 100_000
"""Moves among which what is in force is looked for, and what was in force long ago."""
MOST_TRACKED = 64
"""Notes of progress that are kept of a branch: those by which prompts go, the newest, and some
between."""
_TAKEN = (GOALS, MODE, PIN, ASIDE, CALIBRATION, COUNTED, SYSTEM_NOTE)


@dataclass(slots=True)
class SessionState:
    """An open session."""

    id: str
    store: SessionStore
    wire: WireFormat
    counter: TokenCounter
    policy: CompactPolicy
    """What a person set; `policy_for` says what follows from it for a window."""
    setting: Setting
    summarizer: Summarizer
    emit: Emit
    prompting: Prompting
    """What stands before the history in prompts, by mode and window."""
    tokenizer: str
    """The tokenizer that the store's counts were made with."""
    history: SessionHistory = field(init=False)
    own: OwnText = field(init=False)
    """By which the session's own text is made and recognized."""
    goals: tuple[Goal, ...] = ()
    calibration: Calibration = field(default_factory=Calibration)
    lineage: tuple[tuple[str, int], ...] = ()
    """The branches it consists of, the oldest first, each with the position where it ends; the last
    one goes on."""
    gives_tools: bool = True
    """Whether the caller's tools are sent along: not while a model is asked that calls none."""
    revision: int = 0
    """Grows with each change of branch, goals, pins or tools."""
    lock: forks.Lock = field(default_factory=lambda: forks.Lock(forks.SESSION))
    """Held, never while waiting, by whoever changes what is shown or takes it."""
    together: list[SessionState] = field(default_factory=list, repr=False, compare=False)
    """This one, and those by which other tokenizers count the same session: what lock they hold and
    which branch is open is one thing for all of them."""
    _first_mode: str = field(init=False)
    """The mode before anybody has set one."""
    _told: set[tuple[int, str, int]] = field(default_factory=set)
    """Of which parts of which window's system prompt it was said that they have no room."""
    _resolved: tuple[object, CompactPolicy] | None = None
    _noted: Mapping[str, Any] = field(default_factory=dict)
    """The notes that goals, pins and calibration were taken from."""

    def __post_init__(self) -> None:
        self._first_mode = self.policy.mode
        self.own = self.prompting.own = OwnText(self._keys, self._first_key)
        self.together.append(self)

    def _keys(self) -> list[bytes]:
        notes = self.store.notes(self.id)
        return [bytes.fromhex(notes[name]["key"]) for name in sorted(notes) if name[:4] == KEY]

    def _first_key(self) -> bytes:
        """The session's key from now on, as the store keeps it; of two writers the one counts whose
        note stands first, and what the other made is recognized as well.
        """
        key = f"{defaults.new_id()}{defaults.new_id()}".encode()
        with suppress(StoreFailed):  # a file that is only read: the key lasts as long as it is open
            self.store.note(self.id, f"{KEY}{defaults.new_id()}", {"key": key.hex()})
        return next(iter(self._keys()), key)

    def join(self, other: SessionState) -> None:
        """Be another tokenizer's count of the same session from now on, by the same policy."""
        self.policy = other.policy.model_copy(update={"mode": self.policy.mode})
        self.lock, self.together = other.lock, other.together
        self.together.append(self)

    def move_to(self, branch: Branch) -> None:
        """Go on with a branch, whoever counts."""
        for each in self.together:
            each.open(branch)

    def open(self, branch: Branch) -> None:
        """Go on with a branch."""
        self.history = SessionHistory(
            self.store,
            branch,
            self.wire,
            self.counter,
            never_pruned=self.policy.roles_never_pruned,
            counts=self.tokenizer == self.counter.estimator.name,
        )
        self.history.own = self.own
        self.lineage = lineage_of(self.store.branches(self.id), branch)
        self._noted = {}
        self._take_notes()
        self.revision += 1

    def catch_up(self) -> None:
        """Take in what other writers did: their messages, goals, pins and calibration."""
        self.history.catch_up()
        self._take_notes()

    def _take_notes(self) -> None:
        found = {k: v for k, v in self.store.notes(self.id).items() if k.startswith(_TAKEN)}
        if found == self._noted:
            return
        with self.lock:
            self.history.catch_up()  # what is said of messages comes after them
            new = {k: v for k, v in found.items() if self._noted.get(k) != v}
            for position, note in self._placed(PIN, new):
                (self.history.unpin if note.get("gone") else self.history.pin)(position)
            for position, note in self._placed(ASIDE, new):
                self.history.put_aside(position, note["tokens"])
            if found.get(SYSTEM_NOTE) != self._noted.get(SYSTEM_NOTE):
                self.history.take_system(found.get(SYSTEM_NOTE))
            unseen, calibrated = (self._calibration_name, COUNTED), self.calibration
            shown = [k for k in found if not k.startswith(unseen) and not k.endswith(TRACKED)]
            if {k: found[k] for k in shown} != {k: self._noted.get(k) for k in shown}:
                self.revision += 1
            self._noted = found
            self.goals = goals_in(found, self.lineage, len(self.history)).goals
            self._go_on_in(self._mode_at(found, len(self.history)))
            known = Calibration.model_validate(found.get(self._calibration_name, {}))
            if known != calibrated:
                self.calibration = known

    def _placed(
        self, prefix: str, notes: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Positions of the open branch of which notes of that kind say something; what a note says
        of a message that is not there is nothing.
        """
        for name in filter(lambda name: name.startswith(prefix), notes):
            branch_id, _, position = name.removeprefix(prefix).rpartition(":")
            at = int(position) if position.isdecimal() else EVER
            if at < len(self.history) and self.covers(branch_id, at + 1):
                yield at, notes[name]

    @property
    def _calibration_name(self) -> str:
        return f"{CALIBRATION}{self.counter.estimator.name}"

    def learn(self, calibration: Calibration) -> None:
        """Correct counts from now on."""
        if calibration != self.calibration:
            self.store.note(self.id, self._calibration_name, calibration.model_dump(mode="json"))
            self._take_notes()

    def policy_for(self, size: int) -> CompactPolicy:
        """The one policy that a window of that size goes by."""
        asked = (self.policy, self.setting, size)
        if self._resolved is None or self._resolved[0] != asked:
            self._resolved = asked, self.setting.policy(self.policy, size)
        return self._resolved[1]

    def window(self, size: int) -> ContextWindow:
        """The window of a size: the policy's, corrected by what providers reported."""
        policy, known = self.policy_for(size), self.calibration
        borne_out, reserve = known.window(size), policy.output_reserve
        if borne_out < size:  # what was reserved in a larger window may be all that there is
            reserve = min(reserve, int(borne_out * MOST_RESERVED))
        return ContextWindow(
            size=borne_out,
            output_reserve=reserve,
            trigger_ratio=policy.trigger_ratio,
            target_ratio=policy.target_ratio,
            trigger_tokens=policy.trigger_tokens,
            ratio=known.ratio,
        )

    def tell_trust(self, window: int, compressions: int, *, before: int = 0) -> None:
        """Say that the context of a window can be trusted less after so many compressions, unless
        that was so after `before` of them already.
        """
        trust = self.setting.reliability(compressions)
        if trust is not None and trust.warning and before < trust.warn_after:
            self.emit(
                TrustFaded(
                    window=window,
                    compressions=trust.compressions,
                    score=trust.score,
                    warning=trust.warning,
                )
            )

    def tell_prompt(self, window: int) -> None:
        """Say once what has no room in the system prompt of that window."""
        leading = takewhile(
            lambda i: self.history[i].role in SYSTEM_ROLES, range(len(self.history))
        )
        own = sum(map(self.history.tokens, leading))
        for event in self.prompting.over_budget(self.policy.mode, window, own):
            if (told := (window, event.part, event.tokens)) not in self._told:
                self._told.add(told)
                self.emit(event)

    def counted_by(self, projection: Projection) -> str:
        """The tokenizer that a projection's tokens were counted by: the session's, unless a note
        says another one.
        """
        note = self._noted.get(f"{COUNTED}{projection.window}", {})
        return str(note["by"]) if note.get("projection") == projection.id else self.tokenizer

    def counted_noted(self, projection: Projection, by: str) -> dict[str, Mapping[str, Any]]:
        """The note that says so of a projection that is put in force for its window."""
        if by == self.tokenizer:
            return {}
        return {f"{COUNTED}{projection.window}": {"projection": projection.id, "by": by}}

    @property
    def branch_id(self) -> str:
        """The branch that is open."""
        return self.history.branch_id

    def pin(self, position: int, *, gone: bool = False) -> None:
        """Keep a message word for word from now on, on this branch; not any more where that is
        `gone`.
        """
        note = {"gone": True} if gone else {}
        self.store.note(self.id, f"{PIN}{self.branch_id}:{position}", note)
        self._take_notes()

    def put_aside(self, position: int, tokens: int) -> None:
        """Show of a message no more than head and tail from now on, on this branch."""
        self.store.note(self.id, f"{ASIDE}{self.branch_id}:{position}", {"tokens": tokens})
        self._take_notes()

    def set_goals(self, goals: Sequence[Goal]) -> None:
        """Have these goals from now on. What they were before is kept with the position."""
        for name, row in self.goals_noted(goals, self.branch_id, len(self.history)).items():
            self.store.note(self.id, name, row)
        self._take_notes()

    def set_mode(self, name: str) -> None:
        """Be used for this from now on, here and wherever the session is opened.

        Raises:
            InvalidConfig: there is no such mode.
        """
        mode = self.prompting.mode(name).name
        self._take_notes()
        if mode != self.policy.mode or mode != self.mode_before(len(self.history)):
            for note, row in self.mode_noted(mode, self.branch_id, len(self.history)).items():
                self.store.note(self.id, note, row)
            self._take_notes()
            self._go_on_in(mode)

    def _go_on_in(self, mode: str) -> None:
        if mode != self.policy.mode:
            self.policy = self.policy.model_copy(update={"mode": mode})

    def mode_before(self, position: int) -> str:
        """The mode when the session had so many messages."""
        return self._mode_at(self.store.notes(self.id), position)

    def _mode_at(self, notes: Mapping[str, Mapping[str, Any]], position: int) -> str:
        return mode_in(notes, self.lineage, position) or self._first_mode

    def mode_set_before(self, position: int) -> str | None:
        """The mode that somebody had set when the session had so many messages."""
        return mode_in(self.store.notes(self.id), self.lineage, position)

    def mode_noted(self, mode: str | None, branch_id: str, at: int) -> dict[str, Mapping[str, Any]]:
        """The note that says which mode a branch has from a position on; None for the one that
        whoever opens the session gives.
        """
        name = f"{MODE}{next_number(self.store.notes(self.id), MODE)}"
        return {name: {"branch": branch_id, "at": at, "mode": mode}}

    def goals_known(self, position: int, tracked: int = EVER) -> NotedGoals:
        """The goals that were noted for when the session had so many messages. What a model's
        markers changed counts up to the position `tracked`.
        """
        return goals_in(self.store.notes(self.id), self.lineage, position, tracked)

    def track_goals(self, goals: Sequence[Goal], since: NotedGoals, at: int) -> None:
        """Have these goals from a position on, because markers since others were noted say so.

        The note's name goes on from those goals' note. So of two writers the one that looked
        further counts, and neither counts where somebody set goals in between.
        """
        known = self.store.notes(self.id)
        name = f"{set_by(since.name)}:{at:09}:{defaults.new_id()[:8]}{TRACKED}"
        row = goals_row(goals, self.branch_id, at)
        self.store.note(self.id, name, row)
        known = {**known, name: row}
        own = [
            each
            for each in sorted(known, key=order)
            if each.startswith(GOALS)
            and each.endswith(TRACKED)
            and known[each]["branch"] == self.branch_id
        ]
        for each in self._too_many(own, known):
            self.store.note(self.id, each, None)
        self._take_notes()

    def _too_many(self, own: Sequence[str], known: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """The notes of progress, of these of the branch, that are too many: first those by which no
        prompt goes, of them those between the closest ones, so that from any position it is not far
        to a note; then the oldest.
        """
        too_many = len(own) - MOST_TRACKED
        if too_many <= 0:
            return []
        shown = [move.at for move in self.moves()]
        places = [0, *(known[name]["at"] for name in own)]

        def worth(i: int) -> tuple[bool, int]:
            before, here, after = places[i : i + 3]
            is_seen = any(here <= at < after for at in shown)
            return is_seen, 0 if is_seen else after - before

        return [own[i] for i in sorted(range(len(own) - 1), key=worth)[:too_many]]

    def goals_noted(
        self, goals: Sequence[Goal], branch_id: str, at: int
    ) -> dict[str, Mapping[str, Any]]:
        """The note that says which goals a branch has from a position on: one of its own for each
        change, so that of two writers neither undoes the other.
        """
        name = f"{GOALS}{next_number(self.store.notes(self.id), GOALS)}"
        return {name: goals_row(goals, branch_id, at)}

    def goals_shown(self, since: Projection | None, position: int) -> tuple[Goal, ...]:
        """The goals as a prompt shows them that goes on from a projection, when the session has so
        many messages: what a model's markers changed since then is left to the markers.
        """
        return self.goals_known(position, since.at if since else 0).goals

    def branch_from(self, parent_id: str, at: int) -> Branch:
        """A branch that is to begin there."""
        return new_branch(self.store, self.id).model_copy(update={"parent": parent_id, "fork": at})

    @property
    def waits(self) -> bool:
        """Whether compressing may wait for something outside."""
        return self.policy.summarizes and self.summarizer.waits

    def projection(self, projection_id: str) -> Projection:
        """A projection of the session, its checkpoints at the levels they had in it."""
        found = self.store.projection(projection_id)
        live = tuple(aged(c, found.number) for c in found.checkpoints)
        return found.model_copy(update={"checkpoints": live})

    def give_tools(self, given: bool) -> None:
        """Send the caller's tools along from now on, or none."""
        with self.lock:
            if given != self.gives_tools:
                self.gives_tools = given
                self.revision += 1

    def preamble(self, size: int, goals: Sequence[Goal] = ()) -> Preamble:
        """What stands before the history in the window of that size, these goals with it."""
        preamble = self.prompting.preamble(self.policy.mode, size, tools=self.gives_tools)
        return self.prompting.with_goals(preamble, goals)

    def fold(self, preamble: Preamble) -> Fold:
        """The bare history as a context to which messages are appended."""
        return Fold(
            self.history,
            overhead_tokens=preamble.tokens,
            goals=preamble.goals,
            opening=preamble.message,
            extras=preamble.extras,
        )

    def moves(self, window: int | None = None, *, most: int = NEWEST_MOVES) -> Iterator[Move]:
        """The moves that lie on the open branch, for a window or for all, newest first, among so
        many of the newest.
        """
        rows = self.store.moves(self.id, window, most=most)
        return (move for move in rows if self.covers(move.branch_id, move.at))

    def covers(self, branch_id: str, at: int) -> bool:
        """Whether a position of a branch lies on the branch that is open."""
        return any(name == branch_id and at <= end for name, end in self.lineage)


def new_branch(store: SessionStore, session_id: str) -> Branch:
    """The next branch of a session, or its first one, by an id that no branch of the store has."""

    def is_taken(name: str) -> bool:
        try:
            store.branch(name)
        except NotFound:
            return False
        return True

    name = free_branch_id(session_id, len(store.branches(session_id)), is_taken)
    return Branch(id=name, session_id=session_id)

"""The values that the stages of a compression hand to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from compact.engine.aging import Ageing
    from compact.engine.chronology.notes import Notes
    from compact.engine.composition import Composer
    from compact.engine.forms import ClosedMessages
    from compact.engine.history import History
    from compact.engine.ladder import Ladder
    from compact.engine.layout import Layout
    from compact.engine.seen import Seen
    from compact.engine.standing import Standing
    from compact.messages.checkpoints import Checkpoint, Level, SummaryRequest
    from compact.messages.policy import CompactPolicy


@dataclass(frozen=True, slots=True)
class Budget:
    """The tokens of a prompt, and how many of them are taken by what stands beside the messages."""

    limit: int
    overhead: Mapping[str, int]
    """By part: tool schemas, a system prompt beside the messages, goals, the reply's priming."""
    hard: int | None = None
    """What the prompt may grow to for the sake of its newest group; None where the limit is all
    there is. A session aims at a limit below: it will grow again, so that there is no need to use
    the limit up either."""

    words: int = 0
    """What the newest messages of a person may take before everything else, if anything."""

    @property
    def overhead_tokens(self) -> int:
        """Tokens of what stands beside the messages."""
        return sum(self.overhead.values())

    def floor(self, parts: Mapping[str, int]) -> dict[str, int]:
        """Parts of the history's floor together with what stands beside it."""
        return {k: parts.get(k, 0) + self.overhead.get(k, 0) for k in {**parts, **self.overhead}}

    @property
    def fill(self) -> bool:
        """Whether to use the limit up, clipping at the cut."""
        return self.hard is None


class Wanted(NamedTuple):
    """What somebody wants a compression to come to."""

    tokens: int
    why: str = ""
    """Why no less is wanted, where that is all there is."""


@dataclass(slots=True)
class Selection:
    """What `identify` chose, and the ladder that can still change it."""

    history: History
    policy: CompactPolicy
    ladder: Ladder
    layout: Layout
    budget: Budget
    standing: Standing
    ageing: Ageing
    notes: Notes | None = None
    """What was taken down of the whole history; None where nothing is summarized."""
    record: int = 0
    """Tokens that are set aside for the record of a session."""
    seen: tuple[list[ClosedMessages], Seen] | None = None
    """What was in view when somebody asked last, and what a reader saw then."""
    composed: tuple[Seen, Composer] | None = None
    """What composes the record beside that."""


@dataclass(frozen=True, slots=True)
class Task:
    """A checkpoint to write: what the summarizer is asked for, and what it will stand in for."""

    level: Level
    request: SummaryRequest | None
    """None where a receipt is enough."""
    source_tokens: int | None
    """Tokens of what it is made from; None where not all were counted."""
    sources: tuple[Checkpoint, ...] = ()
    """Checkpoints it takes the place of."""
    positions: Sequence[int] = ()
    """Messages it stands in for that no checkpoint has covered."""
    part: tuple[int, int] | None = None
    """Where its span begins and ends where it is one of several; the end is not part of it."""
    unread: int = 0
    """How many of them were left unread."""
    room: int = 0
    """Tokens that the checkpoint may take without its heading, where it holds the record, too."""

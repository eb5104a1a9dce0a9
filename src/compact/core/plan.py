"""The plan: what a compression did or would do, rung by rung, and why. A value that explains
itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from compact.core.checkpoints import Checkpoint
from compact.core.context import ActiveContext

RungName = Literal[
    "mask", "summarize", "age", "merge", "record", "lower keep counts", "clip", "close", "rest"
]
Fate = Literal["kept", "pinned", "masked", "clipped", "covered"]


class Rung(BaseModel):
    """One step of the ladder: what it did, why, and the tokens it freed (negative where it used
    room).
    """

    model_config = ConfigDict(frozen=True)

    name: RungName
    why: str
    messages: int = Field(ge=0)
    freed: int | None
    """Tokens; None where the messages were not counted."""


class Plan(BaseModel):
    """What stays, what is shortened, what a checkpoint covers. What its rungs freed adds up to what
    was freed in all.
    """

    model_config = ConfigDict(frozen=True)

    limit: int
    """Tokens the prompt may have."""
    tokens_before: int | None
    """Tokens of the whole prompt before; None where counting stopped at the limit."""
    tokens_after: int
    messages_before: int
    floor: Mapping[str, int]
    """Tokens of what may not be shortened, by part."""
    parts: Mapping[str, int] = Field(default_factory=dict)
    """Messages by part of the partition: pinned, recent, tool I/O, remainder."""
    rungs: tuple[Rung, ...] = ()
    fates: Mapping[int, Fate] = Field(default_factory=dict)
    """Position → what became of the message; positions not named are covered."""
    why: str = ""
    """Why no more was done, where more was asked for."""
    context: ActiveContext
    tokenizer: str
    exact: bool

    @property
    def unchanged(self) -> bool:
        """Whether everything fitted and nothing was done."""
        return not self.rungs

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint, if one was made."""
        return self.context.checkpoints[-1] if self.context.checkpoints else None

    @property
    def covered(self) -> int:
        """How many messages the new checkpoints stand in for."""
        made, last = self.context.checkpoints, self.checkpoint
        if last is None or last.parents:
            return last.span.messages if last else 0
        return sum(c.span.messages for c in made if c.number == last.number and not c.parents)

    def count(self, fate: Fate) -> int:
        """How many messages met that fate."""
        if fate == "covered":
            return self.covered
        return sum(1 for f in self.fates.values() if f == fate)

    def explain(self) -> str:
        """The plan in words, one line a rung."""
        sign = "" if self.exact else "about "
        before = "more than the limit" if self.tokens_before is None else f"{self.tokens_before:,}"
        lines = [
            f"{self.messages_before:,} messages, {sign}{before} tokens ({self.tokenizer}); "
            f"limit {self.limit:,}; result {self.tokens_after:,}"
        ]
        if self.unchanged and not self.why:
            lines.append("everything fits: nothing was changed")
        if self.why:
            lines.append(self.why)
        newest = self.floor.get("newest user message", 0)
        if 2 * newest > self.limit:
            lines.append(
                f"the newest message of a person takes {newest:,} of {self.limit:,} tokens and is "
                f"never shortened: little is left for what stands in for the rest"
            )
        for rung in self.rungs:
            freed = "not counted" if rung.freed is None else f"{rung.freed:+,} tokens freed"
            lines.append(f"{rung.name}: {rung.why} ({freed})")
        return "\n".join(lines)

"""The plan: each step of a compression, done or proposed, and the reason for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, Field

from compact.engine.history import History
from compact.errors import NotFound
from compact.messages.checkpoints import Checkpoint
from compact.messages.context import ActiveContext

RungName = Literal[
    "mask", "summarize", "age", "merge", "record", "lower keep counts", "clip", "close", "rest"
]
Fate = Literal["kept", "pinned", "masked", "clipped", "covered"]
Reason = Literal[
    "system", "pin", "newest words", "words", "first request", "checkpoint", "important", "recent",
    "room", "compaction",
]  # fmt: skip
Cause = Literal["old", "overtaken", "large"]
REASONS: Mapping[Reason, str] = {
    "system": "the system prompt stays word for word",
    "pin": "it is pinned",
    "newest words": "a person's newest message stays word for word",
    "words": "it is among a person's newest messages",
    "first request": "it is the session's first request",
    "checkpoint": "it stands in for what came before this history",
    "important": "it is marked important",
    "recent": "",
    "room": "there was room for it",
    "compaction": "it is a provider's own compaction of everything before it",
}
"""Why the prompt shows a message, in words. For the newest messages, `Plan.steps` says why."""
_FORMS: Mapping[str, str] = {
    "masked": "of its tool output a stub is shown",
    "clipped": "there was room for head and tail only",
}


class Rung(BaseModel, frozen=True, defer_build=True):
    """One step of the ladder: what it did, why, and the tokens it freed (negative if it added)."""

    name: RungName
    why: str
    messages: int = Field(ge=0)
    freed: int | None
    """Tokens; None if the messages were not counted."""


class Plan(BaseModel, frozen=True, defer_build=True):
    """Which messages stay, which are shortened, and which a checkpoint covers. The tokens freed by
    each rung add up to the total.
    """

    limit: int
    """Tokens the prompt may have."""
    tokens_before: int | None
    """Tokens of the whole prompt before; None if counting stopped at the limit."""
    tokens_after: int
    messages_before: int
    floor: Mapping[str, int]
    """Tokens that may not be shortened, by part."""
    parts: Mapping[str, int] = Field(default_factory=dict)
    """Part of the partition (pinned, recent, tool I/O, remainder) → how many messages it has."""
    rungs: tuple[Rung, ...] = ()
    fates: Mapping[int, Fate] = Field(default_factory=dict)
    """Position → fate of the message; positions not listed are covered."""
    reasons: Mapping[int, tuple[Reason, int]] = Field(default_factory=dict)
    """Position of a message in the prompt → the reason, and the position of the message that it is
    kept for. These differ if messages cannot be separated, such as a call and its result."""
    steps: Mapping[int, str] = Field(default_factory=dict)
    """Position of one of the newest messages → what a step of the ladder did, and the token counts
    that led to it."""
    why: str = ""
    """Why less was done than requested."""
    context: ActiveContext
    tokenizer: str
    exact: bool

    def owned(self) -> Self:
        """Return a copy that shares no dictionaries, for callers that may change them."""
        return self.model_copy(update={"context": self.context.owned()})

    @property
    def unchanged(self) -> bool:
        """Whether everything fits and nothing was done."""
        return not self.rungs

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint, if one was made."""
        return self.context.checkpoints[-1] if self.context.checkpoints else None

    @property
    def covered(self) -> int:
        """How many messages the new checkpoints replace."""
        made, last = self.context.checkpoints, self.checkpoint
        if last is None or last.parents:
            return last.span.messages if last else 0
        return sum(c.span.messages for c in made if c.number == last.number and not c.parents)

    def why_of(self, position: int) -> str:
        """Return the fate of a message, and why: `masked: tool output older than the newest 4
        pairs; 1,240 of 3,000 tokens were needed`. The tokens are those of its group word for word,
        and the room that was left for it.

        Raises:
            NotFound: the history had no such message.
        """
        if not 0 <= position < self.messages_before:
            raise NotFound(f"there were {self.messages_before:,} messages, none at {position}")
        if not self.fates:
            return f"as before: {self.why or 'nothing was done'}"
        fate = self.fates.get(position, "covered")
        if fate == "covered":
            held = (c for c in self.context.checkpoints if position in c.covered())
            checkpoint = next(held, None)
            if checkpoint is None:
                return "covered"
            size = f"{checkpoint.span.messages:,} messages in {checkpoint.token_count:,} of "
            return f"covered: {checkpoint.id} stands in for {size}{self.limit:,} tokens"
        if position not in self.reasons:
            return f"{fate}: everything fits"
        reason, of = self.reasons[position]
        if position in self.steps:
            return f"{fate}: {self.steps[position]}"
        why = REASONS[reason]
        if of != position:
            why = f"it cannot be parted from message {of}: {why}"
        return f"{fate}: {'; '.join(filter(None, (why, _FORMS.get(fate))))}"

    def count(self, fate: Fate) -> int:
        """How many messages have that fate."""
        if fate == "covered":
            return self.covered
        return sum(1 for f in self.fates.values() if f == fate)

    @property
    def written(self) -> tuple[str, ...]:
        """The new checkpoints in words: who wrote each, how long that took, and its tokens."""
        made, last = self.context.checkpoints, self.checkpoint
        if last is None or self.unchanged:
            return ()
        return tuple(c.written for c in made if c.number == last.number and not c.parents)

    def explain(self) -> str:
        """Return the plan in words: a line per rung, and per checkpoint that a model wrote."""
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
        lines += [c.written for c in self.context.checkpoints if c.seconds is not None]
        return "\n".join(lines)


def plan_of(history: History, context: ActiveContext, **said: Any) -> Plan:  # noqa: ANN401 - fields
    """Build a plan. Fields that follow from history and context are filled in."""
    said = {"why": _unread(history), **said}
    return Plan(
        tokens_after=context.tokens,
        messages_before=len(history),
        context=context,
        tokenizer=history.counter.estimator.name,
        exact=history.counter.exact,
        **said,
    )


def _unread(history: History) -> str:
    """Say that the current model cannot read another provider's compaction. Empty if it can."""
    at = history.newest_compaction
    if at == history.compacted or any((p.raw or {}).get("content") for p in history[at].parts):
        return ""
    return (
        f"message {at:,} is a provider's own compaction, and sealed: the model that is asked now "
        "cannot read it, and is told so"
    )


def as_it_is(history: History, limit: int, context: ActiveContext, why: str) -> Plan:
    """Build the plan if nothing is done: the context fits, or `why` gives the reason."""
    return plan_of(history, context, limit=limit, tokens_before=context.tokens, floor={}, why=why)


def weighed(plan: Plan, asked: int) -> Plan:
    """Return the plan of a requested compression, with the reason if the result is larger than
    requested.
    """
    if plan.why or plan.tokens_after <= asked:
        return plan
    return plan.model_copy(update={"why": why_no_more(plan.floor, plan.tokens_after)})


def why_no_more(floor: Mapping[str, int], tokens: int) -> str:
    """Say why a context of this many tokens cannot be made smaller."""
    parts = ", ".join(f"{name} {size:,}" for name, size in floor.items() if size)
    return (
        f"no more could be freed: of {tokens:,} tokens {sum(floor.values()):,} may not be shortened"
        f" ({parts}); the others are the newest messages and what stands in for those before"
    )

"""Makes what comes before the history in a session's prompts (FR-16): the system prompt, assembled
for a mode and a window's tier, and what the caller sends besides the messages.

If the format has a field for the system prompt, the assembled prompt goes there, before the
caller's own words. Otherwise it is the first message. Goals come last, in the field or in a
message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from compact.engine.history import NOBODYS
from compact.engine.prompt_order import RequestExtras
from compact.errors import InvalidConfig, unreadable
from compact.files import LARGEST_TEXT, read_small
from compact.messages.events import PromptOverBudget
from compact.messages.formats.wire import WireFormat
from compact.messages.goals import Goal, goals_message
from compact.messages.messages import Message
from compact.messages.policy import CompactPolicy, TierSettings, tier_of
from compact.messages.tokens import TokenCounter
from compact.session.prompt_overhead import overhead_of, parts_beside
from compact.text.modes import Mode, mode_named, user_mode
from compact.text.prompts import PromptParts, SystemPrompt, assemble, prompt_message

System = str | tuple[Mapping[str, Any], ...] | None
"""A system prompt in its own field, as text or as the provider's blocks."""


class Preamble(NamedTuple):
    """What comes before the history in a prompt."""

    extras: RequestExtras
    """What is sent besides the messages."""
    parts: Mapping[str, int]
    """Name of a part → its tokens."""
    message: Message | None = None
    """The system prompt, in formats where it is a message."""
    goals: Message | None = None
    """The active goals, in formats where the system prompt is a message."""
    prompt: SystemPrompt | None = None
    """How the system prompt was assembled; None without the option `prompt`."""

    @property
    def tokens(self) -> int:
        """How many tokens come before the history."""
        return sum(self.parts.values())

    def with_part(self, name: str, tokens: int) -> Mapping[str, int]:
        """Return the parts, with `tokens` more for one of them."""
        return {**self.parts, name: self.parts.get(name, 0) + tokens}


class Prompting:
    """Makes a session's preambles. Each is made once for a tokenizer, mode and window."""

    def __init__(
        self,
        wire: WireFormat,
        given: RequestExtras,
        *,
        parts: PromptParts | None = None,
        own_mode: Mode | None = None,
        tiers: Mapping[int, TierSettings] | None = None,
    ) -> None:
        self._wire = wire
        self._given = given
        """What the caller sends."""
        self._parts = parts
        self._own_mode = own_mode
        self._tiers = tiers
        self._bare: dict[tuple[str, bool], Preamble] = {}
        self._made: dict[tuple[str, str, int, bool], Preamble] = {}
        self.own = NOBODYS
        """Makes the heading of the prompt."""

    @property
    def has_tools(self) -> bool:
        """Whether the caller sends tools."""
        return bool(self._given.tools)

    def has(self, given: RequestExtras) -> bool:
        """Return whether the caller sends exactly this now."""
        return given == self._given

    def give(self, counter: TokenCounter, given: RequestExtras) -> bool:
        """Set what the caller sends from now on. Return whether it changed.

        Raises:
            InvalidArgument: one of the tools is not a tool schema.
        """
        if given == self._given:
            return False
        # refuses wrong tools before anything changes
        parts_beside(counter, given.system, given.tools)
        self._given = given
        self._bare.clear()
        self._made.clear()
        return True

    def mode(self, name: str) -> Mode:
        """Return the mode of that name. The mode `user` comes from the user's own file.

        Raises:
            InvalidConfig: there is no such mode.
        """
        if name == "user" and self._own_mode is not None:
            return self._own_mode
        return mode_named(name)

    def asked(self, policy: CompactPolicy) -> CompactPolicy:
        """Return the policy for a summarizer: with the user's own mode, that mode's focus is added
        to the guidance.
        """
        if policy.mode != "user" or self._own_mode is None:
            return policy
        guidance = "\n".join(filter(None, (policy.guidance, self._own_mode.focus)))
        return policy.model_copy(update={"guidance": guidance})

    def preamble(
        self, counter: TokenCounter, mode: str, size: int, *, tools: bool = True
    ) -> Preamble:
        """Return what comes before the history in a window of that size, with or without the
        caller's tools.
        """
        given = self._given_by(counter, tools=tools)
        if self._parts is None:
            return given
        budget = tier_of(size, self._tiers).prompt_tokens
        asked = (counter.estimator.name, mode, budget, tools)
        if asked not in self._made:
            self._made[asked] = self._assembled(counter, self._parts, given, mode, budget)
        return self._made[asked]

    def _given_by(self, counter: TokenCounter, *, tools: bool = True) -> Preamble:
        asked = (counter.estimator.name, tools)
        if asked not in self._bare:
            sent = self._given if tools else self._given._replace(tools=())
            self._bare[asked] = Preamble(sent, parts_beside(counter, sent.system, sent.tools))
        return self._bare[asked]

    def _assembled(
        self, counter: TokenCounter, parts: PromptParts, given: Preamble, mode: str, budget: int
    ) -> Preamble:
        count = counter.text
        own = 0 if self._wire.has_system_field else count(self.own.under("Prompt", ""))
        prompt = assemble(
            parts, mode=self.mode(mode), tier_budget=budget, count=lambda text: count(text) + own
        )
        preamble = given._replace(prompt=prompt)
        if not prompt.text:
            return preamble
        if self._wire.has_system_field:
            return _in_field(counter, preamble, "system prompt", prompt.text, given.extras.system)
        message = prompt_message(prompt, self.own)
        assert message is not None, "it says something"
        taken = preamble.with_part("system prompt", counter.message(message))
        return preamble._replace(message=message, parts=taken)

    def over_budget(
        self, counter: TokenCounter, mode: str, size: int, own: int
    ) -> Iterator[PromptOverBudget]:
        """Yield what does not fit the system prompt's budget in a window of that size. The caller's
        own words count too; `own` is how many of their tokens are in the history.
        """
        budget = tier_of(size, self._tiers).prompt_tokens
        prompt = self.preamble(counter, mode, size).prompt
        own += self._given_by(counter).parts["system prompt"]
        rows = [(*left, True) for left in (prompt.left_out if prompt else ())]
        if own > budget:
            rows.append(("system prompt", own, "the caller's own words are never cut", False))
        for part, tokens, reason, is_left_out in rows:
            yield PromptOverBudget(
                window=size,
                part=part,
                tokens=tokens,
                budget=budget,
                is_left_out=is_left_out,
                reason=reason,
            )

    def with_goals(
        self, counter: TokenCounter, preamble: Preamble, goals: Sequence[Goal]
    ) -> Preamble:
        """Return the preamble with the active goals at the end of the system prompt."""
        message = goals_message(goals, self.own)
        if message is None:
            return preamble
        if self._wire.has_system_field:
            return _in_field(counter, preamble, "goals", preamble.extras.system, message.text)
        parts = preamble.with_part("goals", counter.message(message))
        return preamble._replace(goals=message, parts=parts)


def _in_field(
    counter: TokenCounter, preamble: Preamble, part: str, first: System, second: System
) -> Preamble:
    """Put both texts into the system field. Count the added tokens under the name `part`."""
    system = _joined(first, second)
    before = overhead_of(counter, preamble.extras.system, ())
    parts = preamble.with_part(part, overhead_of(counter, system, ()) - before)
    return preamble._replace(extras=preamble.extras._replace(system=system), parts=parts)


def _joined(first: System, second: System) -> System:
    """Join two system prompts: into a text if both are texts, else into blocks."""
    if not first or not second:
        return first or second
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return (*_blocks(first), *_blocks(second))


def _blocks(system: str | tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
    return ({"type": "text", "text": system},) if isinstance(system, str) else system


def mode_in(file: str | Path | None) -> Mode | None:
    """Read the mode `user` from the user's file. None if no file is named.

    Raises:
        InvalidConfig: the file cannot be read.
    """
    if file is None:
        return None
    try:
        return user_mode(read_small(Path(file), LARGEST_TEXT).decode("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidConfig("user_mode", f"{file}: {unreadable(error)}") from None

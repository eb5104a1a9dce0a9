"""What stands before everything else in a session's prompts: the assembled system prompt of a mode
and a window's tier, and what the caller sends beside the messages (FR-16).

Where a format has a field of its own for the system prompt it stands there, before the caller's own
words; else it is the first message.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from compact.compression.fold import Beside
from compact.core.formats.wire import WireFormat
from compact.core.history import NOBODYS
from compact.core.messages import Message
from compact.core.modes import Mode, mode_named, user_mode
from compact.core.policy import CompactPolicy
from compact.core.prompts import PromptParts, SystemPrompt, assemble, heading, prompt_message
from compact.core.tiers import TierSettings, tier_of
from compact.core.tokens import TokenCounter
from compact.errors import InvalidConfig, unreadable


class Lead(NamedTuple):
    """What stands before the history in a prompt."""

    beside: Beside
    """What is sent beside the messages."""
    tokens: int
    """Tokens of that."""
    message: Message | None = None
    """The system prompt, in formats whose system prompt is a message."""
    prompt: SystemPrompt | None = None
    """How it was assembled; None where nothing is."""


class Prompting:
    """A session's leads, by mode and window; each is made once."""

    def __init__(
        self,
        wire: WireFormat,
        counter: TokenCounter,
        given: Lead,
        *,
        parts: PromptParts | None = None,
        own_mode: Mode | None = None,
        tiers: Mapping[int, TierSettings] | None = None,
    ) -> None:
        self._wire = wire
        self._counter = counter
        self._given = given
        """What the caller sends."""
        self._parts = parts
        self._own_mode = own_mode
        self._tiers = tiers
        self._made: dict[tuple[str, int, bool], Lead] = {}
        self.own = NOBODYS
        """By which the prompt's heading is made."""

    @property
    def has_tools(self) -> bool:
        """Whether the caller sends tools along."""
        return bool(self._given.beside.tools)

    @cached_property
    def _bare(self) -> Lead:
        """What the caller sends but for tools."""
        beside, tokens, *_ = self._given
        return Lead(beside._replace(tools=()), tokens - self._counter.tools(beside.tools))

    def mode(self, name: str) -> Mode:
        """The mode of that name, `user` by the person's own file.

        Raises:
            InvalidConfig: there is no such mode.
        """
        if name == "user" and self._own_mode is not None:
            return self._own_mode
        return mode_named(name)

    def asked(self, policy: CompactPolicy) -> CompactPolicy:
        """The policy as a summarizer is asked by it: what a person's own mode says a summary keeps
        is guidance like any other.
        """
        if policy.mode != "user" or self._own_mode is None:
            return policy
        guidance = "\n".join(filter(None, (policy.guidance, self._own_mode.focus)))
        return policy.model_copy(update={"guidance": guidance})

    def lead(self, mode: str, size: int, *, tools: bool = True) -> Lead:
        """What stands before the history in a window of that size, the caller's tools with it or
        not.
        """
        given = self._given if tools else self._bare
        if self._parts is None:
            return given
        budget = tier_of(size, self._tiers).prompt_tokens
        found = self._made.get((mode, budget, tools))
        if found is None:
            found = self._assembled(self._parts, given, mode, budget)
            self._made[mode, budget, tools] = found
        return found

    def _assembled(self, parts: PromptParts, given: Lead, mode: str, budget: int) -> Lead:
        count = self._counter.text
        has_field = self._wire.name == "anthropic"
        own = 0 if has_field else count(heading("", self.own))
        prompt = assemble(
            parts, mode=self.mode(mode), tier_budget=budget, count=lambda text: count(text) + own
        )
        if not has_field:
            return given._replace(message=prompt_message(prompt, self.own), prompt=prompt)
        if not prompt.text:
            return given._replace(prompt=prompt)
        before = given.beside.system
        tokens = given.tokens + prompt.tokens
        if before is None:
            system: str | tuple[Mapping[str, object], ...] = prompt.text
            tokens += self._counter.framing.per_message
        elif isinstance(before, str):
            system = f"{prompt.text}\n\n{before}"
            tokens += count("\n\n")
        else:
            system = ({"type": "text", "text": prompt.text}, *before)
        return Lead(given.beside._replace(system=system), tokens, prompt=prompt)


def mode_in(file: str | Path | None) -> Mode | None:
    """The mode `user` as a person's file says it; None where no file is named.

    Raises:
        InvalidConfig: it cannot be read.
    """
    if file is None:
        return None
    try:
        return user_mode(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidConfig("user_mode", f"{file}: {unreadable(error)}") from None

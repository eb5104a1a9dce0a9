"""Replays a conversation under several policies of what a prompt contains, and measures each
policy.

At each call of the model in the conversation, each policy makes the prompt that it would have sent.
The answer is always the one in the file. `agreement` asks a model whether its next action differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Any, NamedTuple

from compact.cli.errors import Stop
from compact.cli.jobs import Job
from compact.errors import CannotFit, ContextOverflow
from compact.messages.arguments import json_or
from compact.messages.asking import Ask
from compact.messages.boundaries import may_cut_before
from compact.messages.budget import ContextWindow, size_in
from compact.messages.context import ActiveContext
from compact.messages.messages import SYSTEM_ROLES, Message
from compact.messages.protocols import ChatModel
from compact.session.context_manager import ContextManager
from compact.text.anchors import find
from compact.text.terms import readable

LEAST_SIZE = 512
"""The smallest window in tokens. In a smaller one, a prompt holds only one exchange."""
ANSWER_TOKENS = 200
"""The most tokens of an answer. They are enough for the name and the arguments of a call."""
Prompts = Callable[[int], Sequence[Message]]
"""Takes the number of an answer's message. Returns the prompt of the call that it answers."""
Key = int | tuple[str, str]
"""Identifies the text of a message in a prompt. It is the number of a message in the file, or the
id and text of another message."""


class Policy(NamedTuple):
    """What a prompt contains: `all` messages, the `newest` that fit, or what `compact` makes."""

    name: str
    kind: str
    size: int
    """The window in tokens. It is 0 for `all`."""


def policy_named(text: str) -> Policy:
    """Parse a policy such as `all`, `newest:8k` or `compact:32k`."""
    kind, _, rest = text.partition(":")
    size = size_in(rest) or 0
    if text == "all" or (kind in ("newest", "compact") and size >= LEAST_SIZE):
        return Policy(text, kind, size)
    raise Stop(
        f"--policy {text!r}: write all (send everything), newest:SIZE (cut the oldest) or "
        f"compact:SIZE, as compact:8k; SIZE is the window's tokens, at least {LEAST_SIZE}"
    )


@dataclass
class Played:
    """What a policy sent: lists with a number for each call, and totals."""

    policy: Policy
    tokens: list[int] = field(default_factory=list)
    uncached: list[int] = field(default_factory=list)
    """Tokens after the beginning that is equal to that of the previous prompt."""
    answered: int = 0
    """Tokens of the answers, which are those in the file."""
    rewrites: int = 0
    """How often a prompt did not begin with the whole previous one: compressions, moved cuts."""
    refused: int = 0
    """Calls for which no prompt fits. The other numbers leave them out."""
    needed: int = 0
    """Number of names in the arguments of the next calls that occurred in earlier messages."""
    held: int = 0
    """How many of these names are in the prompt."""

    def money(self, price: Sequence[float]) -> float:
        """Return the cost in dollars. `price` is per million tokens: uncached, cached, answered."""
        sent, new = sum(self.tokens), sum(self.uncached)
        counts = (new, sent - new, self.answered)
        return sum(count * each for count, each in zip(counts, price, strict=True)) / 1e6


class Replay:
    """A conversation to replay, with the tokens and names of each message."""

    def __init__(self, job: Job) -> None:
        self.job, self.messages = job, job.messages
        self._sizes = [job.counter.message(message) for message in self.messages]
        self._places = {message.id: at for at, message in enumerate(self.messages)}
        self._names: dict[Key, set[str]] = {}
        self._beside = job.counter.tools(job.transcript.tools)
        self.calls = [
            at
            for at, message in enumerate(self.messages)
            if at and message.role == "assistant" and self.messages[at - 1].role != "assistant"
        ]
        """The numbers of the messages with which the model's answers begin."""
        if not self.calls:
            raise Stop(f"{job.transcript.source}: there is no answer of a model to replay")

    def play(self, policy: Policy, on_call: Callable[[int, int], None]) -> Played:
        """Make the prompt of each call under a policy, and measure it."""
        played, before, seen, read = Played(policy), list[Key](), set[str](), 0
        with self.prompts(policy) as prompts:
            for number, at in enumerate(self.calls):
                on_call(number, len(self.calls))
                seen |= self._named(enumerate(self.messages[read:at], read))
                read = at
                try:
                    prompt = prompts(at)
                except CannotFit:
                    played.refused += 1
                    continue
                keys = [self._key(message) for message in prompt]
                self._measure(played, prompt, keys, before)
                needed = self._needed(at) & seen
                played.needed += len(needed)
                if needed:
                    held = needed & self._named(zip(keys, prompt, strict=True))
                    played.held += len(held)
                played.answered += sum(map(self.job.counter.message, self._answer(at)))
                before = keys
        return played

    def _measure(
        self, played: Played, prompt: Sequence[Message], keys: list[Key], before: list[Key]
    ) -> None:
        sizes = [
            self._sizes[key] if isinstance(key, int) else self.job.counter.message(message)
            for key, message in zip(keys, prompt, strict=True)
        ]
        pairs = zip(keys, before, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        beside = 0 if played.tokens else self._beside
        played.tokens.append(sum(sizes) + self._beside)
        played.uncached.append(sum(sizes[same:]) + beside)
        played.rewrites += same < len(before)

    def _answer(self, at: int) -> list[Message]:
        return list(takewhile(lambda message: message.role == "assistant", self.messages[at:]))

    def _needed(self, at: int) -> set[str]:
        calls = [call for message in self._answer(at) for call in message.tool_calls]
        return {name.text for call in calls for name in find(call.arguments)}

    def _named(self, messages: Iterator[tuple[Any, Message]]) -> set[str]:
        names = set[str]()
        for key, message in messages:
            if key not in self._names:
                self._names[key] = {name.text for name in find(readable(message))}
            names |= self._names[key]
        return names

    def _key(self, message: Message) -> Key:
        at = self._places.get(message.id)
        if at is not None and self.messages[at].content == message.content:
            return at
        return message.id, readable(message)

    # --- the policies -----------------------------------------------------------------------------

    @contextmanager
    def prompts(self, policy: Policy) -> Iterator[Prompts]:
        """Yield the function that makes a policy's prompts. Ask for the calls in order."""
        if policy.kind == "all":
            yield lambda at: self.messages[:at]
        elif policy.kind == "newest":
            yield lambda at: self._newest(at, policy.size)
        else:
            with self._session(policy.size) as ctx:
                added = 0

                def compacted(at: int) -> Sequence[Message]:
                    nonlocal added
                    ctx.add_messages(self.messages[added:at])
                    added = at
                    return ctx.active_context().sent

                yield compacted

    def _newest(self, at: int, size: int) -> Sequence[Message]:
        """Return the system messages at the beginning, and as many of the newest as fit."""
        first = list(takewhile(lambda m: m.role in SYSTEM_ROLES, self.messages[:at]))
        room = ContextWindow(size=size).usable - self._beside - sum(self._sizes[: len(first)])
        start, tokens = at, 0
        for place in range(at - 1, len(first) - 1, -1):
            tokens += self._sizes[place]
            if tokens > room:
                break
            if may_cut_before(self.messages, place):
                start = place
        if start == at:
            raise CannotFit({"newest messages": tokens}, room)
        return [*first, *self.messages[start:at]]

    def _session(self, size: int) -> ContextManager:
        return ContextManager(
            window=size,
            tokenizer=self.job.counter.estimator.name,
            format=self.job.transcript.wire,
            tools=self.job.transcript.tools or None,
            policy=self.job.settings.policy(),
            summarizer="extractive",
        )

    # --- asking a model ---------------------------------------------------------------------------

    async def agreement(
        self,
        model: ChatModel,
        policies: Sequence[Policy],
        sample: int,
        on_call: Callable[[int, int], None],
    ) -> list[dict[str, Any]]:
        """Ask a model for the next action at some calls, under each policy, and under the first
        policy twice. Return how often the action equals the first one. A difference between
        policies means something only if it is larger than that between the two equal runs.
        """
        chosen = self.calls[:: max(1, len(self.calls) // sample)][:sample]
        runs = [policies[0], *policies]
        actions: list[list[list[tuple[str, str]] | None]] = []
        for number, policy in enumerate(runs):
            on_call(number * len(chosen), len(runs) * len(chosen))
            with self.prompts(policy) as prompts:
                actions.append([await self._action(model, prompts, at) for at in chosen])
        first, rows = actions[0], []
        for policy, own in zip(policies, actions[1:], strict=True):
            pairs = [(a, b) for a, b in zip(first, own, strict=True) if a is not None is not b]
            tools = sum([x for x, _ in a] == [x for x, _ in b] for a, b in pairs)
            whole = sum(a == b for a, b in pairs)
            row = {"policy": policy.name, "asked": len(pairs), "same_tool": tools}
            rows.append({**row, "same_action": whole, "again": policy is policies[0]})
        return rows

    async def _action(
        self, model: ChatModel, prompts: Prompts, at: int
    ) -> list[tuple[str, str]] | None:
        """Return the calls of the model's answer. A text counts as one call without a name. Return
        None if the prompt does not fit.
        """
        try:
            context = ActiveContext(messages=tuple(prompts(at)), tokens=0, tools=self._tools)
            message = (await model.complete(context, Ask(max_tokens=ANSWER_TOKENS))).message
        except (CannotFit, ContextOverflow):
            return None
        if not isinstance(message, Message):
            return None
        calls = [(c.name, str(json_or(c.arguments, c.arguments))) for c in message.tool_calls]
        return calls or [("", message.text)]

    @cached_property
    def _tools(self) -> tuple[dict[str, Any], ...]:
        """The tools in the file. Many programs write none. Then they are the tools that were
        called, with the names of their arguments.
        """
        fields: dict[str, dict[str, Any]] = {}
        for message in self.messages:
            for call in message.tool_calls:
                given = json_or(call.arguments)
                known = fields.setdefault(call.name, {})
                known |= {name: {} for name in given} if isinstance(given, dict) else {}
        called = (
            {"name": name, "parameters": {"type": "object", "properties": known}}
            for name, known in fields.items()
        )
        made = ({"type": "function", "function": each} for each in called)
        return tuple(map(dict, self.job.transcript.tools)) or tuple(made)

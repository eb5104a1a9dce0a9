"""Compression in one call, without set-up or key. `one_call` loads this module."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import Any

from compact import wiring
from compact.engine import pipeline
from compact.engine.history import History, Item
from compact.engine.inputs import Budget
from compact.engine.pipeline import Proposal
from compact.engine.plan import Plan
from compact.errors import CompactError, InvalidArgument
from compact.messages.budget import ContextWindow
from compact.messages.calls import got, known_options, whole_number
from compact.messages.characters import all_carried
from compact.messages.context import ActiveContext
from compact.messages.events import ErrorRaised
from compact.messages.formats.known import format_named, format_of
from compact.messages.formats.wire import WireFormat
from compact.messages.given import Given, messages_given
from compact.messages.messages import Message, Text
from compact.messages.own_text import OwnText, keyed
from compact.messages.policy import CompactPolicy
from compact.models.profiles import shipped
from compact.secrets.redactor import NOTHING_ELSE
from compact.session import running
from compact.session.merged import apart, may_be_joined
from compact.session.one_call import Options
from compact.session.prompt_overhead import checked_size, parts_beside
from compact.session.running import TimeoutSummarizer, delivered_on_loop, off_loop

SHORTEST_KEY = 16
"""The shortest key, in bytes: 128 bits are too many to guess. Whoever knows the key can write text
that is taken for compact's own."""
MOST_FOR_WORDS = 8_192
"""In limits up to this one, the user's newest messages take their share first (FR-8). A larger
limit has room for them anyway."""
SHRINKS = 3
"""How many times at most to compress again, to fewer tokens. This is done while the messages exceed
the limit in the form in which they are sent."""
_PROCESS_KEY = secrets.token_bytes(32)


class Task:
    """One call with its options, checked and completed."""

    def __init__(self, given: Sequence[Given], max_tokens: int, options: Options) -> None:
        self._given = messages_given(given)
        known_options(options, Options)
        max_tokens = checked_size("max_tokens", max_tokens)
        self._typed = bool(self._given) and isinstance(self._given[0], Message)
        own = _own_text(options.get("key"))
        pieces = [
            apart([message], own) if may_be_joined(message) else (message,)
            for message in self._given
        ]
        messages = list(chain.from_iterable(pieces))
        self._wire = _wire_of(messages, options.get("format"))
        self._counter = wiring.token_counter(
            self._wire.name, tokenizer=options.get("tokenizer"), model=options.get("model")
        )
        self._policy = _policy_of(options)
        beside = parts_beside(self._counter, options.get("system"), options.get("tools"))
        words = ContextWindow(size=max_tokens).words if max_tokens <= MOST_FOR_WORDS else 0
        self._budget = Budget(max_tokens, beside, words=words)
        self._history = History(
            messages,
            self._wire,
            self._counter,
            never_pruned=self._policy.roles_never_pruned,
            pinned=_pins_of(options.get("pin"), [len(row) for row in pieces]),
            own=own,
        )
        book = options.get("models") or shipped()
        self._history.reasoning_sent = book.reasoning_sent_of(options.get("model"))
        self._emit = delivered_on_loop(wiring.emitter(options.get("on_event")))
        redactor = wiring.with_listener(options.get("redactor") or NOTHING_ELSE, self._emit)
        self._history.secrets.redactor = redactor
        chosen = wiring.summarizer(
            options.get("summarizer"),
            self._counter,
            book=options.get("models"),
            emit=self._emit,
            policy=self._policy,
        )
        seconds = self._policy.summary_seconds
        self._summarizer = TimeoutSummarizer(chosen, seconds) if chosen.waits else chosen
        self.waits = self._policy.summarizes and chosen.waits

    async def work(self) -> Plan:
        """Make the plan. In an event loop, this computes in a thread."""
        return await off_loop(self._planned())

    async def _planned(self) -> Plan:
        budget = self._budget
        try:
            outcome = await self._outcome(budget)
            for _ in range(SHRINKS):
                context = outcome.plan.context
                over = context.tokens + self._joining_adds(context) - self._budget.limit
                if over <= 0:
                    break
                budget = replace(budget, limit=budget.limit - over)
                outcome = await self._outcome(budget)
        except CompactError as error:
            self._emit(ErrorRaised.of(error, error.stage))
            raise
        outcome.tell(self._emit)
        return outcome.plan

    async def _outcome(self, budget: Budget) -> Proposal:
        return await pipeline.compress(
            self._history,
            self._policy,
            budget=budget,
            summarizer=self._summarizer,
            emit=self._emit,
        )

    def _joining_adds(self, context: ActiveContext) -> int:
        """Return how many more tokens the texts have when they are joined into one message. With
        some tokenizers a joined text has more.
        """
        more = 0
        for message in context.sent if context.seams else ():
            texts = [part.text for part in message.parts if isinstance(part, Text)]
            if len(texts) > 1:
                alone = sum(map(self._counter.text, texts))
                more += max(0, self._counter.text("\n\n".join(texts)) - alone)
        return more

    def run(self, *, instead: str) -> Plan:
        """Make the plan, for a blocking caller. `instead` is the async form that an error names."""
        return running.run(self.work(), waits=self.waits, instead=instead)

    def render(self, done: Plan) -> list[Any]:
        """Return the plan's messages in the form of the given ones."""
        if done.unchanged and len(self._history) > len(self._given):
            return list(self._given)  # messages that a client joined are returned joined
        messages = done.context.sent
        return messages if self._typed else all_carried(self._wire.render(messages))


def _wire_of(messages: Sequence[Item], name: str | None) -> WireFormat:
    if name is not None:
        return format_named(name)
    for message in messages[-1:]:
        if isinstance(message, Message):
            return format_named(message.wire_format or "chat_completions")
    return format_of(messages)


def _own_text(key: bytes | None) -> OwnText:
    if key is None:
        return keyed(_PROCESS_KEY)
    if not isinstance(key, bytes) or len(key) < SHORTEST_KEY:
        size = f"{len(key)} of them" if isinstance(key, bytes) else type(key).__name__
        raise InvalidArgument("key", f"key must be at least {SHORTEST_KEY} bytes, got {size}")
    return keyed(key)


def _pins_of(given: Iterable[int] | None, pieces: Sequence[int]) -> list[int]:
    """Return the positions to pin. `pieces` says into how many messages each given message was
    split. The last of them has its words.
    """
    if given is None:
        return []
    pins: list[int] = []
    for i, value in enumerate(given):
        position = whole_number(value)
        if position is None:
            reason = f"pin[{i}] must be a whole number, got {got(value)}"
            raise InvalidArgument("pin", reason)
        pins.append(position)
    if sum(pieces) > len(pieces):
        places = list(accumulate(pieces))
        pins = [places[i] - 1 if -len(places) <= i < len(places) else sum(pieces) for i in pins]
    return pins


def _policy_of(options: Options) -> CompactPolicy:
    policy = options.get("policy") or CompactPolicy()
    if "summarizer" in options and options["summarizer"] is None:
        return policy.model_copy(update={"strategy": "off"})
    return policy

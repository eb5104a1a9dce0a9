"""A program that resends its whole list before each call of a model, and a judge of each list that
it gets back (K-6). The judge counts and checks with `tests.checker`.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from compact import CannotFit, CompactConfig, CompactManager
from compact.messages.events import BranchTaken, Committed, Event
from compact.messages.policy import Strategy
from tests import checker
from tests.session.playing import cover_faults

Dict = dict[str, Any]
MARGIN = 256
"""Tokens beside what is protected below which a prompt may be refused as too large."""


class Program:
    """One session, resent to a `CompactManager` of its own; `with` closes it."""

    def __init__(
        self,
        wire: str,
        window: int,
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        strategy: Strategy = "task_state",
    ) -> None:
        self.wire, self.window, self.tools = wire, window, tools
        self.events: list[Event] = []
        config = CompactConfig(max_context_tokens=window, tokenizer="o200k", strategy=strategy)
        self.manager = CompactManager(config, on_event=self.events.append)
        self.ctx = self.manager.session("s")
        self.beside = sum(map(checker.tokens, texts_in(list(tools))))
        """Tokens of the tools, at least: of the texts in them, however they are written."""
        self.most_beside = sum(checker.tokens(json.dumps(tool)) for tool in tools)
        """Tokens of the tools, at most: of their JSON."""
        self.count: Counter[str] = Counter()
        self.sent: list[str] = []
        """The messages of the list that was sent last, as they go over the wire."""
        self.known = 0
        """How many messages of its own the program had given by then."""

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.manager.close()

    def resend(self, given: Sequence[Dict], protected: Iterable[int]) -> list[Dict] | None:
        """The list to send instead, judged; None where what stands at the protected positions does
        not fit the window.
        """
        words = {text for i in protected for text in own_words(given[i])}
        count = len(self.events)
        self.count["calls"] += 1
        try:
            prompt: list[Dict] = self.manager.preflight("s", given, tools=self.tools)
        except CannotFit as error:
            self.cannot(error, words)
            return None
        new = self.events[count:]
        commits = sum(isinstance(event, Committed) for event in new)
        faults = [*self.faults(prompt, given, words, is_compacted=commits > 0)]
        assert not faults, faults[:5]
        self.count["prompts"] += 1
        self.count["compactions"] += commits
        self.sent, self.known = list(map(json.dumps, prompt)), len(given)
        return prompt

    def cannot(self, error: CannotFit, words: set[str]) -> None:
        """Nothing could be sent, and rightly: what is protected is too large."""
        needed = self.most_beside + sum(map(checker.tokens, words)) + MARGIN
        assert needed > error.limit, f"{needed} tokens are needed, {error}"
        self.count["cannot fit"] += 1
        self.sent = []

    def faults(
        self, prompt: list[Dict], given: Sequence[Dict], words: set[str], *, is_compacted: bool
    ) -> Iterable[str]:
        """What is wrong with a list."""
        if (tokens := checker.prompt_tokens(prompt) + self.beside) > self.window:
            yield f"{tokens} tokens in a window of {self.window}"
        yield from checker.broken_rules(prompt, self.wire)
        shown = [text for message in prompt for text in checker.visible(message)]
        whole = "\n\n".join(["", *shown, ""])
        missing = (word for word in words if f"\n\n{word}\n\n" not in whole)
        yield from (f"protected, and not there: {len(word)} characters" for word in missing)
        if is_compacted:
            yield from cover_faults(self.ctx)
        elif list(map(json.dumps, prompt[: len(self.sent)])) != self.sent:
            yield "the list that was sent does not go on"
        elif self.sent and len(prompt) < len(self.sent) + len(given) - self.known:
            yield "a new message is not there"
        headings = Counter(found for text in shown for found in checker.HEADING.findall(text))
        yield from (f"{n} views of one summary" for n in headings.values() if n > 1)

    def end(self, given: Sequence[Dict]) -> None:
        """All that was given is stored once, in order, on one branch."""
        render = self.ctx._session.state.wire.render
        stored = list(map(checker.freeze, render(tuple(self.ctx.history))))
        assert stored == [checker.freeze(unmarked(message)) for message in given]
        assert not any(isinstance(event, BranchTaken) for event in self.events)
        self.count["identical messages"] += len(stored) - len(set(stored))


def texts_in(value: object) -> Iterator[str]:
    """Every text that is a value in nested lists and mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from texts_in(each)


def own_words(message: Mapping[str, Any]) -> list[str]:
    """The texts of a message, without tool results beside them."""
    content = message.get("content")
    if isinstance(content, list):
        spoken = [part for part in content if part.get("type") != "tool_result"]
        message = {**message, "content": spoken}
    return checker.visible(message)


def unmarked(message: Mapping[str, Any]) -> Dict:
    """The message without what it tells compact."""
    return {key: value for key, value in message.items() if key != "metadata"}

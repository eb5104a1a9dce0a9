"""Forms: how the prompt can show the groups of a history, kept between compressions.

A complete group never changes. Its forms, their tokens, words and names are computed once, mostly
between turns (`session.reading_ahead`). Each look-up compares the messages, so nothing outdated is
shown.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import is_

from compact.engine import shorten
from compact.engine.chronology.composing import count_ahead
from compact.engine.groups import Group, groups_from_end
from compact.engine.history import History
from compact.engine.visible import VisiblePart
from compact.messages.boundaries import MOST_BETWEEN
from compact.messages.cached import cached_property
from compact.messages.checkpoints import Checkpoint
from compact.messages.message_redaction import redact_message
from compact.messages.messages import Message
from compact.messages.tokens import TokenCounter
from compact.text.speakers import speaker_of


class ClosedMessages:
    """Messages in one form. Each call has a result and each result a call, as providers demand."""

    def __init__(self, messages: Sequence[Message], tokens: int) -> None:
        self.messages, self.tokens = messages, tokens
        self._sent: int | None = None
        self._told: tuple[int, ClosedMessages] = (-1, self)

    @cached_property
    def visible(self) -> VisiblePart:
        """The text that a reader sees in the messages."""
        return VisiblePart.of(self.messages)

    def sent(self, counter: TokenCounter) -> int:
        """Return the tokens of the messages, by one counter."""
        if self._sent is None:
            self._sent = sum(map(counter.message, self.messages))
        return self._sent

    def told(self, history: History, positions: Iterable[int]) -> ClosedMessages:
        """Return the messages at these positions with their secrets redacted."""
        known = history.secrets
        if self._told[0] < len(known):
            as_said = {id(history[i]): i for i in positions}
            told = [
                history.redacted(as_said[id(m)]) if id(m) in as_said else redact_message(m, known)
                for m in self.messages
            ]
            same = all(map(is_, told, self.messages))
            self._told = len(known), self if same else ClosedMessages(told, self.tokens)
        return self._told[1]


class GroupForms:
    """One group in its forms, each built on demand."""

    def __init__(self, history: History, group: Group, said: Sequence[Message]) -> None:
        self.group, self.said, self._history = group, said, history
        self._masked: dict[bool, ClosedMessages] = {}

    def is_of(self, said: Sequence[Message]) -> bool:
        """Whether the forms were built from these same objects."""
        return len(said) == len(self.said) and all(map(is_, said, self.said))

    @cached_property
    def whole(self) -> ClosedMessages:
        """The group word for word."""
        return whole(self._history, self.group, self.said)

    @cached_property
    def pairs(self) -> int:
        """How many tool results the group holds."""
        return sum(len(m.tool_results) for m in self.whole.messages)

    def masked(self, *, reasoning: bool) -> ClosedMessages:
        """Return the group with stubs for long tool output, with or without reasoning."""
        reasoning = reasoning and any(m.has_reasoning for m in self.said)
        found = self._masked.get(reasoning)
        if found is None:
            found = masked(self._history, self.whole, reasoning=reasoning)
            self._masked[reasoning] = found
        return found


class Forms:
    """The forms of a history's groups."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._groups: dict[tuple[int, int], GroupForms] = {}
        self._starts: dict[int, tuple[int, int]] = {}
        """Cut → start of the group before it, and the history's length for which this holds: any
        (`sys.maxsize`) if later messages cannot change it."""
        self._standing: dict[str, tuple[tuple[str, int], ClosedMessages]] = {}
        """Checkpoint id → its summary and tokens, and its messages as the prompt shows them."""
        self._ready = 0
        """End of the newest group that was prepared ahead."""
        self._newest = -1
        """Position of the newest user message when groups were prepared."""

    def of(self, group: Group) -> GroupForms:
        """Return the forms of a group."""
        said = [self._history.shown(i) for i in group]
        key = group.start, group.stop
        found = self._groups.get(key)
        if found is None or not found.is_of(said):
            found = self._groups[key] = GroupForms(self._history, group, said)
        return found

    def from_end(self, stop: int | None = None) -> Iterator[GroupForms]:
        """Yield the groups before a legal cut, newest first (`engine.groups`)."""
        end = len(self._history) if stop is None else stop
        while end > 0:
            yield self.of(Group(start := self._start(end), end))
            end = start

    def _start(self, end: int) -> int:
        length = len(self._history)
        start, until = self._starts.get(end, (0, -1))
        if until not in (length, sys.maxsize):
            start = next(groups_from_end(self._history, end)).start
            settled = end + MOST_BETWEEN < length
            self._starts[end] = start, sys.maxsize if settled else length
        return start

    def ahead(self, since: int, until: int) -> Iterator[None]:
        """Prepare complete groups from `since` to `until`, newest first, one group per step."""
        notes = self._history.notes
        if notes is None:
            return
        count_ahead(notes, self._history.counter, max(since, self._ready))
        newest = next(self._history.persons(), -1)
        begin = max(since, self._ready) if newest == self._newest else since
        self._newest = newest  # decides whose reasoning stays
        for forms in self.from_end():
            if forms.group.stop <= begin:
                break
            if forms.group.stop < until:
                self._ready = max(self._ready, forms.group.stop)
                short = forms.masked(reasoning=self._history.wants_reasoning(forms.group.start))
                for shape in (forms.whole, short):
                    shape.sent(self._history.counter)
                    for each in {shape, shape.told(self._history, forms.group)}:
                        _ = each.visible.names, each.visible.chunks
                yield

    def standing(self, checkpoints: Sequence[Checkpoint]) -> list[ClosedMessages]:
        """Return checkpoints as the prompt shows them. The latest ones are cached."""
        known, own = self._standing, self._history.own
        self._standing = {}
        for each in checkpoints:
            mark = each.summary, each.token_count
            before, shape = known.get(each.id, (None, None))
            if shape is None or before != mark:
                shape = ClosedMessages([each.message(own)], each.token_count)
            self._standing[each.id] = mark, shape
        return [shape for _, shape in self._standing.values()]

    def forget(self, before: int, keep: Collection[int]) -> None:
        """Forget the groups before a position, except at some positions."""
        held = {k: v for k, v in list(self._groups.items()) if k[1] > before or k[0] in keep}
        self._groups = held
        self._starts = {k: v for k, v in list(self._starts.items()) if k > before}


def forms_of(history: History) -> Forms:
    """Return the forms of a history, which the history keeps."""
    if history.forms is None:
        history.forms = Forms(history)
    return history.forms


def whole(history: History, positions: Iterable[int], said: Sequence[Message]) -> ClosedMessages:
    """Return messages of one group word for word, with open calls answered."""
    plain = all(isinstance(m.content, str) for m in said)  # texts have no calls and results
    shown = said if plain else shorten.closed(said)
    if shown == said:
        return ClosedMessages(shown, sum(map(history.tokens, positions)))
    return ClosedMessages(shown, sum(map(history.counter.message, shown)))


def masked(
    history: History,
    shape: ClosedMessages,
    *,
    reasoning: bool,
    spared: Collection[Message] = (),
) -> ClosedMessages:
    """Return messages of one group with stubs for tool output; `spared` ones stay whole. Return
    the same object if nothing gets shorter.
    """
    messages = shape.messages
    calls = {call.id: call for m in messages for call in m.tool_calls}
    shorter = [
        shorten.masked(m, calls, history.counter, reasoning=reasoning)
        if may_shorten(m, spared)
        else m
        for m in messages
    ]
    if all(map(is_, shorter, messages)):
        return shape
    return ClosedMessages(shorter, sum(map(history.counter.message, shorter)))


def may_shorten(message: Message, spared: Collection[Message]) -> bool:
    """Whether the message may be shortened. A checkpoint may not: its digest would no longer match.
    Nor may a spared message that holds only results.
    """
    if any(message.id == each.id and not each.text for each in spared):
        return False  # even if its result became a note because its call is hidden
    return message.role != "user" or speaker_of(message) != "checkpoint"

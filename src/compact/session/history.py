"""`SessionHistory`: the full record of a session, kept in a store. It only grows.

Active contexts are made from the history. The history itself is never sent to a model. New
messages, and those that prompts show, are in memory. The rest stays in the store, and is read in
pages when needed. So memory use depends on the window, not on the session's length.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain as chained
from typing import Any, overload

from compact import forks
from compact.engine.history import NEVER_PRUNED, History, Item
from compact.engine.shorten import put_aside, without_reasoning
from compact.errors import NotFound, Superseded
from compact.messages import chain
from compact.messages.changes import SystemShown
from compact.messages.copies import copied_message
from compact.messages.formats.wire import WireFormat
from compact.messages.messages import Message
from compact.messages.own_text import headed
from compact.messages.protocols import SessionStore, Version, Versioned
from compact.messages.sessions import FIXED, PERSON, Branch, Entry
from compact.messages.tokens import TokenCounter
from compact.session.entering import entry_of, scored
from compact.text.speakers import marked, may_be_persons

PAGE = 32
"""How many messages to read from the store at once."""
NEWLY_READ = 1_000
"""How many messages of other processes to read at once."""
MOST_FIXED = 10_000
"""How many system messages and pins to look for when a session is opened, at most."""
MOST_PERSONS = 200
"""How many positions of the user's newest messages stay in memory."""


class SessionHistory(History):
    """One branch of a session, as a sequence of messages. Only `append` adds messages."""

    def __init__(
        self,
        store: SessionStore,
        branch: Branch,
        wire: WireFormat,
        counter: TokenCounter,
        *,
        never_pruned: Collection[str] = NEVER_PRUNED,
        counts: bool = True,
    ) -> None:
        self._length = 0
        super().__init__((), wire, counter, never_pruned=never_pruned)
        self.branch_id = branch.id
        self._store = store
        self._length = branch.messages
        self._versioned = store if isinstance(store, Versioned) else None
        self._appended = 0
        """How many transactions this object has appended."""
        self._seen: Version | None = None
        """The store's version when messages of other processes were last read."""
        self._counts = counts
        """Whether the counts in the store were made with this counter."""
        self._lock = forks.Lock()
        self._columns: dict[str, SessionHistory] = {counter.estimator.name: self}
        """Tokenizer → this history with its counts."""
        self._instead: dict[int, Message] = {}
        """Position → the message shown for a leading system message."""
        self.own_system: str | None = None
        """The client's own words in the system prompt. None if all of it is the client's."""
        self._put_aside: dict[int, int] = {}
        """Position → how many tokens may be shown of a message that was put aside."""
        self._aside: dict[int, tuple[Message, int]] = {}
        """Position → what is shown of a message that was put aside, and its tokens."""
        fixed = store.marked(branch.id, FIXED, before=self._length, most=MOST_FIXED)
        self.fixed = fixed[::-1]
        self._person_positions: list[int] = []
        """Positions of a person's messages from `_persons_from` on, ascending."""
        self._persons_from = self._length

    def counted_by(self, counter: TokenCounter) -> SessionHistory:
        """Return the same history with that tokenizer's counts."""
        name = counter.estimator.name
        with self._lock:
            if name not in self._columns:
                self._columns[name] = _CountedHistory(self, counter)
            return self._columns[name]

    def __len__(self) -> int:
        return self._length

    def _message_at(self, position: int) -> Message:
        if not 0 <= position < self._length:
            raise IndexError(f"this branch has {self._length} messages, none at {position}")
        start = position - position % PAGE
        entries = self._store.read(self.branch_id, start, start + PAGE)
        self._keep(start, entries)
        return self._messages.get(position) or self._as_said(entries[position - start])

    def _keep(self, start: int, entries: Sequence[Entry]) -> None:
        for position, entry in enumerate(entries, start):
            if position in self._instead:
                self._messages[position] = self._instead[position]
                continue
            self._messages.setdefault(position, self._as_said(entry))
            if entry.tokens is not None and self._counts:
                self._tokens.setdefault(position, entry.tokens)

    def _as_said(self, entry: Entry) -> Message:
        """Return the stored message, in this session's format if that does not change it."""
        message = _as_marked(entry)
        if message.wire_format in (self.wire.name, None) or not self.wire.reads_the_same(message):
            return message
        return message.model_copy(update={"wire_format": self.wire.name})

    def append(
        self, make: Callable[[int], Sequence[Message]], *, expected: int | None = None
    ) -> list[Message]:
        """Append and store copies of the messages that `make` returns. `make` is called with the
        position of the first one. If another process appends first, its messages are read, and
        `make` is called again.

        Raises:
            Superseded: the branch no longer has `expected` messages; nothing was stored.
        """
        with self._lock:
            for _ in range(100):
                if expected is not None and expected != self._length:
                    raise Superseded(f"the branch has {self._length} messages, not {expected}")
                messages = [scored(message) for message in make(self._length)]
                entries: list[Entry] = []
                for message in messages:
                    entries.append(self._entry(copied_message(message), entries))
                try:
                    self._store.append(self.branch_id, entries, expected=self._length)
                except Superseded:
                    self.catch_up()
                    continue
                self._appended += bool(entries)
                self._take(entries)
                return messages
        raise Superseded("other writers were faster a hundred times in a row")

    def _entry(self, message: Message, new: Sequence[Entry]) -> Entry:
        def before() -> Message | None:
            if new:
                return new[-1].message
            return self[self._length - 1] if self._length else None

        return entry_of(message, self.counter, before, self._never_pruned)

    def _take(self, entries: Sequence[Entry]) -> None:
        self._keep(self._length, entries)
        for position, (_, _, marks) in enumerate(entries, self._length):
            if marks & FIXED:
                self.fixed.append(position)
            if marks & PERSON:
                self._person_positions.append(position)
        self._length += len(entries)

    def as_shown(self, messages: Sequence[Message], own: str | None = None) -> SystemShown:
        """Build a change that shows these messages instead of the leading system messages. `own`
        are the client's own words in them.
        """
        return SystemShown(
            of=self.link(len(messages)),
            messages=tuple(self.wire.render(list(messages))),
            tokens=tuple(map(self.counter.message, messages)),
            own=own,
        )

    @property
    def shows_other_system(self) -> bool:
        """Whether prompts show another system prompt than the stored one."""
        return bool(self._instead)

    def take_system(self, shown: SystemShown) -> None:
        """Show a system prompt, if it replaces the one of this branch."""
        count = len(shown.messages)
        if self._length < count or self.link(count) != shown.of:
            return
        with self._lock:
            self.own_system = shown.own
            for position, wire in enumerate(shown.messages):
                message = self._messages[position] = self.wire.parse(wire, position)
                self._instead[position] = message
                for by_position in self._known_of_messages():
                    by_position.pop(position, None)

    def _known_of_messages(self) -> Iterator[dict[int, Any]]:
        """Yield what is kept in memory by position, except the messages."""
        yield from (self._importance, self._redacted)
        for column in self._columns.values():
            yield from (column._tokens, column._instructions, column._aside)

    def extend(self, items: Sequence[Item]) -> None:
        """Append messages, as `append` does."""
        if items:
            self.append(lambda at: self._parsed(items, at))

    def _parsed(self, items: Sequence[Item], at: int) -> list[Message]:
        made: list[Message] = []
        for position, item in enumerate(items, at):
            before = chained(reversed(made), map(self.__getitem__, range(at)[::-1]))
            if not isinstance(item, Message):
                item = self.wire.parse(item, position, before)
            made.append(marked(item, self.own))
        return made

    def version(self) -> Version | None:
        """Return a value that changes when anything is stored, except by this object's `append`.
        None if the store has no versions.
        """
        with self._lock:
            version = self._versioned.version(self.branch_id) if self._versioned else None
            return version and (version[0], version[1] - self._appended)

    def catch_up(self) -> Version | None:
        """Read the messages that other processes appended. Return the store's version."""
        with self._lock:
            version = self.version()
            if version is None or version != self._seen:
                while new := self._store.read(
                    self.branch_id, self._length, self._length + NEWLY_READ
                ):
                    self._take(new)
                self._seen = version
            return version

    def forget(self, before: int, keep: Collection[int]) -> None:
        """Drop the messages before a position from memory, except at the positions in `keep`."""
        with self._lock:
            for kept in (self._messages, *self._known_of_messages()):
                gone = [i for i in list(kept) if i < before and i not in keep]
                for position in gone:
                    del kept[position]
            for column in self._columns.values():
                if column.forms is not None:
                    column.forms.forget(before, keep)
            if len(self._person_positions) > 2 * MOST_PERSONS:
                del self._person_positions[:-MOST_PERSONS]
                self._persons_from = self._person_positions[0]

    def put_aside(self, position: int, most: int) -> None:
        """Show only the beginning and end of a message from now on, in about `most` tokens. The
        stored message stays whole.
        """
        with self._lock:
            self._put_aside[position] = most
            for column in self._columns.values():
                column._aside.pop(position, None)

    def as_aside(self, position: int, most: int) -> tuple[Message, int]:
        """Return how the message would be shown if it were put aside, and its tokens."""
        short = put_aside(self[position], most, self.counter)
        return short, self.counter.message(short)

    def shown(self, position: int) -> Message:
        """Return the message as a model sees it: whole, shortened because it was put aside, or
        without reasoning that is not sent again.
        """
        return self._known_aside(position)[0] if self._is_less(position) else self[position]

    def sends_reasoning(self, position: int) -> bool:
        """Return whether the reasoning of the message is sent again."""
        return not self.wire.thinks_in_fields or self.wants_reasoning(position)

    def _is_less(self, position: int) -> bool:
        if position in self._put_aside:
            return True
        return self[position].has_reasoning and not self.sends_reasoning(position)

    def _known_aside(self, position: int) -> tuple[Message, int]:
        if position not in self._aside:
            most = self._put_aside.get(position)
            if most is None:
                short = without_reasoning(self[position])
                self._aside[position] = short, self.counter.message(short)
            else:
                self._aside[position] = self.as_aside(position, most)
        return self._aside[position]

    def tokens(self, position: int) -> int:
        """Return the tokens of the message as it is sent."""
        if self._is_less(position):
            return self._known_aside(position)[1]
        return self.said_tokens(position)

    def said_tokens(self, position: int) -> int:
        """Return the tokens of the whole message. Its own `token_count` is ignored, because another
        tokenizer may have made it.
        """
        tokens = self._tokens.get(position)
        if tokens is None:
            message = self[position]
            # reading the message may have brought the store's count
            tokens = self._tokens.get(position)
        if tokens is None:
            tokens = self._tokens[position] = self.counter.message(message)
        return tokens

    def recount(self) -> None:
        """Drop all counts, because the tokenizer now counts the same text differently."""
        with self._lock:
            self._counts = False
            self._tokens.clear()
            self._instructions.clear()
            self._aside.clear()
            self.forms = None

    def counted(self) -> int:
        """Return how many messages have been counted: all, because the store keeps their sums."""
        return self._length

    def total(self) -> int:
        """Return the tokens of all messages by the session's own tokenizer, from the store."""
        return self._store.branch(self.branch_id).tokens

    def persons(self) -> Iterator[int]:
        """Yield the positions of a person's messages, newest first. Reads the store in pages."""
        before = self._length
        while (position := self._person_before(before)) is not None:
            yield position
            before = position

    def _person_before(self, position: int) -> int | None:
        with self._lock:
            while not (at := bisect.bisect_left(self._person_positions, position)):
                older = self._store.marked(
                    self.branch_id, PERSON, before=self._persons_from, most=PAGE
                )
                if not older:
                    return None
                self._persons_from = older[-1]
                self._person_positions[:0] = older[::-1]
            return self._person_positions[at - 1]

    def is_person(self, position: int) -> bool:
        """Return whether a person wrote the message."""
        if position >= self._persons_from:
            at = bisect.bisect_left(self._person_positions, position)
            return self._person_positions[at : at + 1] == [position]
        return may_be_persons(self[position], lambda: self[position - 1] if position else None)

    def first_request(self) -> int | None:
        """Return the position of a person's first message, or None."""
        if self._first is None:
            self._first = self._store.first_marked(self.branch_id, PERSON)
        return self._first

    def link(self, length: int) -> str:
        """Return the chain hash after `length` messages."""
        return self._store.chain(self.branch_id, length).hex()

    def position_of(self, message_id: str) -> int | None:
        """Return the position of the newest message with that id, or None."""
        return self._store.position_of(self.branch_id, message_id)

    def place_of(self, message: Message | str | int | None) -> int:
        """Return the position of a message. Pass the message, its id or its position, or None for
        the user's newest message.

        Raises:
            NotFound: there is no such message.
        """
        self.catch_up()
        if isinstance(message, int):
            position = message if 0 <= message < len(self) else None
            wanted = f"{message:,}: it has {len(self):,}"
        elif message is None:
            position, wanted = next(self.persons(), None), "of a person"
        else:
            wanted = message if isinstance(message, str) else message.id
            position, wanted = self.position_of(wanted), f"with the id {wanted!r}"
        if position is None:
            raise NotFound(f"this session has no message {wanted}")
        return position

    def known_prefix(
        self, messages: Sequence[Message | Mapping[str, Any]], *, after: int = 0
    ) -> int:
        """Return how many of these messages, from the first on, follow position `after` here."""
        links = [self._store.chain(self.branch_id, after)]
        for message in messages[: self._length - after]:
            links.append(chain.link(links[-1], message))
        low, high = 0, len(links) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._store.chain(self.branch_id, after + middle) == links[middle]:
                low = middle
            else:
                high = middle - 1
        return low


class _CountedHistory(SessionHistory):
    """Shares another history's messages, and has the counts of another tokenizer."""

    __slots__ = ("_aside", "_counts", "_instructions", "_tokens", "counter", "forms")

    def __init__(self, history: SessionHistory, counter: TokenCounter) -> None:
        self.__dict__ = history.__dict__  # attributes without a slot are the history's own
        self.counter = counter
        self._counts = False
        self._tokens, self._instructions, self._aside, self.forms = {}, {}, {}, None


class Record(SessionHistory):
    """A session's history that returns copies of its messages."""

    def __init__(self, history: SessionHistory) -> None:
        self.__dict__ = history.__dict__

    @overload
    def __getitem__(self, position: int) -> Message: ...

    @overload
    def __getitem__(self, position: slice) -> list[Message]: ...

    def __getitem__(self, position: int | slice) -> Message | list[Message]:
        item = super().__getitem__(position)
        return item if isinstance(item, list) else copied_message(item)

    def shown(self, position: int) -> Message:
        """Return a copy of the message as a model sees it."""
        return copied_message(super().shown(position))


def _as_marked(entry: Entry) -> Message:
    """Return the stored message. Headings once had no key. A message that was recognized as
    compact's own at that time lacks the mark `PERSON`, and gets the source `checkpoint`.
    """
    message = entry.message
    if entry.marks & PERSON or message.role != "user" or message.metadata.source is not None:
        return message
    if headed(message.text) not in ("Checkpoint", "Record"):
        return message
    metadata = message.metadata.model_copy(update={"source": "checkpoint"})
    return message.model_copy(update={"metadata": metadata})

"""A session history: an append-only list of messages that is read lazily.

Dictionaries become `Message` values on demand. Tokens are counted once. One scan of the roles finds
the messages that may never be pruned. So the cost of a plan depends on the messages that stay.
`messages.boundaries` says where a cut is legal, `engine.groups` what a group is.
"""

from __future__ import annotations

import bisect
import math
import reprlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from pydantic import ConfigDict, TypeAdapter, ValidationError

from compact.errors import InvalidMessage
from compact.messages.formats.wire import WireFormat, record_at
from compact.messages.message_redaction import redact_message
from compact.messages.messages import SYSTEM_ROLES, Message, is_compaction, metadata_in
from compact.messages.own_text import OwnText, keyed
from compact.messages.tokens import TokenCounter
from compact.models.profiles import ReasoningSent
from compact.secrets.redaction import Known
from compact.text.speakers import marked, may_be_persons, own_words_of, speaker_of

if TYPE_CHECKING:
    from compact.engine.chronology.notes import Notes
    from compact.engine.forms import Forms

Item = Message | Mapping[str, Any]
Indices = TypeVar("Indices", list[int], range)

NEVER_PRUNED = SYSTEM_ROLES
NOBODYS = keyed(b"compact")
"""The key for histories that belong to no session."""
FEW_MESSAGES = 1_000
"""A history of at most this many messages is read whole without being counted."""
LEADING = 4
"""How many messages at the start are searched for an earlier checkpoint."""
FLAGS = ("pinned", "protected")
_BOOL = TypeAdapter(bool, config=ConfigDict(defer_build=True))
GAP = 256
"""After more new messages, user messages are searched from the end again, not in all of them."""


class History:
    """Messages in the order of the log. Nothing is ever removed or replaced."""

    def __init__(
        self,
        items: Sequence[Item],
        wire: WireFormat,
        counter: TokenCounter,
        *,
        never_pruned: Collection[str] = NEVER_PRUNED,
        pinned: Iterable[int] = (),
        own: OwnText = NOBODYS,
    ) -> None:
        self.own = own
        """Signs the texts that compact adds, and recognizes them."""
        self.wire = wire
        self.counter = counter
        self._never_pruned = frozenset(never_pruned)
        self._items: list[Item] = []
        self._messages: dict[int, Message] = {}
        self._tokens: dict[int, int] = {}
        self._total = 0
        self.forms: Forms | None = None
        """The forms in which the prompt can show the groups (`engine.forms`)."""
        self.notes: Notes | None = None
        """Notes on the messages read so far (`chronology.notes.Notes`)."""
        self.asks_other = False
        """Whether the model belongs to another provider than the message format."""
        self.reasoning_sent: ReasoningSent = "turn"
        """Which of the model's messages are sent with their reasoning."""
        self.secrets = Known()
        """Secrets found in all messages that were redacted so far."""
        self._redacted: dict[int, tuple[Message, int]] = {}
        self._importance: dict[int, float] = {}
        self._instructions: dict[int, int] = {}
        self._newer: list[int] = []
        self._older: list[int] = []
        """Positions of user messages: `_newer` of added ones, `_older` of ones found going back."""
        self._first: int | None = None
        self._opens: int | None = -1
        self.fixed: list[int] = []
        """Positions that may never be pruned, ascending, because of their role or a pin or mark."""
        self.extend(items)
        self._pin_all(pinned)
        self._looked_from = self._looked_until = len(self)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, position: int) -> Message: ...

    @overload
    def __getitem__(self, position: slice) -> list[Message]: ...

    def __getitem__(self, position: int | slice) -> Message | list[Message]:
        if isinstance(position, slice):
            return [self[i] for i in range(*position.indices(len(self)))]
        message = self._messages.get(position)
        if message is None:
            at = position if position >= 0 else position + len(self)
            message = self._messages[at] = self._message_at(at)
        return message

    def _message_at(self, position: int) -> Message:
        item = self._items[position]
        if not isinstance(item, Message):
            before = (self._plain_at(i) for i in range(position)[::-1])
            item = self.wire.parse(item, position, before)
        return marked(item, self.own)

    def _plain_at(self, position: int) -> Item:
        item = self._items[position]
        return item if isinstance(item, Message) else record_at(item, f"messages[{position}]")

    def __iter__(self) -> Iterator[Message]:
        return (self[i] for i in range(len(self)))

    def extend(self, items: Sequence[Item]) -> None:
        """Append messages, and scan their roles once.

        Raises:
            InvalidMessage: an item is neither a message nor a mapping with a role.
        """
        at = len(self._items)
        try:
            marked = _marked_dicts(items, self._never_pruned)
        except (KeyError, TypeError):
            marked = _marked(items, self._never_pruned, at, self.wire.rules.has_items)
        self.fixed += [at + i for i in marked]
        self._items.extend(items)

    def pin(self, position: int) -> None:
        """Keep a message word for word from now on. Negative positions count from the end.

        Raises:
            InvalidMessage: there is no such message.
        """
        at = self._pinned_at(position)
        place = bisect.bisect_left(self.fixed, at)
        if self.fixed[place : place + 1] != [at]:
            self.fixed.insert(place, at)

    def unpin(self, position: int) -> None:
        """Allow a message to be shortened again, unless its role or a mark forbids this."""
        message, place = self[position], bisect.bisect_left(self.fixed, position)
        is_fixed = message.is_pinned or message.role in self._never_pruned
        if self.fixed[place : place + 1] == [position] and not is_fixed:
            del self.fixed[place]

    def _pin_all(self, positions: Iterable[int]) -> None:
        found = {self._pinned_at(position) for position in positions}
        if found:
            self.fixed = sorted(found.union(self.fixed))

    def _pinned_at(self, position: int) -> int:
        at = position + len(self) if position < 0 else position
        if not 0 <= at < len(self):
            raise InvalidMessage(f"pin[{position}]", f"there are {len(self)} messages")
        return at

    def tokens(self, position: int) -> int:
        """Return a message's tokens as sent, with framing. Each message is counted once."""
        known = self._tokens.get(position)
        if known is None:
            message = self[position]
            known = message.token_count
            if known is None:
                known = self.counter.message(message)
            self._tokens[position] = known
            self._total += known
        return known

    def link(self, length: int) -> str:
        """Return a text that identifies the first `length` messages, if there are branches."""
        return ""

    def redacted(self, position: int) -> Message:
        """Return the message with all secrets redacted, including ones found in other messages."""
        message, known = self._redacted.get(position, (self[position], -1))
        if known < len(self.secrets):
            message = redact_message(message, self.secrets)
            self._redacted[position] = message, len(self.secrets)
        return message

    def shown(self, position: int) -> Message:
        """Return the message as the model sees it."""
        return self[position]

    def wants_reasoning(self, position: int) -> bool:
        """Whether the model wants this message's reasoning."""
        if self.reasoning_sent in ("all", "none") and self.wire.thinks_in_fields:
            return self.reasoning_sent == "all"
        if position > next(self.persons(), -1):
            return True
        return self.reasoning_sent == "calls" and bool(self[position].tool_calls)

    def sends_reasoning(self, position: int) -> bool:
        """Whether the prompt may include this message's reasoning: always, in a plain list."""
        return True

    @property
    def newest_compaction(self) -> int:
        """Position of the newest compaction by any provider, or -1."""
        return next((i for i in reversed(self.fixed) if self[i].has_compaction), -1)

    @property
    def compacted(self) -> int:
        """Position of the newest compaction by the current model's provider, or -1. For a model of
        another provider, a compaction is written as text.
        """
        return -1 if self.asks_other else self.newest_compaction

    def total(self) -> int:
        """Tokens of all messages."""
        if len(self._tokens) < len(self):
            for position in range(len(self)):
                self.tokens(position)
        return self._total

    def counted(self) -> int:
        """How many messages have been counted so far."""
        return len(self._tokens)

    def persons(self) -> Iterator[int]:
        """Yield positions of user messages, newest first, reading back only as needed."""
        if len(self) - self._looked_until > GAP:
            self._newer, self._older = [], []
            self._looked_from = self._looked_until = len(self)
        self._newer += [i for i in range(self._looked_until, len(self)) if self.is_person(i)]
        self._looked_until = len(self)
        for index in range(len(self._newer) - 1, -1, -1):
            yield self._newer[index]
        index = 0
        while index < len(self._older) or self._look_back():
            yield self._older[index]
            index += 1

    def _look_back(self) -> bool:
        while self._looked_from > 0:
            self._looked_from -= 1
            if self.is_person(self._looked_from):
                self._older.append(self._looked_from)
                return True
        return False

    def importance(self, position: int) -> float:
        """Return a message's importance without regard to its age; computed once."""
        known = self._importance.get(position)
        if known is None:
            from compact.text.importance import importance

            known = self._importance[position] = importance(self[position], age=math.inf)
        return known

    def is_important(self, position: int) -> bool:
        """Whether a message is marked important. Dictionaries without metadata are not parsed."""
        item = self._items[position] if self._items else self[position]
        may_be = isinstance(item, Message) or "metadata" in item or "meta" in item
        return may_be and self[position].is_important

    def instruction_tokens(self, position: int) -> int:
        """Return how many tokens the sentences have that may be a user's instructions, in the
        message at `position`.
        """
        known = self._instructions.get(position)
        if known is None:
            from compact.text.instructions import find_instructions

            words = own_words_of(self[position], opens=position == self.first_request())
            found = find_instructions(words, "", position)
            known = sum(self.counter.text(x.text) + 2 for x in found)
            self._instructions[position] = known
        return known

    def first_request(self) -> int | None:
        """Return the position of the first message that a person wrote, if any."""
        if self._first is None:
            self._first = next((i for i in range(len(self)) if self.is_person(i)), None)
        return self._first

    def opening_checkpoint(self) -> int | None:
        """Return the position of a checkpoint among the first messages, if any: it stands for what
        came before this history. The messages are read once.
        """
        if self._opens == -1:
            first = range(min(len(self), LEADING))
            found = (i for i in first if speaker_of(self[i]) == "checkpoint")
            self._opens = next(found, None if len(self) >= LEADING else -1)
        return None if self._opens == -1 else self._opens

    def is_person(self, position: int) -> bool:
        """Whether a person wrote the message, or may have."""
        if not self._may_be_person(position):
            return False
        return may_be_persons(self[position], lambda: self[position - 1] if position else None)

    def _may_be_person(self, position: int) -> bool:
        """Rule out assistants, tools and messages that end with a tool result, without parsing."""
        item = self._items[position]
        if isinstance(item, Message):
            return item.role == "user"
        if item.get("role") != "user":
            return False
        content = item.get("content")
        if isinstance(content, list) and content and isinstance(content[-1], dict):
            return content[-1].get("type") != "tool_result"
        return True


def newest(history: History, positions: Indices, most: int) -> tuple[Indices, int]:
    """Return the newest positions, up to the one that exceeds `most` tokens, and their tokens."""
    total, start = 0, len(positions)
    while start > 0 and total <= most:
        start -= 1
        total += history.tokens(positions[start])
    return positions[start:], total


def _marked_dicts(items: Sequence[Any], roles: Collection[str]) -> list[int]:
    noticed = (
        i
        for i, x in enumerate(items)
        if x["role"] in roles or "metadata" in x or "meta" in x or _compacts(x)
    )
    return [i for i in noticed if items[i]["role"] in roles or _fixed(items[i])]


def _marked(items: Sequence[Item], roles: Collection[str], at: int, has_items: bool) -> list[int]:
    """Return the indices of items that may never be pruned. If a format has items that are not
    messages, an item with a type needs no role.
    """
    found: list[int] = []
    for i, item in enumerate(items):
        if isinstance(item, Message):
            marked = item.role in roles or item.is_pinned
        elif isinstance(item, Mapping) and isinstance(item.get("role"), str):
            marked = item["role"] in roles or _fixed(item)
        elif has_items and isinstance(item, Mapping) and isinstance(item.get("type"), str):
            marked = _fixed(item)
        else:
            raise InvalidMessage(f"messages[{at + i}]", _what_is_wrong(item))
        if marked:
            found.append(i)
    return found


def _compacts(item: Mapping[str, Any]) -> bool:
    """Whether the item is or contains a provider's own compaction."""
    content = item.get("content")
    if isinstance(content, str) and "type" not in item:
        return False  # checked first, because this is called for each message of a list
    return is_compaction(item) or (isinstance(content, list) and any(map(is_compaction, content)))


def _fixed(item: Mapping[str, Any]) -> bool:
    metadata = metadata_in(item)
    is_flagged = isinstance(metadata, Mapping) and any(_is_set(metadata.get(x)) for x in FLAGS)
    return is_flagged or _compacts(item)


def _is_set(flag: object) -> bool:
    """Whether a metadata flag is set by the rules of `MessageMetadata` (1 and "true" are). An
    invalid value counts as set, so that the later check of its field refuses it.
    """
    if flag is None or isinstance(flag, bool):
        return flag is True
    try:
        return _BOOL.validate_python(flag)
    except ValidationError:
        return True


def _what_is_wrong(item: object) -> str:
    if isinstance(item, Mapping):
        return "has no role" if "role" not in item else f"has the role {reprlib.repr(item['role'])}"
    return f"expected an object with a role, got {type(item).__name__}"

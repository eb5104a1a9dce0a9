"""The value every reader gives and every writer takes: one conversation and the file it came from;
and what readers share to build it.

Reading files lives in `reading`, writing them in `writing`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from compact.errors import InvalidMessage, InvalidTranscript, ServerHeldState
from compact.messages import clock_and_ids
from compact.messages.formats.wire import WireFormat
from compact.messages.messages import Message, Part, Text

Shape = Literal["lines", "list", "object"]
Row = Mapping[str, Any]
NO_BOUNDARY = "no compaction boundary: active is the whole file"
"""A note."""


@dataclass(frozen=True, slots=True)
class Container:
    """How a file holds its messages, as far as a writer must know it.

    `shape`: one JSON value a line, one list, or one object with the key `messages`. `fields`: the
    object's other keys, or what a writer takes over from the file. `indent`: spaces, where the JSON
    was pretty-printed. `original`: the text that comes back when nothing changed, without a
    half-written last line; None where the format is not written.
    """

    shape: Shape = "lines"
    fields: Mapping[str, Any] = field(default_factory=dict)
    indent: int | None = None
    original: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Transcript:
    """One conversation of a file.

    `source` is the file's name as given, `format` a name of its table, `wire` the wire format its
    messages are written in, `model` the last one that was asked, where the file tells. `rows` maps
    the id of each message to the rows of the file it was made of. `notes` say in words what was
    left out or could not be told, each with its count; `conversations` is how many the file holds.
    `session_id` is the conversation's own id, where the file has one.
    """

    source: str
    format: str
    wire: str
    messages: tuple[Message, ...]
    title: str | None = None
    model: str | None = None
    session_id: str | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    rows: Mapping[str, tuple[Row, ...]] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    conversations: int = 1
    container: Container = field(default_factory=Container)


@dataclass(slots=True)
class Collected:
    """The messages of a file as a reader finds them, and the rows that they are made of."""

    source: str
    messages: list[Message] = field(default_factory=list)
    rows: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    """How many of what were left out; `one|many` where many have no -s."""
    odd: list[InvalidTranscript] = field(default_factory=list)
    """What is wrong with each row that was left out for it."""

    def attempt(self, take: Callable[[], object]) -> bool:
        """Take a row; whether it is right. What is wrong with it is kept in mind."""
        try:
            take()
        except InvalidTranscript as error:
            self.odd.append(error)
            return False
        return True

    def checked(
        self,
        rows: Iterable[tuple[int, object]],
        is_row: Callable[[dict[str, Any]], bool],
        what: str,
    ) -> list[tuple[int, dict[str, Any]]]:
        """The rows that are what they should be; the others are odd."""
        found: list[tuple[int, dict[str, Any]]] = []
        for number, row in rows:
            if isinstance(row, dict) and is_row(row):
                found.append((number, row))
            else:
                self.odd.append(InvalidTranscript(self.source, f"not {what}", line=number))
        return found

    def parsed(
        self, wire: WireFormat, raw: object, place: str, *, line: int | None = None
    ) -> Message:
        """A provider's dictionary as the message that comes next.

        Raises:
            InvalidTranscript: naming the line, and the field that is wrong at that place.
        """
        try:
            before = reversed(self.messages)
            return wire.parse(raw, len(self.messages), before)  # type: ignore[arg-type]  # checked
        except InvalidMessage as error:
            reason = f"{place}{error.path.partition(']')[2]}: {error.reason}"
        except ServerHeldState as error:
            reason = str(error)
        raise InvalidTranscript(self.source, reason, line=line)

    def add(self, message: Message, *rows: Row) -> None:
        """Take the next message; one whose id another one has gets an id of its own."""
        if message.id in self.rows:
            message = message.model_copy(update={"id": f"m{len(self.messages)}-again"})
        self.messages.append(message)
        self.rows[message.id] = rows

    def say(
        self, role: str, parts: Sequence[Part], row: Row, *, time: datetime | None, **more: object
    ) -> None:
        """Take a message of these parts, for formats that are no provider's; without a time of its
        own it has that of the message before it. `more` are other fields of a message.
        """
        last = self.messages[-1].timestamp if self.messages else clock_and_ids.now()
        fields = {"role": role, "content": content_of(parts), "timestamp": time or last}
        self.add(Message.of({"id": f"m{len(self.rows)}", **fields, **more}), row)

    def notes(self) -> tuple[str, ...]:
        """What was left out, in words.

        Raises:
            InvalidTranscript: not more messages are right than rows are odd; it is the first one's.
        """
        if self.odd and len(self.odd) >= len(self.messages):
            raise self.odd[0]
        found: list[str] = []
        for name, count in sorted(self.left_out.items()):
            one, _, many = name.partition("|")
            if count:
                found.append(f"{count} {one if count == 1 else many or one + 's'}")
        if self.odd:
            rows, first = "odd row" if len(self.odd) == 1 else "odd rows", self.odd[0]
            at = "" if first.line is None else f"line {first.line}: "
            found.append(f"{len(self.odd)} {rows}, left out: {at}{first.reason}")
        return tuple(found)


def content_of(parts: Sequence[Part]) -> str | tuple[Part, ...]:
    """Parts as a message's content: a text where they are one text."""
    match parts:
        case [Text(text=text)]:
            return text
        case _:
            return tuple(parts)


def time_of(value: object) -> datetime | None:
    """The time of its ISO form, in UTC where it names no zone, or of the seconds or milliseconds
    since 1970; None where there is none.
    """
    try:
        if isinstance(value, str):
            time = datetime.fromisoformat(value)
            return time.replace(tzinfo=UTC) if time.tzinfo is None else time
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) > 1e11 else value
            return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def text_or(value: object) -> str | None:
    """The value where it is a text that is not empty."""
    return value if isinstance(value, str) and value else None


def newer_than(known: int, version: object) -> tuple[str, ...]:
    """A note where a file is of a later version of its format than the last known one."""
    number = version.partition(".")[0] if isinstance(version, str) else version
    try:
        is_newer = not isinstance(number, bool) and int(number) > known  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        is_newer = False
    return (f"version {version} of the format: the last one known is {known}",) if is_newer else ()

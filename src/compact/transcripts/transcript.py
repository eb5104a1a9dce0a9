"""Defines `Transcript`: one conversation and the file that it came from.

Readers build it with `Collected`. `reading` reads files, and `writing` writes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from compact.errors import InvalidMessage, InvalidTranscript, ServerHeldState
from compact.messages.formats.wire import WireFormat
from compact.messages.messages import Message, Part, Text
from compact.messages.times import time_in, unread_time

if TYPE_CHECKING:
    from compact.transcripts.documents import Document

Shape = Literal["lines", "list", "object"]
Row = Mapping[str, Any]
NO_BOUNDARY = "no compaction boundary: active is the whole file"


@dataclass(frozen=True, slots=True)
class Container:
    """How a file holds its messages. A writer needs this to write the same kind of file.

    `shape`: one JSON value on each line, one list, or one object with the key `messages`. `fields`:
    the object's other keys, or other values of the file that a writer needs. `indent`: the number
    of spaces, if the JSON was indented. `original`: the text to write if nothing changed, without a
    half-written last line; None if the format cannot be written.
    """

    shape: Shape = "lines"
    fields: Mapping[str, Any] = field(default_factory=dict)
    indent: int | None = None
    original: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Transcript:
    """One conversation of a file.

    `source` is the file's name, `format` a name in `table`, `wire` the wire format of its messages,
    `model` the last model, if the file names it. `rows` maps a message's id to the rows that the
    message was made from. `notes` say what was left out or is uncertain, with counts.
    `conversations` is the number of conversations in the file. `session_id` is the conversation's
    own id, if it has one.
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
    compacted: int = 0
    """The number of messages before the last compaction, if the file records it as Claude Code
    does."""
    container: Container = field(default_factory=Container)


@dataclass(slots=True)
class Collected:
    """Collects the messages of a file, and the rows that they are made from."""

    source: str
    messages: list[Message] = field(default_factory=list)
    rows: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    """What was left out → how often. It is written `one|many` if the plural does not end in -s."""
    row_errors: list[InvalidTranscript] = field(default_factory=list)
    """The errors of rows that were left out."""

    def attempt(self, take: Callable[[], object]) -> bool:
        """Run `take` for a row, and record its error. Return whether there was none."""
        try:
            take()
        except InvalidTranscript as error:
            self.row_errors.append(error)
            return False
        return True

    def checked(
        self,
        rows: Iterable[tuple[int, object]],
        is_row: Callable[[dict[str, Any]], bool],
        what: str,
    ) -> list[tuple[int, dict[str, Any]]]:
        """Return the rows for which `is_row` is true. Record an error for each of the others."""
        right: list[tuple[int, dict[str, Any]]] = []
        for number, row in rows:
            if isinstance(row, dict) and is_row(row):
                right.append((number, row))
            else:
                self.row_errors.append(InvalidTranscript(self.source, f"not {what}", line=number))
        return right

    def parsed(
        self, wire: WireFormat, raw: object, place: str, *, line: int | None = None
    ) -> Message:
        """Parse a provider's dictionary as the next message.

        Raises:
            InvalidTranscript: names the line, and the wrong field at that place.
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
        """Add the next message. If its id is already used, the message gets another id."""
        if message.id in self.rows:
            message = message.model_copy(update={"id": f"m{len(self.messages)}-again"})
        self.messages.append(message)
        self.rows[message.id] = rows

    def say(
        self, role: str, parts: Sequence[Part], row: Row, *, time: datetime | None, **more: object
    ) -> None:
        """Add a message with these parts, for formats that no provider defines. `more` are other
        fields of a message.
        """
        fields = {"role": role, "content": content_of(parts), **more}
        if time is not None:
            fields["timestamp"] = time
        self.add(Message.of({"id": f"m{len(self.rows)}", **fields}), row)

    def fill_times(self, whole: object) -> None:
        """Give each message without a time that of the message before it. The first messages get
        the time in `whole`, the conversation's object, or that of the first message with one.
        """
        times = [m.timestamp if "timestamp" in m.model_fields_set else None for m in self.messages]
        fields = whole if isinstance(whole, dict) else {}
        begun = time_in({"ts": fields.get("startTime") or fields.get("created"), **fields})
        last = min(filter(None, (begun, next(filter(None, times), None))), default=None)
        for at, (message, time) in enumerate(zip(self.messages, times, strict=True)):
            last = time or last
            if time is None and last is not None:
                self.messages[at] = message.model_copy(update={"timestamp": last})
            if time is None and any(map(unread_time, self.rows.get(message.id, ()))):
                self.left_out["time that cannot be read|times that cannot be read"] += 1

    def transcript(
        self,
        document: Document,
        format: str,
        *,
        before: Iterable[str] = (),
        after: Iterable[str] = (),
        wire: str = "chat_completions",
        whole: object = None,
        **facts: Any,  # noqa: ANN401 - other fields of a Transcript
    ) -> Transcript:
        """Build the transcript of the collected messages. `before` and `after` are further notes.
        `whole` is the object of the conversation. `facts` are other fields of the transcript.

        Raises:
            InvalidTranscript: see `notes`.
        """
        self.fill_times(whole)
        return Transcript(
            document.source,
            format,
            wire,
            tuple(self.messages),
            rows=self.rows,
            notes=(*before, *self.notes(), *document.notes, *after),
            **facts,
        )

    def notes(self) -> tuple[str, ...]:
        """Return sentences on what was left out.

        Raises:
            InvalidTranscript: at least as many rows were left out with an error as there are
                messages. It is the first of these errors.
        """
        if self.row_errors and len(self.row_errors) >= len(self.messages):
            raise self.row_errors[0]
        texts: list[str] = []
        for name, count in sorted(self.left_out.items()):
            one, _, many = name.partition("|")
            if count:
                texts.append(f"{count} {one if count == 1 else many or one + 's'}")
        if self.row_errors:
            rows, first = "odd row" if len(self.row_errors) == 1 else "odd rows", self.row_errors[0]
            at = "" if first.line is None else f"line {first.line}: "
            texts.append(f"{len(self.row_errors)} {rows}, left out: {at}{first.reason}")
        return tuple(texts)


def branch_of(
    ids: Sequence[str | None], parents: Sequence[str | None], current: object
) -> list[int]:
    """Return the positions of the rows from the root to the current row, or else to the last row.
    Return all rows if one of them has no id of its own, or if none names a parent.
    """
    places = {each: at for at, each in enumerate(ids) if each is not None}
    if len(places) < len(ids) or not any(parent in places for parent in parents):
        return list(range(len(ids)))
    at: int | None = places.get(str(current), len(ids) - 1)
    path: dict[int, None] = {}
    while at is not None and at not in path:
        path[at] = None
        parent = parents[at]
        at = None if parent is None else places.get(parent)
    return list(reversed(path))


def content_of(parts: Sequence[Part]) -> str | tuple[Part, ...]:
    """Return parts as the content of a message. A single text becomes a string."""
    match parts:
        case [Text(text=text)]:
            return text
        case _:
            return tuple(parts)


def text_or(value: object) -> str | None:
    """Return the value if it is a non-empty text. Otherwise return None."""
    return value if isinstance(value, str) and value else None


def has_type(row: Row) -> bool:
    """Whether the row has a type."""
    return isinstance(row.get("type"), str)


def newer_than(known: int, version: object) -> tuple[str, ...]:
    """Return a note if the file's version of the format is newer than the last known version."""
    number = version.partition(".")[0] if isinstance(version, str) else version
    try:
        is_newer = not isinstance(number, bool) and int(number) > known  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        is_newer = False
    return (f"version {version} of the format: the last one known is {known}",) if is_newer else ()

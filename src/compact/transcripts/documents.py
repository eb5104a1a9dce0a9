"""Loads a file as JSON values or text. Errors name the reason and the line.

A file is one of four documents: one JSON value, JSON Lines, text, or a SQLite database with chats.
A zip is not a document, but a folder of documents (`zipped`). The format modules interpret the
values. orjson parses. Python's json is used where orjson would refuse or change valid input: halves
of surrogate pairs, integers beyond 64 bits. Both refuse NaN and Infinity.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Literal, NoReturn, TypeVar

import orjson

from compact.errors import InvalidArgument, InvalidTranscript, unreadable
from compact.messages.calls import got, whole_number
from compact.patterns import regex

Item = TypeVar("Item")
_HUGE_INTEGER = regex(rb"[:,\[\s]-?[0-9]{20}")
_SQLITE = b"SQLite format 3\0"
_BOM = b"\xef\xbb\xbf"
_UTF16 = (((b"\xff\xfe", b"{\0", b"[\0", b"#\0"), "utf-16-le"),
          ((b"\xfe\xff", b"\0{", b"\0[", b"\0#"), "utf-16-be"))  # fmt: skip
"""The first bytes of texts in UTF-16 → the encoding."""
LARGEST_FILE = 500_000_000
"""Size of the largest file that is read, in bytes."""
ZIP = b"PK\x03\x04"
"""The first bytes of a zip."""


@dataclass(frozen=True, slots=True)
class Document:
    """A loaded file. `source` is its name in errors. `data` has its complete lines. `rows` are
    pairs of a line number (from 1) and a JSON value. `notes` say what was left out. `earlier` is
    the number of Codex's items before the compaction from which on the file was loaded.
    """

    source: str
    data: bytes = field(repr=False)
    rows: list[tuple[int, Any]]
    notes: tuple[str, ...] = ()
    earlier: int = 0


class JsonValue(Document):
    """A file with one JSON value."""

    __slots__ = ()

    @property
    def value(self) -> Any:  # noqa: ANN401 - any JSON value
        """The JSON value of the file."""
        return self.rows[0][1]


class JsonLines(Document):
    """A file with one JSON value on each line. `data` has the complete lines."""

    __slots__ = ()


class PlainText(Document):
    """A file that is not JSON. It is UTF-8 without a byte order mark."""

    __slots__ = ()


class Database(Document):
    """A SQLite file with chats. `rows` are its conversations with their messages
    (`transcripts.chats`).
    """

    __slots__ = ()


Kind = Literal["JSON", "text", "a database"]


def kind_of(document: Document) -> Kind:
    """Return the document's kind, for errors."""
    match document:
        case PlainText():
            return "text"
        case Database():
            return "a database"
        case _:
            return "JSON"


def json_object(document: Document) -> Mapping[str, Any]:
    """Return the document's JSON object, or an empty one if it holds another value."""
    if isinstance(document, JsonValue) and isinstance(document.value, dict):
        return document.value
    return {}


def rows_at(value: object, key: str, *, source: str) -> list[Any]:
    """Return the list under this key.

    Raises:
        InvalidTranscript: there is no list.
    """
    rows = value.get(key) if isinstance(value, dict) else None
    if not isinstance(rows, list):
        raise InvalidTranscript(source, f"{key}: expected a list of messages")
    return rows


def objects_in(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list. Return an empty list for any other value."""
    return [x for x in value if isinstance(x, dict)] if isinstance(value, list) else []


def values_of(document: Document) -> list[Any]:
    """Return the items of a file's list, or else the values of its lines."""
    if isinstance(document, JsonValue) and isinstance(document.value, list):
        return document.value
    return [value for _, value in document.rows]


def choose(
    items: Sequence[Item],
    number: int | None,
    *,
    source: str,
    titles: Callable[[], Sequence[str | None]] = tuple,
) -> Item:
    """Return the conversation with this number, counted from 1. Without a number, return the only
    one. `titles` returns the titles for the error that asks for a number.

    Raises:
        InvalidTranscript: there is no conversation, or none with this number, or there are several
            and no number is given.
        InvalidArgument: `number` is not a number.
    """
    count = len(items)
    if count == 0:
        raise InvalidTranscript(source, "holds no conversation")
    if number is None:
        if count == 1:
            return items[0]
        raise InvalidTranscript(
            source,
            f"holds {count:,} conversations: choose one with --conversation N, 1 to {count}"
            + _listed(titles()),
        )
    if whole_number(number) is None:
        raise InvalidArgument("conversation", f"conversation must be a number, got {got(number)}")
    if not 1 <= number <= count:
        held = "1 conversation" if count == 1 else f"{count:,} conversations, numbered from 1"
        raise InvalidTranscript(source, f"there is no conversation {number}: the file holds {held}")
    return items[number - 1]


def _listed(titles: Sequence[str | None]) -> str:
    """Return the first titles on one line. Return an empty text if there are no titles."""
    if not any(titles):
        return ""
    shown = [" ".join((title or "(no title)").split()) for title in titles[:10]]
    cut = [title if len(title) <= 40 else f"{title[:39]}…" for title in shown]
    listed = ", ".join(f"{number} {title}" for number, title in enumerate(cut, 1))
    return f": {listed}{', …' * (len(titles) > 10)}"


def load(data: bytes | str | Path, *, source: str | None = None) -> Document:
    """Load a path or bytes. `source` is the name in errors (default: the path). A database's log is
    looked for next to the path, or next to the file that `source` names.

    Raises:
        InvalidTranscript: the file is missing, a directory, empty, binary, not UTF-8 or broken
            JSON. A broken last line of JSON Lines is no error.
    """
    name = source or ("<bytes>" if isinstance(data, bytes) else str(data))
    content = data if isinstance(data, bytes) else bytes_of(Path(data), name)
    if not content.strip():
        raise InvalidTranscript(name, "the file is empty", is_foreign=True)
    if content.startswith(ZIP):
        reason = "a zip: `compactctl migrate` takes all its conversations; for one, unzip it first"
        raise InvalidTranscript(name, reason)
    if content.startswith(_SQLITE):
        return _database(content, name, str(data) if isinstance(data, Path) else name)
    content, notes = _as_utf8(content, name)
    document = _text_document(content, name)
    halves = [row for row in document.rows if not _is_whole(row)] if b"\\ud" in content else []
    if halves:
        many = "1 row has" if len(halves) == 1 else f"{len(halves)} rows have"
        notes = (*notes, f"{many} half of a character in it (a lone surrogate)")
    return replace(document, notes=(*document.notes, *notes))


def _is_whole(row: tuple[int, Any]) -> bool:
    try:
        orjson.dumps(row[1])
    except (TypeError, ValueError) as error:
        return "surrogates" not in str(error)
    return True


def _as_utf8(content: bytes, name: str) -> tuple[bytes, tuple[str, ...]]:
    """Return the text as UTF-8, and notes on the repairs. Zero bytes that an interrupted write left
    at the end are removed.

    Raises:
        InvalidTranscript: the text is or contains binary data, or is broken UTF-16.
    """
    order = next((order for marks, order in _UTF16 if content.startswith(marks)), None)
    if order is not None:
        try:
            return content.decode(order).lstrip("\ufeff").encode(), ("UTF-16, read as such",)
        except UnicodeError:
            raise InvalidTranscript(name, "UTF-16 that is broken: save it as UTF-8") from None
    text = content.rstrip(b"\0\r\n ")
    zeros = content[len(text) :].count(b"\0")
    if b"\0" in text and text.removeprefix(_BOM)[:1] in (b"{", b"["):
        reason = "binary data in it: zero bytes, as a cut write leaves them"
        raise InvalidTranscript(name, reason, line=text.count(b"\n", 0, text.index(b"\0")) + 1)
    if b"\0" in text[:8192] or (zeros and not _is_utf8(text)):
        raise InvalidTranscript(name, "binary data, not a text file", is_foreign=True)
    if not zeros:
        return content, ()
    return text + b"\n", (f"{zeros} zero bytes at the end, which a cut write left",)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _text_document(content: bytes, name: str) -> Document:
    body = content.removeprefix(_BOM)
    first = body.lstrip()[:1]
    if first == b"{":
        return _objects(content, body, name)
    if first == b"[":
        return JsonValue(name, content, [(1, _single_value(body, name))])
    lines = body.split(b"\n", 2)
    if len(lines) > 1 and lines[1].startswith(b"{") and _is_object(lines[1]):
        _refuse(name, ValueError("not a JSON object, the next line is one"), line=1)
    try:
        body.decode()
    except UnicodeDecodeError as error:
        _refuse(name, error, line=body.count(b"\n", 0, error.start) + 1)
    return PlainText(name, body, [])


def _database(content: bytes, name: str, path: str) -> Document:
    from compact.transcripts import chats  # SQLite is loaded only if a file needs it

    beside = {
        end: bytes_of(file, name)
        for end in chats.LOG_SUFFIXES
        if (file := Path(path + end)).is_file()
    }
    return Database(name, content, list(enumerate(chats.conversations(content, beside, name), 1)))


def bytes_of(path: Path, name: str) -> bytes:
    """Read a file. `name` is its name in errors.

    Raises:
        InvalidTranscript: the file cannot be read, or is too large.
    """
    try:
        with path.open("rb") as stream:
            return all_of(stream, name)
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidTranscript):
            raise
        raise InvalidTranscript(name, unreadable(error)) from None


def all_of(stream: IO[bytes], name: str, most: int = LARGEST_FILE) -> bytes:
    """Return the bytes of a stream of at most `most` bytes.

    Raises:
        InvalidTranscript: the stream is larger.
    """
    data = bytearray()
    while piece := stream.read(1 << 20):
        data += piece
        if len(data) > most:
            size = f"{most // 1_000_000:,} MB"
            raise InvalidTranscript(name, f"larger than {size}, or without end: no conversation")
    return bytes(data)


def _objects(content: bytes, body: bytes, name: str) -> Document:
    """Parse one object, or JSON Lines if the first line is complete and others follow."""
    numbered = enumerate(body.split(b"\n"), 1)
    lines = [(n, line) for n, line in numbered if line and not line.isspace()]
    exact = _HUGE_INTEGER.search(body) is not None
    if len(lines) == 1 and b"}{" not in lines[0][1].replace(b" ", b""):
        return JsonValue(name, content, [(1, _single_value(body, name))])
    try:
        _parse(lines[0][1], exact=exact)
    except ValueError:
        if not (lines[0][1].rstrip().endswith(b"}") or _is_object(lines[-1][1])):
            return JsonValue(name, content, [(1, _single_value(body, name))])
    rows: list[tuple[int, Any]] = []
    for number, line in lines:
        try:
            rows += [(number, value) for value in _values(line, exact=exact)]
        except ValueError as error:
            if number == lines[-1][0] and rows and _is_cut(line, error):
                end = content.rstrip().rfind(b"\n") + 1
                return JsonLines(name, content[:end], rows, ("the last line is half written",))
            _refuse(name, error, line=number)
    return (JsonValue if len(rows) == 1 else JsonLines)(name, content, rows)


def _values(line: bytes, *, exact: bool) -> list[object]:
    """Return the values in a line: one JSON value, or several objects written one after another."""
    try:
        return [_parse(line, exact=exact)]
    except json.JSONDecodeError as error:
        if not error.msg.startswith("Extra data") or b"\r{" in line:
            raise
        decoder = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
        text, at, values = error.doc.strip(), 0, []
        while at < len(text):
            try:
                value, at = decoder.raw_decode(text, at)
            except ValueError:
                raise error from None
            values.append(value)
            at += len(text[at:]) - len(text[at:].lstrip())
        return values


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(_parse(line, exact=False), dict)
    except ValueError:
        return False


def _is_cut(line: bytes, error: ValueError) -> bool:
    """Whether a broken line looks like the beginning of a complete line."""
    if not line.lstrip().startswith(b"{"):
        return False
    if isinstance(error, UnicodeDecodeError):
        return error.end == len(error.object) and "unexpected end" in error.reason
    if not isinstance(error, json.JSONDecodeError) or error.msg.startswith("Extra data"):
        return False
    tail = len(error.doc.rstrip()) - error.pos
    return error.msg.startswith("Unterminated string") or tail <= len('"\\u000')


def _single_value(body: bytes, name: str) -> object:
    try:
        return _parse(body, exact=_HUGE_INTEGER.search(body) is not None)
    except UnicodeDecodeError as error:
        _refuse(name, error, line=body.count(b"\n", 0, error.start) + 1)
    except json.JSONDecodeError as error:
        _refuse(name, error, line=error.lineno)
    except ValueError as error:
        _refuse(name, error, line=None)


def _parse(data: bytes, *, exact: bool) -> object:
    """Parse one JSON value. With `exact`, integers beyond 64 bits are kept."""
    place = 0
    try:
        value: object = orjson.loads(data)
        if not exact:
            return value
    except orjson.JSONDecodeError as error:
        place = error.pos
    text = data.decode("utf-8")
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except _NotANumber as error:
        raise json.JSONDecodeError(str(error), text, place) from None


class _NotANumber(ValueError):
    """A number that JSON does not have."""


def _no_constant(name: str) -> NoReturn:
    raise _NotANumber(f"{name} is not a JSON number")


def _finite(literal: str) -> float:
    number = float(literal)
    if math.isinf(number):
        raise _NotANumber(f"{literal} is too large a number")
    return number


def _refuse(name: str, error: ValueError, *, line: int | None) -> NoReturn:
    if isinstance(error, UnicodeDecodeError):
        reason = (
            f"not UTF-8 text: {error.reason} (byte 0x{error.object[error.start]:02x}); if it is in "
            "another encoding, such as Windows-1252, save it as UTF-8"
        )
    elif isinstance(error, json.JSONDecodeError) and "}\r{" in error.doc:
        reason = "its lines end in CR alone, as on old Macs: save it with LF"
    elif isinstance(error, json.JSONDecodeError):
        column = f" at column {error.colno}"
        message = error.msg.removesuffix(" at")
        near = error.doc[error.pos : error.pos + 40].splitlines()[:1]
        reason = f"broken JSON: {message}{column}" + (f", before {near[0]!r}" if near else "")
    else:
        reason = f"broken JSON: {error}"
    raise InvalidTranscript(name, reason, line=line) from None

"""A session as JSON, one message a line. This is the form of exports, archives and copies.

The open branch comes first: its messages as stored, its goals and pins. A simple reader needs no
more. A file of a whole session has everything else behind it, so that an import makes the same
session again, to the last byte of its prompts. A file of one branch becomes a new session. Its
checkpoints are for human readers only. Version 1 had only files of one branch.

An archive is this file, compressed: `zstd -dc FILE` shows it, and `sessions import` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import ValidationError

from compact.errors import CompactError, InvalidTranscript
from compact.messages.changes import Change
from compact.messages.checkpoints import Checkpoint, at_level
from compact.messages.codec import ZSTD, decode_whole, encode_piece, encode_whole
from compact.messages.formats.known import FORMATS
from compact.messages.goals import Goal
from compact.messages.messages import Message
from compact.messages.sessions import (
    FIXED,
    PERSON,
    Branch,
    CheckpointRef,
    Entry,
    Move,
    Piece,
    Projection,
    Run,
    Session,
    Shown,
    Snapshot,
)
from compact.messages.tokens import TokenCounter
from compact.store.whole_session import OwnPart, WholeSession, incoherence

FORMAT, VERSION = "compact-session", 2
REDACTED = "redacted"
"""The metadata key of a session in which secrets were replaced."""
_MARK = f'"{FORMAT}"'.encode()
_BOM = b"\xef\xbb\xbf"
LEVEL = 9
"""Compression level of archives. Higher ones take twice the time and save a few percent."""
_PIECE = 512
"""How many bytes of a damaged file to unpack at once. What was unpacked before an error is kept."""
_SNIFFED = 200
"""A file that compact wrote has the format's name within so many bytes."""
_WRONG = (TypeError, ValueError, AttributeError, LookupError, CompactError)
"""What reading raises when a value is missing or has another type."""


OwnRows = dict[str, tuple[int, list[Mapping[str, Any]]]]
"""Branch id → the position of the branch's first own message, and its own messages."""


@dataclass(frozen=True)
class SessionFile:
    """The contents of a session file. Pins are positions of messages."""

    session: Session
    messages: Sequence[Message]
    goals: Sequence[Goal] = ()
    pins: Sequence[int] = ()
    checkpoints: Sequence[Checkpoint] = ()
    left_out: int = 0
    """Checkpoints in a file of one branch. An import does not use them."""
    whole: WholeSession | None = None
    """The whole session, where the file has it."""

    @property
    def is_redacted(self) -> bool:
        """Whether secrets were replaced."""
        return bool(self.session.metadata.get(REDACTED))


def is_session_file(data: bytes) -> bool:
    """Whether these bytes are a session file in any JSON layout, or begin like one that compact
    wrote.
    """
    try:
        body = unpacked(data).removeprefix(_BOM).lstrip()
    except ValueError:
        return False
    if body[:1] != b"{" or _MARK not in body:
        return False
    if b'"format":' + _MARK in body[:_SNIFFED].replace(b" ", b""):
        return True
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("format") == FORMAT


def written(file: SessionFile) -> Iterator[str]:
    """The text of the file, in pieces."""
    session = file.session
    about = {
        "id": session.id,
        "title": session.title,
        "scope": session.scope,
        "model": session.model,
        "mode": session.mode,
        "wire": session.wire,
        "tokenizer": session.tokenizer,
        "created_at": session.created_at.isoformat(),
        "updated_at": session.updated_at.isoformat(),
        "metadata": dict(session.metadata),
    }
    redacted = ', "redacted": true' if file.is_redacted else ""
    yield f'{{"format": "{FORMAT}", "version": {VERSION}{redacted},\n'
    yield f'"session": {_json(about)},\n'
    yield f'"branch": {_json(session.branch.model_dump(mode="json"))},\n'
    yield f'"goals": {_json([goal.model_dump(mode="json") for goal in file.goals])},\n'
    yield f'"pins": {_json(list(file.pins))},\n'
    rows = [checkpoint.model_dump(mode="json") for checkpoint in file.checkpoints]
    yield f'"checkpoints": [{_lines(rows)}],\n'
    if file.whole is None:
        yield f'"messages": [{_lines([encode_whole(message) for message in file.messages])}]}}\n'
        return
    for name, part in _parts_of(file.whole).items():
        inner = f"[{_lines(part)}]" if isinstance(part, list) else _json(part)
        yield f'"{name}": {inner},\n'
    entries = file.whole.line(session.branch.id)
    yield f'"messages": [{_lines([_row_of(entry) for entry in entries])}]}}\n'


def _lines(rows: Sequence[object]) -> str:
    return "\n" + ",\n".join(map(_json, rows)) + "\n" if rows else ""


def _json(value: object) -> str:
    """Readable JSON. Half a surrogate pair is escaped: UTF-8 cannot encode it."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def packed(whole: WholeSession) -> bytes:
    """The compressed file of a whole session. Equal sessions give equal bytes."""
    import zstandard  # loaded by those who archive

    line = [entry.message for entry in whole.line(whole.session.branch.id)]
    file = SessionFile(whole.session, line, checkpoints=whole.checkpoints, whole=whole)
    text = "".join(written(file)).encode()
    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress(text)


def unpacked(data: bytes) -> bytes:
    """The file without compression; of a cut file, as much as can be read.

    Raises:
        ValueError: it is compressed, and damaged.
    """
    if not data.startswith(ZSTD):
        return data
    import zstandard

    try:
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    except zstandard.ZstdError as error:
        raise ValueError(f"it cannot be unpacked: {error}") from error


def rows_before_damage(data: bytes) -> Iterator[Mapping[str, Any]]:
    """The messages of a damaged compressed file that come before the damage, of all branches. What
    follows it cannot be unpacked. A row may be altered: check it against the hash chain.
    """
    import zstandard

    unpacking, text = zstandard.ZstdDecompressor().decompressobj(), b""
    with suppress(zstandard.ZstdError):
        for start in range(0, len(data), _PIECE):
            text += unpacking.decompress(data[start : start + _PIECE])
    for line in text.splitlines():
        with suppress(*_WRONG):
            row = json.loads(line.removesuffix(b","))
            for each in row.get("messages", [row]):
                yield _checked(each)


def read(data: bytes, source: str) -> SessionFile:
    """The contents of a session file, compressed or not.

    Raises:
        InvalidTranscript: it is broken, or of a newer version; names the place.
    """
    value = _value_of(data, source)
    version = value.get("version")
    if version not in range(1, VERSION + 1):
        newer = isinstance(version, int) and version > VERSION
        advice = "; it was written by a newer version of compact: update" if newer else ""
        raise InvalidTranscript(source, f"version {version!r}, {VERSION} is known{advice}")
    about, rows = value.get("session"), value.get("messages")
    if not isinstance(about, dict) or not isinstance(rows, list):
        raise InvalidTranscript(source, "session and messages: one is missing or of another kind")
    messages = tuple(_message(row, i, source) for i, row in enumerate(rows))
    try:
        file = _made(about, value, messages)
    except _WRONG as error:
        raise InvalidTranscript(source, f"session, goals or pins: {_reason(error)}") from None
    if BRANCHES not in value:
        return file
    decoded = partial(_message, index=-1, source=source)
    try:
        whole = _read_whole(value, file.session, messages, decoded)
    except _WRONG as error:
        if isinstance(error, InvalidTranscript):
            raise
        raise InvalidTranscript(source, f"branches or their log: {_reason(error)}") from None
    wrong = incoherence(whole)
    if wrong is not None:
        raise InvalidTranscript(source, wrong)
    return replace(file, session=whole.session, whole=whole, left_out=0)


def _value_of(data: bytes, source: str) -> dict[str, Any]:
    try:
        value = json.loads(unpacked(data).decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidTranscript(source, "not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise InvalidTranscript(source, f"broken JSON: {error.msg}", line=error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise InvalidTranscript(source, f"broken JSON: {error}") from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise InvalidTranscript(source, f"not a {FORMAT} file")
    return value


def _checked(row: object) -> dict[str, Any]:
    if not isinstance(row, dict) or not isinstance(row["payload"], dict):
        raise ValueError("expected a message")  # noqa: TRY004 - what is wrong with a file
    if not isinstance(row["content"], str | None):
        raise ValueError("content is not a text")  # noqa: TRY004 - what is wrong with a file
    return row


def _message(row: object, index: int, source: str) -> Message:
    """A message from the file. Checks what `decode_whole` trusts. Index -1 is a message of another
    branch.
    """
    place = f"messages[{index}]" if index >= 0 else "branches"
    try:
        message = decode_whole(_checked(row))
        if message.wire_format is not None and message.wire_format not in FORMATS:
            raise ValueError(f"no wire format {message.wire_format!r}")
        Message.model_validate(
            {name: getattr(message, name) for name in Message.model_fields}, strict=True
        )
    except _WRONG as error:
        raise InvalidTranscript(source, f"{place}: {_reason(error)}") from None
    return message


def _reason(error: Exception) -> str:
    """The error in one line."""
    if isinstance(error, KeyError):
        return f"{error} is missing, or not known"
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    if isinstance(error, TypeError | AttributeError):
        return "something is of another kind than it should be"
    return " ".join(str(error).split()) or type(error).__name__


def check_tools(tools: object) -> None:
    """Check that these are tool schemas whose tokens can be counted.

    Raises:
        ValueError: one is not.
    """
    if not isinstance(tools, list | tuple):
        raise ValueError("tools: expected a list")  # noqa: TRY004 - what is wrong with a file
    from compact.models.providers.tokenizers import NoopEstimator  # loaded by those who import

    try:
        TokenCounter(NoopEstimator()).tools(tools)
    except (AttributeError, TypeError, ValueError, LookupError, RecursionError):
        raise ValueError("tools: one is not a tool schema") from None


def _made(
    about: dict[str, Any], value: dict[str, Any], messages: tuple[Message, ...]
) -> SessionFile:
    """The file's values; pydantic checks them."""
    branch = Branch(id=about["id"], session_id=about["id"])
    session = Session.model_validate({**about, "branch": branch})
    if session.wire not in FORMATS:
        raise ValueError(f"no wire format {session.wire!r}")
    check_tools(session.metadata.get("tools", []))
    goals = [Goal.model_validate(goal) for goal in value.get("goals", [])]
    pins = value.get("pins", [])
    if not isinstance(pins, list) or any(type(position) is not int for position in pins):
        raise ValueError("pins: expected positions of messages")
    if any(not 0 <= position < len(messages) for position in pins):
        raise ValueError("a pin beyond the messages")
    left_out = len(value.get("checkpoints", []))
    return SessionFile(session, messages, goals, sorted(set(pins)), left_out=left_out)


# --- everything beside the open branch ------------------------------------------------------------


BRANCHES = "branches"
"""The key that only a file of a whole session has."""
_ENTRY_MARKS = range((FIXED | PERSON) + 1)
Decoded = Callable[[Any], Message]


def _parts_of(whole: WholeSession) -> dict[str, Any]:
    """The contents of the file beside the open branch, by key. Each branch has only the messages
    that are not on the open branch.
    """
    open_id = whole.session.branch.id
    return {
        BRANCHES: [
            {
                "id": part.branch.id,
                "parent": part.branch.parent,
                "fork": part.branch.fork,
                "created_at": part.branch.created_at.isoformat(),
                "messages": [_row_of(e) for e in part.entries[whole.reach(open_id, part) :]],
            }
            for part in whole.parts
        ],
        "changes": [change.model_dump(mode="json", exclude={"number"}) for change in whole.changes],
        "notes": dict(whole.notes or {}),
        "projections": [row_of_projection(each) for each in whole.projections],
        "moves": [move.model_dump(mode="json", exclude={"number"}) for move in whole.moves],
        "snapshots": [
            each.model_dump(mode="json", exclude={"session_id"}) for each in whole.snapshots
        ],
    }


def _row_of(entry: Entry) -> dict[str, Any]:
    """A message as stored, with its tokens and marks."""
    return {**encode_whole(entry.message), "tokens": entry.tokens, "marks": entry.marks}


def row_of_projection(projection: Projection) -> dict[str, Any]:
    """A projection as JSON; of its checkpoints the ids and levels."""
    plain = projection.model_dump(mode="json", exclude={"pieces", "checkpoints"})
    levels = {each.id: each.level for each in projection.checkpoints}
    return {**plain, "checkpoints": levels, "pieces": list(map(encode_piece, projection.pieces))}


# --- reading --------------------------------------------------------------------------------------


def _read_whole(
    value: Mapping[str, Any], session: Session, messages: Sequence[Message], decoded: Decoded
) -> WholeSession:
    """The whole session of a file. `messages` are those of the open branch.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: a value is missing or of a wrong type.
    """
    rows = value["messages"]
    line = [_entry(row, message) for row, message in zip(rows, messages, strict=True)]
    branches = [_branch(row, session.id) for row in value[BRANCHES]]
    open_id = value["branch"]["id"]
    own = {
        branch.id: [_entry(each, decoded(each)) for each in row["messages"]]
        for branch, row in zip(branches, value[BRANCHES], strict=True)
    }
    spans = _spans(branches, open_id, len(line))
    all_parts = []
    for branch in branches:
        first, last = spans.get(branch.id, (0, 0))
        all_parts.append(OwnPart(branch, (*line[first:last], *own[branch.id])))
    opened = next(part for part in all_parts if part.branch.id == open_id)
    checkpoints = [Checkpoint.model_validate(row) for row in value["checkpoints"]]
    by_id = {checkpoint.id: checkpoint for checkpoint in checkpoints}
    return WholeSession(
        session.model_copy(update={"branch": opened.branch}),
        all_parts,
        changes=[Change.model_validate({**row, "number": 0}) for row in value["changes"]],
        notes={str(name): _note(note) for name, note in value["notes"].items()},
        checkpoints=checkpoints,
        projections=[projection_in(row, by_id, decoded) for row in value["projections"]],
        moves=[
            Move.model_validate({**row, "number": n}) for n, row in enumerate(value["moves"], 1)
        ],
        snapshots=[
            Snapshot.model_validate({**row, "session_id": session.id}) for row in value["snapshots"]
        ],
    )


def own_rows(data: bytes) -> OwnRows:
    """The messages of a whole session's file by branch, unchecked: for those who have the file's
    checksum.

    Raises:
        ValueError, LookupError, TypeError: it is no such file.
    """
    value = json.loads(unpacked(data))
    branches = [_branch(row, "") for row in value[BRANCHES]]
    line = value["messages"]
    spans = _spans(branches, value["branch"]["id"], len(line))
    rows = OwnRows()
    for branch, row in zip(branches, value[BRANCHES], strict=True):
        first, last = spans.get(branch.id, (0, 0))
        rows[branch.id] = branch.fork, [*line[first:last], *row["messages"]]
    return rows


def entry_in(row: Mapping[str, Any]) -> Entry:
    """The entry of a row of `own_rows`."""
    return Entry(decode_whole(row), row["tokens"], row["marks"])


def _entry(row: Mapping[str, Any], message: Message) -> Entry:
    tokens, marks = row["tokens"], row["marks"]
    if not (tokens is None or (type(tokens) is int and tokens >= 0)) or marks not in _ENTRY_MARKS:
        raise ValueError("tokens or marks of a message are none")
    return Entry(message, tokens, marks)


def _branch(row: Mapping[str, Any], session_id: str) -> Branch:
    about = {name: row[name] for name in ("id", "parent", "fork", "created_at")}
    branch = Branch.model_validate({**about, "session_id": session_id})
    if branch.fork < 0 or not branch.id:
        raise ValueError("a branch begins before the first message")
    return branch


def _spans(branches: Sequence[Branch], open_id: str, length: int) -> dict[str, tuple[int, int]]:
    """Branch along the open one → the messages of the open line that are its own."""
    by_id = {branch.id: branch for branch in branches}
    spans: dict[str, tuple[int, int]] = {}
    branch: Branch | None = by_id[open_id]
    end = length
    while branch is not None and branch.id not in spans:
        spans[branch.id] = (min(branch.fork, end), end)
        end = min(end, branch.fork)
        branch = by_id[branch.parent] if branch.parent is not None else None
    return spans


def _note(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a note is no object")  # noqa: TRY004 - what is wrong with a file
    return value


def projection_in(
    row: Mapping[str, Any], checkpoints: Mapping[str, Checkpoint], decoded: Decoded
) -> Projection:
    """The projection of a row of `row_of_projection`, with its checkpoints by id."""
    live = tuple(at_level(checkpoints[name], level) for name, level in row["checkpoints"].items())
    pieces = tuple(_piece(each, decoded) for each in row["pieces"])
    return Projection.model_validate({**row, "checkpoints": live, "pieces": pieces})


def _piece(value: object, decoded: Decoded) -> Piece:
    match value:
        case [int(first), int(last)]:
            return Run(first, last)
        case str():
            return CheckpointRef(value)
        case {"position": int() | None as position}:
            return Shown(decoded(value), position)
    raise ValueError("a piece of a projection is of another kind")

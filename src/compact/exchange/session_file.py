"""A session as a JSON file: what `sessions export` writes and `import` reads, a message a line.

The open branch stands first, with its messages as a store keeps them, its goals and pins: for
whoever reads no more. In a file of a whole session everything else follows (`whole_file`), so that
an import has the same session again, to the last byte of its prompts. A file of one branch is made
a new session of; its checkpoints are for readers only. Version 1 had no other files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import ValidationError

from compact import wiring
from compact.errors import CompactError, InvalidTranscript
from compact.exchange import whole_file
from compact.messages.checkpoints import Checkpoint
from compact.messages.codec import decode_whole, encode_whole
from compact.messages.formats.known import FORMATS
from compact.messages.goals import Goal
from compact.messages.messages import Message
from compact.messages.sessions import Branch, Session
from compact.store.whole_session import WholeSession, incoherence

FORMAT, VERSION = "compact-session", 2
REDACTED = "redacted"
"""The key of a session's metadata that says that secrets were replaced in it."""
_MARK = f'"{FORMAT}"'.encode()
_BOM = b"\xef\xbb\xbf"
_SNIFFED = 200
"""Bytes within which a file that we wrote says that it is one."""
_WRONG = (KeyError, TypeError, ValueError, AttributeError, LookupError, CompactError)


@dataclass(frozen=True)
class SessionFile:
    """What such a file says: the session, with the one branch that is in it, and what belongs to
    it. Pins are positions of messages.
    """

    session: Session
    messages: Sequence[Message]
    goals: Sequence[Goal] = ()
    pins: Sequence[int] = ()
    checkpoints: Sequence[Checkpoint] = ()
    left_out: int = 0
    """Checkpoints of a file of one branch that was read: nobody looks into them."""
    whole: WholeSession | None = None
    """The session with everything that belongs to it, where the file has it."""

    @property
    def is_redacted(self) -> bool:
        """Whether secrets were replaced in it."""
        return bool(self.session.metadata.get(REDACTED))


def is_session_file(data: bytes) -> bool:
    """Whether bytes are such a file, however it is written, or begin like one of ours."""
    body = data.removeprefix(_BOM).lstrip()
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
    """The file, in pieces."""
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
    for name, part in whole_file.parts(file.whole).items():
        inner = f"[{_lines(part)}]" if isinstance(part, list) else _json(part)
        yield f'"{name}": {inner},\n'
    entries = file.whole.line(session.branch.id)
    yield f'"messages": [{_lines([whole_file.row_of(entry) for entry in entries])}]}}\n'


def _lines(rows: Sequence[object]) -> str:
    return "\n" + ",\n".join(map(_json, rows)) + "\n" if rows else ""


def _json(value: object) -> str:
    """As JSON, readable; half a surrogate pair, which UTF-8 cannot carry, as an escape."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def read(data: bytes, source: str) -> SessionFile:
    """What a file of those bytes says.

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
        made = _made(about, value, messages)
    except _WRONG as error:
        raise InvalidTranscript(source, f"session, goals or pins: {_reason(error)}") from None
    if whole_file.BRANCHES not in value:
        return made
    decoded = partial(_message, index=-1, source=source)
    try:
        whole = whole_file.read(value, made.session, messages, decoded)
    except _WRONG as error:
        if isinstance(error, InvalidTranscript):
            raise
        raise InvalidTranscript(source, f"branches or their log: {_reason(error)}") from None
    wrong = incoherence(whole)
    if wrong is not None:
        raise InvalidTranscript(source, wrong)
    return replace(made, session=whole.session, whole=whole, left_out=0)


def _value_of(data: bytes, source: str) -> dict[str, Any]:
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidTranscript(source, "not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise InvalidTranscript(source, f"broken JSON: {error.msg}", line=error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise InvalidTranscript(source, f"broken JSON: {error}") from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise InvalidTranscript(source, f"no {FORMAT}")
    return value


def _checked(row: object) -> dict[str, Any]:
    if not isinstance(row, dict) or not isinstance(row["payload"], dict):
        raise ValueError("expected a message")  # noqa: TRY004 - what is wrong with a file
    if not isinstance(row["content"], str | None):
        raise ValueError("content is no text")  # noqa: TRY004 - what is wrong with a file
    return row


def _message(row: object, index: int, source: str) -> Message:
    """A message of the file, the one of that number or any other. What `decode_whole` trusts is
    checked here.
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
    """What was wrong, on one line."""
    if isinstance(error, KeyError):
        return f"{error} is missing, or not known"
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    if isinstance(error, TypeError | AttributeError):
        return "something is of another kind than it should be"
    return " ".join(str(error).split()) or type(error).__name__


def check_tools(tools: object) -> None:
    """Whether these are schemas of tools, which can be counted.

    Raises:
        ValueError: one is none.
    """
    if not isinstance(tools, list | tuple):
        raise ValueError("tools: expected a list")  # noqa: TRY004 - what is wrong with a file
    try:
        wiring.token_counter("chat_completions", tokenizer="chars").tools(tools)
    except (AttributeError, TypeError, ValueError, LookupError, RecursionError):
        raise ValueError("tools: one is no schema of a tool") from None


def _made(
    about: dict[str, Any], value: dict[str, Any], messages: tuple[Message, ...]
) -> SessionFile:
    """The file's value; pydantic's own rules say what a session may hold."""
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

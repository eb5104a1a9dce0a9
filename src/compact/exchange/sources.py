"""Finds files that may hold conversations, and reads the conversations in them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from compact import wiring
from compact.errors import InvalidTranscript
from compact.exchange.importing import is_id, of_transcript
from compact.files import is_folder, is_other_kind
from compact.store import session_file
from compact.store.session_file import SessionFile

_ENDINGS = frozenset((".json", ".jsonl", ".ndjson", ".md", ".markdown", ".txt", ".log"))
"""Suffixes of file names that are left out of a session's id."""
_NEVER = frozenset((".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".mypy_cache"))
"""Folders that are not searched, because they hold no conversations."""
_DATABASE = b"SQLite format 3\0"
EXPORT = "compact_session"
"""The name of compact's own export format."""
MOST_NAMED = 5
"""How many files of a zip an error names, if the zip has no conversation."""
OTHER_KIND = "a link to nothing, or no file but a pipe or device"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that may hold conversations."""

    path: Path
    is_named: bool
    """Whether the caller named the file itself, and not a folder that contains it."""
    unreadable: str = ""
    """Why the file cannot be read. It is empty if no reason is known yet."""


@dataclass(frozen=True, slots=True)
class FoundConversation:
    """A conversation in a file, or the error if it cannot be read."""

    source: SourceFile
    sha256: str
    number: int
    read: SessionFile | InvalidTranscript
    format: str | None = None
    own_id: str | None = None
    """The conversation's own id, if it has one. For a snapshot it is the id of its session."""
    notes: tuple[str, ...] = ()
    is_alone: bool = True
    """Whether the file holds no other conversation."""


def files_of(paths: Iterable[Path], *, without: Collection[Path] = ()) -> Iterator[SourceFile]:
    """Yield the named files and all files below the named folders, each once and in order. Links to
    folders are not followed. Files and folders in `without` are skipped.
    """
    hidden = {_real(path) for path in without}
    yielded: set[Path] = set()
    for path in paths:
        why = OTHER_KIND if is_other_kind(path) else ""
        one = SourceFile(path, is_named=True, unreadable=why)
        for source in _below(path, hidden) if is_folder(path) else [one]:
            if (real := _real(source.path)) not in yielded:
                yielded.add(real)
                yield source


def _below(folder: Path, hidden: Collection[Path]) -> Iterator[SourceFile]:
    closed: list[OSError] = []
    for place, folders, names in os.walk(folder, onerror=closed.append):
        here = Path(place)
        folders[:] = sorted(
            name for name in folders if name not in _NEVER and _real(here / name) not in hidden
        )
        for name in sorted(names):
            path = here / name
            if _real(path) not in hidden:
                why = "" if path.is_file() else OTHER_KIND
                yield SourceFile(path, is_named=False, unreadable=why)
    for error in closed:
        why = f"the folder cannot be read: {error.strerror or error}"
        yield SourceFile(Path(os.fsdecode(error.filename)), is_named=False, unreadable=why)


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # links that form a ring
        return path.absolute()


def conversations_in(source: SourceFile) -> Iterator[FoundConversation]:
    """Yield the conversations in a file. If there are none, yield one entry that tells why. A zip
    is treated like a folder: each file in it has its own conversations.
    """
    if source.unreadable:
        why = InvalidTranscript(str(source.path), source.unreadable)
        yield FoundConversation(source, "", 1, why)
        return
    if wiring.is_zip(source.path):
        yield from _zipped(source)
        return
    try:
        data = wiring.read_file(source.path, str(source.path))
    except InvalidTranscript as error:
        yield FoundConversation(source, "", 1, error)
        return
    yield from conversations_of(source, data)


def _zipped(zipped: SourceFile) -> Iterator[FoundConversation]:
    found, names = False, list[str]()
    try:
        for name, data in wiring.zipped_files(zipped.path):
            source = SourceFile(Path(f"{zipped.path}/{name}"), is_named=False)
            names.append(name)
            if isinstance(data, InvalidTranscript):
                yield FoundConversation(source, "", 1, data)
                continue
            for each in conversations_of(source, data):
                found |= not isinstance(each.read, InvalidTranscript)
                yield each
    except InvalidTranscript as error:
        yield FoundConversation(zipped, "", 1, error)
        return
    if not found:
        reason = f"a zip without a conversation: {', '.join(names[:MOST_NAMED]) or 'empty'}"
        none = InvalidTranscript(str(zipped.path), reason, is_foreign=True)
        yield FoundConversation(zipped, "", 1, none)


def conversations_of(source: SourceFile, data: bytes) -> Iterator[FoundConversation]:
    """Yield the conversations in a file with these contents."""
    name, digest = str(source.path), _digest(source.path, data)
    try:
        if session_file.is_session_file(data):
            yield FoundConversation(source, digest, 1, session_file.read(data, name), EXPORT)
            return
        whole = source.path if data.startswith(_DATABASE) else data
        for number, found in enumerate(wiring.each_transcript(whole, source=name), 1):
            yield _found_in(source, digest, number, found)
    except InvalidTranscript as error:
        yield FoundConversation(source, digest, 1, error)


def _digest(path: Path, data: bytes) -> str:
    digest = sha256(data)
    if data.startswith(_DATABASE):
        with suppress(OSError):  # the newest rows of a database may be only in its log
            digest.update(Path(f"{path}-wal").read_bytes())
    return digest.hexdigest()


def _found_in(
    source: SourceFile, digest: str, number: int, found: wiring.Transcript | InvalidTranscript
) -> FoundConversation:
    if isinstance(found, InvalidTranscript):
        return FoundConversation(source, digest, number, found)
    own = found.session_id if is_id(found.session_id or "") else None
    about: dict[str, Any] = {"format": found.format, "notes": found.notes, "own_id": own}
    about["is_alone"] = found.conversations == 1
    if not found.messages:
        nothing = InvalidTranscript(found.source, "holds no messages", is_foreign=True)
        return FoundConversation(source, digest, number, nothing, **about)
    base = base_of(source.path)
    name = own or (f"{base}-{number}" if found.conversations > 1 else base)
    try:
        read: SessionFile | InvalidTranscript = of_transcript(found, name, source.path.name)
    except InvalidTranscript as error:
        read = error
    return FoundConversation(source, digest, number, read, **about)


def base_of(path: Path) -> str:
    """Return a session id made from the file's name."""
    name = path.name
    while (one := Path(name)).suffix.lower() in _ENDINGS:
        name = one.stem
    return name if is_id(name) else "session"

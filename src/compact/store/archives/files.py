"""`FileStorage`: archives as files readable by their owner only, in a folder for each session.
`S3Storage`: the same as objects of S3 or a compatible service.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from urllib.parse import quote

from compact.errors import StoreFailed
from compact.files import sync_folder, write_whole
from compact.json_text import write_json
from compact.messages.events import Event
from compact.messages.formats.known import format_named
from compact.messages.kit_names import ARCHIVES
from compact.messages.messages import Message
from compact.patterns import regex
from compact.store.blobs.s3_blobs import INSTALL, S3Blobs
from compact.store.blobs.sealing import KmsKeys, SealedBlobs

EVENTS = "events.jsonl"
"""Name of the file with the events."""
LONGEST_NAME = 100
"""The longest session id in a folder name, in characters. File names have at most 255 bytes."""
_PLAIN = regex(r"[a-z0-9][a-z0-9._-]*")
_NUMBER = regex(r"transcript-pre-compact-([0-9]+)\.jsonl")
_OURS = ("transcript-pre-compact-", "summary-", EVENTS, ".compact-")
_ENDINGS = (".jsonl", ".json", ".tmp")
"""How the names of our files begin and end, including half-written files that a crash left."""


class FileStorage:
    """Keeps archives in `FOLDER/SESSION_ID/`: `transcript-pre-compact-001.jsonl`,
    `summary-001.json`, `events.jsonl`.

    A file is written whole or not at all. A transcript is never replaced. Content is stored as
    given: remove secrets before calling. The `save_` methods raise `StoreFailed` if they cannot
    store.
    """

    def __init__(self, folder: str | Path = ARCHIVES) -> None:
        self.folder = Path(folder)

    def place_of(self, session_id: str) -> str:
        """Return the folder of a session, whether or not the folder exists."""
        return str(self.folder / folder_name(session_id))

    def save_transcript(self, session_id: str, messages: Sequence[Message]) -> str:
        """Store the history before a compression, under the next number; returns the path."""
        data = transcript_lines(messages)
        with self._folder_of(session_id) as folder:
            known = (_NUMBER.fullmatch(path.name) for path in folder.iterdir())
            last = max((int(match[1]) for match in known if match), default=0)
            for number in count(last + 1):
                path = folder / transcript_name(number)
                with suppress(FileExistsError):  # another process took this number
                    write_whole(path, data, replaces=False)
                    return str(path)
        raise AssertionError("numbers never end")

    def save_summary(self, session_id: str, step: int, summary: str) -> str:
        """Store a compression's summary, replacing one with that number. Return the path."""
        with self._folder_of(session_id) as folder:
            path = folder / summary_name(step)
            write_whole(path, summary_line(session_id, step, summary))
            return str(path)

    def save_event(self, session_id: str, event: Event) -> str:
        """Append an event to the session's events; returns the path."""
        with self._folder_of(session_id) as folder:
            path = folder / EVENTS
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            with os.fdopen(os.open(path, flags, 0o600), "ab") as stream:
                stream.write(event_line(event))
            return str(path)

    @contextmanager
    def _folder_of(self, session_id: str) -> Iterator[Path]:
        folder = Path(self.place_of(session_id))
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            yield folder
        except OSError as error:
            if isinstance(error, StoreFailed):
                raise
            raise StoreFailed(f"{folder}: {error.strerror or error}") from None


def copies_in(folder: Path) -> list[Path]:
    """Return the files that `FileStorage` wrote into a session's folder, complete or not."""
    try:
        every = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [x for x in every if x.name.startswith(_OURS) and x.name.endswith(_ENDINGS)]


def discard_copies(folder: Path) -> None:
    """Remove what `FileStorage` wrote into a session's folder. Remove the folder too if nothing
    else is in it.

    Raises:
        OSError: something cannot be removed.
    """
    for path in copies_in(folder):
        path.unlink(missing_ok=True)
    with suppress(OSError):  # other files are there, or it is gone
        folder.rmdir()
    sync_folder(folder.parent)


def folder_name(session_id: str) -> str:
    """Turn a session id into a folder name. An id of lower-case letters, digits, `.`, `_` and `-`
    is used unchanged. Any other id is shortened and gets a digest, so that names stay unique even
    on file systems that ignore case.
    """
    if _PLAIN.fullmatch(session_id) and len(session_id) <= LONGEST_NAME:
        return session_id
    digest = blake2b(session_id.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    shown = quote(session_id[:LONGEST_NAME], safe="", errors="replace").replace("%", "_")
    return f"{shown[:LONGEST_NAME].replace('.', '_')}-{digest}"


class S3Storage:
    """Keeps archives at `s3://BUCKET/PREFIX/SESSION_ID/` (extra `s3`), under the names that
    `FileStorage` uses. Each event is an object of its own in `events/`. With a KMS key each object
    is encrypted here, before it is sent, with its own data key. KMS makes the data key. Only its
    encrypted form is stored with the object. So reading the bucket is not enough: a reader must
    also be allowed to use the KMS key.

    A transcript is never replaced, even if several machines write. `clients` are keyword arguments
    for boto3's clients, such as `endpoint_url` and `region_name`. Credentials come from boto3's
    usual places. Content is stored as given: remove secrets before calling. The `save_` methods
    raise `StoreFailed` if they cannot store.

    Raises:
        ImportError: boto3 is not installed.
    """

    def __init__(
        self, bucket: str, prefix: str = "", *, kms_key: str | None = None, **clients: object
    ) -> None:
        if find_spec("boto3") is None:
            raise ImportError(INSTALL)
        blobs = S3Blobs(bucket, "", **clients)
        kms = KmsKeys(kms_key, bucket, "", **clients) if kms_key else None
        self._bucket, self._prefix = blobs, prefix.strip("/")
        self._blobs = SealedBlobs(blobs, kms)

    def save_transcript(self, session_id: str, messages: Sequence[Message]) -> str:
        """Store the history before a compression, under the next number; returns the address."""
        data = transcript_lines(messages)
        for number in count(self._last(session_id) + 1):
            key = self._key(session_id, transcript_name(number))
            with suppress(FileExistsError):
                self._blobs.put(key, data)
                return self._blobs.address(key)
        raise AssertionError("numbers never end")

    def save_summary(self, session_id: str, step: int, summary: str) -> str:
        """Store a compression's summary under its number. Return the address."""
        key = self._key(session_id, summary_name(step))
        return self._kept(key, summary_line(session_id, step, summary))

    def save_event(self, session_id: str, event: Event) -> str:
        """Store one event; returns the address."""
        when = event.at.strftime("%Y%m%dT%H%M%S.%fZ")
        key = self._key(session_id, f"events/{when}-{secrets.token_hex(4)}.json")
        return self._kept(key, event_line(event))

    def forget(self, session_id: str) -> int:
        """Delete all objects of a session, and return how many there were. A versioned bucket keeps
        old versions until its own rules remove them.

        Raises:
            StoreFailed: an object could not be deleted.
        """
        removed = 0
        for key in self._bucket.names(self._key(session_id, "")):
            self._bucket.delete(key)
            removed += 1
        return removed

    def read(self, address: str) -> bytes:
        """Return the content at an address, decrypted if it was encrypted here.

        Raises:
            StoreFailed: the object cannot be read, or was altered.
        """
        key = address.removeprefix(self._bucket.address(""))
        try:
            return self._blobs.get(key)
        except FileNotFoundError:
            raise StoreFailed(f"nothing is kept at {address}") from None

    def _key(self, session_id: str, name: str) -> str:
        folder = "/".join(filter(None, (self._prefix, folder_name(session_id))))
        return f"{folder}/{name}"

    def _kept(self, key: str, data: bytes) -> str:
        self._blobs.put(key, data, replaces=True)
        return self._blobs.address(key)

    def _last(self, session_id: str) -> int:
        """Return the newest transcript's number; 0 if there is none."""
        names = self._bucket.names(self._key(session_id, "transcript-"))
        numbers = (_NUMBER.fullmatch(name.rpartition("/")[2]) for name in names)
        return max((int(match[1]) for match in numbers if match), default=0)


# --- what the files hold --------------------------------------------------------------------------


def transcript_name(number: int) -> str:
    """Return the file name of the history before a compression. Numbers count from 1."""
    return f"transcript-pre-compact-{number:03}.jsonl"


def summary_name(step: int) -> str:
    """Return the file name of a compression's summary. Numbers count from 1."""
    return f"summary-{step:03}.json"


def transcript_lines(messages: Sequence[Message]) -> bytes:
    """Write messages as JSON Lines in their provider's format. The command line can read it."""
    formats = (message.wire_format for message in messages)
    wire = format_named(next(filter(None, formats), "chat_completions"))
    return b"".join(_json(record) + b"\n" for record in wire.render(messages))


def summary_line(session_id: str, step: int, text: str) -> bytes:
    """Return a summary as a line with a JSON object."""
    return _json({"session_id": session_id, "step": step, "summary": text}) + b"\n"


def event_line(event: Event) -> bytes:
    """Return an event as a line of JSON."""
    return _json(event.as_dict()) + b"\n"


def _json(value: object) -> bytes:
    return write_json(value).encode("utf-8")

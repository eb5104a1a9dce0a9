"""`S3Storage`: archives as objects of S3 or a compatible service (extra `s3`).

With a KMS key each object is encrypted here, before it is sent, with its own data key. KMS makes
the data key. Only its encrypted form is stored with the object. So reading the bucket is not
enough: a reader must also be allowed to use the KMS key.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import count

from compact.errors import StoreFailed
from compact.messages.events import Event
from compact.messages.messages import Message
from compact.patterns import regex
from compact.store.archives import files
from compact.store.archives.files import folder_name
from compact.store.blobs.s3_blobs import INSTALL, S3Blobs
from compact.store.blobs.sealing import KmsKeys, SealedBlobs

_NUMBER = regex(r"transcript-pre-compact-([0-9]+)\.jsonl\Z")


class S3Storage:
    """Keeps archives at `s3://BUCKET/PREFIX/SESSION_ID/`, under the names that `FileStorage` uses.
    Each event is an object of its own in `events/`.

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
        data = files.transcript_lines(messages)
        for number in count(self._last(session_id) + 1):
            key = self._key(session_id, files.transcript_name(number))
            with suppress(FileExistsError):
                self._blobs.put(key, data)
                return self._blobs.address(key)
        raise AssertionError("numbers never end")

    def save_summary(self, session_id: str, step: int, summary: str) -> str:
        """Store a compression's summary under its number. Return the address."""
        key = self._key(session_id, files.summary_name(step))
        return self._kept(key, files.summary_line(session_id, step, summary))

    def save_event(self, session_id: str, event: Event) -> str:
        """Store one event; returns the address."""
        when = event.at.strftime("%Y%m%dT%H%M%S.%fZ")
        key = self._key(session_id, f"events/{when}-{secrets.token_hex(4)}.json")
        return self._kept(key, files.event_line(event))

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
        numbers = map(_NUMBER.search, self._bucket.names(self._key(session_id, "transcript-")))
        return max((int(match[1]) for match in numbers if match), default=0)

"""`S3Storage`: archives as objects of S3 or of what speaks its protocol (extra `s3`).

With a KMS key each object is encrypted here, before it is sent: by a data key of its own, which KMS
makes and which is stored beside the text only as KMS encrypted it. Whoever reads the bucket without
the right to use the KMS key reads nothing.
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
    """Keeps archives at `s3://BUCKET/PREFIX/SESSION_ID/`, under the names of `FileStorage`; each
    event is an object in `events/`.

    No transcript is ever replaced, also where several machines write at once. `clients` are keyword
    arguments of boto3's clients, such as `endpoint_url` and `region_name`; credentials come from
    where boto3 looks for them. What is passed in is kept as it is: remove secrets before.

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
        """Keep the history as it was before a compression, under the next number; the address.

        Raises:
            StoreFailed: it could not be kept.
        """
        data = files.transcript_lines(messages)
        for number in count(self._last(session_id) + 1):
            key = self._key(session_id, files.transcript_name(number))
            with suppress(FileExistsError):
                self._blobs.put(key, data)
                return self._blobs.address(key)
        raise AssertionError("numbers never end")

    def save_summary(self, session_id: str, step: int, summary: str) -> str:
        """Keep what a compression said, by its number; the address.

        Raises:
            StoreFailed: it could not be kept.
        """
        key = self._key(session_id, files.summary_name(step))
        return self._kept(key, files.summary_line(session_id, step, summary))

    def save_event(self, session_id: str, event: Event) -> str:
        """Keep one event; the address.

        Raises:
            StoreFailed: it could not be kept.
        """
        when = event.at.strftime("%Y%m%dT%H%M%S.%fZ")
        key = self._key(session_id, f"events/{when}-{secrets.token_hex(4)}.json")
        return self._kept(key, files.event_line(event))

    def forget(self, session_id: str) -> int:
        """Delete all that is kept of a session; how many objects that was. Where the bucket keeps
        versions, S3 keeps those until its own rules remove them.

        Raises:
            StoreFailed: something could not be deleted.
        """
        removed = 0
        for key in self._bucket.names(self._key(session_id, "")):
            self._bucket.delete(key)
            removed += 1
        return removed

    def read(self, address: str) -> bytes:
        """What is kept at an address, decrypted where it was encrypted here.

        Raises:
            StoreFailed: it cannot be read, or is not what was written there.
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
        """The number of the newest transcript; 0 where there is none."""
        numbers = map(_NUMBER.search, self._bucket.names(self._key(session_id, "transcript-")))
        return max((int(found[1]) for found in numbers if found), default=0)

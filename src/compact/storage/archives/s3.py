"""`S3Storage`: archives as objects of S3 or of what speaks its protocol (extra `s3`).

With a KMS key each object is encrypted here, before it is sent: by a data key of its own, which KMS
makes and which is stored beside the text only as KMS encrypted it. Whoever reads the bucket without
the right to use the KMS key reads nothing.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from compact.core.events import Event
from compact.core.messages import Message
from compact.errors import StoreFailed
from compact.storage.archives import contents
from compact.storage.archives.files import folder_name

if TYPE_CHECKING:
    from collections.abc import Mapping

PART_BYTES = 8 * 1024 * 1024
"""Bytes of a part; larger objects go in several. S3 takes no parts below 5 MiB but the last."""
MAGIC = b"compact-sealed-1\n"
"""How an object begins that was encrypted here; a line of JSON follows, then the sealed text."""
_NUMBER = re.compile(r"transcript-pre-compact-([0-9]+)\.jsonl\Z")
_TAKEN = ("PreconditionFailed", "ConditionalRequestConflict")
"""What S3 answers where an object of that name exists already, or is being written."""


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
        try:
            import boto3
        except ImportError:
            raise ImportError("archives in S3 need boto3: pip install 'compactctl[s3]'") from None
        self._bucket, self._prefix = bucket, prefix.strip("/")
        self._kms_key = kms_key
        self._s3 = boto3.client("s3", **clients)
        self._kms = boto3.client("kms", **clients) if kms_key else None

    def save_transcript(self, session_id: str, messages: Sequence[Message]) -> str:
        """Keep the history as it was before a compression, under the next number; the address.

        Raises:
            StoreFailed: it could not be kept.
        """
        data = contents.transcript(messages)
        try:
            for number in count(self._last(session_id) + 1):
                key = self._key(session_id, contents.transcript_name(number))
                if self._put(key, data, replaces=False):
                    return self._address(key)
        except _errors() as error:
            raise StoreFailed(f"s3://{self._bucket}: {error}") from None
        raise AssertionError("numbers never end")

    def save_summary(self, session_id: str, step: int, summary: str) -> str:
        """Keep what a compression said, by its number; the address.

        Raises:
            StoreFailed: it could not be kept.
        """
        key = self._key(session_id, contents.summary_name(step))
        return self._kept(key, contents.summary(session_id, step, summary))

    def save_event(self, session_id: str, event: Event) -> str:
        """Keep one event; the address.

        Raises:
            StoreFailed: it could not be kept.
        """
        when = event.at.strftime("%Y%m%dT%H%M%S.%fZ")
        key = self._key(session_id, f"events/{when}-{secrets.token_hex(4)}.json")
        return self._kept(key, contents.event_line(event))

    def forget(self, session_id: str) -> int:
        """Delete all that is kept of a session; how many objects that was. Where the bucket keeps
        versions, S3 keeps those until its own rules remove them.

        Raises:
            StoreFailed: something could not be deleted.
        """
        removed = 0
        try:
            for key in self._keys(session_id, ""):
                self._s3.delete_object(Bucket=self._bucket, Key=key)
                removed += 1
        except _errors() as error:
            raise StoreFailed(f"s3://{self._bucket}: {error}") from None
        return removed

    def read(self, address: str) -> bytes:
        """What is kept at an address, decrypted where it was encrypted here.

        Raises:
            StoreFailed: it cannot be read, or is not what was written there.
        """
        key = address.removeprefix(f"s3://{self._bucket}/")
        try:
            data: bytes = self._s3.get_object(Bucket=self._bucket, Key=key)["Body"].read()
            return self._opened(key, data) if data.startswith(MAGIC) else data
        except _errors() as error:
            raise StoreFailed(f"{address}: {error}") from None

    # --- objects ----------------------------------------------------------------------------------

    def _key(self, session_id: str, name: str) -> str:
        folder = "/".join(filter(None, (self._prefix, folder_name(session_id))))
        return f"{folder}/{name}"

    def _address(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"

    def _kept(self, key: str, data: bytes) -> str:
        try:
            self._put(key, data, replaces=True)
        except _errors() as error:
            raise StoreFailed(f"{self._address(key)}: {error}") from None
        return self._address(key)

    def _last(self, session_id: str) -> int:
        """The number of the newest transcript; 0 where there is none."""
        numbers = map(_NUMBER.search, self._keys(session_id, "transcript-"))
        return max((int(found[1]) for found in numbers if found), default=0)

    def _keys(self, session_id: str, begins: str) -> Iterator[str]:
        """What is kept of a session under names that begin so."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._key(session_id, begins)
        )
        return (row["Key"] for page in pages for row in page.get("Contents", ()))

    def _put(self, key: str, data: bytes, *, replaces: bool) -> bool:
        """Write an object, whole or not at all; False where there is one that stays."""
        data = self._sealed(key, data) if self._kms_key else data
        condition = {} if replaces else {"IfNoneMatch": "*"}
        where = {"Bucket": self._bucket, "Key": key}
        try:
            if len(data) <= PART_BYTES:
                self._s3.put_object(**where, Body=data, **condition)
            else:
                self._put_parts(where, data, condition)
        except _errors() as error:
            if getattr(error, "response", {}).get("Error", {}).get("Code") in _TAKEN:
                return False
            raise
        return True

    def _put_parts(
        self, where: Mapping[str, str], data: bytes, condition: Mapping[str, str]
    ) -> None:
        upload = {**where, "UploadId": self._s3.create_multipart_upload(**where)["UploadId"]}
        try:
            parts: list[dict[str, Any]] = []
            for number, start in enumerate(range(0, len(data), PART_BYTES), 1):
                body = data[start : start + PART_BYTES]
                done = self._s3.upload_part(**upload, PartNumber=number, Body=body)
                parts.append({"PartNumber": number, "ETag": done["ETag"]})
            self._s3.complete_multipart_upload(
                **upload, MultipartUpload={"Parts": parts}, **condition
            )
        except BaseException:
            self._s3.abort_multipart_upload(**upload)
            raise

    # --- encryption -------------------------------------------------------------------------------

    def _sealed(self, key: str, data: bytes) -> bytes:
        """Encrypted by AES-256-GCM (NIST SP 800-38D) under a data key of KMS; the object's key is
        bound to it, so that no object can take another one's place.
        """
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        assert self._kms is not None, "there is a key"
        made = self._kms.generate_data_key(
            KeyId=self._kms_key, KeySpec="AES_256", EncryptionContext=self._context(key)
        )
        nonce = secrets.token_bytes(12)
        head = {"key": _text(made["CiphertextBlob"]), "nonce": _text(nonce)}
        sealed = AESGCM(made["Plaintext"]).encrypt(nonce, data, key.encode())
        return MAGIC + json.dumps(head).encode() + b"\n" + sealed

    def _opened(self, key: str, data: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if self._kms is None:
            raise StoreFailed(f"{self._address(key)} is encrypted: give the KMS key")
        line, _, sealed = data.removeprefix(MAGIC).partition(b"\n")
        head = json.loads(line)
        blob = base64.b64decode(head["key"])
        made = self._kms.decrypt(CiphertextBlob=blob, EncryptionContext=self._context(key))
        try:
            nonce = base64.b64decode(head["nonce"])
            return AESGCM(made["Plaintext"]).decrypt(nonce, sealed, key.encode())
        except InvalidTag:
            raise StoreFailed(f"{self._address(key)} was altered") from None

    def _context(self, key: str) -> dict[str, str]:
        return {"bucket": self._bucket, "object": key}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _errors() -> tuple[type[Exception], ...]:
    """What boto3 raises where a service cannot be reached or refuses."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    return (Boto3Error, BotoCoreError, ClientError)

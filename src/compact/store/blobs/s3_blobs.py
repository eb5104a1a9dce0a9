"""`S3Blobs`: whole objects in a bucket of S3, or of what speaks its protocol (extra `s3`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from compact.errors import StoreFailed

PART_BYTES = 8 * 1024 * 1024
"""Bytes of a part; larger objects go in several. S3 takes no parts below 5 MiB but the last."""
SECONDS = {"connect_timeout": 10, "read_timeout": 60}
"""How long a server may take to answer: whoever waits may hold a lock of the database."""
ATTEMPTS = 3
"""How often boto3 asks a server that does not answer, or is busy."""
INSTALL = (
    "archives in S3 need boto3: pip install boto3 cryptography, or, in a clone of compact, "
    "pip install '.[s3]'"
)
_TAKEN = ("PreconditionFailed", "ConditionalRequestConflict")
"""What S3 answers where an object of that name exists already, or is being written."""
_MISSING = ("NoSuchKey", "404")
_ADVICE: Mapping[str, str] = {
    "NoSuchBucket": "Make the bucket, or give the name of another one",
    "AccessDenied": "Allow these credentials to get, put and delete objects there, and to use the "
    "KMS key",
    "InvalidAccessKeyId": "Give boto3 other credentials (AWS_ACCESS_KEY_ID, a profile)",
    "SignatureDoesNotMatch": "Give boto3 other credentials (AWS_SECRET_ACCESS_KEY, a profile)",
    "NoCredentialsError": "Give boto3 credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE, a role)",
    "NoRegionError": "Name the bucket's region (AWS_DEFAULT_REGION)",
}
"""What helps, by S3's code or the name of boto3's exception."""
_OTHERWISE = "Check the network and the service, then try again; nothing was removed"


def client(service: str, **settings: object) -> Any:  # noqa: ANN401 - boto3 has no types
    """A client of boto3, which takes credentials, a region and an endpoint from where it looks for
    them; `settings` are its keyword arguments.

    Raises:
        StoreFailed: boto3 is not installed, or lacks a setting, such as a region.
    """
    with told(service):
        import boto3
        from botocore.config import Config

        config = Config(**SECONDS, retries={"max_attempts": ATTEMPTS, "mode": "standard"})
        return boto3.client(service, **{"config": config, **settings})


@contextmanager
def told(address: str) -> Iterator[None]:
    """Raise ours for what boto3 raises where a service cannot be reached, or refuses."""
    try:
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise StoreFailed(f"{address}: {INSTALL}") from None
    try:
        yield
    except (Boto3Error, BotoCoreError, ClientError) as error:
        advice = _ADVICE.get(_code(error) or type(error).__name__, _OTHERWISE)
        raise StoreFailed(f"{address}: {error}. {advice}") from error


def _code(error: Exception) -> str:
    """S3's own code; empty where it was not asked."""
    return str(getattr(error, "response", {}).get("Error", {}).get("Code", ""))


class S3Blobs:
    """Objects below `s3://BUCKET/PREFIX`. boto3 is loaded when something is asked of them.
    `clients` are keyword arguments of its clients, such as `endpoint_url`.
    """

    def __init__(self, bucket: str, prefix: str = "", **clients: object) -> None:
        self.bucket, self.prefix = bucket, prefix.strip("/")
        self._settings = clients
        self._made: Any = None

    def put(self, name: str, data: bytes, *, replaces: bool = False) -> None:
        """Keep an object, whole or not at all.

        Raises:
            FileExistsError: there is one, and `replaces` is off.
            StoreFailed: it could not be kept.
        """
        condition = {} if replaces else {"IfNoneMatch": "*"}
        where = {"Bucket": self.bucket, "Key": self.key(name)}
        with self._asked(name) as s3:
            try:
                if len(data) <= PART_BYTES:
                    s3.put_object(**where, Body=data, **condition)
                else:
                    _put_parts(s3, where, data, condition)
            except s3.exceptions.ClientError as error:
                if _code(error) not in _TAKEN:
                    raise
                raise FileExistsError(self.address(name)) from None

    def get(self, name: str) -> bytes:
        """What an object holds.

        Raises:
            FileNotFoundError: there is none.
            StoreFailed: it cannot be read.
        """
        with self._asked(name) as s3:
            try:
                found = s3.get_object(Bucket=self.bucket, Key=self.key(name))
                data: bytes = found["Body"].read()
            except s3.exceptions.ClientError as error:
                if _code(error) not in _MISSING:
                    raise
                raise FileNotFoundError(self.address(name)) from None
        return data

    def delete(self, name: str) -> None:
        """Remove an object; nothing where there is none. A bucket that keeps versions keeps this
        one, too, until its own rules remove it.

        Raises:
            StoreFailed: it could not be removed.
        """
        with self._asked(name) as s3:
            s3.delete_object(Bucket=self.bucket, Key=self.key(name))

    def names(self, begins: str) -> Iterator[str]:
        """The names that begin so, of objects that are there.

        Raises:
            StoreFailed: the bucket cannot be read.
        """
        with self._asked(begins) as s3:
            pages = s3.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=self.key(begins)
            )
            for page in pages:
                for row in page.get("Contents", ()):
                    yield row["Key"].removeprefix(self.key(""))

    def address(self, name: str) -> str:
        """The object's address."""
        return f"s3://{self.bucket}/{self.key(name)}"

    def key(self, name: str) -> str:
        """What the bucket calls it."""
        return f"{self.prefix}/{name}" if self.prefix else name

    @contextmanager
    def _asked(self, name: str) -> Iterator[Any]:
        """The client, for what is asked of an object."""
        with told(self.address(name)):
            if self._made is None:
                self._made = client("s3", **self._settings)
            yield self._made


def _put_parts(
    s3: Any,  # noqa: ANN401 - boto3 has no types
    where: Mapping[str, str],
    data: bytes,
    condition: Mapping[str, str],
) -> None:
    upload = {**where, "UploadId": s3.create_multipart_upload(**where)["UploadId"]}
    try:
        parts: list[dict[str, Any]] = []
        for number, start in enumerate(range(0, len(data), PART_BYTES), 1):
            body = data[start : start + PART_BYTES]
            done = s3.upload_part(**upload, PartNumber=number, Body=body)
            parts.append({"PartNumber": number, "ETag": done["ETag"]})
        s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, **condition)
    except BaseException:
        s3.abort_multipart_upload(**upload)
        raise

"""`S3Blobs`: objects in a bucket of S3 or a compatible service (extra `s3`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from compact.errors import StoreFailed

PART_BYTES = 8 * 1024 * 1024
"""Size of an upload part in bytes. Larger objects are sent in parts. S3 demands at least 5 MiB for
each part but the last."""
SECONDS = {"connect_timeout": 10, "read_timeout": 60}
"""Time limits of a request, in seconds. Short, because the caller may hold a database lock."""
ATTEMPTS = 3
"""How many times boto3 tries a request when the server is busy or does not answer."""
INSTALL = (
    "archives in S3 need boto3: pip install boto3 cryptography, or, in a clone of compact, "
    "pip install '.[s3]'"
)
_TAKEN = ("PreconditionFailed", "ConditionalRequestConflict")
"""S3's error codes for an object that exists already or is being written."""
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
"""S3's error code, or the name of boto3's exception → advice for the user."""
_OTHERWISE = "Check the network and the service, then try again; nothing was removed"


def client(service: str, **settings: object) -> Any:  # noqa: ANN401 - boto3 has no types
    """Return a boto3 client. `settings` are keyword arguments for it. Without them boto3 finds
    credentials, region and endpoint in its usual places.

    Raises:
        StoreFailed: boto3 is not installed, or a setting such as the region is missing.
    """
    with translating(service):
        import boto3
        from botocore.config import Config

        config = Config(**SECONDS, retries={"max_attempts": ATTEMPTS, "mode": "standard"})
        return boto3.client(service, **{"config": config, **settings})


@contextmanager
def translating(address: str) -> Iterator[None]:
    """Translate boto3's errors into ours, with advice."""
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
    """Return S3's error code; an empty string for other errors."""
    return str(getattr(error, "response", {}).get("Error", {}).get("Code", ""))


class S3Blobs:
    """A `BlobStore` below `s3://BUCKET/PREFIX`. boto3 is imported at the first request. `clients`
    are keyword arguments for its clients, such as `endpoint_url`. Errors are those of `BlobStore`.
    """

    def __init__(self, bucket: str, prefix: str = "", **clients: object) -> None:
        self.bucket, self.prefix = bucket, prefix.strip("/")
        self._settings = clients
        self._made: Any = None

    def put(self, name: str, data: bytes, *, replaces: bool = False) -> None:
        """Store an object, whole or not at all."""
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
        """Return the content of an object."""
        with self._asked(name) as s3:
            try:
                response = s3.get_object(Bucket=self.bucket, Key=self.key(name))
                data: bytes = response["Body"].read()
            except s3.exceptions.ClientError as error:
                if _code(error) not in _MISSING:
                    raise
                raise FileNotFoundError(self.address(name)) from None
        return data

    def delete(self, name: str) -> None:
        """Delete an object, if it exists. A versioned bucket keeps it until its own rules remove
        it.
        """
        with self._asked(name) as s3:
            s3.delete_object(Bucket=self.bucket, Key=self.key(name))

    def names(self, begins: str) -> Iterator[str]:
        """Yield the names of existing objects that begin with this prefix."""
        with self._asked(begins) as s3:
            pages = s3.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=self.key(begins)
            )
            for page in pages:
                for row in page.get("Contents", ()):
                    yield row["Key"].removeprefix(self.key(""))

    def address(self, name: str) -> str:
        """Return the object's address."""
        return f"s3://{self.bucket}/{self.key(name)}"

    def key(self, name: str) -> str:
        """Return the object's key in the bucket."""
        return f"{self.prefix}/{name}" if self.prefix else name

    @contextmanager
    def _asked(self, name: str) -> Iterator[Any]:
        with translating(self.address(name)):
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

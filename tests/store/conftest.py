"""A server that speaks S3 and KMS, for archives that go there."""

from collections.abc import Iterator
from typing import Any

import pytest

REGION = "eu-central-1"
BUCKET = "beams"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    moto_server = pytest.importorskip("moto.server")
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def clients(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Arguments of clients of that server, which has a bucket of the test's own; they stand in the
    environment too.
    """
    boto3 = pytest.importorskip("boto3")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tests")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "tests")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    made = {"endpoint_url": endpoint, "region_name": REGION}
    where = {"LocationConstraint": REGION}
    boto3.client("s3", **made).create_bucket(Bucket=BUCKET, CreateBucketConfiguration=where)
    bucket = boto3.resource("s3", **made).Bucket(BUCKET)
    yield made
    bucket.objects.all().delete()
    bucket.delete()


@pytest.fixture
def key(clients: dict[str, Any]) -> str:
    boto3 = pytest.importorskip("boto3")
    made: str = boto3.client("kms", **clients).create_key()["KeyMetadata"]["KeyId"]
    return made

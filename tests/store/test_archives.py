"""Archives of what was compacted, as files and in S3 (K-7)."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from compact import Message
from compact.errors import StoreFailed
from compact.messages.events import TokenEstimate
from compact.messages.protocols import StorageAdapter
from compact.store.archives.files import FileStorage, S3Storage, folder_name
from compact.store.blobs.s3_blobs import PART_BYTES
from compact.testing import check_storage_adapter
from compact.transcripts import reading

boto3 = pytest.importorskip("boto3")
HISTORY = [
    Message(role="user", content="Is the beam sound? \ud800"),
    Message(role="assistant", content="It is."),
]
Json = dict[str, Any]


@pytest.fixture
def s3(clients: Json) -> Callable[..., S3Storage]:
    def storage(**more: Any) -> S3Storage:
        return S3Storage("beams", "a/b", **more, **clients)

    return storage


# --- files ----------------------------------------------------------------------------------------


def test_files_keep_their_promises(tmp_path: Path) -> None:
    check_storage_adapter(FileStorage(tmp_path / "archive"))


def test_files_are_named_by_session_and_number(tmp_path: Path) -> None:
    storage: StorageAdapter = FileStorage(tmp_path / "archive")
    first = Path(storage.save_transcript("s", HISTORY))
    second = Path(storage.save_transcript("s", HISTORY[:1]))
    assert first == tmp_path / "archive" / "s" / "transcript-pre-compact-001.jsonl"
    assert second.name == "transcript-pre-compact-002.jsonl"
    assert len(reading.read(first).messages) == 2, "our own readers read it"
    assert json.loads(first.read_text().splitlines()[0])["content"].endswith("\ud800")
    summary = Path(storage.save_summary("s", 7, "All beams are sound."))
    assert summary.name == "summary-007.json"
    assert json.loads(summary.read_text())["summary"] == "All beams are sound."
    event = TokenEstimate(tokens=1, limit=2, messages=3, tokenizer="none", exact=False)
    for _ in range(2):
        events = Path(storage.save_event("s", event))
    names = [json.loads(line)["name"] for line in events.read_text().splitlines()]
    assert (events.name, names) == ("events.jsonl", ["compact.token_estimate"] * 2)
    assert sorted(p.name for p in first.parent.iterdir()) == [
        "events.jsonl",
        "summary-007.json",
        "transcript-pre-compact-001.jsonl",
        "transcript-pre-compact-002.jsonl",
    ]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_only_their_owner_may_read_them(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        storage = FileStorage(tmp_path / "archive")
        paths = [Path(storage.save_transcript("s", HISTORY))]
        paths.append(Path(storage.save_summary("s", 1, "x")))
        event = TokenEstimate(tokens=1, limit=2, messages=3, tokenizer="none", exact=False)
        paths.append(Path(storage.save_event("s", event)))
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    folders = {paths[0].parent, paths[0].parent.parent}
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}


def test_many_writers_take_numbers_of_their_own(tmp_path: Path) -> None:
    storages = [FileStorage(tmp_path / "archive") for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda s: s.save_transcript("s", HISTORY), storages * 5))
    assert len(set(made)) == 40
    assert not list((tmp_path / "archive" / "s").glob(".*.tmp"))


def test_sessions_have_folders_of_their_own(tmp_path: Path) -> None:
    """Whatever they are called: none leads out of the folder, none is another one's."""
    names = [
        "s",
        "S",
        "../s",
        "..",
        ".",
        "",
        "a/b",
        "a\\b",
        "ü",
        "x" * 400,
        "con:",
        "\ud800",
        "s-1",
    ]
    folders = [folder_name(name) for name in names]
    assert len({folder.lower() for folder in folders}) == len(names)
    storage = FileStorage(tmp_path / "archive")
    for name in names:
        assert Path(storage.save_summary(name, 1, name)).parent.parent == tmp_path / "archive"


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "archive").write_text("in the way")
    with pytest.raises(StoreFailed, match="archive"):
        FileStorage(tmp_path / "archive").save_transcript("s", HISTORY)


# --- S3 -------------------------------------------------------------------------------------------


def test_s3_keeps_its_promises(s3: Callable[..., S3Storage], key: str) -> None:
    check_storage_adapter(s3())
    check_storage_adapter(s3(kms_key=key))


def test_objects_are_named_like_files(s3: Callable[..., S3Storage]) -> None:
    storage = s3()
    first = storage.save_transcript("s", HISTORY)
    assert first == "s3://beams/a/b/s/transcript-pre-compact-001.jsonl"
    assert storage.save_transcript("s", HISTORY).endswith("-002.jsonl")
    assert len(reading.read(storage.read(first)).messages) == 2
    assert json.loads(storage.read(storage.save_summary("s", 1, "Sound.")))["summary"] == "Sound."


def test_many_writers_to_s3_take_numbers_of_their_own(s3: Callable[..., S3Storage]) -> None:
    """Conditional writes: no transcript is replaced."""
    barrier = threading.Barrier(4)

    def write(_: int) -> str:
        storage = s3()
        barrier.wait(30)
        return storage.save_transcript("s", HISTORY)

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(write, range(4)))
    assert len(set(made)) == 4


def test_large_transcripts_go_in_parts(s3: Callable[..., S3Storage], key: str) -> None:
    words = "The beam holds. " * (PART_BYTES // 8)
    for storage in (s3(), s3(kms_key=key)):
        address = storage.save_transcript("large", [Message(role="user", content=words)])
        assert words in storage.read(address).decode()
        assert len(storage.read(address)) > 2 * PART_BYTES


def test_what_is_sealed_is_read_by_nobody_without_the_key(
    s3: Callable[..., S3Storage], key: str, clients: Json
) -> None:
    """Nothing of the words is in the bucket; an object in another one's place is refused."""
    storage = s3(kms_key=key)
    address = storage.save_summary("s", 1, "The beam of the gable is rotten.")
    other = storage.save_summary("s", 2, "All is sound.")
    raw = boto3.client("s3", **clients)

    def object_at(place: str) -> bytes:
        name = place.removeprefix("s3://beams/")
        data: bytes = raw.get_object(Bucket="beams", Key=name)["Body"].read()
        return data

    assert b"gable" not in object_at(address)
    assert b"gable" in storage.read(address)
    with pytest.raises(StoreFailed, match="give the KMS key"):
        s3().read(address)
    moved = other.removeprefix("s3://beams/")
    raw.put_object(Bucket="beams", Key=moved, Body=object_at(address))
    with pytest.raises(StoreFailed):
        storage.read(other)
    altered = bytearray(object_at(address))
    altered[-1] ^= 1
    raw.put_object(Bucket="beams", Key=address.removeprefix("s3://beams/"), Body=bytes(altered))
    with pytest.raises(StoreFailed, match="altered"):
        storage.read(address)


def test_a_bucket_that_is_not_there_says_so(clients: Json) -> None:
    with pytest.raises(StoreFailed, match="nowhere"):
        S3Storage("nowhere", **clients).save_transcript("s", HISTORY)

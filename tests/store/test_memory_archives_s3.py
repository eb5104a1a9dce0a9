"""Archives of memory in S3: as in a folder, and nothing is lost while the network is away (A-5)."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compact import ArchivalManager, CompactConfig, MemoryManager, SQLiteManager
from compact.errors import InvalidArgument, StoreDamaged, StoreFailed
from compact.messages.messages import Message
from compact.messages.sessions import Entry
from compact.store.archives import folder as archive_folder
from compact.store.blobs import s3_blobs, sealing
from compact.store.sqlite import originals
from tests.store.archiving_sessions import NOW, make, rows_of, told, with_text
from tests.store.conftest import BUCKET

boto3 = pytest.importorskip("boto3")
PLACE = f"s3://{BUCKET}/a/memory"


class Bucket:
    """What is in the bucket, beside compact."""

    def __init__(self, clients: dict[str, Any]) -> None:
        self._s3 = boto3.client("s3", **clients)

    def names(self) -> list[str]:
        found = self._s3.list_objects_v2(Bucket=BUCKET).get("Contents", ())
        return sorted(row["Key"] for row in found)

    def read(self, name: str) -> bytes:
        data: bytes = self._s3.get_object(Bucket=BUCKET, Key=name)["Body"].read()
        return data

    def write(self, name: str, data: bytes) -> None:
        self._s3.put_object(Bucket=BUCKET, Key=name, Body=data)

    def remove(self, name: str) -> None:
        self._s3.delete_object(Bucket=BUCKET, Key=name)


@pytest.fixture
def bucket(clients: dict[str, Any]) -> Bucket:
    return Bucket(clients)


@pytest.fixture
def file(tmp_path: Path, bucket: Bucket) -> Path:
    with SQLiteManager(tmp_path / "chat.db") as store:
        for number, name in enumerate("ab"):
            make(store, name, random.Random(number))
    return tmp_path / "chat.db"


def put_away(store: SQLiteManager, *names: str, **more: Any) -> None:
    report = store.archive_sessions(names, folder=PLACE, now=NOW, **more)
    assert report.failed == {}


@pytest.mark.parametrize("sealed", [False, True])
def test_what_goes_to_s3_is_read_there_and_comes_back(
    file: Path, bucket: Bucket, key: str, sealed: bool
) -> None:
    """Another process reads it by what the database says of it, sealed or not."""
    with SQLiteManager(file) as store:
        before = {name: rows_of(store, name) for name in "ab"}
        said = {name: told(store, name) for name in "ab"}
    with ArchivalManager(file, folder=PLACE, kms_key=key if sealed else None) as archives:
        report = archives.archive_conversations(["a", "b"], now=NOW)
        assert (report.failed, len(report.archived)) == ({}, 2)
        assert report.archived[0].file.startswith(f"{PLACE}/2026/")
    assert len(bucket.names()) == 2
    for name in bucket.names():
        assert bucket.read(name).startswith(sealing.MAGIC) == sealed
    with SQLiteManager(file) as store:
        assert with_text(store) == 0
        assert {name: told(store, name) for name in "ab"} == said
        assert store.archive_faults() == []
        assert store.integrity_check() == []
        store.restore_session("a")
        assert len(bucket.names()) == 1
        store.restore_session("b")
        assert bucket.names() == []
        digests = rows_of(store, "b")["digests"]
        assert len(digests) == 1, "an archive has one"
        assert rows_of(store, "b") == {**before["b"], "digests": digests}
        put_away(store, "b")
        store.delete_session("b")
        assert bucket.names() == []


def test_memory_takes_the_place_from_its_settings(file: Path, bucket: Bucket, key: str) -> None:
    settings = CompactConfig(memory_archive=PLACE, archive_kms_key=key)
    with MemoryManager(file, settings=settings) as memory:
        assert memory.status().archive_folder == PLACE
        assert memory.archive(["a"]).failed == {}
        assert all(bucket.read(name).startswith(sealing.MAGIC) for name in bucket.names())
        assert memory.restore("a").id == "a"
    elsewhere = f"s3://{BUCKET}/elsewhere"
    with MemoryManager(file, archive_folder=elsewhere, settings=settings) as memory:
        memory.archive(["a"])
    assert all(name.startswith("elsewhere/20") for name in bucket.names())
    with pytest.raises(InvalidArgument, match="names no bucket"):
        ArchivalManager(file, folder="s3://")


@pytest.mark.parametrize("damage", ["altered", "missing"])
def test_a_damaged_object_is_told_and_deletes_nothing(
    file: Path, bucket: Bucket, damage: str
) -> None:
    with SQLiteManager(file) as store:
        put_away(store, "a")
        [name] = bucket.names()
        good = bucket.read(name)
        if damage == "altered":
            bucket.write(name, good[:-1] + b"?")
        else:
            bucket.remove(name)
        faults = store.archive_faults()
        assert [each.session_id for each in faults] == ["a"]
        assert Path(name).name in faults[0].what
        with pytest.raises(StoreDamaged):
            store.restore_session("a")
        with pytest.raises(StoreDamaged):
            store.read("a", 0, 9)
        assert len(store.archived_sessions()) == 1
        bucket.write(name, good)
        store.restore_session("a")
        assert store.integrity_check() == []


def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing answers any more."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(s3_blobs, "ATTEMPTS", 1)


def test_without_a_network_nothing_is_removed(
    file: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SQLiteManager(file) as store:
        before = rows_of(store, "b")
        put_away(store, "a")
        said = told(store, "a")
    with monkeypatch.context() as cut, SQLiteManager(file) as store:
        away(cut)
        report = store.archive_sessions(["b"], folder=PLACE, now=NOW)
        assert "Check the network" in report.failed["b"]
        assert rows_of(store, "b") == before
        for do in (lambda: store.read("a", 0, 9), lambda: store.restore_session("a")):
            with pytest.raises(StoreFailed, match="Check the network") as failed:
                do()
            assert not isinstance(failed.value, StoreDamaged), "nothing is damaged"
        assert "cannot be verified" in store.archive_faults()[0].what
        with pytest.raises(StoreFailed, match="traces"):
            store.delete_session("a")
    assert len(bucket.names()) == 1
    with SQLiteManager(file) as store:
        assert bucket.names() == [], "whoever opens the file next removes what a deletion left"
        assert said


@pytest.mark.parametrize("left", ["whole", "garbage"])
def test_what_a_killed_attempt_left_goes_or_is_written_again(
    file: Path, bucket: Bucket, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SQLiteManager(file) as store:
        before = rows_of(store, "a")
        with monkeypatch.context() as patched:
            patched.setattr(originals, "take_out", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                store.archive_sessions(["a"], folder=PLACE, now=NOW)
        [name] = bucket.names()
        if left == "garbage":
            bucket.write(name, b"garbage")
        put_away(store, "a")
        assert bucket.names() == [name]
        assert store.archive_faults() == []
        store.restore_session("a")
        assert rows_of(store, "a") == before
        assert bucket.names() == []


def test_objects_that_were_to_go_when_the_process_died_go_later(
    file: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SQLiteManager(file) as store:
        put_away(store, "a", "b")
        with monkeypatch.context() as patched:
            patched.setattr(archive_folder, "discard", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                store.restore_session("a")
    assert len(bucket.names()) == 2
    with SQLiteManager(file) as store:
        assert len(bucket.names()) == 1
        assert store.integrity_check() == []


def test_what_s3_gives_back_is_compared(
    file: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    put: Callable[..., None] = s3_blobs.S3Blobs.put

    def altered(self: Any, name: str, data: bytes, **more: Any) -> None:
        put(self, name, data[:-1] + b"?", **more)

    monkeypatch.setattr(s3_blobs.S3Blobs, "put", altered)
    with SQLiteManager(file) as store:
        before = rows_of(store, "a")
        report = store.archive_sessions(["a"], folder=PLACE, now=NOW)
        assert "does not hold what was written" in report.failed["a"]
        assert rows_of(store, "a") == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_reads_it_too(file: Path, bucket: Bucket) -> None:
    with SQLiteManager(file) as store:
        put_away(store, "a")
        assert store.read("a", 0, 9)
        child = os.fork()
        if not child:
            found = False
            try:
                with SQLiteManager(file) as own:
                    found = bool(own.read("a", 0, 9))
            finally:
                os._exit(0 if found else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("how", ["read", "restore"])
def test_nobody_waits_for_the_network_with_the_lock_in_hand(
    file: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """While one fetches an archive, others write."""
    get: Callable[..., bytes] = s3_blobs.S3Blobs.get
    with SQLiteManager(file) as store, SQLiteManager(file, busy_timeout=0.1) as other:
        put_away(store, "a")

        def slow(self: Any, name: str) -> bytes:
            other.append("b", [Entry(Message(role="user", content="meanwhile"))])
            return get(self, name)

        monkeypatch.setattr(s3_blobs.S3Blobs, "get", slow)
        if how == "read":
            store.read("a", 0, 9)
        else:
            store.restore_session("a")
        monkeypatch.undo()
        assert store.integrity_check() == []


def test_what_another_one_restored_meanwhile_is_read(
    file: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    get: Callable[..., bytes] = s3_blobs.S3Blobs.get
    with SQLiteManager(file) as store, SQLiteManager(file) as other:
        said = store.read("a", 0, 99)
        put_away(store, "a")
        with monkeypatch.context() as patched:

            def late(self: Any, name: str) -> bytes:
                patched.undo()
                other.restore_session("a")
                return get(self, name)

            patched.setattr(s3_blobs.S3Blobs, "get", late)
            patched.setenv("AWS_ENDPOINT_URL", os.environ["AWS_ENDPOINT_URL"])
            assert SQLiteManager(file).read("a", 0, 99) == said
        assert store.integrity_check() == []


def test_a_backup_holds_what_lies_in_s3(file: Path, bucket: Bucket, tmp_path: Path) -> None:
    with MemoryManager(file, archive_folder=PLACE) as memory:
        assert memory.archive(["a"]).failed == {}
        memory.backup(tmp_path / "backup")
    with SQLiteManager(file) as store:
        said = told(store, "a")
    for name in bucket.names():
        bucket.remove(name)
    MemoryManager.restore_backup(tmp_path / "backup", tmp_path / "new.db")
    with SQLiteManager(tmp_path / "new.db") as store:
        assert told(store, "a") == said
        assert store.integrity_check() == []


@pytest.mark.parametrize("is_away", [False, True])
def test_what_is_forgotten_is_gone_from_s3_or_told(
    file: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    with SQLiteManager(file) as store:
        put_away(store, "a")
    with monkeypatch.context() as cut, SQLiteManager(file) as store:
        if is_away:
            away(cut)
        report = store.forget_session("a")
    assert any("it goes on when the store is opened" in each for each in report.remains) == is_away
    assert (report.remains == ()) == (not is_away)
    assert report.removed["files of archives"] == 1
    SQLiteManager(file).close()
    assert bucket.names() == []


def test_an_object_that_stays_after_a_deletion_is_told(
    file: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_blobs.S3Blobs, "delete", lambda *_: None)
    with SQLiteManager(file) as store:
        put_away(store, "a")
        report = store.forget_session("a")
    assert sum(each.endswith("is an archive of it") for each in report.remains) == 1

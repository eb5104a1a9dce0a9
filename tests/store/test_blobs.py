"""Stores of whole files, in a folder and in S3, sealed and not (A-5)."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from compact.errors import InvalidArgument, StoreDamaged, StoreFailed
from compact.messages.protocols import BlobStore
from compact.store.blobs import s3_blobs, sealing
from compact.store.blobs.places import ArchivePlaces, FolderBlobs, bucket_of
from compact.store.blobs.s3_blobs import S3Blobs
from compact.store.blobs.sealing import Passphrase, SealedBlobs
from compact.testing import check_blob_store
from tests.store.conftest import BUCKET

SECRET = "twelve heavy oak beams"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "SCRYPT", {"n": 2**10, "r": 8, "p": 1})


@pytest.mark.parametrize("secret", [None, SECRET])
def test_a_folder_keeps_its_promises(tmp_path: Path, secret: str | None) -> None:
    places = ArchivePlaces(tmp_path, Passphrase.in_force(secret))
    check_blob_store(lambda: places.at("archive"))


@pytest.mark.parametrize("sealed", ["no", "passphrase", "kms"])
def test_a_bucket_keeps_its_promises(tmp_path: Path, sealed: str, key: str) -> None:
    secret = Passphrase(SECRET) if sealed == "passphrase" else None
    kms = key if sealed == "kms" else None
    check_blob_store(lambda: ArchivePlaces(tmp_path, secret).at(f"s3://{BUCKET}/a/b", kms))


def test_the_suite_finds_who_breaks_a_promise(tmp_path: Path) -> None:
    class Replaces(FolderBlobs):
        def put(self, name: str, data: bytes, *, replaces: bool = False) -> None:
            super().put(name, data, replaces=True)

    class Cuts(FolderBlobs):
        def get(self, name: str) -> bytes:
            return super().get(name)[:-1]

    class Stays(FolderBlobs):
        def delete(self, name: str) -> None:
            pass

    for number, broken in enumerate((Replaces, Cuts, Stays)):
        place = tmp_path / str(number)
        with pytest.raises(AssertionError):
            check_blob_store(lambda: broken(place))  # noqa: B023 - called within the round


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        FolderBlobs(tmp_path / "archive").put("2026/05/a.json", b"x")
    finally:
        os.umask(before)
    path = tmp_path / "archive" / "2026" / "05" / "a.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(each.stat().st_mode) for each in list(path.parents)[:3]} == {0o700}


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "", "a/../../b"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    blobs = FolderBlobs(tmp_path / "archive")
    for do in (blobs.get, blobs.delete, lambda at: blobs.put(at, b"x")):
        with pytest.raises(StoreFailed, match="no name"):
            do(name)


def test_what_cannot_be_read_or_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "archive").write_text("in the way")
    blobs = FolderBlobs(tmp_path / "archive")
    with pytest.raises(StoreFailed, match=r"cannot be made.*permissions"):
        blobs.put("a/b", b"x")
    with pytest.raises(StoreFailed, match="cannot be read"):
        blobs.get("a/b")
    with pytest.raises(StoreFailed, match="cannot be removed"):
        blobs.delete("a/b")


# --- S3 -------------------------------------------------------------------------------------------


def test_what_s3_refuses_is_told_with_what_helps(
    clients: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(StoreFailed, match=r"nowhere.*Make the bucket"):
        S3Blobs("nowhere").put("a", b"x")
    monkeypatch.setattr(s3_blobs, "ATTEMPTS", 1)
    gone = S3Blobs(BUCKET, "", endpoint_url="http://127.0.0.1:9")
    for do in (gone.get, gone.delete, lambda at: gone.put(at, b"x"), gone.names):
        with pytest.raises(StoreFailed, match=r"Check the network.*nothing was removed"):
            list(do("a") or ())
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setattr("boto3.DEFAULT_SESSION", None)  # which remembers what it found
    with pytest.raises(StoreFailed, match="Give boto3 credentials"):
        S3Blobs(BUCKET).get("a")


def test_an_address_names_a_bucket() -> None:
    assert bucket_of("s3://beams/a/b/") == ("beams", "a/b")
    assert bucket_of("s3://beams") == ("beams", "")
    with pytest.raises(InvalidArgument, match="names no bucket"):
        bucket_of("s3:///a")


def test_boto3_is_asked_for_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = S3Blobs(BUCKET, "a")
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    monkeypatch.setitem(__import__("sys").modules, "boto3.exceptions", None)
    assert blobs.address("b") == "s3://beams/a/b"
    with pytest.raises(StoreFailed, match="pip install boto3"):
        blobs.get("b")


# --- sealed ---------------------------------------------------------------------------------------


def sealed(folder: Path, secret: str | None = SECRET) -> BlobStore:
    return ArchivePlaces(folder, None if secret is None else Passphrase(secret)).at("archive")


def test_what_is_sealed_is_read_by_its_key_alone_and_stays(tmp_path: Path) -> None:
    sealed(tmp_path).put("a", b"the gable is rotten")
    path = tmp_path / "archive" / "a"
    data = path.read_bytes()
    assert data.startswith(sealing.MAGIC)
    assert b"gable" not in data
    assert sealed(tmp_path).get("a") == b"the gable is rotten"
    with pytest.raises(StoreFailed, match=r"encrypted.*COMPACT_ENCRYPTION_KEY") as without:
        sealed(tmp_path, None).get("a")
    with pytest.raises(StoreFailed, match="another key") as wrong:
        sealed(tmp_path, "twelve heavy oak planks").get("a")
    assert not any(isinstance(each.value, StoreDamaged) for each in (without, wrong))
    assert path.read_bytes() == data


def test_what_was_sealed_twice_differs(tmp_path: Path) -> None:
    blobs, path = sealed(tmp_path), tmp_path / "archive" / "a"
    blobs.put("a", b"one")
    first = path.read_bytes()
    blobs.put("a", b"one", replaces=True)
    assert path.read_bytes() != first


def test_a_sealed_file_in_another_ones_place_is_refused(tmp_path: Path) -> None:
    blobs, folder = sealed(tmp_path), tmp_path / "archive"
    blobs.put("a", b"one")
    (folder / "a").rename(folder / "b")
    with pytest.raises(StoreFailed):
        blobs.get("b")


def test_every_altered_byte_is_noticed(tmp_path: Path) -> None:
    blobs, path = sealed(tmp_path), tmp_path / "archive" / "a"
    blobs.put("a", b"one beam")
    good = path.read_bytes()
    for at in range(len(sealing.MAGIC), len(good)):
        data = bytearray(good)
        data[at] ^= 1
        path.write_bytes(bytes(data))
        with pytest.raises(StoreFailed):
            blobs.get("a")
    for length in range(len(sealing.MAGIC), len(good)):
        path.write_bytes(good[:length])
        with pytest.raises(StoreFailed):
            blobs.get("a")


def test_a_passphrase_shows_itself_nowhere() -> None:
    assert SECRET not in repr(Passphrase(SECRET))
    with pytest.raises(InvalidArgument, match="12 characters") as short:
        Passphrase("oak beams")
    assert "oak" not in str(short.value)


def test_sealing_costs_whoever_guesses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The numbers that are shipped: 128 MiB for each guess."""
    monkeypatch.undo()
    assert 128 * sealing.SCRYPT["n"] * sealing.SCRYPT["r"] == 128 << 20
    blobs = sealed(tmp_path)
    blobs.put("a", b"one")
    assert sealed(tmp_path).get("a") == b"one"


def test_without_cryptography_nothing_is_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "cryptography.hazmat.primitives.ciphers.aead",
        "cryptography.hazmat.primitives.kdf.scrypt",
    ):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(StoreFailed, match="pip install cryptography"):
        sealed(tmp_path).put("a", b"one")
    assert not (tmp_path / "archive").exists()
    SealedBlobs(FolderBlobs(tmp_path), None).put("a", b"one")

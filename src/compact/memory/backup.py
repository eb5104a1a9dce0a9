"""Backs up a whole store into a folder while the store is in use. Restores a store from such a
folder.

`sessions.db` is the database, `archive/` has the archives of its sessions, `settings.json` the
settings, and `manifest.json` the list of files. Backups and restored stores are written under
temporary names. They are renamed when they are complete and on the disk.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, cast

from compact import wiring
from compact.config import CompactConfig
from compact.errors import InvalidArgument, NotFound, StoreDamaged, StoreFailed, unreadable
from compact.files import (
    is_folder,
    made_beside,
    make_folders,
    named_path,
    put_in_place,
    write_whole,
)
from compact.messages import clock_and_ids
from compact.messages.protocols import SessionStore
from compact.secrets.redaction import without_credentials
from compact.text.archived import BackupCounts, BackupReport

SCHEMA = "compact/backup"
VERSION = 1
"""The version of the manifest's format."""
MANIFEST, DATABASE, ARCHIVE, SETTINGS = "manifest.json", "sessions.db", "archive", "settings.json"
"""Names of the files in a backup."""
Progress = Callable[[int, int], None]
"""Called with the number of bytes done and their total."""


def make_backup(
    store: SessionStore, path: str | Path, settings: CompactConfig, progress: Progress | None = None
) -> BackupReport:
    """Write a backup into a new folder, completely or not at all. The store stays in use.

    Raises:
        InvalidArgument: the store cannot be copied.
        StoreFailed: the path exists already, or the backup cannot be written.
        StoreDamaged: an archive of the store is missing or was changed.
    """
    if not hasattr(store, "copy_into"):
        raise InvalidArgument("path", "a backup needs a store in a file, or ':memory:'")
    target = named_path(path).absolute()
    if os.path.lexists(target):
        raise StoreFailed(f"{target} is there already, and stays as it is: name a new folder")
    with made_beside(target) as beside:
        copy = cast("wiring.SQLiteManager", store)
        counts = copy.copy_into(str(beside / DATABASE), str(beside / ARCHIVE), progress=progress)
        write_whole(beside / SETTINGS, _json(_without_secrets(settings.model_dump(mode="json"))))
        manifest = _manifest(beside, counts)
        write_whole(beside / MANIFEST, _json(manifest))
        put_in_place(beside, target)
    return _report(target, manifest)


def restore_backup(
    backup: str | Path, path: str | Path, *, progress: Progress | None = None
) -> BackupReport:
    """Restore a store from a backup into a new file. Its archives go into `NAME-archive` next to
    the file. All checksums are verified first. The new store is checked before it gets its name.

    Raises:
        NotFound: there is no such backup.
        StoreDamaged: the backup is not what compact wrote; nothing was restored.
        StoreFailed: the file exists already, or the store cannot be written.
    """
    folder, target = (named_path(each).absolute() for each in (backup, path))
    manifest = _read(folder)
    archives = target.with_name(f"{target.stem}-archive")
    for taken in (target, *(Path(f"{target}{x}") for x in ("-wal", "-shm")), archives):
        if os.path.lexists(taken) and not (taken == archives and _is_ours(taken, manifest)):
            raise StoreFailed(f"{taken} is there already, and stays as it is: name a new file")
    with made_beside(target) as beside:
        made, kept = beside / target.name, beside / archives.name
        copies = beside / "copies"
        for name in _verified(folder, manifest, copies, progress):
            if name == DATABASE:
                (copies / name).rename(made)
        if is_folder(copies / ARCHIVE):
            (copies / ARCHIVE).rename(kept)
        counts = wiring.put_to_work(made, archives.name)
        if counts != BackupCounts(*(manifest[name] for name in BackupCounts._fields)):
            raise StoreDamaged(f"{folder} does not hold what its manifest says: {counts}")
        if is_folder(kept) and not is_folder(archives):
            put_in_place(kept, archives)
        put_in_place(made, target)
    return _report(target, manifest)


def _report(path: Path, manifest: Mapping[str, Any]) -> BackupReport:
    return BackupReport(
        path=str(path),
        files=len(manifest["files"]),
        bytes=sum(each["bytes"] for each in manifest["files"].values()),
        **{name: manifest[name] for name in ("made_at", *BackupCounts._fields)},
    )


# --- what is in it --------------------------------------------------------------------------------


def _manifest(folder: Path, counts: BackupCounts) -> dict[str, Any]:
    from importlib.metadata import version  # imported only to make a backup

    files = {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": _sum(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    manifest = {
        "schema": SCHEMA,
        "version": VERSION,
        "compact": version("compactctl"),
        "made_at": clock_and_ids.now().isoformat(),
        **counts._asdict(),
        "files": files,
    }
    return {**manifest, "sha256": _sum_of(manifest)}


def _sum_of(manifest: Mapping[str, Any]) -> str:
    """Return the checksum of a manifest, without the checksum that it contains."""
    rest = {name: value for name, value in manifest.items() if name != "sha256"}
    return sha256(_json(rest)).hexdigest()


def _without_secrets(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Remove passwords from the addresses in settings, because a backup is not encrypted."""
    if isinstance(value, dict):
        return {name: _without_secrets(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(_without_secrets, value))
    return without_credentials(value) if isinstance(value, str) else value


def _read(folder: Path) -> dict[str, Any]:
    """Read the manifest of a backup.

    Raises:
        NotFound: there is no manifest.
        StoreDamaged: the manifest is not what compact wrote.
        StoreFailed: a newer compact wrote the manifest.
    """
    try:
        data = (folder / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"{folder} is no backup: there is no {MANIFEST} in it") from None
    except OSError as error:
        raise StoreFailed(f"{folder}: {unreadable(error)}") from None
    try:
        manifest: dict[str, Any] = json.loads(data)
        is_known, is_newer = manifest["schema"] == SCHEMA, manifest["version"] > VERSION
        is_whole = data == _json(manifest) and manifest["sha256"] == _sum_of(manifest)
    except (ValueError, LookupError, TypeError, AttributeError):
        is_known = is_newer = is_whole = False
    if is_known and is_newer:
        raise StoreFailed(f"{folder} was written by a newer version of compact. Update compact")
    if not (is_known and is_whole):
        raise StoreDamaged(
            f"{folder / MANIFEST} is not what compact wrote; nothing was restored. Take another "
            "backup"
        )
    return manifest


def _verified(
    folder: Path, manifest: Mapping[str, Any], into: Path, progress: Progress | None
) -> Iterator[str]:
    """Copy each file, compare the copy's checksum with the manifest, and yield the file's name."""
    total, done = sum(each["bytes"] for each in manifest["files"].values()), 0
    for name, each in manifest["files"].items():
        source, copied = folder / name, into / name
        if not copied.resolve().is_relative_to(into.resolve()):
            raise StoreDamaged(f"the manifest of {folder} names {name!r}, which is not in it")
        make_folders(copied.parent)
        try:
            shutil.copyfile(source, copied)
        except FileNotFoundError:
            raise StoreDamaged(f"{source} is missing; nothing was restored") from None
        if (copied.stat().st_size, _sum(copied)) != (each["bytes"], each["sha256"]):
            raise StoreDamaged(
                f"{source} is not the file that was written: its checksum differs; nothing was "
                "restored. Take another backup"
            )
        copied.chmod(0o600)
        done += each["bytes"]
        if progress is not None:
            progress(done, total)
        yield name


def _is_ours(archives: Path, manifest: Mapping[str, Any]) -> bool:
    """Return whether a folder has just the backup's archives, as a killed restore leaves it."""
    sums = {
        f"{ARCHIVE}/{path.relative_to(archives).as_posix()}": _sum(path)
        for path in archives.rglob("*")
        if path.is_file()
    }
    files = manifest["files"].items()
    return sums == {name: x["sha256"] for name, x in files if name.startswith(f"{ARCHIVE}/")}


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode(
        "utf-8", "backslashreplace"
    )

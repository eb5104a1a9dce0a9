"""Manifests of migrations: what each did, in a folder beside the store, so that it can be read and
taken back.

`migrations/TIME/manifest.json` is written before anything is changed and again at the end;
`migrations/TIME/backup/` is the store as it was, `replaced/` what a forced rollback took away.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from compact.errors import NotFound, StoreDamaged, StoreFailed
from compact.exchange.migrated import MigrationReport
from compact.exchange.stored_sources import StoredState
from compact.files import make_folders, named_path, write_whole

SCHEMA = "compact/migration"
VERSION = 1
"""Of the schema of manifests."""
FOLDER, MANIFEST, BACKUP = "migrations", "manifest.json", "backup"
State = Literal["running", "stopped", "done", "rolled back"]


@dataclass(frozen=True, slots=True)
class Manifest:
    """A migration, and how far it came."""

    state: State
    report: MigrationReport
    states: Mapping[str, StoredState] | None = None
    """Session → how the migration left it; None where it did not end."""


def folder_of(store: str) -> Path:
    """Where the migrations of a store's file are told of."""
    return named_path(store).absolute().parent / FOLDER


def begun(store: str, wanted: str) -> Path:
    """A new folder for a migration of that name; another one where there is such a folder.

    Raises:
        StoreFailed: it cannot be made.
    """
    place = folder_of(store)
    try:
        make_folders(place)
        name, number = wanted, 1
        while True:
            try:
                (place / name).mkdir(mode=0o700)
            except FileExistsError:
                number += 1
                name = f"{wanted}-{number}"
            else:
                return place / name
    except OSError as error:
        raise StoreFailed(f"{place} cannot be written: {error.strerror or error}") from None


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a migration, whole or not at all.

    Raises:
        StoreFailed: it cannot be written.
    """
    told = {
        "schema": SCHEMA,
        "version": VERSION,
        "compact": version("compactctl"),
        "state": manifest.state,
        "sessions": manifest.states,
        **manifest.report.model_dump(mode="json"),
    }
    text = json.dumps(told, ensure_ascii=False, indent=2)
    try:
        write_whole(folder / MANIFEST, (text + "\n").encode("utf-8", "surrogatepass"))
    except OSError as error:
        where = folder / MANIFEST
        raise StoreFailed(f"{where} cannot be written: {error.strerror or error}") from None


def read(folder: Path) -> Manifest:
    """The manifest of a migration.

    Raises:
        NotFound: there is none.
        StoreDamaged: it is none that was written.
        StoreFailed: a newer compact wrote it.
    """
    path = folder / MANIFEST
    try:
        told: dict[str, Any] = json.loads(path.read_bytes().decode("utf-8", "surrogatepass"))
        known = told.pop("schema") == SCHEMA, told.pop("version"), told.pop("state")
        told.pop("compact")
        states = told.pop("sessions", None)
        is_ours, number, state = known
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"{folder} is no migration: there is no {MANIFEST} in it") from None
    except (ValueError, LookupError, TypeError, AttributeError):
        is_ours, number, state, states = False, 0, "done", None
    if is_ours and isinstance(number, int) and number > VERSION:
        raise StoreFailed(f"{path} was written by a newer version of compact. Update compact")
    try:
        if is_ours:
            states = states and {name: StoredState(*each) for name, each in states.items()}
            return Manifest(state, MigrationReport.model_validate(told), states)
    except (ValidationError, TypeError, AttributeError):
        pass
    raise StoreDamaged(f"{path} is not what was written; nothing was changed")


def all_of(store: str) -> list[Path]:
    """The folders of a store's migrations, the oldest first."""
    place = folder_of(store)
    return sorted(each.parent for each in place.glob(f"*/{MANIFEST}"))

"""The manifest of a migration: a file that tells what the migration did. A rollback reads it.

`migrations/TIME/manifest.json` next to the store is written before the first change and again at
the end. `migrations/TIME/backup/` is the store before the migration. `replaced/` is the store
before a forced rollback.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from compact.errors import NotFound, StoreDamaged, StoreFailed
from compact.exchange.stored_sources import StoredState
from compact.files import make_folders, named_path, write_whole

Outcome = Literal["new", "grown", "snapshot", "there", "differs", "broken", "unknown"]
"""What a migration did with a conversation. `new`: it became a new session. `grown`: new messages
of the file were added. `snapshot`: it became a recovery point of a session. The others change
nothing. `there`: it is stored already. `differs`: the session made from the file has other
messages. `broken`: it is unreadable. `unknown`: the file holds no conversation."""


class MigratedConversation(BaseModel, frozen=True, defer_build=True):
    """The outcome for one conversation in a file, or for a file without any."""

    path: str
    outcome: Outcome
    reason: str = ""
    """Why the conversation is not stored, or differs from the file. Otherwise empty."""
    format: str | None = None
    sha256: str = ""
    """The checksum of the file."""
    conversation: int = 1
    """The number of the conversation in the file."""
    session_id: str | None = None
    """The session that the conversation became, or that already contains it."""
    title: str | None = None
    messages: int = 0
    tokens: int = 0
    added: int = 0
    """How many messages the migration stored."""
    branch_id: str | None = None
    """The branch to which new messages were added, if the outcome is `grown`."""
    snapshot_id: str | None = None
    notes: tuple[str, ...] = ()
    """What the file contains and no message field can hold, as sentences."""


class MigrationReport(BaseModel, frozen=True, defer_build=True):
    """What a migration did, or with `dry_run` would do."""

    id: str
    """The time when the migration began. It is also the migration's name for a rollback."""
    made_at: datetime
    store: str | None
    """The store's file. None for a store in memory."""
    scope: str
    dry_run: bool
    folder: str | None = None
    """The folder of the manifest. It is None if nothing was changed."""
    backup: str | None = None
    """The folder with the store before the migration. It is None if the store was new."""
    conversations: tuple[MigratedConversation, ...] = ()

    @property
    def outcomes(self) -> Mapping[Outcome, int]:
        """How many conversations had each outcome."""
        return Counter(each.outcome for each in self.conversations)


class RollbackReport(BaseModel, frozen=True, defer_build=True):
    """What a rollback did, or with `dry_run` would do."""

    id: str
    store: str
    folder: str
    dry_run: bool = False
    deleted: tuple[str, ...] = ()
    """Sessions that the store did not have before the migration. They are deleted."""
    put_back: tuple[str, ...] = ()
    """Sessions that get back their state before the migration."""
    changed: tuple[str, ...] = ()
    """Sessions that changed after the migration. Without `force` they stop a rollback."""
    others: tuple[str, ...] = ()
    """Changed sessions of other scopes. Every rollback refuses because of them."""
    replaced: str | None = None
    """The folder with the store before the rollback. Only a forced rollback makes it."""


SCHEMA = "compact/migration"
VERSION = 1
"""The version of the manifest's format."""
FOLDER, MANIFEST, BACKUP = "migrations", "manifest.json", "backup"
State = Literal["running", "stopped", "done", "rolled back"]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state of a migration, and its report."""

    state: State
    report: MigrationReport
    states: Mapping[str, StoredState] | None = None
    """Session id → the session's state after the migration. None if the migration did not end."""


def folder_of(store: str) -> Path:
    """Return the folder of a store's migrations."""
    return named_path(store).absolute().parent / FOLDER


def new_folder(store: str, wanted: str) -> Path:
    """Create a folder for a migration. If the name is taken, append a number."""
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
    """Write a manifest, completely or not at all."""
    value = {
        "schema": SCHEMA,
        "version": VERSION,
        "compact": version("compactctl"),
        "state": manifest.state,
        "sessions": manifest.states,
        **manifest.report.model_dump(mode="json"),
    }
    text = json.dumps(value, ensure_ascii=False, indent=2)
    try:
        write_whole(folder / MANIFEST, (text + "\n").encode("utf-8", "surrogatepass"))
    except OSError as error:
        where = folder / MANIFEST
        raise StoreFailed(f"{where} cannot be written: {error.strerror or error}") from None


def read(folder: Path) -> Manifest:
    """Read the manifest of a migration."""
    path = folder / MANIFEST
    try:
        value: dict[str, Any] = json.loads(path.read_bytes().decode("utf-8", "surrogatepass"))
        is_ours, number = value.pop("schema") == SCHEMA, value.pop("version")
        state, _ = value.pop("state"), value.pop("compact")
        states = value.pop("sessions", None)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"{folder} is no migration: there is no {MANIFEST} in it") from None
    except (ValueError, LookupError, TypeError, AttributeError):
        is_ours, number, state, states = False, 0, "done", None
    if is_ours and isinstance(number, int) and number > VERSION:
        raise StoreFailed(f"{path} was written by a newer version of compact. Update compact")
    try:
        if is_ours:
            states = states and {name: StoredState(*each) for name, each in states.items()}
            return Manifest(state, MigrationReport.model_validate(value), states)
    except (ValidationError, TypeError, AttributeError):
        pass
    raise StoreDamaged(f"{path} is not what compact wrote; nothing was changed")


def all_of(store: str) -> list[Path]:
    """Return the folders of a store's migrations, the oldest first."""
    return sorted(each.parent for each in folder_of(store).glob(f"*/{MANIFEST}"))

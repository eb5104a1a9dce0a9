"""A disk that loses power: what was written but not synced is not sure to be there afterwards.

`recording()` puts a VFS between SQLite and the disk that writes down every write, truncation, sync,
creation and deletion in a folder. From that record a `Disk` makes, for any instant, what a machine
may find when its power is back: of each sector written since the last sync of its file, what was
written, or what was there before; of each truncation and each name likewise. Since every sector is
drawn by itself, later writes may have arrived and earlier ones not.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import apsw

SECTOR = 512


class Write(NamedTuple):
    file: int
    at: int
    data: bytes


class Cut(NamedTuple):
    """A file gets another length."""

    file: int
    size: int


class Sync(NamedTuple):
    file: int


class Name(NamedTuple):
    """A name is another file's, or nobody's, from now on."""

    name: str
    file: int | None


class SyncNames(NamedTuple):
    """The folder is synced."""


Event = Write | Cut | Sync | Name | SyncNames


class Record(apsw.VFS):
    """Everything that SQLite does to the files of a folder, in order."""

    def __init__(self, folder: Path) -> None:
        self.events: list[Event] = []
        self.folder = folder
        self.named: dict[str, int] = {}
        self._files = 0
        super().__init__("recording", "unix", makedefault=True)

    def new_file(self, name: str) -> int:
        """A file takes the name; its number."""
        self._files += 1
        self.named[name] = self._files
        self.events.append(Name(name, self._files))
        return self._files

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "")
        if path.parent != self.folder:
            return super().xOpen(name, flags)
        return _File(self, path, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        if Path(filename).parent == self.folder:
            self.named.pop(Path(filename).name, None)
            self.events.append(Name(Path(filename).name, None))
            if syncdir:
                self.events.append(SyncNames())


class _File(apsw.VFSFile):
    def __init__(self, record: Record, path: Path, flags: list[int]) -> None:
        is_new = not path.exists()
        super().__init__("unix", str(path), flags)
        self._events = record.events
        if is_new or path.name not in record.named:
            self._number = record.new_file(path.name)
        else:
            self._number = record.named[path.name]
        # SQLite syncs the folder with the first sync of a journal or log that it has made.
        of_journal = flags[0] & (apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL)
        self._syncs_names = is_new and bool(of_journal)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._events.append(Write(self._number, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._events.append(Cut(self._number, newsize))

    def xSync(self, flags: int) -> None:
        self._events.append(Sync(self._number))  # the record is enough: nobody pulls the real plug
        if self._syncs_names:
            self._events.append(SyncNames())
            self._syncs_names = False


@contextmanager
def recording(folder: Path) -> Iterator[Record]:
    """Have everything written down that SQLite does in the folder, which is empty yet."""
    record = Record(folder)
    try:
        yield record
    finally:
        record.unregister()


@dataclass
class _Content:
    """A file: the bytes that are surely there, and what was done to it since."""

    synced: bytearray = field(default_factory=bytearray)
    since: list[Write | Cut] = field(default_factory=list)

    def sync(self) -> None:
        for event in self.since:
            _do(self.synced, event)
        self.since.clear()

    def after_power_loss(self, rng: random.Random, kept: float) -> bytearray:
        found = bytearray(self.synced)
        for event in self.since:
            for part in _sectors(event):
                if rng.random() < kept:
                    _do(found, part)
        return found


@dataclass
class Disk:
    """A folder as its power may leave it."""

    files: dict[int, _Content] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    """Those that are surely there."""
    renamed: list[Name] = field(default_factory=list)

    def do(self, event: Event) -> None:
        match event:
            case Write() | Cut():
                self.files[event.file].since.append(event)
            case Sync():
                self.files[event.file].sync()
            case Name():
                if event.file is not None:
                    self.files.setdefault(event.file, _Content())
                self.renamed.append(event)
            case SyncNames():
                self.names = self._named(self.renamed)
                self.renamed.clear()

    def lose_power(self, folder: Path, rng: random.Random, kept: float) -> None:
        """Put what is found afterwards into a new folder: of what was not synced, each part with
        the probability `kept`.
        """
        folder.mkdir()
        names = self._named([event for event in self.renamed if rng.random() < kept])
        for name, file in names.items():
            (folder / name).write_bytes(self.files[file].after_power_loss(rng, kept))

    def _named(self, events: list[Name]) -> dict[str, int]:
        names = dict(self.names)
        for event in events:
            if event.file is None:
                names.pop(event.name, None)
            else:
                names[event.name] = event.file
        return names


def _sectors(event: Write | Cut) -> Iterator[Write | Cut]:
    if isinstance(event, Cut):
        yield event
        return
    start, stop = event.at, event.at + len(event.data)
    while start < stop:
        end = min(stop, (start // SECTOR + 1) * SECTOR)
        yield Write(event.file, start, event.data[start - event.at : end - event.at])
        start = end


def _do(content: bytearray, event: Write | Cut) -> None:
    if isinstance(event, Cut):
        del content[event.size :]
        content.extend(bytes(event.size - len(content)))
        return
    content.extend(bytes(max(0, event.at - len(content))))
    content[event.at : event.at + len(event.data)] = event.data

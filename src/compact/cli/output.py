"""Writes output: data to stdout, and files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from compact.cli.errors import Stop
from compact.files import write_whole

DATABASE = b"SQLite format 3\0"
"""The first bytes of every store. SQLite defines them."""
SIDE_FILES = ("-wal", "-shm", "-journal")
"""Endings of the files that SQLite keeps next to a store."""


def print_data(text: str) -> None:
    """Write text to stdout as UTF-8, whatever the terminal's encoding: stdout may be a file."""
    data = text.encode("utf-8", "replace")
    with _explained("standard output"):
        if sys.stdout is None:
            raise Stop("standard output is closed; give -o OUT")
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def print_json(value: object) -> None:
    """Write a value to stdout as indented JSON."""
    print_data(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def check_name(option: str, name: str | None) -> None:
    """Refuse an empty file name."""
    if name == "":
        raise Stop(f"{option}: an empty name")


def write(name: str | None, text: str) -> int | None:
    """Write text to a file, completely or not at all. Return the file's size in bytes.

    Without a name, write to stdout and return None.

    A device or a pipe is written directly. A link stays a link.
    """
    if name is None:
        print_data(text)
        return None
    refuse_store(name)
    data = text.encode("utf-8", "replace")
    with _explained(name):
        path = Path(os.path.realpath(name))
        mode = path.stat().st_mode if path.exists() else None
        if mode is None or stat.S_ISREG(mode):
            write_whole(path, data, mode=0o666)
        elif stat.S_ISDIR(mode):
            raise Stop(f"{name}: a directory; give the name of a file")
        else:
            with path.open("wb") as stream:
                stream.write(data)
    return len(data)


def refuse_store(name: str) -> None:
    """Refuse to write to a store, or to a file that belongs to one."""
    try:
        path = os.path.realpath(name)
    except (OSError, ValueError):  # the write itself reports a wrong name
        return
    for ending in ("", *SIDE_FILES):
        store = path.removesuffix(ending)
        if path.endswith(ending) and beginning_of(store, len(DATABASE)) == DATABASE:
            what = "belongs to a store" if ending else "is a store"
            raise Stop(f"{name} {what} (an SQLite database), which is never replaced: name another")


def beginning_of(name: str, size: int) -> bytes:
    """Return the first bytes of a regular file. Return no bytes if there is no such file."""
    with contextlib.suppress(OSError, ValueError):
        if os.path.isfile(name):
            with open(name, "rb") as stream:
                return stream.read(size)
    return b""


@contextlib.contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Stop(f"{name}: cannot be written: {error.strerror or error}") from None
    except ValueError as error:
        raise Stop(f"{name!r}: cannot be written: {error}") from None


def is_same_file(one: str, other: str) -> bool:
    """Return whether two names are names of the same file."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False

"""One store, one run: what it is asked to do, timed. Executed by the Python of the store that is
measured, ours or the peers'; imports nothing but the standard library.

A run appends one message at a time, durably, until all are in or the time is up; opens the file
anew; loads the last 50 messages and all of them; and compares what comes back with what was given.
Messages are converted to the store's own kind beforehand. Times are wall times, as durable writes
wait for the disk.
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

LAST = 50
LAST_RUNS, ALL_RUNS = 11, 3
Timed = tuple[float, list[Any]]


class Store:
    """A store in a folder of its own, opened.

    A store that is awaited measures itself, in `appended` and `timed`, and needs none of the four
    calls that these two make of others: so they are not abstract, and fail where one is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepared(self, messages: list[dict[str, Any]]) -> list[Any]:
        """The messages in the store's own kind, one for each append."""
        return messages

    def given(self, prepared: Sequence[Any]) -> list[Any]:
        """What `last` and `all` give back of these, in order."""
        return list(prepared)

    def append(self, one: Any) -> None:  # noqa: ANN401 - whatever `prepared` made
        """One message, durable when this returns."""
        raise NotImplementedError

    def append_all(self, prepared: Sequence[Any]) -> None:
        """All messages in one call."""
        raise NotImplementedError

    def last(self, count: int) -> list[Any]:
        """The newest messages, in order."""
        raise NotImplementedError

    def all(self) -> list[Any]:
        """All messages, in order."""
        raise NotImplementedError

    def settings(self) -> str:
        """Journal and durability, read back from the connection."""
        raise NotImplementedError

    def index(self) -> bool:
        """Build the search index, where there is one."""
        return False

    def close(self) -> None:
        """Close it: the log is worked off."""

    def appended(self, prepared: Sequence[Any], seconds: float) -> list[float]:
        """Milliseconds of each append; stops when the time is up."""
        append, clock = self.append, time.perf_counter
        taken: list[float] = []
        until = clock() + seconds
        for one in prepared:
            started = clock()
            append(one)
            ended = clock()
            taken.append((ended - started) * 1e3)
            if ended > until:
                break
        return taken

    def timed(self, what: str, *arguments: Any) -> Timed:  # noqa: ANN401 - of any call
        """Milliseconds of one of the store's methods, and what it gave."""
        method: Callable[..., Any] = getattr(self, what)
        started = time.perf_counter()
        found = method(*arguments)
        return (time.perf_counter() - started) * 1e3, found


def pragmas(ask: Callable[[str], Any]) -> str:
    """The settings that decide what a commit costs, as a connection tells them."""
    levels = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
    journal, level = ask("PRAGMA journal_mode"), ask("PRAGMA synchronous")
    return f"{journal}, {levels[int(level)]}"


def run(
    make: Callable[[Path], Store], messages: list[dict[str, Any]], cap: float
) -> dict[str, Any]:
    """Everything that is measured of one store, in one go."""
    with tempfile.TemporaryDirectory(prefix="store") as named:
        folder = Path(named)
        store = make(folder)
        prepared = store.prepared(messages)
        given = store.given
        taken = store.appended(prepared, cap)
        record: dict[str, Any] = {"settings": store.settings(), "taken": taken}
        store.close()
        record["bytes"] = _size(folder)
        done = prepared[: len(taken)]
        tail = given(done[-LAST:])
        store = make(folder)
        record["first_last"], newest = store.timed("last", len(tail))
        lasts = [store.timed("last", len(tail))[0] for _ in range(LAST_RUNS)]
        alls = [store.timed("all") for _ in range(ALL_RUNS)]
        record["last"] = sorted(lasts)[LAST_RUNS // 2]
        record["all"] = sorted(ms for ms, _ in alls)[ALL_RUNS // 2]
        record["same"] = alls[-1][1] == given(done)
        record["same_last"] = newest == tail
        record["count"] = len(alls[-1][1])
        if store.index():
            store.close()
            record["indexed_bytes"] = _size(folder)
        store.close()
        shutil.rmtree(folder)
        folder.mkdir()
        store = make(folder)
        record["batch"] = store.timed("append_all", prepared)[0]
        store.close()
    return record


def only_append(make: Callable[[Path], Store], messages: list[dict[str, Any]], count: int) -> None:
    """Some appends and nothing else, for whoever counts system calls from outside."""
    with tempfile.TemporaryDirectory(prefix="store") as named:
        store = make(Path(named))
        store.appended(store.prepared(messages)[:count], 600)
        store.close()


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main(module: str, kind: str, history: str, mode: str, value: str) -> None:
    messages = json.loads(Path(history).read_text(encoding="utf-8"))
    make = importlib.import_module(module).STORES[kind]
    if mode == "syncs":
        only_append(make, messages, int(value))
    else:
        print(json.dumps(run(make, messages, float(value))))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A program that ages memory until it is killed, and says what it has stored.

`python -m tests.session.ageing_writer DATABASE LEDGER` imports everything once, then forks a
worker for each line on its standard input (`NUMBER DAYS`) and prints the worker's process id. A
worker ages all sessions as if it were so many days after `DAY`, on its own or in turn with others,
and writes a JSON line to the ledger after each session. What stands there was promised.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from compact import CompactConfig, SQLiteManager
from compact.memory.ageing import ageing_of
from compact.messages.messages import Message
from compact.messages.sessions import Branch, Entry, Session
from compact.text.digests import CompressedConversation
from evals import data, formats

DAY = datetime(2026, 3, 1, 9, tzinfo=UTC)
SETTINGS = CompactConfig(retain_score=1.0)
SESSIONS, MESSAGES = 5, 60
LONGEST_LIFE = 120
"""Seconds after which a writer ends that nobody has killed: whoever began it is gone."""


def messages_of(number: int) -> list[Message]:
    """The messages of one session: another part of the sample for each."""
    first = number * 3
    messages = list(formats.read(data.SAMPLE).messages)[first : first + MESSAGES]
    shift = DAY - max(m.timestamp for m in messages)
    return [m.model_copy(update={"timestamp": m.timestamp + shift}) for m in messages]


def fill(database: Path) -> None:
    """Store the sessions."""
    with SQLiteManager(database) as store:
        for number in range(SESSIONS):
            name = f"s{number}"
            branch = Branch(id=f"{name}.b", session_id=name)
            store.session(name, create=Session(id=name, branch=branch))
            store.append(branch.id, [Entry(m) for m in messages_of(number)])


class Promising(SQLiteManager):
    """A store that says what was stored, once it is."""

    promise: Callable[[str], int]

    def keep_digest(
        self, session_id: str, digest: CompressedConversation | None, **given: Any
    ) -> None:
        super().keep_digest(session_id, digest, **given)
        level = digest.level if digest else None
        self.promise(json.dumps({"session": session_id, "level": level}) + "\n")


def work(database: str, ledger: str, number: int, days: int) -> None:
    """Age until killed; every second worker in turn with others."""
    signal.alarm(LONGEST_LIFE)
    file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    store = Promising(database)
    store.promise = lambda line: os.write(file, line.encode())
    now = DAY + timedelta(days=days, minutes=11 * number)
    ageing = ageing_of(store, "default", SETTINGS, lambda: now)
    report = ageing.age_in_turn() if number % 2 else ageing.age()
    os.write(file, (json.dumps({"complete": report.complete}) + "\n").encode())


def main() -> None:
    database, ledger = sys.argv[1:]
    for line in sys.stdin:
        number, days = map(int, line.split())
        child = os.fork()
        if child == 0:
            work(database, ledger, number, days)
            os._exit(0)
        print(child, flush=True)
        os.waitpid(child, 0)
        print("gone", flush=True)


if __name__ == "__main__":
    main()

"""A nursery (`tests.killing`) whose workers do to memory whatever can be done to it (a line is a
seed). A worker writes a line before each operation and after each: what is said to be done was
promised, and what was begun has happened wholly or not at all.
"""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from compact import CompactConfig, MemoryManager
from compact.messages.messages import Message
from compact.messages.sessions import Branch, Entry, Session
from compact.store.archives.files import FileStorage
from compact.store.whole_session import OwnPart, WholeSession
from tests.killing import Ledger, serve

DAY = datetime(2026, 3, 1, 9, tzinfo=UTC)
MOST = 8
"""Sessions that there are at once."""
KINDS = ("new", "append", "append", "archive", "archive", "restore", "forget", "age")


def settings_at(database: str | Path) -> CompactConfig:
    """With copies beside the database."""
    return CompactConfig(retain_score=1.0, archive=str(Path(database).with_name("copies")))


def word_of(name: str) -> str:
    """What stands in every message of a session."""
    return f"zq{name}zq"


class Worker:
    """Plays, and keeps the ledger."""

    def __init__(self, database: str, ledger: Ledger, seed: int) -> None:
        self.say = ledger.note
        self.rng, self.seed = random.Random(seed), seed
        self.memory = MemoryManager(database, settings=settings_at(database))
        self.copies = FileStorage(Path(database).with_name("copies"))
        self.made = 0

    def play(self) -> None:
        """Do one thing."""
        names = [each.id for each in self.memory.sessions()]
        kind = self.rng.choice(KINDS)
        if len(names) < 3:
            kind = "new"
        elif kind == "new" and len(names) >= MOST:
            kind = "forget"
        name = self.rng.choice(names) if len(names) > 1 else ""
        told: dict[str, Any] = {"kind": kind, "session": name}
        if kind == "new":
            told["session"] = f"s{self.seed}x{self.made}"
            self.made += 1
        if kind in ("new", "append"):
            word = word_of(told["session"])
            count = self.rng.randrange(1, 40)
            told["texts"] = [f"{word} said {self.rng.getrandbits(40)}" for _ in range(count)]
        self.say(begin=told)
        getattr(self, kind)(told)
        self.say(done=told)

    def new(self, told: dict[str, Any]) -> None:
        name = told["session"]
        branch = Branch(id=name, session_id=name)
        session = Session(id=name, branch=branch, title=f"{word_of(name)} title")
        entries = [Entry(self.message(text), 5) for text in told["texts"]]
        whole = WholeSession(session, [OwnPart(branch, entries)])
        self.memory.store.put_session(whole)  # type: ignore[attr-defined]

    def append(self, told: dict[str, Any]) -> None:
        name = told["session"]
        if self.rng.random() < 0.3:  # what a compression leaves behind, of those that are there
            self.copies.save_summary(name, 1, told["texts"][0])
        self.memory.store.append(name, [Entry(self.message(text), 5) for text in told["texts"]])

    def message(self, text: str) -> Message:
        return Message(role="user", content=text, timestamp=DAY)

    def archive(self, told: dict[str, Any]) -> None:
        failed = self.memory.archive([told["session"]]).failed
        assert not failed, failed

    def restore(self, told: dict[str, Any]) -> None:
        self.memory.restore(told["session"])

    def forget(self, told: dict[str, Any]) -> None:
        remains = self.memory.forget(told["session"]).remains
        assert not remains, remains

    def age(self, told: dict[str, Any]) -> None:
        self.memory.age(DAY + timedelta(days=self.rng.choice((3, 10, 40, 100))))


def work(database: str, ledger: Ledger, seed: str) -> None:
    """Play until killed."""
    worker = Worker(database, ledger, int(seed))
    try:
        while True:
            worker.play()
    except BaseException as error:  # noqa: BLE001 - the parent is told
        worker.say(error=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    serve(work)

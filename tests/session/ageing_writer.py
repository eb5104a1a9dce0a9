"""A nursery (`tests.killing`) whose workers age memory (`NUMBER DAYS`): all sessions, as if it were
so many days after `DAY`, on their own or in turn with others. A line stands for a session's digest.
"""

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
from tests.killing import Ledger, serve

DAY = datetime(2026, 3, 1, 9, tzinfo=UTC)
SETTINGS = CompactConfig(retain_score=1.0)
SESSIONS, MESSAGES = 5, 60


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

    promise: Callable[..., None]

    def keep_digest(
        self, session_id: str, digest: CompressedConversation | None, **given: Any
    ) -> None:
        super().keep_digest(session_id, digest, **given)
        level = digest.level if digest else None
        self.promise(session=session_id, level=level)


def work(database: str, ledger: Ledger, number: str, days: str) -> None:
    """Age until killed; every second worker in turn with others."""
    store = Promising(database)
    store.promise = ledger.note
    now = DAY + timedelta(days=int(days), minutes=11 * int(number))
    ageing = ageing_of(store, "default", SETTINGS, lambda: now)
    report = ageing.age_in_turn() if int(number) % 2 else ageing.age()
    ledger.note(complete=report.complete)


if __name__ == "__main__":
    serve(work)

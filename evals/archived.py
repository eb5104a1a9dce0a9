"""What archiving saves and costs: each real conversation goes into the archive and comes back, byte
for byte or not, and the bytes of the database are taken before and after (A-5). And which levels
sessions have at each age, by default and with nothing kept, and what they take on the disk then.

And what search still finds: LoCoMo's questions, with every session beside its messages, then in the
archive with a summary, then with what is known about it alone, then restored. A session counts as
found among the first five of both lists together, those of messages first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import apsw

from compact import CompactConfig, MemoryManager, SQLiteManager
from compact.messages.messages import Message
from compact.messages.sessions import Branch, Entry, Session
from compact.text.digests import CompressionLevel
from evals import memory_data
from evals.ageing import SESSIONS as SESSIONS_OF_CODE
from evals.ageing import conversations
from evals.memory_data import Talk

SESSIONS = 5
MOST_CODING, DAYS = 60, (15, 60, 120, 400)
NOTHING_KEPT = CompactConfig(retain_score=1.0)
"""Settings by which no session is important."""
AGES = {"archived": 120, "metadata": 400}
"""Level → days after the last message at which sessions have it."""
_ROWS = """
    SELECT m.payload, m.content, m.role, m.timestamp, m.zone, m.token_count, m.chain_hash,
        m.total_tokens, m.importance_score
    FROM messages m JOIN branches b ON b.key = m.key >> 32 JOIN sessions s ON s.key = b.session
    WHERE s.id = ? ORDER BY m.key
"""


@dataclass(frozen=True)
class Moved:
    """What became of the real conversations."""

    sessions: int
    messages: int
    identical: int
    """Sessions whose rows came back byte for byte."""
    faults: int
    """What a check of the whole file, or of an archive, found wrong."""
    bytes_full: int
    """Of the database with every message and its index."""
    bytes_archived: int
    bytes_restored: int
    bytes_archive: int
    """Of the files."""


@dataclass(frozen=True)
class Aged:
    """What becomes of sessions so many days after the last message of each."""

    sessions: str
    settings: str
    days: int
    levels: dict[str, int]
    """Level → sessions."""
    disk: float
    """Bytes of the database with its index and of the archive ÷ those before."""


@dataclass(frozen=True)
class Finding:
    """What search finds of LoCoMo's sessions."""

    state: str
    questions: int
    all_at_5: float
    any_at_5: float
    bytes: int
    """Of the database, swept."""


def run(folder: Path, *, every: int = 1) -> tuple[Moved, list[Aged], list[Finding]]:
    """All of it; of the real conversations each n-th."""
    with TemporaryDirectory() as made:
        moved = _moved(folder, Path(made), every)
    aged = list(_aged_by_age(folder, every))
    with TemporaryDirectory() as made:
        return moved, aged, list(_findings(folder, Path(made)))


# --- there and back -------------------------------------------------------------------------------


def _moved(folder: Path, at: Path, every: int) -> Moved:
    with SQLiteManager(at / "chat.db", durability="normal") as store:
        names, messages = [], 0
        for place, (_, _, said) in enumerate(conversations(folder)):
            if place % every == 0:
                names.append(f"s{place}")
                messages += _put(store, names[-1], said)
        with MemoryManager(store, settings=CompactConfig()) as memory:
            memory.catch_up()
            before = {name: _digest(store, name) for name in names}
            full = swept(store)
            memory.archive(names)
            archived, kept = swept(store), sum(each.bytes for each in memory.archived())
            faults = len(memory.archives.verify()) + len(store.integrity_check())
            for name in names:
                memory.restore(name)
            memory.catch_up()
            same = sum(_digest(store, name) == before[name] for name in names)
            faults += len(store.integrity_check())
            return Moved(len(names), messages, same, faults, full, archived, swept(store), kept)


def _aged_by_age(folder: Path, every: int) -> Iterator[Aged]:
    names = {path.stem for pattern in SESSIONS_OF_CODE for path in folder.glob(pattern)}
    code = [said for name, _, said in conversations(folder) if name in names]
    sources = {"coding": code[:MOST_CODING]}
    for name, read in (("LoCoMo", memory_data.locomo), ("LongMemEval", memory_data.longmemeval)):
        sources[name] = [said for talk in read(folder) for said in talk.sessions.values() if said]
    for name, sessions in sources.items():
        for settings, kept in (("default", CompactConfig()), ("nothing kept", NOTHING_KEPT)):
            for days in DAYS:
                yield _aged(name, sessions[::every], settings, kept, days)


def _aged(
    name: str, sessions: Sequence[Sequence[Message]], settings: str, kept: CompactConfig, days: int
) -> Aged:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    with TemporaryDirectory() as made, SQLiteManager(Path(made) / "chat.db") as store:
        for number, said in enumerate(sessions):
            shift = now - max(message.timestamp for message in said)
            times = ({"timestamp": message.timestamp + shift} for message in said)
            moved = [m.model_copy(update=at) for m, at in zip(said, times, strict=True)]
            _put(store, f"s{number}", moved)
        memory = MemoryManager(store, settings=kept)
        memory.catch_up()
        before = swept(store)
        for at in (10, days - 1, days):  # as if it ran now and then
            rows = memory.age(now + timedelta(days=at)).rows
        archive = sum(each.bytes for each in memory.archived())
        store.pool.empty_log()
        disk = (Path(store.path).stat().st_size + archive) / before
        return Aged(name, settings, days, dict(Counter(row.due.value for row in rows)), disk)


def _put(store: SQLiteManager, name: str, said: Sequence[Message]) -> int:
    store.session(name, create=Session(id=name, branch=Branch(id=name, session_id=name)))
    store.append(name, [Entry(each, each.token_count) for each in said])
    return len(said)


def _digest(store: SQLiteManager, name: str) -> str:
    found = sha256()
    for row in store.db.execute(_ROWS, (name,)):
        found.update(repr(row).encode())
    return found.hexdigest()


def swept(store: SQLiteManager) -> int:
    """Bytes of the file once it is written anew, so that states can be compared."""
    db: apsw.Connection = store.db
    db.execute("VACUUM")
    return int(db.pragma("page_count")) * int(db.pragma("page_size"))


# --- what is found --------------------------------------------------------------------------------


def _findings(folder: Path, at: Path) -> Iterator[Finding]:
    talks = list(memory_data.locomo(folder))
    with memory_data.stored(talks, str(at / "chat.db")) as store:
        memories = {
            t.name: MemoryManager(store, scope=t.name, settings=NOTHING_KEPT) for t in talks
        }
        yield _found(store, memories, talks, "full")
        ends = [end for talk in talks for end in _ends(talk)]
        for state, days in AGES.items():
            for memory in memories.values():
                memory.age(max(ends) + timedelta(days=days))
            yield _found(store, memories, talks, state)
        for memory in memories.values():
            for each in memory.archived():
                memory.restore(each.session_id)
        yield _found(store, memories, talks, "restored")


def _ends(talk: Talk) -> Iterator[datetime]:
    return (messages[-1].timestamp for messages in talk.sessions.values())


def _found(
    store: SQLiteManager, memories: dict[str, MemoryManager], talks: Sequence[Talk], state: str
) -> Finding:
    every, some = [], []
    for talk in talks:
        for asked in talk.asked:
            result = memories[talk.name].search(asked.text, limit=SESSIONS)
            names = [each.session_id for each in result.sessions]
            names = [*names, *(each.session_id for each in result.archived)][:SESSIONS]
            needed = {f"{talk.name}/{each}" for each in asked.sessions}
            every.append(needed <= set(names))
            some.append(bool(needed & set(names)))
    return Finding(state, len(every), mean(every), mean(some), swept(store))


# --- numbers --------------------------------------------------------------------------------------


def report(found: tuple[Moved, list[Aged], list[Finding]]) -> str:
    """All of it as tables."""
    moved, aged, findings = found
    lines = ["| what | number |", "|---|---|"]
    lines += [f"| {name.replace('_', ' ')} | {value:,} |" for name, value in asdict(moved).items()]
    levels = [level.value for level in CompressionLevel]
    lines += ["", f"| sessions | settings | days | {' | '.join(levels)} | disk ÷ before |"]
    lines += [f"|---|---|---|{'---|' * len(levels)}---|"]
    for each in aged:
        of = sum(each.levels.values())
        shares = " | ".join(f"{each.levels.get(level, 0) / of:.0%}" for level in levels)
        what = f"{of} {each.sessions} | {each.settings} | {each.days}"
        lines.append(f"| {what} | {shares} | {each.disk:.2f} |")
    lines += [
        "",
        "| LoCoMo's sessions | all@5 | any@5 | bytes of the database |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {f.state} | {f.all_at_5:.3f} | {f.any_at_5:.3f} | {f.bytes:,} |" for f in findings
    ]
    return "\n".join(lines)


def as_json(found: tuple[Moved, list[Aged], list[Finding]]) -> dict[str, Any]:
    """The same numbers."""
    moved, aged, findings = found
    each_state = [asdict(each) for each in findings]
    return {"moved": asdict(moved), "aged": list(map(asdict, aged)), "found": each_state}

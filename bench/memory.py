"""Memory at sizes of years: storing, indexing, opening and searching short messages of many
sessions, and what the file takes.

Texts are sentences of the running Python's docstrings, of 127 characters on average, a session
twenty-two of them. Times are of the clock, since a search waits for the file too.
"""

from __future__ import annotations

import inspect
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from pathlib import Path
from statistics import quantiles

from bench.histories import SOURCES
from bench.measuring import Check, Setting, Spread, Table, number
from compact import CompactConfig, MemoryManager, SQLiteManager, VectorStore
from compact.messages.messages import Message, Role
from compact.messages.sessions import Branch, Entry, Session
from compact.store.whole_session import OwnPart, WholeSession
from compact.testing import HashEmbedder

SIZES = (10_000, 100_000)
LENGTH, IN_SESSION, BATCH = 127, 22, 1_000
"""Characters of a message, messages of a session, messages stored at once."""
QUESTIONS = 60
STORED, INDEXED = 20_000.0, 2_500.0
"""Messages a second, at least."""
ON_DISK = 3.0
"""Bytes of the file for one of text, at most."""
OPENING, FIRST, SEARCH, OF_ONE = 50.0, 500.0, 15.0, 3.0
"""Milliseconds, at most."""
DIMENSIONS = 384
"""Of vectors made by the hashes of words, so that what a model takes for the question (MiniLM: some
7 ms) is not in the times."""
ALONE = 500
"""Messages that a writer stores alone."""
PAUSE = 0.01
"""Seconds between two messages while another process indexes."""
BESIDE = 250.0
"""Milliseconds of one write in a hundred while another process indexes, at most."""
CATCH_UP = """
import sys
from compact import SQLiteManager

with SQLiteManager(sys.argv[1]) as store:
    store.catch_up()
"""
"""What the other process runs."""
_START = datetime(2025, 1, 1, tzinfo=UTC)


@cache
def _words() -> list[str]:
    texts = (inspect.getdoc(each) or "" for name in SOURCES for each in _things_in(name))
    return " ".join(texts).split()


def _things_in(name: str) -> Iterator[object]:
    module = import_module(name)
    for each in vars(module).values():
        if inspect.isclass(each) or inspect.isfunction(each):
            yield each
            yield from vars(each).values() if inspect.isclass(each) else ()


def _text(draw: random.Random, length: int) -> str:
    """Words that stand together somewhere, two by two."""
    words, found = _words(), ""
    while len(found) < length:
        at = draw.randrange(len(words) - 3)
        found += " ".join(words[at : at + 3]) + " "
    return found.strip()


def measure(setting: Setting) -> list[Table]:
    """Each size in a file of its own."""
    hybrid = Table(
        f"the same by words and by {DIMENSIONS} numbers for each message",
        ("messages", "first search, ms", "a search, ms", "of one session, ms"),
    )
    writing = Table(
        "storing message by message while another process indexes",
        (
            *("messages to index", "alone, p50 ms", "p99", "beside it, p50 ms", "p99", "longest"),
            *("indexing, s", "stored meanwhile", "not indexed then"),
        ),
    )
    table = Table(
        "memory of short messages",
        (
            *("messages", "stored a second", "indexed a second", "bytes for one of text"),
            *("opening, ms", "first search, ms", "a search, ms", "of one session, ms"),
        ),
    )
    for size in SIZES[:1] if setting.quick else SIZES:
        with tempfile.TemporaryDirectory() as folder:
            _of_size(size, Path(folder) / "memory.db", table)
            _hybrid(size, Path(folder) / "memory.db", hybrid)
        with tempfile.TemporaryDirectory() as folder:
            _writing(size, Path(folder) / "memory.db", writing)
    return [table, hybrid, writing]


def _writing(size: int, file: Path, table: Table) -> None:
    """What a writer waits who stores message by message, alone and while another process indexes
    all that was stored.
    """
    draw = random.Random(11)
    _stored(size, file, draw)
    with SQLiteManager(file) as store:
        store.session("live", create=_session("live"))
        alone = [_append(store, number, draw) for number in range(ALONE)]
        beside = list[float]()
        started = time.perf_counter()
        with subprocess.Popen([sys.executable, "-c", CATCH_UP, str(file)]) as indexing:
            while indexing.poll() is None:
                beside.append(_append(store, ALONE + len(beside), draw))
                time.sleep(PAUSE)  # whoever never pauses is indexed for ever
        took, left = time.perf_counter() - started, store.unindexed()
    cells = (number(each) for each in (*_percentiles(alone), *_percentiles(beside), max(beside)))
    table.rows.append((f"{size:,}", *cells, number(took), f"{len(beside):,}", f"{left:,}"))
    last = _percentiles(beside)[1]
    table.checks.append(Check(f"ms of a write beside the index, p99, {size:,}", last, BESIDE))


def _append(store: SQLiteManager, number: int, draw: random.Random) -> float:
    """Milliseconds that storing a message takes."""
    entry = _entry(number, _text(draw, LENGTH))
    started = time.perf_counter()
    store.append("live", [entry])
    return 1e3 * (time.perf_counter() - started)


def _percentiles(times: Sequence[float]) -> tuple[float, float]:
    """The median, and what one in a hundred takes longer than."""
    found = quantiles(times, n=100)
    return found[49], found[98]


def _of_size(size: int, file: Path, table: Table) -> None:
    draw = random.Random(7)
    stored, text = _stored(size, file, draw)
    with SQLiteManager(file) as store:
        started = time.perf_counter()
        store.turns("default")
        indexed = size / (time.perf_counter() - started)
    share = file.stat().st_size / text
    started = time.perf_counter()
    memory = MemoryManager(file)
    opening = 1e3 * (time.perf_counter() - started)
    first = _ms(memory, _text(draw, 40))
    every = Spread(tuple(_ms(memory, _text(draw, 40)) for _ in range(QUESTIONS)))
    one = Spread(tuple(_ms(memory, _text(draw, 40), ("s7",)) for _ in range(QUESTIONS)))
    memory.close()
    table.rows.append(
        (
            *(f"{size:,}", f"{stored:,.0f}", f"{indexed:,.0f}", number(share)),
            *(number(opening), number(first), every.text(), one.text()),
        )
    )
    table.checks += [
        Check(f"µs to store a message, {size:,}", 1e6 / stored, 1e6 / STORED),
        Check(f"µs to index a message, {size:,}", 1e6 / indexed, 1e6 / INDEXED),
        Check(f"bytes for one of text, {size:,}", share, ON_DISK),
        Check(f"ms to open, {size:,}", opening, OPENING),
        Check(f"ms of the first search, {size:,}", first, FIRST),
        Check(f"ms of a search, {size:,}", every.median, SEARCH),
        Check(f"ms of a search in one session, {size:,}", one.median, OF_ONE),
    ]


def _hybrid(size: int, file: Path, table: Table) -> None:
    embedder, draw = HashEmbedder(DIMENSIONS), random.Random(9)
    with SQLiteManager(file) as store:
        VectorStore(store, DIMENSIONS).embed_pending(embedder)
    settings = CompactConfig(age_automatically=False)
    with MemoryManager(file, embedder=embedder, settings=settings) as memory:
        first = _ms(memory, _text(draw, 40))
        every = Spread(tuple(_ms(memory, _text(draw, 40)) for _ in range(QUESTIONS)))
        one = Spread(tuple(_ms(memory, _text(draw, 40), ("s7",)) for _ in range(QUESTIONS)))
    table.rows.append((f"{size:,}", number(first), every.text(), one.text()))
    table.checks += [
        Check(f"ms of the first hybrid search, {size:,}", first, FIRST),
        Check(f"ms of a hybrid search, {size:,}", every.median, SEARCH),
        Check(f"ms of a hybrid search in one session, {size:,}", one.median, OF_ONE),
    ]


def _stored(size: int, file: Path, draw: random.Random) -> tuple[float, int]:
    """Messages stored a second in batches of a long session; and the bytes of all texts. The long
    session is half of them, the other half are short ones.
    """
    entries = [_entry(number, _text(draw, LENGTH)) for number in range(size)]
    half, spent = size // 2, 0.0
    with SQLiteManager(file) as store:
        store.session("long", create=_session("long"))
        for start in range(0, half, BATCH):
            began = time.perf_counter()
            store.append("long", entries[start : start + BATCH])
            spent += time.perf_counter() - began
        for start in range(half, size, IN_SESSION):
            own = entries[start : start + IN_SESSION]
            session = _session(f"s{(start - half) // IN_SESSION}")
            store.put_session(WholeSession(session, [OwnPart(session.branch, own)]))
    text = sum(len(each.message.text.encode()) for each in entries)
    return half / spent, text


def _session(name: str) -> Session:
    return Session(id=name, branch=Branch(id=name, session_id=name))


def _entry(number: int, text: str) -> Entry:
    role: Role = "assistant" if number % 2 else "user"
    return Entry(Message(role=role, content=text, timestamp=_START + timedelta(minutes=9 * number)))


def _ms(memory: MemoryManager, question: str, sessions: tuple[str, ...] = ()) -> float:
    started = time.perf_counter()
    memory.search(question, sessions=sessions)
    return 1e3 * (time.perf_counter() - started)

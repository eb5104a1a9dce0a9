"""Sessions to store, small and plain."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compact.messages import chain
from compact.messages.checkpoints import Checkpoint, Span
from compact.messages.messages import Image, Message, Refusal, Text
from compact.messages.protocols import SessionStore
from compact.messages.sessions import (
    Branch,
    CheckpointRef,
    Entry,
    Projection,
    Run,
    Session,
    Snapshot,
    Step,
)
from compact.store.sqlite.store import SQLiteManager
from compact.transcripts import reading
from compact.transcripts.documents import load
from compact.transcripts.table import recognized
from compact.transcripts.transcript import Transcript


def as_written(message: Message) -> str:
    """Its text as chat completions have it: what stood in parts is apart by an empty line, unless
    parts are written, as pictures need.
    """
    if any(isinstance(part, Image) for part in message.parts):
        return message.text
    return "\n\n".join(part.text for part in message.parts if isinstance(part, Text | Refusal))


def session(name: str, **given: Any) -> Session:
    return Session(**{"id": name, "branch": Branch(id=name, session_id=name), **given})


def entry(text: str, tokens: int | None = 3, marks: int = 0) -> Entry:
    return Entry(Message(role="user", content=text), tokens, marks)


def checkpoint(number: int) -> Checkpoint:
    span = Span(first=number, last=number, messages=1)
    return Checkpoint(id=f"ck-{number:012x}", span=span, summary=f"summary {number}", number=number)


def step(store: SessionStore, name: str, number: int, *, window: int = 8_000) -> Step:
    """The next compression of a session: its projection has a checkpoint."""
    branch = store.session(name).branch
    last = store.moves(name, window, most=1)
    made = checkpoint(number)
    projection = Projection(
        id=f"{name}-{window}-{number}".encode("ascii", "replace").decode(),
        window=window,
        number=number,
        at=branch.messages,
        cut=number,
        pieces=(CheckpointRef(made.id), Run(0, max(0, branch.messages - 1))),
        checkpoints=(made,),
        tokens=5,
        parent=last[0].projection_id if last else None,
    )
    return Step(
        kind="compress",
        session_id=name,
        branch_id=branch.id,
        window=window,
        base=last[0].number if last else 0,
        at=branch.messages,
        projection=projection,
    )


def assert_chained(store: SessionStore, branch: str) -> list[Entry]:
    """All entries of a branch, whose chain holds."""
    entries = store.read(branch, 0, 10**9)
    last = chain.START
    for found in entries:
        last = chain.link(last, found.message)
    assert store.chain(branch, len(entries)) == last
    assert store.branch(branch).messages == len(entries)
    return entries


def texts(entries: Sequence[Entry]) -> list[str]:
    return [found.message.text for found in entries]


@contextmanager
def opened(path: Path, **settings: Any) -> Iterator[SQLiteManager]:
    """A store, with a session `a` in it."""
    with SQLiteManager(path, **settings) as store:
        store.session("a", create=session("a"))
        yield store


def everything(store: SQLiteManager) -> list[object]:
    """All that a session consists of."""
    return [
        store.session("a"),
        store.branches("a"),
        store.read("a", 0, 10**6),
        store.moves("a", most=10**6),
        store.checkpoints("a"),
        store.snapshots("a"),
        store.notes("a"),
    ]


WRITES: dict[str, Callable[[SQLiteManager], object]] = {
    "append": lambda store: store.append("a", [entry("long " * 99) for _ in range(300)]),
    "commit": lambda store: store.commit(
        step(store, "a", 99).model_copy(update={"forget": ("draft",)})
    ),
    "fork": lambda store: store.fork("a", 2),
    "snapshot": lambda store: store.save_snapshot(
        Snapshot(session_id="a", branch_id="a", at=1, window=8, note="long " * 9_999)
    ),
    "note": lambda store: store.note("a", "draft", {"x": "long " * 9_999}),
    "session": lambda store: store.session("b", create=session("b", title="long " * 9_999)),
    "importance": lambda store: store.update_importance_score("first", 0.5),
    "deletion": lambda store: store.delete_session("a"),
}


def filled(store: SQLiteManager) -> None:
    """Give the session `a` of `opened` something to lose."""
    ids = ("first", "second", "third", "fourth", "fifth")
    store.append("a", [Entry(Message(role="user", content=i, id=i), 3) for i in ids])
    store.commit(step(store, "a", 1))
    store.note("a", "draft", {"x": 1})


def detect(data: Path | bytes) -> str:
    """The format that a file's content shows."""
    return recognized(load(data)).name


def every(path: Path | bytes) -> list[Transcript]:
    """All conversations of a file; none of them is broken."""
    found = list(reading.each(path))
    assert all(isinstance(one, Transcript) for one in found)
    return [one for one in found if isinstance(one, Transcript)]


def words_in(value: object) -> Iterator[str]:
    """All texts of a JSON value that are more than a word."""
    if isinstance(value, str):
        if value.startswith("{"):
            yield from words_in(json.loads(value))
        elif " " in value:
            yield value
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from words_in(each)

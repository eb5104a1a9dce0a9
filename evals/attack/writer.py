"""Whoever works on a session until killed or out of time, and what must hold of it afterwards.

A writer notes each call that returned on its ledger, one write to a file each: what stands there
was acknowledged. It lives in a process of its own, forked from the one that judges.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import re
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from compact import ContextManager, Message, SQLiteManager
from compact.errors import CompactError

WINDOWS = (2_000, 6_000)
_WORDS = ("quay", "rope", "mast", "sail", "keel", "tide", "buoy", "crane", "ferry", "cargo")
_MARK = re.compile(r"⟦(\S+)\.(\d+) (\d)/(\d)⟧")


@dataclass(frozen=True)
class Desk:
    """Where a writer works."""

    folder: Path
    session: str
    name: str

    @property
    def database(self) -> Path:
        """The file of the session."""
        return self.folder / "sessions.db"

    @property
    def ledger(self) -> Path:
        """Its own ledger."""
        return self.folder / f"{self.name}.jsonl"


@cache
def _warm() -> None:
    """Load everything once, so that a writer's life is spent on its work."""
    with ContextManager(window=WINDOWS[0]) as ctx:
        ctx.add_messages([{"role": "user", "content": f"{n} {_WORDS}"} for n in range(60)])
        ctx.compress_conversation(0.2)


def begun(desk: Desk, seed: int, seconds: float) -> BaseProcess:
    """A writer at work in a process of its own."""
    _warm()
    fork = multiprocessing.get_context("fork")
    process = fork.Process(target=_work, args=(desk, seed, seconds), daemon=True)
    process.start()
    return process


def _work(desk: Desk, seed: int, seconds: float) -> None:
    rng, end = random.Random(seed), time.monotonic() + seconds
    file = os.open(desk.ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(**row: object) -> None:
        os.write(file, (json.dumps(row) + "\n").encode())

    ctx: ContextManager | None = None
    serial = time.time_ns()
    names, weights = list(ACTS), [weight for weight, _ in ACTS.values()]
    while time.monotonic() < end:
        name = rng.choices(names, weights)[0]
        serial += 1
        try:
            if ctx is None:
                window = WINDOWS[seed % len(WINDOWS)]
                ctx = ContextManager(window=window, store=desk.database, session_id=desk.session)
            note(did=name, **(ACTS[name][1](ctx, rng, f"{desk.name}.{serial}") or {}))
        except CompactError as error:
            note(typed=type(error).__name__, during=name)
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno}"
            note(untyped=f"{name}: {type(error).__name__} at {place} | {error}")


# --- what a writer does ---------------------------------------------------------------------------

Told = dict[str, Any] | None


def _talk(rng: random.Random, batch: str) -> list[dict[str, Any]]:
    """One to four messages, or a call with its result; each carries its batch and place."""
    size = rng.randint(1, 4)
    marks = [f"⟦{batch} {i}/{size}⟧ {' '.join(rng.choices(_WORDS, k=40))}." for i in range(size)]
    if size == 2:
        function = {"name": "sound", "arguments": json.dumps({"at": marks[0]}, ensure_ascii=False)}
        call = {"id": f"call-{batch}", "type": "function", "function": function}
        return [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": marks[1]},
        ]
    return [{"role": rng.choice(("user", "assistant")), "content": mark} for mark in marks]


def _append(ctx: ContextManager, rng: random.Random, batch: str) -> Told:
    return {"kept": _marked(ctx.add_messages(_talk(rng, batch)))}


def _sync(ctx: ContextManager, rng: random.Random, batch: str) -> Told:
    shown = ctx.get_context_for_model()
    new = Message(role="user", content=f"⟦{batch} 0/1⟧ {' '.join(rng.choices(_WORDS, k=9))}")
    ctx.sync([*shown, {"role": "user", "content": new.content}])
    return {"kept": _marked([new])}


def _show(ctx: ContextManager, _: random.Random, __: str) -> Told:
    if (context := ctx.active_context()).tokens > ctx.window.usable:
        raise AssertionError(f"a prompt of {context.tokens} tokens")
    return None


def _restore(ctx: ContextManager, rng: random.Random, _: str) -> Told:
    if kept := ctx.time.snapshots():
        ctx.time.restore(rng.choice(kept[-6:]))
    return None


def _branch(ctx: ContextManager, rng: random.Random, _: str) -> Told:
    if size := len(ctx.history):
        ctx.time.branch(at=max(1, size - rng.randint(0, 5)))
    return None


def _recall(ctx: ContextManager, rng: random.Random, _: str) -> Told:
    ctx.recall(rng.choice(_WORDS))
    for checkpoint in ctx.checkpoints[:1]:
        ctx.expand(checkpoint.id, max_tokens=500)
    return None


def _goals(ctx: ContextManager, _: random.Random, batch: str) -> Told:
    ctx.goals.set([f"Reach the harbour, {batch}."])
    return None


def _compress(ctx: ContextManager, rng: random.Random, _: str) -> Told:
    ctx.compress_conversation(rng.choice((None, 0.2, 0.5)))
    return None


ACTS: dict[str, tuple[int, Callable[[ContextManager, random.Random, str], Told]]] = {
    "append": (40, _append),
    "show": (16, _show),
    "compress": (10, _compress),
    "undo": (8, lambda ctx, _, __: ctx.time.undo()),
    "redo": (6, lambda ctx, _, __: ctx.time.redo()),
    "branch": (5, _branch),
    "snapshot": (5, lambda ctx, _, batch: {"snapshot": ctx.time.snapshot(batch).id}),
    "restore": (4, _restore),
    "sync": (3, _sync),
    "goals": (2, _goals),
    "recall": (2, _recall),
}
"""What is done, and how often."""


# --- what must hold -------------------------------------------------------------------------------


def rows_of(desk: Desk) -> list[dict[str, Any]]:
    """What its ledger holds; a line that was cut off was never acknowledged."""
    data = desk.ledger.read_bytes() if desk.ledger.exists() else b""
    return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]


def wrong_in(desks: Sequence[Desk]) -> Iterator[str]:
    """What of the session, opened again, is not as its writers were promised."""
    first = desks[0]
    if not first.database.exists():
        return
    rows = [row for desk in desks for row in rows_of(desk)]
    with SQLiteManager(first.database) as store:
        yield from (f"integrity: {line}" for line in store.integrity_check()[:3])
        if first.session in {session.id for session in store.sessions()}:
            yield from _lost(store, first.session, rows)
        elif any("did" in row for row in rows):
            yield "the session is gone"
    yield from _unserved(first)


def _lost(store: SQLiteManager, session: str, rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    there = dict[str, str]()
    batches: dict[str, tuple[set[int], int]] = {}
    for branch in store.branches(session):
        newest: dict[str, tuple[int, int]] = {}
        messages = [entry.message for entry in store.read(branch.id, 0, branch.messages)]
        there |= _marked(messages)
        for found in map(_mark_of, messages):
            if found is None:
                continue
            who, serial, place, size = found[1], int(found[2]), int(found[3]), int(found[4])
            batches.setdefault(f"{who}.{serial}", (set(), size))[0].add(place)
            if (serial, place) <= newest.get(who, (0, 0)):
                yield f"order or repetition on a branch | {branch.id}: {found[0]}"
            newest[who] = serial, place
    kept = {key: value for row in rows for key, value in row.get("kept", {}).items()}
    for key, value in kept.items():
        if there.get(key) != value:
            yield f"{'changed' if key in there else 'lost'}: a message | {key}"
    for batch, (places, size) in batches.items():
        if len(places) != size:
            yield f"half of what was appended at once | {batch}: {len(places)} of {size}"
    snapshots = {snapshot.id for snapshot in store.snapshots(session)}
    lost = {row["snapshot"] for row in rows if "snapshot" in row} - snapshots
    yield from (f"lost: a snapshot | {each}" for each in lost)


def _unserved(desk: Desk) -> Iterator[str]:
    for window in WINDOWS:
        try:
            with ContextManager(window=window, store=desk.database, session_id=desk.session) as ctx:
                for _ in range(2):
                    tokens = ctx.active_context().tokens
                    if tokens > ctx.window.usable:
                        yield f"a prompt of {tokens} tokens for {window}"
                    ctx.add_message(role="user", content="Is everything there?")
                ctx.compress_conversation(0.3)
                ctx.get_context_for_model()
        except Exception as error:  # noqa: BLE001 - whatever it is, it does not serve
            yield f"does not serve: {type(error).__name__} | {error}"


def _mark_of(message: Message) -> re.Match[str] | None:
    return _MARK.search(str(message.content))


def _marked(messages: Sequence[Message]) -> dict[str, str]:
    """Mark → digest of what carries it."""
    return {
        found[0]: _digest(message.content)
        for message in messages
        if (found := _mark_of(message)) is not None
    }


def _digest(content: object) -> str:
    return hashlib.sha256(str(content).encode("utf-8", "replace")).hexdigest()[:16]

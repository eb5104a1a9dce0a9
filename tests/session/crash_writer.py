"""A program that works on a session until it is killed, and says what was promised to it.

`python -m tests.session.crash_writer DATABASE LEDGER` imports everything once, then forks a worker
for each line on its standard input (`SESSION SEED`) and prints the worker's process id. A worker
appends, compresses, lets checkpoints age and merge, takes snapshots, goes back and branches; after
each call that returned it writes one JSON line to the ledger. What stands there was promised.

A line may name a kind of step, too (`SESSION SEED undo`): its worker kills itself as soon as a step
of that kind is committed, before it can promise it.
"""

import hashlib
import json
import os
import random
import signal
import sys
from collections.abc import Iterator
from typing import Any

from compact import ContextManager, SQLiteManager
from compact.messages.sessions import Move, Step

WINDOW = 2_000
LONGEST_LIFE = 120
"""Seconds after which a writer ends that nobody has killed: whoever began it is gone."""
WORDS = ("roof", "beam", "tile", "gutter", "slate", "nail", "ridge", "valley", "truss", "joist")
TOOLS = ("measure", "order", "survey")


def spoken(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))


def said(rng: random.Random, serial: int) -> list[dict[str, Any]]:
    """What is appended at once: a question, an answer, or a call with its result."""
    mark = f"[{serial}:{rng.getrandbits(32):08x}]"
    if rng.random() < 0.3:
        call = {"id": f"call_{serial}", "type": "function"}
        body = {"name": rng.choice(TOOLS), "arguments": json.dumps({"path": f"plans/{mark}.dwg"})}
        result = {"role": "tool", "tool_call_id": call["id"], "content": spoken(rng, 60) + mark}
        return [
            {"role": "assistant", "content": None, "tool_calls": [{**call, "function": body}]},
            result,
        ]
    role = rng.choice(("user", "assistant"))
    return [{"role": role, "content": f"{mark} {spoken(rng, rng.randint(4, 60))}."}]


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


class Ledger:
    """Lines that outlive their writer: each is one write to a file, no buffer between."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, **row: object) -> None:
        os.write(self._file, (json.dumps(row) + "\n").encode())


class Deadly(SQLiteManager):
    """A store whose process dies of the first step of a kind, right after it was committed."""

    kind = ""

    def commit(self, step: Step) -> Move:
        move = super().commit(step)
        if step.kind == self.kind:
            os.kill(os.getpid(), signal.SIGKILL)
        return move


def work(database: str, ledger: Ledger, session: str, seed: int, kind: str = "") -> None:
    """Work until killed."""
    signal.alarm(LONGEST_LIFE)
    rng = random.Random(seed)
    store = Deadly(database)
    store.kind = kind
    ctx = ContextManager(window=WINDOW, store=store, session_id=session)
    ledger.note(opened=session, branch=ctx.branch_id, at=len(ctx.history))
    if not len(ctx.history):
        ctx.add_message(role="user", content="Never order tiles without asking me first.")
    for serial in steps(rng):
        at = len(ctx.history)
        new = said(rng, serial)
        ctx.add_messages(new)
        ledger.note(branch=ctx.branch_id, at=at, new=[digest(m) for m in new])
        prompt = ctx.get_context_for_model()
        shown = {"prompt": digest(prompt), "under": [goal.text for goal in ctx.goals]}
        ledger.note(branch=ctx.branch_id, seen=len(ctx.history), **shown)
        go_elsewhere(ctx, rng, ledger)


def steps(rng: random.Random) -> Iterator[int]:
    while True:
        yield rng.getrandbits(30)


def go_elsewhere(ctx: ContextManager, rng: random.Random, ledger: Ledger) -> None:
    """Now and then: a snapshot, an undo, a restore, a branch, more goals."""
    match rng.randrange(60):
        case 0 | 1:
            ledger.note(snapshot=ctx.snapshot("by the way").id)
        case 2:
            if ctx.compressions > 1:
                ctx.undo()
                ledger.note(branch=ctx.branch_id, undone=len(ctx.history))
        case 3:
            if kept := ctx.snapshots():
                chosen = rng.choice(kept[-5:])
                ctx.restore(chosen)
                ledger.note(branch=ctx.branch_id, restored=chosen.id)
        case 4:
            ctx.branch(at=max(1, len(ctx.history) - rng.randint(1, 4)))
            ledger.note(branch=ctx.branch_id, branched=len(ctx.history))
        case 5:
            ctx.set_goals([f"Mend the roof by week {rng.randint(1, 52)}."])
            ledger.note(goals=[g.text for g in ctx.goals])


def main() -> None:
    database, path = sys.argv[1:]
    ContextManager(window=WINDOW).estimate_tokens("everything is loaded before the first fork")
    for line in sys.stdin:
        session, seed, *kind = line.split()
        child = os.fork()
        if child == 0:
            work(database, Ledger(path), session, int(seed), *kind)
        print(child, flush=True)
        os.waitpid(child, 0)
        print("gone", flush=True)


if __name__ == "__main__":
    main()

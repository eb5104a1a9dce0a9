"""A nursery (`tests.killing`) whose workers work on a session (`SESSION SEED`): they append,
compress, let checkpoints age and merge, take snapshots, go back and branch.

A line may name a kind of step, too (`SESSION SEED undo`): its worker kills itself as soon as a step
of that kind is committed, before it can promise it.
"""

import hashlib
import json
import os
import random
import signal
from collections.abc import Iterator
from typing import Any

from compact import ContextManager, SQLiteManager
from compact.messages.sessions import Move, Step
from tests.killing import Ledger, serve

WINDOW = 2_000
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


class Deadly(SQLiteManager):
    """A store whose process dies of the first step of a kind, right after it was committed."""

    kind = ""

    def commit(self, step: Step) -> Move:
        move = super().commit(step)
        if step.kind == self.kind:
            os.kill(os.getpid(), signal.SIGKILL)
        return move


def work(database: str, ledger: Ledger, session: str, seed: str, kind: str = "") -> None:
    """Work until killed."""
    rng = random.Random(int(seed))
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
            ledger.note(snapshot=ctx.time.snapshot("by the way").id)
        case 2:
            if ctx.compressions > 1:
                ctx.time.undo()
                ledger.note(branch=ctx.branch_id, undone=len(ctx.history))
        case 3:
            if kept := ctx.time.snapshots():
                chosen = rng.choice(kept[-5:])
                ctx.time.restore(chosen)
                ledger.note(branch=ctx.branch_id, restored=chosen.id)
        case 4:
            ctx.time.branch(at=max(1, len(ctx.history) - rng.randint(1, 4)))
            ledger.note(branch=ctx.branch_id, branched=len(ctx.history))
        case 5:
            ctx.goals.set([f"Mend the roof by week {rng.randint(1, 52)}."])
            ledger.note(goals=[g.text for g in ctx.goals])


if __name__ == "__main__":
    ContextManager(window=WINDOW).estimate_tokens("everything is loaded before the first fork")
    serve(work)

"""Sessions that are played at random, and what must hold of them at every moment.

A player appends generated messages (`tests.strategies`) to a session and does with it whatever an
application may do: other windows, forks, undo, whole lists, goals, pins. The judges count and check
with `tests.checker` alone.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from compact import CannotFit, ContextManager, Message
from compact.core.groups import group_at
from compact.core.protocols import SessionStore
from compact.errors import NotFound
from tests import checker, strategies

TOKENIZER = "o200k"
WINDOWS = (4_096, 8_192, 16_384, 32_768, 128_000, 200_000, 1_000_000)
MOSTLY = (30, 25, 15, 10, 8, 6, 6)
"""How often each window is chosen: the small ones compress most."""
GOALS = (
    "Ship release 4.2 with the new scheduler.",
    "Keep the public API stable.",
    "检查所有缓存策略。",
    "Answer in German.",
)


def key(message: Mapping[str, Any]) -> str:
    """A message as one comparable text."""
    return json.dumps(message, sort_keys=True, default=str)


def cover_faults(ctx: ContextManager) -> list[str]:
    """Positions before the cut that no live checkpoint stands in for, or more than one; and other
    breaks of what checkpoints promise.
    """
    view = ctx._view
    if view.projection is None:
        return []
    found: list[str] = []
    count = Counter(p for k in ctx.checkpoints for p in k.covered())
    want = set(range(view.projection.cut)) - set(view.projection.kept)
    if missing := sorted(want - set(count)):
        found.append(f"covered by none: {missing[:10]}")
    pinned = {p for f in ctx.history.fixed for p in group_at(ctx.history, f)}
    if extra := sorted(set(count) - want - pinned):  # a pin may come when it was covered already
        found.append(f"covered, and yet in view: {extra[:10]}")
    found += [f"{p} is covered {n} times" for p, n in count.items() if n > 1]
    spans = [(k.span.first, k.span.last) for k in ctx.checkpoints]
    for (_, last), (first, _) in pairwise(spans):
        if first <= last:
            found.append(f"spans overlap or are out of order: {spans}")
    for k in ctx.checkpoints:
        if k.span.messages != len(k.covered()):
            found.append(f"{k.id} says {k.span.messages} messages and covers {len(k.covered())}")
    return found


def prompt_faults(ctx: ContextManager, prompt: Sequence[Mapping[str, Any]], wire: str) -> list[str]:
    """What is wrong with a prompt: too large, refused by a provider, goals missing."""
    found = checker.broken_rules(prompt, wire)
    size = checker.prompt_tokens(prompt) + 3
    if size > ctx.window.usable:
        found.append(f"{size} tokens, {ctx.window.usable} may be")
    if size > ctx.active_context().tokens:
        found.append(f"{size} tokens, it was said {ctx.active_context().tokens}")
    texts = [text for m in prompt for text in checker.visible(m)]
    for goal in ctx.goals:
        if goal.status == "active" and not any(goal.text in text for text in texts):
            found.append(f"the goal is missing: {goal.text}")
    return found


class Player:
    """One random session in a store; `play` does a number of random things and judges after
    each.
    """

    def __init__(self, seed: int, store: SessionStore, *, session_id: str = "s") -> None:
        self.r = r = random.Random(seed)
        self.store = store
        self.id = session_id
        self.wire: strategies.Wire = r.choice(strategies.WIRES)
        wild = r.random() < 0.6
        self.events = strategies.WILD_EVENTS if wild else strategies.ORDINARY_EVENTS
        makers = strategies.WILD if wild else strategies.ORDINARY
        self.writer = strategies.Writer(self.wire, r.randrange(2**32), makers)
        self.sizes = r.choice((strategies.SIZES[:4], strategies.SIZES[:5], strategies.SIZES))
        self.told = 0
        """Messages of the writer that were given to the session."""
        self.count: Counter[str] = Counter()
        self.refused: CannotFit | None = None
        self.ever: dict[str, list[str]] = {}
        """Branch → every message that it ever had, as far as this player knows."""
        self.opened(r.choices(WINDOWS, MOSTLY)[0])
        if r.random() < 0.5:
            self.writer.system(strategies.prose(r, 30))

    def opened(self, window: int) -> None:
        self.ctx = ContextManager(
            window=window,
            store=self.store,
            session_id=self.id,
            format=self.wire,
            tokenizer=TOKENIZER,
        )

    # --- what may be done ---

    def talk(self) -> None:
        for _ in range(self.r.randint(1, 4)):
            self.r.choice(self.events)(self.writer, self.r.choice(self.sizes))
        new = self.writer.made.messages[self.told :]
        self.told += len(new)
        if self.r.random() < 0.5:
            self.ctx.add_messages(new)
        else:
            for message in new:
                self.ctx.add_message(message)

    def ask(self) -> None:
        self.judge()

    def switch(self) -> None:
        self.opened(self.r.choices(WINDOWS, MOSTLY)[0])
        self.judge()

    def compress(self) -> None:
        try:
            self.ctx.compress_conversation(self.r.choice((None, 0.2, 0.5, 0.9)))
        except CannotFit as error:
            self.cannot(error)

    def set_goals(self) -> None:
        self.ctx.set_goals(self.r.sample(GOALS, self.r.randint(0, 3)))

    def pin(self) -> None:
        if len(self.ctx.history):
            position = self.r.randrange(len(self.ctx.history))
            if self.ctx.history.tokens(position) < 300:
                self.ctx.pin(self.ctx.history[position])

    def fork(self) -> None:
        length = len(self.ctx.history)
        self.ctx.branch(at=self.r.randint(max(0, length - 40), length))

    def undo(self) -> None:
        try:
            self.ctx.undo()
            if self.r.random() < 0.5:
                self.ctx.redo()
        except NotFound:
            self.count["nothing to undo"] += 1

    def snapshot(self) -> None:
        self.ctx.snapshot("played")
        if self.r.random() < 0.4:
            self.ctx.restore(self.r.choice(self.ctx.snapshots()))

    def sync(self) -> None:
        wire = self.ctx._state.wire
        if self.r.random() < 0.5:
            given = wire.render(tuple(self.ctx.history))
        else:
            try:
                given = self.ctx.get_context_for_model()
            except CannotFit as error:
                self.cannot(error)
                return
        before, branch = len(self.ctx.history), self.ctx.branch_id
        added = [{"role": "user", "content": strategies.prose(self.r, 12)}]
        self.ctx.sync([*given, *added])
        if self.ctx.branch_id == branch:
            assert len(self.ctx.history) == before + 1, "only what is new is stored"
        else:
            self.count["branched by sync"] += 1

    ACTIONS: ClassVar[dict[Callable[["Player"], None], int]] = {
        talk: 50,
        ask: 20,
        switch: 6,
        compress: 4,
        set_goals: 3,
        pin: 4,
        fork: 3,
        undo: 4,
        snapshot: 3,
        sync: 3,
    }

    def play(self, steps: int) -> None:
        names = list(self.ACTIONS)
        weights = list(self.ACTIONS.values())
        self.talk()
        for _ in range(steps):
            action = self.r.choices(names, weights)[0]
            self.count[action.__name__] += 1
            action(self)
            self.remember()
        self.judge()
        self.nothing_is_lost()

    # --- what must hold ---

    def cannot(self, error: CannotFit) -> None:
        """The one legitimate error, proven to be so."""
        assert error.total > error.limit, f"it would fit: {error}"
        assert error.limit <= self.ctx.window.usable
        assert error.total > self.ctx.window.usable, f"it would fit: {error}"
        self.count["cannot fit"] += 1
        if self.r.random() < 0.5:  # somebody helps: a larger model
            self.opened(self.r.choice(WINDOWS[2:]))

    def judge(self) -> None:
        try:
            prompt = self.ctx.get_context_for_model()
        except CannotFit as error:
            self.cannot(error)
            return
        faults = prompt_faults(self.ctx, prompt, self.wire) + cover_faults(self.ctx)
        assert not faults, faults[:5]
        again = ContextManager(
            window=self.ctx.window.size,
            store=self.store,
            session_id=self.id,
            format=self.wire,
            tokenizer=TOKENIZER,
        )
        reopened = again.get_context_for_model()
        assert list(map(key, reopened)) == list(map(key, prompt)), "reopened it is another prompt"
        self.count["compressions"] = max(
            self.count["compressions"],
            self.ctx._view.projection.number if self.ctx._view.projection else 0,
        )

    def remember(self) -> None:
        known = self.ever.setdefault(self.ctx.branch_id, [])
        now = [m.id for m in _since(self.ctx, len(known))]
        known += now

    def nothing_is_lost(self) -> None:
        for branch_id, ids in self.ever.items():
            stored = [e.message.id for e in self.store.read(branch_id, 0, 10**9)]
            assert stored[: len(ids)] == ids, f"branch {branch_id} lost a message"


def _since(ctx: ContextManager, start: int) -> list[Message]:
    return [ctx.history[i] for i in range(start, len(ctx.history))]

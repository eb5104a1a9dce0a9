"""Sessions that are played at random, and what must hold of them at every moment.

A player appends generated messages (`tests.strategies`) to a session and does with it whatever an
application may do: other windows and models, forks, undo, whole lists, goals, pins. The judges
count and check with `tests.checker`; the size of a prompt is held against the window's arithmetic,
written down again here.
"""

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, ClassVar

from compact import CannotFit, ContextManager
from compact.engine.groups import group_at
from compact.engine.shorten import without_reasoning
from compact.errors import NotFound
from compact.messages.protocols import SessionStore
from compact.testing import ScriptedModel
from tests import checker, strategies
from tests.engine.judging import MARGIN, PICTURE

Dict = dict[str, Any]
TOKENIZER = "o200k"
PRIMING = 3
MOST = 1_000_000
STUB = 300
"""Tokens that a result beside what is held may still have."""
PER_GOAL = 12
WINDOWS = (4_096, 8_192, 16_384, 32_768, 128_000, 200_000, 1_000_000)
MOSTLY = (30, 25, 15, 10, 8, 6, 6)
"""How often each window is chosen: the small ones compress most."""
SMALLEST, LARGEST = 4_096, 1_000_000
MODELS = {"gpt-4": 8_192, "gpt-4o": 128_000, "o1": 200_000, "gpt-5": 400_000, "gpt-4.1": 1_047_576}
"""Models of which a window is known, and how large it is."""
GOALS = (
    "Ship release 4.2 with the new scheduler.",
    "Keep the public API stable.",
    "检查所有缓存策略。",
    "Answer in German.",
)
TOOL_EVENTS = frozenset(
    (
        strategies.tool_step,
        strategies.tool_loop,
        strategies.parallel,
        strategies.long_arguments,
        strategies.thinking,
        strategies.dead_call,
        strategies.half_answered,
        strategies.late_result,
        strategies.orphan_result,
        strategies.answered_twice,
        strategies.same_id_again,
        strategies.pinned_result,
        strategies.pinned_dead_call,
        strategies.reminder_between_results,
        strategies.old_function_call,
        strategies.split_reply,
        strategies.unknown_parts,
        strategies.result_and_words,
    )
)


def key(message: Mapping[str, Any]) -> str:
    """A message as one comparable text."""
    return json.dumps(message, sort_keys=True, default=str)


def digest(messages: Sequence[Mapping[str, Any]]) -> str:
    """Few letters that stand for the bytes of provider dictionaries."""
    return hashlib.blake2b("\n".join(map(key, messages)).encode(), digest_size=8).hexdigest()


def usable(size: int) -> int:
    """What a prompt may have of a window (C-7)."""
    return size - min(1_500, size // 8)


# --- judges ---------------------------------------------------------------------------------------


def cover_faults(ctx: ContextManager) -> list[str]:
    """Positions before the cut that no live checkpoint stands in for, or more than one; and other
    breaks of what checkpoints promise.
    """
    view = ctx._session.view
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


def prompt_faults(
    ctx: ContextManager, prompt: Sequence[Mapping[str, Any]], size: int, held: Sequence[int]
) -> list[str]:
    """What is wrong with a prompt for a window of that size: too large, refused by a provider, or
    goals or the words at `held` positions missing.
    """
    found = checker.broken_rules(prompt, ctx._session.state.wire.name)
    system = (
        ctx._session.view.context().system_text
    )  # the goals, where the format has a field for them
    tokens = checker.prompt_tokens(prompt) + PRIMING + checker.tokens(system)
    if tokens > usable(size):
        found.append(f"{tokens} tokens, {usable(size)} may be")
    texts = [system, *(as_sent(text) for m in prompt for text in checker.visible(m))]
    wanted = {goal.text: "a goal" for goal in ctx.goals if goal.status == "active"}
    wanted |= {words: f"message {i}" for i in held for words in map(as_sent, words_at(ctx, i))}
    for words, whose in wanted.items():
        if not any(words in text for text in texts):
            found.append(f"{whose} is not there word for word: {words[:80]!r}")
    return found


def as_sent(text: str) -> str:
    """The text, with the replacement character for half a character: no half of one is sent."""
    return checker.SURROGATE.sub("\ufffd", text)


def words_at(ctx: ContextManager, position: int) -> list[str]:
    """The texts of a message of the history; of a person's, without tool results beside them; of a
    model's, without reasoning, which is not sent for ever.
    """
    rendered = ctx._session.state.wire.render([without_reasoning(ctx.history[position])])
    content = rendered[0].get("content")
    if rendered[0]["role"] == "user" and isinstance(content, list):
        spoken = [block for block in content if block.get("type") != "tool_result"]
        if spoken:
            return checker.visible({"role": "user", "content": spoken})
    return [text for each in rendered for text in checker.visible(each)]


def floor_tokens(ctx: ContextManager) -> int:
    """Tokens of what may not be shortened, by the checker's count: system prompt, pins, goals, the
    newest words of a person; of what cannot be parted from them, a stub each at most.
    """
    history, render = ctx.history, ctx._session.state.wire.render
    picture = PICTURE[ctx._session.state.wire.name]
    newest = next(history.persons(), None)
    held = {*history.fixed} if newest is None else {*history.fixed, newest}
    beside = {p for h in held for p in group_at(history, h)} - held

    def tokens(position: int) -> int:
        return checker.prompt_tokens(render([history[position]]), picture=picture)

    goals = sum(checker.tokens(g.text) + PER_GOAL for g in ctx.goals if g.status == "active")
    return PRIMING + goals + sum(map(tokens, held)) + sum(min(tokens(p), STUB) for p in beside)


# --- the player -----------------------------------------------------------------------------------


class Player:
    """One random session in a store; `play` does a number of random things and judges after
    each.
    """

    BARE = 0.4
    """The share of the sessions that have no summarizer."""

    def __init__(self, seed: int, store: SessionStore, *, session_id: str = "s") -> None:
        self.r = r = random.Random(seed)
        self.store = store
        self.id = session_id
        self.is_bare = random.Random(f"bare {seed}").random() < self.BARE
        self.wire: strategies.Wire = r.choice(strategies.WIRES)
        wild = r.random() < 0.6
        events = strategies.WILD_EVENTS if wild else strategies.ORDINARY_EVENTS
        self.tools = [e for e in events if e in TOOL_EVENTS]
        self.words = [e for e in events if e not in TOOL_EVENTS]
        self.density = r.random()
        """How often what happens is a tool's work."""
        self.largest_pin = r.choice((300, 300, 3_000))
        makers = strategies.WILD if wild else strategies.ORDINARY
        self.writer = strategies.Writer(self.wire, r.randrange(2**32), makers)
        self.sizes = r.choice((strategies.SIZES[:4], strategies.SIZES[:5], strategies.SIZES))
        self.told = 0
        """Messages of the writer that were given to the session."""
        self.count: Counter[str] = Counter()
        self.ever: dict[str, list[str]] = {}
        """Branch → a digest of every message that it ever had, as far as this player knows."""
        self.pinned: dict[str, int] = {}
        """Message id → the number of the newest move when it was pinned."""
        self.opened(self.any_window())
        if r.random() < 0.5:
            self.writer.system(strategies.prose(r, 30))

    def any_window(self) -> int:
        """A window that models have, or any size between; the small ones more often."""
        if self.r.random() < 0.5:
            return self.r.choices(WINDOWS, MOSTLY)[0]
        return int(SMALLEST * (LARGEST / SMALLEST) ** (self.r.random() ** 2))

    def opened(self, window: int) -> None:
        self.ctx = self.open(window)

    def open(self, window: int) -> ContextManager:
        return ContextManager(
            window=window,
            store=self.store,
            session_id=self.id,
            format=self.wire,
            tokenizer=TOKENIZER,
            summarizer=None if self.is_bare else "extractive",
        )

    # --- what may be done ---

    def talk(self) -> None:
        for _ in range(self.r.randint(1, 4)):
            events = self.tools if self.r.random() < self.density else self.words
            self.r.choice(events)(self.writer, self.r.choice(self.sizes))
        new = self.writer.made.messages[self.told :]
        self.told += len(new)
        if self.r.random() < 0.5:
            self.ctx.add_messages(new)
        else:
            for message in new:
                self.ctx.add_message(message)
        self.count["messages"] += len(new)

    def ask(self) -> None:
        self.judge()

    def switch(self) -> None:
        """Another model from now on: the session is opened for its window."""
        self.opened(self.any_window())
        self.judge()

    def other_model(self) -> None:
        """One prompt for another model, in between."""
        model, size = self.r.choice(list(MODELS.items()))
        try:
            prompt = self.ctx.get_context_for_model(model)
        except CannotFit as error:
            self.cannot(error, size)
            return
        self.count["prompts"] += 1
        faults = prompt_faults(self.ctx, prompt, size, self.held(size))
        assert not faults, (model, faults[:5])

    def send(self) -> None:
        """To a model that refuses what is too large, and says what it counted."""
        render = self.ctx._session.state.wire.render
        model = ScriptedModel(
            strategies.prose(self.r, 20),
            limit=usable(self.ctx._session.view.size),
            count=lambda context: checker.prompt_tokens(render(context.messages)) + PRIMING,
        )
        try:
            self.ctx.send(model)
        except CannotFit as error:
            self.cannot(error, self.ctx._session.view.size)
        assert len(model.contexts) <= 1, "it was refused"
        size = self.ctx._session.view.size
        for context in model.contexts:
            prompt = render(context.messages)
            faults = prompt_faults(self.ctx, prompt, size, self.held(size))
            assert not faults, faults[:5]
            self.count["prompts"] += 1

    def compress(self) -> None:
        try:
            self.ctx.compress_conversation(self.r.choice((None, 0.2, 0.5, 0.9)))
        except CannotFit as error:
            self.cannot(error, self.ctx._session.view.size)
            return
        self.judge()

    def set_goals(self) -> None:
        self.ctx.goals.set(self.r.sample(GOALS, self.r.randint(0, 3)))

    def pin(self) -> None:
        if len(self.ctx.history):
            position = self.r.randrange(len(self.ctx.history))
            if self.ctx.history.tokens(position) < self.largest_pin:
                message = self.ctx.history[position]
                self.pinned.setdefault(message.id, self.newest_move())
                self.ctx.pin(message)

    def fork(self) -> None:
        length = len(self.ctx.history)
        self.ctx.time.branch(at=self.r.randint(max(0, length - 40), length))

    def undo(self) -> None:
        try:
            self.ctx.time.undo()
            if self.r.random() < 0.5:
                self.ctx.time.redo()
        except NotFound:
            self.count["nothing to undo"] += 1

    def snapshot(self) -> None:
        self.ctx.time.snapshot("played")
        if self.r.random() < 0.4:
            self.ctx.time.restore(self.r.choice(self.ctx.time.snapshots()))

    def sync(self) -> None:
        """The whole list again, or the prompt, with something new at its end."""
        if self.r.random() < 0.5:
            given = self.ctx._session.state.wire.render(tuple(self.ctx.history))
        else:
            try:
                given = self.prompt()
            except CannotFit as error:
                self.cannot(error, self.ctx._session.view.size)
                return
        before, branch = len(self.ctx.history), self.ctx.branch_id
        self.ctx.sync([*given, {"role": "user", "content": strategies.prose(self.r, 12)}])
        assert self.ctx.branch_id == branch, "nothing was edited"
        assert len(self.ctx.history) == before + 1, "only what is new is stored"
        self.count["messages"] += 1

    def edit(self) -> None:
        """The whole list again, its end left out and said anew."""
        before, given = (
            self.ctx.branch_id,
            self.ctx._session.state.wire.render(tuple(self.ctx.history)),
        )
        if len(given) < 2:
            return
        kept = given[: self.r.randint(max(1, len(given) - 30), len(given) - 1)]
        added = {"role": "user", "content": f"{self.r.random()} {strategies.prose(self.r, 12)}"}
        self.ctx.sync([*kept, added])
        assert self.ctx.branch_id != before, "an edited past is a branch"
        now = self.ctx._session.state.wire.render(tuple(self.ctx.history))
        assert list(map(key, now)) == list(map(key, [*kept, added]))
        self.count["messages"] += 1

    ACTIONS: ClassVar[dict[Callable[["Player"], None], int]] = {
        talk: 50,
        ask: 20,
        switch: 6,
        other_model: 3,
        send: 4,
        compress: 4,
        set_goals: 3,
        pin: 4,
        fork: 3,
        undo: 4,
        snapshot: 3,
        sync: 3,
        edit: 2,
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
        self.count["compressions"] = self.compressions()

    def compressions(self) -> int:
        return sum(m.kind == "compress" for m in self.store.moves(self.id, most=MOST))

    def newest_move(self) -> int:
        return max((move.number for move in self.store.moves(self.id, most=1)), default=0)

    # --- what must hold ---

    def cannot(self, error: CannotFit, size: int) -> None:
        """The one legitimate error, proven to be so."""
        assert error.total > error.limit == usable(size), f"it would fit: {error}"
        floor = floor_tokens(self.ctx)
        assert floor + MARGIN > usable(size), f"it would fit, {floor} are needed: {error}"
        self.count["cannot fit"] += 1
        if self.r.random() < 0.5:  # somebody helps: a larger model
            self.opened(self.r.choice(WINDOWS[2:]))

    def held(self, size: int) -> list[int]:
        """Positions whose words are in every prompt. A pin that came when its message was covered
        already is shown by the next compression.
        """
        history, projection = self.ctx.history, self.ctx._session.view_of(size).projection
        made = 0
        for move in self.store.moves(self.id, most=MOST) if projection else ():
            if projection and move.kind == "compress" and move.projection_id == projection.id:
                made = move.number
        positions = [
            i
            for i in history.fixed
            if not made or made > self.pinned.get(history[i].id, 0) or history[i].is_pinned
        ]
        return [*positions, *islice(history.persons(), 1)]

    def prompt(self) -> list[Dict]:
        """The prompt, judged."""
        prompt = self.ctx.get_context_for_model()
        self.count["prompts"] += 1
        size = self.ctx._session.view.size
        faults = prompt_faults(self.ctx, prompt, size, self.held(size)) + cover_faults(self.ctx)
        if (said := self.ctx.active_context().tokens) < checker.prompt_tokens(prompt) + PRIMING:
            faults.append(f"it was said to have {said} tokens")
        assert not faults, faults[:5]
        return prompt

    def judge(self) -> None:
        try:
            prompt = self.prompt()
        except CannotFit as error:
            self.cannot(error, self.ctx._session.view.size)
            return
        live = self.ctx._session.view
        again = self.open(live.size)
        reopened = again.get_context_for_model()
        assert list(map(key, reopened)) == list(map(key, prompt)), "reopened it is another prompt"
        assert (again.branch_id, again.goals) == (self.ctx.branch_id, self.ctx.goals)
        assert again.checkpoints == self.ctx.checkpoints
        found = again._session.view
        assert (found._trigger, found.tokens) == (live._trigger, live.tokens), "another trigger"

    def remember(self) -> None:
        """As it was said: other words may be shown in the place of a system prompt."""
        known = self.ever.setdefault(self.ctx.branch_id, [])
        render, end = self.ctx._session.state.wire.render, len(self.ctx.history)
        new = self.store.read(self.ctx.branch_id, len(known), end)
        known += [digest(render([entry.message])) for entry in new]

    def nothing_is_lost(self) -> None:
        render = self.ctx._session.state.wire.render
        for branch_id, digests in self.ever.items():
            entries = self.store.read(branch_id, 0, len(digests))
            stored = [digest(render([entry.message])) for entry in entries]
            assert stored == digests, f"branch {branch_id} lost a message, or changed it"

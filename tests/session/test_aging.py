"""The life of checkpoints over many compressions: levels, caps, spans, parents (US-4, FR-4)."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from compact import ContextManager, ExtractiveSummarizer
from compact.engine.history import NOBODYS
from compact.messages.checkpoints import TOLD_IN_RECORD, Checkpoint, Level, Summary, SummaryRequest
from compact.messages.protocols import SessionStore
from compact.store.inmemory import InMemoryStore
from compact.testing import ScriptedSummarizer
from compact.wiring import token_counter
from tests import checker, strategies
from tests.session.playing import TOKENIZER, cover_faults
from tests.sizes import seed, size

ORDER: tuple[Level, ...] = ("detailed", "moderate", "compact", "merged")
SCHEDULE: Mapping[Level, int] = {"detailed": 0, "moderate": 3, "compact": 6, "merged": 10}
SHARES: Mapping[Level, float] = {
    "detailed": 0.04,
    "moderate": 0.02,
    "compact": 0.01,
    "merged": 0.03,
}
LEAST: Mapping[Level, int] = {"detailed": 400, "moderate": 240, "compact": 160, "merged": 400}
TOGETHER = 0.20
RECORD = 0.12
GOALS = ("Ship release 4.2 with the new scheduler.", "检查所有缓存策略。")
_GROW_THE_FLOOR = (
    strategies.pinned,
    strategies.pinned_result,
    strategies.pinned_dead_call,
    strategies.system_again,
    strategies.developer,
)
EVENTS: Mapping[str, tuple[strategies.Event, ...]] = {
    "ordinary": strategies.ORDINARY_EVENTS,
    "wild": tuple(e for e in strategies.WILD_EVENTS if e not in _GROW_THE_FLOOR),
}


def cap_of(level: Level, usable: int) -> int:
    """The cap of a level as the requirements have it, with the least of decision 012."""
    return min(max(int(SHARES[level] * usable), LEAST[level]), int(TOGETHER * usable) // 2)


class Life:
    """A session that never ends, and what was seen of its checkpoints."""

    def __init__(
        self, window: int, *, seed: int = 1, kind: str = "ordinary", **options: Any
    ) -> None:
        self.r = random.Random(f"{seed} {kind}")
        self.store: SessionStore = InMemoryStore()
        makers = strategies.WILD if kind == "wild" else strategies.ORDINARY
        self.wire = strategies.WIRES[seed % 2]
        self.writer = strategies.Writer(self.wire, seed, makers)
        self.events = EVENTS[kind]
        self.sizes = strategies.SIZES[: 4 if window < 8_192 else 5]
        self.ctx = self.opened(window, **options)
        self.ctx.goals.set(GOALS)
        self.levels: dict[int, int] = {}
        """Position → the latest level at which a checkpoint stood for it."""
        self.count: Counter[str] = Counter()
        self.told = 0

    def opened(self, window: int, **options: Any) -> ContextManager:
        plain = {"session_id": "s", "format": self.wire, "tokenizer": TOKENIZER}
        return ContextManager(window=window, store=self.store, **{**plain, **options})

    def talk(self) -> None:
        self.r.choice(self.events)(self.writer, self.r.choice(self.sizes))
        self.ctx.add_messages(self.writer.made.messages[self.told :])
        self.told = len(self.writer.made.messages)

    def compressed(self, times: int) -> Iterator[list[dict[str, Any]]]:
        """Goes on until it was compressed so many times more; each prompt after one."""
        last = self.ctx.compressions
        end = last + times
        for _ in range(400 * times):
            if self.ctx.compressions >= end:
                return
            self.talk()
            prompt = self.ctx.get_context_for_model()
            if self.ctx.compressions > last:
                last = self.ctx.compressions
                yield prompt
        raise AssertionError(f"not compressed {times} times more: {self.ctx.compressions}")

    def room_of(self, c: Checkpoint, known: Mapping[str, Checkpoint]) -> int:
        """The most tokens that a checkpoint may have: a new one up to half of what all may have;
        one that only took over what was kept, what it had before; a rewritten one its level's cap.
        """
        usable, parents = self.ctx.window.usable, [known[p] for p in c.parents]
        cap, written = cap_of(c.level, usable), known[c.id].level
        if c.level == written and not parents:
            return max(cap, int(TOGETHER * usable) // 2)
        if c.level == written and len(parents) == 1 and parents[0].level == written:
            return max(cap, parents[0].token_count)
        return cap

    def record_faults(self, prompt: list[dict[str, Any]]) -> list[str]:
        """The standing record stands once; it and the stories take more than their shares only of
        what the target leaves.
        """
        texts = [text for message in prompt for text in checker.visible(message)]
        shown = [message.text for message in self.ctx.active_context().messages]
        records = [text for text in shown if text.startswith("[Record ")]
        if len(records) != 1 or "\n".join(texts).count(records[0].partition("\n")[0]) != 1:
            return [f"{len(records)} records"]
        usable, size = self.ctx.window.usable, checker.tokens(records[0])
        stories = sum(c.token_count for c in self.ctx.checkpoints)
        if (
            size + stories > (RECORD + TOGETHER) * usable
            and checker.prompt_tokens(prompt) > self.ctx.window.target
        ):
            return [f"a record of {size} in a prompt of {checker.prompt_tokens(prompt)} tokens"]
        return []

    def faults(self) -> list[str]:
        """What checkpoints in view break of what is promised of them."""
        ctx, found = self.ctx, cover_faults(self.ctx)
        usable, number, known = ctx.window.usable, ctx.compressions, self.ever()
        for c in ctx.checkpoints:
            level = ORDER.index(c.level)
            size = checker.prompt_tokens([{"role": "user", "content": c.text(NOBODYS)}])
            if size != c.token_count:
                found.append(f"{c.id} says {c.token_count} tokens and has {size}")
            if size > (room := self.room_of(c, known)):
                found.append(f"{c.id} ({c.level}) has {size} of {room} tokens")
            due = max(i for i, x in enumerate(ORDER) if number - c.number >= SCHEDULE[x])
            if level < due:
                found.append(f"{c.id} of {c.number} is {c.level} at {number}")
            self.count["early"] += level > due
            self.count[c.level] += 1
            went_back = [p for p in c.covered() if level < self.levels.get(p, 0)]
            if went_back:
                found.append(f"{c.id} ({c.level}) goes back at {went_back[:5]}")
            self.levels.update(dict.fromkeys(c.covered(), level))
            found += [f"{c.id} lacks {a}" for a in c.anchors if a not in c.summary]
        together = sum(c.token_count for c in ctx.checkpoints)
        if together > TOGETHER * usable:
            found.append(f"together {together} of {TOGETHER * usable:.0f} tokens")
        return found

    def ever(self) -> dict[str, Checkpoint]:
        """All checkpoints there ever were."""
        return {c.id: c for c in self.store.checkpoints("s")}


def lived(life: Life, compressions: int) -> None:
    """Compress so often; after each all rules hold, and a session opened anew sees the same."""
    window = life.ctx.window.size
    for prompt in life.compressed(compressions):
        faults = life.faults() + life.record_faults(prompt)
        faults += checker.broken_rules(prompt, life.wire)
        assert not faults, faults[:5]
        assert checker.prompt_tokens(prompt) <= life.ctx.window.usable
        shown = [text for message in prompt for text in checker.visible(message)]
        shown.append(life.ctx.active_context().system_text)
        assert all(any(goal in text for text in shown) for goal in GOALS)
        again = life.opened(window)
        assert again.checkpoints == life.ctx.checkpoints
        assert [g.text for g in again.goals] == list(GOALS)
    assert life.count["merged"] >= compressions - SCHEDULE["merged"]
    by_code = all(TOLD_IN_RECORD in c.body for c in life.ctx.checkpoints)
    assert by_code or life.count["early"], "there was pressure, too"
    known, reached = life.ever(), set[str]()
    left = [c.id for c in life.ctx.checkpoints]
    while left:
        name = left.pop()
        reached.add(name)
        left += [p for p in known[name].parents if p not in reached]
    assert reached == known.keys(), "each is in view, or what is in view was made of it"
    for c in life.r.sample(sorted(known.values(), key=lambda c: c.id), 8):
        brought = life.ctx.expand(c.id).messages
        assert [m.id for m in brought] == [life.ctx.history[i].id for i in c.covered()]
        for parent in c.parents:
            assert {*known[parent].covered()} <= {*c.covered()}
            assert known[parent].span.last <= c.span.last


LIVES = [(4_096, 2), (16_384, 2), (8_192, 1), (32_768, 1)]
"""Windows in tokens, and the first seed of each. By day the first two are lived."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", EVENTS)
@pytest.mark.parametrize("number", range(size(1, 11)))
@pytest.mark.parametrize(("window", "first"), LIVES[: size(2, 4)])
def test_checkpoints_keep_their_promises_over_many_compressions(
    window: int, first: int, kind: str, number: int
) -> None:
    """Levels go one way, by schedule or earlier; each is within its cap, and all and the record
    within theirs; their spans cover what is before the cut once; goals stay; parents reach every
    older one (FR-4, C-8).
    """
    lived(Life(window, seed=seed(first + number), kind=kind), size(13, 60))


@pytest.mark.slow
def test_checkpoints_of_a_large_window_keep_their_promises() -> None:
    """Where shares of the window are what counts (FR-4)."""
    lived(Life(128_000), size(8, 30))


@pytest.mark.slow
def test_a_short_summary_is_shown_unchanged_until_it_is_merged() -> None:
    """Its level follows the schedule to the compression, its words stay (FR-4, stable bytes)."""
    ctx = ContextManager(window=16_384, tokenizer=TOKENIZER)
    ctx.add_message(role="user", content="See whether the roof holds, beam by beam.")
    first: dict[str, int] = {}
    for beam in range(600):
        function = {"name": "look", "arguments": f'{{"beam": {beam}}}'}
        call = {"id": f"c{beam}", "type": "function", "function": function}
        ctx.add_message({"role": "assistant", "content": None, "tool_calls": [call]})
        text = "It holds. " * 150
        ctx.add_message({"role": "tool", "tool_call_id": call["id"], "content": text})
        ctx.get_context_for_model()
        number = ctx.compressions
        for c in ctx.checkpoints:
            if len(c.parents) < 2 and c.level != "merged":
                assert first.setdefault(c.id, number) == c.number, "as it was made"
                due = max(i for i, x in enumerate(ORDER) if number - c.number >= SCHEDULE[x])
                assert c.level == ORDER[due]
        if number == 16:
            break
    assert ctx.checkpoints[0].level == "merged"
    assert sorted(first.values()) == list(range(min(first.values()), 17)), "one each"
    assert len(first) > 11
    assert len(ctx.checkpoints) == 11, "one merged one, and ten that are younger"


@pytest.mark.slow
def test_merging_unites_spans_and_parents() -> None:
    """What is merged stands for all that its parents stood for, and uses its room (FR-4)."""
    life = Life(32_768)
    merges = 0
    for _ in life.compressed(24):
        known = life.ever()
        for c in life.ctx.checkpoints:
            parents = [known[p] for p in c.parents]
            if len(parents) < 2:
                continue
            merges += 1
            assert c.level == "merged"
            assert c.covered() == sorted(p for parent in parents for p in parent.covered())
            assert c.span.first == parents[0].span.first
            assert c.span.last == parents[-1].span.last
            assert c.span.tokens == sum(parent.span.tokens or 0 for parent in parents)
            assert c.number == max(parent.number for parent in parents)
            assert not {p.id for p in parents} & {x.id for x in life.ctx.checkpoints}
            size = checker.tokens(c.summary)
            assert size >= 0.4 * min(c.token_count, cap_of("merged", life.ctx.window.usable) / 2)
    assert merges > 5


class Recorded(ScriptedSummarizer):
    """Writes what extraction would, and notes what it was asked for."""

    async def summarize(self, request: SummaryRequest) -> Summary:
        self.requests.append(request)
        counter = token_counter("chat_completions", tokenizer=TOKENIZER)
        return ExtractiveSummarizer(counter).extracted(request)


@pytest.mark.slow
def test_an_aged_one_is_written_from_history_while_that_can_be_read() -> None:
    """Its messages where they are at most two windows, else the checkpoints it takes the place of,
    the merged one before among them (FR-4, decision 013).
    """
    summarizer = Recorded("")
    life = Life(16_384, summarizer=summarizer)
    seen: Counter[str] = Counter()
    for _ in life.compressed(40):
        usable, known = life.ctx.window.usable, life.ever()
        asked, summarizer.requests = summarizer.requests, []
        for request in asked:
            most = cap_of(request.level, usable)
            if request.level == "detailed":
                most = max(most, int(TOGETHER * usable) // 2)
            assert request.max_tokens <= most
            from_checkpoints = [known[m.id] for m in request.messages if m.id in known]
            if request.level == "detailed":
                assert not from_checkpoints
            elif from_checkpoints:
                assert len(from_checkpoints) == len(request.messages)
                assert [m.text for m in request.messages] == [
                    c.text(life.ctx.history.own) for c in from_checkpoints
                ]
                assert sum(c.span.tokens or 0 for c in from_checkpoints) > 2 * usable
                seen[f"{request.level} from checkpoints"] += 1
            else:
                size = sum(map(life.ctx.history.counter.message, request.messages))
                assert size <= 2 * usable
                positions = [life.ctx.history.position_of(m.id) for m in request.messages]
                sources = [c.covered() for c in known.values() if c.covered() == positions]
                assert sources or request.level == "merged", "all of one checkpoint's messages"
                seen[f"{request.level} from history"] += 1
    assert seen["moderate from history"] > 3, seen
    assert seen["compact from history"] > 0, seen  # how many, is chance
    assert seen["merged from checkpoints"] > 3, seen
    assert not seen["moderate from checkpoints"], seen


@pytest.mark.slow
def test_in_another_window_checkpoints_go_on_ageing() -> None:
    """What it takes over keeps its age, also once the session is opened again (FR-4, US-5)."""
    life = Life(16_384)
    for _ in life.compressed(12):
        assert not life.faults()
    numbers = [c.number for c in life.ctx.checkpoints]
    life.ctx = life.opened(32_768)
    taken = {c.id for c in life.ctx.checkpoints}
    assert not taken
    for _ in life.compressed(1):
        taken = {c.id for c in life.ctx.checkpoints} & life.ever().keys()
    *kept, new = [c.number for c in life.ctx.checkpoints]
    assert new == 13
    assert len(kept) > 1
    assert kept == [n for n in numbers if n in kept], "the merged one has a newer number"
    assert life.ctx.compressions == 13
    assert life.opened(32_768).checkpoints == life.ctx.checkpoints
    for _ in life.compressed(11):
        faults = life.faults()
        assert not faults, faults[:5]
    assert not taken & {c.id for c in life.ctx.checkpoints if c.level != "merged"}

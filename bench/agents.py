"""Runs of the OpenAI Agents SDK over real tool sessions: what each way to keep a window sends.

Before each answer of a real session, each way makes the input of the call: the SDK's session alone,
its `ToolOutputTrimmer`, its compaction session, and `before_model_call`. The trimmer has the one of
`SETTINGS` that makes the fewest inputs too large, and of those covers the most. The compaction
session asks OpenAI's server, which is not here: a stand-in answers as that one is documented to,
with the user's messages and one item in the place of the others; it holds their newest text, about
`SUMMARY` tokens, in the clear. It is asked whenever a turn ends above the trigger, as often as the
SDK allows: never within a turn.

Coverage: of the names in the arguments of each call of a tool that the session has said before, the
share that the input of that call still has.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from types import ModuleType, SimpleNamespace
from typing import Any

from bench.measuring import CannotMeasure, Check, Setting, Table, number
from compact.config import CompactConfig
from compact.messages.formats.known import format_named
from compact.messages.tokens import TokenCounter
from compact.session.compact_manager import CompactManager
from compact.wiring import read_transcript, token_counter
from evals import data
from evals.split import half_of

Item = dict[str, Any]
Prompt = Callable[[list[Item], bool], Awaitable[list[Item]]]
"""Makes the input of a call of all items so far; whether a person has just spoken."""
WINDOW = 32_000
TRIGGER, SUMMARY = 24_000, 4_000
"""Tokens from which the compaction session is asked, and what its answer holds beside the user's
messages."""
SETTINGS = tuple(product((1, 2, 4), ((200, 100), (500, 200), (2_000, 500))))
"""Of the trimmer: recent turns; most characters of an output, and those of its preview."""
SESSIONS, MOST_ITEMS = 6, 600
SYSTEM = "You are a careful software agent. Keep to the user's rules, and answer briefly."


@dataclass(slots=True)
class Way:
    """One way, and what it sent."""

    name: str
    calls: int = 0
    too_large: int = 0
    sent: int = 0
    uncached: int = 0
    needed: int = 0
    found: int = 0
    taken: int = 0
    """Of those found, in inputs that are not too large."""
    ms: list[float] = field(default_factory=list)

    @property
    def coverage(self) -> float:
        return self.found / max(1, self.needed)

    @property
    def coverage_taken(self) -> float:
        """The same where an input that is too large shows nothing, as it is refused."""
        return self.taken / max(1, self.needed)


class Counter:
    """Tokens of items, each counted once."""

    def __init__(self) -> None:
        self._counter: TokenCounter = token_counter("responses", tokenizer="o200k")
        self._wire = format_named("responses")
        self._known: dict[str, int] = {}

    def __call__(self, items: Sequence[Item]) -> int:
        return sum(map(self._one, items))

    def _one(self, item: Item) -> int:
        key = json.dumps(item, sort_keys=True)
        if key not in self._known:
            self._known[key] = self._counter.message(self._wire.parse(item, 0))
        return self._known[key]


def measure(setting: Setting) -> list[Table]:
    """The ways beside each other, over sessions that are looked at."""
    try:
        import agents  # noqa: F401
    except ImportError:
        raise CannotMeasure("the OpenAI Agents SDK is not installed") from None
    try:
        folder = data.folder()
        tool = data.measure(folder)
    except data.NoData as reason:
        raise CannotMeasure(str(reason)) from None
    paths = [p for p in data.every_claude_code_session(folder) if half_of(p.stem) == "look"]
    paths = paths[: 2 if setting.quick else SESSIONS]
    sessions = [_items(read_transcript(path).messages) for path in paths]
    return [asyncio.run(_beside_each_other(sessions, tool))]


def _items(messages: Sequence[Any]) -> list[Item]:
    """A session as items of the Responses API."""
    items = format_named("responses").render([m for m in messages if m.role != "system"])
    return [item for item in items if item.get("content") != ""][:MOST_ITEMS]


async def _beside_each_other(sessions: Sequence[list[Item]], tool: ModuleType) -> Table:
    count = Counter()
    ways = [Way("the SDK's session alone"), Way("its compaction session"), Way("compact")]
    makers: list[Callable[[], Prompt]] = [_alone, partial(_compacted, count), _ours]
    trimmed = [Way(_trimmer_name(*each)) for each in SETTINGS]
    for session in sessions:
        for way, make in zip(ways, makers, strict=True):
            await _gone_through(way, make(), session, tool, count)
        for way, each in zip(trimmed, SETTINGS, strict=True):
            await _gone_through(way, _trimmed(*each), session, tool, count)
    best = min(trimmed, key=lambda way: (way.too_large, -way.coverage))
    table = Table(
        f"Agents SDK: {len(sessions)} real tool sessions, window {WINDOW:,}",
        ("way", "calls", "too large", "tokens sent", "uncached", "coverage of what is used again",
         "refused inputs as nothing", "CPU ms a call, median", "most"),
        notes=["Uncached: from the first item that the input before did not have in its place."],
    )  # fmt: skip
    for way in (ways[0], best, *ways[1:]):
        ms = sorted(way.ms)
        table.rows.append(
            (
                way.name,
                f"{way.calls:,}",
                f"{way.too_large:,}",
                f"{way.sent:,}",
                f"{way.uncached:,}",
                f"{way.coverage:.3f}",
                f"{way.coverage_taken:.3f}",
                number(ms[len(ms) // 2]),
                number(ms[-1]),
            )
        )
    table.checks.append(Check("inputs of compact that are too large", ways[2].too_large, 0))
    return table


async def _gone_through(
    way: Way, prompt: Prompt, session: Sequence[Item], tool: ModuleType, count: Counter
) -> None:
    """All calls of a session by one way."""
    said: set[str] = set()
    before: list[Item] = []
    for at, item in enumerate(session):
        if item.get("type") == "function_call" or _is_answer(item):
            starts = not at or session[at - 1].get("role") == "user"
            if at and (_is_answer(session[at - 1]) or _is_call(session[at - 1])):
                said |= _names(tool, item)  # of the reply that was asked for already
                continue
            started = time.process_time()
            sent = await prompt(list(session[:at]), starts)
            way.ms.append((time.process_time() - started) * 1e3)
            size = count(sent)
            same = _common(before, sent)
            way.calls += 1
            way.too_large += size > WINDOW
            way.sent += size
            way.uncached += count(sent[same:])
            needed = _names(tool, item) & said if _is_call(item) else set()
            shown = set().union(*(_names(tool, each) for each in sent)) if needed else set()
            way.needed += len(needed)
            way.found += len(needed & shown)
            way.taken += len(needed & shown) * (size <= WINDOW)
            before = sent
        said |= _names(tool, item)


def _is_answer(item: Item) -> bool:
    return item.get("role") == "assistant"


def _is_call(item: Item) -> bool:
    return item.get("type") == "function_call"


_named: dict[str, frozenset[str]] = {}


def _names(tool: ModuleType, item: Item) -> frozenset[str]:
    """What an item names, and the last parts of paths."""
    text = json.dumps([item.get(key) for key in ("content", "arguments", "output")])
    if text not in _named:
        found = tool.anchors(text.replace("\\n", "\n").replace('\\"', '"'))
        _named[text] = frozenset(found)
    return _named[text]


def _common(one: Sequence[Item], other: Sequence[Item]) -> int:
    """How many items both begin with."""
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    return same


# --- the ways -------------------------------------------------------------------------------------


def _alone() -> Prompt:
    async def prompt(items: list[Item], starts: bool) -> list[Item]:
        return items

    return prompt


def _trimmer_name(turns: int, characters: tuple[int, int]) -> str:
    most, preview = characters
    return f"its ToolOutputTrimmer ({turns} recent turns, {most} characters, {preview} shown)"


def _trimmed(turns: int, characters: tuple[int, int]) -> Prompt:
    from agents.extensions import ToolOutputTrimmer

    most, preview = characters
    trimmer = ToolOutputTrimmer(
        recent_turns=turns, max_output_chars=most, preview_chars=preview, trimmable_tools=None
    )

    async def prompt(items: list[Item], starts: bool) -> list[Item]:
        return list(trimmer(_asked(items)).input)  # type: ignore[arg-type]

    return prompt


def _asked(items: list[Item]) -> Any:  # noqa: ANN401 - the SDK's own
    from agents import Agent
    from agents.run_config import CallModelData, ModelInputData

    data = ModelInputData(input=items, instructions=SYSTEM)  # type: ignore[arg-type]
    return CallModelData(model_data=data, agent=Agent(name="agent"), context=None)


def _compacted(count: Counter) -> Prompt:
    """With the SDK's own class, and a server that answers as it is documented to."""
    from agents import SQLiteSession
    from agents.memory import OpenAIResponsesCompactionSession

    async def compact(*, input: list[Item], **_: object) -> object:
        users = [item for item in input if item.get("role") == "user"]
        rest = [item for item in input if item.get("role") != "user"]
        kept: list[str] = []
        while rest and count([_summary(kept)]) < SUMMARY:
            kept.insert(0, json.dumps(rest.pop(), ensure_ascii=False))
        return SimpleNamespace(output=[*users, _summary(kept[1:])], usage=None)

    client: Any = SimpleNamespace(responses=SimpleNamespace(compact=compact))
    session = OpenAIResponsesCompactionSession(
        "s", SQLiteSession("s"), client=client, compaction_mode="input"
    )
    stored = 0

    async def prompt(items: list[Item], starts: bool) -> list[Item]:
        nonlocal stored
        if starts and count(await session.get_items()) > TRIGGER:  # type: ignore[arg-type]
            await session.run_compaction({"force": True})
        await session.add_items(items[stored:])  # type: ignore[arg-type]
        stored = len(items)
        return await session.get_items()  # type: ignore[return-value]

    return prompt


def _summary(kept: Sequence[str]) -> Item:
    part = {"type": "output_text", "text": "\n".join(kept), "annotations": []}
    return {"type": "message", "role": "assistant", "status": "completed", "content": [part]}


def _ours() -> Prompt:
    from compact.integrations.openai_agents import before_model_call

    manager = CompactManager(CompactConfig(max_context_tokens=WINDOW, tokenizer="o200k"))
    ask: Any = before_model_call(manager, "s")

    async def prompt(items: list[Item], starts: bool) -> list[Item]:
        found = await ask(_asked(items))
        return list(found.input)

    return prompt

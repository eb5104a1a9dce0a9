"""`CompactSession`: items come back as they were added, whatever happened in between (K-9)."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from agents.memory import Session
from agents.memory.session import is_openai_responses_compaction_aware_session
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.responses import ResponseFunctionToolCall

from compact import CompactManager, ContextManager
from compact.errors import InvalidMessage, ServerHeldState, StoreFailed
from compact.integrations.openai_agents import CompactSession, mark_protected
from compact.store.inmemory import InMemoryStore
from tests.integrations.scripts import CONFIG, RULE, talk
from tests.sizes import size

Item = dict[str, Any]

TEXTS = st.sampled_from(
    ("", "Hello.", "Hello.", "请检查", "\ud83d\ude00 smile", "a\u0000b", "x " * 300)
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 2**53) | st.floats(-1, 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
MARKS = st.sampled_from(
    (
        {},
        {"pinned": True},
        {"protected": True},
        {"pinned": False},
        {"pinned": None, "important": True},
        {"tags": ["lamp"]},
        {"source": "injected", "mine": {"deep": [1, None]}},
    )
)
IDS = st.sampled_from(("a", "b", "c"))


@st.composite
def items(draw: st.DrawFn) -> Item:
    kind = draw(st.sampled_from(("words", "parts", "call", "output", "reasoning", "unknown")))
    if kind == "words":
        role = draw(st.sampled_from(("user", "assistant", "developer", "system")))
        item: Item = {"role": role, "content": draw(TEXTS)}
    elif kind == "parts":
        part = {"type": "output_text", "text": draw(TEXTS), "annotations": []}
        item = {"type": "message", "role": "assistant", "content": [part, part]}
    elif kind == "call":
        item = {"type": "function_call", "call_id": draw(IDS), "name": "look", "arguments": "{}"}
    elif kind == "output":
        said = draw(st.sampled_from(("sound", [{"type": "input_text", "text": "sound"}])))
        item = {"type": "function_call_output", "call_id": draw(IDS), "output": said}
    elif kind == "reasoning":
        item = {"type": "reasoning", "summary": [], "encrypted_content": draw(TEXTS)}
    else:
        item = {"type": "web_search_call", "action": draw(VALUES)}
    if draw(st.booleans()):
        item["id"] = draw(IDS)
    if draw(st.integers(0, 3)) == 0:
        item["metadata"] = draw(MARKS)
    if draw(st.integers(0, 9)) == 0:
        item["status"] = draw(VALUES)
    return item


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(items(), max_size=4)),
        st.tuples(st.just("add"), st.lists(items(), max_size=4)),
        st.tuples(st.just("pop"), st.integers(1, 3)),
        st.tuples(st.just("clear"), st.none()),
        st.tuples(st.just("call"), st.lists(items(), max_size=2)),
        st.tuples(st.just("other_call"), st.lists(items(), max_size=3)),
        st.tuples(st.just("again"), st.none()),
    ),
    max_size=12,
)


class Played:
    """A session in which is done what the SDK does, held to a list."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.kept: list[Item] = []
        self.ever: list[Item] = []
        self.manager = CompactManager(CONFIG, store=store)
        self.session: Any = CompactSession("s", self.manager)

    async def add(self, items: list[Item]) -> None:
        await self.session.add_items(copy.deepcopy(items))
        self.kept += items
        self.ever += items

    async def pop(self, count: int) -> None:
        for _ in range(count):
            assert await self.session.pop_item() == (self.kept.pop() if self.kept else None)

    async def clear(self, _: None) -> None:
        await self.session.clear_session()
        self.kept.clear()

    async def call(self, items: list[Item]) -> None:
        """The filter sees what is added next before it is."""
        await self.manager.apreflight("s", copy.deepcopy(self.kept + items))
        await self.add(items)

    async def other_call(self, items: list[Item]) -> None:
        """Of an agent that is a tool, or with items that were changed."""
        await self.manager.apreflight("s", copy.deepcopy(items))

    async def again(self, _: None) -> None:
        if not isinstance(self.store, InMemoryStore):
            self.manager.close()
            self.manager = CompactManager(CONFIG, store=self.store)
        self.session = CompactSession("s", self.manager)

    async def check(self) -> None:
        assert await self.session.get_items() == self.kept
        assert await self.session.get_items(2) == self.kept[-2:]
        assert await self.session.get_items(0) == []


async def played(steps: Sequence[tuple[str, Any]], store: Any) -> None:
    session = Played(store)
    for step, what in steps:
        await getattr(session, step)(what)
        await session.check()
    stored = [
        repr(entry.message.wire)
        for branch in session.manager.store.branches("s")
        for entry in session.manager.store.read(branch.id, 0, branch.messages)
    ]
    assert all(repr(unmarked(item)) in stored for item in session.ever), "nothing is lost"
    session.manager.close()


def unmarked(item: Item) -> Item:
    return {k: v for k, v in item.items() if k != "metadata"}


unhurried = settings(
    max_examples=size(15, 1_000), deadline=None, suppress_health_check=list(HealthCheck)
)


@given(STEPS)
@unhurried
def test_items_come_back_as_they_were_added(steps: Sequence[tuple[str, Any]]) -> None:
    asyncio.run(played(steps, InMemoryStore()))


@given(STEPS)
@unhurried
def test_items_come_back_from_a_file(steps: Sequence[tuple[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(played(steps, str(Path(folder) / "s.db")))


def test_it_is_a_session_of_the_sdk() -> None:
    session = CompactSession("s")
    assert isinstance(session, Session)
    assert is_openai_responses_compaction_aware_session(session)
    session.close()


def test_a_file_is_enough(tmp_path: Path) -> None:
    """Runs without the filter; what another program has said there is read too."""
    file = tmp_path / "s.db"
    with ContextManager(store=file, session_id="s") as ctx:
        ctx.add_messages([{"role": "user", "content": "Hello."}])

    async def used() -> list[Any]:
        session: Any = CompactSession("s", file)
        await session.add_items([{"role": "assistant", "content": "Good day."}])
        session.close()
        again = CompactSession("s", str(file))
        found = await again.get_items()
        again.close()
        return found

    assert asyncio.run(used()) == [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Good day."},
    ]


def test_what_the_sdk_adds_and_the_filter_shows_is_stored_once() -> None:
    """Also where items are popped and added again, as the SDK does before it asks once more."""

    async def used(manager: CompactManager) -> None:
        session: Any = CompactSession("s", manager)
        for item in talk(0, 40):
            given: list[Any] = [*await session.get_items(), item]
            await manager.apreflight("s", given)
            await session.add_items([item])
            await session.pop_item()
            await session.add_items([item])
            await session.add_items([])

    with CompactManager(CONFIG) as manager:
        asyncio.run(used(manager))
        ctx = manager.session("s")
        assert (len(ctx.history), len(ctx.time.branches())) == (80, 1)
        assert ctx.compressions > 0


def test_goals_follow_what_is_added() -> None:
    """An answer that the SDK adds before the filter sees it counts as said."""
    with CompactManager(CONFIG) as manager:
        answer: Any = {"role": "assistant", "content": "[GOAL] Light every lamp"}
        session: Any = CompactSession("s", manager)
        asyncio.run(session.add_items([{"role": "user", "content": "Begin."}, answer]))
        assert [goal.text for goal in manager.session("s").goals] == ["Light every lamp"]


def test_compaction_on_demand() -> None:
    """Of the next call; the items stay. The SDK's own question after each answer does nothing."""

    async def used(manager: CompactManager) -> None:
        session: Any = CompactSession("s", manager)
        added: list[Any] = [mark_protected(RULE), *talk(0, 20)]
        await session.add_items(added)
        before = manager.session("s").budget.used_tokens
        await session.run_compaction({"response_id": "r"})
        await session.run_compaction()
        assert manager.session("s").budget.used_tokens == before
        await session.run_compaction({"force": True})
        assert manager.session("s").budget.used_tokens < 0.6 * before
        assert await session.get_items() == added
        sent = await manager.apreflight("s", await session.get_items())
        assert RULE in str(sent)
        assert len(sent) < len(added)

    with CompactManager(CONFIG) as manager:
        asyncio.run(used(manager))


def test_what_cannot_be_kept_is_refused_whole() -> None:
    """All of the items or none; the error names the place."""

    class Full(InMemoryStore):
        def append(self, *arguments: Any, **named: Any) -> int:
            raise StoreFailed("there is no room")

    async def used(session: Any) -> None:
        good: Any = {"role": "user", "content": "Hello."}
        call: Any = {"type": "function_call", "name": "look", "arguments": "{}"}
        nothing: Any = {"type": "function_call_output", "call_id": "c", "output": float("nan")}
        reference: Any = {"type": "item_reference", "id": "msg_1"}
        for wrong in (call, nothing):
            with pytest.raises(InvalidMessage, match=r"\[1\]"):
                await session.add_items([good, wrong])
        with pytest.raises(ServerHeldState):
            await session.add_items([good, reference])
        assert await session.get_items() == []
        thing: Any = ResponseFunctionToolCall(
            type="function_call", call_id="c", name="look", arguments="{}"
        )
        await session.add_items([thing])
        assert await session.get_items() == [thing.model_dump(exclude_unset=True)]

    with CompactManager(CONFIG) as manager:
        asyncio.run(used(CompactSession("s", manager)))
    hello: Any = [{"role": "user", "content": "Hi."}]
    with CompactManager(CONFIG, store=Full()) as manager, pytest.raises(StoreFailed):
        asyncio.run(CompactSession("s", manager).add_items(hello))

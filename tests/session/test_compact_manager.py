"""`CompactManager`: the list that a program resends at every turn, fitted (K-6, C-9)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compact import CompactConfig, CompactManager, ContextManager, InvalidArgument, Message
from compact.engine import pipeline
from compact.errors import BlockingCallInLoop, InvalidMessage
from compact.messages.events import BranchTaken, ErrorRaised, Event, TriggerDecision
from compact.messages.formats.known import FORMATS, format_named
from compact.messages.policy import Strategy
from compact.session import compact_manager, resent_list
from compact.store.inmemory import InMemoryStore
from compact.telemetry.plain_words import without_content
from compact.testing.fakes import ScriptedSummarizer
from tests import checker
from tests.doors.talking import verbatim
from tests.session.asking import Failing
from tests.session.resending import Program, own_words
from tests.sizes import seed, size
from tests.strategies import Writer, prose, question, tool_step, turn, twice

Dict = dict[str, Any]
WINDOW = 4_096
SMALL = 2_048
ROUNDS = 20
"""Compressions of a random session."""
MOST_PINNED = 10
"""Pins of a random session, about."""
CONFIG = CompactConfig(max_context_tokens=WINDOW, tokenizer="o200k")
TOOL: Dict = {
    "type": "function",
    "function": {
        "name": "measure",
        "description": "Measures a beam in millimetres. " * 20,
        "parameters": {"type": "object", "properties": {"beam": {"type": "string"}}},
    },
}


def talk(first: int, stop: int) -> list[Dict]:
    """Turns, each of about a hundred tokens."""
    made: list[Dict] = []
    for i in range(first, stop):
        made.append({"role": "user", "content": f"{i}: is beam {i} sound? " + "It creaks. " * 20})
        made.append({"role": "assistant", "content": f"Beam {i} is sound. " + "It holds. " * 20})
    return made


def turns(number: int, wire: str) -> Iterator[list[Dict]]:
    """A session as a program sends it before each call of a model: whole, a little longer each
    time, without end. Many of its messages are word for word the same.
    """
    w = Writer("anthropic" if wire == "anthropic" else "chat_completions", number, (prose,))
    made = w.made.messages
    w.system("You repair roofs.")
    given: list[Dict] = []
    written = 0
    while True:
        if len(made) < MOST_PINNED * 10 and w.r.random() < 0.1:
            pinned = {"metadata": {"pinned": True}}
            w.person(f"Beam {len(made)} is rotten.", **pinned)
        else:
            w.r.choice((question, turn, tool_step, twice))(w, w.r.choice((10, 60, 200)))
        if made[-1]["role"] == "assistant":
            w.person("And then?")
        given += in_format(wire, made[written:])
        written = len(made)
        yield list(given)


def in_format(name: str, messages: list[Dict]) -> Iterator[Dict]:
    """Messages of chat completions, or already in it, in that format; pins stay pins."""
    if name in ("anthropic", "chat_completions"):
        yield from messages
        return
    chat, wire = format_named("chat_completions"), format_named(name)
    for message in messages:
        marks = {key: message[key] for key in ("metadata",) if key in message}
        for item in wire.render([chat.parse(message, 0)]):
            yield {**item, **marks}


@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize("number", range(size(2, 250)))
def test_every_turn_fits_and_keeps_what_was_sent(number: int, wire: str) -> None:
    """K-6: what is sent fits, is valid, shows pins and the newest words, and begins as the prompt
    before it, unless something was compressed in between; one summary stands for a span."""
    strategies: tuple[Strategy, ...] = ("task_state", "off")  # every other one has no summaries
    with Program(wire, SMALL, strategy=strategies[number % 2]) as program:
        for given in turns(seed(number), wire):
            fixed = [i for i, m in enumerate(given) if "metadata" in m or m.get("role") == "system"]
            newest = [i for i, m in enumerate(given) if m.get("role") == "user" and own_words(m)]
            sent = program.resend(given, (*fixed, *newest[-1:]))
            assert sent is not None
            assert checker.key_of(sent[-1]) == checker.key_of(given[-1])
            assert program.manager.preflight("s", given) == sent
            if program.count["compactions"] >= ROUNDS:
                break
        program.end(given)
        assert program.count["identical messages"]


def test_what_is_sent_beside_the_messages_counts() -> None:
    """FR-3: a system prompt in its own field, and tools; other ones at the next call."""
    with CompactManager(CONFIG) as manager:
        messages = talk(0, 12)
        alone = manager.preflight("s", messages)
        assert alone == messages
        beside = manager.preflight("s", messages, tools=[TOOL] * 10)
        assert len(beside) < len(alone)
        ctx = manager.session("s")
        assert ctx.active_context().tools == (TOOL,) * 10
        manager.preflight("s", messages, system_prompt="You repair roofs.")
        assert ctx.active_context().tools == ()
        assert ctx.active_context().system == "You repair roofs."
        with pytest.raises(InvalidArgument, match=r"tools\[0\]"):
            manager.preflight("s", messages, tools=[{"function": 7}])


def test_a_session_that_was_opened_without_a_model_is_for_the_first_that_it_is_used_with() -> None:
    """C-9: compressing by hand is for that model's window too."""
    with CompactManager() as manager:
        assert manager.session("s").window.size == 8_192
        messages = talk(0, 120)
        assert manager.preflight("s", messages, model="gpt-4o") == messages
        assert manager.session("s").window.size == 128_000
        assert len(manager.manual_compact("s", messages)) < len(messages)
        assert len(manager.preflight("s", messages, model="gpt-4o")) < len(messages)


def test_the_messages_come_back_as_they_were_given() -> None:
    """Dictionaries in their own format, values as values; nothing as nothing."""
    with CompactManager(CONFIG) as manager:
        assert manager.preflight("none", []) == []
        values = [Message.of(m) for m in talk(0, 40)]
        sent = manager.preflight("values", values)
        assert {type(m) for m in sent} == {Message}
        assert sent[-1].text == values[-1].text
        items = [{"role": "user", "content": [{"type": "input_text", "text": "Look."}]}]
        assert manager.preflight("items", items) == items
        blocks = [{"role": "user", "content": [{"type": "text", "text": "Look."}]}]
        assert manager.preflight("blocks", blocks) == blocks
        with pytest.raises(InvalidMessage, match=r"messages\[1\]"):
            manager.preflight("wrong", [*talk(0, 1)[:1], {"role": "nobody", "content": 1}])


def test_a_list_with_nothing_new_is_neither_counted_nor_stored_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same list again costs a digest of it, before and after a compression."""
    store, counted = InMemoryStore(), 0

    class Counting:
        name, exact = "counting", False

        def count(self, text: str) -> int:
            nonlocal counted
            counted += 1
            return len(text.split())

    def stored() -> tuple[Any, ...]:
        return store.branches("s"), store.notes("s"), list(store.moves("s", most=99))

    with CompactManager(CONFIG, store=store, tokenizer=Counting()) as manager:
        for stop in (10, 60):
            messages = talk(0, stop)
            sent = manager.preflight("s", messages)
            before, kept = counted, stored()
            with monkeypatch.context() as without:
                without.delattr(resent_list, "recognized")
                for _ in range(5):
                    assert manager.preflight("s", messages) == sent
            assert (counted, stored()) == (before, kept)
        assert manager.session("s").compressions == 1


def test_an_edited_past_is_a_branch() -> None:
    seen: list[Event] = []
    with CompactManager(CONFIG, on_event=seen.append) as manager:
        manager.preflight("s", talk(0, 3))
        edited = [*talk(0, 1), {"role": "user", "content": "Something else?"}]
        assert manager.preflight("s", edited) == edited
        assert len(manager.session("s").time.branches()) == 2
    assert [e.session_id for e in seen if isinstance(e, BranchTaken)] == ["s"]


def test_a_session_goes_on_after_a_restart(tmp_path: Path) -> None:
    """Nothing is stored twice, and the prompt is the same."""
    messages = talk(0, 60)
    config = CompactConfig(max_context_tokens=WINDOW, store=str(tmp_path / "kit.db"))
    with CompactManager(config) as manager:
        sent = manager.preflight("s", messages)
        assert manager.session("s").compressions == 1
    with CompactManager(config) as manager:
        assert manager.preflight("s", messages) == sent
        assert len(manager.session("s").history) == len(messages)
        assert manager.preflight("s", talk(0, 61))[:-2] == sent


def test_a_store_that_fails_fails_no_call() -> None:
    """K-6: the list is shortened without the session; an event says so."""
    seen: list[Event] = []
    store = Failing()
    with CompactManager(CONFIG, store=store, on_event=seen.append) as manager:
        manager.preflight("s", talk(0, 2))
        store.failing = ["append"]
        sent = manager.preflight("s", talk(0, 60))
        assert checker.prompt_tokens(sent) <= WINDOW
        assert sent[-2:] == talk(59, 60)
        (error,) = [event for event in seen if isinstance(event, ErrorRaised)]
        assert (error.session_id, error.stage) == ("s", "sync")
        assert "disk is full" in error.message
        store.failing = ()
        manager.preflight("s", talk(0, 60))
        assert len(manager.session("s").history) == 120


def test_what_is_asked_for_right_after_a_compression_is_done_as_well() -> None:
    """K-6, K-16: with its note, which the decision has, and as JSON only says that there is one."""
    seen: list[Event] = []
    asked = ScriptedSummarizer("We spoke of beams. The oak beam of the gable was kept. " * 9)
    with CompactManager(CONFIG, summarizer=asked, on_event=seen.append) as manager:
        messages = talk(0, 40)
        sent = manager.preflight("s", messages)
        assert asked.requests
        again = manager.manual_compact("s", messages, "keep what was said of oak")
    assert checker.prompt_tokens(again) < checker.prompt_tokens(sent)
    assert asked.requests[-1].guidance == "keep what was said of oak"
    decided = [event for event in seen if isinstance(event, TriggerDecision) and event.triggered]
    assert [event.guided for event in decided] == [False, True]
    assert decided[-1].policy is not None
    assert decided[-1].policy.guidance == "keep what was said of oak"
    assert "oak" not in str(without_content(decided[-1]).as_dict())


def test_only_so_many_sessions_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact_manager, "MOST_OPEN", 2)
    with CompactManager(CONFIG) as manager:
        for name in ("a", "b", "c"):
            manager.preflight(name, talk(0, 2))
        assert list(manager._open) == ["b", "c"]
        assert manager.preflight("a", talk(0, 3)) == talk(0, 3)
        assert len(manager.session("a").history) == 6
        with pytest.raises(InvalidArgument, match="session_id must be a text"):
            manager.session("")


def test_async_callers() -> None:
    """Many sessions at once; where a summarizer waits, the blocking form names the other one."""

    async def many(manager: CompactManager) -> None:
        sent = await asyncio.gather(
            *(manager.apreflight(f"s{i % 5}", talk(0, 30 + i)) for i in range(20))
        )
        assert all(checker.prompt_tokens(each) <= WINDOW for each in sent)
        await manager.amanual_compact("s1", talk(0, 50))

    with CompactManager(CONFIG) as manager:
        asyncio.run(many(manager))

    async def blocking(manager: CompactManager) -> None:
        with pytest.raises(BlockingCallInLoop, match="apreflight"):
            manager.preflight("s", talk(0, 2))

    with CompactManager(CONFIG, summarizer=ScriptedSummarizer("x")) as manager:
        asyncio.run(blocking(manager))


def test_calls_at_once_get_each_their_own_list() -> None:
    """Agents that share a session ask at the same time, each with a list of its own."""

    def of(agent: int, count: int) -> list[Dict]:
        return [{"role": "user", "content": f"You are agent {agent}."}, *talk(0, count)]

    async def asked(manager: CompactManager, agent: int) -> None:
        for count in range(1, 30, 4):
            given = of(agent, count)
            tools = [TOOL] * agent
            sent = await manager.apreflight("s", given, tools=tools, system_prompt=f"{agent}")
            assert sent[-1] == given[-1]
            assert f"agent {agent}." in str(sent)

    async def all_at_once(manager: CompactManager) -> None:
        await asyncio.gather(*(asked(manager, agent) for agent in range(6)))

    seen: list[Event] = []
    with CompactManager(CONFIG, on_event=seen.append) as manager:
        asyncio.run(all_at_once(manager))
        stored = sum(b.messages - b.fork for b in manager.session("s").time.branches())
        assert stored == 6 * 59, "each message is stored once"
    assert not [event for event in seen if isinstance(event, ErrorRaised)]


def test_a_list_is_known_after_very_many_others() -> None:
    """An agent that calls another one again and again: its own list goes on as it is."""
    with CompactManager(CONFIG) as manager:
        own = talk(0, 1)
        for i in range(70):
            own += [{"role": "user", "content": f"Step {i}?"}]
            assert manager.preflight("s", own) == own
            manager.preflight("s", [{"role": "user", "content": f"Another list, the {i}th."}])
        assert len(manager.session("s").time.branches()) == 71


def test_tools_count_in_a_list_that_takes_on_another_format() -> None:
    """FR-3: also in the very call that tells which format it is."""
    items = [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So"}]}
    ]
    schema: Dict = {"type": "function", "name": "measure", "parameters": TOOL["function"]}
    with CompactManager(CONFIG) as manager:
        manager.preflight("s", talk(0, 1)[:1])
        manager.preflight("s", talk(0, 1)[:1] + items, tools=[schema], system_prompt="Be brief.")
        context = manager.session("s").active_context()
        assert (context.tools, context.system) == ((schema,), "Be brief.")


@pytest.mark.parametrize("times", [1, 4])
def test_messages_that_come_while_the_history_is_read_are_shown_once(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compression over a history that grew meanwhile is made again, however often it grows."""
    real = pipeline.identify  # type: ignore[attr-defined]  # its own import of the stage
    late = [talk(50 + 4 * i, 54 + 4 * i) for i in range(times)][::-1]
    last = talk(50 + 4 * (times - 1), 50 + 4 * times)

    def grown(*given: Any) -> Any:
        if late:
            ctx.add_messages(late.pop())
        return real(*given)

    monkeypatch.setattr(pipeline, "identify", grown)
    ctx = ContextManager(window=WINDOW, tokenizer="o200k")
    ctx.add_messages(talk(0, 40))
    sent = ctx.get_context_for_model()
    assert not late
    assert sent[-1] == last[-1]
    assert verbatim(last[::2], sent) == last[::2]
    assert len({str(message) for message in sent}) == len(sent)
    projection = ctx._session.view.projection
    assert projection is not None
    assert projection.cut <= projection.at

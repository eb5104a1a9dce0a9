"""What adapters of frameworks build on: `CompactManager.fit`, its ticket, and which session a list
continues.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest

from compact import CannotFit, CompactConfig, CompactManager, InvalidArgument
from compact.errors import ModelUnavailable, NotFound, StoreFailed, UnknownModel
from compact.messages.events import ErrorRaised, Event
from compact.messages.formats.known import FORMATS
from compact.messages.replies import Usage
from compact.session.fitted import Fitted
from compact.store.inmemory import InMemoryStore
from tests.session.asking import Failing
from tests.session.test_compact_manager import CONFIG, SMALL, TOOL, WINDOW, talk, turns
from tests.sizes import seed, size

Dict = dict[str, Any]
TINY = CompactConfig(max_context_tokens=SMALL, tokenizer="o200k")


def manager_of(store: Any = None, **options: Any) -> CompactManager:
    """A manager with a small window."""
    return CompactManager(TINY, store=store, **options)


def faults(given: list[Dict], fitted: Fitted) -> Iterator[str]:
    """What is wrong with the origins of a fitted list."""
    assert len(fitted.origin) == len(fitted.messages) or not fitted.changed
    named = [*chain.from_iterable(fitted.origin)]
    if len(named) != len({*named}):
        yield "a message stands in two sent ones"
    places = {id(message): i for i, message in enumerate(given)}
    for message, origin in zip(fitted.messages, fitted.origin, strict=True):
        if id(message) in places and origin != (places[id(message)],):
            yield f"the caller's {places[id(message)]} is said to be {origin}"
        if len(origin) == 1 and message == given[origin[0]] is not message:
            yield f"a copy of the caller's {origin[0]}"
        for i in origin:
            begins = text_of(given[i])[:30]
            is_masked = "masked" in text_of(message) and ids_in(message) == ids_in(given[i])
            if begins not in text_of(message) and not is_masked:
                yield f"{begins!r} ({i}) does not stand in {text_of(message)[:90]!r}"


def text_of(message: Dict) -> str:
    """All words of a message, one after another."""
    return " ".join(_texts(message)) if isinstance(message, dict) else str(message)


def ids_in(value: object) -> set[str]:
    """The ids of calls in a message."""
    if isinstance(value, list):
        return {*chain.from_iterable(map(ids_in, value))}
    if not isinstance(value, dict):
        return set()
    own = {value[key] for key in ("tool_call_id", "tool_use_id", "call_id") if key in value}
    return own | ids_in(value.get("content"))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        own = ("text", "content", "output", "thinking", "arguments", "tool_calls", "function")
        yield from chain.from_iterable(_texts(value[key]) for key in own if key in value)
    elif isinstance(value, list):
        yield from chain.from_iterable(map(_texts, value))


# --- the list to send -----------------------------------------------------------------------------


@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize("number", range(size(1, 50)))
def test_each_sent_message_says_whose_it_is(number: int, wire: str):
    """Over random sessions: the messages that stand in a sent one are named, each once; what is
    sent as it was given is the given object.
    """
    joined = ours = 0
    with manager_of() as manager:
        for given in islice(turns(seed(number), wire), 30):
            fitted = manager.fit("s", given, format=wire)
            assert not [*faults(given, fitted)]
            assert manager.preflight("s", given) == list(fitted.messages)
            joined += any(len(origin) > 1 for origin in fitted.origin)
            ours += any(not origin for origin in fitted.origin)
        assert fitted.changed
        assert joined + ours


@pytest.mark.parametrize("wire", FORMATS)
def test_a_list_of_our_own_making_is_known_when_it_comes_back(wire: str):
    """A host that keeps what was sent, with what was joined and shortened, is told whose it is."""
    with manager_of() as manager:
        kept: list[Dict] = []
        known = came_back = 0
        for given in islice(turns(seed(3), wire), 30):
            new = given[known:]
            kept, known = [*kept, *new], len(given)
            fitted = manager.fit("s", kept, format=wire)
            assert not [*faults(kept, fitted)]
            came_back += sum(not o for o in fitted.origin) == 0 and len(fitted.messages) < known
            kept = list(fitted.messages)
        ctx = manager.session("s")
        assert len(ctx.history) == known, "nothing was stored twice"
        assert ctx.compressions
        assert came_back


def test_a_list_that_fits_is_the_callers_own():
    with CompactManager(CONFIG) as manager:
        given = talk(0, 3)
        fitted = manager.fit("s", given)
        assert fitted.messages is given
        assert not fitted.changed
        assert fitted.origin == tuple((i,) for i in range(len(given)))
        assert fitted.tokens == manager.session("s").budget.used_tokens
        assert manager.preflight("s", given) is not given
        assert manager.preflight("s", given)[0] is not given[0]
        assert manager.fit("other", []).messages == []


def test_a_kept_message_is_the_callers_object_and_a_mark_is_not_sent():
    with manager_of() as manager:
        given = talk(0, 20)
        given[-1] = {**given[-1], "metadata": {"pinned": True}}
        fitted = manager.fit("s", given)
        assert fitted.changed
        assert fitted.messages[-2] is given[-2]
        assert fitted.origin[-1] == (len(given) - 1,)
        assert "metadata" not in fitted.messages[-1]


def test_half_a_character_is_no_obstacle():
    """A lone surrogate is sent as the replacement character: that is not the caller's message."""
    with manager_of() as manager:
        given = [{"role": "user", "content": "\ud83d smile"}, *talk(0, 3)]
        fitted = manager.fit("s", given)
        assert fitted.origin[0] == (0,)
        assert fitted.messages[0]["content"] == "\ufffd smile"
        assert fitted.messages[1] is given[1]


def test_the_same_list_from_a_loop_and_without_one():
    with manager_of() as manager, manager_of() as other:
        given = talk(0, 30)
        fitted, awaited = manager.fit("s", given), asyncio.run(other.afit("s", given))
        assert [len(fitted.messages), fitted.origin] == [len(awaited.messages), awaited.origin]


# --- room for an answer ---------------------------------------------------------------------------


def test_room_for_one_answer_is_left_for_this_call_only():
    with CompactManager(CONFIG) as manager:
        given = talk(0, 10)
        before = manager.fit("s", given)
        assert not before.changed
        fitted = manager.fit("s", given, answer_tokens=WINDOW - 900)
        assert fitted.tokens <= 900 < before.tokens
        assert not [*faults(given, fitted)]
        longer = talk(0, 17)
        assert manager.fit("s", longer).tokens > 900
        with pytest.raises(CannotFit):
            manager.fit("s", longer, answer_tokens=WINDOW)
        with pytest.raises(InvalidArgument, match="answer_tokens"):
            manager.fit("s", longer, answer_tokens=0)


# --- the ticket -----------------------------------------------------------------------------------


def test_a_report_is_of_its_own_prompt():
    """Of two prompts at once the larger is reported last: the counts stay as they are."""
    with CompactManager(CONFIG) as manager:
        small, large = talk(0, 4), talk(0, 9)
        first, second = manager.fit("s", small), manager.fit("s", large)
        first.report(first.tokens)
        second.report(Usage(prompt_tokens=second.tokens))
        window = manager.session("s").window
        assert window.ratio == 1.0
        first.report(2 * first.tokens)
        assert manager.session("s").window.ratio == pytest.approx(2.0)
        with pytest.raises(InvalidArgument, match="at least 0"):
            first.report(-1)


def test_after_an_overflow_the_next_prompt_is_smaller():
    with CompactManager(CONFIG) as manager:
        given = talk(0, 12)
        fitted = manager.fit("s", given)
        assert not fitted.changed
        told = "maximum context length is 1000 tokens, your request has 5000 tokens"
        assert not fitted.report(ConnectionError("reset by peer"))
        assert manager.fit("s", given).messages is given
        assert fitted.report(RuntimeError(told))
        again = manager.fit("s", given)
        assert again.tokens * 5_000 / fitted.tokens <= 1_000
        assert not [*faults(given, again)]


# --- whose list it is -----------------------------------------------------------------------------


def alike(number: int, turns_made: int) -> list[Dict]:
    """A conversation that begins like others and goes on as its own."""
    said = [{"role": "system", "content": "You repair roofs."}, {"role": "user", "content": "Hi."}]
    for i in range(turns_made):
        said.append({"role": "assistant", "content": f"Answer {i} of {number}."})
        said.append({"role": "user", "content": f"Go on, {i}."})
    return said


@pytest.mark.parametrize("is_file", [False, True])
def test_conversations_that_begin_alike_are_told_apart(tmp_path: Path, is_file: bool):
    """Eight in parallel, each known by its answers; on disk, after a restart too."""
    store = str(tmp_path / "s.db") if is_file else InMemoryStore()
    manager = manager_of(store)
    for length in range(4):
        for number in range(8):
            given = alike(number, length)
            name = manager.recognize(given)
            assert name == (f"s{number}" if length else None)
            fitted = manager.fit(f"s{number}", given)
            fitted.answered({"role": "assistant", "content": f"Answer {length} of {number}."})
        if is_file:
            manager.close()
            manager = manager_of(store)
    edited = [*alike(5, 2)[:-1], {"role": "user", "content": "Rather the gutter."}]
    assert manager.recognize(edited) == "s5"
    assert manager.recognize([*alike(9, 1)]) is None
    assert manager.recognize(alike(0, 0)) is None
    with CompactManager(TINY, store=manager.store, scope="other") as other:
        assert other.recognize(alike(3, 3)) is None
    manager.close()


@pytest.mark.parametrize("is_file", [False, True])
def test_a_list_is_known_when_its_system_prompt_changed(tmp_path: Path, is_file: bool):
    """Hosts write the day into it. The words behind it still tell the conversations apart."""
    with manager_of(str(tmp_path / "s.db") if is_file else InMemoryStore()) as manager:
        for number in range(8):
            manager.fit(f"s{number}", alike(number, 3))
        manager.fit("other", [{"role": "user", "content": "Hi."}])
        for number in range(8):
            said = alike(number, 4)
            said[0] = {"role": "system", "content": f"You repair roofs. It is day {number}."}
            name = manager.recognize(said)
            assert name == f"s{number}"
            assert manager.fit(name, said).messages == said
            assert len(manager.session(name).time.branches()) == 1
        assert manager.recognize([said[0], *alike(9, 4)[1:]]) is None
        assert manager.recognize([said[0], *alike(9, 0)[1:]]) is None
        taxes = {"role": "system", "content": "Answer questions about taxes only."}
        assert manager.recognize([taxes, *alike(3, 4)[1:]]) is None, "another program's"


def test_without_recorded_answers_a_list_goes_to_a_session_that_waits():
    with manager_of() as manager:
        for number in range(3):
            manager.fit(f"s{number}", alike(number, 0))
        taken = []
        for number in range(3):
            name = manager.recognize(alike(number, 1))
            assert name is not None
            taken.append(name)
            manager.fit(name, alike(number, 1))
        assert {*taken} == {"s0", "s1", "s2"}
        assert [manager.recognize(alike(n, 2)) for n in range(3)] == taken


def test_recognizing_looks_at_the_list_not_at_the_sessions():
    """A store is asked once for each message behind the last known one."""
    asked: list[bytes] = []

    class Counting(InMemoryStore):
        def beginning(self, chain: bytes, **options: Any) -> list[tuple[str, bool]]:
            asked.append(chain)
            return super().beginning(chain, **options)

    with manager_of(Counting()) as manager:
        for number in range(50):
            manager.fit(f"s{number}", alike(number, 3))
        assert manager.recognize(alike(20, 4)) == "s20"
        assert len(asked) == 3


def test_an_answer_is_stored_once_and_only_where_it_belongs():
    with manager_of() as manager:
        fitted = manager.fit("s", alike(1, 0))
        late = manager.fit("s", alike(1, 0))
        answer = {"role": "assistant", "content": "Answer 0 of 1."}
        fitted.answered(answer)
        late.answered(answer)
        assert len(manager.session("s").history) == 3
        assert manager.fit("s", alike(1, 1)).messages == alike(1, 1)
        assert len(manager.session("s").history) == 4


# --- a program's start ----------------------------------------------------------------------------


def test_a_session_that_is_not_there_is_not_made(tmp_path: Path):
    with manager_of(str(tmp_path / "s.db")) as manager:
        manager.session("harbour")
        with pytest.raises(NotFound, match="'harbour'"):
            manager.session("habrour", create=False)
        assert manager.session("harbour", create=False).id == "harbour"
        assert [session.id for session in manager.store.sessions()] == ["harbour"]


def test_what_cannot_work_says_so_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with manager_of(str(tmp_path / "s.db")) as manager:
        manager.check()
        assert not manager.store.sessions()
    with pytest.raises(UnknownModel):
        CompactManager(CompactConfig(tokenizer="o200")).check()
    with pytest.raises(UnknownModel):
        CompactManager(CompactConfig(max_context_tokens=WINDOW), summarizer="no-such:x").check()
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    with pytest.raises(ModelUnavailable), manager_of(summarizer="ollama:qwen3:8b") as other:
        other.check()
    with pytest.raises(StoreFailed):
        manager.check()


# --- the store is away ----------------------------------------------------------------------------


def test_an_answer_is_not_lost_by_the_store():
    """The session was closed meanwhile, and cannot be opened again."""
    store = Failing()
    with manager_of(store) as manager:
        fitted = manager.fit("s", alike(1, 0))
        manager._open.pop("s").close()
        store.failing = ["session", "append"]
        assert fitted.report(100) is False
        assert fitted.answered({"role": "assistant", "content": "Answer 0 of 1."}) is False
        store.failing = ()


def test_a_session_is_opened_off_the_loop():
    """A store on a server may take its time."""
    seen: list[int] = []

    class Slow(InMemoryStore):
        def session(self, *args: Any, **options: Any) -> Any:
            seen.append(threading.get_ident())
            return super().session(*args, **options)

    with manager_of(Slow()) as manager:
        asyncio.run(manager.afit("s", alike(1, 0)))
    assert seen
    assert threading.get_ident() not in seen


@pytest.mark.parametrize("is_known", [False, True])
def test_a_call_goes_on_without_the_store(is_known: bool):
    store, events = Failing(), list[Event]()
    with manager_of(store, on_event=events.append) as manager:
        if is_known:
            manager.fit("s", talk(0, 3))
        store.failing = ["session", "append"]
        given = talk(0, 30)
        fitted = manager.fit("s", given, tools=[TOOL])
        assert fitted.tokens <= SMALL
        assert not [*faults(given, fitted)]
        assert [e for e in events if isinstance(e, ErrorRaised) and e.stage == "sync"]
        assert not fitted.report(10)
        fitted.answered({"role": "assistant", "content": "Sound."})
        store.failing = ()
        assert json.dumps(manager.preflight("s", given)[-1]) == json.dumps(given[-1])

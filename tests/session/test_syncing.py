"""`sync` under trouble: delivered twice, malformed, cut off, another system prompt, or a prompt of
long ago (K-6, FR-1)."""

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from threading import Barrier
from typing import Any

import pytest

from compact import ContextManager
from compact.errors import InvalidMessage
from compact.messages.events import BranchTaken, Event
from compact.messages.protocols import SessionStore
from compact.messages.sessions import Entry
from compact.session import context_manager
from compact.session.resent_list import understood
from compact.store.inmemory import InMemoryStore
from tests.session.test_recognition import Dict, compressed, found_text, stored, talk


def at_once(*works: Callable[[], object]) -> None:
    """Run these at the same time; what one raises is raised."""
    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(work) for work in works]:
            done.result()


@pytest.mark.parametrize("edited", [False, True])
def test_one_list_that_is_delivered_twice_is_taken_once(
    store: SessionStore, edited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two deliveries, recognized before either is stored: one message, one branch (K-6)."""
    one = ContextManager(store=store, session_id="s")
    one.sync(talk(0, 3))
    two = ContextManager(store=store, session_id="s")
    barrier = Barrier(2)
    tries: list[int] = []

    def both_first(*arguments: Any) -> Any:
        given, found = understood(*arguments)
        tries.append(found.known)
        if len(tries) <= 2:
            barrier.wait(60)
        return given, found

    monkeypatch.setattr(context_manager, "understood", both_first)
    known = talk(0, 2) if edited else talk(0, 3)
    wanted = [*known, {"role": "user", "content": "Charge my card."}]
    at_once(lambda: one.sync(wanted), lambda: two.sync(wanted))
    assert len(tries) > 2
    for ctx in (one, two):
        ctx.history.catch_up()
        assert stored(ctx) == wanted
    assert one.branch_id == two.branch_id
    assert len(one.time.branches()) == 1 + edited


def test_an_edited_list_sent_again_to_another_process_makes_no_second_branch(
    store: SessionStore,
) -> None:
    """The other one still has the old branch open (FR-1, K-6)."""
    one = ContextManager(store=store, session_id="s")
    one.sync(talk(0, 3))
    two = ContextManager(store=store, session_id="s")
    edited = [*talk(0, 1), {"role": "user", "content": "Something else?"}]
    one.sync(edited)
    assert two.sync(edited).new == []
    assert two.branch_id == one.branch_id
    one.sync(talk(0, 3))
    assert one.branch_id == "s"
    assert len(one.time.branches()) == 2


def test_a_list_with_a_malformed_message_changes_nothing(store: SessionStore) -> None:
    """It is refused before a branch is made, and named by its place in the list (FR-1)."""
    ctx = ContextManager(store=store, session_id="s")
    ctx.sync(talk(0, 3))
    bad: list[tuple[Any, str]] = [
        (["hello"], "messages[0]"),
        ([None], "messages[0]"),
        ([*talk(0, 1), 5], "messages[2]"),
        ([*talk(0, 1), {"role": "nobody", "content": "x"}], "messages[2].role"),
        ([{"content": "x"}], "messages[0]"),
        ([*talk(0, 3), {"role": "user", "content": object()}], "messages[6]"),
        ([], "messages"),
    ]
    for messages, path in bad:
        with pytest.raises(InvalidMessage) as refused:
            ctx.sync(messages)
        assert refused.value.path.startswith(path)
        assert (ctx.branch_id, len(ctx.history), len(ctx.time.branches())) == ("s", 6, 1)


@pytest.mark.parametrize(
    ("content", "is_taken"),
    [([{"type": "text", "text": None}], True), ({"a": 1}, False), (5, False)],
)
@pytest.mark.parametrize("others", [[], [{"role": "system", "content": "Be kind."}]])
@pytest.mark.parametrize("has_ours", [True, False])
def test_a_malformed_system_message_is_what_it_is_beside_our_goals(
    content: Any, is_taken: bool, others: list[Dict], has_ours: bool
) -> None:
    """What is no message is refused by its place, what is one is taken (K-6)."""
    ctx = ContextManager(store=InMemoryStore(), session_id="s")
    ctx.goals.set(["Mend the roof."])
    ctx.sync([{"role": "system", "content": "Be kind."}, *talk(0, 1)])
    before = ctx.get_context_for_model()
    ours = before[1:2] if has_ours else []
    given = [*others, *ours, {"role": "system", "content": content}, *talk(0, 2)]
    if is_taken:
        ctx.sync(given)
        assert len(ctx.history) == 1 + len(talk(0, 2))
    else:
        place = re.escape(f"messages[{len(others) + len(ours)}].content")
        with pytest.raises(InvalidMessage, match=place):
            ctx.sync(given)
        assert ctx.get_context_for_model() == before
    assert len(ctx.time.branches()) == 1


def timed(minute: int, words: int = 0) -> Dict:
    more = " Be kind." * words
    return {"role": "system", "content": f"You are a roofer. It is 12:{minute:02}.{more}"}


@pytest.mark.slow
def test_a_system_prompt_with_the_time_in_it_is_no_edited_past(store: SessionStore) -> None:
    """The conversation is stored once, and each prompt has the newest system prompt alone (K-6)."""
    ctx = ContextManager(window=4_096, tokenizer="o200k", store=store, session_id="s")
    said: list[Dict] = []
    for turn in range(40):
        said += talk(turn, turn + 1)
        ctx.sync([timed(turn), *said])
        prompt = ctx.get_context_for_model()
        assert [m for m in prompt if m["role"] == "system"] == [timed(turn)]
        assert prompt[0] == timed(turn)
    assert ctx.compressions > 1
    assert [b.messages for b in ctx.time.branches()] == [1 + len(said)]
    again = ContextManager(window=4_096, tokenizer="o200k", store=store, session_id="s")
    assert again.get_context_for_model() == prompt
    assert stored(again)[0] == timed(39)
    assert store.read("s", 0, 1)[0].message.text == timed(0)["content"]


def test_a_longer_system_prompt_is_counted_wherever_it_is_shown() -> None:
    """What is sent fits, in each window, also where the system prompt grew since the compression
    (FR-2)."""
    ctx = ContextManager(window=4_096, tokenizer="o200k")
    said = talk(0, 30)
    ctx.sync([timed(0), *said])
    ctx.get_context_for_model()
    ctx.get_context_for_model("gpt-4")
    for words in (400, 10, 500):
        ctx.sync([timed(1, words), *said])
        view = ctx._session.view
        prompt = ctx.get_context_for_model()
        assert prompt[0] == timed(1, words)
        counted = view.context().tokens
        beside = view.preamble().tokens
        exact = beside + sum(map(ctx._session.state.counter.message, view.context().messages))
        assert exact <= counted <= exact + 32
        assert counted <= ctx.window.usable


def test_another_system_prompt_moves_nothing() -> None:
    """The log says what is shown; what was compressed is not stored again."""
    ctx = ContextManager(window=4_096, tokenizer="o200k")
    ctx.sync([timed(0, 12), *talk(0, 30)])
    ctx.get_context_for_model()
    for words in (10, 12, 30):
        ctx.sync([timed(1, words), *talk(0, 30)])
        view = ctx._session.view
        view.refresh()
        beside = view.overhead_tokens
        exact = beside + sum(map(view.counter.message, view.context().messages))
        assert view.tokens_now == exact
    assert len(ctx.store.moves(ctx.id, most=10)) == 1


def test_fewer_system_messages_are_an_edited_past() -> None:
    """And are shown as they are said, whatever was shown for the others."""
    store = InMemoryStore()
    ctx = ContextManager(store=store, session_id="s")
    ctx.sync([timed(0), timed(1), *talk(0, 1)])
    ctx.sync([timed(2), timed(3), *talk(0, 1)])
    assert ctx.get_context_for_model() == [timed(2), timed(3), *talk(0, 1)]
    ctx.sync([timed(4), *talk(0, 1)])
    assert ctx.get_context_for_model() == [timed(4), *talk(0, 1)]
    assert [b.fork for b in ctx.time.branches()] == [0, 0]
    again = ContextManager(store=store, session_id="s")
    assert again.get_context_for_model() == [timed(4), *talk(0, 1)]


def test_a_prompt_that_comes_back_with_another_system_prompt_is_known() -> None:
    """Checkpoints and all (K-6)."""
    ctx = compressed()
    length, prompt = len(ctx.history), deepcopy(ctx.get_context_for_model())
    prompt[0]["content"] = "You are a plumber."
    found = ctx.sync([*prompt, {"role": "user", "content": "And now?"}])
    assert (found.known, len(found.new), len(ctx.time.branches())) == (length, 1, 1)
    shown = [m["content"] for m in ctx.get_context_for_model()]
    assert shown[0] == "You are a plumber."
    assert "You are a roofer." not in shown


def test_more_system_messages_than_before_are_shown_as_one() -> None:
    """What a client puts beside its system prompt now and then is no edited past (K-6)."""
    ctx = ContextManager()
    first = {"role": "system", "content": "You are a roofer."}
    beside = {"role": "system", "content": "The user likes slate."}
    ctx.sync([first, *talk(0, 1)])
    ctx.sync([first, beside, *talk(0, 2)])
    shown = ctx.get_context_for_model()[0]
    assert shown == {"role": "system", "content": "You are a roofer.\n\nThe user likes slate."}
    ctx.sync([first, *talk(0, 2)])
    assert ctx.get_context_for_model()[0] == first
    ctx.sync(talk(0, 3))
    assert ctx.get_context_for_model()[0] == first
    assert [b.messages for b in ctx.time.branches()] == [7]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kept", [3, 11])
@pytest.mark.parametrize("system", [False, True])
def test_a_list_whose_beginning_was_cut_off_goes_on(
    store: SessionStore, kept: int, system: bool
) -> None:
    """A client sends its newest messages only: each is stored once, on one branch (K-6)."""
    ctx = ContextManager(window=4_096, tokenizer="o200k", store=store)
    lead = [timed(0)] * system
    said: list[Dict] = []
    for turn in range(30):
        question, answer = talk(turn, turn + 1)
        ok: list[Dict] = [{"role": "user", "content": "ok"}, {"role": "assistant", "content": "ok"}]
        for message in (question, answer, *ok):
            said.append(message)
            if message["role"] == "user":
                ctx.sync([*lead, *said[-kept:]])
                ctx.get_context_for_model()
    ctx.sync([*lead, *said[-kept:]])
    assert stored(ctx) == [*lead, *said]
    assert len(ctx.time.branches()) == 1


def test_a_list_without_beginning_and_end_is_a_branch_that_says_so() -> None:
    """Where it lies in the history is not looked for: it begins anew, and nothing is lost (FR-1,
    NFR-2)."""
    seen: list[Event] = []
    ctx = ContextManager(on_event=seen.append)
    ctx.sync([timed(0), *talk(0, 20)])
    for number, given in enumerate(
        ([*talk(16, 19), {"role": "user", "content": "Something else?"}], talk(12, 18)), 1
    ):
        ctx.sync([timed(0), *talk(0, 20)])
        found = ctx.sync([timed(0), *given])
        assert (found.known, found.new) == (1, given)
        assert stored(ctx) == [timed(0), *given]
        assert ctx.sync([timed(0), *given]).new == []
        taken = [event for event in seen if isinstance(event, BranchTaken)]
        assert (taken[-1].known, taken[-1].left, taken[-1].reason) == (1, 40, "unknown")
        assert len(ctx.time.branches()) == 1 + number
    assert ctx.store.branch(ctx.id).messages == 41


@pytest.mark.slow
def test_a_prompt_of_long_ago_is_known_by_its_checkpoints(store: SessionStore) -> None:
    """Whatever number of compressions came since (K-6, NFR-2)."""
    one = compressed(store=store, session_id="s")
    mine, length = [*one.get_context_for_model()], len(one.history)
    two = ContextManager(window=4_096, tokenizer="o200k", store=store, session_id="s")
    since: list[Dict] = []
    for i in range(1, 67):
        since += talk(100 * i, 100 * i + 15)
        two.add_messages(talk(100 * i, 100 * i + 15))
        two.get_context_for_model()
    assert len(store.moves("s", most=1_000)) > 64
    one = ContextManager(window=4_096, tokenizer="o200k", store=store, session_id="s")
    whole = one.sync([*mine, *since, {"role": "user", "content": "And now?"}])
    assert (whole.known, found_text(whole)) == (length + len(since), "And now?")
    assert len(one.time.branches()) == 1
    edited = one.sync([*mine, {"role": "user", "content": "And then?"}])
    assert (edited.known, found_text(edited)) == (length, "And then?")
    assert one.get_context_for_model() == [*mine, {"role": "user", "content": "And then?"}]


def test_a_checkpoint_of_another_session_is_kept_as_what_it_says() -> None:
    """It stands for nothing here, and would be lost (NFR-2)."""
    prompt = compressed().get_context_for_model()
    ctx = ContextManager()
    ctx.sync(prompt)
    assert stored(ctx) == prompt


def test_what_recognition_reads_follows_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short list in a long history is compared with the end of the history (FR-5)."""
    ctx = ContextManager(window=100_000, tokenizer="chars")
    ctx.sync(talk(0, 2_000, words=1))
    read = 0
    original = ctx.store.read

    def counted(branch_id: str, start: int, stop: int) -> list[Entry]:
        nonlocal read
        found = original(branch_id, start, stop)
        read += len(found)
        return found

    monkeypatch.setattr(ctx.store, "read", counted)
    ctx.sync([*talk(1_995, 2_000, words=1), {"role": "user", "content": "And now?"}])
    assert len(ctx.history) == 4_001
    assert read < 300


def reading(i: int) -> dict[str, Any]:
    """A message of a conversation that reads files."""
    match i % 4:
        case 0:
            return {"role": "user", "content": f"please read file_{i}.py"}
        case 1:
            function = {"name": "read", "arguments": f'{{"path": "file_{i}.py"}}'}
            call = {"id": f"c{i}", "type": "function", "function": function}
            return {"role": "assistant", "content": None, "tool_calls": [call]}
        case 2:
            result = f"line of {i} " * 150
            return {"role": "tool", "tool_call_id": f"c{i - 1}", "content": result}
        case _:
            return {"role": "assistant", "content": f"done {i}"}


@pytest.mark.parametrize("window", [7_000, 40_000])
def test_a_prompt_with_stubs_alone_is_known_after_another_took_its_place(window: int) -> None:
    """What is not in force any more, or was made for another window (K-6)."""
    events: list[Event] = []
    ctx = ContextManager(window=window, tokenizer="o200k", on_event=events.append)
    ctx.add_messages([reading(i) for i in range(60)])
    session = ctx._session
    small = session.view_of(7_000)
    prompt = asyncio.run(session.sender.fitted(small, small.rendered))
    assert not small.checkpoints
    assert prompt != stored(ctx)
    ctx.compress_conversation(0.05)
    found = ctx.sync([*prompt, {"role": "user", "content": "thanks"}])
    assert (found.known, len(found.new)) == (60, 1)
    assert not [event for event in events if isinstance(event, BranchTaken)]


def test_a_list_is_compared_with_the_branch_that_is_open() -> None:
    """Also by a window that was left while the branch changed (K-6)."""
    ctx = ContextManager("x/y", 7_000, tokenizer="o200k")
    ctx.add_messages([reading(i) for i in range(60)])
    ctx.get_context_for_model()
    ctx.set_model("x/y", 40_000)
    ctx.time.branch(at=12)
    ctx.set_model("x/y", 7_000)
    assert ctx.compressions == 0
    edited = [*[reading(i) for i in range(10)], {"role": "user", "content": "edited"}]
    assert ctx.sync(edited).known == 10


def test_the_note_for_an_open_call_is_ours_in_responses_too() -> None:
    """The result that comes takes its place (K-6)."""
    ctx = ContextManager(window=3_000, format="responses", tokenizer="chars")
    call = {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}
    ctx.sync([{"role": "user", "content": "read it"}, call])
    result = {"type": "function_call_output", "call_id": "c", "output": "the real result"}
    found = ctx.sync([*ctx.get_context_for_model(), result])
    assert (found.known, found.new, len(ctx.history)) == (2, [result], 3)


def test_a_message_put_aside_is_known_as_each_model_was_shown_it() -> None:
    """By the counts of the model that the prompt was made for (K-6, FR-1)."""
    ctx = ContextManager("openai:gpt-4o", 8_000)
    large = " ".join(f"Wörter{i}-Überfluß" for i in range(900))
    ctx.add_messages([{"role": "user", "content": large}])
    ctx.put_aside(tokens=300)
    ctx.set_model("ollama:qwen3:8b", 8_000)
    answer = {"role": "assistant", "content": "ok"}
    found = ctx.sync([*ctx.get_context_for_model(), answer])
    assert (found.known, found.new) == (1, [answer])


def _called(*ids: str) -> Dict:
    """An assistant's message of Anthropic's format with these calls."""
    calls = [{"type": "tool_use", "id": i, "name": "look", "input": {"at": i}} for i in ids]
    return {"role": "assistant", "content": calls}


def _answered(*ids: str) -> Dict:
    results = [{"type": "tool_result", "tool_use_id": i, "content": f"{i} holds."} for i in ids]
    return {"role": "user", "content": results}


def test_a_prompt_with_a_half_answered_reply_comes_back() -> None:
    """K-6: the note stands where the next prompt has it, so that only what is new is stored."""
    ctx = ContextManager(window=4_096, format="anthropic", summarizer=None)
    ctx.add_messages([{"role": "user", "content": "Look."}, _called("a", "b"), _answered("a")])
    prompt = ctx.get_context_for_model()
    assert [m["role"] for m in prompt] == ["user", "assistant", "user"]
    new = {"role": "user", "content": "And now?"}
    found = ctx.sync([*prompt, new])
    assert (found.new, len(ctx.history)) == ([new], 4)


def test_a_prompt_whose_messages_were_joined_comes_back_whole() -> None:
    """K-6: its list is shorter than the history, to whose end it goes."""
    ctx = ContextManager(window=4_096, format="anthropic", summarizer=None)
    for i in range(4):  # a call without a result, and words behind the results of the others
        first, second = f"{i}-a", f"{i}-b"
        ctx.add_messages([_called(first, second), _answered(second)])
        ctx.add_message(role="user", content=f"And row {i}?")
        ctx.add_message(role="assistant", content=f"Row {i} holds.")
    prompt = ctx.get_context_for_model()
    assert len(prompt) < len(ctx.history)
    branch, before = ctx.branch_id, len(ctx.history)
    ctx.sync([*prompt, {"role": "user", "content": "And now?"}])
    assert (ctx.branch_id, len(ctx.history)) == (branch, before + 1)

"""Ollama messages: read and written without loss, results paired with calls that have no ids
(C-3)."""

import base64
import random
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ollama import Image
from ollama import Message as Oracle

from compact import ContextManager, compress, plan, wiring
from compact.engine.history import History
from compact.errors import CannotFit
from compact.messages.boundaries import violations
from compact.messages.formats.known import format_named
from compact.messages.messages import Message
from tests import checker, strategies
from tests.sizes import size

Dict = dict[str, Any]
OLLAMA = format_named("ollama")
quick = settings(
    max_examples=size(10, 30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

USER = {"role": "user", "content": "go"}
WORDS = {"role": "assistant", "content": "done"}


def calls(*names: str, **fields: Any) -> Dict:
    made = [{"function": {"name": name, "arguments": {"path": "a"}}} for name in names]
    return {"role": "assistant", "content": "", "tool_calls": made, **fields}


def is_sent(message: Dict) -> None:
    """Whether the client sends it, which wraps images."""
    shown = [Image(value=data) for data in message.get("images") or ()]
    sent = Oracle.model_validate({**message, "images": shown or None}).model_dump(exclude_none=True)
    assert sent["content"] == message["content"]


def with_ids(message: Dict, ids: str) -> Dict:
    made = zip(ids, message["tool_calls"], strict=True)
    return {**message, "tool_calls": [{"id": i, **call} for i, call in made]}


def result(name: str | None, said: str, **fields: Any) -> Dict:
    named = {"tool_name": name} if name else {}
    return {"role": "tool", "content": said, **named, **fields}


def parsed(messages: list[Dict]) -> list[Message]:
    return list(History(messages, OLLAMA, wiring.token_counter("ollama")))


MESSAGES: list[Dict] = [
    USER,
    {"role": "system", "content": "Be brief.", "x_vendor": [None]},
    {"role": "user", "content": "see", "images": [strategies.PNG]},
    {"role": "assistant", "content": "so", "thinking": "hm"},
    {"role": "assistant", "thinking": "hm"},
    calls("read", thinking="I must read it."),
    {**calls("read"), "tool_calls": [{"id": "c1", "function": {"index": 0, "name": "read"}}]},
    result("read", "fine"),
    result(None, "fine"),
    result("read", "fine", tool_call_id="c1", images=[strategies.PNG]),
]


PAIRS: list[tuple[str, list[Dict], list[str]]] = [
    ("one", [calls("read"), result("read", "0")], ["call-0-0"]),
    ("unnamed", [calls("read"), result(None, "0")], ["call-0-0"]),
    (
        "in order",
        [calls("read", "read", "read"), *(result("read", str(i)) for i in range(3))],
        ["call-0-0", "call-0-1", "call-0-2"],
    ),
    (
        "by name",
        [calls("read", "run", "read"), result("run", ""), result("read", ""), result("read", "")],
        ["call-0-1", "call-0-0", "call-0-2"],
    ),
    (
        "by an id that is given",
        [
            with_ids(calls("read", "read"), "ab"),
            result("read", "", tool_call_id="b"),
            result("read", ""),
        ],
        ["b", "a"],
    ),
    (
        "two steps",
        [calls("read"), result("read", ""), calls("read"), result("read", "")],
        ["call-0-0", "call-2-0"],
    ),
    (
        "one too many",
        [calls("read"), result("read", ""), result("read", "")],
        ["call-0-0", "result-2"],
    ),
    ("without a call", [USER, result("read", "")], ["result-1"]),
    ("behind other words", [calls("read"), USER, result("read", "")], ["result-2"]),
]


@pytest.mark.parametrize(("messages", "ids"), [p[1:] for p in PAIRS], ids=[p[0] for p in PAIRS])
def test_results_are_paired_with_calls(messages, ids):
    """C-3: the same in a list read in any order, in a session told one by one or at once, and in
    one that is opened again."""
    told = [r.call_id for m in parsed(messages) for r in m.tool_results]
    assert told == ids
    past = History(messages, OLLAMA, wiring.token_counter("ollama"))
    back = [past[i] for i in range(len(messages) - 1, -1, -1)][::-1]
    assert [r.call_id for m in back for r in m.tool_results] == ids
    for at_once in (True, False):
        with ContextManager(window=8_000, store=":memory:", format="ollama") as ctx:
            for part in [messages] if at_once else [[m] for m in messages]:
                ctx.add_messages(part)
            with ContextManager(window=8_000, store=ctx.store, session_id=ctx.id) as again:
                for session in (ctx, again):
                    assert [r.call_id for m in session.history for r in m.tool_results] == ids
                    assert OLLAMA.render(tuple(session.history)) == messages


def test_a_list_that_is_sent_whole_is_paired_too():
    """C-3: with what stands before its new messages in the history."""
    talk = [USER, calls("read", "run"), result("run", "1"), result("read", "0"), WORDS]
    with ContextManager(window=8_000, format="ollama") as ctx:
        for stop in range(1, len(talk) + 1):
            assert len(ctx.sync(talk[:stop]).new) == 1
        told = [r.call_id for m in ctx.history for r in m.tool_results]
        assert [c.id for c in ctx.history[1].tool_calls] == told[::-1]


def test_an_unanswered_call_is_answered_behind_the_results_that_came():
    """K-4: where results are paired by order, a note before them would take one's place."""
    done = compress([USER, calls("read", "read"), result("read", "0"), USER], max_tokens=900)
    assert [m["role"] for m in done] == ["user", "assistant", "tool", "tool", "user"]
    assert done[2]["content"] == "0"
    assert "no result" in done[3]["content"]
    assert done[3].keys() == {"role", "tool_name", "content"}
    assert violations(parsed(done), OLLAMA.rules) == []


CHAT: list[Dict] = [
    {"role": "developer", "content": "Be brief."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "see"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64," + strategies.PNG}},
            {"type": "image_url", "image_url": {"url": "https://x.y/a.png"}},
        ],
    },
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": i, "type": "function", "function": {"name": f"f{i}", "arguments": a}}
            for i, a in (("1", '{"x": 1}'), ("2", "broken"))
        ],
    },
    {"role": "tool", "tool_call_id": "2", "content": "two"},
    {"role": "tool", "tool_call_id": "1", "content": "one"},
]


def test_chat_completions_become_ollama_messages_and_back():
    """C-3: images as bare base64, arguments as objects, results with their tool's name."""
    chat = format_named("chat_completions")
    written = OLLAMA.render([chat.parse(m, i) for i, m in enumerate(CHAT)])
    for message in written:
        is_sent(message)
    assert [m["role"] for m in written] == ["system", "user", "assistant", "tool", "tool"]
    assert written[1] == {"role": "user", "content": "see\n\n[image]", "images": [strategies.PNG]}
    assert written[2]["tool_calls"][0]["function"]["arguments"] == {"x": 1}
    assert [m["tool_name"] for m in written[3:]] == ["f2", "f1"]
    back = chat.render(parsed(written))
    assert [m["tool_call_id"] for m in back[3:]] == ["2", "1"]
    assert back[1]["content"][1]["image_url"]["url"].endswith(strategies.PNG)
    assert checker.broken_rules(back, "chat_completions") == []
    kinds = {b"\xff\xd8\xff\xe0\x00": "jpeg", b"GIF89a": "gif", b"RIFF0000WEBP": "webp"}
    for head, kind in kinds.items():
        shown = {**USER, "images": [base64.b64encode(head + bytes(9)).decode()]}
        (part,) = chat.render(parsed([shown]))[0]["content"][1:]
        assert part["image_url"]["url"].startswith(f"data:image/{kind};base64,")


def test_items_of_a_reply_become_one_message():
    """C-3: a server's templates want reasoning, words and calls of a reply together."""
    items = strategies.as_responses(CHAT[2:], reasons=True)
    history = History(items, format_named("responses"), wiring.token_counter("responses"))
    written = OLLAMA.render(list(history))
    assert [m["role"] for m in written] == ["assistant", "tool", "tool"]
    assert written[0]["thinking"] == "**Thinking 0**"
    assert [c["id"] for c in written[0]["tool_calls"]] == ["1", "2"]


def broken(messages: list[Dict]) -> list[str]:
    """What a template would show wrongly, written down without the product: every call is answered
    by one result right after it, of the tool it called where that is named."""
    found: list[str] = []
    due: list[str] = []
    for i, message in enumerate(messages):
        if message["role"] == "tool":
            name = message.get("tool_name")
            if not due:
                found.append(f"{i}: a result without a call")
            elif name in due:
                due.remove(name)
            else:
                due.pop(0)
            continue
        found += [f"{i}: {name} was not answered before it" for name in due]
        due = [c["function"]["name"] for c in message.get("tool_calls") or ()]
    return found + [f"the end: {name} is not answered" for name in due]


@quick
@given(
    strategies.wild(wires=("chat_completions",)) | strategies.ordinary(wires=("chat_completions",)),
    st.sampled_from((700, 2_000, 8_000, 100_000)),
)
def test_compressed_messages_are_taken_by_the_server(made, window):
    """K-4, C-3, FR-3: what is left fits, keeps its order and its pairs, and is what the client
    sends; dead calls and results without one included."""
    messages = strategies.as_ollama(made.messages)
    before = deepcopy(messages)
    try:
        done = plan(messages, max_tokens=window, tokenizer="o200k", format="ollama")
    except CannotFit:
        return
    shown = OLLAMA.render(done.context.messages)
    assert done.tokens_after <= window
    assert messages == before
    assert broken(shown) == []
    assert violations(parsed(shown), OLLAMA.rules) == []
    for message in shown:
        is_sent(message)
    known = list(map(checker.freeze, messages))
    there = [f for f in map(checker.freeze, shown) if f in set(known)]
    assert checker.is_subsequence(there, known)
    if done.unchanged and not broken(before):
        assert shown == before
    sent = compress(messages, max_tokens=window, tokenizer="o200k", format="ollama")
    assert compress(sent, max_tokens=window, tokenizer="o200k", format="ollama") == sent


def turn_of(turn: int, r: random.Random) -> list[Dict]:
    names = [("read", "run", "read")[i] for i in range(turn % 4)]
    steps = [calls(*names, thinking="hm")] if names else []
    steps += [result(name, strategies.log(r, 120)) for name in sorted(names)]
    said = {"role": "assistant", "content": strategies.prose(r, 40)}
    return [{"role": "user", "content": strategies.prose(r, 20)}, *steps, said]

"""Responses items: read and written without loss, their replies whole, state of a server refused
(C-3, FR-3)."""

import random
from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from compact import ContextManager, compress, plan, wiring
from compact.engine.groups import groups_of
from compact.engine.history import History
from compact.errors import CannotFit, ServerHeldState
from compact.messages.boundaries import may_cut_before, violations
from compact.messages.formats.known import FORMATS, format_named
from compact.messages.formats.responses import refuse_server_state
from compact.messages.messages import Message
from tests import checker, sizes, strategies

Dict = dict[str, Any]
SDK: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)
RESPONSES = format_named("responses")
quick = settings(
    max_examples=sizes.size(12, 30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

USER = {"role": "user", "content": "go"}
WORDS = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "done", "annotations": []}],
}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}


def reasoning(name: str = "rs_1") -> Dict:
    summary = [{"type": "summary_text", "text": "hm"}]
    return {"type": "reasoning", "id": name, "summary": summary, "encrypted_content": "gAAAA"}


def call(name: str) -> Dict:
    return {"type": "function_call", "call_id": name, "name": "read", "arguments": '{"a": 1}'}


def output(name: str, said: Any = "fine") -> Dict:
    return {"type": "function_call_output", "call_id": name, "output": said}


def history(items: list[Dict]) -> History:
    return History(items, RESPONSES, wiring.token_counter("responses", tokenizer="chars"))


def parsed(items: list[Dict]) -> list[Message]:
    return list(history(items))


ITEMS: list[Dict] = [
    USER,
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "x"}]},
    {"role": "user", "content": [{"type": "input_image", "image_url": "https://x.y/a.png"}]},
    {"role": "user", "content": [{"type": "input_file", "file_id": "file_1"}]},
    {"role": "user", "content": "x", "x_vendor": [None]},
    WORDS,
    {**WORDS, "content": [{"type": "refusal", "refusal": "No."}]},
    reasoning(),
    {"type": "reasoning", "id": "rs_2", "summary": [], "content": None, "status": None},
    call("a"),
    {**call("a"), "namespace": "x", "status": "completed"},
    output("a"),
    output("a", [{"type": "input_text", "text": "x"}, {"type": "input_image", "file_id": "f"}]),
    {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"},
    {"type": "custom_tool_call_output", "call_id": "c", "output": "fine"},
    {"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]}},
    {"type": "shell_call_output", "call_id": "s", "output": [{"stdout": "a", "stderr": ""}]},
    {"type": "local_shell_call_output", "id": "l", "output": "fine"},
    SEARCH,
    {"type": "tool_search_call", "call_id": None, "arguments": {}},
    {"type": "compaction", "encrypted_content": "gAAAA"},
    {"type": "x_new", "content": "hello", "deep": {"a": [1, None]}},
    {"type": "x_two", "content": "a text and nothing else"},
]


# --- replies --------------------------------------------------------------------------------------

GROUPS: list[tuple[str, list[Dict], list[int]]] = [
    ("an answer", [USER, reasoning(), WORDS, USER], [1, 2, 1]),
    ("words alone", [WORDS, WORDS, USER], [1, 1, 1]),
    ("words, then a call", [WORDS, call("a"), output("a")], [1, 2]),
    (
        "parallel calls",
        [reasoning(), call("a"), call("b"), output("a"), output("b"), reasoning(), WORDS],
        [5, 2],
    ),
    ("parallel calls without reasoning", [call("a"), call("b"), output("b"), output("a")], [4]),
    ("a hosted tool", [USER, reasoning(), SEARCH, reasoning("rs_2"), WORDS, call("a")], [1, 5]),
    ("two steps", [call("a"), output("a"), call("b"), output("b")], [2, 2]),
    ("an id again", [call("a"), output("a"), call("a"), output("a")], [2, 2]),
    ("a reply that was cut off", [reasoning(), USER], [1, 1]),
]


@pytest.mark.parametrize(("items", "sizes"), [g[1:] for g in GROUPS], ids=[g[0] for g in GROUPS])
def test_the_groups_of_items(items, sizes):
    """K-4: reasoning, what it led to and the results of its calls are one group."""
    past = history(items)
    assert [len(list(group)) for group in groups_of(past)] == sizes
    with ContextManager(window=8_000, store=":memory:", format="responses") as ctx:
        for item in items:
            ctx.add_message(item)
        told = [may_cut_before(ctx.history, i) for i in range(len(items))]
    assert told == [may_cut_before(past, i) for i in range(len(items))]


RULES: list[tuple[list[Dict], bool]] = [
    ([USER, reasoning(), WORDS], True),
    ([USER, reasoning(), call("a"), USER, output("a")], True),
    ([USER, reasoning(), SEARCH], True),
    ([USER, reasoning(), USER], False),
    ([USER, reasoning()], False),
    ([USER, call("a")], False),
    ([USER, output("a")], False),
]


@pytest.mark.parametrize(("items", "good"), RULES)
def test_what_the_provider_takes(items, good):
    """K-4: results need not follow at once; reasoning needs the item after it."""
    assert (violations(parsed(items), RESPONSES.rules) == []) is good


def test_a_reply_that_lost_its_reasoning_is_seen():
    """K-4: what stands behind reasoning must be a piece of the same reply."""
    first, second = parsed([USER, reasoning(), WORDS]), parsed([USER, reasoning("rs_9"), WORDS])
    assert violations([*first[:2], second[2]], RESPONSES.rules) != []


# --- other formats --------------------------------------------------------------------------------

TALK: list[Dict] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "Read both."},
    reasoning(),
    call("a"),
    call("b"),
    output("b"),
    output("a"),
    reasoning("rs_2"),
    WORDS,
]


def test_items_become_messages_of_chat_completions():
    """C-3: the pieces of a reply are one message, as its calls must be answered right after it;
    reasoning has no words there."""
    written = format_named("chat_completions").render(parsed(TALK))
    roles = ["developer", "user", "assistant", "tool", "tool", "assistant"]
    assert [m["role"] for m in written] == roles
    assert [c["id"] for c in written[2]["tool_calls"]] == ["a", "b"]
    assert written[5]["content"] == "done"
    assert checker.broken_rules(written, "chat_completions") == []


def test_items_become_messages_of_anthropic():
    """C-3: and nothing empty is left of reasoning that is sealed."""
    sealed = {**reasoning(), "summary": []}
    written = format_named("anthropic").render(parsed([*TALK[:2], sealed, *TALK[3:]]))
    assert [m["role"] for m in written] == ["system", "user", "assistant", "user", "assistant"]
    assert checker.broken_rules(written, "anthropic") == []
    assert "" not in [b.get("text") for m in written[2:] for b in m["content"]]


@quick
@given(strategies.ordinary(), st.sampled_from(sorted(FORMATS)))
def test_every_pair_of_formats(made, middle):
    """C-3: a conversation written in another format keeps its calls, results and words, and the
    rules of that format, in items and back."""
    own = format_named(made.wire)
    messages = [own.parse(m, i) for i, m in enumerate(made.messages)]
    for name in (middle, "responses", "ollama", "chat_completions"):
        wire = format_named(name)
        dicts = wire.render(messages)
        counter = wiring.token_counter(name, tokenizer="chars")
        there = list(History(dicts, wire, counter))
        assert violations(there, wire.rules) == []
        assert [c.name for m in there for c in m.tool_calls] == [
            c.name for m in messages for c in m.tool_calls
        ]
        results = [r.text for m in there for r in m.tool_results]
        assert results == [r.text for m in messages for r in m.tool_results]
        assert wire.render(there) == dicts
        if name == "responses":
            for item in dicts:
                SDK.validate_python(item)


# --- state of a server ----------------------------------------------------------------------------

HELD: list[Dict] = [
    {"previous_response_id": "resp_1", "input": "go"},
    {"conversation": "conv_1"},
    {"conversation": {"id": "conv_1"}},
    {"conversation_id": "conv_1"},
    {"auto_previous_response_id": True},
    {"input": [USER, {"type": "item_reference", "id": "msg_1"}]},
    {"input": [{"id": "rs_1"}], "store": True},
]
OURS: list[Dict] = [
    {"input": [USER], "store": True},
    {"input": "go", "store": False, "include": ["reasoning.encrypted_content"]},
    {"previous_response_id": None, "conversation": None, "auto_previous_response_id": False},
]


@pytest.mark.parametrize("request_", HELD)
def test_a_conversation_held_by_a_server_is_refused(request_):
    """FR-3: what the server would add is not counted; the error says what to do instead."""
    with pytest.raises(ServerHeldState, match="store=False") as caught:
        refuse_server_state(request_)
    assert any(name in str(caught.value) for name in (*request_, "input[0]", "input[1]"))


@pytest.mark.parametrize("request_", OURS)
def test_a_request_that_says_everything_is_taken(request_):
    """FR-3: a server may store what it was sent."""
    refuse_server_state(request_)


# --- compression ----------------------------------------------------------------------------------


def broken_items(items: list[Dict], whole: list[Dict]) -> list[str]:
    """What a provider would refuse, written down without the product. `whole` is the conversation
    the items were taken from: there each reply's pieces stand side by side."""
    found: list[str] = []
    due: list[str] = []
    for i, item in enumerate(items):
        kind = item.get("type")
        if kind == "function_call":
            due.append(item["call_id"])
        elif kind == "function_call_output" and item["call_id"] in due:
            due.remove(item["call_id"])
        elif kind == "function_call_output":
            found.append(f"{i}: a result without its call")
        after = items[i + 1] if i + 1 < len(items) else {}
        bound = after.get("role") == "assistant" or after.get("type") == "function_call"
        if kind == "reasoning" and not bound and item is not whole[-1]:
            found.append(f"{i}: reasoning alone")
    kept = {item["id"] for item in items if "id" in item}
    for first, second in pairwise(whole):
        if first.get("type") == "reasoning" and (first["id"] in kept) != (second["id"] in kept):
            found.append(f"{first['id']} was parted from {second['id']}")
    return found + [f"call {name} has no result" for name in due]


def compressed(items: list[Dict], window: int) -> list[Dict]:
    before = deepcopy(items)
    done = plan(items, max_tokens=window, tokenizer="o200k", format="responses")
    assert done.tokens_after <= window
    shown = RESPONSES.render(done.context.messages)
    assert items == before
    assert not done.unchanged or shown == before
    assert violations(parsed(shown), RESPONSES.rules) == []
    known = list(map(checker.freeze, items))
    there = [f for f in map(checker.freeze, shown) if f in set(known)]
    assert checker.is_subsequence(there, known)
    again = compress(shown, max_tokens=window, tokenizer="o200k", format="responses")
    assert again == shown
    return shown


@pytest.mark.slow
@quick
@given(
    strategies.ordinary(wires=("chat_completions",)),
    st.sampled_from((700, 2_000, 8_000, 100_000)),
    st.booleans(),
)
def test_compressed_items_are_taken_by_the_provider(made, window, reasons):
    """K-4, C-3, FR-3: what is left of ordinary conversations fits, keeps its order and its replies
    whole, and is what the SDK sends."""
    items = strategies.as_responses(made.messages, reasons=reasons)
    try:
        shown = compressed(items, window)
    except CannotFit:
        return
    assert broken_items(shown, items) == []
    for item in shown:
        SDK.validate_python({k: v for k, v in item.items() if k != "metadata"})


@pytest.mark.slow
@quick
@given(
    strategies.wild(wires=("chat_completions",)),
    st.sampled_from((700, 2_000, 8_000)),
    st.booleans(),
)
def test_items_of_crashed_tools_are_closed(made, window, reasons):
    """K-4, FR-3: and of conversations with dead calls, late and doubled results."""
    items = [
        item
        for item in strategies.as_responses(made.messages, reasons=reasons)
        if strategies.plain_text(item.get("content", "x"))
    ]
    try:
        done = compress(items, max_tokens=window, tokenizer="o200k", format="responses")
    except CannotFit:
        return
    found = violations(parsed(done), RESPONSES.rules)
    assert [x for x in found if "call" in x or "result" in x] == []


def test_an_output_that_comes_after_words_is_shown_at_its_call():
    """K-4: one call and a session say the same of it."""
    items = [USER, call("a"), call("b"), output("a", "A"), WORDS, output("b", "B"), USER]
    done = compress(items, max_tokens=900, format="responses")
    assert done == [USER, call("a"), call("b"), output("a", "A"), output("b", "B"), WORDS, USER]
    ctx = ContextManager(window=8_000, format="responses")
    ctx.add_messages(items)
    assert ctx.get_context_for_model() == done


ANSWERED: list[tuple[Dict, str]] = [
    (call("a"), "function_call_output"),
    (ITEMS[13], "custom_tool_call_output"),
    (ITEMS[15], "shell_call_output"),
    (
        {"type": "apply_patch_call", "call_id": "p", "operation": {}, "status": "completed"},
        "apply_patch_call_output",
    ),
]


@pytest.mark.parametrize(("item", "kind"), ANSWERED)
def test_a_call_of_any_kind_is_answered_in_its_kind(item, kind):
    """K-4: the note in the place of a result that never came is one the provider accepts."""
    done = compress([USER, item, USER], max_tokens=900, format="responses")
    assert done[2]["type"] == kind
    assert done[2]["call_id"] == item["call_id"]
    SDK.validate_python(done[2])


def test_long_arguments_and_results_are_shortened_where_they_stand():
    """C-3: in the item's own fields, its others as they were."""
    r = random.Random(5)
    long = '{"text": "' + strategies.prose(r, 900).replace("\n", " ") + '"}'
    first = {**call("a"), "id": "fc_1", "arguments": long, "x_vendor": 1}
    items: list[Dict] = [USER, first, output("a", strategies.log(r, 4_000))]
    for i in range(12):
        items += [call(f"c{i}"), output(f"c{i}", strategies.log(r, 300)), WORDS]
    shown = compressed([*items, USER], 6_000)
    texts = [item for item in shown if item.get("type") == "function_call_output"]
    assert any("masked" in item["output"] for item in texts)
    assert all(item.keys() == {"type", "call_id", "output"} for item in texts)
    short = compressed([USER, first, output("a")], 600)
    assert short[1].keys() == first.keys()
    assert len(short[1]["arguments"]) < len(long)


def turn_of(turn: int, r: random.Random) -> list[Dict]:
    asked = {"role": "user", "content": strategies.prose(r, 20)}
    names = [f"call_{turn}_{i}" for i in range(turn % 4)]
    steps = [{**reasoning(f"rs_{turn}_1"), "encrypted_content": "x" * 400}] if names else []
    steps += [{**call(name), "id": f"fc_{name}"} for name in names]
    steps += [output(name, strategies.log(r, 120)) for name in reversed(names)]
    part = {"type": "output_text", "text": strategies.prose(r, 40), "annotations": []}
    said = {**WORDS, "id": f"msg_{turn}", "content": [part]}
    return [asked, *steps, reasoning(f"rs_{turn}_2"), said]


def test_calls_that_wait_for_their_results_stay_open(tmp_path):
    """FR-3: parallel calls are answered by notes in a prompt that is taken between their results,
    and by their results in the next one; also after a compression and from a file."""
    r = random.Random(3)
    with ContextManager(window=3_000, store=tmp_path / "s.db", format="responses") as ctx:
        for turn in range(30):
            ctx.add_messages(turn_of(turn, r))
        ctx.add_messages([USER, reasoning("rs_x"), call("x"), call("y"), call("z")])
        ctx.compress_conversation()
        waiting = ctx.get_context_for_model()
        assert [i["call_id"] for i in waiting if "no result" in str(i.get("output"))] == [
            "x",
            "y",
            "z",
        ]
        with ContextManager(window=3_000, store=ctx.store, session_id=ctx.id) as again:
            for name in "xyz":
                again.add_message(output(name, f"result of {name}"))
            shown = again.get_context_for_model()
        assert [i["output"] for i in shown[-3:]] == [f"result of {name}" for name in "xyz"]
        assert not any("no result" in str(i.get("output")) for i in shown)

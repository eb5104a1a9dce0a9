"""C-1 to C-9 and S-2 as they are written: messages, sessions, and the file they live in."""

import copy
import json
import threading
from datetime import UTC, datetime

import pytest

from compact import (
    CompactError,
    CompactPolicy,
    ContextBudget,
    ContextManager,
    ContextWindow,
    Conversation,
    Message,
    MessageMetadata,
    SQLiteManager,
    compress,
)
from compact.testing import check_session_store
from tests.doors.talking import Dict, session, size_of, turns, verbatim, words_of

# --- C-1, C-2 -------------------------------------------------------------------------------------


def test_a_message_has_what_a_message_has():
    """C-1: "`Message`: role, content, timestamp, token_count, importance_score, metadata … Ids and
    times are filled in."
    """
    message = Message(
        role="user",
        content="Hello.",
        token_count=3,
        importance_score=0.5,
        metadata={"tags": ("harbour",)},
    )
    assert (message.role, message.content, message.token_count) == ("user", "Hello.", 3)
    assert message.importance_score == 0.5
    assert message.id
    assert message.id != Message(role="user", content="Hello.").id
    assert abs((message.timestamp - datetime.now(UTC)).total_seconds()) < 60


@pytest.mark.parametrize(
    ("given", "role"),
    [
        ("user", "user"),
        ("assistant", "assistant"),
        ("system", "system"),
        ("tool", "tool"),
        ("developer", "developer"),
        ("tool_call", "assistant"),
        ("tool_result", "tool"),
    ],
)
def test_roles_and_input_roles(given, role):
    """C-1: "Roles user, assistant, system, developer, tool (an input role `tool_call`/`tool_result`
    is accepted and mapped)."
    """
    assert Message(role=given, content="x").role == role
    ids = {"tool_call_id": "c1"} if role == "tool" else {}
    assert session().add_message(role=given, content="x", **ids).role == role


def test_conversation_budget_window_and_metadata():
    """C-2: "`Conversation`: the sequence of messages, metadata, total tokens. `ContextBudget`: max,
    used, available tokens. `ContextWindow`: the budget of one model's window. `MessageMetadata`:
    source, context tags, priority flags (pinned, protected, important)."
    """
    made = Conversation(
        messages=(Message(role="user", content="x", token_count=4),), metadata={"topic": "harbour"}
    )
    assert made.append(Message(role="user", content="y", token_count=5)).total_tokens == 9
    assert made.metadata["topic"] == "harbour"
    budget = ContextBudget(max_tokens=100, used_tokens=30)
    assert (budget.max_tokens, budget.used_tokens, budget.available_tokens) == (100, 30, 70)
    assert ContextWindow(size=8_192).budget(168).available_tokens == 7_000
    flags = MessageMetadata(
        source="person", tags=("a",), pinned=True, protected=True, important=True
    )
    assert flags.pinned
    assert flags.protected
    assert flags.important


# --- C-3 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"role": "pilot", "content": "x"}, "role"),
        ({"role": "user", "content": 7}, "content"),
        ({"role": "assistant", "content": None, "tool_calls": [{"id": 4}]}, "tool_calls[0]"),
        ({"content": "x"}, "role"),
    ],
)
def test_a_bad_message_is_refused_with_the_fields_path(wrong, path):
    """C-3: "a bad message is refused with the field's path", and nothing of it is kept."""
    ctx = session()
    with pytest.raises(CompactError) as caught:
        ctx.add_messages([{"role": "user", "content": "fine"}, wrong])
    assert path in str(caught.value)
    assert len(ctx.history) == 0
    with pytest.raises(CompactError) as caught:
        compress([{"role": "user", "content": "fine"}, wrong], max_tokens=100)
    assert str(caught.value).startswith("messages[1]")
    assert path in str(caught.value)


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
TALKS: dict[str, list[Dict]] = {
    "chat_completions": [
        {"role": "user", "content": [{"type": "text", "text": "What is this?"}, PICTURE]},
        {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "annotations": [],
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a crane", "x_took": 3},
    ],
    "responses": [
        {"role": "user", "content": [{"type": "input_text", "text": "What is this?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA", "x": 1},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "a crane"},
    ],
    "anthropic": [
        {"role": "user", "content": [{"type": "text", "text": "What is this?", "x": {"y": 1}}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I look.", "signature": "EqQB"},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {}, "caller": None},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a crane"}],
        },
    ],
    "ollama": [
        {"role": "user", "content": "What is this?", "images": ["iVBORw0KGgo="]},
        {
            "role": "assistant",
            "content": "",
            "thinking": "I look.",
            "tool_calls": [{"function": {"name": "look", "arguments": {"at": 1}}}],
        },
        {"role": "tool", "tool_name": "look", "content": "a crane", "x_took": 3},
    ],
}


@pytest.mark.parametrize("format", TALKS)
@pytest.mark.parametrize("stored", [False, True])
def test_the_round_trip_is_lossless(format, stored, tmp_path):
    """C-3: "What a provider sent and we don't know is kept and sent back unchanged (lossless round
    trip …, multi-part and image content and reasoning items included)", through a file too.
    """
    given = copy.deepcopy(TALKS[format])
    store = tmp_path / "chat.db" if stored else None
    with ContextManager(format=format, store=store, session_id="s", window=8_192) as ctx:
        ctx.add_messages(given)
        assert ctx.get_context_for_model() == TALKS[format]
    if stored:
        with ContextManager(store=store, session_id="s", window=8_192) as again:
            assert again.get_context_for_model() == TALKS[format]
    assert compress(given, max_tokens=4_000, format=format) == TALKS[format]


# --- C-5, C-6, C-7 --------------------------------------------------------------------------------


def test_the_five_calls_of_a_context_manager():
    """C-5: "`ContextManager.add_message(message)`, `get_context_for_model(model_key)`,
    `compress_conversation(target_ratio)`, `estimate_tokens(text)`, `get_conversation_summary()`."
    """
    ctx = ContextManager()
    ctx.add_message({"role": "user", "content": "Count the drawers of the old ledger."})
    for message in turns(30):
        ctx.add_message(message)
    assert ctx.get_context_for_model("gpt-4o")[0]["content"].startswith("Count")
    assert ctx.estimate_tokens("tiktoken is great!") == 6
    assert "drawer" in ctx.get_conversation_summary()
    before = ctx.budget.used_tokens
    assert ctx.compress_conversation(0.4).tokens_after < before
    assert "drawer" in ctx.get_conversation_summary()


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_the_target_ratio_is_the_share_that_is_kept(share):
    """C-5: of what lies above the floor."""
    ctx = session(window=16_384)
    ctx.add_messages(list(turns(60)))
    before = size_of(ctx.get_context_for_model())
    done = ctx.compress_conversation(share)
    assert share * before / 2 <= done.tokens_after <= share * before + 300


def test_the_oldest_is_summarized_the_recent_stays_word_for_word():
    """C-6: "the oldest is summarized, the recent stays word for word, some of the middle stays
    where it matters".
    """
    said = list(turns(60))
    said[61] = {
        "role": "assistant",
        "content": "We decided: the ledger is kept in SQLite, for good.",
    }
    ctx = session()
    ctx.add_messages(said)
    prompt = ctx.get_context_for_model()
    kept = verbatim(said, prompt)
    assert kept[-2:] == said[-2:]
    assert said[3] not in prompt
    assert any("[Checkpoint" in words_of([m]) for m in prompt)
    assert "SQLite" in words_of(prompt)


@pytest.mark.parametrize("window", [4_096, 8_192, 32_768])
def test_compression_is_triggered_at_seventy_percent_and_goes_to_its_target(window):
    """C-7: "`usable = window − max(output reserve, hard-cap buffer)`, the buffer being min(1,500
    tokens, an eighth of the window)"; triggered at 70 % of the window,
    compressed to 60 % of usable in small windows, 40 % in large ones.
    """
    usable = window - min(1_500, window // 8)
    ctx, number = session(window=window), 0
    while not ctx.compressions:
        before = ctx.budget.used_tokens
        ctx.add_messages(list(turns(1, start=number)))
        number += 1
        ctx.get_context_for_model()
    assert before <= 0.70 * window < before + 400
    assert ctx.budget.max_tokens == usable
    assert 0.25 * usable <= ctx.budget.used_tokens <= 0.60 * usable


def test_a_policy_sets_its_own_trigger_and_an_absolute_cap():
    """C-7: "every policy can set its own, and an absolute cap"; a larger reserve counts."""
    for policy, trigger in (
        (CompactPolicy(trigger_ratio=0.5), 0.5 * 8_192),
        (CompactPolicy(trigger_tokens=2_000), 2_000),
        (CompactPolicy(output_reserve=3_192), 5_000 - 1_024),
    ):
        assert session(window=8_192, policy=policy).window.trigger == int(trigger)


def test_a_ceiling_knows_no_reserve_and_no_trigger():
    """C-7: "`max_tokens` is a ceiling on the returned prompt (no reserve, no trigger; what fits
    comes back unchanged)".
    """
    said = list(turns(20))
    assert compress(said, max_tokens=size_of(said)) == said
    shorter = compress(said, max_tokens=size_of(said) - 1)
    assert shorter != said
    assert size_of(shorter) < size_of(said)


# --- C-8, C-9 -------------------------------------------------------------------------------------

RULES = ("Never moor a ship at pier 7.", "Always write the date as YYYY-MM-DD.")


def test_standing_rules_survive_word_for_word_and_the_rest_comes_back_by_recall():
    """C-8: "standing rules word for word; everything else comes back by recall"; "a session keeps
    what one call over the same messages keeps, however often it was compressed".
    """
    said = [{"role": "user", "content": rule} for rule in RULES]
    said += [{"role": "assistant", "content": "The zircon lamp hangs in the shed of pier 4."}]
    said += turns(90)
    ctx = session()
    for start in range(0, len(said), 12):
        ctx.add_messages(said[start : start + 12])
        words = words_of(ctx.get_context_for_model())
    assert ctx.compressions >= 5
    once = words_of(compress(said, max_tokens=3_000))
    for rule in RULES:
        assert rule in words
        assert rule in once
    assert ctx.recall("zircon lamp")[0].text.startswith("The zircon lamp hangs in the shed")


def test_one_session_is_served_to_every_window():
    """C-9: "the same session is served to models with 4k, 8k, 32k, 128k, 200k, 1M windows, and a
    switch to a smaller model never overflows".
    """
    ctx = session(window=1_048_576)
    ctx.goals.set(["Empty every drawer."])
    ctx.add_messages(list(turns(150, words=60)))
    for window in (1_048_576, 4_096, 200_000, 8_192, 32_768, 128_000, 4_096):
        ctx.set_model("gpt-4o", window)
        prompt = ctx.get_context_for_model()
        assert size_of(prompt) <= window
        assert "Empty every drawer." in words_of(prompt)
    assert len(ctx.history) == 300


# --- S-2 ------------------------------------------------------------------------------------------


def test_the_store_keeps_its_interface(tmp_path):
    """S-2: "`SQLiteManager(path)`, also `":memory:"`"; "`.db`, `get_conversation`,
    `update_importance_score` are part of its interface".
    """
    for path in (":memory:", tmp_path / "chat.db"):
        with SQLiteManager(path) as store:
            ctx = session(store=store, session_id="s")
            message = ctx.add_message(role="user", content="Hello.")
            assert store.db is not None
            store.update_importance_score(message.id, 0.9)
            (kept,) = store.get_conversation("s").messages
            assert (kept.text, kept.importance_score) == ("Hello.", 0.9)
            assert store.integrity_check() == []


@pytest.mark.slow
def test_the_store_keeps_the_promises_of_a_store():
    """S-2: by the suite that is published for it."""
    check_session_store(lambda: SQLiteManager(":memory:"))


@pytest.mark.slow
def test_many_threads_and_processes_write_at_once(tmp_path, run):
    """S-2: "safe from many threads and from several processes (WAL, busy timeout, one writer)"."""
    file = tmp_path / "chat.db"
    with SQLiteManager(file) as store:

        def write(number):
            with ContextManager(store=store, session_id=f"s{number % 2}") as ctx:
                for i in range(10):
                    ctx.add_message(role="user", content=f"{number}-{i}")

        threads = [threading.Thread(target=write, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        listed = run("sessions", "list", "--store", file, "--json")
        for thread in threads:
            thread.join()
        assert listed.code == 0
        assert json.loads(listed.out) is not None
        texts = [m.text for n in range(2) for m in store.get_conversation(f"s{n}").messages]
        assert sorted(texts) == sorted(f"{n}-{i}" for n in range(6) for i in range(10))
        assert store.integrity_check() == []

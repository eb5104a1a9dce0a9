"""FR-1, FR-2, FR-4, FR-8, FR-11 and C-4 as they are written: what stays, in which form."""

import copy
import json
import re
from typing import Any

import pytest

from compact import Conversation, Message, PromptParts, SQLiteManager, compress, plan
from compact.testing import ScriptedModel, ScriptedSummarizer
from tests import checker
from tests.doors.talking import (
    QUICK,
    STORY,
    Dict,
    Listener,
    chat_key,
    padded,
    session,
    size_of,
    turns,
    verbatim,
    words_of,
)
from tests.scripted import ScriptedServer


def of_a_person(messages):
    return [message for message in messages if message["role"] == "user"]


# --- FR-1 -----------------------------------------------------------------------------------------


def test_three_layers_are_three_types_and_never_mixed():
    """FR-1: "active context (all that a model sees), snapshots (recovery only), session history
    (full, uncompressed, append-only)", "never mixed and enforced at run time".
    """
    model: Any = ScriptedModel("Yes.")
    ctx = session()
    ctx.add_messages(list(turns(40)))
    layers = [ctx.active_context(), ctx.time.snapshot(), ctx.history]
    assert len({type(layer) for layer in layers}) == 3
    for layer in (*layers[1:], ctx.get_context_for_model()):
        with pytest.raises(TypeError, match="ActiveContext"):
            model.complete(layer).send(None)
    assert [m.text for m in ctx.history] == [m["content"] for m in turns(40)]
    with pytest.raises(TypeError):
        ctx.history[0] = ctx.history[1]
    assert not hasattr(ctx.history, "pop")


@pytest.mark.parametrize("door", ["add_message", "sync"])
def test_what_was_given_and_what_was_served_can_be_changed_by_nobody_outside(door):
    """FR-1: the history is append-only, whatever becomes of the dictionaries outside."""
    call = {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
    given: list[Dict] = [
        {"role": "user", "content": [{"type": "text", "text": "How high is the tide?"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "two metres"},
    ]
    before = copy.deepcopy(given)
    ctx = session()
    if door == "sync":
        ctx.sync(given)
    else:
        for message in given:
            ctx.add_message(message)
    given[0]["content"][0]["text"] = "flood " * 9_000
    given[1]["tool_calls"][0]["function"]["arguments"] = "flood " * 9_000
    given[2]["content"] = "flood"
    served = ctx.get_context_for_model()
    assert served == before
    served[0]["content"][0]["text"] = "flood " * 9_000
    served[1]["tool_calls"].append({})
    served.append({"role": "user", "content": "flood"})
    assert ctx.get_context_for_model() == before
    shortened = compress(before, max_tokens=4_000)
    shortened[1]["tool_calls"][0]["function"]["name"] = "flood"
    assert before[1]["tool_calls"][0]["function"]["name"] == "tide"


# --- FR-2 -----------------------------------------------------------------------------------------


def told(name):
    """What a scripted model of that name is told by a session, and who wrote its checkpoints."""
    with ScriptedServer(STORY, model=name) as server:
        ctx = session(summarizer=f"{server.url}/v1#{name}", patience=QUICK)
        ctx.add_messages(list(turns(15, words=100)))
        ctx.compress_conversation(0.4)
        return server.prompts[0].prompt, {c.level: c.made_by for c in ctx.checkpoints}


def test_a_model_writes_the_summaries_with_a_prompt_for_each_level():
    """FR-2: "An LLM writes the summaries: a prompt per level"."""
    (prompt, written), (small_prompt, small) = told("scripted"), told("llama3.2:3b")
    assert written == {"detailed": "scripted"}
    assert small == {"moderate": "llama3.2:3b"}
    assert prompt.partition("<<<")[0] != small_prompt.partition("<<<")[0]


@pytest.mark.slow
def test_summaries_are_cached_by_what_they_stand_for():
    """FR-2: "summaries cached by the hash of their span": undone and done again, nobody is asked
    twice.
    """
    with ScriptedServer(STORY) as server:
        ctx = session(summarizer=chat_key(server), patience=QUICK)
        ctx.add_messages(list(turns(15, words=100)))
        ctx.compress_conversation(0.4)
        first, asked = ctx.get_context_for_model(), len(server.prompts)
        assert asked
        ctx.time.undo()
        ctx.compress_conversation(0.4)
        assert ctx.get_context_for_model() == first
        assert len(server.prompts) == asked


def test_progress_is_shown_while_a_model_writes_and_its_failure_is_handled():
    """FR-2: "progress shown meanwhile, failures handled"."""
    heard = Listener()
    summarizer = ScriptedSummarizer(RuntimeError("out of ink"))
    ctx = session(summarizer=summarizer, on_event=heard.append)
    ctx.add_messages(list(turns(30)))
    assert size_of(ctx.get_context_for_model()) <= 4_096
    assert summarizer.requests
    names = [event.name for event in heard]
    assert names.count("compact.stage_started") == 6
    assert "compact.summary_replaced" in names


# --- FR-4 -----------------------------------------------------------------------------------------


class Telling(ScriptedSummarizer):
    """Tells of each drawer in turn, as much as it may."""

    async def summarize(self, request):
        told = ["The user had the drawers of the old ledger emptied, one after the other."]
        for found in re.finditer(
            r"Answer (\d+): the (\w+)", "\n".join(m.text for m in request.messages)
        ):
            told.append(
                f"The assistant put the {found[2]} drawer into src/harbour/{found[2]}_{found[1]}.py"
                f" and found {int(found[1]) + 2} entries there."
            )
        while checker.tokens(" ".join(told)) > min(request.max_tokens, 200):
            told.pop()
        self._texts = [" ".join(told)]
        return await super().summarize(request)


@pytest.fixture(scope="module")
def long_lived():
    """A session of 13 compressions; the number, level and tokens of its checkpoints after each; and
    what its summarizer was asked for.
    """
    summarizer = Telling("")
    ages: list[list[tuple[int, str, int]]] = []
    ctx = session(window=32_768, summarizer=summarizer)
    said = 0
    while ctx.compressions < 13:
        ctx.add_messages(list(turns(4, start=said, words=150)))
        said += 4
        if ctx.compressions == len(ages):
            ctx.get_context_for_model()
            continue
        ages.append([(c.number, c.level, c.token_count) for c in ctx.checkpoints])
    return ctx, ages, summarizer.requests


LEVELS = ("detailed", "moderate", "compact", "merged")


@pytest.mark.slow
def test_checkpoints_age_by_the_schedule(long_lived):
    """FR-4: "detailed (3) → moderate (2) → compact (1) → merged"; "in compressions since creation:
    3 → moderate, 6 → compact, 10 → merged, or earlier under pressure"; "Re-summarized by the LLM
    at each level" (US-4).
    """
    ctx, ages, asked = long_lived
    assert {level for each in ages for _, level, _ in each} == set(LEVELS)
    assert {request.level for request in asked} - {"detailed"}, "re-summarized by the LLM"
    for checkpoint in ctx.checkpoints:
        age = ctx.compressions - checkpoint.number
        due = sum(age >= after for after in (3, 6, 10))
        assert LEVELS.index(checkpoint.level) >= due, (age, checkpoint.level)


@pytest.mark.slow
def test_the_sum_of_all_checkpoints_is_bounded_for_ever(long_lived):
    """FR-4: "every level has a hard token cap, so the sum of all checkpoints is bounded for ever";
    "the stories of spans together up to 20 %" of usable, and what the target leaves free.
    """
    ctx, ages, _ = long_lived
    sums = [sum(tokens for _, _, tokens in each) for each in ages if each]
    assert max(sums[len(sums) // 2 :]) <= 0.40 * ctx.window.usable
    counts = [len(each) for each in ages]
    assert max(counts) <= 16
    assert any("merged" in [level for _, level, _ in each] for each in ages)


def test_what_the_target_leaves_free_is_used():
    """FR-4: "what the target leaves free beside the messages in view is used, never left empty
    while something was left out".
    """
    ctx = session(window=16_384)
    ctx.add_messages(list(turns(100)))
    done = ctx.compress_conversation()
    assert done.covered > 50, "something was left out"
    assert 0.8 * done.limit <= done.tokens_after <= done.limit


# --- FR-8 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "words", "least"),
    [(8_192, 12, 20), (8_192, 50, 10), (4_096, 25, 10), (32_768, 60, 20)],
)
def test_the_newest_messages_of_a_person_stay_word_for_word(window, words, least):
    """FR-8: "The newest 20 user messages stay word for word, under pressure 10": under pressure is
    where these twenty take a tenth of the window and more; a quarter, they never take here.
    """
    said, number = [], 0
    ctx = session(window=window)
    while ctx.compressions < 2:
        for i in range(number, number + 20):
            asked = padded(
                f"Question {i}: what of drawer {i}?", f" The keeper saw it {i} times.", words
            )
            answer = padded(f"Answer {i}:", f" Drawer {i} holds rope, tar and a lamp.", 160)
            said += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
        ctx.add_messages(said[2 * number :])
        number += 20
        prompt = ctx.get_context_for_model()
    newest = of_a_person(said)[-20:]
    assert size_of(newest) < window / 4, "set up wrongly"
    kept = verbatim(newest, prompt)
    assert len(kept) >= least
    assert kept == newest[-len(kept) :], "the newest ones"


@pytest.mark.slow
def test_under_pressure_it_goes_on_by_the_ladder_and_growth_is_bounded():
    """FR-8: "then by the ladder; older ones are summarized into checkpoints; growth is bounded"."""
    ctx, sizes = session(), []
    for i in range(20):
        ctx.add_messages(list(turns(5, start=5 * i, words=150)))
        prompt = ctx.get_context_for_model()
        sizes.append(size_of(prompt))
    assert max(sizes) <= ctx.window.usable
    newest = of_a_person(list(turns(100, words=150)))[-1:]
    assert verbatim(newest, prompt) == newest
    assert ctx.checkpoints
    assert max(sizes[12:]) <= 1.05 * max(sizes[2:12])


# --- C-4 ------------------------------------------------------------------------------------------


def scores(*texts, role="user"):
    made = Conversation(messages=tuple(Message(role=role, content=text) for text in texts))
    return [message.importance_score for message in made.scored().messages]


def test_instructions_and_requests_outrank_chatter_and_the_score_is_deterministic():
    """C-4: "instructions and explicit requests of the user outrank chatter; questions, decisions,
    errors, code and recency count; deterministic".
    """
    chatter = "It was a fine day at the harbour"
    for more in (
        "Never touch the files in the folder vendor.",
        "Please write the function that reads the tide table.",
        "Which drawer holds the rope?",
        "We decided to use SQLite for the ledger.",
        "The build failed with an error: ValueError: no such drawer",
        "Look at this:\n```python\nprint(1)\n```",
    ):
        assert scores(more, chatter)[0] > scores(chatter, chatter)[0], more
    assert scores(chatter, chatter)[1] > scores(chatter, chatter)[0], "recency"
    assert scores(chatter, "Never do that.") == scores(chatter, "Never do that.")


ROLES = ("user", "assistant", "tool")
WANTED = "Drawer 11 in room 77 has a lamp"


def equals(role):
    """Ninety messages of one role that differ in nothing but their thing; where the twelfth is."""
    made: list[Dict] = [{"role": "user", "content": "Tell me of every drawer, one by one."}]
    at = 0
    for i in range(90):
        opened = f" It was opened {i} times." * 9
        words = f"{opened} Drawer {i} in room {i * 7 % 97} has a lamp and the plan {i}{i}. {opened}"
        message: Dict = {"role": role, "content": words.strip()}
        if role == "tool":
            function = {"name": "look", "arguments": json.dumps({"drawer": i})}
            call = {"id": f"c{i}", "type": "function", "function": function}
            made.append({"role": "assistant", "content": None, "tool_calls": [call]})
            message["tool_call_id"] = f"c{i}"
        at = len(made) if i == 11 else at
        made.append(message)
    return [*made, {"role": "user", "content": "Go on."}], at


@pytest.mark.parametrize("role", ROLES)
def test_what_is_marked_important_is_kept_among_equals(role):
    """C-4: "it decides what is kept among equals, whatever the role; a person or an application can
    mark a message … important".
    """
    shown = []
    for metadata in ({}, {"metadata": {"important": True}}):
        ctx, (messages, at) = session(window=3_000), equals(role)
        messages[at] |= metadata
        ctx.add_messages(messages)
        shown.append(WANTED in words_of(ctx.get_context_for_model()))
    assert shown == [False, True]


@pytest.mark.parametrize("role", ROLES)
def test_what_is_scored_highest_is_kept_among_equals(role):
    """C-4: a score that an application gives, 0 to 1."""
    with SQLiteManager(":memory:") as store:
        shown = []
        for name, score in (("plain", None), ("scored", 1.0)):
            messages, at = equals(role)
            ctx = session(window=3_000, store=store, session_id=name)
            stored = ctx.add_messages(messages)
            if score is not None:
                store.update_importance_score(stored[at].id, score, session_id=name)
                ctx = session(window=3_000, store=store, session_id=name)
            shown.append(WANTED in words_of(ctx.get_context_for_model()))
    assert shown == [False, True]


# --- FR-11 ----------------------------------------------------------------------------------------

TIERS = [(4_096, 200), (8_192, 500), (16_384, 1_000), (32_768, 1_500), (131_072, 1_500)]


@pytest.mark.parametrize(("window", "budget"), TIERS)
def test_the_system_prompt_has_the_budget_of_its_tier(window, budget):
    """FR-11: "Tiers by window: ≤4k, 8k, 16k, 32k, 64k+ with system-prompt budgets 200, 500, 1000,
    1500, 1500 tokens"; "the system prompt is never compressed".
    """
    ctx = session(window=window, prompt=PromptParts(instructions="Answer in one sentence."))
    assert ctx.system_prompt.budget == budget
    assert ctx.system_prompt.tokens <= budget


def test_the_system_prompt_is_never_compressed():
    """FR-11: "the system prompt is never compressed"."""
    ctx = session(prompt=PromptParts(instructions="Answer in one sentence."))
    before = ctx.system_prompt.text
    for i in range(3):
        ctx.add_messages(list(turns(12, start=12 * i, words=100)))
        assert before in ctx.get_context_for_model()[0]["content"]
    assert ctx.compressions


def test_what_a_tier_leaves_out_of_the_prompt_is_said():
    """FR-11: by an event: which part, its tokens, the budget; and so is a system prompt of the
    caller's own that is over it.
    """
    heard = Listener()
    parts = PromptParts(instructions="Answer in one sentence. " * 100)
    ctx = session(prompt=parts, on_event=heard.append)
    ctx.add_message(role="user", content="Hello.")
    ctx.get_context_for_model()
    assert ctx.system_prompt.left_out
    told = [str(event.as_dict()) for event in heard]
    assert any("instructions" in each and "200" in each for each in told), told
    heard.clear()
    own = session(system="Answer in one sentence. " * 100, on_event=heard.append)
    own.add_message(role="user", content="Hello.")
    own.get_context_for_model()
    told = [str(event.as_dict()) for event in heard]
    assert any("system" in each and "200" in each for each in told), told


@pytest.mark.slow
def test_thresholds_can_be_set_by_tier_and_a_change_of_tier_keeps_the_state(run, tmp_path):
    """FR-11: "thresholds can be set by tier", "a change of tier keeps the state"."""
    settings = tmp_path / "compact.yaml"
    settings.write_text("tiers: {1: {trigger_ratio: 0.5}, 2: {prompt_tokens: 250}}\n")
    assert run("validate-config", settings).code == 0
    ctx = session(window=32_768)
    ctx.goals.set(["Empty every drawer."])
    ctx.add_messages(list(turns(80)))
    first = ctx.history[0]
    ctx.pin(first)
    for window in (4_096, 8_192, 131_072, 16_384):
        ctx.set_model("gpt-4o", window)
        words = words_of(ctx.get_context_for_model())
        assert "Empty every drawer." in words
        assert first.text in words
        assert size_of(ctx.get_context_for_model()) <= window
    assert len(ctx.history) == 160


def test_a_plan_says_which_user_messages_stay():
    """FR-8, US-3: what would be done can be seen before it is done."""
    messages = list(turns(60))
    planned = plan(messages, max_tokens=4_000)
    kept = verbatim(messages, compress(messages, max_tokens=4_000))
    assert planned.count("kept") + planned.count("pinned") == len(kept)

"""FR-6 and FR-10 as they are written: whatever fails, the conversation goes on."""

import re
from contextlib import suppress

import pytest

from compact import (
    CompactError,
    CompactPolicy,
    SQLiteManager,
)
from compact.testing import ScriptedModel, ScriptedSummarizer
from tests.doors.talking import (
    BRIEF,
    QUICK,
    STORY,
    Listener,
    chat_key,
    down,
    session,
    size_of,
    turns,
    words_of,
)
from tests.scripted import FAULTS, Hangs, Rambles, ScriptedServer, WrongKey

STAGES = ["identify", "prepare", "summarize", "checkpoint", "update", "validate"]
TOOL = {
    "type": "function",
    "function": {"name": "tide", "description": "Tells the tide. " * 90, "parameters": {}},
}


# --- FR-6 -----------------------------------------------------------------------------------------


@pytest.mark.sampled(9)
@pytest.mark.parametrize("fault", [*FAULTS, Hangs(), WrongKey()], ids=lambda f: type(f).__name__)
def test_whatever_a_summarizer_answers_the_conversation_goes_on_and_it_is_said(fault):
    """FR-6: "time-outs, refusals, 4xx/5xx, overflow errors, empty, truncated, echoing, growing or
    garbage summaries. Degrade, say so in plain words".
    """
    heard = Listener()
    with ScriptedServer(fault) as server:
        patience = BRIEF if isinstance(fault, Hangs) else QUICK
        key = chat_key(server)
        ctx = session(summarizer=key, patience=patience, on_event=heard.append)
        ctx.add_messages(list(turns(15, words=100)))
        ctx.add_message(role="user", content="Where do we stand?")
        prompt = ctx.get_context_for_model()
        assert server.requests, "the model was not asked"
    assert size_of(prompt) <= 8_192
    assert prompt[-1]["content"] == "Where do we stand?"
    assert {c.made_by for c in ctx.checkpoints} == {"extractive"}
    said = heard.named("compact.summary_replaced")
    assert said, "nobody was told"
    assert all(event.reason for event in said)


@pytest.mark.slow
def test_a_failing_summarizer_is_told_to_a_person_in_plain_words(run, sample):
    """FR-6: "say so in plain words, offer recovery": the command line says it, works all the same,
    and takes it back when asked.
    """
    run("sessions", "import", sample, "--as", "harbour")
    with ScriptedServer(WrongKey()) as server:
        key = chat_key(server)
        done = run("sessions", "compress", "harbour", "--window", "8000", "--summarizer", key)
    assert done.code == 0, done
    assert "Traceback" not in done.err
    assert re.search(r"(summary|summarizer) .*(not used|failed)", done.err), done.err
    assert run("undo", "harbour").code == 0


@pytest.mark.sampled(7)
@pytest.mark.parametrize("fault", [*FAULTS, WrongKey()], ids=lambda f: type(f).__name__)
def test_a_failing_model_costs_no_message(fault):
    """FR-6: "Every model and provider call can fail": an error of ours that says what happened, the
    session as it was, and the same call works when the model is back.
    """
    script = [fault] if isinstance(fault, WrongKey) else [fault, fault]
    with ScriptedServer(*script, "It is done.") as server:
        ctx = session(model=chat_key(server), patience=QUICK)
        ctx.add_messages(list(turns(2)))
        ctx.add_message(role="user", content="And now?")
        with suppress(CompactError):
            assert ctx.send().role == "assistant"
        assert len(ctx.history) in (5, 6)
        told = len(ctx.history)
        while ctx.send().text != "It is done.":
            told += 1
    assert ctx.history[4].text == "And now?"
    assert len(ctx.history) == told + 1
    assert ctx.history[-1].text == "It is done."


def test_a_summarizer_whose_limits_cannot_be_asked_is_skipped():
    """FR-6: a server that is down fails like any other: the next one is asked."""
    with down() as key, ScriptedServer(STORY) as server:
        ctx = session(summarizer=[key, chat_key(server)], patience=QUICK)
        ctx.add_messages(list(turns(15, words=100)))
        ctx.get_context_for_model()
        assert server.prompts, "the next one was not asked"
    assert "scripted" in {c.made_by.rpartition("#")[2] for c in ctx.checkpoints}


@pytest.mark.slow
def test_a_model_that_writes_too_much_is_asked_for_less_once():
    """FR-6: "growing … summaries": once more for less, and no breaker opens for it."""
    heard = Listener()
    with ScriptedServer(Rambles(3), STORY, Rambles(3), STORY) as server:
        key = chat_key(server)
        ctx = session(summarizer=key, patience=QUICK, on_event=heard.append)
        ctx.add_messages(list(turns(15, words=100)))
        ctx.get_context_for_model()
    asked = [int(re.findall(r"at most (\d+) words", p.prompt)[-1]) for p in server.prompts]
    assert 2 <= len(asked) <= 4, asked
    assert asked[-1] < asked[-2], "it was asked for as much once more"
    assert {c.made_by for c in ctx.checkpoints} != {"extractive"}
    assert not heard.named("compact.breaker_opened")


def test_a_compression_that_succeeds_is_no_error():
    """FR-6: `compact.error` is for what failed: none in a session that was always served."""
    heard = Listener()
    system = "You keep the harbour's ledger in good order. " * 130
    ctx = session(system=system, on_event=heard.append)
    for i in range(40):
        ctx.add_messages(list(turns(1, start=i)))
        ctx.get_context_for_model()
    assert ctx.compressions > 5
    assert not heard.named("compact.error")


# --- FR-10 ----------------------------------------------------------------------------------------


class Growing:
    """A tokenizer of one's own whose counts change, as with a new version of a vocabulary."""

    name, exact = "growing", False

    def __init__(self, factor):
        self.factor = factor

    def count(self, text):
        return int(len(text) * self.factor / 4) + 1 if text else 0


def found_too_large(store, factor, heard, *, window=16_384):
    """A session up to its trigger, opened again where every text costs so many times as much."""
    plain = {"store": store, "session_id": "s", "window": window}
    ctx = session(tokenizer=Growing(1.0), **plain)
    ctx.add_message(role="system", content="You keep the harbour's ledger.")
    ctx.goals.set(["Empty every drawer before the tenth of May."])
    number = 0
    while len(ctx.checkpoints) < 2 or ctx.budget.used_tokens < 0.85 * ctx.window.trigger:
        ctx.add_messages(list(turns(2, start=number, words=50)))
        ctx.get_context_for_model()
        number += 2
    ctx.add_message(role="user", content="Which drawer is the last one?")
    return session(tokenizer=Growing(factor), on_event=heard.append, **plain)


def test_emergency_actions_take_a_snapshot_before_each_and_roll_over_at_last():
    """FR-10: "Emergency actions, a snapshot before each: lower a checkpoint's level, merge
    checkpoints, summarize user messages aggressively, roll over (system prompt, goals, last user
    messages, an ultra-compact summary)".
    """
    heard, model = Listener(), ScriptedModel("The jetty.")
    with SQLiteManager(":memory:") as store:
        ctx = found_too_large(store, 75, heard, window=8_192)
        before = ctx.time.context_at(len(ctx.history))
        assert ctx.send(model).text == "The jetty."
        rungs = heard.named("compact.emergency")
        told = [event.rung for event in rungs]
        order = [
            min(i for i, rung in enumerate(told) if action in rung)
            for action in ("lower", "merge", "user messages", "roll over")
        ]
        assert order == sorted(order), told
        kept = {snapshot.id: snapshot for snapshot in ctx.time.snapshots()}
        assert [kept[event.snapshot_id].purpose for event in rungs] == ["emergency"] * len(rungs)
        (sent,) = model.contexts
        ctx.time.restore(rungs[0].snapshot_id)
        assert ctx.time.context_at(len(ctx.history)).messages == before.messages
    words = sent.render_text()
    assert sent.tokens <= ctx.window.usable
    assert "You keep the harbour's ledger." in words
    assert "Empty every drawer before the tenth of May." in words
    assert "Which drawer is the last one?" in words
    assert sent.checkpoints


@pytest.mark.parametrize(("window", "factor"), [(8_192, 15.0), (8_192, 20.0)])
def test_where_the_floor_fits_some_emergency_action_helps(window, factor):
    """FR-10, FR-3: an error only "if it cannot fit": system prompt, goals and the newest message
    take a tenth of the window, however much every text has grown.
    """
    with SQLiteManager(":memory:") as store:
        ctx = found_too_large(store, factor, Listener(), window=window)
        model = ScriptedModel("The jetty.")
        assert ctx.send(model).text == "The jetty."
    assert model.contexts[0].tokens <= ctx.window.usable
    assert "Which drawer is the last one?" in model.contexts[0].render_text()


def test_a_busy_summarizer_is_waited_for_by_nobody_who_did_not_ask():
    """FR-6: a time-out is one: the answer comes within the seconds that were given."""
    policy = CompactPolicy(summary_seconds=0.3)
    ctx = session(summarizer=ScriptedSummarizer(TimeoutError("slow")), policy=policy)
    ctx.add_messages(list(turns(25)))
    assert size_of(ctx.get_context_for_model()) <= 4_096
    assert "src/harbour" in words_of(ctx.get_context_for_model())

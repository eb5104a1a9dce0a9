"""FR-3, FR-5, FR-6, FR-10 as they are written: what is sent fits, whatever fails."""

import re

import pytest

from compact import (
    CannotFit,
    CompactError,
    CompactPolicy,
    ContextManager,
    SQLiteManager,
    compress,
)
from compact.errors import StoreFailed
from compact.testing import FAULTS, Busy, Hangs, Rambles, ScriptedModel, ScriptedServer, WrongKey
from compact.testing import ScriptedSummarizer
from tests.doors.talking import (
    BRIEF,
    QUICK,
    STORY,
    chat_key,
    down,
    server_size,
    session,
    size_of,
    turns,
    words_of,
)

STAGES = ["identify", "prepare", "summarize", "checkpoint", "update", "validate"]
TOOL = {
    "type": "function",
    "function": {"name": "tide", "description": "Tells the tide. " * 90, "parameters": {}},
}


class Listener(list):
    """The events of a session, in order."""

    def names(self):
        return [event.name for event in self]

    def named(self, name):
        return [event for event in self if event.name == name]


# --- FR-3 -----------------------------------------------------------------------------------------


def test_before_every_send_the_whole_prompt_is_counted_and_too_large_is_never_sent():
    """FR-3: "Before every send the whole prompt is counted and compared with the provider's limit;
    too large is never sent; corrective action, then counted again" (US-3).
    """
    with ScriptedServer("It is done.", window=4_096, count=server_size) as server:
        heard = Listener()
        ctx = session(model=chat_key(server), on_event=heard.append)
        for turn in range(12):
            ctx.add_messages(list(turns(4, start=4 * turn)))
            ctx.add_message(role="user", content=f"And now drawer {turn}?")
            before = len(server.prompts)
            assert ctx.send().text == "It is done."
            assert len(server.prompts) == before + 1, "it was refused, and sent once more"
        assert max(server_size(request.body) for request in server.prompts) <= 4_096
    counted = [event.tokens for event in heard.named("compact.trigger_decision")]
    assert len(counted) >= 12, "each send is counted"
    assert "compact.pruned_messages" in heard.names(), "it was too large, and something was done"


def too_large():
    ctx = session(system="You keep the harbour's ledger. " * 150, tools=[TOOL])
    ctx.set_goals(["Bring every drawer of the old ledger into the new one. " * 90])
    ctx.add_message(role="user", content="Begin, please. " * 700)
    return ctx


def test_what_cannot_fit_is_an_error_that_shows_the_breakdown():
    """FR-3: "if it cannot fit, an error that shows the breakdown": system prompt, goals, tools and
    the newest message each by its own name and size.
    """
    with pytest.raises(CannotFit) as caught:
        too_large().get_context_for_model()
    told = str(caught.value)
    for part in ("system prompt", "goals", "tool", "message"):
        named = [name for name in caught.value.floor if part in name]
        assert named, f"{part} is not in the breakdown: {told}"
        assert all(f"{caught.value.floor[name]:,}" in told for name in named)
    assert caught.value.total == sum(caught.value.floor.values()) > caught.value.limit


def test_what_cannot_fit_says_what_to_do():
    """FR-3: "and what to do": only what can be done, and by a call that the session has."""
    with pytest.raises(CannotFit) as caught:
        too_large().get_context_for_model()
    told = str(caught.value)
    assert "unpin" not in told, "nothing is pinned"
    calls = [name for name in re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", told)]
    assert [name for name in calls if callable(getattr(ContextManager, name, None))], told


def test_a_session_with_a_message_larger_than_its_window_is_not_stuck():
    """FR-3, FR-10, US-1: a pasted log that cannot fit is one call away from a prompt that does; the
    error names the call, and the log stays readable.
    """
    ctx = session()
    ctx.add_messages(list(turns(3)))
    ctx.add_message(role="user", content="Why? " + "harbour.log: the crane stood still\n" * 2_000)
    with pytest.raises(CannotFit) as caught:
        ctx.get_context_for_model()
    calls = re.findall(r"\b[a-z]+(?:_[a-z]+)*(?=\()", str(caught.value))
    offered = [getattr(ctx, name) for name in calls if hasattr(ctx, name)]
    assert offered, f"no way out is named: {caught.value}"
    offered[0]()
    assert size_of(ctx.get_context_for_model()) <= 4_096
    assert ctx.history[6].text.count("harbour.log") == 2_000


def test_those_who_send_themselves_report_back():
    """FR-3: "those that send themselves report back (`ctx.record_usage`, `ctx.report_overflow`)":
    the next prompt is one that the provider takes.
    """
    ctx = session(window=8_192)
    ctx.add_messages(list(turns(40)))
    first = size_of(ctx.get_context_for_model())
    ctx.report_overflow(
        f"request ({2 * first} tokens) exceeds the available context size (4096 tokens)"
    )
    assert 2 * size_of(ctx.get_context_for_model()) <= 4_096 + 100
    other = session(window=8_192)
    other.add_messages(list(turns(15)))
    before = size_of(other.get_context_for_model())
    other.record_usage(3 * before)
    assert size_of(other.get_context_for_model()) < 8_192 / 2.5, "counts were not corrected"


def test_state_held_by_a_server_is_refused_with_an_explanation():
    """FR-3: "State held by a server … would bypass the budget: detected and refused with an
    explanation": a reference to an item that it keeps, wherever items come in.
    """
    items = [{"role": "user", "content": "Go on."}, {"type": "item_reference", "id": "msg_1"}]
    ctx = session(format="responses")
    for given in (
        lambda: ctx.sync(items),
        lambda: ctx.add_messages(items),
        lambda: compress(items, max_tokens=100, format="responses"),
    ):
        with pytest.raises(CompactError, match="reference"):
            given()
    assert len(ctx.history) == 0


# --- FR-5 -----------------------------------------------------------------------------------------


def test_six_stages_say_how_far_they_are():
    """FR-5: "A pipeline of six stages: identify, prepare, summarize, create checkpoint, update
    context, validate; progress from each".
    """
    heard = Listener()
    ctx = session(on_event=heard.append)
    ctx.add_messages(list(turns(30)))
    ctx.compress_conversation()
    started = heard.named("compact.stage_started")
    assert [event.stage for event in started] == STAGES
    assert [event.done for event in started] == sorted({event.done for event in started})
    names = heard.names()
    assert names.index("compact.summary_created") > names.index("compact.stage_started")


@pytest.mark.parametrize("stage", STAGES)
def test_an_error_at_any_stage_leaves_the_old_context_untouched(stage):
    """FR-5: "an error at any stage leaves the old context untouched": here a person's Ctrl-C."""
    stops = True

    def listen(event):
        if stops and event.name == "compact.stage_started" and event.stage == stage:
            raise KeyboardInterrupt

    ctx = session(on_event=listen)
    ctx.add_messages(list(turns(14, words=40)))
    old = ctx.get_context_for_model()
    with pytest.raises(KeyboardInterrupt):
        ctx.compress_conversation()
    assert ctx.get_context_for_model() == old == list(turns(14, words=40))
    assert not ctx.compressions
    stops = False
    ctx.compress_conversation()
    assert ctx.checkpoints, "it recovers"


class Counting:
    """A tokenizer of one's own that can be told to fail once."""

    name, exact = "words", True
    fails = failed = False

    def count(self, text):
        if self.fails:
            self.fails, self.failed = False, True
            raise OSError("the tokenizer is gone")
        return len(text.split())


@pytest.mark.parametrize("stage", ["prepare", "update"])
def test_where_a_stage_fails_the_old_context_is_served_and_it_is_said(stage):
    """FR-5, FR-6: past the trigger, while the old context still fits, nobody gets an exception."""
    counting, heard = Counting(), Listener()

    def listen(event):
        heard.append(event)
        if event.name == "compact.stage_started" and not counting.failed:
            counting.fails = event.stage == stage

    ctx = session(tokenizer=counting, window=3_000, on_event=listen)
    ctx.add_messages(list(turns(18, words=60)))
    old = list(turns(18, words=60))
    assert ctx.window.trigger < ctx.budget.used_tokens <= ctx.window.usable, "set up wrongly"
    assert ctx.get_context_for_model() == old
    assert counting.failed
    assert "tokenizer is gone" in heard.named("compact.error")[0].message
    assert not heard.named("compact.summary_created")
    ctx.get_context_for_model()
    assert ctx.checkpoints, "it recovers"


class Full(SQLiteManager):
    """A store whose disk is full when a compression is to be kept."""

    full = False

    def commit(self, step):
        if self.full:
            raise StoreFailed("no space left on the device")
        return super().commit(step)


@pytest.mark.parametrize("door", ["get", "active", "send"])
def test_where_a_compression_cannot_be_kept_the_old_context_is_served_and_it_is_said(door):
    """FR-5, FR-6, US-5: past the trigger, while the old context still fits, a failed commit is an
    event in plain words and no exception; success is told after the commit only.
    """
    heard = Listener()
    with Full(":memory:") as store:
        ctx = session(store=store, on_event=heard.append)
        ctx.add_messages(list(turns(13, words=100)))
        ctx.add_message(role="user", content="Is the ledger whole?")
        old = [*turns(13, words=100), {"role": "user", "content": "Is the ledger whole?"}]
        assert ctx.window.trigger < size_of(old) <= ctx.window.usable, "set up wrongly"
        store.full = True
        model = ScriptedModel("Yes.")
        if door == "get":
            assert ctx.get_context_for_model() == old
        elif door == "active":
            assert [m.text for m in ctx.active_context().messages] == [m["content"] for m in old]
        else:
            ctx.send(model)
            assert [m.text for m in model.contexts[0].messages] == [m["content"] for m in old]
        errors = heard.named("compact.error")
        assert errors, "nobody was told"
        assert "space" in errors[0].message
        for name in ("compact.summary_created", "compact.pruned_messages", "compact.committed"):
            assert not heard.named(name), f"{name}, and nothing was kept"
        store.full = False
        ctx.get_context_for_model()
        assert ctx.checkpoints, "it recovers"


# --- FR-6 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [*FAULTS, Hangs(), WrongKey()], ids=lambda f: type(f).__name__)
def test_whatever_a_summarizer_answers_the_conversation_goes_on_and_it_is_said(fault):
    """FR-6: "time-outs, refusals, 4xx/5xx, overflow errors, empty, truncated, echoing, growing or
    garbage summaries. Degrade, say so in plain words".
    """
    heard = Listener()
    with ScriptedServer(fault) as server:
        patience = BRIEF if isinstance(fault, Hangs) else QUICK
        key = chat_key(server)
        ctx = session(window=8_192, summarizer=key, patience=patience, on_event=heard.append)
        ctx.add_messages(list(turns(28, words=100)))
        ctx.add_message(role="user", content="Where do we stand?")
        prompt = ctx.get_context_for_model()
        assert server.requests, "the model was not asked"
    assert size_of(prompt) <= 8_192
    assert prompt[-1]["content"] == "Where do we stand?"
    assert {c.made_by for c in ctx.checkpoints} == {"extractive"}
    said = heard.named("compact.summary_replaced")
    assert said, "nobody was told"
    assert all(event.reason for event in said)


def test_a_failing_summarizer_is_told_to_a_person_in_plain_words(run, sample):
    """FR-6: "say so in plain words, offer recovery": the command line says it, works all the same,
    and takes it back when asked.
    """
    run("sessions", "import", sample, "--as", "harbour")
    with ScriptedServer(WrongKey()) as server:
        key = chat_key(server)
        done = run("sessions", "compress", "harbour", "--window", "16000", "--summarizer", key)
    assert done.code == 0, done
    assert "Traceback" not in done.err
    assert re.search(r"(summary|summarizer) .*(not used|failed)", done.err), done.err
    assert run("undo", "harbour").code == 0


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
        try:
            assert ctx.send().role == "assistant"
        except CompactError as error:
            assert len(str(error)) > 10
            assert len(ctx.history) == 5
        told = len(ctx.history)
        while ctx.send().text != "It is done.":
            told += 1
    assert ctx.history[4].text == "And now?"
    assert len(ctx.history) == told + 1
    assert ctx.history[-1].text == "It is done."


def test_a_summarizer_whose_limits_cannot_be_asked_is_skipped():
    """FR-6: a server that is down fails like any other: the next one is asked."""
    with down() as key, ScriptedServer(STORY) as server:
        ctx = session(window=8_192, summarizer=[key, chat_key(server)], patience=QUICK)
        ctx.add_messages(list(turns(28, words=100)))
        ctx.get_context_for_model()
        assert server.prompts, "the next one was not asked"
    assert "scripted" in {c.made_by.rpartition("#")[2] for c in ctx.checkpoints}


def test_a_model_that_writes_too_much_is_asked_for_less_once():
    """FR-6: "growing … summaries": once more for less, and no breaker opens for it."""
    heard = Listener()
    with ScriptedServer(Rambles(3), STORY, Rambles(3), STORY) as server:
        key = chat_key(server)
        ctx = session(window=8_192, summarizer=key, patience=QUICK, on_event=heard.append)
        ctx.add_messages(list(turns(45)))
        ctx.get_context_for_model()
        allowed = [request.max_tokens for request in server.prompts]
    assert 2 <= len(allowed) <= 4, allowed
    assert allowed[1] < allowed[0], "it was asked for as much once more"
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
    ctx.set_goals(["Empty every drawer before the tenth of May."])
    number = 0
    while len(ctx.checkpoints) < 3 or ctx.budget.used_tokens < 0.6 * ctx.window.usable:
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
        ctx = found_too_large(store, 4.5, heard)
        before = ctx.context_at(len(ctx.history))
        assert ctx.send(model).text == "The jetty."
        rungs = heard.named("compact.emergency")
        told = [event.rung for event in rungs]
        order = [
            min(i for i, rung in enumerate(told) if action in rung)
            for action in ("lower", "merge", "user messages", "roll over")
        ]
        assert order == sorted(order), told
        kept = {snapshot.id: snapshot for snapshot in ctx.snapshots()}
        assert [kept[event.snapshot_id].purpose for event in rungs] == ["emergency"] * len(rungs)
        (sent,) = model.contexts
        ctx.restore(rungs[0].snapshot_id)
        assert ctx.context_at(len(ctx.history)).messages == before.messages
    words = sent.render_text()
    assert sent.tokens <= ctx.window.usable / 4, "it did not roll over"
    assert "You keep the harbour's ledger." in words
    assert "Empty every drawer before the tenth of May." in words
    assert "Which drawer is the last one?" in words
    assert 0 < sum(c.token_count for c in sent.checkpoints) <= ctx.window.usable / 8


@pytest.mark.parametrize(("window", "factor"), [(16_384, 5.0), (8_192, 15.0), (8_192, 20.0)])
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

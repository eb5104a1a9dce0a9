"""FR-3 and FR-5 as they are written: what is sent fits, and half-done work changes nothing."""

import re
import subprocess
import sys

import pytest

from compact import (
    CannotFit,
    CompactError,
    ContextManager,
    SQLiteManager,
    compress,
)
from compact.errors import StoreFailed
from compact.testing import ScriptedModel
from tests.doors.talking import (
    Listener,
    chat_key,
    server_size,
    session,
    size_of,
    turns,
)
from tests.scripted import ScriptedServer

STAGES = ["identify", "prepare", "summarize", "checkpoint", "update", "validate"]
TOOL = {
    "type": "function",
    "function": {"name": "tide", "description": "Tells the tide. " * 90, "parameters": {}},
}


# --- FR-3 -----------------------------------------------------------------------------------------


def test_before_every_send_the_whole_prompt_is_counted_and_too_large_is_never_sent():
    """FR-3: "Before every send the whole prompt is counted and compared with the provider's limit;
    too large is never sent; corrective action, then counted again" (US-3).
    """
    with ScriptedServer("It is done.", window=4_096, count=server_size) as server:
        heard = Listener()
        own = {"summarizer": "extractive", "on_event": heard.append}
        ctx = session(model=chat_key(server), **own)
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
    ctx.goals.set(["Bring every drawer of the old ledger into the new one. " * 90])
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
    calls = re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", told)
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


@pytest.mark.parametrize("stage", ["checkpoint", "update"])
def test_where_a_stage_fails_the_old_context_is_served_and_it_is_said(stage):
    """FR-5, FR-6: past the trigger, while the old context still fits, nobody gets an exception."""
    counting, heard = Counting(), Listener()

    def listen(event):
        heard.append(event)
        if event.name == "compact.stage_started" and not counting.failed:
            counting.fails = counting.fails or event.stage == stage  # whoever counts next

    ctx = session(tokenizer=counting, window=2_700, on_event=listen)
    ctx.add_messages(list(turns(18, words=60)))
    old = list(turns(18, words=60))
    assert ctx.window.trigger < ctx.budget.used_tokens <= ctx.window.usable, "set up wrongly"
    assert ctx.get_context_for_model() == old
    assert counting.failed
    assert "tokenizer is gone" in heard.named("compact.error")[0].message
    assert not heard.named("compact.summary_created")
    ctx.add_messages(list(turns(2, words=90)))
    ctx.get_context_for_model()
    assert ctx.checkpoints, "it recovers, when it has grown further"


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
        ctx.add_messages(list(turns(2, words=100)))
        ctx.get_context_for_model()
        assert ctx.checkpoints, "it recovers, when it has grown further"


def test_importing_the_front_door_models_and_compiles_nothing():
    """NFR-1: what a program imports is loaded when it is called, and its help is whole before."""
    script = """
import sys
from compact import compress, plan
assert compress.__doc__ and "summarizer (" in compress.__doc__
heavy = [name for name in ("pydantic", "re2", "apsw", "numpy", "orjson") if name in sys.modules]
print(heavy, len(compress([{"role": "user", "content": "hello"}], max_tokens=100)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[] 1"

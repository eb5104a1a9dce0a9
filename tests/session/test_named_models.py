"""A model that a session names writes its stories; one that is down costs one request."""

import asyncio
import json
import re
import socket
from datetime import timedelta

import pytest

from compact import CompactConfig, CompactManager, ContextManager, Patience, compress, plan
from compact.messages import clock_and_ids
from compact.messages.asking import ASK
from compact.messages.messages import Message
from compact.messages.replies import Reply
from compact.models.profiles import shipped
from compact.testing import ScriptedModel, ScriptedSummarizer
from tests.doors.talking import QUICK, Listener, session, turns
from tests.scripted import Answer, Hangs, HangsUp, InternalError, NoSuchModel, ScriptedServer
from tests.session.asking import Clock

LONG = list(turns(30, words=100))
CHOSEN = "compact.summarizer_chosen"
DOWN: dict[str, Answer] = {
    "closed": HangsUp(),
    "500": InternalError(),
    "unlisted": NoSuchModel(),
    "hanging": Hangs(),
}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    """No key of the machine, and no server but those that a test starts."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name in ("openai", "ollama"):
        pytest.importorskip(name)


def grown(ctx):
    """The session after another compression by its trigger."""
    before = ctx.compressions
    while ctx.compressions == before:
        ctx.add_messages(list(turns(4, start=len(ctx.history), words=100)))
        ctx.get_context_for_model()
    return ctx


def makers(ctx):
    return {checkpoint.made_by for checkpoint in ctx.checkpoints}


def told(prompt):
    """A story of what a prompt shows, as a good model could tell it: not of what stays in view."""
    past = re.sub(r"\\n- (User|Assistant): .*?(?=\\n)", "", prompt)
    files = list(dict.fromkeys(re.findall(r"src/harbour/\w+\.py", past))) or ["none"]
    return (
        "The user asked for one drawer after the other to be taken out of the old ledger and put "
        f"into a file of its own: {', '.join(files[:3])} and {files[-1]}. The assistant moved the "
        "entries and told what it found there, and left the other drawers alone."
    )


def teller(request):
    return told(json.dumps(request.body))


def asked(server):
    """Requests that came in: for stories, or for what is asked before one."""
    return len(server.requests)


def book(name, **entry):
    return shipped().with_entries([{"id": name, "max_context_window": 8_192, **entry}], "a test")


# --- who writes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["{url}/v1#scripted", "ollama+{url}#scripted"])
def test_the_model_that_a_session_names_writes_its_stories(key):
    """FR-2: "the model that a session names writes them"; it is said once."""
    heard = Listener()
    with ScriptedServer(teller) as server:
        named = key.format(url=server.url)
        with session(model=named, window=4_096, on_event=heard.append) as ctx:
            grown(ctx)
            assert server.prompts
            assert makers(ctx) != {"extractive"}
            grown(ctx)
    (said,) = heard.named(CHOSEN)
    assert (said.model, said.reason) == (named, "")


def test_a_person_can_turn_the_model_off():
    """FR-2: "a person can turn the model off"."""
    heard = Listener()
    with ScriptedServer(teller) as server:
        key = f"{server.url}/v1#scripted"
        with session(model=key, summarizer="extractive", on_event=heard.append) as ctx:
            grown(ctx)
            assert makers(ctx) == {"extractive"}
        assert not server.requests
    assert not heard.named(CHOSEN)


UNFIT = {
    "small": {"parameters": "1.5B"},
    "marked": {"parameters": "70B", "writes_summaries": False},
}


@pytest.mark.parametrize("entry", UNFIT.values(), ids=UNFIT)
def test_an_unfit_model_writes_where_it_is_named_for_it(entry):
    """FR-2, FR-13: code's text is better than a small model's; a person may want it even so."""
    heard = Listener()
    with ScriptedServer(teller) as server:
        key, models = f"ollama+{server.url}#house:1", book("house:1", **entry)
        with session(model=key, models=models, on_event=heard.append) as ctx:
            grown(ctx)
            assert makers(ctx) == {"extractive"}
        assert not server.requests
        (said,) = heard.named(CHOSEN)
        assert said.model == ""
        assert said.reason
        with session(model=key, models=models, summarizer=key) as ctx:
            grown(ctx)
        assert server.prompts


def test_a_model_without_its_key_is_never_asked_and_fails_nothing():
    """FR-2: the middleware's model writes as well; without a key nothing is tried, and it is said
    once.
    """
    heard = Listener()
    config = CompactConfig(model="gpt-4o-mini", max_context_tokens=4_096)
    with CompactManager(config, on_event=heard.append) as manager:
        for count in (20, 30, 40):
            assert manager.preflight("a", list(turns(count, words=100)))
        assert makers(manager.session("a")) == {"extractive"}
    (said,) = heard.named(CHOSEN)
    assert "OPENAI_API_KEY" in said.reason
    assert not heard.named("compact.error")


def test_the_middlewares_model_writes():
    """FR-2, K-10: `CompactConfig(model=…)` names the session's model."""
    with ScriptedServer(teller) as server:
        config = CompactConfig(model=f"{server.url}/v1#scripted", max_context_tokens=4_096)
        with CompactManager(config) as manager:
            manager.preflight("a", LONG)
            assert makers(manager.session("a")) != {"extractive"}
        off = config.model_copy(update={"summarizer": "extractive"})
        before = asked(server)
        with CompactManager(off) as manager:
            manager.preflight("a", LONG)
        assert asked(server) == before


def test_a_blocking_call_in_an_event_loop_is_served_by_code():
    """FR-2, NFR-2: whoever named no summarizer is not refused for one."""
    heard = Listener()
    with ScriptedServer(teller) as server:
        with session(model=f"{server.url}/v1#scripted", on_event=heard.append) as ctx:
            ctx.add_messages(LONG)

            async def inside():
                assert ctx.get_context_for_model()

            asyncio.run(inside())
            assert makers(ctx) == {"extractive"}
        assert not server.requests
    assert "event loop" in heard.named(CHOSEN)[0].reason


def test_another_model_writes_from_the_switch_on():
    """C-9: the session goes on with a model, its stories too."""
    with (
        ScriptedServer(teller, model="one") as first,
        ScriptedServer(teller, model="two") as second,
        session(model=f"{first.url}/v1#one") as ctx,
    ):
        grown(ctx)
        known = len(first.prompts)
        ctx.set_model(f"{second.url}/v1#two", 4_096)
        grown(ctx)
        assert len(first.prompts) == known > 0
        assert second.prompts


class Teller(ScriptedModel):
    """A model of one's own."""

    async def complete(self, context, ask=ASK):
        self.contexts.append(context)
        text = told(context.messages[-1].text)
        return Reply(message=Message(role="assistant", content=text), model=self.name)


def test_a_model_is_accepted_wherever_a_key_is():
    """FR-14: "open for other providers": alone and in lists."""
    model = Teller()
    with session(model=model, window=4_096) as ctx:
        grown(ctx)
        assert makers(ctx) == {model.name}
        assert ctx.send().text
        ctx.set_model(model, 8_192)
        assert ctx.window.size == 8_192
    gone = "http://127.0.0.1:9/v1#gone"
    for summarizer in (model, [model], [gone, model]):
        with session(summarizer=summarizer, patience=QUICK) as ctx:
            assert makers(grown(ctx)) == {model.name}
    before = len(model.contexts)
    assert compress(LONG, max_tokens=1_500, summarizer=model)
    assert len(model.contexts) > before
    with session(model=gone, fallbacks=[model], patience=QUICK, summarizer="extractive") as ctx:
        ctx.add_message(role="user", content="And who answers now?")
        assert ctx.send().text


# --- what one costs that is down ------------------------------------------------------------------


@pytest.mark.parametrize("kind", DOWN)
def test_a_summarizer_that_is_down_is_asked_once_and_left_alone_for_longer_and_longer(kind):
    """FR-6: one request for a compression, then none for a time that doubles."""
    clock = Clock()
    down: list[Answer] = []
    patience = Patience(each=2) if kind == "hanging" else Patience()

    def answer(request):
        return down[0] if down else teller(request)

    with ScriptedServer(answer) as server, clock_and_ids.using(clock=clock):
        key = f"{server.url}/v1#scripted"
        with session(summarizer=key, patience=patience, window=8_192) as ctx:
            ctx.add_messages(LONG)
            ctx.compress_conversation()
            assert makers(ctx) != {"extractive"}
            down.append(DOWN[kind])
            costs = []
            for wait in (0, 1, 61, 61, 60, 61, 120):
                clock.time += timedelta(seconds=wait)
                before = len(server.prompts)
                ctx.add_messages(list(turns(8, start=len(ctx.history), words=60)))
                ctx.compress_conversation()
                costs.append(len(server.prompts) - before)
            assert costs == [1, 0, 1, 0, 1, 0, 0]


@pytest.mark.parametrize("kind", DOWN)
def test_a_summarizer_that_is_down_costs_one_call_one_request(kind):
    """FR-6: `compress` and `preflight`."""
    patience = {"summary_request_seconds": 2.0}
    with ScriptedServer(lambda _: DOWN[kind]) as server:
        key = f"{server.url}/v1#scripted"
        policy = CompactConfig(**patience).policy()
        assert compress(LONG, max_tokens=1_500, summarizer=key, policy=policy)
        assert len(server.prompts) == 1
        config = CompactConfig(model=key, max_context_tokens=4_096, **patience)
        with CompactManager(config) as manager:
            for count in (20, 30, 40, 50):
                manager.preflight("a", list(turns(count, words=100)))
        assert len(server.prompts) == 2


def test_nobody_listening_costs_one_attempt():
    """FR-6: what is asked before a story is not asked twice of a server that is not there."""
    heard = Listener()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        for key in (f"http://127.0.0.1:{port}/v1#gone", f"ollama+http://127.0.0.1:{port}#gone"):
            heard.clear()
            with session(summarizer=key, patience=QUICK, on_event=heard.append) as ctx:
                grown(grown(ctx))
            assert len(heard.named("compact.story_asked")) == 1
            assert len(heard.named("compact.breaker_opened")) == 1
            assert not heard.named("compact.model_asked_again")


def test_a_session_that_is_loaded_whole_is_one_story_for_a_model() -> None:
    """Four were asked for, of 24 words each (issue 25, 2)."""
    summarizer = ScriptedSummarizer("The assistant told what each drawer of the harbour holds.")
    with ContextManager(window=8_192, summarizer=summarizer) as ctx:
        for message in turns(300):
            ctx.add_message(message)
        ctx.compress_conversation()
        assert len(summarizer.requests) == len(ctx.checkpoints) == 1


def test_a_models_story_has_room_in_one_call() -> None:
    """Of a large source at least 45 % of what the checkpoint may take, of a small one a quarter."""
    given = list(turns(300))
    summarizer = ScriptedSummarizer("The assistant told what each drawer of the harbour holds.")
    made = plan(given, max_tokens=6_000, summarizer=summarizer)
    (request,) = summarizer.requests
    (checkpoint,) = made.context.checkpoints
    assert request.max_tokens > 0.4 * checkpoint.token_count
    assert request.max_tokens <= 3_000
    small = ScriptedSummarizer("They talked.")
    plan(given[:16], max_tokens=900, summarizer=small)
    (request,) = small.requests
    assert request.max_tokens <= sum(len(each["content"]) for each in given[:16]) / 4

"""One session, many models: switching in mid-session, room for answers, trust (FR-11, FR-13,
FR-14, C-9).
"""

import itertools

import pytest

from compact import CompactPolicy, ContextManager, Patience
from compact.errors import ContextOverflow, InvalidConfig, UnknownModel
from compact.messages.asking import Limits
from compact.messages.checkpoints import Summary
from compact.messages.events import Event, ModelChanged, TrustFaded
from compact.testing import ScriptedModel
from compact.text.prompts import Note, PromptParts
from tests.doors.talking import Retelling, turns

TALK = "The keeper of the lamp house counts the ships that pass by the northern light. "


def fill(ctx, turns):
    for i in range(turns):
        ctx.add_message(role="user", content=f"Question {i}: {TALK * 2}")
        ctx.add_message(role="assistant", content=f"Answer {i}: {TALK * 3}")


def test_an_answer_has_its_room_and_thinking_has_more():
    """(FR-13) By model; the answer is asked for within that room."""
    plain, thinking = ContextManager("gpt-4o"), ContextManager("o3")
    assert 0 < plain.window.output_reserve < thinking.window.output_reserve
    assert ContextManager(window=8_192).window.output_reserve == 0
    model = ScriptedModel("ok")
    plain.add_message(role="user", content="hello")
    plain.send(model)
    assert model.asks[0].max_tokens == plain.window.output_reserve


def test_a_model_that_thinks_in_a_small_window_has_what_the_prompt_leaves():
    """(FR-13) An eighth of a small window would end in the middle of a thought."""
    ctx = ContextManager("ollama:qwen3:8b")
    ctx.add_message(role="user", content="Why is the sky blue?")
    model = ScriptedModel("ok")
    ctx.send(model)
    fill(ctx, 60)
    ctx.add_message(role="user", content=TALK * 140)
    ctx.send(model)
    window, reserve = ctx.window, ctx.window.output_reserve
    free, full = (ask.max_tokens or 0 for ask in model.asks)
    assert free > 5 * reserve
    assert full < free
    for room, context in zip((free, full), model.contexts, strict=True):
        assert reserve <= room <= window.size - context.tokens


def test_a_session_goes_on_with_another_model():
    """(C-9) Smaller and larger windows, to and fro: nothing overflows, nothing is lost."""
    events: list[Event] = []
    ctx = ContextManager("gpt-4o", on_event=events.append)
    ctx.goals.set(["Count every ship"])
    fill(ctx, 60)
    before = ctx.active_context()
    assert not ctx.checkpoints
    ctx.set_model("ollama:llama3.2:3b", 4_096)
    small = ctx.active_context()
    assert small.tokens <= ctx.window.usable < 4_096
    assert ctx.checkpoints
    assert "Count every ship" in small.render_text()
    ctx.set_model("gpt-4o")
    assert ctx.active_context().messages == before.messages
    assert ctx.active_context().tokens == before.tokens
    assert len(ctx.history) == 120
    assert [(e.model, e.window) for e in events if isinstance(e, ModelChanged)] == [
        ("ollama:llama3.2:3b", 3_482),
        ("gpt-4o", 128_000),
    ]


def test_a_switch_to_nothing_known_changes_nothing():
    ctx = ContextManager("gpt-4o")
    with pytest.raises(UnknownModel, match="window="):
        ctx.set_model("nobody-knows-it")
    assert ctx.window.size == 128_000
    ctx.set_model("nobody-knows-it", 5_000)
    assert ctx.window.size == 5_000


def _on_another_tokenizer() -> ContextManager:
    ctx = ContextManager("gpt-4o", 8_000)
    ctx.sync([{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}])
    ctx.set_model("claude-sonnet-4-5", 8_000)
    return ctx


def _shown(ctx):
    return [message.text for message in ctx.active_context().messages]


def test_what_was_said_after_a_switch_is_counted_at_once():
    """(C-9, FR-2) By the tokenizer that the prompt will be counted by."""
    ctx = _on_another_tokenizer()
    ctx.add_message(role="user", content=TALK * 20)
    used = ctx.budget.used_tokens
    assert used == ctx.active_context().tokens > 20 * 10


def test_the_system_prompt_that_is_shown_is_the_one_that_is_sent():
    """(FR-16, C-9) Another tokenizer may leave out what fitted by the first one."""
    notes = tuple(
        Note(name=f"skill {i}", text="naïve Größenänderung 修理屋顶 " * 8) for i in range(3)
    )
    ctx = ContextManager("gpt-4o", 8_000, prompt=PromptParts(skills=notes))
    ctx.add_message(role="user", content="hello")
    before = ctx.system_prompt
    ctx.set_model("claude-sonnet-4-5", 8_000)
    prompt = ctx.system_prompt
    assert before is not None
    assert prompt is not None
    assert prompt.included != before.included
    assert prompt.text in _shown(ctx)[0]


def test_going_back_is_for_every_tokenizer():
    ctx = _on_another_tokenizer()
    start = ctx.time.snapshot()
    ctx.add_message(role="user", content="three")
    ctx.time.restore(start)
    ctx.add_message(role="user", content="another three")
    assert _shown(ctx) == ["one", "two", "another three"]
    ctx.time.undo()
    assert _shown(ctx) == ["one", "two", "three"]
    ctx.time.redo()
    assert _shown(ctx) == [message.text for message in ctx.history]
    assert _shown(ctx)[-1] == "another three"


def test_an_edited_list_is_for_every_tokenizer():
    ctx = _on_another_tokenizer()
    given = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "2"}]
    ctx.sync(given)
    ctx.sync([*given, {"role": "user", "content": "three"}])
    assert _shown(ctx) == ["one", "2", "three"]


class Trained(ScriptedModel):
    """Says what it was made for."""

    def __init__(self, name, tokens):
        super().__init__("ok", name=name)
        self._tokens = tokens

    async def limits(self):
        return Limits(trained=self._tokens)


def test_one_models_smaller_window_is_not_anothers():
    """(C-9) To and fro; both were asked for the same size."""
    ctx = ContextManager("ollama:tiny:1b", 4_096)
    ctx.add_message(role="user", content="hello")
    tiny, usual = Trained("ollama:tiny:1b", 2_048), Trained("ollama:usual:7b", 32_768)
    ctx.send(tiny)
    assert ctx.window.size == 2_048
    ctx.set_model("ollama:usual:7b", 4_096)
    ctx.send(usual)
    assert usual.asks[0].window == 2_867
    ctx.set_model("ollama:tiny:1b", 4_096)
    ctx.send(tiny)
    assert tiny.asks[1].window == 2_048


def test_a_window_that_turns_out_smaller_than_its_reserve_still_holds_a_prompt():
    """(C-7) A model's reserve is for the window it is said to have; a server may have less."""
    ctx = ContextManager("gpt-5")
    assert ctx.window.output_reserve == 128_000
    ctx.add_message(role="user", content="hello")
    smaller = ContextOverflow("too large", limit=100_000)
    assert ctx.send(ScriptedModel(smaller, "hello back")).text == "hello back"
    assert ctx.window.size == 100_000
    assert ctx.window.usable >= 50_000


def test_a_reserve_that_leaves_nothing_to_a_prompt_is_refused(tmp_path):
    """(C-7, FR-6) When it is said, not as a prompt that cannot fit."""
    file = tmp_path / "chat.db"
    with pytest.raises(InvalidConfig, match="4,096 tokens leave none of a window of 4,000"):
        ContextManager(window=4_000, store=file, policy=CompactPolicy(output_reserve=4_096))
    assert not file.exists()
    ctx = ContextManager("gpt-4o", policy=CompactPolicy(output_reserve=4_096))
    with pytest.raises(InvalidConfig, match="output_reserve"):
        ctx.set_model("ollama:llama3.2:3b", 4_096)
    assert ctx.window.size == 128_000
    ctx.add_message(role="user", content="hello")
    assert ctx.send(ScriptedModel("hello back")).text == "hello back"


def test_a_context_that_code_wrote_in_between_is_no_reason_to_tell_it_again():
    """(FR-13) Stories are refused for a while, until none is in force; then they pass again."""

    class Refused(Retelling):
        refused = False

        async def summarize(self, request):
            if self.refused:
                return Summary(text="All is well.", made_by=self.name)
            return await super().summarize(request)

    events: list[Event] = []
    writes, number = Refused(), itertools.count()
    ctx = ContextManager("qwen2.5:1.5b", 3_000, on_event=events.append, summarizer=writes)

    def is_warned_of():
        return ctx.reliability is not None and ctx.reliability.warning is not None

    def talks_until(done):
        for _ in range(60):
            if ctx.checkpoints and done({c.made_by for c in ctx.checkpoints}):
                return
            ctx.add_messages(list(turns(1, start=next(number))))
            ctx.get_context_for_model()
        raise AssertionError("set up wrongly")

    talks_until(lambda makers: "retelling" in makers and is_warned_of())
    writes.refused = True
    talks_until(lambda makers: makers == {"extractive"})
    assert not is_warned_of()
    writes.refused = False
    talks_until(lambda makers: "retelling" in makers)
    assert is_warned_of()
    assert len([e for e in events if isinstance(e, TrustFaded)]) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("model", "window"), [("nobodys-1.5b", 4_096), ("qwen2.5:1.5b", 4_096), ("qwen2.5:1.5b", 3_000)]
)
def test_a_smaller_model_that_takes_over_is_warned_of(model, window):
    """(FR-13) Of a context that its predecessor could still rely on: once, in whatever window."""
    events: list[Event] = []
    writes, number = Retelling(), itertools.count()
    ctx = ContextManager("gpt-4o", 4_096, on_event=events.append, summarizer=writes)
    while ctx.compressions < 7:
        ctx.add_messages(list(turns(1, start=next(number))))
        ctx.get_context_for_model()
    assert not [e for e in events if isinstance(e, TrustFaded)]
    ctx.set_model(model, window)
    for _ in range(40):
        ctx.add_messages(list(turns(1, start=next(number))))
        ctx.get_context_for_model()
    assert ctx.compressions > 8
    told = [e for e in events if isinstance(e, TrustFaded)]
    assert len(told) == 1
    assert told[0].compressions >= 7


def test_a_summarizer_that_means_nothing_is_refused_before_anything_is_made(tmp_path):
    file = tmp_path / "chat.db"
    with pytest.raises(UnknownModel, match="extractive"):
        ContextManager(window=8_192, store=file, summarizer="extractve")
    assert not file.exists()


def test_patience_and_fallbacks_come_from_the_session(monkeypatch):
    """(FR-6) A session says how long its models are asked, and who answers in their place."""
    made = []

    def asked(keys, emit, patience, book):
        made.append((list(keys), patience.attempts))
        return ScriptedModel("here")

    monkeypatch.setattr("compact.wiring.asked_model", asked)
    with ContextManager(
        "ollama:llama3.2:3b",
        fallbacks=["openai:gpt-4o", "ollama:llama3.2:3b"],
        patience=Patience(attempts=2),
        summarizer="extractive",
    ) as ctx:
        ctx.add_message(role="user", content="hello")
        assert [ctx.send().text for _ in range(2)] == ["here"] * 2
        ctx.send("openai:gpt-4o")
        ctx.set_model("gpt-4o")
        ctx.send()
    assert made == [
        (["ollama:llama3.2:3b", "openai:gpt-4o"], 2),
        (["openai:gpt-4o", "ollama:llama3.2:3b"], 2),
        (["gpt-4o", "openai:gpt-4o", "ollama:llama3.2:3b"], 2),
    ]
    with pytest.raises(UnknownModel, match="nobody knows"):
        ContextManager(window=4_096, fallbacks=["nobody knows this: one"])

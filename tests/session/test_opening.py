"""Opening a session: what does not fit it is refused, and nothing is left behind (S-5, C-3)."""

from pathlib import Path
from typing import Any

import pytest

from compact import ContextManager, SQLiteManager, wiring
from compact.errors import InvalidArgument, InvalidConfig, UnknownModel
from compact.messages.budget import ContextWindow
from compact.messages.events import WindowCapped
from compact.messages.formats.known import format_named
from compact.models.profiles import shipped
from compact.session.views.view import View
from compact.store.inmemory import InMemoryStore
from tests.doors.talking import verbatim

PAGE = "The roof of the Bernoulli house holds, says src/roof/holds.py, since 12 March 2024. "


def said(turns: int, *, words: int = 20) -> list[dict[str, Any]]:
    """Turns of a person who asks, a model that calls a tool, and its answer."""
    return [
        message
        for i in range(turns)
        for message in (
            {"role": "user", "content": f"Question {i}: " + PAGE * words},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": f"call-{i}",
                        "type": "function",
                        "function": {"name": "look", "arguments": f'{{"at": "roof-{i}.txt"}}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": f"call-{i}", "content": "屋根は大丈夫です。" * words},
            {"role": "assistant", "content": f"Answer {i}: " + PAGE * words},
        )
    ]


# --- another format, another scope ----------------------------------------------------------------


def test_a_session_is_not_opened_in_another_format() -> None:
    """Its messages would be read, counted and sent as what they are not; both are named (C-3)."""
    store = InMemoryStore()
    ContextManager(store=store, session_id="s").add_messages(said(1))
    with pytest.raises(InvalidConfig, match="'chat_completions', not in 'anthropic'") as caught:
        ContextManager(store=store, session_id="s", format="anthropic")
    assert caught.value.field == "format"
    again = ContextManager(store=store, session_id="s", format="chat_completions")
    assert len(again.history) == 4


def test_a_model_of_another_format_opens_the_session_in_its_own() -> None:
    """The model's format is for new sessions; the counter is that of the session's (C-3)."""
    store = InMemoryStore()
    ContextManager(store=store, session_id="s", format="anthropic", tokenizer="o200k")
    again = ContextManager("gpt-4o", store=store, session_id="s")
    assert again._session.state.wire.name == "anthropic"
    assert again._session.state.counter.framing.images == "area"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"format": "bogus"}, UnknownModel),
        ({"tokenizer": "bogus"}, UnknownModel),
        ({"model": "bogus"}, UnknownModel),
        ({"summarizer": "bogus"}, UnknownModel),
        ({"window": 0}, ValueError),
        ({"bogus": 1}, TypeError),
        ({"scope": ""}, InvalidArgument),
        ({"session_id": ""}, InvalidArgument),
    ],
)
def test_a_wrong_option_is_refused_before_a_file_is_made(
    tmp_path: Path, wrong: dict[str, Any], error: type[Exception]
) -> None:
    """A typing error leaves no store behind (C-3)."""
    with pytest.raises(error):
        ContextManager(store=tmp_path / "a.db", **wrong)
    assert list(tmp_path.iterdir()) == []


def _closings(monkeypatch: pytest.MonkeyPatch) -> list[SQLiteManager]:
    closed: list[SQLiteManager] = []
    close = SQLiteManager.close

    def counted(store: SQLiteManager) -> None:
        closed.append(store)
        close(store)

    monkeypatch.setattr(SQLiteManager, "close", counted)
    return closed


def test_what_was_opened_is_closed_when_opening_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the session is refused, or its view cannot be made; what was handed over open stays
    open (C-3)."""
    file = tmp_path / "a.db"
    with ContextManager(store=file, session_id="s") as ctx:
        ctx.add_message(role="tool", tool_call_id="a", content="done")
    closed = _closings(monkeypatch)
    with pytest.raises(InvalidConfig):
        ContextManager(store=file, session_id="s", format="anthropic")
    assert len(closed) == 1
    shared = SQLiteManager(file)
    with pytest.raises(InvalidConfig):
        ContextManager(store=shared, session_id="s", scope="bob")
    assert shared.session("s").id == "s"

    def broken(*_: object) -> None:
        raise OSError("no view")

    monkeypatch.setattr(View, "reload", broken)
    with pytest.raises(OSError, match="no view"):
        ContextManager(store=file, session_id="s")
    assert len(closed) == 2
    shared.close()


# --- a store that others use too ------------------------------------------------------------------


def test_a_store_that_was_handed_over_open_stays_open(tmp_path: Path) -> None:
    """Sessions share it; whoever opened it closes it (S-1)."""
    store = SQLiteManager(tmp_path / "a.db")
    other = ContextManager(store=store, session_id="b")
    with ContextManager(store=store, session_id="a") as ctx:
        ctx.add_message(role="user", content="x")
    other.add_message(role="user", content="y")
    assert len(ContextManager(store=store, session_id="a").history) == 1
    store.close()


# --- a window that a provider capped --------------------------------------------------------------


def test_a_capped_window_is_said_and_stays_with_its_size() -> None:
    """When it is learned, and whenever a window of that size is opened; another one is as large as
    was asked for (FR-14)."""
    store, seen = InMemoryStore(), list[object]()

    def opened(window: int) -> ContextManager:
        return ContextManager(window=window, store=store, session_id="s", on_event=seen.append)

    def capped() -> list[tuple[int, int]]:
        events = [e for e in seen if isinstance(e, WindowCapped)]
        seen.clear()
        return [(e.asked, e.size) for e in events]

    ctx = opened(8_192)
    ctx.add_messages(said(8))
    ctx.get_context_for_model()
    assert capped() == []
    ctx.report_overflow("request (5000 tokens) exceeds the available context size (4096 tokens)")
    assert ctx.window.size == 4_096
    assert capped() == [(8_192, 4_096)]
    assert opened(8_192).window.size == 4_096
    assert capped() == [(8_192, 4_096)]
    assert opened(128_000).window.size == 128_000
    assert capped() == []


# --- a model of another tokenizer -----------------------------------------------------------------


class Few:
    """A tokenizer that needs a token for twelve characters."""

    name = "few"
    exact = True

    def count(self, text: str) -> int:
        return (len(text) + 11) // 12


def by_model(model: str, prompt: list[dict[str, Any]], *, wire: str = "chat_completions") -> int:
    """Tokens of a prompt as the model's own tokenizer counts them."""
    counter = wiring.token_counter(wire, model=model)
    form = format_named(wire)
    return counter.messages([form.parse(raw, i) for i, raw in enumerate(prompt)])


def assert_counted(view: View, model: str, prompt: list[dict[str, Any]]) -> None:
    """The view counts its messages one by one, with the frame of each: what is sent as one with
    another saves a frame, of which the count says nothing.
    """
    one = {"role": "user", "content": "one"}
    frame = by_model(model, [one, one]) - by_model(model, [{**one, "content": "oneone"}])
    spared = frame * (len(view.context().messages) - len(prompt))
    assert by_model(model, prompt) <= view.tokens <= by_model(model, prompt) + spared


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "turns", "options"),
    [
        ("gpt-4", 20, {"tokenizer": Few(), "window": 32_000}),
        ("gpt-3.5-turbo-0613", 20, {"tokenizer": Few(), "window": 4_096}),
        ("claude-2", 60, {"model": "gpt-4o"}),
    ],
)
def test_a_prompt_for_another_tokenizer_fits_by_that_one(
    model: str, turns: int, options: dict[str, Any]
) -> None:
    """What fits by the session's counts may be far too large by the model's (FR-1, FR-3)."""
    ctx = ContextManager(**options)
    ctx.add_messages(said(turns))
    usable = ContextWindow(size=shipped().window_of(model)).usable
    assert by_model(model, [m.wire for m in ctx.history]) > usable  # type: ignore[misc]
    assert by_model(model, ctx.get_context_for_model(model)) <= usable
    for _ in range(3):
        ctx.add_messages(said(2))
        prompt = ctx.get_context_for_model(model)
        assert by_model(model, prompt) <= usable
        assert prompt[-1]["content"] == said(2)[-1]["content"]
        own = ctx.get_context_for_model()
        assert (
            ctx._session.state.counter.messages(
                [format_named("chat_completions").parse(raw, i) for i, raw in enumerate(own)]
            )
            <= ctx.window.usable
        )


@pytest.mark.slow
@pytest.mark.parametrize("reopened", [False, True])
def test_a_view_that_another_tokenizer_counted_is_counted_again(reopened: bool) -> None:
    """Of the same window too: what was in force for it fits by one count and not by the other
    (FR-1, FR-3)."""
    store = InMemoryStore()
    ctx = ContextManager(window=8_192, tokenizer=Few(), store=store, session_id="s")
    ctx.add_messages(said(40))
    usable = ctx.window.usable
    assert by_model("gpt-4", ctx.get_context_for_model()) > usable
    if reopened:
        ctx = ContextManager("gpt-4", store=store, session_id="s")
    prompt = ctx.get_context_for_model("gpt-4")
    assert by_model("gpt-4", prompt) <= usable
    assert_counted(ctx._session.view_for("gpt-4"), "gpt-4", prompt)


@pytest.mark.slow
def test_a_view_that_another_one_made_is_counted_by_the_session_s_own() -> None:
    """Whoever compressed the window last, by whichever tokenizer; a note says it (FR-1, FR-3)."""
    store = InMemoryStore()
    ctx = ContextManager("gpt-4", store=store, session_id="s")
    ctx.add_messages(said(60))
    few = ContextManager(window=8_192, tokenizer=Few(), store=store, session_id="s")
    assert by_model("gpt-4", few.get_context_for_model()) > ctx.window.usable
    assert store.notes("s")["counted:8192"]["by"] == "few"
    prompt = ctx.get_context_for_model()
    assert_counted(ctx._session.view, "gpt-4", prompt)
    assert ctx._session.view.tokens <= ctx.window.usable
    again = ContextManager("gpt-4", store=store, session_id="s")
    assert again._session.view.tokens == ctx._session.view.tokens
    few.get_context_for_model()
    assert few._session.view.tokens < ctx._session.view.tokens


def test_other_words_for_a_system_prompt_reach_every_model() -> None:
    """A list that is sent whole may bring them at any time; each counts them itself (FR-1)."""
    ctx = ContextManager(window=8_192, tokenizer=Few())
    said_so: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
    ctx.sync([{"role": "system", "content": "Be kind."}, *said_so])
    assert ctx.get_context_for_model("gpt-4")[0]["content"] == "Be kind."
    ctx.sync([{"role": "system", "content": "Be brief. " * 20}, *said_so])
    prompt = ctx.get_context_for_model("gpt-4")
    assert prompt[0]["content"] == "Be brief. " * 20
    assert ctx._session.view_for("gpt-4").tokens == by_model("gpt-4", prompt)


def test_another_tokenizer_has_counts_of_its_own_and_the_same_messages() -> None:
    """One session in memory, whoever counts (FR-1)."""
    ctx = ContextManager(window=8_192, tokenizer=Few())
    ctx.add_messages(said(2))
    ctx.get_context_for_model("gpt-4")
    own, other = (ctx._session.view, ctx._session.view_for("gpt-4"))
    assert other.state is own.state
    assert other.history[0] is own.history[0]
    assert other.history.tokens(0) > own.history.tokens(0)
    ctx.put_aside(ctx.history[0], tokens=64)
    assert all(len(h.shown(0).text) < len(h[0].text) for h in (own.history, other.history))


def test_a_session_that_takes_on_a_format_stays_with_its_model() -> None:
    """A switch of model is not forgotten when the first tool call settles the format (FR-1)."""
    ctx = ContextManager("gpt-4o")
    ctx.add_message({"role": "user", "content": "hi"})
    ctx.set_model("gpt-4")
    size = ctx.window.size
    ctx.add_message({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"})
    assert (ctx._session.state.wire.name, ctx.window.size) == ("responses", size)


def test_a_prompt_for_another_tokenizer_follows_the_session() -> None:
    """Pins, goals and branches are the session's, whoever counts (FR-1)."""
    ctx = ContextManager(window=32_000, tokenizer=Few())
    ctx.add_messages(said(2))
    pinned = ctx.history[0]
    ctx.get_context_for_model("gpt-4")
    ctx.pin(pinned)
    ctx.goals.set(["Keep the roof dry."])
    ctx.add_messages(said(20))
    prompt = ctx.get_context_for_model("gpt-4")
    assert any("Keep the roof dry." in str(m["content"]) for m in prompt)
    assert verbatim([{"role": pinned.role, "content": pinned.text}], prompt)
    ctx.time.branch(at=4)
    ctx.add_message(role="user", content="Another roof, please.")
    prompt = ctx.get_context_for_model("gpt-4")
    assert prompt[-1]["content"] == "Another roof, please."
    assert len(prompt) == 5, "as the session was there, before it had goals"


def test_what_a_provider_reports_belongs_to_the_tokenizer_it_was_counted_by() -> None:
    """A refusal of the other model's prompt makes that one smaller, and no other (FR-3, FR-14)."""
    ctx = ContextManager("gpt-4o", window=32_000)
    ctx.add_messages(said(10))
    before = ctx.window
    prompt = ctx.get_context_for_model("gpt-4")
    ctx.report_overflow("prompt is too long: 12000 tokens > 8192 maximum")
    assert by_model("gpt-4", ctx.get_context_for_model("gpt-4")) < by_model("gpt-4", prompt)
    assert ctx.window == before
    ctx.get_context_for_model()
    ctx.record_usage(60_000)
    assert ctx.window.usable < before.usable


def test_a_model_of_the_same_tokenizer_is_counted_by_the_session() -> None:
    """Also where somebody chose another tokenizer for its family (FR-1)."""
    ctx = ContextManager("gpt-4o", tokenizer="chars")
    ctx.add_messages(said(1))
    ctx.get_context_for_model("gpt-4.1")
    views = (ctx._session.view_for(model) for model in ("gpt-4o", "gpt-4.1"))
    assert all(view.counter is ctx._session.view.counter for view in views)
    with pytest.raises(UnknownModel):
        ctx.get_context_for_model("bogus")

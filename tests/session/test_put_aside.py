"""A message that fits in no window: the error names the way out, and one call takes it (FR-3)."""

import pytest

from compact import CannotFit, ContextManager
from compact.errors import InvalidArgument, NotFound, StoreFailed
from compact.messages.formats.known import format_named
from compact.messages.protocols import SessionStore
from compact.store.inmemory import InMemoryStore
from tests import checker
from tests.session.asking import fill, session
from tests.strategies import PNG

LOG = "\n".join(f"{i:05} harbour: crane {i * 7} lifted box {i * 13}" for i in range(3_000))


def pasted(store: SessionStore, **options) -> ContextManager:
    ctx = session(store, window=4_096, **options)
    fill(ctx, 0, 5)
    ctx.add_message(role="user", content=f"Why is this slow?\n{LOG}\nThat was all.")
    with pytest.raises(CannotFit, match=r"put_aside\(\) shows its head and tail"):
        ctx.get_context_for_model()
    return ctx


@pytest.mark.slow
def test_a_pasted_log_is_put_aside_in_one_call(store):
    """FR-3, FR-10: the next prompt fits; head, tail and an id are shown; recall reads the whole; so
    it stays when the session is opened again, compressed, or served elsewhere.
    """
    ctx = pasted(store)
    shown = ctx.put_aside()
    whole = ctx.history[-1]
    prompt = ctx.get_context_for_model()
    assert checker.prompt_tokens(prompt) <= ctx.window.usable
    assert checker.visible(prompt[-1]) == [shown.text]
    assert shown.text.startswith("Why is this slow?\n00000 harbour")
    assert shown.text.endswith("That was all.")
    assert f"the whole text is message {whole.id}" in shown.text
    assert whole.text == f"Why is this slow?\n{LOG}\nThat was all."
    assert ctx.expand(whole.id).messages == (whole,)
    assert "lifted box 19500" in ctx.recall("10500 19500")[0].text
    again = session(store, window=4_096)
    assert again.get_context_for_model() == prompt
    fill(again, 5, 60)
    again.get_context_for_model()
    assert again.compressions
    assert again.expand(whole.id).messages[0].text == whole.text
    assert again.time.context_at(len(ctx.history)).messages[-1].text == shown.text


def test_what_is_shown_is_for_the_window_that_was_asked_for_last():
    """FR-3, C-9: a smaller window than the session's own has less room; a person may say how much
    is shown, of any message.
    """
    ctx = session(InMemoryStore(), window=32_000)
    ctx.add_message(role="user", content=LOG[:60_000])
    ctx.get_context_for_model()
    with pytest.raises(CannotFit):
        ctx.get_context_for_model("gpt-4")
    ctx.put_aside()
    ctx.get_context_for_model("gpt-4")
    first = ctx.history[0]
    ctx.add_message(role="assistant", content="I see.")
    short = ctx.put_aside(first.id[:8], tokens=100)
    counter = ctx._session.state.counter
    assert 60 <= counter.message(short) <= 100
    assert ctx.active_context().messages[0] == short
    assert ctx.active_context().tokens == checker_tokens(ctx)
    with pytest.raises(NotFound, match="'nobody'"):
        ctx.put_aside("nobody")


@pytest.mark.parametrize("tokens", [None, 200])
def test_what_is_put_aside_twice_is_shown_as_it_was(tokens):
    """FR-3: the same call gives the same."""
    ctx = pasted(InMemoryStore())
    first = ctx.put_aside(tokens=tokens)
    assert ctx.put_aside(tokens=tokens).text == first.text
    assert ctx.active_context().messages[-1].text == first.text


def test_what_could_not_be_noted_is_not_put_aside(monkeypatch):
    """FR-3: a call that failed has changed nothing."""
    store = InMemoryStore()
    ctx = session(store, window=32_000)
    ctx.add_message(role="user", content=LOG[:30_000])
    before = ctx.get_context_for_model()

    def full(*_, **__):
        raise StoreFailed("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(store, "record", full)
        with pytest.raises(StoreFailed):
            ctx.put_aside()
    ctx.set_mode(ctx.mode)  # what is in view is looked up again
    assert ctx.get_context_for_model() == before


PICTURE = {"type": "base64", "media_type": "image/png", "data": PNG}
DOCUMENT = {"type": "text", "media_type": "text/plain", "data": LOG[:60_000]}


@pytest.mark.parametrize(
    "blocks",
    [
        [{"type": "document", "source": DOCUMENT}],
        [{"type": "image", "source": PICTURE}] * 20,
        [
            {
                "type": "tool_result",
                "tool_use_id": "c",
                "content": [{"type": "image", "source": PICTURE}] * 20,
            }
        ],
    ],
    ids=["document", "pictures", "pictures of a tool"],
)
def test_documents_and_pictures_are_put_aside_too(blocks):
    """FR-3: a line stands in the place of what has no head and tail."""
    ctx = session(InMemoryStore(), window=4_096, format="anthropic")
    if blocks[0]["type"] == "tool_result":
        call = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
        ctx.add_message(role="assistant", content=[call])
    words = {"type": "text", "text": "What is this?"}
    whole = ctx.add_message({"role": "user", "content": [*blocks, words]})
    assert ctx._session.state.counter.message(whole) > ctx.window.usable
    shown = ctx.put_aside(whole)
    sent = ctx.get_context_for_model()[-1]
    assert sum(checker.prompt_tokens([m]) for m in [sent]) <= ctx.window.usable
    assert f"left out; the whole is message {whole.id}" in str(sent)
    assert "What is this?" in str(sent)
    assert ctx._session.state.counter.message(shown) <= ctx.window.usable
    assert ctx.history[-1] == whole


def test_what_cannot_be_made_smaller_is_refused():
    ctx = session(InMemoryStore(), window=4_096)
    ctx.add_message(role="user", content="How is the roof held?")
    before = ctx.get_context_for_model()
    with pytest.raises(CannotFit, match="this message"):
        ctx.put_aside(tokens=4)
    for tokens in (0, -1):
        with pytest.raises(InvalidArgument, match="tokens"):
            ctx.put_aside(tokens=tokens)
    assert ctx.get_context_for_model() == before
    assert ctx.store.changes(ctx.id) == []


def checker_tokens(ctx):
    return ctx._session.sender.count(ctx.active_context())


def test_a_client_that_sends_its_list_whole_may_show_either():
    """K-6, FR-3: the message as it was said, or as it is shown, is the one that is known."""
    ctx = pasted(InMemoryStore())
    render = format_named("chat_completions").render
    said = render(list(ctx.history))
    ctx.put_aside()
    shown = ctx.get_context_for_model()
    for each in (said, shown):
        ctx.sync(each)
        assert len(ctx.history) == len(said)
        assert len(ctx.time.branches()) == 1
    assert ctx.history[-1].text.endswith("That was all.")


def test_as_much_is_shown_as_the_target_leaves_and_all_of_it_again():
    """FR-3: beside a system prompt and a line nothing else takes room."""
    ctx = ContextManager(window=4_096, tokenizer="o200k")
    ctx.add_message(role="system", content="Be brief.")
    said = ctx.add_message(role="user", content="".join(f"Line {i}.\n" for i in range(4_000)))
    ctx.put_aside()
    ctx.get_context_for_model()
    assert 0.9 * ctx.window.target < ctx.budget.used_tokens <= ctx.window.target
    assert ctx.compressions == 0
    ctx.put_aside(said, tokens=1_000_000)
    assert ctx.history.shown(1).text == said.text

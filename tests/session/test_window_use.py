"""Where the tokens of a window are: what a bar is drawn from (FR-9)."""

import pytest

from compact import ContextManager, PromptParts
from tests.doors.talking import turns


@pytest.mark.parametrize("format", ["chat_completions", "anthropic"])
def test_the_parts_are_exactly_what_the_prompt_counts(format):
    ctx = ContextManager(window=4_096, format=format, tokenizer="o200k", prompt=PromptParts())
    assert ctx.window_use.recent == 0
    assert ctx.window_use.system == ctx.window_use.used > 0
    assert ctx.window_use.goals == ctx.window_use.checkpoints == 0
    ctx.goals.set(["Open the winter berths on the 10th."])
    assert ctx.window_use.goals > 0
    for message in turns(30, words=80):
        ctx.add_message(**message)
        use = ctx.window_use
        assert use.used == ctx.budget.used_tokens
        assert use.free == ctx.budget.available_tokens
        ctx.get_context_for_model()
        assert ctx.window_use.used == ctx.active_context().tokens
    assert ctx.window_use.checkpoints > 0
    assert ctx.window_use.exact


def test_looking_compresses_nothing():
    ctx = ContextManager(window=4_096, tokenizer="chars")
    ctx.add_messages(list(turns(60, words=80)))
    assert ctx.window_use.used > ctx.window_use.usable
    assert ctx.window_use.free == 0
    assert not ctx.window_use.exact
    assert ctx.compressions == 0


def test_recalled_turns_are_a_part_of_their_own(tmp_path):
    store = tmp_path / "chat.db"
    with ContextManager(window=8_000, store=store, session_id="old") as old:
        old.add_message(role="user", content="My boat is the Petrel, she lies at berth nine.")
        old.add_message(role="assistant", content="Noted: the Petrel lies at berth nine.")
    with ContextManager(window=8_000, store=store, session_id="new", memory=True) as ctx:
        ctx.add_message(role="user", content="Where does my boat lie, the Petrel, which berth?")
        ctx.get_context_for_model()
        assert ctx.window_use.recalled > 0
        assert ctx.window_use.used == ctx.budget.used_tokens

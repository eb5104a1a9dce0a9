"""Automatic recall as it was asked for, through the public API alone."""

import pytest

from compact import ContextManager
from tests import checker
from tests.doors.talking import session, size_of, turns, words_of

SAID = "Our ferry licence number ends in 7731, and it runs out in May."
ASKED = "Which digits does our ferry licence number end in?"


@pytest.fixture
def file(tmp_path):
    with session(store=tmp_path / "chat.db", session_id="spring", title="Papers") as ctx:
        ctx.add_messages([{"role": "user", "content": SAID}, *turns(12)])
    return tmp_path / "chat.db"


def test_old_turns_for_the_newest_message_within_their_own_budget(file):
    """ "`ContextManager(memory=…, recall_tokens=…)` adds the most relevant old turns for the newest
    user message, within its own budget, placed where prompt caches don't break, marked as memory
    with dates, recognized as our own text when it comes back; off by default, one flag to turn on."
    """
    question = {"role": "user", "content": ASKED}
    with session(store=file, session_id="plain") as ctx:
        ctx.add_message(question)
        assert ctx.get_context_for_model() == [question], "off by default"
    with session(store=file, session_id="new", memory=True, recall_tokens=300) as ctx:
        ctx.add_messages([{"role": "user", "content": "Hello"}])
        before = ctx.get_context_for_model()
        assert before == [{"role": "user", "content": "Hello"}], "a greeting recalls nothing"
        ctx.add_messages([{"role": "assistant", "content": "Hello!"}, question])
        prompt = ctx.get_context_for_model()
        *_, block = prompt
        ends = f"\n\n{ASKED}"
        assert block["content"].endswith(ends), "their own words, and nothing added to them"
        assert checker.takes_turns(prompt, "chat_completions") == []
        assert SAID in block["content"]
        assert "memory" in block["content"].lower()
        assert "Papers" in block["content"]
        day = ctx.store.read("spring", 0, 1)[0].message.timestamp.date().isoformat()
        assert day in block["content"]
        assert size_of(prompt) - size_of(before) < 300 + 40
        ctx.add_messages([{"role": "assistant", "content": "7731."}, *turns(1)])
        assert ctx.get_context_for_model()[: len(prompt)] == prompt, "a prompt cache goes on"
        found = ctx.sync([*ctx.get_context_for_model(), {"role": "user", "content": "Thanks!"}])
        assert len(found.new) == 1
        assert SAID not in words_of([{"role": m.role, "content": m.text} for m in ctx.history])
        assert len(ctx.store.branches("new")) == 1


def test_the_whole_prompt_fits_however_much_is_recalled(file):
    with ContextManager(
        window=1_000, store=file, session_id="small", tokenizer="o200k", memory=True,
        recall_tokens=5_000,
    ) as ctx:  # fmt: skip
        for turn in turns(20, start=40, words=30):
            ctx.add_message(turn)
            ctx.add_message(role="user", content=ASKED)
            assert size_of(ctx.get_context_for_model()) <= ctx.window.usable

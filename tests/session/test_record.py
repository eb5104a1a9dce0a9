"""The standing record of a session: composed anew at each compression, from everything that is
covered (C-8, FR-4).
"""

import itertools

import pytest

from compact import ContextManager
from compact.messages.messages import Message
from compact.messages.own_text import headed
from compact.messages.protocols import SessionStore
from compact.session.merged import apart
from compact.session.state import KEY
from compact.store.inmemory import InMemoryStore
from tests import checker
from tests.engine.saying import section
from tests.session.asking import Dict, call, result

RULES = [f"Never sail to {place} after dark." for place in ("Bergen", "Visby", "Oulu", "Brest")]


def shown(ctx):
    """A session's prompt, with what is sent as one message in its parts."""
    return apart(ctx.get_context_for_model(), ctx._session.state.own)


def session(store: SessionStore, window: int = 8_192) -> ContextManager:
    return ContextManager(window=window, store=store, session_id="s", tokenizer="o200k")


def worked(ctx: ContextManager, first: int, turns: int) -> None:
    """Turns of work; of the first ones each has a rule."""
    for i in range(first, first + turns):
        rule = f"\n\n{RULES[i]}" if i < len(RULES) else ""
        ctx.add_message(role="user", content=f"Please see to mooring {i} of the harbour.{rule}")
        ctx.add_message(call("run", f"c{i}", command=f"check_mooring --number {i}"))
        printed = "\n".join(f"mooring {i} bollard {n} holds" for n in range(40))
        ctx.add_message(result(f"c{i}", printed))
        ctx.add_message(role="assistant", content=f"Mooring {i} holds. " + "It was looked at. " * 9)


def lived(ctx: ContextManager, turns: int = 60) -> list[Dict]:
    prompt: list[Dict] = []
    for i in range(turns):
        worked(ctx, i, 1)
        prompt = shown(ctx)
    assert ctx.compressions > 3
    return prompt


def records(prompt: list[Dict]) -> list[str]:
    texts = [text for message in prompt for text in checker.visible(message)]
    return [text for text in texts if headed(text) == "Record"]


def test_what_must_hold_stands_in_it_after_many_compressions() -> None:
    prompt = lived(session(InMemoryStore()))
    (record,) = records(prompt)
    shown = "\n".join(text for m in prompt for text in checker.visible(m))
    assert all(rule in shown for rule in RULES)
    assert all(record.count(rule) <= 1 for rule in RULES)
    assert sum(rule in record for rule in RULES) > 1


def test_it_says_what_stands_now_and_tells_what_no_checkpoint_in_view_tells() -> None:
    prompt = lived(session(InMemoryStore()))
    (record,) = records(prompt)
    assert "“Please see to mooring " in section(record, "Now")
    asked = [line for line in section(record, "Story").splitlines() if line[:8] == "- User: "]
    assert len(asked) > 5
    texts = [text for m in prompt for text in checker.visible(m)]
    others = "\n".join(text for text in texts if headed(text) != "Record").splitlines()
    alone = [line for line in asked if "mooring 3 " not in line]
    assert not [line for line in alone if line in others]


def test_it_stands_behind_the_checkpoints_and_before_the_newest_messages() -> None:
    """What stood before it stays as it was, so that a provider's cache holds (FR-4)."""
    prompt = lived(session(InMemoryStore()))
    kinds = [headed(str(m.get("content") or "")) for m in prompt]
    at = kinds.index("Record")
    assert "Checkpoint" in kinds[:at]
    assert "Checkpoint" not in kinds[at:]
    assert prompt[at]["role"] == "user"
    assert len(prompt) > at + 1


def test_nothing_of_it_is_stored_searched_or_summarized() -> None:
    ctx = session(InMemoryStore())
    prompt = lived(ctx)
    assert not any(headed(m.text) for m in ctx.history)
    assert not any("[Record" in c.summary for c in ctx.checkpoints)
    assert not any(headed(r.text) for r in ctx.recall("mooring harbour", limit=50))
    count = len(ctx.history)
    ctx.sync([*prompt, {"role": "user", "content": "And now?"}])
    assert len(ctx.history) == count + 1
    assert ctx.history[count].text == "And now?"


@pytest.mark.slow
def test_the_same_session_gives_the_same_bytes_however_often_it_was_opened() -> None:
    """Notes that were carried on, and notes that are read anew, say the same."""
    stores = InMemoryStore(), InMemoryStore()
    whole, _ = map(session, stores)
    for store in stores:
        store.note("s", f"{KEY}0", {"key": "00" * 32})
    opened = itertools.count()
    for i in range(60):
        worked(whole, i, 1)
        ctx = session(store)
        worked(ctx, i, 1)
        sent = ctx.get_context_for_model()
        assert sent == whole.get_context_for_model(), next(opened)
    assert whole.compressions > 3


@pytest.mark.parametrize("size", [200, 1_200])
def test_a_record_in_a_list_that_fits_is_left_alone(size: int) -> None:
    """And carried on where the list is compressed once more (K-6, C-8)."""
    from compact import compress

    ctx = session(InMemoryStore())
    most = int(1.2 * checker.prompt_tokens(lived(ctx)))
    prompt = list(ctx.active_context().messages)
    assert compress(prompt, max_tokens=most, tokenizer="o200k") == prompt
    more = [
        Message(role="user", content=f"Part {i}: " + "it is so. " * 40) for i in range(size // 40)
    ]
    again = compress([*prompt, *more], max_tokens=2_000, tokenizer="o200k")
    shown = "\n".join(message.text for message in again)
    assert checker.tokens(shown) <= 2_000
    assert all(rule in shown for rule in RULES)

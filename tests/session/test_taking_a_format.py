"""A session that has texts alone is in no format yet that matters (C-3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compact import CompactManager, ContextManager
from compact.errors import InvalidConfig, InvalidMessage

HELLO = {"role": "user", "content": "What stands in the file?"}
REPLIES: dict[str, dict[str, Any]] = {
    "anthropic": {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {}}],
    },
    "responses": {"type": "function_call", "call_id": "t1", "name": "read", "arguments": "{}"},
}
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
CHAT = {"role": "assistant", "content": None, "tool_calls": [CALL]}


IN_PARTS = {"role": "user", "content": [{"type": "text", "text": "What stands in the file?"}]}


@pytest.mark.parametrize(
    ("name", "first"), [*((name, HELLO) for name in REPLIES), ("anthropic", IN_PARTS)]
)
@pytest.mark.parametrize("synced", [False, True])
def test_it_takes_on_the_format_of_the_first_that_can_only_be_in_one(
    name: str, first: dict[str, Any], synced: bool, tmp_path: Path
) -> None:
    reply = REPLIES[name]
    with ContextManager(window=8_192, store=tmp_path / "a.db", session_id="a") as ctx:
        ctx.add_message(first)
        ctx.get_context_for_model()
        if synced:
            assert ctx.sync([first, reply]).known == 1
        else:
            ctx.add_message(reply)
        assert ctx.get_context_for_model()[:2] == [first, reply]
    with ContextManager(window=8_192, store=tmp_path / "a.db", session_id="a") as ctx:
        assert ctx.get_context_for_model()[:2] == [first, reply]
        with pytest.raises(InvalidMessage, match=f"the session is in {name}"):
            ctx.add_message(CHAT)


def test_what_was_sent_stays_as_it_was() -> None:
    """C-9: the prefix of the next prompt is the one that a provider has cached."""
    given: list[dict[str, Any]] = [HELLO, IN_PARTS]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "Nothing."}
    with CompactManager() as manager:
        assert manager.preflight("s", given) == given
        given += [REPLIES["anthropic"], {"role": "user", "content": [result]}]
        assert manager.preflight("s", given) == given


def test_it_may_be_opened_in_another_format_while_it_has_texts_alone(tmp_path: Path) -> None:
    given: dict[str, Any] = {"window": 8_192, "store": tmp_path / "a.db", "session_id": "a"}
    with ContextManager(**given) as ctx:
        ctx.add_message(HELLO)
    with ContextManager(**given, format="anthropic") as ctx:
        ctx.add_message(REPLIES["anthropic"])
    with pytest.raises(InvalidConfig, match="is in 'anthropic', not in 'responses'"):
        ContextManager(**given, format="responses")
    with ContextManager(**given) as ctx:
        assert ctx.get_context_for_model()[:2] == [HELLO, REPLIES["anthropic"]]


def test_a_format_that_was_given_stays() -> None:
    ctx = ContextManager(window=8_192, format="chat_completions")
    with pytest.raises(InvalidMessage, match="format='anthropic'"):
        ctx.add_message(REPLIES["anthropic"])

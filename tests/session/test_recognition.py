"""`sync`: a client sends its whole list at every turn; only what is new is stored (K-6, FR-1)."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import pytest

from compact import ContextManager, Message
from compact.messages.checkpoints import is_checkpoint_text
from compact.messages.events import BranchTaken, Event
from compact.messages.messages import Text, ToolCall, ToolResult
from compact.messages.own_text import headed
from compact.session.merged import apart

Dict = dict[str, Any]


def talk(start: int, stop: int, *, words: int = 30) -> list[Dict]:
    out: list[Dict] = []
    for i in range(start, stop):
        out.append({"role": "user", "content": f"Question {i}: " + "what of the roof? " * words})
        out.append({"role": "assistant", "content": f"Answer {i}: " + "it holds. " * words})
    return out


def tool_talk(start: int, stop: int) -> list[Dict]:
    """Steps with long tool output, which is masked when a session is compressed."""
    out: list[Dict] = [{"role": "user", "content": f"Look through part {start}."}]
    for i in range(start, stop):
        call = {
            "id": f"c{i}",
            "type": "function",
            "function": {"name": "read", "arguments": f'{{"part": {i}}}'},
        }
        out.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = f"line {i} of the output\n" * 60
        out.append({"role": "tool", "tool_call_id": f"c{i}", "content": text})
    return out


def stored(ctx: ContextManager) -> list[Dict]:
    return ctx._session.state.wire.render(tuple(ctx.history))


def compressed(**options: Any) -> ContextManager:
    ctx = ContextManager(window=4_096, tokenizer="o200k", **options)
    ctx.add_message(role="system", content="You are a roofer.")
    ctx.add_messages(talk(0, 30))
    assert any(is_checkpoint_text(str(m["content"])) for m in ctx.get_context_for_model())
    return ctx


@pytest.mark.parametrize("rounds", [1, 6])
def test_a_client_may_send_the_compressed_prompt_back(rounds: int) -> None:
    """Checkpoints and goals of ours are not stored, nothing is lost, no branch is made (K-6)."""
    ctx = compressed()
    ctx.goals.set(["Get the roof done."])
    want = stored(ctx)
    for i in range(rounds):
        prompt = ctx.get_context_for_model()
        assert any(headed(str(m["content"])) == "Goals" for m in prompt)
        new = talk(100 + 4 * i, 104 + 4 * i)
        found = ctx.sync([*prompt, *new])
        want += new
        assert found.new == new
        parts: list[Any] = apart(prompt, ctx._session.state.own)
        assert found.ours == sum(headed(str(m["content"])) is not None for m in parts)
        assert stored(ctx) == want
    assert len(ctx.time.branches()) == 1


def test_masked_output_stands_for_its_original() -> None:
    """A stub that comes back is known; the original stays what is stored (K-6, FR-5)."""
    ctx = ContextManager(window=8_192, tokenizer="o200k")
    ctx.add_messages(tool_talk(0, 20))
    prompt = ctx.get_context_for_model()
    assert any("masked ·" in str(m["content"]) for m in prompt)
    want = [*stored(ctx), {"role": "user", "content": "and now?"}]
    found = ctx.sync([*prompt, want[-1]])
    assert found.new == [want[-1]]
    assert stored(ctx) == want
    assert len(ctx.time.branches()) == 1


def found_text(found: Any) -> str:
    (new,) = found.new
    return str(new["content"])


def test_an_edit_right_after_a_masked_message_goes_on_from_it() -> None:
    """The masked message is known by its position, so that the branch begins behind it (FR-1)."""
    ctx = ContextManager(window=8_192, tokenizer="o200k")
    ctx.add_messages(tool_talk(0, 20))
    prompt = ctx.get_context_for_model()
    masked = max(i for i, m in enumerate(prompt) if "masked ·" in str(m["content"]))
    place = next(
        i for i, m in enumerate(ctx.history) if m.tool_results and _call(m) == _id(prompt[masked])
    )
    found = ctx.sync([*prompt[: masked + 1], {"role": "user", "content": "Stop here."}])
    assert found.known == place + 1
    assert len(ctx.history) == place + 2


def _call(message: Message) -> str:
    return message.tool_results[0].call_id


def _id(message: Dict) -> object:
    return message["tool_call_id"]


def test_notes_for_open_calls_are_not_stored() -> None:
    """The note that answered an open call is ours; the real result that comes later is not
    (FR-3)."""
    ctx = ContextManager()
    ctx.add_messages([{"role": "user", "content": "run it"}, tool_talk(0, 1)[1]])
    prompt = ctx.get_context_for_model()
    assert "no result was recorded" in prompt[-1]["content"]
    with_note = ctx.sync([*prompt, {"role": "user", "content": "well?"}])
    assert [m["content"] for m in with_note.new] == ["well?"]  # type: ignore[index]
    assert [m.role for m in ctx.history] == ["user", "assistant", "user"]

    other = ContextManager()
    other.add_messages([{"role": "user", "content": "run it"}, tool_talk(0, 1)[1]])
    result = {"role": "tool", "tool_call_id": "c0", "content": "done"}
    other.sync([*other.get_context_for_model()[:-1], result])
    assert [m.role for m in other.history] == ["user", "assistant", "tool"]
    assert len(other.time.branches()) == len(ctx.time.branches()) == 1


def test_an_edit_of_a_kept_message_in_a_compressed_prompt_loses_no_checkpoint() -> None:
    """The list leaves the history inside what a checkpoint stands for: what the client knows of
    that is the checkpoint, and it goes on with it (NFR-2)."""
    seen: list[Event] = []
    ctx = compressed(on_event=seen.append)
    prompt = deepcopy(ctx.get_context_for_model())
    old = ctx.branch_id
    parts: list[Any] = apart(prompt[1:2], ctx._session.state.own)
    assert str(parts[0]["content"]).startswith("[Checkpoint ")
    prompt[1:2] = [*parts[:-1], {"role": "user", "content": "What of the cellar?"}]
    ctx.sync(prompt)
    shown = ctx.get_context_for_model()
    assert ctx.branch_id != old
    assert any(is_checkpoint_text(str(m["content"])) for m in shown)
    assert "What of the cellar?" in [m["content"] for m in shown]
    assert [e.reason for e in seen if isinstance(e, BranchTaken)] == ["edited"]
    before = len(ctx.history)
    ctx.sync([*prompt, {"role": "user", "content": "go on"}])
    assert len(ctx.history) == before + 1


Change = Callable[[Dict], Dict]


def _with_nulls(message: Dict) -> Dict:
    nulls: Dict = {"refusal": None, "audio": None, "annotations": [], "function_call": None}
    return {**message, **nulls}


def _without_nulls(message: Dict) -> Dict:
    return {k: v for k, v in message.items() if v is not None}


def _with_marks(message: Dict) -> Dict:
    return {**message, "id": "msg_1", "metadata": {"seen": True}, "timestamp": "2026-01-01"}


def _empty_content(message: Dict) -> Dict:
    return {**message, "content": message.get("content") or ""}


def _in_blocks(message: Dict) -> Dict:
    content = message.get("content")
    if message["role"] == "tool" or not isinstance(content, str):
        return message
    return {**message, "content": [{"type": "text", "text": content}]}


@pytest.mark.parametrize(
    "change", [_with_nulls, _without_nulls, _with_marks, _empty_content, _in_blocks]
)
def test_what_clients_add_and_drop_changes_nothing(change: Change) -> None:
    """Nulls, empty fields, ids, metadata and blocks around a text come and go (K-6)."""
    ctx = ContextManager()
    messages = [*tool_talk(0, 3), *talk(0, 2)]
    ctx.sync(messages)
    found = ctx.sync([*map(change, messages), {"role": "user", "content": "more"}])
    assert found.known == len(messages)
    assert len(ctx.time.branches()) == 1


def cached(messages: Sequence[Dict]) -> list[Dict]:
    """The list as an Anthropic client marks it: the cache begins at the last message."""
    out = [deepcopy(m) for m in messages]
    content = out[-1]["content"]
    if isinstance(content, str):
        content = out[-1]["content"] = [{"type": "text", "text": content}]
    content[-1]["cache_control"] = {"type": "ephemeral"}
    inner = content[-1].get("content")
    if isinstance(inner, list):
        inner[-1]["cache_control"] = {"type": "ephemeral"}
    return out


def test_anthropic_cache_marks_move_without_a_branch() -> None:
    """`cache_control` wanders from message to message, inside results too (K-6)."""
    ctx = ContextManager(format="anthropic", tokenizer="o200k")
    messages: list[Dict] = []
    for i in range(6):
        use = {"type": "tool_use", "id": f"t{i}", "name": "read", "input": {"mark": None}}
        said = [{"type": "text", "text": f"line {i}"}]
        messages += [
            {"role": "user", "content": f"Look at {i}."},
            {"role": "assistant", "content": [use]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": f"t{i}", "content": said}],
            },
        ]
        ctx.sync(cached(messages))
        assert len(ctx.history) == len(messages)
    assert len(ctx.time.branches()) == 1


def test_other_words_are_never_taken_for_the_same() -> None:
    """What a client may drop is told apart from what was said: a null argument is an argument."""
    ctx = ContextManager(format="anthropic", tokenizer="o200k")
    use = {"type": "tool_use", "id": "t", "name": "read", "input": {"mark": None}}
    ctx.sync([{"role": "user", "content": "go"}, {"role": "assistant", "content": [use]}])
    other = {**use, "input": {}}
    found = ctx.sync([{"role": "user", "content": "go"}, {"role": "assistant", "content": [other]}])
    assert found.known == 1


def test_messages_made_by_hand_are_known_when_their_dictionaries_come_back() -> None:
    """A `Message` without a provider's dictionary is sent in the session's format (C-3)."""
    for format in ("chat_completions", "anthropic"):
        ctx = ContextManager(format=format, tokenizer="o200k")
        ctx.add_message(role="user", content="go")
        parts = (Text("I look."), ToolCall("t1", "read", '{"a": 1}'))
        ctx.add_message(Message(role="assistant", content=parts))
        role = "user" if format == "anthropic" else "tool"
        ctx.add_message(Message(role=role, content=(ToolResult("t1", "done"),)))
        prompt = ctx.get_context_for_model()
        found = ctx.sync([*prompt, {"role": "assistant", "content": "Done."}])
        assert found.known == 3, format
        assert len(ctx.time.branches()) == 1

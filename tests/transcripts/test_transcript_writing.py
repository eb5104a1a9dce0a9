"""What is read can be written: the same bytes, or the same shape with fewer messages (C-3)."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact.messages.messages import Message, MessageMetadata, ToolResult
from compact.transcripts.reading import read
from compact.transcripts.writing import write
from tests.store.making import as_written

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "transcripts"
CHAT = [
    "anthropic_list.json",
    "anthropic_object.json",
    "chat_lines.jsonl",
    "chat_list.json",
    "chat_object.json",
]
OTHERS = [
    "copilot_cli.jsonl",
    "gemini_cli.json",
    "legacy_session.json",
    "legacy_snapshot.json",
    "opencode.jsonl",
    "pi.jsonl",
    "specstory_claude.md",
    "specstory_codex.md",
    "specstory_cursor.md",
]

CHECKPOINT = Message(role="user", content="what was", metadata=MessageMetadata(source="checkpoint"))


@pytest.mark.parametrize("name", CHAT)
def test_unchanged_chats_come_back_byte_for_byte(name):
    """C-3: nothing changed, nothing written differently."""
    transcript = read(FIXTURES / name)
    assert write(transcript, transcript.messages).encode() == (FIXTURES / name).read_bytes()


@pytest.mark.parametrize("name", CHAT)
def test_fewer_messages_keep_the_shape_and_the_bytes_of_the_rest(name):
    """C-3: a list stays a list, an object keeps its other keys, lines stay lines."""
    text = (FIXTURES / name).read_text(encoding="utf-8")
    transcript = read(FIXTURES / name)
    kept = [m for m in transcript.messages if m.role in ("system", "user") and not m.tool_results]
    out = write(transcript, kept)
    again = read(out.encode())
    assert [m.content for m in again.messages] == [m.content for m in kept]
    assert again.wire == transcript.wire or not any(m.role == "system" for m in kept)
    assert again.container.shape == transcript.container.shape
    assert again.container.indent == transcript.container.indent
    if transcript.container.shape == "object":
        before, after = json.loads(text), json.loads(out)
        assert list(before) == list(after)
        assert {k: v for k, v in before.items() if k != "messages"} == {
            k: v for k, v in after.items() if k != "messages"
        }


def test_a_changed_result_and_a_checkpoint_are_written():
    """K-4, K-6: a mask and a summary in a provider's own messages."""
    transcript = read(FIXTURES / "chat_list.json")
    messages = [transcript.messages[0], CHECKPOINT, *transcript.messages[2:]]
    (part,) = messages[3].parts
    assert isinstance(part, ToolResult)
    messages[3] = messages[3].with_parts([replace(part, text="[masked]")])
    out = json.loads(write(transcript, messages))
    assert out[1] == {"role": "user", "content": "what was"}
    assert out[3] == {"role": "tool", "tool_call_id": "call_1", "content": "[masked]"}


def test_a_system_prompt_beside_the_messages_stays_there():
    transcript = read(FIXTURES / "anthropic_object.json")
    out = json.loads(write(transcript, [*transcript.messages[:2], CHECKPOINT]))
    assert out["system"] == "You are a gardener."
    assert [m["role"] for m in out["messages"]] == ["user", "user"]


def test_a_chosen_conversation_is_written_alone():
    path = FIXTURES / "chat_conversations.jsonl"
    transcript = read(path, conversation=2)
    line = path.read_bytes().splitlines(keepends=True)[1]
    assert write(transcript, transcript.messages).encode() == line
    assert len(write(transcript, transcript.messages[:2]).splitlines()) == 1


@pytest.mark.parametrize("name", OTHERS)
def test_other_formats_come_out_as_chat_completions_lines(name):
    """C-3: and such a file is read again with the same words, calls and results."""
    transcript = read(FIXTURES / name, conversation=1)
    out = write(transcript, transcript.messages)
    again = read(out.encode())
    assert (again.format, again.container.shape) == ("chat", "lines")
    assert [m.text for m in again.messages] == [as_written(m) for m in transcript.messages]
    calls = [[(c.id, c.name, c.arguments) for c in m.tool_calls] for m in transcript.messages]
    assert calls == [[(c.id, c.name, c.arguments) for c in m.tool_calls] for m in again.messages]


# --- any chat -------------------------------------------------------------------------------------

texts = st.text(max_size=20) | st.sampled_from(["\ud800", "&#96;", "---", "\u2028", "\x00", "NaN"])
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
unknown = st.dictionaries(st.sampled_from(["x_a", "x_b", "name"]), values, max_size=2)


@st.composite
def chats(draw: st.DrawFn) -> list[dict]:
    """Valid chats, with parallel, dead and repeated calls."""
    rows: list[dict] = [{"role": "system", "content": "s"}] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(1, 4))):
        rows.append({"role": "user", "content": draw(texts), **draw(unknown)})
        made = draw(st.integers(0, 3))
        calls = [
            {"id": f"c{turn}-{i}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            for i in range(made)
        ]
        reply = {"role": "assistant", "content": draw(st.none() | texts), **draw(unknown)}
        rows.append({**reply, "tool_calls": calls} if calls else reply)
        for made_call in calls[: draw(st.integers(0, made))]:
            rows.append({"role": "tool", "tool_call_id": made_call["id"], "content": draw(texts)})
    return rows


def dumped(rows: list[dict], shape: str, *, ascii_only: bool, indent: int | None) -> bytes:
    if shape == "lines":
        text = "\n".join(json.dumps(r) for r in rows)
    elif shape == "list":
        text = json.dumps(rows, indent=indent)
    else:
        text = json.dumps({"a": 1, "messages": rows, "tools": []}, indent=indent)
    return text.encode() if ascii_only else (text + "\n").encode()


@given(
    rows=chats(),
    shape=st.sampled_from(["lines", "list", "object"]),
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 2]),
)
def test_any_chat_comes_back_byte_for_byte(rows, shape, ascii_only, indent):
    """C-3: whatever the shape, the spacing and the unknown fields."""
    data = dumped(rows, shape, ascii_only=ascii_only, indent=indent)
    transcript = read(data)
    assert write(transcript, transcript.messages).encode() == data


@given(rows=chats(), shape=st.sampled_from(["lines", "list", "object"]))
def test_the_rest_of_any_chat_is_unchanged(rows, shape):
    """C-3: unknown fields, odd letters and large numbers of the kept messages are as they were."""
    transcript = read(dumped(rows, shape, ascii_only=True, indent=None))
    out = write(transcript, transcript.messages[1:])
    if shape == "lines":
        found = [json.loads(line) for line in out.split("\n") if line]
    else:
        found = json.loads(out) if shape == "list" else json.loads(out)["messages"]
    assert found == rows[1:]

"""Claude Code sessions: which rows are messages, and a new file that is read again the same."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from compact.messages.messages import Message, MessageMetadata, Text, Thinking, ToolResult
from compact.text.speakers import speaker_of
from compact.transcripts.reading import read
from compact.transcripts.writing import write

PATH = Path(__file__).resolve().parents[1] / "fixtures" / "transcripts" / "claude_code.jsonl"


@pytest.fixture
def transcript():
    return read(PATH)


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def checkpoint(text: str = "[checkpoint 1] Kim waters plants.") -> Message:
    return Message(
        role="user", content=text, id="ckpt", metadata=MessageMetadata(source="checkpoint")
    )


def rows_of(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def test_rows_of_one_reply_are_one_message(transcript):
    """C-3: pieces of a reply are joined; pieces with results between them stay apart."""
    reply = transcript.messages[1]
    assert [p.type for p in reply.parts] == ["thinking", "text", "tool_call", "tool_call"]
    assert reply.id == uuid(3)
    rows = transcript.rows[reply.id]
    assert [row["uuid"] for row in rows] == [uuid(n) for n in (3, 4, 5, 7)]
    for part, row in zip(reply.parts, rows, strict=True):
        assert part.raw == row["message"]["content"][0]
    assert reply.wire is not None
    assert reply.wire["usage"]["output_tokens"] == 16
    apart = [m.id for m in transcript.messages if m.reply_id == "msg_b"]
    assert apart == [uuid(10), uuid(12)]


def test_what_is_no_message_is_left_out_and_noted(transcript):
    assert transcript.notes == (
        "1 earlier summary row",
        "1 file-history-snapshot row",
        "2 progress rows",
        "2 queue-operation rows",
        "1 repeated row",
        "1 sidechain row",
        "2 summary rows",
        "1 synthetic assistant row",
        "1 system row",
    )
    assert transcript.title == "Watering the garden"
    assert not any("toolUseResult" in row for rows in transcript.rows.values() for row in rows)


def test_who_speaks(transcript):
    """C-8: injected rows are not a person's words."""
    speakers = {m.id: speaker_of(m) for m in transcript.messages}
    assert speakers[uuid(1)] == "person"
    assert speakers[uuid(8)] == "tool"
    assert speakers[uuid(15)] == "injected"
    assert speakers[uuid(23)] == "person"


def test_active_takes_what_follows_the_last_boundary():
    """C-2: the summary stands in where its originals are not taken."""
    messages = read(PATH, active=True).messages
    assert [m.id for m in messages] == [uuid(21), uuid(22), uuid(23)]
    assert [speaker_of(m) for m in messages] == ["checkpoint", "assistant", "person"]


def test_active_without_a_boundary_is_the_whole_file():
    lines = PATH.read_bytes().splitlines(keepends=True)[:6]
    found = read(b"".join(lines), active=True)
    assert found.notes[-1] == "no compaction boundary: active is the whole file"


def test_a_summary_whose_originals_are_missing_stays():
    lines = PATH.read_bytes().splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if b"compact_boundary" in line)
    messages = read(b"".join(lines[start:])).messages
    assert [speaker_of(m) for m in messages] == ["checkpoint", "assistant", "person"]


def test_rewound_prompts_are_all_kept_in_log_order():
    """C-1: what a person typed and took back is still history."""
    row = '{{"type":"user","uuid":"{}","parentUuid":{},"message":{{"role":"user","content":"{}"}}}}'
    lines = [
        row.format("a", "null", "one"),
        row.format("b", '"a"', "two"),
        row.format("c", '"a"', "2b"),
    ]
    assert [m.text for m in read("\n".join(lines).encode()).messages] == ["one", "two", "2b"]


# --- writing --------------------------------------------------------------------------------------


def test_unchanged_messages_come_back_byte_for_byte(transcript):
    """C-3: nothing changed, nothing written differently."""
    data = PATH.read_bytes()
    assert write(transcript, transcript.messages).encode() == data
    copies = [m.model_copy(update={"token_count": 7}) for m in transcript.messages]
    assert write(transcript, copies).encode() == data
    cut = read(data[:-9])
    assert write(cut, cut.messages).encode() == b"".join(data.splitlines(keepends=True)[:-1])


def test_the_new_file_has_boundary_summary_and_kept_rows(transcript):
    """K-6: one summary stands in for the past, in the tool's own shape."""
    kept = [transcript.messages[0], *transcript.messages[-2:]]
    rows = rows_of(write(transcript, [checkpoint(), *kept], pre_tokens=1234))
    boundary, summary, *rest = rows
    assert boundary["subtype"] == "compact_boundary"
    assert boundary["compactMetadata"] == {"trigger": "manual", "preTokens": 1234}
    assert (boundary["parentUuid"], boundary["logicalParentUuid"]) == (None, uuid(23))
    assert summary["isCompactSummary"]
    assert summary["isVisibleInTranscriptOnly"]
    assert summary["message"] == {"role": "user", "content": "[checkpoint 1] Kim waters plants."}
    assert [row["uuid"] for row in rest] == [uuid(1), uuid(22), uuid(23)]
    assert [row["parentUuid"] for row in rows[1:]] == [row["uuid"] for row in rows[:-1]]
    assert boundary["timestamp"] == summary["timestamp"] == rest[-1]["timestamp"]
    assert {row["sessionId"] for row in rows} == {rest[0]["sessionId"]}


def test_the_shape_of_boundary_and_summary_is_the_tools_own(transcript):
    """C-3: the same keys in the same order as the rows that the tool wrote itself."""
    own = {}
    for row in rows_of(PATH.read_text(encoding="utf-8")):
        kind = row.get("subtype") or ("summary" if row.get("isCompactSummary") else None)
        own[kind] = row
    boundary, summary, *_ = rows_of(write(transcript, [checkpoint(), transcript.messages[-1]]))
    assert set(boundary) == set(own["compact_boundary"])
    assert set(summary) == set(own["summary"])
    assert set(boundary["compactMetadata"]) == set(own["compact_boundary"]["compactMetadata"])


def test_the_same_input_gives_the_same_bytes(transcript):
    """C-3: nothing of the output comes from the clock or from chance."""
    messages = [checkpoint(), *transcript.messages[4:]]
    assert write(transcript, messages) == write(
        read(PATH), [checkpoint(), *read(PATH).messages[4:]]
    )
    other = [checkpoint("another"), *transcript.messages[4:]]
    assert (
        rows_of(write(transcript, other))[0]["uuid"]
        != rows_of(write(transcript, messages))[0]["uuid"]
    )


def test_our_own_file_is_read_again_the_same(transcript):
    """C-3: reading what was written gives the same messages."""
    messages = [checkpoint(), *transcript.messages[1:]]
    text = write(transcript, messages)
    again = read(text.encode())
    assert [m.content for m in again.messages] == [m.content for m in messages]
    assert [m.id for m in again.messages[1:]] == [m.id for m in messages[1:]]
    assert speaker_of(again.messages[0]) == "checkpoint"
    assert write(again, again.messages) == text
    assert rows_of(write(again, again.messages[:-1]))[:-1] != []


def test_changed_parts_are_written_and_dropped_parts_leave_their_rows_out(transcript):
    """K-4: a masked result and a dropped thought, in the rows they came from."""
    messages = list(transcript.messages)
    reply, answer = messages[1], messages[2]
    messages[1] = reply.with_parts(p for p in reply.parts if not isinstance(p, Thinking))
    (part,) = answer.parts
    assert isinstance(part, ToolResult)
    messages[2] = answer.with_parts([replace(part, text="[masked]")])
    rows = {row["uuid"]: row for row in rows_of(write(transcript, messages))}
    assert uuid(3) not in rows
    assert rows[uuid(4)]["parentUuid"] == uuid(1)
    assert rows[uuid(8)]["message"]["content"][0]["content"] == "[masked]"
    assert rows[uuid(8)]["sourceToolAssistantUUID"] == uuid(5)
    assert not any("toolUseResult" in row for row in rows.values())
    assert not any(row.get("subtype") for row in rows.values())
    again = read("".join(json.dumps(r) + "\n" for r in rows.values()).encode())
    assert [m.content for m in again.messages] == [m.content for m in messages]


def test_changed_text_is_written(transcript):
    first = transcript.messages[0]
    messages = [
        first.model_copy(update={"content": "short", "edited": True}),
        *transcript.messages[1:],
    ]
    assert rows_of(write(transcript, messages))[0]["message"]["content"] == "short"
    messages[0] = first.with_parts([Text("a"), Text("b")])
    assert len(rows_of(write(transcript, messages))[0]["message"]["content"]) == 2


def test_messages_of_no_row_get_rows(transcript):
    note = Message(role="user", content="A note.", metadata=MessageMetadata(source="injected"))
    rows = rows_of(write(transcript, [*transcript.messages, note]))
    assert rows[-1]["isMeta"]
    assert rows[-1]["message"] == {"role": "user", "content": "A note."}
    assert rows[-1]["parentUuid"] == uuid(23)


def test_several_checkpoints_become_one_summary_row(transcript):
    """C-2: the tool knows one summary, so their texts are joined."""
    messages = [checkpoint("one"), checkpoint("two"), *transcript.messages[-1:]]
    rows = rows_of(write(transcript, messages))
    assert [bool(row.get("isCompactSummary")) for row in rows] == [False, True, False]
    assert rows[1]["message"]["content"] == "one\n\ntwo"


def test_an_earlier_summary_that_is_kept_keeps_its_row():
    active = read(PATH, active=True)
    rows = rows_of(write(active, active.messages))
    assert rows[0]["subtype"] == "compact_boundary"
    assert rows[1]["uuid"] == uuid(21)
    assert [m.id for m in read(write(active, active.messages).encode()).messages] == [
        m.id for m in active.messages
    ]


def test_only_a_summary_is_left():
    active = read(PATH, active=True)
    rows = rows_of(write(active, [checkpoint()]))
    assert [row["type"] for row in rows] == ["system", "user"]
    assert rows[0]["timestamp"].endswith("Z")
    assert write(active, []) == ""

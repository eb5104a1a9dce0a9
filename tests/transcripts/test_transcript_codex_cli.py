"""Codex CLI rollouts: items become messages, what the program put in is told apart (C-2, C-8)."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from compact.errors import InvalidTranscript
from compact.messages.messages import Message, MessageMetadata, Opaque, Thinking, ToolResult
from compact.text.speakers import speaker_of
from compact.transcripts.reading import read
from compact.transcripts.writing import writable, write
from tests.store.making import detect

PATH = Path(__file__).resolve().parents[1] / "fixtures" / "transcripts" / "codex_cli.jsonl"
ROWS = [json.loads(line) for line in PATH.read_text(encoding="utf-8").splitlines()]
TYPED = [
    "The tide table prints Tuesday twice. Find out why.",
    "Good. Now print the heights in metres, with one decimal.",
    "and leave the feet away",
]


def read_rows(rows, **options):
    return read("".join(json.dumps(row) + "\n" for row in rows).encode(), **options)


def item(**payload):
    return {"timestamp": "2026-05-04T09:00:00Z", "type": "response_item", "payload": payload}


def said(role, text):
    kind = "output_text" if role == "assistant" else "input_text"
    return item(type="message", role=role, content=[{"type": kind, "text": text}])


def typed(text, **more):
    return {"type": "event_msg", "payload": {"type": "user_message", "message": text, **more}}


def compacted(**payload):
    return {"type": "compacted", "payload": payload}


def told(transcript):
    return [(speaker_of(m), m.text) for m in transcript.messages]


@pytest.fixture
def transcript():
    return read(PATH)


# --- reading --------------------------------------------------------------------------------------


def test_every_item_is_a_message_once(transcript):
    """Nothing is doubled by what a compaction kept, or by events that say an item again."""
    items = [row["payload"] for row in ROWS if row["type"] == "response_item"]
    sent = [each for each in items if each["type"] != "ghost_snapshot"]
    assert [m.wire for m in transcript.messages] == sent
    assert transcript.wire == "responses"
    assert transcript.model == "gpt-5.5"
    first = transcript.messages[0]
    assert transcript.rows[first.id][0]["payload"] == first.wire
    assert first.timestamp.isoformat() == "2026-05-04T08:00:03+00:00"


def test_calls_and_results_of_each_kind(transcript):
    calls = [(c.id, c.name) for m in transcript.messages for c in m.tool_calls]
    assert calls == [
        ("call_1", "exec_command"),
        ("call_2", "exec_command"),
        ("call_3", "apply_patch"),
        ("call_4", "tool_search"),
        ("call_5", "exec_command"),
        ("call_6", "exec_command"),
    ]
    results = {r.call_id: r.text for m in transcript.messages for r in m.tool_results}
    assert list(results) == [call_id for call_id, _ in calls]
    assert "day in days" in results["call_1"]
    assert results["call_3"].startswith("Exit code: 0")
    whole = [p.text for m in transcript.messages for p in m.parts if isinstance(p, Opaque)]
    assert any("_list_events" in text for text in whole)


def test_reasoning_and_calls_of_a_reply_stay_together(transcript):
    thinking = [m for m in transcript.messages if isinstance(next(iter(m.parts)), Thinking)]
    assert thinking[0].parts == (Thinking("Look at the loop over days.", "c2VhbGVk"),)
    places = {m.id: i for i, m in enumerate(transcript.messages)}
    start = places[thinking[0].id]
    reply = {m.reply_id for m in transcript.messages[start : start + 4]}
    assert len(reply) == 1
    assert None not in reply


def test_what_the_program_put_in_is_not_a_persons(transcript):
    """C-8: what an event says was typed is a person's, and nothing else in a user's role."""
    speakers = told(transcript)
    assert [text for speaker, text in speakers if speaker == "person"] == TYPED
    injected = [text for speaker, text in speakers if speaker == "injected"]
    assert [text[:12] for text in injected] == ["# AGENTS.md ", "<turn_aborte"]
    assert [text[:12] for speaker, text in speakers if speaker == "system"] == ["<permissions"]


def test_a_prompt_with_an_image_is_a_persons():
    """The program adds tags around the picture, the event holds the words alone."""
    content = [
        {"type": "input_text", "text": "<image name=[Image #1]>"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        {"type": "input_text", "text": "</image>"},
        {"type": "input_text", "text": "What is this?"},
    ]
    row = item(type="message", role="user", content=content)
    (message,) = read_rows([row, typed("What is this?\n")]).messages
    assert speaker_of(message) == "person"


def test_without_events_the_words_decide():
    """An older file does not say what was typed: nothing is called injected on that ground."""
    rows = [said("user", "Fix it."), said("user", "<environment_context>x</environment_context>")]
    assert [speaker for speaker, _ in told(read_rows(rows))] == ["person", "injected"]


def test_events_of_what_was_not_typed_are_told_by_their_kind():
    rows = [
        *(said("user", "Rules."), typed("Rules.", kind="user_instructions")),
        *(said("user", "Go on."), typed("Go on.", kind="plain")),
    ]
    assert [speaker for speaker, _ in told(read_rows(rows))] == ["injected", "person"]


def test_what_is_no_item_is_left_out_and_counted(transcript):
    """Rows of types that nobody knows too, and the state of the files, which is never sent."""
    assert transcript.notes == (
        "1 compacted row",
        "14 event_msg rows",
        "1 lamp_state row",
        "1 response_item row",
        "1 session_meta row",
        "2 turn_context rows",
    )


def test_items_of_unknown_types_are_kept_whole():
    """What the Responses parser does not know may be part of a reply: it comes back as it was."""
    found = read_rows([said("user", "Draw."), item(type="moon_call", id="x", phase="full")])
    assert write(found, found.messages).splitlines()[1] == (
        '{"type":"moon_call","id":"x","phase":"full"}'
    )


def test_ids_that_repeat_are_told_apart():
    """A session that was forked holds the items of the other one, some of them twice."""
    row = {"type": "message", "id": "msg_1", "role": "assistant", "content": "a"}
    found = read_rows([item(**row), item(**row)])
    assert len({m.id for m in found.messages}) == len(found.rows) == 2


# --- compactions ----------------------------------------------------------------------------------


def test_active_is_what_the_last_compaction_kept_and_what_follows():
    """C-2: the person's messages keep their speaker, whoever wrote them down again."""
    found = read(PATH, active=True)
    at = next(i for i, row in enumerate(ROWS) if row["type"] == "compacted")
    kept = ROWS[at]["payload"]["replacement_history"]
    later = [row["payload"] for row in ROWS[at:] if row["type"] == "response_item"]
    assert [m.wire for m in found.messages] == [*kept, *later]
    assert [text for speaker, text in told(found) if speaker == "person"] == TYPED
    assert len({m.id for m in found.messages}) == len(found.messages)
    assert set(found.rows) == {m.id for m in found.messages}


def test_active_without_a_boundary_is_the_whole_file():
    rows = [said("user", "Hello."), said("assistant", "Hello.")]
    found = read_rows(rows, active=True)
    assert [m.text for m in found.messages] == ["Hello.", "Hello."]
    assert found.notes == ("no compaction boundary: active is the whole file",)


OLDER = [
    said("developer", "Be brief."),
    *(said("user", "One."), typed("One.")),
    said("assistant", "Done one."),
    compacted(message="Summary of one."),
    *(said("user", "Two."), typed("Two.")),
    said("assistant", "Done two."),
    compacted(message="Summary of both."),
    said("assistant", "Going on."),
]


def test_an_older_compaction_went_on_from_the_persons_messages_and_the_summary():
    """C-2: such a row names no messages; the program rebuilt them, and let the old summary go."""
    assert told(read_rows(OLDER, active=True)) == [
        ("system", "Be brief."),
        ("person", "One."),
        ("person", "Two."),
        ("checkpoint", "Summary of both."),
        ("assistant", "Going on."),
    ]
    assert [text for _, text in told(read_rows(OLDER))] == [
        "Be brief.", "One.", "Done one.", "Two.", "Done two.", "Going on.",
    ]  # fmt: skip


def test_a_summary_in_what_was_kept_is_a_checkpoint():
    kept = [said("user", x)["payload"] for x in ("One.", "Summary.")]
    boundary = compacted(message="Summary.", replacement_history=kept)
    rows = [said("user", "One."), typed("One."), boundary]
    assert told(read_rows(rows, active=True)) == [("person", "One."), ("checkpoint", "Summary.")]


def test_what_was_kept_stands_in_where_its_originals_are_missing():
    """A file that begins with a compaction has nothing else of what was before."""
    kept = [said("user", "One.")["payload"]]
    rows = [compacted(message="", replacement_history=kept), typed("One."), said("assistant", "1")]
    assert told(read_rows(rows)) == [("person", "One."), ("assistant", "1")]


# --- what is wrong --------------------------------------------------------------------------------

BROKEN = [
    ([said("user", "x"), item(type="function_call", name="f")], "item.call_id: a tool call", 2),
    ([item(type="message", role="wizard", content="x")], "item.role: 'wizard'", 1),
    ([said("user", "x"), {"type": "response_item", "payload": 5}], "the row has no payload", 2),
    ([said("user", "x"), {"type": "compacted"}], "the row has no payload", 2),
    ([said("user", "x"), {"payload": {}}], "not a record with a type", 2),
    ([said("user", "x"), 5], "not a record with a type", 2),
    ([said("user", "x"), item(type="item_reference", id="y")], "a stored item", 2),
    ([said("user", "x"), item(type="message", role="user", content=[7])], r"content\[0\]", 2),
    ([compacted(message="", replacement_history=[7])], "item: expected an object, got int", 1),
]


@pytest.mark.parametrize(("rows", "reason", "line"), BROKEN, ids=[str(x[1:]) for x in BROKEN])
def test_what_is_broken_is_refused_with_its_line(rows, reason, line):
    """NFR-2: one line, with the place."""
    with pytest.raises(InvalidTranscript, match=reason) as caught:
        read_rows(rows, format="codex_cli")
    assert caught.value.line == line
    assert "\n" not in str(caught.value)


def test_a_rollout_is_one_conversation():
    assert read(PATH, conversation=1).messages
    with pytest.raises(InvalidTranscript, match="no conversation 2"):
        read(PATH, conversation=2)


def test_other_files_with_types_are_no_rollouts():
    rows: list[dict] = [
        {"type": "session_meta"},
        {"type": ["compacted"], "payload": {}},
        {"payload": {}},
    ]
    for row in rows:
        with pytest.raises(InvalidTranscript, match="an unknown format"):
            detect(json.dumps(row).encode())


# --- writing --------------------------------------------------------------------------------------


def test_it_comes_out_as_responses_items_and_is_read_again(transcript):
    """C-3: a line each, as they were, reasoning included; a summary and a mask among them."""
    assert writable(transcript) is transcript
    out = write(transcript, transcript.messages)
    assert [json.loads(line) for line in out.splitlines()] == [m.wire for m in transcript.messages]
    again = read(out.encode())
    assert (again.format, again.wire) == ("chat", "responses")
    assert [m.parts for m in again.messages] == [m.parts for m in transcript.messages]
    assert [m.reply_id is None for m in again.messages] == [
        m.reply_id is None for m in transcript.messages
    ]
    assert write(again, again.messages) == out


def test_a_masked_result_and_a_summary_are_written():
    """K-4, K-6: changed items keep their shape."""
    transcript = read(PATH)
    at = next(i for i, m in enumerate(transcript.messages) if m.tool_results)
    (part,) = transcript.messages[at].parts
    assert isinstance(part, ToolResult)
    masked = transcript.messages[at].with_parts([replace(part, text="[masked]")])
    summary = Message(
        role="user", content="what was", metadata=MessageMetadata(source="checkpoint")
    )
    rest = transcript.messages[at + 1 :]
    messages = [summary, *transcript.messages[at - 3 : at], masked, *rest]
    again = read(write(transcript, messages).encode())
    assert again.messages[0].text == "what was"
    assert again.messages[4].tool_results[0].text == "[masked]"
    assert again.messages[4].wire is not None
    assert again.messages[4].wire["call_id"] == "call_1"
    assert [m.parts for m in again.messages[5:]] == [m.parts for m in rest]


def test_a_list_of_items_is_a_chat_too(transcript):
    """Whatever stands first: an item has no role."""
    items = [m.wire for m in transcript.messages]
    first = next(i for i, raw in enumerate(items) if raw["type"] == "reasoning")
    found = read(json.dumps(items[first:]).encode())
    assert (found.wire, len(found.messages)) == ("responses", len(items) - first)
    assert write(found, found.messages[1:]).startswith("[")

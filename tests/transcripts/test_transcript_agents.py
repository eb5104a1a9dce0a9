"""Sessions of OpenCode, pi and Copilot CLI: calls are paired, what the program wrote is told apart
from what a person did, and nothing is left out without being counted (C-2, C-8, MIG)."""

import json
import re
from pathlib import Path

import pytest

from compact.errors import InvalidTranscript
from compact.messages.messages import Image, Thinking
from compact.text.speakers import speaker_of
from compact.transcripts.reading import read
from compact.transcripts.writing import write
from tests.store.making import as_written, detect

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "transcripts"
OPENCODE = json.loads((FIXTURES / "opencode.jsonl").read_text(encoding="utf-8"))
NAMES = ["opencode.jsonl", "pi.jsonl", "copilot_cli.jsonl"]


def rows_of(name):
    return [json.loads(x) for x in (FIXTURES / name).read_text(encoding="utf-8").splitlines()]


def read_rows(rows, **options):
    return read("".join(json.dumps(row) + "\n" for row in rows).encode(), **options)


def told(transcript):
    return [(speaker_of(m), m.text) for m in transcript.messages if m.text]


def results(transcript):
    return {r.call_id: (r.name, r.text) for m in transcript.messages for r in m.tool_results}


def exported(*messages, **info):
    return read(json.dumps({"info": {"id": "ses_1", **info}, "messages": [*messages]}).encode())


def reply(*parts, **info):
    return {"info": {"role": "assistant", **info}, "parts": [*parts]}


@pytest.mark.parametrize("name", NAMES)
def test_each_result_stands_behind_its_call(name):
    """K-4: and what is written as chat completions is read again, with the same pairs."""
    transcript = read(FIXTURES / name)
    again = read(write(transcript, transcript.messages).encode())
    assert results(again) == results(transcript)
    assert [m.text for m in again.messages] == [as_written(m) for m in transcript.messages]
    errors = [r.is_error for m in transcript.messages for r in m.tool_results]
    assert errors.count(True) == 1


# --- OpenCode -------------------------------------------------------------------------------------


def test_opencode():
    transcript = read(FIXTURES / "opencode.jsonl")
    assert told(transcript) == [
        (
            "person",
            "Why does the green buoy blink twice? See @lights.toml\n[file chart.pdf]",
        ),
        ("injected", 'Called the Read tool with the following input: {"filePath":"lights.toml"}'),
        ("assistant", "The list has two pulses. I take one out."),
        ("person", "/review"),
        ("injected", "You are a reviewer. Read the diff."),
        ("person", "Now the red one."),
        ("assistant", "The red one blinks once."),
    ]
    assert results(transcript) == {
        "call_1": ("read", "green = [1, 1, 4]"),
        "call_2": ("bash", "make: *** no rule for lamp"),
        "call_3": ("edit", "ok"),
        "call_4": ("task", "No problems."),
    }
    assert isinstance(transcript.messages[0].parts[1], Image)
    assert transcript.messages[2].parts[0] == Thinking("Look at the period.")
    assert transcript.messages[3].timestamp.isoformat() == "2026-03-01T09:00:04+00:00"
    assert (transcript.title, transcript.model) == ("Buoy lights", "gpt-5.3-codex")
    assert transcript.session_id == "ses_1"
    assert transcript.notes == (
        "1 attached file, of which only the name is kept",
        "1 compaction part",
        "1 earlier summary",
        "1 patch part",
        "1 step-finish part",
        "1 step-start part",
        "1 tool call without output",
    )


def test_opencode_active_is_the_summary_and_what_follows():
    """C-2: outputs that OpenCode has cleared are shown as the model sees them."""
    assert told(read(FIXTURES / "opencode.jsonl", active=True)) == [
        ("checkpoint", "The green buoy had two pulses; one was taken out."),
        ("person", "Now the red one."),
        ("assistant", "The red one blinks once."),
    ]
    state = {"status": "completed", "input": {}, "output": "long", "time": {"compacted": 1}}
    row = reply({"type": "tool", "callID": "c", "tool": "read", "state": state})
    data = json.dumps({"info": {"id": "s"}, "messages": [row]}).encode()
    assert results(read(data)) == {"c": ("read", "long")}
    shown = read(data, active=True)
    assert results(shown) == {"c": ("read", "[Old tool result content cleared]")}
    assert shown.notes == ("no compaction boundary: active is the whole file",)


def test_opencode_text_that_no_model_is_sent_is_left_out():
    parts = [{"type": "text", "text": "shown only", "ignored": True}, {"type": "text", "text": "x"}]
    found = exported({"info": {"role": "user"}, "parts": parts})
    assert (told(found), found.notes) == ([("person", "x")], ("1 ignored text part",))


def test_opencode_says_what_was_undone():
    found = exported(reply({"type": "text", "text": "x"}), revert={"messageID": "msg_4"})
    assert found.notes == ("what follows msg_4 was undone by the person, and is in the file",)


def test_opencode_calls_whose_ids_repeat_keep_their_results():
    """A call is made once, whatever the file calls it."""
    parts = [
        {"type": "tool", "callID": "c", "tool": "read", "state": {"status": "completed",
         "input": {"n": n}, "output": str(n)}} for n in (1, 2)
    ]  # fmt: skip
    found = exported(reply(*parts), reply(*parts))
    calls = [(c.id, c.arguments) for m in found.messages for c in m.tool_calls]
    assert len({call_id for call_id, _ in calls}) == 4
    answered = {call_id: text for call_id, (_, text) in results(found).items()}
    assert [json.loads(given)["n"] for _, given in calls] == [int(answered[c]) for c, _ in calls]


def test_opencode_message_ids_that_repeat_are_told_apart():
    """The real exports have hidden some of them."""
    said = reply({"type": "text", "text": "x"}, id="REDACTED")
    found = exported(said, said)
    assert len({m.id for m in found.messages}) == 2


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (5, r"messages\[1\]: expected an info with the role"),
        ({"info": {"role": "wizard"}, "parts": []}, r"messages\[1\]: expected an info"),
        ({"info": {"role": "user"}, "parts": {}}, r"messages\[1\]: expected an info"),
        (reply(7), r"messages\[1\]\.parts\[0\]\.type: needs one"),
        (reply({"text": "x"}), r"messages\[1\]\.parts\[0\]\.type: needs one"),
    ],
)
def test_opencode_names_the_message_that_is_wrong(row, reason):
    with pytest.raises(InvalidTranscript, match=reason):
        exported(OPENCODE["messages"][0], row)


def test_an_empty_opencode_session_is_refused_by_its_name():
    data = b'{"info": {"id": "ses_1", "title": "t"}, "messages": []}'
    assert detect(data) == "opencode"
    with pytest.raises(InvalidTranscript, match="holds no messages, read as OpenCode"):
        read(data)


# --- pi -------------------------------------------------------------------------------------------


def test_pi():
    transcript = read(FIXTURES / "pi.jsonl")
    assert told(transcript) == [
        ("person", "Ring the bell at noon, never at night."),
        ("assistant", "I look at the timer."),
        ("person", "go on"),
        ("person", "!ls bells"),
        ("observation", "great\nsmall\n"),
        ("assistant", "Two bells are there."),
        ("person", "And the small bell?"),
        ("assistant", "It follows."),
        ("injected", "?"),
    ]
    assert results(transcript) == {
        "toolu_1": ("read", "export const noon = 12"),
        "toolu_2": ("bash", "date: not found"),
    }
    assert transcript.messages[1].parts[0] == Thinking("A timer.", "c2VhbA==")
    assert isinstance(transcript.messages[0].parts[1], Image)
    assert (transcript.model, transcript.session_id) == ("claude-sonnet-4-5", "5e55-10")
    assert transcript.notes == (
        "1 compaction entry",
        "1 empty assistant message",
        "1 message of the role 'lantern', kept as injected",
        "1 model_change entry",
        "1 session entry",
        "1 thinking_level_change entry",
        "1 tool call without output",
    )


def test_pi_active_is_the_summary_what_it_kept_and_what_follows():
    """C-2: `firstKeptEntryIndex` counts the head of the file too."""
    found = read(FIXTURES / "pi.jsonl", active=True)
    assert told(found)[:3] == [
        ("checkpoint", "# Checkpoint\nThe bell rings at noon."),
        ("person", "go on"),
        ("person", "!ls bells"),
    ]
    assert told(found)[-3:] == told(read(FIXTURES / "pi.jsonl"))[-3:]


def entry(number, parent, **more):
    return {"type": "message", "id": f"e{number}", "parentId": parent, "timestamp": 1, **more}


def words(role, text):
    return {"message": {"role": role, "content": [{"type": "text", "text": text}]}}


TREE = [
    {"type": "session", "version": 3, "id": "s", "timestamp": "2026-03-01T09:00:00Z", "cwd": "/"},
    entry(1, None, **words("user", "one")),
    entry(2, "e1", **words("assistant", "left")),
    entry(3, "e1", **words("assistant", "right")),
    {"type": "branch_summary", "id": "e4", "parentId": "e3", "summary": "left was tried"},
    {"type": "custom_message", "id": "e5", "parentId": "e4", "content": "a note", "display": True},
    {
        "type": "compaction",
        "id": "e6",
        "parentId": "e5",
        "summary": "sum",
        "firstKeptEntryId": "e3",
    },
    {"type": "session_info", "id": "e7", "parentId": "e6", "name": "Forks"},
    entry(8, "e7", **words("user", "two")),
]


def test_pi_keeps_all_branches_and_active_takes_the_last_one():
    """C-2: entries of newer files have ids and parents."""
    assert told(read_rows(TREE)) == [
        ("person", "one"),
        ("assistant", "left"),
        ("assistant", "right"),
        ("injected", "left was tried"),
        ("injected", "a note"),
        ("person", "two"),
    ]
    found = read_rows(TREE, active=True)
    assert told(found) == [
        ("checkpoint", "sum"),
        ("assistant", "right"),
        ("injected", "left was tried"),
        ("injected", "a note"),
        ("person", "two"),
    ]
    assert (found.title, found.messages[1].id) == ("Forks", "e3")


def test_pi_a_compaction_is_a_checkpoint_where_its_originals_are_missing():
    assert told(read_rows([TREE[0], TREE[6], TREE[8]])) == [
        ("checkpoint", "sum"),
        ("person", "two"),
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ([1], "not an entry with a type"),
        ({"a": 1}, "not an entry with a type"),
        ({"type": "message"}, "the entry has no message"),
        ({"type": "message", "message": {"role": "user", "content": 5}}, "message.content"),
        ({"type": "message", "message": {"role": "user", "content": ["x"]}}, "message.content"),
    ],
)
def test_pi_leaves_one_odd_row_out_and_says_so(row, reason):
    """Where more rows are odd than right, the first of them refuses the file."""
    found = read_rows([*rows_of("pi.jsonl")[:2], row, TREE[1]])
    assert len(found.messages) == 2
    assert re.fullmatch(rf"1 odd row, left out: line 3: {reason}.*", found.notes[-1])
    with pytest.raises(InvalidTranscript, match=reason) as caught:
        read_rows([*rows_of("pi.jsonl")[:2], row, row])
    assert caught.value.line == 3


# --- Copilot CLI ----------------------------------------------------------------------------------


def test_copilot_cli():
    transcript = read(FIXTURES / "copilot_cli.jsonl")
    assert told(transcript) == [
        ("system", "You are a terminal assistant."),
        ("person", "Count the ferries.\n[attached ferries.csv]"),
        ("injected", "<system_notification>\nA shell has ended.\n</system_notification>"),
        ("assistant", "Twelve."),
        ("person", "And on Sundays?"),
        ("injected", "Skill context."),
        ("assistant", "Six on Sundays."),
    ]
    assert results(transcript) == {
        "toolu_2": ("task", "task failed"),
        "toolu_1": ("bash", "12 ferries.csv"),
        "user_1": ("bash", "ferries.csv"),
    }
    calling = transcript.messages[2]
    assert calling.parts[0] == Thinking("A count of lines.", "c2VhbA==")
    assert [c.id for c in calling.tool_calls] == ["toolu_1", "toolu_2"]
    assert all(m.tool_results for m in transcript.messages[3:5])
    assert (transcript.model, transcript.session_id) == ("gpt-5.4", "c0-9110")
    assert transcript.notes == (
        "1 assistant.message event of a sub-agent",
        "1 assistant.turn_end event",
        "1 assistant.turn_start event",
        "1 attachment, of which only the name is kept",
        "1 session.compaction_complete event",
        "1 session.start event",
        "3 tool.execution_start events",
    )


def test_copilot_cli_active_is_the_system_prompt_the_summary_and_what_follows():
    """C-2."""
    assert told(read(FIXTURES / "copilot_cli.jsonl", active=True)) == [
        ("system", "You are a terminal assistant."),
        ("checkpoint", "Twelve ferries were counted."),
        ("person", "And on Sundays?"),
        ("injected", "Skill context."),
        ("assistant", "Six on Sundays."),
    ]


def event(kind, **data):
    return {"type": kind, "data": data, "id": "e", "timestamp": "2026-03-01T09:00:00Z"}


def test_copilot_cli_results_of_nobody_and_further_ones_are_kept():
    """MIG: nothing is dropped, and no provider is shown a pair that it refuses."""
    done = event("tool.execution_complete", toolCallId="t", success=True, result={"content": "a"})
    more = event("tool.execution_complete", toolCallId="t", success=True, result={"content": "b"})
    asked = event("assistant.message", content="", toolRequests=[{"toolCallId": "t", "name": "x"}])
    alone = read_rows([done])
    assert told(alone) == [("observation", "a")]
    assert alone.notes == ("1 result without its call, kept as an observation",)
    twice = read_rows([asked, done, more])
    assert results(twice) == {"t": ("x", "a\n\nb")}
    assert len(twice.rows[twice.messages[1].id]) == 2
    assert twice.notes == ("1 further result of a call, kept behind its first",)


def test_copilot_cli_results_are_put_behind_their_calls_whatever_comes_between():
    """In linear time, and in the order of the calls."""
    asked = [
        event("assistant.message", content="", toolRequests=[{"toolCallId": str(n), "name": "x"}])
        for n in range(300)
    ]
    done = [
        event("tool.execution_complete", toolCallId=str(n), success=True, result={"content": "r"})
        for n in reversed(range(300))
    ]
    found = read_rows([*asked, event("user.message", content="and?"), *done])
    ids = [x.id for m in found.messages for x in m.tool_calls]
    assert [m.tool_results[0].call_id for m in found.messages[1:600:2]] == ids
    assert len({m.id for m in found.messages}) == 601


def test_copilot_cli_texts_that_were_selected_are_kept_and_are_not_the_persons():
    shown = {"type": "selection", "displayName": "a.py:3", "text": "x = 1"}
    found = read_rows([event("user.message", content="Why?", attachments=[shown])])
    assert told(found) == [("person", "Why?"), ("injected", "[attached a.py:3]\nx = 1")]
    assert found.notes == ()


def test_copilot_cli_has_the_last_title_and_leaves_out_sub_agents():
    titles = [event("session.title_changed", title=x) for x in ("one", "two")]
    inner = {**event("assistant.message", content="inner"), "agentId": "a"}
    found = read_rows([event("user.message", content="hi"), *titles, inner])
    assert (found.title, len(found.messages)) == ("two", 1)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ([1], "not an event with a type and data"),
        ({"type": "user.message"}, "not an event with a type and data"),
        (event("user.message", content=None), "data.content: expected text"),
        (event("assistant.message", content=[1]), "data.content: expected text"),
    ],
)
def test_copilot_cli_names_the_line_that_is_wrong(row, reason):
    with pytest.raises(InvalidTranscript, match=reason) as caught:
        read_rows([event("session.start"), row, event("session.idle")])
    assert caught.value.line == 2
    said = [event("user.message", content=text) for text in ("a", "b")]
    found = read_rows([*said, row])
    assert [m.text for m in found.messages] == ["a", "b"]
    assert "1 odd row, left out: line 3: " in found.notes[-1]

"""Files that editors, shells and power cuts have damaged, and odd ones of other programs: read
whole, or refused in one line that names it; nothing goes quietly.
"""

import json
from pathlib import Path

import pytest

from compact.cli.main import main
from compact.errors import InvalidTranscript
from compact.text.speakers import speaker_of
from compact.transcripts.reading import read

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "transcripts"
ASKED = "How many loaves are left?"
ROWS = [
    {"role": "user", "content": f"{ASKED} Grüße 👍"},
    {"role": "assistant", "content": "Seven."},
]
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (LINES.encode("utf-16"), "UTF-16, read as such"),
        (LINES.encode("utf-16-le"), "UTF-16, read as such"),
        (LINES.encode("utf-16-be"), "UTF-16, read as such"),
        (("\ufeff" + json.dumps(ROWS)).encode("utf-16-be"), "UTF-16, read as such"),
        (LINES.encode() + b"\0" * 100, "100 zero bytes at the end, which a cut write left"),
        (LINES.encode() + b'{"role": "us', "the last line is half written"),
        (LINES.replace("}\n{", "}{").encode(), None),
        (LINES.replace("\n", "\r\n\r\n").encode(), None),
    ],
)
def test_a_damaged_file_is_mended_and_told(data, note):
    found = read(data)
    assert [m.text for m in found.messages] == [row["content"] for row in ROWS]
    assert found.notes == (() if note is None else (note,))


@pytest.mark.parametrize(
    "name", ["legacy_session.json", "legacy_snapshot.json", "opencode.jsonl", "specstory_codex.md"]
)
def test_every_format_tells_what_was_mended(name):
    text = (FIXTURES / name).read_text(encoding="utf-8")
    assert "UTF-16, read as such" in read(text.encode("utf-16")).notes


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (LINES.encode("cp1252", "ignore"), "not UTF-8 text.*Windows-1252"),
        (LINES.replace("\n", "\r").encode(), "lines end in CR alone"),
        (LINES.encode().replace(b"Seven", b"\0\0\0"), "binary data in it: zero bytes"),
        (b"\xff\xfe{\0\xd8", "UTF-16 that is broken"),
    ],
)
def test_what_cannot_be_mended_is_named_in_one_line(data, reason, tmp_path, capsys):
    path = tmp_path / "talk.jsonl"
    path.write_bytes(data)
    with pytest.raises(InvalidTranscript, match=reason):
        read(path)
    assert main(["tokens", str(path)]) != 0
    assert capsys.readouterr().err.count("\n") == 1


def test_half_a_character_is_told():
    found = read(b'{"role": "user", "content": "x \\ud83d"}')
    assert found.notes == ("1 row has half of a character in it (a lone surrogate)",)


def claude(kind, words, **more):
    said = {"role": kind, "content": words}
    return json.dumps({"type": kind, "uuid": words, "message": said, **more}) + "\n"


@pytest.mark.parametrize("mark", [{"isSidechain": True}, {"parent_tool_use_id": "toolu_1"}])
def test_a_sub_agents_own_file_is_its_conversation(mark):
    side = claude("user", "Count them.", **mark) + claude("assistant", "Seven.", **mark)
    assert [m.text for m in read(side.encode()).messages] == ["Count them.", "Seven."]
    both = read((claude("user", ASKED) + side).encode())
    assert [m.text for m in both.messages] == [ASKED]
    assert both.notes == ("2 sidechain rows",)


def test_one_odd_row_does_not_refuse_a_session():
    rows = claude("user", ASKED) + '{"a": 1}\n' + claude("assistant", "Seven.")
    found = read(rows.encode())
    assert [m.text for m in found.messages] == [ASKED, "Seven."]
    assert found.notes == ("1 odd row, left out: line 2: not an event with a type",)


def test_one_odd_row_does_not_refuse_a_list_of_messages():
    rows = [*ROWS, {"kind": "ping"}, {"role": "user", "content": "And rolls?"}]
    for data in (json.dumps(rows), "\n".join(map(json.dumps, rows))):
        found = read(data.encode())
        assert len(found.messages) == 3
        assert "1 odd row, left out: " in found.notes[-1]


def test_rollouts_of_before_the_envelope_are_read():
    said = [{"type": "input_text", "text": ASKED}]
    rows = [
        {"id": "r", "timestamp": "2025-05-01T10:00:00Z", "instructions": "Be brief."},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": said},
        {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "seven"},
    ]
    found = read("\n".join(map(json.dumps, rows)).encode())
    assert (found.format, found.session_id, len(found.messages)) == ("codex_cli", "r", 3)
    assert found.notes == ("1 session_meta row", "1 state row")
    older = {"session": {"id": "r"}, "items": rows[2:]}
    assert len(read(json.dumps(older).encode()).messages) == 3


def test_the_answer_of_the_responses_api_is_read():
    words = [{"type": "output_text", "text": "Seven."}]
    item = {"type": "message", "id": "m", "role": "assistant", "content": words}
    found = read(json.dumps({"object": "response", "output": [item], "model": "x"}).encode())
    assert [(speaker_of(m), m.text) for m in found.messages] == [("assistant", "Seven.")]

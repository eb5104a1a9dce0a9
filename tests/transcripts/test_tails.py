"""The end of a transcript, read without the rest (issue 28): from a byte or a compaction on."""

import json

import pytest

from compact.errors import InvalidTranscript
from compact.messages.messages import Message
from compact.wiring import read_transcript
from tests.transcripts.sessions import assistant, boundary, queued, result, summary, user, written


def texts(read):
    return [message.text or message.tool_results[0].text for message in read.messages]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "s.jsonl"


def test_of_what_lies_before_a_compaction_only_a_persons_words_are_read(file):
    answered = {"answers": {"Which port?": "9090"}}
    rows = [
        user("Never push to main."),
        assistant("Understood.", call="c1"),
        result("c1", "12 files"),
        queued("And use tabs."),
        assistant("", call="c2", name="AskUserQuestion"),
        {**result("c2", "User answered"), "toolUseResult": answered},
        boundary(),
        summary("They work on the harbour."),
        user("Go on."),
        assistant("Done.", call="c3"),
        result("c3", "ok"),
    ]
    read = read_transcript(written(file, rows), since="boundary")
    early, late = read.messages[: read.compacted], read.messages[read.compacted :]
    said = [words.words for message in early for words in message.metadata.said]
    assert [m.text for m in early if m.text] == ["Never push to main.", "And use tabs."]
    assert said == ["9090"]
    assert [m.text for m in late if m.text] == ["Go on.", "Done."]


def test_the_rest_is_the_same_as_in_the_whole_file(file):
    rows = [user("One."), assistant("Two."), boundary(), user("Three."), assistant("Four.")]
    written(file, rows)
    whole, tail = read_transcript(file), read_transcript(file, since="boundary")
    assert whole.compacted == 2
    after = tail.messages[tail.compacted :]
    assert list(map(Message.model_dump, after)) == list(map(Message.model_dump, whole.messages[2:]))


def test_only_the_last_compaction_counts(file):
    rows = [user("One."), boundary(), user("Two."), assistant("x"), boundary(), user("Three.")]
    read = read_transcript(written(file, rows), since="boundary")
    assert (texts(read), read.compacted) == (["One.", "Two.", "Three."], 2)


def test_what_only_looks_like_a_compaction_is_none(file):
    rows = [
        user("One."),
        assistant("", call="c", status="compacted", subtype="compact_boundary"),
        result("c", json.dumps(boundary())),
        {**boundary(), "isSidechain": True},  # a sub-agent's
        assistant("Two."),
    ]
    read = read_transcript(written(file, rows), since="boundary")
    assert ([m.role for m in read.messages], read.compacted) == (
        ["user", "assistant", "user", "assistant"],
        0,
    )


def test_from_a_byte_on(file):
    rows = [user("One."), assistant("Two."), user("Three.")]
    written(file, rows)
    second = file.read_bytes().index(b"\n") + 1
    assert texts(read_transcript(file, since=second)) == ["Two.", "Three."]
    assert texts(read_transcript(file, since=second + 1)) == ["Three."]  # the line has begun
    assert texts(read_transcript(file, since=0)) == ["One.", "Two.", "Three."]


def test_rows_that_are_no_json_are_left_out_and_told(file):
    written(file, [user("One."), boundary(), user("Two."), assistant("Three.")])
    file.write_bytes(file.read_bytes() + b'{"type":"user","mess\n\xff\xfe\n')
    read = read_transcript(file, since="boundary")
    assert texts(read) == ["One.", "Two.", "Three."]
    assert "2 rows that are no JSON" in read.notes


def test_codex_goes_on_with_what_its_compaction_kept(file):
    def item(role, text):
        part = {"type": "input_text" if role == "user" else "output_text", "text": text}
        payload = {"type": "message", "role": role, "content": [part]}
        return {"timestamp": "2026-01-01T00:00:00Z", "type": "response_item", "payload": payload}

    kept = [item("user", "One.")["payload"]]
    rows = [
        {"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": {"id": "s"}},
        item("user", "One."),
        item("assistant", "Two."),
        {"type": "compacted", "payload": {"message": "Summary.", "replacement_history": kept}},
        item("assistant", "Three."),
    ]
    read = read_transcript(written(file, rows), since="boundary")
    assert (read.format, texts(read), read.compacted) == ("codex_cli", ["One.", "Three."], 0)
    whole = {message.text: message.id for message in read_transcript(file).messages}
    assert [m.id for m in read.messages] == ["earlier-0", whole["Three."]]  # by which it is found


@pytest.mark.parametrize("since", [0, "boundary"])
def test_what_cannot_be_read_says_so(tmp_path, since):
    for name in ("none.jsonl", "."):
        with pytest.raises(InvalidTranscript):
            read_transcript(tmp_path / name, since=since)
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(InvalidTranscript):
        read_transcript(tmp_path / "empty.jsonl", since=since)

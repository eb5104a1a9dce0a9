"""Old sessions, snapshots and databases of an assistant: tool calls at their times, odd roles kept,
every broken one refused with its place (MIG)."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from compact.errors import InvalidTranscript
from compact.text.speakers import speaker_of
from compact.transcripts.documents import load
from compact.transcripts.reading import read
from compact.transcripts.sqlite_chats import titles
from compact.transcripts.writing import write
from tests.store.making import as_written, detect

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "transcripts"
SESSION, SNAPSHOT = FIXTURES / "legacy_session.json", FIXTURES / "legacy_snapshot.json"
DATABASE = FIXTURES / "sqlite_chats.db"


def told(transcript):
    return [(speaker_of(m), m.text) for m in transcript.messages if m.text]


def calls(transcript):
    return [(c.id, c.name, c.arguments) for m in transcript.messages for c in m.tool_calls]


def results(transcript):
    return [(r.call_id, r.name, r.text) for m in transcript.messages for r in m.tool_results]


def shape(transcript):
    """Who speaks, in order; the text where there is one."""
    return [m.text or ("call" if m.tool_calls else "result") for m in transcript.messages]


def session(*messages, **more):
    value = {"sessionId": "s", "lastActivity": "x", "messages": [*messages], **more}
    return read(json.dumps(value).encode())


def said(role, text, at=None, **more):
    return {"role": role, "parts": [{"type": "text", "text": text}], "timestamp": at, **more}


# --- sessions -------------------------------------------------------------------------------------


def test_calls_stand_at_their_times():
    """MIG: the migration that this one replaces lost them."""
    transcript = read(SESSION)
    assert shape(transcript) == [
        *("You mend sails.", "Is the mainsail torn?", "call", "result", "It is,\nat the foot."),
        *("Mend it.", "The wind rises.", "call", "result", "call", "Done."),
    ]
    assert calls(transcript)[:2] == [
        ("t-1", "inspect", '{"sail": "main"}'),
        ("t-2", "sew", '{"sail": "main"}'),
    ]
    assert results(transcript) == [("t-1", "inspect", "a tear of 20 cm"), ("t-2", "sew", "sewn")]
    assert (transcript.model, transcript.session_id) == ("llama3.2:3b", "session-1772355600000")
    times = [m.timestamp for m in transcript.messages]
    assert times == sorted(times)


def test_an_id_that_two_calls_have_stands_for_one_of_them():
    """Nothing is merged: the second is another call, and nobody answered it."""
    found = calls(read(SESSION))
    assert found[2][1:] == ("sew", '{"sail": "jib"}')
    assert len({call_id for call_id, _, _ in found}) == 3
    assert "1 tool call without output" in read(SESSION).notes


def test_odd_roles_are_mapped_or_kept():
    """MIG: a note says what was kept, and the message which role it had."""
    kept = read(SESSION).messages[6]
    assert (speaker_of(kept), kept.metadata.model_extra) == (
        "injected",
        {"original_role": "narrator"},
    )
    assert read(SESSION).notes[0] == "1 message of the role 'narrator', kept as injected"
    names = ("Human", "model", "AI", "developer", "system")
    found = session(*(said(role, role) for role in names))
    assert [m.role for m in found.messages] == [
        *("user", "assistant", "assistant", "developer", "system")
    ]
    assert found.notes == ()


def test_what_else_is_in_a_session_is_handed_over():
    record = read(SESSION).container.fields["record"]
    assert record["provider"] == "ollama"
    assert record["metadata"]["modeHistory"][0]["to"] == "developer"


def test_calls_that_messages_make_are_made_once():
    """Its result may stand beside the messages, or be a message."""
    made = {"role": "assistant", "parts": [], "timestamp": "2026-03-01T09:00:05Z",
            "toolCalls": [{"id": "a", "name": "f", "args": {"n": 1}}]}  # fmt: skip
    beside = {"id": "a", "name": "f", "args": {"n": 1}, "result": "r", "timestamp": 1}
    found = session(said("user", "x", "2026-03-01T09:00:00Z"), made, toolCalls=[beside])
    assert (shape(found), calls(found)) == (["x", "call", "result"], [("a", "f", '{"n": 1}')])
    answer = {"role": "tool", "content": "r", "tool_call_id": "a"}
    assert results(session(said("user", "x"), made, answer)) == [("a", "f", "r")]


@pytest.mark.parametrize(
    ("came", "found"),
    [
        ({"error": "no needle"}, ("no needle", True)),
        ({"result": "", "status": "error"}, ("", True)),
        ({"result": {"llmContent": [{"text": "a"}, "b"]}}, ("a\nb", False)),
        ({"result": {"rows": [1]}}, ('{"rows":[1]}', False)),
        ({"result": 0}, ("0", False)),
    ],
)
def test_what_came_of_a_call_is_its_result(came, found):
    (message,) = session(toolCalls=[{"name": "sew", "args": {}, **came}]).messages[1:]
    (result,) = message.tool_results
    assert (result.text, result.is_error) == found


@pytest.mark.parametrize(
    ("at", "place"),
    [("2026-03-01T08:00:00Z", 1), ("2026-03-01T09:30:00Z", 1), ("2026-03-01T11:00:00Z", 2),
     (None, 2), ("soon", 2)],
)  # fmt: skip
def test_a_call_stands_behind_the_last_message_that_is_no_later(at, place):
    """One that is earlier than all behind the first, one without a time at the end."""
    messages = [said("user", "a", "2026-03-01T09:00:00Z"), said("user", "b", 1_772_359_200_000)]
    call = {"id": "c", "name": "f", "args": {}, "timestamp": at}
    assert shape(session(*messages, toolCalls=[call])).index("call") == place


def test_sessions_of_the_successor_are_read():
    """Their messages have a content and numbers for times; checkpoints tell them from chats."""
    value = {
        "sessionId": "s",
        "messages": [{"id": "m", "role": "user", "content": "hi", "timestamp": 1_772_355_600_000}],
        "checkpointRecords": [],
    }
    data = json.dumps(value).encode()
    assert detect(data) == "legacy_session"
    (message,) = read(data).messages
    assert (message.id, message.timestamp.isoformat()) == ("m", "2026-03-01T09:00:00+00:00")


def test_an_empty_session_is_refused():
    data = b'{"sessionId": "s", "lastActivity": "x", "messages": [], "toolCalls": []}'
    assert detect(data) == "legacy_session"
    with pytest.raises(InvalidTranscript, match="holds no messages, read as older assistants"):
        read(data)


@pytest.mark.parametrize("messages", [[], [said("user", "And the jib?")]])
def test_summaries_of_checkpoints_come_along(messages):
    """A session may hold nothing else any more."""
    known = {"checkpoints": [{"id": "k", "summary": "The mainsail is mended.", "timestamp": 5}]}
    found = session(metadata=known, messages=messages)
    assert told(found)[0] == ("checkpoint", "The mainsail is mended.")
    assert (found.session_id, len(found.messages)) == ("s", 1 + len(messages))


def test_parts_of_other_types_are_kept():
    parts = [
        {"type": "thinking", "text": "hm"},
        {"type": "code", "text": "x = 1"},
        {"type": "chart", "values": [1]},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    ]
    found = session(said("user", "x"), {"role": "assistant", "parts": parts})
    assert found.messages[1].text == 'x = 1\n{"type":"chart","values":[1]}'
    assert [p.type for p in found.messages[1].parts] == ["thinking", "text", "text", "image"]
    assert found.notes == (
        "1 part of the type chart, kept as JSON",
        "1 part of the type code, kept as its text",
    )


def test_nothing_that_a_message_holds_beside_its_role_is_lost():
    """Calls of whoever makes them, a result's other parts, a call that is a part."""
    call = {"id": "a", "name": "f", "args": {"n": 1}}
    mixed = [{"type": "text", "text": "aside"}, {"type": "tool_result", "content": "r"}]
    for role in ("user", "narrator", "tool_call"):
        found = session(said(role, "x", toolCalls=[call]), {"role": "tool", "parts": mixed})
        assert calls(found) == [("a", "f", '{"n": 1}')]
        assert results(found) == [("a", "f", "r")]
        assert [text for _, text in told(found)] == ["x", "aside"]
    part = {"type": "tool_use", "id": "b", "name": "g", "input": {}}
    assert calls(session({"role": "tool_call", "parts": [part]})) == [("b", "g", "{}")]


@pytest.mark.parametrize(
    ("messages", "more", "reason"),
    [
        ([5], {}, r"messages\[1\]: expected an object"),
        ([{"parts": []}], {}, r"messages\[1\]\.role: a message needs one"),
        ([{"role": 5, "parts": []}], {}, r"messages\[1\]\.role"),
        ([{"role": "user", "parts": 5}], {}, r"messages\[1\]: expected text or parts, got int"),
        ([{"role": "user", "parts": [5]}], {}, r"messages\[1\]\[0\]: expected a part, got int"),
        ([], {"toolCalls": 5}, "toolCalls: expected a list"),
        ([], {"toolCalls": [5]}, r"toolCalls\[0\]\.name: a tool call needs one"),
        ([], {"toolCalls": [{"id": "a"}]}, r"toolCalls\[0\]\.name"),
    ],
)
def test_a_broken_session_names_its_place(messages, more, reason):
    with pytest.raises(InvalidTranscript, match=reason):
        session(said("user", "x"), *messages, **more)


# --- snapshots ------------------------------------------------------------------------------------


def test_a_snapshot_is_read():
    """The summaries stand before the messages, the person's own at their times, each once."""
    transcript = read(SNAPSHOT)
    assert told(transcript) == [
        ("checkpoint", "The mainsail had a tear at the foot."),
        ("person", "Is the mainsail torn?"),
        ("person", "Mend it."),
        ("assistant", "Done."),
    ]
    assert results(transcript) == [("t-2", "sew", "sewn")]
    assert transcript.session_id == "session-1772355600000"
    assert transcript.notes == ("1 message that is in two lists", "1 goal, which no message says")
    state = transcript.container.fields["record"]["conversationState"]
    assert state["goals"][0]["description"] == "Sail by Sunday"


def snapshot(**more):
    return read(json.dumps({"id": "1", "sessionId": "s", "timestamp": 1, **more}).encode())


def test_a_snapshot_that_tells_no_purpose_is_one_by_its_ids_and_its_time():
    assert snapshot(messages=[said("user", "hi", 5)]).format == "legacy_snapshot"
    assert snapshot(messages=[said("user", "hi", 5)], lastActivity="x").format == "legacy_session"


def test_a_snapshot_with_flat_messages_is_read():
    found = snapshot(purpose="recovery", messages=[said("user", "hi", 5)], summary="before")
    assert found.format == "legacy_snapshot"
    assert told(found) == [("checkpoint", "before"), ("person", "hi")]
    assert found.title == "recovery of s"


def test_a_snapshot_with_the_persons_messages_apart_is_read():
    found = snapshot(
        messages=[said("assistant", "b", 20)],
        userMessages=[said("user", "c", 30)],
        archivedUserMessages=[said("user", "a", 10)],
    )
    assert [text for _, text in told(found)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"purpose": "x", "messages": 5}, "messages: expected a list of messages"),
        ({"purpose": "x", "messages": [5]}, r"messages\[0\]: expected an object"),
        ({"conversationState": {"messages": [{}]}}, r"messages\[0\]\.role"),
    ],
)
def test_a_broken_snapshot_names_its_place(more, reason):
    with pytest.raises(InvalidTranscript, match=reason):
        snapshot(**more)


# --- databases ------------------------------------------------------------------------------------


@pytest.fixture
def database(tmp_path):
    """A database made by these statements."""

    def _made(*statements):
        path = tmp_path / "old.db"
        path.unlink(missing_ok=True)
        db = sqlite3.connect(path)
        for statement in statements:
            db.execute(statement)
        db.commit()
        db.close()
        return path

    return _made


TABLES = (
    "CREATE TABLE conversations (id INTEGER PRIMARY KEY, name TEXT)",
    "CREATE TABLE messages (id INTEGER PRIMARY KEY, conversation_id INTEGER, role TEXT, "
    "content TEXT, created_at REAL)",
)


def test_a_database_is_read():
    """Messages by their times, calls paired by their order, none without its conversation lost."""
    transcript = read(DATABASE, conversation=1)
    assert told(transcript) == [
        ("person", "How many nets are dry?"),
        ("assistant", "I count them."),
        ("assistant", "Seven are dry."),
    ]
    assert calls(transcript) == [("call-1", "count_nets", '{"state": "dry"}')]
    assert results(transcript) == [("call-1", "count_nets", "seven")]
    assert (transcript.title, transcript.model) == ("Nets", "llama3.2:3b")
    assert transcript.session_id == "c-1"
    assert titles(load(DATABASE)) == ["Nets", "Empty", None]
    with pytest.raises(InvalidTranscript, match="holds no messages"):
        read(DATABASE, conversation=2)
    assert told(read(DATABASE, conversation=3)) == [("person", "Whose am I?")]
    with pytest.raises(InvalidTranscript, match="holds 3 conversations: choose one"):
        read(DATABASE)


def test_other_names_of_columns_are_known(database):
    path = database(
        "CREATE TABLE Conversations (uuid TEXT, subject TEXT, model TEXT)",
        "CREATE TABLE Messages (chat_id TEXT, sender TEXT, body TEXT, sent_at TEXT)",
        "INSERT INTO Conversations VALUES ('u', 'Ropes', 'qwen3:8b')",
        "INSERT INTO Messages VALUES ('u', 'assistant', 'second', '1772355601'), "
        "('u', 'human', 'first', '1772355600')",
    )
    found = read(path)
    assert told(found) == [("person", "first"), ("assistant", "second")]
    assert (found.title, found.model, found.session_id) == ("Ropes", "qwen3:8b", "u")
    assert found.messages[0].timestamp.isoformat() == "2026-03-01T09:00:00+00:00"


def test_contents_may_be_parts_numbers_or_bytes(database):
    parts = '[{"type": "text", "text": "a"}, {"type": "tool_use", "id": "t", "name": "f"}]'
    path = database(
        *TABLES,
        "INSERT INTO conversations VALUES (1, NULL)",
        f"INSERT INTO messages VALUES (1, 1, 'assistant', '{parts}', 1), "
        "(2, 1, 'tool', 'r', 2), (3, 1, 'user', X'6279746573', 3), (4, 1, 'user', NULL, 4), "
        "(5, 1, 'user', '[{\"a\": 1}]', 5)",
    )
    found = read(path)
    assert [text for _, text in told(found)] == ["a", "bytes", '[{"a": 1}]']
    assert results(found) == [("t", "f", "r")]
    assert found.notes == ("1 empty message",)


def test_the_file_is_left_as_it_is(tmp_path):
    """And nothing is made beside it, by a path or by bytes."""
    path = tmp_path / "old.db"
    shutil.copy(DATABASE, path)
    path.chmod(0o400)
    before = path.stat()
    assert read(path, conversation=1).messages == read(path.read_bytes(), conversation=1).messages
    assert [each.name for each in tmp_path.iterdir()] == ["old.db"]
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.read_bytes() == DATABASE.read_bytes()


@pytest.mark.parametrize("as_bytes", [False, True])
def test_what_stands_in_the_log_beside_it_is_read(tmp_path, database, as_bytes):
    """What a program in use has written last is in no other place."""
    path = database(*TABLES, "INSERT INTO conversations VALUES (1, 'x')")
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("INSERT INTO messages VALUES (1, 1, 'user', 'just now', 1)")
    db.commit()
    copy = tmp_path / "copy.db"
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", f"{copy}{end}")
    db.close()
    data = copy.read_bytes() if as_bytes else copy
    assert told(read(data, source=str(copy))) == [("person", "just now")]
    assert (tmp_path / "copy.db-wal").is_file()


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (["CREATE TABLE a (x)"], "without the table conversations and the table messages"),
        ([TABLES[0]], "without the table messages"),
        ([*TABLES], "holds no conversation"),
        (["CREATE TABLE sessions (x)", "CREATE TABLE branches (x)"], "it is a store of compact"),
        (
            [TABLES[0], "CREATE TABLE messages (x)", "INSERT INTO messages VALUES (1)"],
            "the table messages has no column conversation_id or",
        ),
        (
            [*TABLES, "INSERT INTO messages VALUES (7, 1, NULL, 'x', 1)"],
            "conversation 1, message 7.role: a message needs one",
        ),
    ],
)
def test_a_database_that_cannot_be_read_says_why(database, statements, reason):
    with pytest.raises(InvalidTranscript, match=reason):
        read(database(*statements))


@pytest.mark.parametrize("length", [16, 100, 600, 2_000])
def test_a_truncated_database_is_refused(length):
    with pytest.raises(InvalidTranscript, match="SQLite"):
        read(DATABASE.read_bytes()[:length], conversation=1)


def test_text_that_is_no_utf_8_is_refused(database):
    path = database(
        *TABLES,
        "INSERT INTO messages VALUES (1, 1, 'user', CAST(X'ff41' AS TEXT), 1)",
    )
    with pytest.raises(InvalidTranscript, match="SQLite cannot read it"):
        read(path)


def test_a_format_of_another_kind_is_refused():
    data = DATABASE.read_bytes()
    with pytest.raises(InvalidTranscript, match="the file is a database, which chat is not"):
        read(data, format="chat")
    with pytest.raises(InvalidTranscript, match="the file is JSON, which sqlite_chats is not"):
        read(b"[]", format="sqlite_chats")


# --- all ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [SESSION, SNAPSHOT, DATABASE], ids=lambda path: path.name)
def test_what_is_written_is_read_again_the_same(path):
    """C-3: as chat completions."""
    transcript = read(path, conversation=1)
    again = read(write(transcript, transcript.messages).encode())
    assert [m.text for m in again.messages] == [as_written(m) for m in transcript.messages]
    assert results(again) == results(transcript)

"""Every format is found by content and read; what is broken is refused in one line (MIG, NFR-2)."""

import json
from pathlib import Path

import pytest

from compact.errors import InvalidTranscript
from compact.messages.messages import Message, Text, Thinking
from compact.text.speakers import speaker_of
from compact.transcripts.documents import kind_of, load
from compact.transcripts.reading import read
from compact.transcripts.shapes import SHAPES
from compact.transcripts.table import FORMATS, recognized
from compact.transcripts.writing import write
from tests.store.making import detect, every

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "transcripts"

FORMAT_OF = {
    "anthropic_list.json": "chat",
    "anthropic_object.json": "chat",
    "chat_conversations.jsonl": "chat",
    "chat_lines.jsonl": "chat",
    "chat_list.json": "chat",
    "chat_object.json": "chat",
    "claude_code.jsonl": "claude_code",
    "chatgpt_export.json": "chatgpt_export",
    "claude_export.json": "claude_export",
    "codex_cli.jsonl": "codex_cli",
    "copilot_cli.jsonl": "copilot_cli",
    "gemini_cli.json": "gemini_cli",
    "legacy_session.json": "legacy_session",
    "legacy_snapshot.json": "legacy_snapshot",
    "opencode.jsonl": "opencode",
    "pi.jsonl": "pi",
    "specstory_claude.md": "specstory",
    "specstory_codex.md": "specstory",
    "specstory_cursor.md": "specstory",
    "sqlite_chats.db": "sqlite_chats",
}
FIRST = {"claude_export.json": 2}
"""The first conversation of a file that has messages, where it is not 1."""


def said(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    return [(speaker_of(m), m.text) for m in messages if m.text]


def calls(messages: tuple[Message, ...]) -> list[tuple[str, str, str]]:
    return [(c.id, c.name, c.arguments) for m in messages for c in m.tool_calls]


def results(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    return [(r.call_id, r.text) for m in messages for r in m.tool_results]


# --- finding the format ---------------------------------------------------------------------------


def test_each_fixture_has_its_format():
    found = {path.name: detect(path) for path in FIXTURES.iterdir()}
    assert found == FORMAT_OF
    others = {"guessed", "aider", "cursor_export", *(shape.name for shape in SHAPES)}
    assert set(found.values()) == {known.name for known in FORMATS} - others | {"gemini_cli"}


@pytest.mark.parametrize("name", FORMAT_OF)
def test_the_name_of_the_file_says_nothing(name, tmp_path):
    """C-3: the format is found by content alone."""
    path = tmp_path / "conversation.bin"
    path.write_bytes((FIXTURES / name).read_bytes())
    assert detect(path) == FORMAT_OF[name]


@pytest.mark.parametrize("name", FORMAT_OF)
def test_only_its_own_format_recognizes_a_file(name):
    """C-3: no format takes another one's files, in whatever order they are tried."""
    document = load(FIXTURES / name)
    kind = kind_of(document)
    taken = [known.name for known in FORMATS if known.kind == kind and known.recognizes(document)]
    assert taken[:1] == [FORMAT_OF[name]]
    assert taken[1:] in ([], ["guessed"])


@pytest.mark.parametrize("name", FORMAT_OF)
def test_titles_are_those_of_the_conversations(name):
    """MIG: as many as there are, found without reading one, and the same as when read."""
    document, transcripts = load(FIXTURES / name), every(FIXTURES / name)
    if (titles := recognized(document).titles) is None:
        assert len(transcripts) == 1
        return
    found = titles(document)
    assert [each.title for each in transcripts] == list(found)
    assert {each.conversations for each in transcripts} == {len(found)}


@pytest.mark.parametrize("name", FORMAT_OF)
def test_every_message_has_its_rows_and_an_id_of_its_own(name):
    transcript = read(FIXTURES / name, conversation=FIRST.get(name, 1))
    ids = [m.id for m in transcript.messages]
    assert len(ids) == len(set(ids)) > 0
    assert set(transcript.rows) == set(ids)


def test_a_format_can_be_asked_for():
    data = b'{"sessionId": "s", "messages": [{"role": "user", "type": "user", "content": "x"}]}'
    assert detect(data) == "chat"
    assert read(data, format="gemini_cli").format == "gemini_cli"
    with pytest.raises(InvalidTranscript, match=r"no format is called 'word'.*claude_code"):
        read(data, format="word")
    with pytest.raises(InvalidTranscript, match="the file is JSON, which specstory is not"):
        read(data, format="specstory")


# --- what cannot be read --------------------------------------------------------------------------

BROKEN = [
    (b"", "the file is empty", None),
    (b" \n \n", "the file is empty", None),
    (b"\x89PNG\r\n\x1a\n\x00\x00\x00", "binary data", None),
    (b'[\n{"role": "user",\n"content": "\xff"}]', "not UTF-8 text.*0xff", 3),
    (b"once upon\na \xc3\x28 time", "not UTF-8 text", 2),
    (b'[{"role": "user", "content": "x"},\n{"role": NaN}]', "NaN is not a JSON number", 2),
    (b'{"role": "user", "n": Infinity}', "Infinity is not a JSON number", 1),
    (b'{"role": "user", "n": 1e999}', "1e999 is too large a number", 1),
    (b'[{"role": "user",\n "content": }]', "broken JSON: .* at column 13", 2),
    (b'{"messages": [\n{"role": "user"', "broken JSON", 2),
    (b"[" * 100_000 + b"]" * 100_000, "nested too deeply", None),
    (b"Dear diary,\ntoday", "an unknown format: text of 2 lines, the first 'Dear diary,'", None),
    (b'{"a": 1}', r"an unknown format: the file has an object with a \(int\). Looked for", None),
    (b"[1, 2]", "an unknown format", None),
    (b"[]", "holds no messages", None),
    (b'{"messages": []}', "holds no messages", None),
    (b'[{"role": "wizard", "content": "x"}]', r"messages\[0\].role: 'wizard'", None),
    (b'[{"role": 7, "content": "x"}]', r"messages\[0\].role", None),
    (b'[{"role": "user", "content": "x"}, 5]', r"messages\[1\]: expected an object", None),
    (b'[{"role": "user", "content": {"a": 1}}]', r"messages\[0\].content", None),
    (b'{"messages": [{"role": "user", "content": "x"}], "tools": 1}', "tools: expected", None),
    (b'{"role": "user", "content": "x"}\n{"role":\n{"role": "user"}', "broken JSON", 2),
    (b'not json\n{"role": "user", "content": "x"}\n', "not a JSON object", 1),
    (b'{"role": "user"\n{"role": "user", "content": "x"}\n', "broken JSON", 1),
    (b'{"role": "user", "content": "x"}\n{"role": "user", "content": "x"}}\n', "Extra data", 2),
    (b'{"role": "user", "content": "x"}\nhello\n', "broken JSON", 2),
    (b'{"role": "user", "content": "x"}\n{"role": "elf", "content": "x"}', "elf", 2),
    (b'{"type":"user","uuid":"a","message":{"role":"user","content":"x"}}\n{"a":1}\n', "event", 2),
    (b'{"type":"user","message":{"role":"user","content":[{"type":"tool_result"}]}}', "_id", 1),
    (b'{"type":"system"}\n{"type":"user","uuid":"a"}\n', "the row has no message", 2),
    (
        b'{"sessionId": "s", "messages": [{"type": "user", "content": 5}]}',
        "expected text or parts",
        None,
    ),
    (
        b'{"sessionId": "s", "messages": [{"type": "user"}, 3]}',
        r"messages\[1\]: expected a message",
        None,
    ),
]


@pytest.mark.parametrize(("data", "reason", "line"), BROKEN, ids=[x[1] for x in BROKEN])
def test_a_broken_file_is_refused_with_line_and_reason(data, reason, line):
    """NFR-2: one clear reason each, never a traceback of something else."""
    with pytest.raises(InvalidTranscript, match=reason) as caught:
        read(data, source="a file")
    assert caught.value.line == line
    assert str(caught.value).startswith("a file" if line is None else f"a file, line {line}: ")
    assert "\n" not in str(caught.value)


def test_a_path_that_is_no_file_is_refused(tmp_path):
    with pytest.raises(InvalidTranscript, match="no such file"):
        read(tmp_path / "missing.json")
    with pytest.raises(InvalidTranscript, match="a directory, not a file"):
        read(tmp_path)
    with pytest.raises(InvalidTranscript, match="not a file's name"):
        read("a\0b")


def tool(call_id: str) -> str:
    return f'{{"role": "tool", "tool_call_id": "{call_id}", "content": "ok"}}'


def call(*ids: str) -> str:
    made = ", ".join(
        f'{{"id": "{x}", "type": "function", "function": {{"name": "f", "arguments": "{{}}"}}}}'
        for x in ids
    )
    return f'{{"role": "assistant", "content": null, "tool_calls": [{made}]}}'


@pytest.mark.parametrize(
    ("rows", "reason", "line"),
    [
        ([tool("a")], "no message before it called 'a'", 1),
        ([call("a"), tool("b")], "no message before it called 'b'", 2),
        ([call("a"), tool("a"), tool("a")], "'a' is answered twice", 3),
        ([call("a"), call("a")], "'a' is used again before it is answered", 2),
        ([call("a", "a")], "'a' is used again before it is answered", 1),
    ],
)
def test_plain_chat_must_have_calls_that_make_sense(rows, reason, line):
    """K-4: pairs are whole, so an input without them is refused and named."""
    with pytest.raises(InvalidTranscript, match=reason) as caught:
        read("\n".join(rows).encode())
    assert caught.value.line == line
    with pytest.raises(InvalidTranscript, match=rf"messages\[{line - 1}\]: .*{reason}"):
        read(f"[{', '.join([*rows])}]".encode())


def test_calls_without_answers_and_ids_used_again_are_fine():
    rows = [call("a", "b"), tool("b"), call("b"), tool("b"), call("c")]
    assert len(read("\n".join(rows).encode()).messages) == 5
    legacy = '{"role": "assistant", "content": null, "function_call": {"name": "f"}}'
    answer = '{"role": "function", "name": "f", "content": "ok"}'
    assert len(read("\n".join([legacy, legacy, answer]).encode()).messages) == 3


# --- sessions in progress -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["claude_code.jsonl", "codex_cli.jsonl", "chat_lines.jsonl", "copilot_cli.jsonl", "pi.jsonl"],
)
def test_a_half_written_last_line_is_normal(name):
    """NFR-2: wherever a growing file is cut, the complete lines are read."""
    data = (FIXTURES / name).read_bytes()
    start = data.rstrip().rfind(b"\n") + 1
    complete = read(data[:start])
    for end in range(start + 1, len(data.rstrip())):
        cut = read(data[:end])
        assert [m.id for m in cut.messages] == [m.id for m in complete.messages]
        assert cut.notes[-1] == "the last line is half written"


@pytest.mark.parametrize(
    "name",
    [name for name, format in FORMAT_OF.items() if name.endswith(".json") or format == "opencode"],
)
def test_a_file_of_one_value_that_is_cut_is_refused_with_its_line(name):
    """NFR-2: nothing of it can be trusted to be a whole message."""
    data = (FIXTURES / name).read_bytes().rstrip()
    for end in range(2, len(data), max(1, len(data) // 40)):
        with pytest.raises(InvalidTranscript, match=r"broken JSON|not UTF-8") as caught:
            read(data[:end])
        assert caught.value.line is not None


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("pi.jsonl", b'"type":"session",', b'"type":"session","version":4,'),
        ("copilot_cli.jsonl", b'"version":1', b'"version":2'),
        ("legacy_snapshot.json", b'"version": "1.0"', b'"version": "2.5"'),
    ],
)
def test_a_later_version_of_a_format_is_read_and_named(name, old, new):
    """MIG: what is known of it is read, and a note says that there may be more."""
    data = (FIXTURES / name).read_bytes()
    assert old in data
    before, found = read(data), read(data.replace(old, new))
    assert [m.content for m in found.messages] == [m.content for m in before.messages]
    assert "of the format: the last one known is" in found.notes[0]
    assert found.notes[1:] == before.notes


def test_a_cut_inside_a_letter_is_half_written():
    data = '{"role": "user", "content": "x"}\n{"role": "user", "content": "ü'.encode()[:-1]
    assert read(data).notes == ("the last line is half written",)


# --- odd but valid --------------------------------------------------------------------------------


def test_odd_json_is_kept():
    """C-3: lone surrogates, huge integers, a byte order mark and CRLF survive reading."""
    data = (
        b'\xef\xbb\xbf{"role": "user", "content": "\\ud83d"}\r\n'
        b'\r\n{"role": "user", "content": "x", "n": 123456789012345678901234567890}\r\n'
    )
    first, second = read(data).messages
    assert first.text == "\ud83d"
    assert second.wire is not None
    assert second.wire["n"] == 123456789012345678901234567890


def test_ids_that_repeat_are_told_apart():
    row = b'{"role": "user", "content": "a", "id": "x"}'
    transcript = read(b"[" + row + b"," + row + b"]")
    assert len({m.id for m in transcript.messages}) == len(transcript.rows) == 2


def test_what_holds_no_message_is_refused_and_says_what_is_there():
    with pytest.raises(InvalidTranscript, match="holds no messages"):
        read(b'{"sessionId": "s", "messages": []}')
    log = b'{"type": "file-history-snapshot"}\n{"type": "progress", "uuid": "a"}\n'
    there = "holds no messages, read as Claude Code.*: 1 file-history-snapshot row, 1 progress row"
    with pytest.raises(InvalidTranscript, match=there):
        read(log)


# --- many conversations ---------------------------------------------------------------------------


def test_one_of_many_conversations_is_chosen_by_number():
    path = FIXTURES / "chat_conversations.jsonl"
    expected = "holds 3 conversations: choose one with --conversation N, 1 to 3"
    with pytest.raises(InvalidTranscript, match=expected):
        read(path)
    for number in (0, 4, -1):
        with pytest.raises(InvalidTranscript, match=f"no conversation {number}"):
            read(path, conversation=number)
    found = [read(path, conversation=n) for n in range(1, 4)]
    assert {x.conversations for x in found} == {3}


def test_who_has_to_choose_is_told_the_titles():
    """MIG: the first ten of an export, each on one line and cut short."""
    row = {"uuid": "c", "chat_messages": []}
    names = ["Tide\npools", "", "x" * 99, *"abcdefghij"]
    data = json.dumps([{**row, "name": name} for name in names]).encode()
    with pytest.raises(InvalidTranscript, match="holds 13 conv") as caught:
        read(data)
    assert caught.value.reason.partition("1 to 13")[2] == (
        f": 1 Tide pools, 2 (no title), 3 {'x' * 39}…, 4 a, 5 b, 6 c, 7 d, 8 e, 9 f, 10 g, …"
    )


def test_a_single_conversation_is_number_one():
    assert read(FIXTURES / "gemini_cli.json", conversation=1).messages
    with pytest.raises(InvalidTranscript, match="no conversation 2: the file holds 1 conv"):
        read(FIXTURES / "gemini_cli.json", conversation=2)


# --- the formats ----------------------------------------------------------------------------------


def test_chat_objects_have_tools_and_a_title():
    """K-3: tool schemas come with the conversation, so that they can be counted."""
    transcript = read(FIXTURES / "chat_object.json")
    assert [t["function"]["name"] for t in transcript.tools] == ["moisture"]
    assert (transcript.title, transcript.wire) == ("Beds", "chat_completions")


def test_anthropic_messages_are_told_by_their_blocks():
    transcript = read(FIXTURES / "anthropic_object.json")
    assert transcript.wire == "anthropic"
    assert [m.role for m in transcript.messages][:2] == ["system", "user"]
    assert results(transcript.messages) == [("toolu_1", "31 %")]
    assert read(FIXTURES / "anthropic_list.json").wire == "anthropic"


def test_gemini_cli():
    transcript = read(FIXTURES / "gemini_cli.json")
    assert calls(transcript.messages) == [
        ("write_file-1", "write_file", '{"file_path": "a.txt", "content": "hello"}'),
        ("run-1", "run_shell_command", '{"command": "cat b"}'),
    ]
    assert results(transcript.messages) == [
        ("write_file-1", "Successfully wrote a.txt"),
        ("run-1", "no such file"),
    ]
    assert [r.is_error for m in transcript.messages for r in m.tool_results] == [False, True]
    assert transcript.messages[1].parts[0] == Thinking("Plan\nWrite the file.")
    assert transcript.messages[1].timestamp.isoformat() == "2026-03-01T10:01:00+00:00"
    shown = "1 text of 'toolCalls', which no message says"
    assert transcript.notes == ("1 info row", shown)


def test_specstory_of_claude_code():
    transcript = read(FIXTURES / "specstory_claude.md")
    messages = transcript.messages
    assert [text for speaker, text in said(messages) if speaker == "assistant"] == [
        "I read it.",
        "Because of the template.",
        "Still here:\n\n```go\nx := 1\n```",
    ]
    assert messages[1].parts == (Thinking("The exporter is in export.go."), Text("I read it."))
    assert [c[:2] for c in calls(messages)] == [
        ("Read-1", "Read"),
        ("Bash-1", "Bash"),
        ("Write-1", "Write"),
        ("AskUserQuestion-1", "AskUserQuestion"),
    ]
    answers = dict(results(messages))
    assert answers["Bash-1"] == ""
    assert answers["Write-1"] == "File created successfully at: notes.md"
    assert answers["AskUserQuestion-1"] == "Escape"
    assert calls(messages)[1][2] == (
        '{"command": "go test ./... | tail -3", "description": "Run the tests"}'
    )
    assert transcript.notes == (
        "1 empty turn",
        "1 tool call without output",
        "1 turn of a sub-agent",
    )


def test_specstory_headings_in_code_and_outputs_are_quoted():
    """C-8: what a file or an output quotes is nobody's turn."""
    messages = read(FIXTURES / "specstory_claude.md").messages
    people = [text for speaker, text in said(messages) if speaker == "person"]
    assert len(people) == 2
    assert "quoted, not said" in people[0]
    assert people[0].endswith("and I want to know why.")
    assert people[1].endswith("```\noops")
    assert "quoted in an output\n\n---" in dict(results(messages))["Read-1"]


def test_specstory_of_a_resumed_codex_session():
    messages = read(FIXTURES / "specstory_codex.md").messages
    assert [c[1] for c in calls(messages)] == [
        "shell", "shell", "tool", "exec_command", "exec_command",
    ]  # fmt: skip
    assert dict(results(messages))["shell-2"] == "one\ntwo\ndone"
    assert said(messages)[-1] == (
        "assistant",
        "There are twelve. In short:\n\n```go\nconst n = 12\n```",
    )


def test_specstory_of_cursor_is_unescaped():
    messages = read(FIXTURES / "specstory_cursor.md").messages
    ((_, name, arguments),) = calls(messages)
    assert name == "search_replace"
    assert '`json:\\"name\\"` // a < b' in arguments


def test_a_summary_in_specstory_is_a_checkpoint_only_where_its_originals_are_missing():
    head = "<!-- Claude Code Session 1 (x) -->\n\n"
    summary = (
        "_**User (2026-03-01 10:00:00Z)**_\n\n"
        "This session is being continued from a previous conversation that ran out of context.\n\n"
    )
    turn = "_**User (2026-03-01 10:00:00Z)**_\n\nhi\n\n"
    assert [speaker_of(m) for m in read((head + summary + turn).encode()).messages] == [
        "checkpoint", "person",
    ]  # fmt: skip
    later = read((head + turn + summary).encode())
    assert [m.text for m in later.messages] == ["hi"]
    assert later.notes == ("1 earlier summary",)


def test_ids_tell_positions_where_a_system_prompt_stands_beside_the_messages():
    """A message's number and the id it is given for want of its own are one count."""
    transcript = read(FIXTURES / "anthropic_object.json")
    assert [m.id for m in transcript.messages] == [f"m{i}" for i in range(len(transcript.messages))]
    own = b'{"system": "s", "messages": [{"role": "user", "content": "x", "id": "m0"}]}'
    own = own.replace(b"]", b', {"role": "developer", "content": "y"}]')
    assert [m.id for m in read(own).messages] == ["m0", "m1-again", "m2"]


def test_a_file_of_ollamas_messages_pairs_results_with_calls_by_their_order():
    call = {"function": {"name": "look", "arguments": {"at": "the quay"}}}
    messages = [
        {"role": "user", "content": "What is there?"},
        {"role": "assistant", "content": "", "tool_calls": [call, call]},
        {"role": "tool", "tool_name": "look", "content": "a lantern"},
        {"role": "tool", "tool_name": "look", "content": "a boat"},
    ]
    transcript = read(json.dumps({"messages": messages}).encode())
    assert transcript.wire == "ollama"
    calls = [each.id for each in transcript.messages[1].tool_calls]
    assert [m.tool_results[0].call_id for m in transcript.messages[2:]] == calls
    written = json.loads(write(transcript, transcript.messages[:2]))
    assert written == {"messages": messages[:2]}

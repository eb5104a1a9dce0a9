"""`compactctl sessions export`, and the files it writes: without loss, there and back (US-8)."""

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compact import ContextManager
from compact.cli import session_markdown
from compact.errors import InvalidTranscript
from compact.messages.formats.known import format_named
from compact.messages.messages import (
    Image,
    Message,
    MessageMetadata,
    Opaque,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from compact.messages.sessions import Branch, Session
from compact.store import session_file
from tests.cli.conftest import branched, kept_in, refused, snapped
from tests.sizes import size
from tests.strategies import wild


def everything(message):
    """What makes two messages the same: fields, the provider's dictionary, parts as they are."""
    whole = {name: getattr(message, name) for name in Message.model_fields}
    whole["wire"] = None if message.wire is None else json.loads(json.dumps(dict(message.wire)))
    return whole


# --- export and back ------------------------------------------------------------------------------


def test_an_export_goes_through_a_pipe(run, chat):
    text = run("sessions", "export", "harbour", "--store", chat).out
    done = run("sessions", "import", "-", "--as", "copy", "--store", chat, stdin=text.encode())
    assert done.out == "copy\n"
    assert kept_in(chat, "copy") == kept_in(chat, "harbour")


@pytest.mark.parametrize(
    "command",
    [
        ("sessions", "export", "harbour", "-o", "copy.json"),
        ("sessions", "compress", "harbour", "--json"),
        ("view", "harbour", "-o", "page.html"),
    ],
)
def test_redaction_that_is_off_is_warned_of_once(run, chat, monkeypatch, command):
    """Before anything is copied, on stderr."""
    assert "WARNING" not in run(*command, "--store", chat).err
    monkeypatch.setenv("COMPACT_REDACT", "false")
    done = run(*command, "--store", chat, *(["--force"] if "-o" in command else []))
    assert done.code == 0
    assert done.err.splitlines()[0].startswith("compactctl: WARNING: redaction is off; secrets ")
    assert done.err.count("WARNING") == 1


def test_a_branch_can_be_exported(run, chat):
    branched(chat, 30)
    run("sessions", "export", "harbour", "--store", chat, "-o", "b.json")
    run("sessions", "export", "harbour", "--store", chat, "-o", "a.json", "--branch", "harbour")
    read = [session_file.read(Path(name).read_bytes(), name) for name in ("a.json", "b.json")]
    assert [len(each.messages) for each in read] == [120, 30]


def test_what_the_file_of_one_branch_leaves_out_is_said(run, chat):
    """A whole session leaves out nothing; of one branch, the others and the snapshots are told."""
    export = ["sessions", "export", "harbour", "--store", chat]
    branched(chat, 30)
    assert run(*export).err == ""
    export += ["--branch", "harbour~2"]
    note = "note: 1 other branch is not in it; for a branch: --branch harbour"
    assert run(*export).err == note + "\n"
    for _ in range(2):
        snapped(chat)
    note = "note: 1 other branch and 2 snapshots are not in it; for a branch: --branch harbour"
    for more in ([], ["-o", "h.md"], ["-o", "h.json"]):
        assert run(*export, *more).err.splitlines()[-1] == note
    told = json.loads(run(*export, "-o", "h.json", "--json").out)
    assert told["left_out"] == {"branches": ["harbour"], "snapshots": 2}


def test_a_file_that_was_written_anew_is_still_a_session(run, chat, tmp_path):
    """Sorted keys, a mark of UTF-8 in front: it is known by what it says."""
    value = json.loads(run("sessions", "export", "harbour", "--store", chat).out)
    texts = {
        "sorted": json.dumps(value, sort_keys=True, indent=1),
        "last": json.dumps({**{k: v for k, v in value.items() if k != "format"},
                            "format": value["format"]}),
        "marked": "\ufeff\n" + json.dumps(value, sort_keys=True),
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
        run("sessions", "import", f"{name}.json", "--as", name, "--store", chat)
        assert kept_in(chat, name) == kept_in(chat, "harbour"), name


def test_an_exported_session_is_never_read_as_a_chat(run, chat):
    """Half of what it holds would be lost."""
    run("sessions", "export", "harbour", "--store", chat, "-o", "h.json")
    back = ["sessions", "import", "h.json", "--as", "b", "--store", chat]
    refused(run(*back, "--format", "chat"), "--format", "an exported session")
    refused(run(*back, "--conversation", "2"), "--conversation", "an exported session")
    for command in ("tokens", "dry-run", "compact", "diff"):
        limit = [] if command == "tokens" else ["--max-tokens", "4000"]
        refused(run(command, "h.json", *limit), "an exported session", "sessions import")


def test_a_chat_that_speaks_of_sessions_is_a_chat(run, tmp_path):
    rows = [{"name": "compact-session", "role": "user", "content": '"format": "compact-session"'}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows * 2)))
    (tmp_path / "b.json").write_text(json.dumps({"title": "compact-session", "messages": rows}))
    assert [run("tokens", name).code for name in ("a.jsonl", "b.json")] == [0, 0]
    assert [run("sessions", "import", name).out for name in ("a.jsonl", "b.json")] == ["a\n", "b\n"]


def test_exported_markdown_is_for_reading(run, chat):
    run("sessions", "export", "harbour", "--store", chat, "-o", "h.md")
    refused(run("sessions", "import", "h.md", "--as", "b"), "h.md", "reading only", "JSON")


@pytest.mark.slow
@settings(max_examples=size(10, 40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wild())
def test_whatever_a_history_holds_the_file_gives_it_back(history):
    """Lone surrogates, unknown fields, broken calls: byte for byte."""
    wire = format_named(history.wire)
    messages = [wire.parse(raw, i) for i, raw in enumerate(history.messages)]
    there_and_back(messages, history.wire)


def there_and_back(messages, wire="chat_completions"):
    session = Session(id="s", wire=wire, branch=Branch(id="s", session_id="s"))
    kept = session_file.SessionFile(session, messages)
    data = "".join(session_file.written(kept)).encode()
    assert session_file.is_session_file(data)
    read = session_file.read(data, "s.json")
    assert [everything(m) for m in read.messages] == [everything(m) for m in messages]


PARTS = (
    Text("a\u0085b"), Thinking("hm", "sig"), ToolCall("c", "run", '{"a": 1}'), Refusal("no"),
    Image(3, 4, "low", raw={"x": 1}), Opaque("?", raw={"type": "odd", "y": [None]}),
)  # fmt: skip


def test_messages_that_no_provider_sent_come_back_too():
    there_and_back(
        [
            Message(role="assistant", content=PARTS, importance_score=0.5, name="Bo", reply_id="r"),
            Message(
                role="tool",
                content=(ToolResult("c", "out", "run", is_error=True, images=(Image(1, 2),)),),
                timestamp=datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30))),
                metadata=MessageMetadata(pinned=True, tags=("a",)),
                token_count=7,
            ),
            Message(role="user", content="", timestamp=datetime(1, 1, 1)),  # noqa: DTZ001
            Message(
                role="user", content="\ud800 \x00", timestamp=datetime(9999, 12, 31, tzinfo=UTC)
            ),
        ]
    )


# --- files that somebody changed ------------------------------------------------------------------


@pytest.fixture
def exported(run, tmp_path):
    """A small exported file as a value."""
    with ContextManager(store=tmp_path / "s.db", session_id="a") as ctx:
        ctx.add_message(role="user", content="hi")
        ctx.add_message(role="assistant", content="hello")
    return json.loads(run("sessions", "export", "a", "--store", "s.db").out)


MOVE = {"kind": "undo", "branch_id": "a", "window": 9, "at": 0, "projection_id": None}
PROJECTION = {
    "id": "p", "window": 9, "number": 1, "at": 2, "cut": 0, "tokens": 1, "checkpoints": {},
    "pieces": [], "made_at": "2025-01-01T00:00:00+00:00",
}  # fmt: skip
CHANGES = {
    "version": (lambda v: v.update(version=3), "newer version of compact"),
    "version 0": (lambda v: v.update(version=0), "version 0"),
    "no branches": (lambda v: v.update(branches=[]), "branches or their log"),
    "branches": (lambda v: v.update(branches=5), "branches or their log"),
    "lost branch": (lambda v: v["branches"][0].update(id="z"), "branches or their log: 'a'"),
    "parent": (lambda v: v["branches"][0].update(parent="z"), "branches or their log: 'z'"),
    "ring": (lambda v: v["branches"][0].update(parent="a"), "branch 'a' begins nowhere"),
    "fork": (lambda v: v["branches"][0].update(fork=1), "goes on from message 1"),
    "twice": (lambda v: v["branches"].append(v["branches"][0]), "branch 'a' is there twice"),
    "marks": (lambda v: v["messages"][0].update(marks=9), "tokens or marks"),
    "tokens": (lambda v: v["messages"][0].update(tokens=-1), "tokens or marks"),
    "own message": (
        lambda v: v["branches"][0]["messages"].append({**v["messages"][0], "role": "owl"}),
        "branches: role",
    ),
    "note": (lambda v: v.update(notes={"a": 5}), "a note is no object"),
    "no changes": (lambda v: v.pop("changes"), "'changes' is missing"),
    "change": (lambda v: v.update(changes=[{"branch_id": "a", "at": 0, "what": 5}]), "what"),
    "change at": (
        lambda v: v.update(
            changes=[{"branch_id": "a", "at": 7, "what": {"kind": "mode", "mode": None}}]
        ),
        "a change is at message 7",
    ),
    "move": (
        lambda v: v.update(moves=[{**MOVE, "projection_id": "p"}]),
        "a move is of projection 'p', which is not there",
    ),
    "move of": (lambda v: v.update(moves=[{**MOVE, "branch_id": "q"}]), "a move is of branch 'q'"),
    "snapshot": (
        lambda v: v.update(snapshots=[{"id": "n", "branch_id": "a", "at": 3, "window": 9}]),
        "a snapshot is at message 3",
    ),
    "piece": (
        lambda v: v.update(projections=[{**PROJECTION, "pieces": [[0, 9]]}]), "a piece that is not"
    ),
    "odd piece": (
        lambda v: v.update(projections=[{**PROJECTION, "pieces": [{}]}]), "of another kind"
    ),
    "live": (
        lambda v: v.update(projections=[{**PROJECTION, "checkpoints": {"c": "merged"}}]),
        "branches or their log: 'c'",
    ),
    "odd version": (lambda v: v.update(version="x"), "version 'x'"),
    "no session": (lambda v: v.pop("session"), "session and messages"),
    "no id": (lambda v: v["session"].pop("id"), "'id' is missing"),
    "id": (lambda v: v["session"].update(id=5), "valid string"),
    "wire": (lambda v: v["session"].update(wire="x"), "no wire format 'x'"),
    "created": (lambda v: v["session"].update(created_at="soon"), "created_at"),
    "tools": (lambda v: v["session"].update(metadata={"tools": [5]}), "tools"),
    "tool": (lambda v: v["session"].update(metadata={"tools": [{"function": 5}]}), "tools"),
    "no tools": (lambda v: v["session"].update(metadata={"tools": {}}), "tools"),
    "messages": (lambda v: v.update(messages={}), "session and messages"),
    "message": (lambda v: v["messages"].append("x"), "messages[2]: expected a message"),
    "role": (lambda v: v["messages"][1].update(role="wizard"), "messages[1]: role"),
    "message id": (lambda v: v["messages"][1].update(id=None), "messages[1]: id"),
    "time": (lambda v: v["messages"][1].update(at="noon"), "messages[1]: Invalid isoformat"),
    "no time": (lambda v: v["messages"][1].pop("at"), "messages[1]: 'at' is missing"),
    "content": (lambda v: v["messages"][1].update(content=[1]), "messages[1]: content"),
    "payload": (lambda v: v["messages"][1].update(payload=[]), "messages[1]: expected a message"),
    "part": (lambda v: v["messages"][1].update(payload={"p": [{"type": "x"}]}), "messages[1]: 'x'"),
    "count": (lambda v: v["messages"][1].update(payload={"t": -1}), "messages[1]: token_count"),
    "wire format": (
        lambda v: v["messages"][1].update(payload={"w": {}, "f": "x"}), "messages[1]: "
    ),
    "score": (lambda v: v["messages"][1].update(score=7), "messages[1]: importance_score"),
    "pin": (lambda v: v.update(pins=[9]), "a pin beyond the messages"),
    "odd pin": (lambda v: v.update(pins=["a"]), "pins: expected positions"),
    "goals": (lambda v: v.update(goals=5), "goals or pins: something is of another kind"),
    "checkpoints": (lambda v: v.update(checkpoints=5), "something is of another kind"),
    "odd pins": (lambda v: v.update(pins="ab"), "session, goals or pins"),
    "goal": (lambda v: v.update(goals=[{"text": ""}]), "session, goals or pins"),
}  # fmt: skip


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_file_is_refused_with_the_place(run, exported, tmp_path, name):
    change, reason = CHANGES[name]
    change(exported)
    (tmp_path / "e.json").write_text(json.dumps(exported))
    refused(run("sessions", "import", "e.json", "--as", "b", "--store", "s.db"), "e.json", reason)
    assert json.loads(run("sessions", "list", "--store", "s.db", "--json").out)["total"] == 1


@pytest.mark.parametrize("cut", [0.2, 0.5, 0.9])
def test_half_a_file_is_refused(run, chat, tmp_path, cut):
    text = run("sessions", "export", "harbour", "--store", chat).out
    (tmp_path / "h.json").write_text(text[: int(len(text) * cut)])
    refused(
        run("sessions", "import", "h.json", "--as", "b", "--store", chat), "line", "broken JSON"
    )


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=3),
    lambda v: (
        st.lists(v, max_size=2) | st.dictionaries(st.sampled_from("wfpcxmnrte"), v, max_size=3)
    ),
    max_leaves=4,
)


@settings(max_examples=size(40, 150), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(st.sampled_from(["role", "id", "at", "content", "payload", "score"]), VALUES)
)
def test_whatever_stands_for_a_message_it_is_one_or_an_error_of_ours(value):
    row = {"role": "user", "id": "a", "at": "2025-01-01", "content": "x", "payload": {}, **value}
    about = {"id": "s", "wire": "chat_completions"}
    file = {"format": "compact-session", "version": 1, "session": about, "messages": [row]}
    said = "messages[0]"
    try:
        read = session_file.read(json.dumps(file).encode(), "f")
    except InvalidTranscript as error:
        said = str(error)
    else:
        assert isinstance(read.messages[0], Message)
    assert "messages[0]" in said
    assert "\n" not in said


# --- Markdown -------------------------------------------------------------------------------------


def markdown(*messages, title=None):
    session = Session(id="s", title=title, branch=Branch(id="s", session_id="s"))
    return "".join(session_markdown.markdown_of(session, messages))


def test_markdown_can_be_read(run, chat):
    """US-8: roles, times, tool calls in fences; by the name of the file, or asked for."""
    run("sessions", "export", "harbour", "--store", chat, "-o", "h.md")
    text = Path("h.md").read_text(encoding="utf-8")
    assert text == run("sessions", "export", "harbour", "--store", chat, "--format", "md").out
    assert text.startswith("# A harbour\n\n- session: `harbour`\n- messages: 120\n")
    heads = [line for line in text.splitlines() if line.startswith("## ")]
    assert len([h for h in heads if " · " in h]) == 120
    assert "**calls `run_shell`**" in text
    assert '```json\n{\n  "command": ' in text
    assert "**result of `run_shell`**" in text


def test_nothing_in_a_message_can_break_out_of_its_fence():
    text = markdown(
        Message(role="assistant", content=(ToolCall("c", "a`b\n## 9", "```\n## x\n"),)),
        Message(role="tool", content=(ToolResult("c", "````\nno\n```"),)),
        Message(role="user", content="look:\n```py\nx = 1"),
        Message(role="user", content="~~~\nopen\n```\nstill"),
        title="a\n# b",
    )
    lines, fence, heads = text.splitlines(), "", []
    for line in lines:
        mark = line[: len(line) - len(line.lstrip("`~"))]
        if fence:
            if len(mark) >= len(fence) and mark[0] == fence[0] and line == mark:
                fence = ""
        elif len(mark) >= 3:
            fence = mark
        elif line.startswith("#"):
            heads.append(line)
    assert fence == ""
    assert [head.split(" · ")[0] for head in heads] == ["# a # b", "## 0", "## 1", "## 2", "## 3"]


def test_markdown_holds_every_kind_of_part_and_no_control_characters():
    text = markdown(
        Message(role="assistant", content=PARTS), Message(role="user", content="a\r\nb\x1b")
    )
    for words in (
        "a\ufffdb",
        "*reasoning*\n\n```\nhm\n```",
        "no",
        "[image 3 × 4]",
        "?",
        "a\nb\ufffd",
    ):
        assert words in text
    family = "👩\u200d👧"
    assert family in markdown(Message(role="user", content=family)), "what joins letters stays"


def test_export_says_what_does_not_go_together(run, chat):
    refused(run("sessions", "export", "harbour", "--store", chat, "--json"), "give -o OUT")
    refused(run("sessions", "export", "harbour", "--store", chat, "-o", ""), "an empty name")
    refused(run("sessions", "export", "harbour", "--store", chat, "-o", "."), "a directory")
    told = json.loads(
        run("sessions", "export", "harbour", "--store", chat, "-o", "x.json", "--json").out
    )
    assert (told["messages"], told["out"]) == (120, "x.json")

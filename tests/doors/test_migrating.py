"""MIG as it is written: existing data come along, and a host changes over part by part."""

import json
from pathlib import Path

import pytest

from compact import CompactConfig, CompactManager, ContextManager, SQLiteManager, migrate
from compact.cli.main import main
from compact.errors import InvalidTranscript
from compact.integrations.legacy_context import LegacyContextAdapter, NewParts

SESSION = {
    "sessionId": "roof",
    "startTime": "2026-03-01T09:00:00.000Z",
    "lastActivity": "2026-03-01T09:05:00.000Z",
    "model": "llama3.2:3b",
    "provider": "ollama",
    "messages": [
        {
            "role": role,
            "parts": [{"type": "text", "text": text}],
            "timestamp": f"2026-03-01T09:0{minute}:00.000Z",
        }
        for minute, (role, text) in enumerate(
            [("user", "How thick is the beam?"), ("assistant", "21 cm."), ("user", "Good.")]
        )
    ],
    "toolCalls": [
        {
            "id": "t-1",
            "name": "measure",
            "args": {"what": "beam"},
            "result": {"llmContent": "21 cm"},
            "timestamp": "2026-03-01T09:00:30.000Z",
        }
    ],
    "metadata": {"tokenCount": 40, "compressionCount": 0},
}
SNAPSHOT = {
    "id": "snap-1",
    "sessionId": "roof",
    "timestamp": 1772355660000,
    "purpose": "rollback",
    "conversationState": {
        "messages": [
            {"id": "a", "role": "user", "content": "How thick is the beam?", "timestamp": 1},
            {"id": "b", "role": "assistant", "content": "21 cm.", "timestamp": 2},
        ],
        "checkpoints": [],
    },
}


@pytest.fixture
def old(tmp_path, monkeypatch):
    """The folder of an older program, with a broken file in it."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "old"
    (folder / "snapshots").mkdir(parents=True)
    (folder / "roof.json").write_text(json.dumps(SESSION))
    (folder / "cut.json").write_text(json.dumps({**SESSION, "sessionId": "cut"})[:300])
    (folder / "snapshots/snapshot-snap-1.json").write_text(json.dumps(SNAPSHOT))
    return folder


def test_existing_data_come_along_and_can_be_taken_back(old, capsys):
    """MIG: dry run, backup, validation, rollback; nothing lost, tool calls included."""
    with ContextManager(store="chat.db", session_id="mine") as ctx:
        ctx.add_message(role="user", content="Here before.")
    dry = migrate(old, store="chat.db", dry_run=True)
    assert sorted(each.outcome for each in dry.conversations) == ["broken", "new", "snapshot"]
    with SQLiteManager("chat.db") as store:
        assert [session.id for session in store.sessions()] == ["mine"]
    report = migrate([old], store="chat.db")
    assert [each.outcome for each in report.conversations] == [
        each.outcome for each in dry.conversations
    ]
    broken = next(each for each in report.conversations if each.outcome == "broken")
    assert broken.path.endswith("cut.json")
    assert "broken JSON" in broken.reason
    assert Path(report.backup or "").is_dir()
    told = json.loads((Path(report.folder or "") / "manifest.json").read_text())
    assert told["state"] == "done"
    with ContextManager(window=8_000, store="chat.db", session_id="roof") as ctx:
        assert [message.role for message in ctx.history] == [
            *("user", "assistant", "tool", "assistant", "user"),
        ]
        assert json.loads(ctx.history[1].tool_calls[0].arguments) == {"what": "beam"}
        assert [snapshot.purpose for snapshot in ctx.time.snapshots()] == ["rollback"]
    again = migrate(old, store="chat.db")
    assert again.folder is None, "a second run imports nothing"
    assert main(["migrate", "--rollback", "--store", "chat.db"]) == 0
    assert "1 deleted" in capsys.readouterr().out
    with SQLiteManager("chat.db") as store:
        assert [session.id for session in store.sessions()] == ["mine"]


def test_an_export_holds_everything(old):
    """MIG and US-8: there and back, the file is the same, and so is what a model sees."""
    with ContextManager(window=900, store="chat.db", session_id="roof") as ctx:
        ctx.goals.set(["Mend the roof"])
        for number in range(30):
            ctx.add_message(role="user", content=f"Beam {number}: " + "it is sound. " * 20)
            ctx.get_context_for_model()
        ctx.time.snapshot("before the frost")
        ctx.time.branch(at=12)
        ctx.add_message(role="user", content="Or with larch?")
        seen = ctx.get_context_for_model()
    assert main(["sessions", "export", "roof", "--store", "chat.db", "-o", "1.json"]) == 0
    assert main(["sessions", "import", "1.json", "--store", "other.db"]) == 0
    assert main(["sessions", "export", "roof", "--store", "other.db", "-o", "2.json"]) == 0
    assert Path("1.json").read_bytes() == Path("2.json").read_bytes()
    with ContextManager(window=900, store="other.db", session_id="roof") as ctx:
        assert ctx.get_context_for_model() == seen
        assert [goal.text for goal in ctx.goals] == ["Mend the roof"]


def test_a_host_changes_over_part_by_part(old, monkeypatch):
    """MIG: the adapter, and the flags by their new and their old names."""
    messages = [{"role": "user", "content": f"{i}: the beam is sound. " * 20} for i in range(40)]
    config = CompactConfig(max_context_tokens=2_000, store="chat.db")
    with CompactManager(config) as manager:
        adapter = LegacyContextAdapter(manager)
        assert adapter.parts == NewParts()
        assert adapter.prompt("a", messages, old=lambda given: given[-1:]) == messages[-1:]
        monkeypatch.setenv("COMPACT_NEW_COMPRESSION", "true")
        monkeypatch.setenv("OLLM_NEW_CONTEXT", "true")
        monkeypatch.setenv("OLLM_NEW_CHECKPOINTS", "1")
        adapter = LegacyContextAdapter(manager)
        sent = adapter.prompt("a", messages, old=lambda given: given[-1:])
        assert 0 < len(sent) < len(messages)
        assert "[Checkpoint" in sent[0]["content"]
        assert adapter.migrate_session(SESSION).session_id == "roof"
        assert adapter.migrate_snapshot(SNAPSHOT).outcome == "snapshot"
        assert len(manager.session("roof").history) == 5
        with pytest.raises(InvalidTranscript):
            adapter.migrate_session('{"sessionId": "x", "messages": [{"role": 5}]}')

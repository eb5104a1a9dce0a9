"""A host changes over part by part (MIG): flags, prompts, recovery points, its old sessions."""

import asyncio
import json

import pytest

from compact import CompactConfig, CompactManager
from compact.errors import InvalidArgument, InvalidConfig, InvalidTranscript
from compact.integrations.legacy_context import LegacyContextAdapter, NewParts
from tests.cli.test_cli_migrate import legacy_session, legacy_snapshot

LONG = [
    {"role": ("user", "assistant")[i % 2], "content": f"{i}: the beam is sound. " * 20}
    for i in range(60)
]


@pytest.fixture
def manager(tmp_path):
    config = CompactConfig(max_context_tokens=2_000, store=str(tmp_path / "s.db"))
    with CompactManager(config) as made:
        yield made


def adapter_of(manager, **parts):
    return LegacyContextAdapter(manager, parts=NewParts(**parts))


def newest(messages):
    return messages[-3:]


@pytest.mark.parametrize(
    ("environment", "parts"),
    [
        ({}, NewParts()),
        ({"COMPACT_NEW_CONTEXT": "true"}, NewParts(context=True)),
        ({"OLLM_NEW_COMPRESSION": "1"}, NewParts(compression=True)),
        ({"OLLM_NEW_CONTEXT": "true", "COMPACT_NEW_CONTEXT": "false"}, NewParts()),
        (
            {"COMPACT_NEW_CHECKPOINTS": "Yes", "OLLM_NEW_COMPRESSION": ""},
            NewParts(checkpoints=True),
        ),
    ],
)
def test_flags(environment, parts, monkeypatch):
    assert NewParts.of(environment) == parts
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert NewParts.of() == parts


def test_a_flag_that_says_nothing_is_named():
    with pytest.raises(InvalidConfig, match=r"OLLM_NEW_CONTEXT.*'perhaps'"):
        NewParts.of({"OLLM_NEW_CONTEXT": "perhaps"})


def test_nothing_new_is_the_host_alone(manager):
    adapter = adapter_of(manager)
    assert adapter.prompt("a", LONG, old=newest) == LONG[-3:]
    assert adapter.snapshot("a", old=lambda: "theirs") == "theirs"
    assert adapter.restore("a", "theirs", old=lambda name: f"back to {name}") == "back to theirs"
    assert manager.store.sessions() == []


def test_compression_alone_keeps_nothing(manager):
    sent = adapter_of(manager, compression=True, checkpoints=True).prompt("a", LONG, old=newest)
    assert 3 < len(sent) < len(LONG)
    assert sent[-1] == LONG[-1]
    assert any("Checkpoint ck-" in message["content"] for message in sent)
    assert manager.store.sessions() == []
    bare = adapter_of(manager, compression=True).prompt("a", LONG, old=newest)
    assert not any("Next" in m["content"] for m in bare if "Checkpoint" in m["content"])


def test_context_alone_keeps_the_history_and_the_host_makes_the_prompt(manager):
    adapter = adapter_of(manager, context=True)
    assert adapter.prompt("a", LONG[:10], old=newest) == LONG[7:10]
    assert adapter.prompt("a", LONG, old=newest) == LONG[-3:]
    assert len(manager.session("a").history) == len(LONG)


def test_all_parts_are_the_manager(manager):
    adapter = adapter_of(manager, context=True, compression=True, checkpoints=True)
    sent = adapter.prompt("a", LONG, old=newest)
    assert sent == manager.preflight("a", LONG)
    point = adapter.snapshot("a", old=lambda: "theirs", note="before the frost")
    assert adapter.restore("a", point, old=lambda _: "theirs") is None
    assert adapter.restore("a", "older", old=lambda name: f"their {name}") == "their older"


def test_sessions_and_snapshots_come_along(manager, tmp_path):
    session = legacy_session(tmp_path / "roof.json", "How thick?", "21 cm.", "Good.")
    snapshot = legacy_snapshot(tmp_path / "snap.json", "roof", "How thick?", "21 cm.")
    adapter = adapter_of(manager)
    told = adapter.migrate_session(json.loads(session.read_text()))
    assert (told.outcome, told.session_id, told.messages) == ("new", "roof", 5)
    assert adapter.migrate_session(session.read_text()).outcome == "there"
    assert adapter.migrate_snapshot(snapshot.read_bytes()).outcome == "snapshot"
    assert adapter.migrate_snapshot(snapshot.read_bytes()).outcome == "there"
    ctx = manager.session("roof")
    assert [each.purpose for each in ctx.time.snapshots()] == ["rollback"]
    assert ctx.history[2].tool_calls[0].name == "measure"
    value = json.loads(session.read_text())
    value["messages"].append({"role": "user", "parts": [{"type": "text", "text": "More?"}]})
    assert adapter.migrate_session(value).outcome == "grown"


def test_what_cannot_come_along_is_said(manager, tmp_path):
    adapter = adapter_of(manager)
    session = legacy_session(tmp_path / "roof.json", "How thick?")
    for data in ("{", "[]", {"sessionId": "x", "messages": 5, "toolCalls": []}):
        with pytest.raises(InvalidTranscript):
            adapter.migrate_session(data)
    with pytest.raises(InvalidTranscript, match="legacy_session, and not legacy_snapshot"):
        adapter.migrate_snapshot(session.read_bytes())
    with pytest.raises(InvalidArgument, match="store"), CompactManager() as bare:
        adapter_of(bare).migrate_session(session.read_bytes())
    assert manager.store.sessions() == []


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"compression": True},
        {"context": True},
        {"context": True, "compression": True},
        {"context": True, "compression": True, "checkpoints": True},
    ],
)
def test_async_callers_get_the_same(tmp_path, parts):
    """Whether what the host did is async or not."""

    async def theirs(messages):
        return messages[-3:]

    def manager_in(name):
        store = str(tmp_path / f"{name}.db")
        return CompactManager(CompactConfig(max_context_tokens=2_000, store=store))

    with manager_in("a") as one, manager_in("b") as two, manager_in("c") as three:
        sent = adapter_of(one, **parts).prompt("a", LONG, old=newest)
        again = asyncio.run(adapter_of(two, **parts).aprompt("a", LONG, old=newest))
        third = asyncio.run(adapter_of(three, **parts).aprompt("a", LONG, old=theirs))
        assert [len(each) for each in (again, third)] == [len(sent)] * 2
        assert again[-1] == third[-1] == sent[-1]
        assert len(one.store.sessions()) == len(two.store.sessions()) == bool(parts.get("context"))

"""Nothing ever crosses a scope (S-5): every public door of memory and sessions is tried, with a
session of another scope and with no scope at all. A new method without a case here fails.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from compact import (
    ArchivalManager,
    CompactManager,
    CompressionLevel,
    ContextManager,
    MemoryManager,
    SQLiteManager,
)
from compact.cli.stores import SessionCatalog
from compact.config import CompactConfig
from compact.errors import InvalidConfig, InvalidInput, NotFound
from compact.messages.messages import Message
from compact.messages.protocols import SessionStore
from compact.session.context_manager import Goals
from compact.session.recall import RecallTools
from compact.session.views.review import Review
from compact.session.views.time_travel import TimeTravel
from compact.text.digests import CompressedConversation, ConversationMetadata
from tests.session.test_memory_manager import put
from tests.store.archiving_sessions import rows_of

SAID = [{"role": "user", "content": "Open the gate."}]
Try = Callable[[Any], object]
LATER = datetime(2027, 5, 1, tzinfo=UTC)
WORDS = "heron nests below the quay"
ASKED = "what nests below the quay"

REFUSED: dict[type, dict[str, Try]] = {
    MemoryManager: {
        "add_message": lambda memory: memory.add_message("theirs", "user", "Mine."),
        "archive": lambda memory: memory.archive(["theirs"]),
        "describe": lambda memory: memory.describe("theirs", title="mine"),
        "digest": lambda memory: memory.digest("theirs"),
        "forget": lambda memory: memory.forget("theirs"),
        "importance": lambda memory: memory.importance("theirs"),
        "restore": lambda memory: memory.restore("theirs"),
        "session": lambda memory: memory.session("theirs"),
    },
    ArchivalManager: {
        "archive_conversations": lambda archives: archives.archive_conversations(["theirs"]),
        "restore_conversation": lambda archives: archives.restore_conversation("theirs"),
    },
    SessionCatalog: {
        "find": lambda catalog: [catalog.find(name) for name in ("theirs", "their", "t")],
    },
    ContextManager: {
        "goals.confirm": lambda ctx: ctx.goals.confirm(goal_of(ctx)),
        "expand": lambda ctx: ctx.expand("their-own-id"),
        "pin": lambda ctx: ctx.pin("their-own-id"),
        "unpin": lambda ctx: ctx.unpin("their-own-id"),
        "put_aside": lambda ctx: ctx.put_aside("their-own-id"),
        "time.delete_snapshot": lambda ctx: ctx.time.delete_snapshot(
            ctx.store.snapshots("theirs")[0]
        ),
        "time.restore": lambda ctx: ctx.time.restore(ctx.store.snapshots("theirs")[0]),
        "tools.call": lambda ctx: ctx.tools.call("expand", {"id": "their-own-id"}),
    },
    CompactManager: {
        "session": lambda manager: manager.session("theirs"),
        "fit": lambda manager: manager.fit("theirs", SAID),
        "afit": lambda manager: asyncio.run(manager.afit("theirs", SAID)),
        "preflight": lambda manager: manager.preflight("theirs", SAID),
        "apreflight": lambda manager: asyncio.run(manager.apreflight("theirs", SAID)),
        "manual_compact": lambda manager: manager.manual_compact("theirs", SAID),
        "amanual_compact": lambda manager: asyncio.run(manager.amanual_compact("theirs", SAID)),
    },
}
"""Class → method → a call that names what is another scope's, and is refused."""
LISTING: dict[type, dict[str, Try]] = {
    MemoryManager: {
        "age": lambda memory: memory.age(LATER),
        "age_daily": lambda memory: memory.age_daily(),
        "archived": lambda memory: memory.archived(),
        "facts": lambda memory: [memory.remember("The gate is blue."), memory.facts()],
        "remember": lambda memory: memory.remember("The gate is blue."),
        "run_schedule": lambda memory: memory.run_schedule(9).stop(),
        "search": lambda memory: [
            memory.search(ASKED), memory.search(ASKED, sessions=["theirs"], about=ASKED),
        ],
        "sessions": lambda memory: memory.sessions(),
        "status": lambda memory: memory.status(),
        "timeline": lambda memory: memory.timeline(),
    },
    ArchivalManager: {
        "pack": lambda archives: archives.pack(["theirs"], now=LATER),
        "list_archived": lambda archives: archives.list_archived(),
        "moved": lambda archives: archives.moved(),
        "search_archived": lambda archives: archives.search_archived(ASKED),
        "verify": lambda archives: archives.verify(),
    },
    SessionCatalog: {"sessions": lambda catalog: catalog.sessions()},
    ContextManager: {
        "time.branches": lambda ctx: ctx.time.branches(),
        "checkpoints": lambda ctx: ctx.checkpoints,
        "get_conversation_summary": lambda ctx: ctx.get_conversation_summary(),
        "goals": lambda ctx: ctx.goals,
        "history": lambda ctx: list(ctx.history),
        "recall": lambda ctx: ctx.recall(ASKED),
        "time.snapshots": lambda ctx: ctx.time.snapshots(),
    },
    CompactManager: {"recognize": lambda manager: manager.recognize(theirs_in(manager.store))},
}  # fmt: skip
"""Class → method → a call whose answer tells nothing of it."""
OTHERS: dict[type, set[str]] = {
    # What is said of the whole store, and asks for no session: the owner of the file does that.
    MemoryManager: {
        *("archives", "close", "scope", "store"),
        *("backup", "catch_up", "embed", "restore_backup", "unembedded"),
    },
    ArchivalManager: {"archived_among", "close", "folder"},
    # They take a session that `find` gave.
    SessionCatalog: {"branch", "known_window_of"},
    # They do something with the session that is open, which is its scope's.
    ContextManager: {
        *("a_sync", "aactive_context", "aadd_message", "aadd_messages", "aclose"),
        *("acompress_conversation", "active_context", "add_message", "add_messages"),
        *("aget_context_for_model", "aget_conversation_summary", "areport_overflow", "asend"),
        *("astream", "branch_id", "budget", "close", "compress_conversation", "compressions"),
        *("estimate_tokens", "get_context_for_model", "id", "last_plan", "mode", "policy"),
        *("record_usage", "reliability", "report_overflow", "send", "set_mode", "set_model"),
        *("store", "stream", "summarizes_by_model", "sync", "system_prompt", "window"),
        "window_use",
        *("goals.set", "review.aaccept", "review.accept", "review.apropose", "review.propose"),
        *("time.branch", "time.context_at", "time.moves", "time.redo", "time.snapshot"),
        *("time.undo", "tools.schemas"),
    },
    CompactManager: {"check", "close", "subscribe"},
}
"""Class → methods that name no session and list none."""
HANDLES = {"goals": Goals, "review": Review, "time": TimeTravel, "tools": RecallTools}
"""What a session offers beside its own methods."""
CASES = [
    pytest.param(kind, name, call, id=f"{kind.__name__}.{name}")
    for table in (REFUSED, LISTING)
    for kind, calls in table.items()
    for name, call in calls.items()
]


def theirs_in(store: SessionStore) -> list[Message]:
    """All messages of theirs."""
    branch = store.session("theirs").branch
    return [entry.message for entry in store.read(branch.id, 0, branch.messages)]


def goal_of(ctx: ContextManager) -> str:
    """The id of a goal of theirs."""
    with ContextManager(window=4_096, store=ctx.store, session_id="theirs", scope="bob") as other:
        return other.goals[0].id


@pytest.fixture(params=["alice", ""])
def scope(request: pytest.FixtureRequest) -> str:
    """Whose session is tried for; none is the default one."""
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["hot", "archived"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SQLiteManager]:
    """Sessions of two scopes, and one of the default one; theirs may lie in the archive."""
    with SQLiteManager(tmp_path / "chat.db") as made:
        with ContextManager(window=4_096, store=made, session_id="theirs", scope="bob") as ctx:
            ctx.goals.set([f"Find where the {WORDS}."])
            ctx.add_message(role="user", content=f"The {WORDS}.", id="their-own-id")
            ctx.time.snapshot(f"The {WORDS}")
        branch = made.session("theirs").branch
        chain = made.chain(branch.id, branch.messages)
        digest = CompressedConversation(
            text=WORDS, source_tokens=9, tokens=3, level=CompressionLevel.SUMMARY,
            about=ConversationMetadata(id="theirs"),
        )  # fmt: skip
        made.keep_digest("theirs", digest, chain=chain)
        for name in ("alice", "default"):
            put(made, f"own-{name}", "The gate is open.", scope=name)
        made.turns(None)
        if request.param:
            theirs = ArchivalManager(made, scope="bob")
            assert not theirs.archive_conversations(["theirs"]).failed
        yield made


def opened(kind: type, store: SQLiteManager, scope: str) -> Any:
    given = {"scope": scope} if scope else {}
    match kind.__name__:
        case "ContextManager":
            own = f"own-{scope or 'default'}"
            return ContextManager(window=4_096, store=store, session_id=own, **given)  # type: ignore[arg-type]
        case "CompactManager":
            return CompactManager(CompactConfig(max_context_tokens=4_096), store=store, **given)  # type: ignore[arg-type]
        case "SessionCatalog":
            return SessionCatalog(store, "chat.db", CompactConfig(), scope or "default")
    return kind(store, **given)


@pytest.mark.parametrize(("kind", "name", "call"), CASES)
def test_no_method_crosses_a_scope(
    store: SQLiteManager, scope: str, kind: type, name: str, call: Try
) -> None:
    before = rows_of(store, "theirs")
    about = opened(kind, store, scope)
    if name in REFUSED[kind]:
        with pytest.raises((NotFound, InvalidInput, InvalidConfig)) as refusal:
            call(about)
        assert WORDS not in str(refusal.value)
    else:
        answer = repr(call(about))
        assert "heron" not in answer
        assert "theirs" not in answer
        assert "their-own-id" not in answer
    assert rows_of(store, "theirs") == before
    assert store.session("theirs").scope == "bob"


def test_no_session_of_another_scope_is_opened(store: SQLiteManager, scope: str) -> None:
    before = rows_of(store, "theirs")
    given: Any = {"scope": scope} if scope else {}
    with pytest.raises(InvalidConfig) as refusal:
        ContextManager(window=4_096, store=store, session_id="theirs", **given)
    assert "bob" not in str(refusal.value)
    assert rows_of(store, "theirs") == before


def missing(kind: type) -> set[str]:
    """Public methods of which nothing is said here; and what is said of those that are gone."""
    public = {name for name in dir(kind) if not name.startswith("_")}
    if kind is ContextManager:  # the goals themselves are a case too
        public -= {"review", "time", "tools"}
        public |= {
            f"{name}.{part}"
            for name, handle in HANDLES.items()
            for part in vars(handle)
            if not part.startswith("_") and part != "of"
        }
    if kind is SessionCatalog:
        public -= {"file", "scope", "settings", "store"}
    return public ^ {*REFUSED[kind], *LISTING[kind], *OTHERS[kind]}


@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: kind.__name__)
def test_every_method_has_a_case(kind: type) -> None:
    assert missing(kind) == set(), "say in this file what they do with another scope's session"

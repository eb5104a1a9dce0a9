"""No command crosses a scope (S-5): each that takes `--scope` is tried with another one's session.
A new command without a case here fails.
"""

import inspect

import pytest

from compact import ContextManager, MemoryManager
from compact.cli import stores
from compact.cli.commands import chat
from compact.cli.main import COMMANDS, function_of
from compact.cli.stores import StoreOptions
from compact.errors import InvalidConfig
from compact.store.sqlite.store import SQLiteManager
from tests.store.archiving_sessions import rows_of

REFUSED = {
    "show": ["theirs"],
    "recall": ["theirs", "heron"],
    "expand": ["theirs", "their-own-id"],
    "mark": ["theirs", "--title", "mine", "--pin", "0", "--goal", "Find it.", "--done", "GOAL"],
    "undo": ["theirs", "--to", "SNAPSHOT"],
    "view": ["theirs"],
    "chat": ["theirs"],  # here for want of a terminal; with one: see below
    "sessions export": ["theirs"],
    "sessions compress": ["theirs"],
    "sessions import": ["SAMPLE", "--as", "theirs"],
    "memory forget": ["theirs", "--yes"],
    "memory archive": ["theirs"],
    "memory backup": ["BACKUP"],
}
"""Command → arguments that name the session, or all of them; it is refused."""
LISTING = {
    "search": ["nests"],
    "sessions list": [],
    "memory archive": ["--older-than", "0"],
    "memory age": [],
    "memory status": [],
    "migrate": ["SAMPLE"],
}
"""Command → arguments; what is listed tells nothing of it."""
PARTS = ("context", "history", "checkpoints", "goals")
"""What `show` shows of a session beside the overview."""
CASES = [(name, given) for table in (REFUSED, LISTING) for name, given in table.items()]
CASES += [("show", ["theirs", part]) for part in PARTS] + [("undo", ["theirs"])]
ALL = {"sessions list", "memory backup"}
"""Commands that are about all scopes where none is named."""


@pytest.fixture(params=[False, True], ids=["hot", "archived"])
def store(request, tmp_path):
    file = tmp_path / "chat.db"
    with ContextManager(window=4_096, store=file, session_id="theirs", scope="bob") as ctx:
        ctx.goals.set(["Find where the heron nests."])
        ctx.add_message(role="user", content="The heron nests below the quay.", id="their-own-id")
        ctx.time.snapshot("The heron")
    for name in ("alice", "default"):
        with ContextManager(window=4_096, store=file, session_id=f"own-{name}", scope=name) as ctx:
            ctx.add_message(role="user", content="The gate is open.")
    if request.param:
        with MemoryManager(file, scope="bob") as theirs:
            assert not theirs.archive(["theirs"]).failed
    return file


def theirs_in(file):
    with SQLiteManager(file) as found:
        return rows_of(found, "theirs"), found.snapshots("theirs")[0].id, _goal(found)


def _goal(store):
    with ContextManager(window=4_096, store=store, session_id="theirs", scope="bob") as ctx:
        return ctx.goals[0].id


@pytest.mark.parametrize(("name", "given"), CASES, ids=[name for name, _ in CASES])
def test_no_command_crosses_a_scope(run, store, sample, tmp_path, name, given):
    before, snapshot, goal = theirs_in(store)
    meant = {"SNAPSHOT": snapshot, "GOAL": goal, "SAMPLE": sample, "BACKUP": tmp_path / "backup"}
    words = [str(meant.get(each, each)) for each in given]
    command = name.split()
    for asked in (["--scope", "alice"], []):
        if name in ALL and not asked:
            continue
        for as_json in ([], ["--json"]) if "--as" not in words else ([],):
            done = run(*command, *words, "--store", store, *asked, *as_json)
            assert "heron" not in done.out + done.err
            if asked:
                assert "bob" not in done.out + done.err
            if (given and "theirs" in given) or given == ["BACKUP"]:
                assert done.code == 2, done
            else:
                assert done.code == 0, done
                assert "theirs" not in done.out + done.err
            assert theirs_in(store) == (before, snapshot, goal)


def test_a_chat_is_not_continued_from_another_scope(store):
    """The program opens what this names, in the scope that was asked for."""
    with stores.opened(StoreOptions(store=str(store))) as catalog:
        setup = chat.setup_of(catalog, "theirs")
        with pytest.raises(InvalidConfig, match="does not belong to"):
            ContextManager(
                window=4_096, store=setup.store, session_id=setup.session_id, scope=setup.scope
            )


def test_every_command_with_a_scope_has_a_case():
    taking = {c for c in COMMANDS if "scope" in inspect.signature(function_of(c)).parameters}
    # they serve, or need a server: test_mcp, tests/serve and test_postgres_memory have their cases
    taking -= {"mcp", "serve", "move"}
    assert taking == {*REFUSED, *LISTING}, "say in this file what it does with another's session"

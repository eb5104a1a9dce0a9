"""No command crosses a scope (S-5): each that takes `--scope` is tried with another one's session.
A new command without a case here fails.
"""

import inspect

import pytest

from compact import ContextManager, MemoryManager
from compact.apps.cli import chats, stores
from compact.apps.cli.main import COMMANDS
from compact.apps.cli.options import StoreOptions
from compact.errors import InvalidConfig
from compact.storage.sqlite.store import SQLiteManager
from tests.storage.archiving_sessions import rows_of

REFUSED = {
    "history": ["theirs"],
    "context": ["theirs"],
    "recall": ["theirs", "heron"],
    "expand": ["theirs", "their-own-id"],
    "checkpoints": ["theirs"],
    "snapshot": ["theirs"],
    "restore": ["theirs", "SNAPSHOT"],
    "undo": ["theirs"],
    "redo": ["theirs"],
    "branch": ["theirs", "--at", "1"],
    "sessions_show": ["theirs"],
    "sessions_export": ["theirs"],
    "sessions_compress": ["theirs"],
    "sessions_put_aside": ["theirs"],
    "sessions_describe": ["theirs", "--title", "mine"],
    "sessions_delete": ["theirs", "--yes"],
    "sessions_import": ["SAMPLE", "--as", "theirs"],
    "goals_list": ["theirs"],
    "goals_add": ["theirs", "Find it."],
    **{f"goals_{x}": ["theirs", "GOAL"] for x in ("done", "drop", "pause", "resume", "confirm")},
    "sessions_pin": ["theirs", "0"],
    "sessions_unpin": ["theirs", "0"],
    "sessions_mode": ["theirs", "coder"],
    "memory_archive": ["theirs"],
    "memory_restore": ["theirs"],
    "memory_why": ["theirs"],
    "view": ["theirs"],
    "chat": ["theirs"],  # here for want of a terminal; with one: see below
    "memory_backup": ["BACKUP"],
}
"""Command → arguments that name the session, or all of them; it is refused."""
LISTING = {
    "search": ["nests"],
    "sessions_list": [],
    "memory_archive": ["--older-than", "0"],
    "memory_archived": [],
    "memory_verify": [],
    "memory_age": [],
    "memory_status": [],
    "memory_schedule": ["--once"],
    "migrate": ["SAMPLE"],
}
"""Command → arguments; what is listed tells nothing of it."""
CASES = [(name, given) for table in (REFUSED, LISTING) for name, given in table.items()]
ALL = {"sessions_list", "memory_backup"}
"""Commands that are about all scopes where none is named."""
OTHERS = {"memory_embed"}
"""Commands that embed what is pending, of all scopes, and tell only how much that was."""


@pytest.fixture(params=[False, True], ids=["hot", "archived"])
def store(request, tmp_path):
    file = tmp_path / "chat.db"
    with ContextManager(window=4_096, store=file, session_id="theirs", scope="bob") as ctx:
        ctx.set_goals(["Find where the heron nests."])
        ctx.add_message(role="user", content="The heron nests below the quay.", id="their-own-id")
        ctx.snapshot("The heron")
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
    command = name.split("_", 1) if "_" in name else [name]
    command = [command[0], *(each.replace("_", "-") for each in command[1:])]
    for asked in (["--scope", "alice"], []):
        if name in ALL and not asked:
            continue
        for as_json in ([], ["--json"]) if "--as" not in words else ([],):
            done = run(*command, *words, "--store", store, *asked, *as_json)
            assert "heron" not in done.out + done.err
            if asked:
                assert "bob" not in done.out + done.err
            if name in REFUSED and given == REFUSED[name]:
                assert done.code == 2, done
            else:
                assert done.code == 0, done
                assert "theirs" not in done.out + done.err
            assert theirs_in(store) == (before, snapshot, goal)


def test_a_chat_is_not_continued_from_another_scope(store):
    """The program opens what this names, in the scope that was asked for."""
    with stores.opened(StoreOptions(store=str(store))) as catalog:
        setup = chats.setup_of(catalog, "theirs")
        with pytest.raises(InvalidConfig, match="does not belong to"):
            ContextManager(
                window=4_096, store=setup.store, session_id=setup.session_id, scope=setup.scope
            )


def test_every_command_with_a_scope_has_a_case():
    taking = {each.__name__ for each in COMMANDS if "scope" in inspect.signature(each).parameters}
    assert taking == {*REFUSED, *LISTING, *OTHERS}, (
        "say in this file what it does with another's session"
    )

"""`compactctl memory backup` and `restore-backup`: a whole store as a folder, and back."""

import json

from compact.storage.sqlite.store import SQLiteManager
from tests.storage.archiving_sessions import rows_of


def refused(done, *reasons):
    assert (done.code, done.out) == (2, ""), done
    for reason in reasons:
        assert reason in " ".join(done.err.split())


def test_a_store_is_backed_up_and_restored(run, chat, tmp_path):
    run("memory", "archive", "harbour", "--store", chat)
    done = run("memory", "backup", tmp_path / "kept", "--store", chat, "--json")
    told = json.loads(done.out)
    assert (told["sessions"], told["messages"], told["archives"]) == (1, 120, 1)
    back = run("memory", "restore-backup", tmp_path / "kept", "--to", tmp_path / "new.db")
    assert (back.code, back.err) == (0, "")
    assert "new.db: 1 session, 120 messages, 1 archive, " in " ".join(back.out.split())
    with SQLiteManager(chat) as old, SQLiteManager(tmp_path / "new.db") as new:
        assert rows_of(new, "harbour") == rows_of(old, "harbour")
        assert new.get_conversation("harbour") == old.get_conversation("harbour")
    assert run("history", "harbour", "--store", tmp_path / "new.db").code == 0


def test_what_goes_wrong_is_said_and_what_to_do(run, chat, tmp_path):
    kept, new = tmp_path / "kept", tmp_path / "new.db"
    run("memory", "backup", kept, "--store", chat)
    refused(run("memory", "backup", kept, "--store", chat), "is there already", "name a new folder")
    refused(run("memory", "backup", "x", "--store", chat, "--scope", "a"), "leave --scope out")
    refused(run("memory", "backup", "no/x", "--store", chat), "make it first")
    refused(run("memory", "restore-backup", kept, "--to", chat), "name a new file")
    refused(run("memory", "restore-backup", tmp_path, "--to", new), "is no backup")
    (kept / "sessions.db").write_bytes(b"x")
    refused(run("memory", "restore-backup", kept, "--to", new), "its checksum differs")
    assert not new.exists()

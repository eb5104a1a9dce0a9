"""Every real file of the shared folder comes along or is named with a reason, and each session goes
out and comes back as the same bytes (MIG, US-8). Skips where the folder is not there.
"""

import os
from pathlib import Path

import pytest

from compact import SQLiteManager, migrate
from compact.config import CompactConfig
from compact.exchange import exporting, importing
from compact.exchange.sources import files_of
from compact.store import session_file
from compact.store.session_file import SessionFile
from tests.sizes import size

NAMED = os.environ.get("COMPACT_DATA")
DATA = Path(NAMED) if NAMED else Path(__file__).resolve().parents[3] / "shared/data"
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(
        not DATA.is_dir(), reason="no real conversations here: set COMPACT_DATA to their folder"
    ),
]
SESSIONS = ("claude_code", "codex", "copilot", "gemini", "opencode", "pi_", "specstory")
"""How the names of folders begin that hold what programs keep of sessions."""
NO_SESSIONS = {"SOURCE.md", "README.md"}


@pytest.fixture(scope="module")
def migrated(tmp_path_factory):
    """A store with everything, or one file of four by day; the files, and what was told."""
    file = tmp_path_factory.mktemp("data") / "all.db"
    chosen = [each.path for each in files_of([DATA])][:: size(4, 1)]
    return file, chosen, migrate(chosen, store=file)


def written(store, session_id):
    """The file of a session."""
    whole = exporting.whole_session(store, session_id)
    messages = [entry.message for entry in whole.line(whole.session.branch.id)]
    file = SessionFile(whole.session, messages, checkpoints=whole.checkpoints, whole=whole)
    return "".join(session_file.written(file)).encode()


@pytest.mark.slow
def test_every_real_file_comes_along_or_is_named(migrated):
    file, chosen, report = migrated
    told: dict[str, list[str]] = {}
    for each in report.conversations:
        told.setdefault(each.path, []).append(each.outcome)
        assert each.reason or each.outcome in ("new", "there"), each
    assert told.keys() == set(map(str, chosen))
    for path, outcomes in told.items():
        folder, name = Path(path).relative_to(DATA).parts[0], Path(path).name
        if folder.startswith(SESSIONS) and name not in NO_SESSIONS and "LICENSE" not in name:
            assert set(outcomes) <= {"new", "there", "unknown"}, (path, outcomes)
    new = [each for each in report.conversations if each.outcome == "new"]
    assert len(new) > size(25, 100)
    with SQLiteManager(file) as store:
        assert store.integrity_check() == []
        for each in new:
            assert store.session(each.session_id).branch.messages == each.messages
    again = migrate(chosen, store=file)
    assert again.outcomes.get("new", 0) == again.outcomes.get("grown", 0) == 0
    assert again.folder is None


@pytest.mark.slow
def test_every_session_goes_out_and_comes_back(migrated, tmp_path):
    settings = CompactConfig()
    with SQLiteManager(migrated[0]) as store, SQLiteManager(tmp_path / "other.db") as other:
        for session in store.sessions():
            first = written(store, session.id)
            read = session_file.read(first, session.id)
            ready = importing.as_new(read, other, settings, session_id=session.id)
            importing.put(other, ready)
            assert written(other, session.id) == first, session.id
        assert other.integrity_check() == []

"""Every schema that was released can still be opened, and is never changed (S-2).

`tests/fixtures/databases` has a database of each, made by `tests/fixtures/make_database.py`, and
what a store said of it then.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest

from compact import ContextManager, SQLiteManager
from compact.store.sqlite import migrations
from compact.store.sqlite.changes import take_over_notes
from compact.store.sqlite.migrations import MIGRATIONS, Migration
from tests.fixtures.make_database import DATABASES, WINDOW, told
from tests.store import making

RELEASED = sorted(path.stem for path in DATABASES.glob("*.db"))
LARGEST = 300_000


@pytest.fixture(params=RELEASED)
def released(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def copy(released: str, tmp_path: Path) -> Path:
    return Path(shutil.copy(DATABASES / f"{released}.db", tmp_path / "chat.db"))


def schema(db: apsw.Connection) -> dict[str, str]:
    """What is in it, by name. The tables behind the search index are SQLite's own business."""
    rows = db.execute("SELECT name, sql FROM sqlite_schema WHERE name NOT GLOB 'words_*'")
    return {name: sql for name, sql in rows if sql}


def made_by(steps: tuple[Migration, ...], patch: pytest.MonkeyPatch) -> dict[str, str]:
    """The schema that so many steps make."""
    with patch.context() as within:
        within.setattr(migrations, "MIGRATIONS", steps)
        db = apsw.Connection(":memory:")
        migrations.migrate(db, ":memory:")
        return schema(db)


def assert_holds(found: Any, expected: Any, where: str) -> None:
    """What was told then is told now; more may be."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert name in found, f"{where}: no {name!r} any more"
            assert_holds(found[name], value, f"{where}, {name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_holds(one, other, f"{where}, {number}")
    else:
        assert found == expected, where


def test_every_released_schema_has_a_database() -> None:
    assert [step.name for step in MIGRATIONS] == RELEASED, "python -m tests.fixtures.make_database"
    for name in RELEASED:
        assert (DATABASES / f"{name}.db").stat().st_size < LARGEST


def test_everything_in_a_released_database_is_found(copy: Path, released: str) -> None:
    expected = json.loads((DATABASES / f"{released}.json").read_text())
    for each in expected.values():  # the first schema had notes of them
        gone = [name for name in each["notes"] if name.startswith("goals:")]
        was = [each["notes"].pop(name)["goals"] for name in gone]
        each.setdefault("changes", [{"what": {"kind": "goals", "goals": goals}} for goals in was])
    with SQLiteManager(copy) as store:
        assert store.integrity_check() == []
        assert_holds(json.loads(json.dumps(told(store))), expected, released)
        assert store.db.pragma("user_version") == len(MIGRATIONS), "it is brought up to date"
    harbour, odd = expected["harbour"], expected["odd \ud800"]
    for part in ("moves", "projections", "checkpoints", "snapshots", "changes"):
        assert harbour[part], f"the fixture has {part}"
    assert odd["notes"]
    assert harbour["snapshots"][0]["goals"][0]["text"] == "Keep the harbour's log complete."
    assert harbour["branches"]["harbour~2"]["found"]["the storm"]
    assert odd["branches"]["odd \ud800~2"]["found"]["渡轮"] == {"0": True}


def test_a_released_session_goes_on(copy: Path) -> None:
    with ContextManager(window=WINDOW, store=str(copy), session_id="harbour") as ctx:
        before = ctx.active_context().render_text()
        assert "Never move crane_limits above 14 t" in before
        assert "Keep the harbour's log complete." in before
        for day in range(40):
            ctx.add_message(role="user", content=f"The storm of day {day} is over. " * 9)
            ctx.get_context_for_model()
        assert ctx.last_plan is not None, "it is compressed again"
        assert ctx.recall("crane_limits")
        ctx.time.undo()
        assert ctx.active_context().tokens <= ctx.window.usable
    with SQLiteManager(copy) as store:
        assert store.integrity_check() == []


def test_no_released_migration_is_changed(
    copy: Path, released: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wants another schema adds a migration."""
    names = [step.name for step in MIGRATIONS]
    steps = MIGRATIONS[: names.index(released) + 1]
    assert schema(apsw.Connection(str(copy))) == made_by(steps, monkeypatch)


def test_an_old_database_gets_the_schema_of_a_new_one(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a step that is still to come, since all that exist may have been taken."""
    later = Migration("9999_later", ("ALTER TABLE notes ADD COLUMN later TEXT",))
    monkeypatch.setattr(migrations, "MIGRATIONS", (*MIGRATIONS, later))
    with SQLiteManager(copy) as store:
        assert schema(store.db) == made_by(migrations.MIGRATIONS, monkeypatch)
        assert store.db.pragma("user_version") == len(MIGRATIONS) + 1
        assert store.get_conversation("harbour").messages


def test_notes_of_the_first_schema_become_changes(tmp_path: Path) -> None:
    """Their names said what they were: goals by number, progress by what it goes on from."""
    goals = [{"text": text, "id": text} for text in ("old", "progress", "further", "new")]
    notes: dict[str, dict[str, Any]] = {
        "goals:000001:aa": {"branch": "a", "at": 0, "goals": goals[:1]},
        "goals:000001:aa:000000004:cc:tracked": {"branch": "a", "at": 4, "goals": goals[2:3]},
        "goals:000001:aa:000000002:bb:tracked": {"branch": "a", "at": 2, "goals": goals[1:2]},
        "goals:000002:bb": {"branch": "a", "at": 9, "goals": goals[3:]},
        "goals:000003:tracked": {"branch": "a", "at": 9, "goals": goals},
        "mode:000001:cc": {"branch": "a", "at": 3, "mode": "planning"},
        "pin:a:b:7": {},
        "pin:a:8": {"gone": True},
        "pin:a:x": {},
        "aside:a:6": {"tokens": 64},
        "system": {"of": "ab", "messages": [{"role": "system", "content": "x"}], "tokens": [4]},
        "calibration:o200k": {"ratio": 1.0},
    }
    with SQLiteManager(tmp_path / "chat.db") as store:
        store.session("a", create=making.session("a"))
        for name, value in notes.items():
            store.note("a", name, value)
        take_over_notes(store.db)
        assert list(store.notes("a")) == ["calibration:o200k"]
        assert store.integrity_check() == []
        found = store.changes("a")
    said = [(each.branch_id, each.at, each.what.model_dump()) for each in found]
    told = {
        (kind["kind"], branch, at, kind.get("since"), kind.get("is_pinned"))
        for branch, at, kind in said
    }
    numbers = [each.number for each in found if each.what.kind == "goals"]
    assert told == {
        ("goals", "a", 0, None, None),
        ("goals", "a", 9, None, None),
        ("tracked", "a", 2, numbers[0], None),
        ("tracked", "a", 4, numbers[0], None),
        ("tracked", "a", 9, numbers[1], None),
        ("mode", "a", 3, None, None),
        ("pin", "a:b", 7, None, True),
        ("pin", "a", 8, None, False),
        ("aside", "a", 6, None, None),
        ("system", "a", 0, None, None),
    }

"""`sessions compress --review`: a summary in an editor before it counts (US-2)."""

import json
import os
import sys

import pytest

from compact import ContextManager
from compact.session.views.fitting import FLOOR_ALONE

WORDS = "The keeper counted the oars twice and found one missing."
SECRET = "ghp_" + "a1B2c3D4e5" * 4


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A session that can be compressed."""
    with ContextManager(window=4_096, store=tmp_path / "chat.db", session_id="quay") as ctx:
        for i in range(8):
            ctx.add_message(role="user", content=f"Turn {i}: what of boat {i} at quay {i}? " * 8)
            ctx.add_message(role="assistant", content=f"Boat {i} lies at berth {i}, moored. " * 14)
    monkeypatch.setenv("COMPACT_STORE", str(tmp_path / "chat.db"))
    return tmp_path / "chat.db"


@pytest.fixture
def editor(tmp_path, monkeypatch):
    """An editor that does what its script says with the file it is given."""

    def as_script(script):
        file = tmp_path / "editor.py"
        file.write_text(
            "import sys, pathlib\n"
            "file = pathlib.Path(sys.argv[1])\n"
            "text = file.read_text()\n"
            f"pathlib.Path({str(tmp_path / 'seen')!r}).open('a').write(text + '\\0')\n" + script
        )
        monkeypatch.setenv("EDITOR", f'"{sys.executable}" "{file}"')
        monkeypatch.delenv("VISUAL", raising=False)

    return as_script


def seen(tmp_path):
    """The texts that the editor was given, one after the other."""
    return (tmp_path / "seen").read_text().split("\0")[:-1]


COMPRESS = ("sessions", "compress", "quay", "--window", "4096", "--review")


def checkpoints(store):
    with ContextManager(window=4_096, store=store, session_id="quay") as ctx:
        return ctx.checkpoints


def test_what_is_saved_unchanged_is_accepted(run, store, editor, tmp_path):
    editor("")
    done = run(*COMPRESS)
    assert done.code == 0, done
    (made,) = checkpoints(store)
    assert made.made_by == "extractive"
    (text,) = seen(tmp_path)
    assert f"#> {made.id} · " in text
    assert made.summary.partition("\n")[2] in text
    assert "To refuse, delete everything" in text
    assert not list(tmp_path.glob("compact-review-*"))


def test_what_is_edited_counts(run, store, editor):
    editor(
        "place = text.rindex('#> ')\n"
        f"file.write_text(text[:place] + text[place:].splitlines()[0] + '\\n{WORDS}\\n')"
    )
    done = run(*COMPRESS, "--json")
    assert done.code == 0, done
    assert [each["made_by"] for each in json.loads(done.out)["made"]] == ["person"]
    assert checkpoints(store)[0].summary.endswith(WORDS)


@pytest.mark.parametrize(
    "script", ["file.write_text('')", "file.write_text(text.partition('#> ')[0])"]
)
def test_what_is_emptied_is_refused(run, store, editor, script):
    editor(script)
    done = run(*COMPRESS)
    assert (done.code, done.out, done.err) == (0, "", "nothing was compressed\n")
    assert checkpoints(store) == ()


def test_a_text_that_cannot_be_used_comes_back_with_the_reason(run, store, editor, tmp_path):
    """The person's words are not lost, and the secret is not repeated in the reason."""
    editor(
        f"file.write_text(text.replace('{SECRET}', 'nothing') if '{SECRET}' in text "
        f"else text + '\\nThe token is {SECRET}.\\n')"
    )
    assert run(*COMPRESS).code == 0
    first, second = seen(tmp_path)
    assert "NOT USED" not in first
    assert "# NOT USED: the summary given for ck-" in second
    assert "secrets: " in second
    assert checkpoints(store)[0].summary.endswith("The token is nothing.")


def test_a_text_that_nobody_mends_is_an_error(run, store, editor, tmp_path):
    editor(
        f"file.write_text(text if '{SECRET}' in text else text + '\\nThe token is {SECRET}.\\n')"
    )
    done = run(*COMPRESS)
    assert done.code == 1
    assert "secrets" in done.err
    assert SECRET not in done.err
    assert len(seen(tmp_path)) == 2
    assert checkpoints(store) == ()


def test_an_editor_that_fails_changes_nothing(run, store, editor, monkeypatch):
    editor("sys.exit(3)")
    done = run(*COMPRESS)
    assert done.code == 2
    assert "ended with 3: nothing was changed" in done.err
    monkeypatch.setenv("VISUAL", "no-such-editor --wait")
    done = run(*COMPRESS)
    assert done.code == 2
    assert "'no-such-editor --wait' ($VISUAL, $EDITOR) cannot be run" in done.err
    assert checkpoints(store) == ()


@pytest.mark.skipif(os.name == "nt", reason="modes are Unix's")
def test_nobody_else_can_read_what_is_edited(run, store, editor, tmp_path):
    editor(
        "mode = oct(file.stat().st_mode)\n"
        f"pathlib.Path({str(tmp_path / 'mode')!r}).write_text(mode)\n"
    )
    run(*COMPRESS)
    assert (tmp_path / "mode").read_text().endswith("600")


def test_where_nothing_can_be_freed_no_editor_opens(run, store, editor, tmp_path):
    with ContextManager(window=4_096, store=store, session_id="bare") as ctx:
        ctx.add_message(role="user", content="What lies at the quay?")
    editor("")
    done = run("sessions", "compress", "bare", "--window", "4096", "--review")
    assert done.code == 0, done
    assert FLOOR_ALONE[1:] in " ".join(done.out.split())
    assert not (tmp_path / "seen").exists()

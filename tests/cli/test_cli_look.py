"""`compactctl look` shows what was forgotten, and changes nothing (issue 28)."""

import hashlib
import json
import re

import pytest

from tests.cli.conftest import refused
from tests.look.sessions import Claude, forgetful, text_lines

SECRET = "ghp_" + "a1B2c3D4e5" * 4
ROWS, COLUMNS = 44, 80


@pytest.fixture
def homes(tmp_path, monkeypatch):
    """The folder of Claude Code's sessions, and no other agent's."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CODEX_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    folder = tmp_path / "claude" / "projects" / "harbour"
    folder.mkdir(parents=True)
    return folder


def worst_case():
    """A session with a moment of each kind, two programs' worth of long lines, and secrets."""
    session = Claude("98-78b713483d-0")
    session.person(f"never write {SECRET} into a file, please, and keep the harbour ledger in one")
    session.agent("### P2 findings\n" + "1. The ledger of the harbour is never closed " * 9)
    session.work(60)
    session.read("/a/long/path/" * 9 + "ledger.py", text_lines("harbour", 60))
    session.call("Bash", {"command": f"curl -H 'token: {SECRET}' x"}, f"ok {SECRET}")
    session.compact("Found 7 P2 findings. " * 30 + SECRET)
    session.person("can you show me the P2 findings again?")
    session.read("/a/long/path/" * 9 + "ledger.py", text_lines("harbour", 60))
    error = "<tool_use_error>File has not been read yet.</tool_use_error>"
    session.call("Edit", {"file_path": "/x" * 90}, error, is_error=True)
    session.agent(f"The file was read before {SECRET} but " + "words " * 90)
    session.work(110)
    session.compact("And on.")
    session.work(41)
    return session


def tree(folder):
    """The digests and times of all files below a folder."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return [
        (str(file), hashlib.sha256(file.read_bytes()).digest(), file.stat().st_mtime_ns)
        for file in files
    ]


def test_the_first_screen(run, homes):
    worst_case().write(homes)
    for number in range(11):
        forgetful(f"{number}-other-session").write(homes)
    before = tree(homes)
    done = run("look")
    assert tree(homes) == before
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert len(lines) <= ROWS
    assert max(map(len, lines)) <= COLUMNS
    assert "12 sessions" in lines[1]
    assert "13 times" in lines[1]
    assert "You, 1 Mar" in done.out
    shown = " ".join(done.out.split())
    assert "“can you show me the P2 findings again?”" in shown
    assert "1 edit refused, “File has not been read yet”" in shown
    assert "1 of the next 1 look-ups" in shown
    again = next(line for line in lines if "look-ups of what" in line)
    assert re.search(r"\+0\.9 \[0\.\d, 1\.0\]$", again)
    assert "compactctl install claude-code" in lines[-1]


def test_sessions_with_the_hook_stand_beside_those_without(run, homes, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for number in range(4):
        forgetful(f"s{number}", again=number > 1).write(homes)
    assert "Our hook" not in run("look").out
    notes = tmp_path / "state" / "compact" / "hooks" / "given.jsonl"
    notes.parent.mkdir(parents=True)
    rows = [(n, next(r for r in forgetful(n).rows if r.get("subtype"))) for n in ("s0", "s1")]
    given = [{"session": name, "time": row["timestamp"], "uuid": None} for name, row in rows]
    notes.write_text("\n".join(map(json.dumps, given)))
    lines = run("look").out.splitlines()
    at = next(n for n, line in enumerate(lines) if "Our hook gave something back 2 times" in line)
    assert lines[at].split()[-3:] == ["with", "without", "difference²"]
    assert re.search(r"look-ups of what .* 0\.0 +1\.0 +–$", lines[at + 1])


def test_nothing_is_called_due_to_few_compactions(run, homes):
    for number in range(9):
        forgetful(f"{number}-other-session").write(homes)
    done = run("look")
    again = next(line for line in done.out.splitlines() if "look-ups of what" in line)
    assert re.search(r"1\.0 +0\.0 +–$", again)
    row = json.loads(run("look", "--json").out)["compared"]["again"]
    assert (row["difference"], row["low"], row["due_to_it"]) == (1, 1, False)


@pytest.mark.parametrize(
    "arguments", [(), ("--json",), ("--html", "look.html"), ("98-78", "--at", "1")]
)
def test_no_secret_is_shown(run, homes, tmp_path, arguments):
    worst_case().write(homes)
    done = run("look", *arguments)
    page = tmp_path / "look.html"
    text = done.out + (page.read_text(encoding="utf-8") if page.exists() else "")
    assert done.code == 0
    assert "REDACTED" in text or arguments == ()
    assert SECRET[:12] not in text


def test_the_page_has_all_compactions_and_loads_nothing(run, homes, tmp_path):
    session = worst_case()
    session.person("</pre><script>alert(1)</script>")
    session.compact("<img src=x> & so on \x1b[2J\x07\x9b\u202e")
    session.write(homes)
    done = run("look", "--html", "look.html")
    page = (tmp_path / "look.html").read_text(encoding="utf-8")
    assert "3 compactions" in done.out
    assert page.count("<details>") == 3
    assert "default-src 'none'" in page
    assert "&lt;img src=x&gt; &amp; so on" in page
    assert not re.search(r"<script|<img|https?://|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", page)


def test_one_compaction_by_the_sessions_id(run, homes):
    worst_case().write(homes)
    forgetful("other").write(homes)
    done = run("look", "98-78", "--at", "2")
    assert done.out.startswith("98-78b713483d-0 · compaction 2")
    assert "And on." in done.out
    told = json.loads(run("look", "98-78", "--at", "1", "--json").out)
    assert (told["number"], told["messages"], len(told["looked_up_again"])) == (1, 1, 1)
    refused(run("look", "98-78", "--at", "3"), "no compaction 3", "2 compactions")
    refused(run("look", "--at", "1"), "2: name its file or id")
    refused(run("look", "./none.jsonl"), "no such file or folder")


def test_since_and_project(run, homes):
    forgetful("one").write(homes)
    assert json.loads(run("look", "--json", "--since", "2026-03-02").out)["compactions"] == 0
    assert json.loads(run("look", "--json", "--since", "2026-02-27").out)["compactions"] == 1
    assert json.loads(run("look", "--json", "--project", "HARB").out)["sessions"] == 1
    assert json.loads(run("look", "--json", "--project", "quay").out)["sessions"] == 0
    assert "compacted since 2026-03-02" in run("look", "--since", "2026-03-02").out
    assert "No session found" in run("look", "other").out


def test_without_a_compaction_it_says_so(run, homes):
    Claude("one").write(homes)
    session = Claude("two")
    session.person("hello")
    session.write(homes)
    done = run("look")
    assert "1 session" in done.out
    assert "None of them was compacted" in done.out


def test_without_transcripts_it_says_what_to_do(run, homes):
    homes.rmdir()
    homes.parent.rmdir()
    refused(run("look"), "name files or folders")


def test_damaged_lines_are_told(run, homes):
    file = forgetful().write(homes)
    file.write_bytes(file.read_bytes() + b'{"type":"user","mess')
    done = run("look")
    assert (done.code, done.err) == (0, "")
    assert "1 line in 1 file could not be read" in done.out

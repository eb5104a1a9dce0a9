"""`compactctl install`, `uninstall`: hooks in other programs' files, byte for byte (issue 28)."""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compact.integrations import coding_agents
from compact.integrations.compaction_hooks import own_command
from compact.integrations.json_lists import added, removed
from tests.cli.conftest import refused
from tests.sizes import size

OURS = coding_agents.entries()
OTHER = {"hooks": [{"type": "command", "command": "/usr/bin/notify compact hook started"}]}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """The folder of Claude Code's settings, the only ones that are there."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    return tmp_path / "claude"


@pytest.fixture
def file(home):
    home.mkdir()
    return home / "settings.json"


def hooks_in(file):
    return json.loads(file.read_text(encoding="utf-8"))["hooks"]


# --- the text -------------------------------------------------------------------------------------

KEYS = st.sampled_from(("hooks", "PreCompact", "SessionStart", "Stop", "env", 'a"{', ""))
GROUPS = st.lists(st.sampled_from((OTHER, {}, [], "x")), max_size=2)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just("],}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def settings_files(draw):
    """Settings as people and programs write them, or none."""
    value = draw(st.dictionaries(KEYS, VALUES, max_size=3))
    if draw(st.booleans()):
        value["hooks"] = draw(st.dictionaries(KEYS, GROUPS, max_size=3))
    elif not isinstance(value.get("hooks", {}), dict):
        del value["hooks"]
    for event in ("PreCompact", "SessionStart"):
        if not isinstance(value.get("hooks", {}).get(event, []), list):
            del value["hooks"][event]
    text = json.dumps(
        value,
        indent=draw(st.sampled_from((None, 0, 1, 2, 4, "\t"))),
        ensure_ascii=draw(st.booleans()),
        separators=draw(st.sampled_from((None, (",", ":"), (" , ", " : ")))),
    )
    ends = draw(st.sampled_from(("\n", "\r\n")))
    outside = st.sampled_from(("", "\n", " \n"))
    return (draw(outside) + text + draw(outside)).replace("\n", ends)


@pytest.mark.slow
@settings(max_examples=size(100, 3_000), deadline=None)
@given(before=st.just("") | settings_files(), backwards=st.booleans())
def test_what_is_added_and_taken_out_again_leaves_every_byte(before, backwards):
    text = added(before, OURS)
    wanted = json.loads(before or "{}")
    for (outer, event), group in OURS.items():
        wanted.setdefault(outer, {}).setdefault(event, []).append(group)
    assert json.loads(text) == wanted
    left = iter(text)
    assert all(each in left for each in before)  # all of it, in order: nothing but additions
    for keys in list(OURS)[:: -1 if backwards else 1]:
        text = removed(text, keys, coding_agents.is_ours)
    assert text == before


@pytest.mark.parametrize("indent", [2, 4, "\t"])
def test_the_form_is_that_of_the_file(indent):
    text = json.dumps({"model": "opus", "hooks": {"Stop": [OTHER]}}, indent=indent)
    after = added(text, OURS)
    assert after == json.dumps(json.loads(after), indent=indent)


def test_what_a_person_adds_around_it_stays():
    text = added('{\n  "model": "opus"\n}\n', OURS)
    value = json.loads(text)
    value["hooks"]["PreCompact"].insert(0, OTHER)
    value["hooks"]["Stop"] = [OTHER]
    edited = json.dumps(value, indent=2)
    for keys in OURS:
        edited = removed(edited, keys, coding_agents.is_ours)
    left = {"model": "opus", "hooks": {"PreCompact": [OTHER], "Stop": [OTHER]}}
    assert edited == json.dumps(left, indent=2)


# --- the commands ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "before",
    ['{\n  "model": "opus",\n  "permissions": {"allow": ["Bash"]}\n}\n', "{}", '{"hooks":{}}',
     '{\r\n\t"hooks": {\r\n\t\t"PreCompact": []\r\n\t}\r\n}'],
)  # fmt: skip
def test_installed_and_taken_out_without_a_trace(run, file, before, tmp_path):
    file.write_bytes(before.encode())
    file.chmod(0o640)
    done = run("install", "claude-code", "--yes")
    assert (done.code, "Installed for Claude Code" in done.out) == (0, True)
    assert "pre-compact" in done.err  # it is shown
    events = hooks_in(file)
    assert events["PreCompact"][-1] == OURS["hooks", "PreCompact"]
    assert events["SessionStart"][-1] == OURS["hooks", "SessionStart"]
    assert events["SessionStart"][-1]["matcher"] == "compact"
    done = run("uninstall", "claude-code", "--yes")
    assert done.code == 0
    assert file.read_bytes() == before.encode()
    assert file.stat().st_mode & 0o777 == 0o640
    assert sorted(each.name for each in tmp_path.iterdir()) == ["claude"]


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_a_file_that_is_not_there_is_made_and_goes_again(run, tmp_path, host):
    assert run("install", host, "--yes").code == 0
    made = coding_agents.HOSTS[host].file
    assert list(hooks_in(made)) == ["PreCompact", "SessionStart"]
    assert made.read_text(encoding="utf-8").endswith("}\n")
    assert run("uninstall", host, "--yes").code == 0
    assert list(tmp_path.iterdir()) == []


def test_twice_is_once_and_a_moved_installation_is_replaced(run, file):
    assert run("install", "claude-code", "--yes").code == 0
    once = file.read_bytes()
    again = run("install", "claude-code")  # nothing is to be asked
    assert (again.code, file.read_bytes()) == (0, once)
    assert "there already" in again.out
    path = own_command()
    file.write_bytes(once.replace(path.encode(), b"'/old place/compactctl'"))
    assert run("install", "claude-code", "--yes").code == 0
    assert file.read_bytes() == once


def test_other_hooks_stay(run, file):
    before = json.dumps({"hooks": {"PreCompact": [OTHER], "Stop": [OTHER]}}, indent=2).encode()
    file.write_bytes(before)
    run("install", "claude-code", "--yes")
    assert hooks_in(file)["PreCompact"][0] == OTHER
    run("uninstall", "claude-code", "--yes")
    assert file.read_bytes() == before


def test_the_order_of_the_events_in_the_file_is_free(run, file):
    file.write_text(json.dumps({"hooks": {"SessionStart": [OTHER]}}))
    run("install", "claude-code", "--yes")
    assert "there already" in run("install", "claude-code").out
    assert "hooks installed in" in " ".join(run("doctor").out.split())


def test_a_link_stays_a_link(run, file, tmp_path):
    real = tmp_path / "dotfiles.json"
    real.write_text('{"a": 1}')
    file.symlink_to(real)
    run("install", "claude-code", "--yes")
    assert file.is_symlink()
    assert "PreCompact" in real.read_text()
    run("uninstall", "claude-code", "--yes")
    assert file.is_symlink()
    assert real.read_text() == '{"a": 1}'


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (b'{"a": 1,}', "not JSON"),
        (b"// mine\n{}", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"hooks": []}', "hooks is not an object"),
        (b'{"hooks": {"PreCompact": {}}}', "hooks.PreCompact is not a list"),
    ],
)
def test_what_is_not_as_it_should_be_is_left_alone(run, file, wrong, reason):
    file.write_bytes(wrong)
    refused(run("install", "claude-code", "--yes"), reason, "settings.json", "Nothing was changed")
    assert file.read_bytes() == wrong


def test_nothing_is_written_unasked(run, file):
    done = run("install", "claude-code")
    assert (done.code, done.out) == (2, "")
    assert "add --yes" in done.err
    assert not file.exists()
    shown = run("install", "claude-code", "--print")
    assert json.loads(shown.out)["hooks"]["PreCompact"] == [OURS["hooks", "PreCompact"]]
    assert not file.exists()


@pytest.mark.slow
def test_the_command_works_from_any_folder_and_by_any_shell(run, file):
    run("install", "claude-code", "--yes")
    source = str(Path(__file__).resolve().parents[2] / "src")
    for groups in hooks_in(file).values():
        (hook,) = groups[0]["hooks"]
        done = subprocess.run(
            ["sh", "-c", hook["command"]],
            input=b'{"source": "startup"}',
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": source},
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_path_with_a_space_is_quoted(monkeypatch, tmp_path):
    script = tmp_path / "my tools" / "compactctl"
    script.parent.mkdir()
    script.touch()
    monkeypatch.setattr("sys.executable", str(script.with_name("python")))
    assert own_command() == f"'{script}'"
    assert all(coding_agents.is_ours(group) for group in coding_agents.entries().values())


def test_notes_go_with_the_last_host(run, tmp_path):
    notes = tmp_path / "state" / "compact" / "hooks" / "given.jsonl"
    for host in ("claude-code", "codex"):
        run("install", host, "--yes")
    notes.parent.mkdir(parents=True)
    notes.touch()
    run("uninstall", "codex", "--yes")
    assert notes.exists()
    run("uninstall", "claude-code", "--yes")
    assert not (tmp_path / "state" / "compact").exists()


def test_taking_out_what_is_not_there_changes_nothing(run, file):
    file.write_text('{"a": 1}')
    done = run("uninstall", "claude-code")
    assert (done.code, file.read_text()) == (0, '{"a": 1}')
    assert "nothing of ours" in done.out


def test_the_doctor_says_how_it_stands(run, file):
    def found():
        (one,) = json.loads(run("doctor", "--json").out)["hooks"]
        return one["about"], one["state"]

    assert found() == ("claude-code", "note")  # Codex is not here, and not spoken of
    run("install", "claude-code", "--yes")
    assert found() == ("claude-code", "ok")
    settings = json.loads(file.read_text())
    for is_off, state in ((True, "broken"), (False, "ok")):
        file.write_text(json.dumps({**settings, "disableAllHooks": is_off}, indent=2))
        assert found() == ("claude-code", state)
    command = own_command().encode()
    file.write_bytes(file.read_bytes().replace(command, b"/gone/compactctl", 1))
    assert found() == ("claude-code", "broken")
    file.write_text("{")
    assert found() == ("claude-code", "note")

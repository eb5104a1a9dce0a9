"""`compactctl hook`: what Claude Code and Codex are given after a compaction (issue 28)."""

import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from compact.cli.commands import hook as command
from compact.integrations import compaction_hooks
from tests.sizes import size
from tests.transcripts.sessions import assistant, boundary, result, summary, user, written

MOST = 9_000
ROWS = [
    user("Never push to main, always open a pull request."),
    assistant("Understood.", call="c1", name="Write", file_path="/srv/harbour/lamps.py"),
    result("c1", "written"),
    boundary(),
    summary("They work on the harbour."),
    user("Now test the lamps."),
    assistant("", call="c2", command="pytest tests/test_lamps.py"),
    result("c2", "3 passed in 0.1s, lamp_current was read"),
    assistant("All lamps pass.", call="c3", name="Edit", file_path="/srv/harbour/lamps.py"),
    result("c3", "edited"),
]


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """The folder of the records, and everything in this process, with time enough."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delattr(os, "fork", raising=False)
    monkeypatch.setattr(command, "SECONDS", 60.0)
    return tmp_path / "state" / "compact" / "hooks"


@pytest.fixture
def session(tmp_path):
    return written(tmp_path / "s.jsonl", ROWS)


def before(file, session_id="s"):
    """As Claude Code writes it."""
    return json.dumps(
        {
            "session_id": session_id,
            "transcript_path": str(file),
            "cwd": str(Path(file).parent),
            "permission_mode": "default",
            "hook_event_name": "PreCompact",
            "trigger": "auto",
            "custom_instructions": "",
        }
    ).encode()


def after(file, session_id="s", source="compact"):
    """As Claude Code writes it."""
    return json.dumps(
        {
            "session_id": session_id,
            "transcript_path": str(file),
            "cwd": str(Path(file).parent),
            "hook_event_name": "SessionStart",
            "source": source,
            "model": "claude-sonnet-4-5",
        }
    ).encode()


def of_codex(event, file, **more):
    """As Codex writes it: all of its schema's fields."""
    common = {"session_id": "s", "transcript_path": str(file), "cwd": "/srv", "model": "gpt-5.2"}
    return json.dumps({**common, "hook_event_name": event, **more}).encode()


def text_of(done):
    """The text that the host adds to the conversation."""
    assert (done.code, done.err) == (0, ""), done
    answer = json.loads(done.out)
    assert list(answer) == ["hookSpecificOutput"]
    assert answer["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert list(answer["hookSpecificOutput"]) == ["hookEventName", "additionalContext"]
    assert len(done.out) <= MOST
    return answer["hookSpecificOutput"]["additionalContext"]


def given(run, file, **more):
    """What is given after a compaction, or nothing."""
    done = run("hook", "pre-compact", stdin=before(file, **more))
    assert (done.code, done.out, done.err) == (0, "", "")
    return run("hook", "session-start", stdin=after(file, **more))


def test_the_text_is_made_before_and_given_after(run, session, state):
    text = text_of(given(run, session))
    assert "- Never push to main, always open a pull request." in text
    assert "Asked last" in text
    assert "Now test the lamps." in text
    assert "lamps.py" in text
    assert "lamp_current" in text
    assert "Never push" not in "".join(each.read_text() for each in state.iterdir())


def test_it_is_noted_what_was_given_without_a_word_of_it(run, session, state):
    text = text_of(given(run, session))
    (line,) = (state / compaction_hooks.GIVEN).read_text().splitlines()
    note = json.loads(line)
    assert note.pop("time")
    assert note.pop("tokens") > 50
    assert note.pop("seconds") >= 0
    assert note == {
        "host": "claude-code",
        "session": "s",
        "transcript": str(session),
        "uuid": ROWS[-1]["uuid"],
        "characters": len(text),
        "made": "ahead",
    }


def test_it_is_given_once_for_a_compaction_and_again_for_the_next(run, session):
    text_of(given(run, session))
    again = run("hook", "session-start", stdin=after(session))  # as Codex may start late
    assert (again.code, again.out) == (0, "")
    text_of(given(run, session))


@pytest.mark.parametrize("source", ["startup", "resume", "clear", None, 3])
def test_other_starts_are_given_nothing(run, session, source):
    run("hook", "pre-compact", stdin=before(session))
    done = run("hook", "session-start", stdin=after(session, source=source))
    assert (done.code, done.out) == (0, "")
    text_of(run("hook", "session-start", stdin=after(session)))


def test_without_the_text_it_is_made_late(run, session, state):
    text = text_of(run("hook", "session-start", stdin=after(session)))
    assert "- Never push to main" in text
    assert json.loads((state / compaction_hooks.GIVEN).read_text())["made"] == "late"


def test_a_maker_that_died_leaves_nothing_that_would_stop_the_next(run, session, monkeypatch):
    def dies(_):
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(compaction_hooks, "_made", dies)
        done = run("hook", "pre-compact", stdin=before(session))
    assert (done.code, done.out) == (0, "")
    text_of(run("hook", "session-start", stdin=after(session)))


def test_one_session_never_gets_the_text_of_another(run, session, tmp_path):
    other = written(tmp_path / "other.jsonl", [user("Paint the boat."), assistant("Done.")])
    run("hook", "pre-compact", stdin=before(session))
    run("hook", "pre-compact", stdin=before(other, session_id="other"))
    text = text_of(run("hook", "session-start", stdin=after(other, session_id="other")))
    assert "Paint the boat." in text
    assert "lamps" not in text


def test_what_the_text_points_at_can_be_read(run, tmp_path):
    findings = "\n".join(f"- Berth {n} has no lamp, whoever looks for one." for n in range(12))
    rows = [user("Review it."), assistant(f"## Review of the berths\n\n{findings}"), user("Go.")]
    file = written(tmp_path / "a b.jsonl", rows)
    text = text_of(given(run, file))
    short = rows[1]["uuid"][:8]
    assert f"{short} (“Review of the berths”, 12 points)" in text
    assert "expand FILE ID`" in text
    assert f"FILE is '{file}'" in text
    assert "Berth 11 has no lamp" in run("expand", file, short).out
    found = json.loads(run("recall", file, "berth", "lamp", "--json").out)
    assert found["messages"][0]["id"] == rows[1]["uuid"]
    assert not (tmp_path / ".compact").exists()  # nothing is stored


def test_codex_keeps_the_users_messages_itself(run, fixtures, state):
    rollout = fixtures / "codex_cli.jsonl"
    start = of_codex("PreCompact", rollout, trigger="manual", turn_id="t1")
    assert run("hook", "pre-compact", stdin=start).out == ""
    end = of_codex("SessionStart", rollout, source="compact", permission_mode="default")
    text = text_of(run("hook", "session-start", stdin=end))
    assert "## The user said before" not in text
    assert "## Now" in text
    assert json.loads((state / compaction_hooks.GIVEN).read_text())["host"] == "codex"


def test_codex_without_a_transcript_gets_nothing(run):
    end = of_codex("SessionStart", None, source="compact").replace(b'"None"', b"null")
    done = run("hook", "session-start", stdin=end)
    assert (done.code, done.out) == (0, "")


def test_secrets_are_masked(run, tmp_path, state):
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    rows = [user(f"Use the token {token} for pushes."), assistant("Yes."), boundary(), user("Go.")]
    file = written(tmp_path / "s.jsonl", rows)
    assert run("hook", "pre-compact", stdin=before(file)).out == ""
    assert token not in "".join(each.read_text() for each in state.iterdir())
    text = text_of(run("hook", "session-start", stdin=after(file)))
    assert "Use the token <REDACTED" in text


@pytest.mark.parametrize("said", ["„灯塔”的灯\t", "\\\\", "𓀀𓁀", "word "])
def test_no_answer_is_ever_too_long(run, tmp_path, said):
    rows = [user(f"{n} {said * 100}") for n in range(40)]
    rows += [boundary(), user(said * 400), assistant(said * 400), user("And?")]
    text_of(given(run, written(tmp_path / "s.jsonl", rows)))


def test_an_answer_that_json_makes_longer_is_cut(run, session, monkeypatch):
    long = '"\\\n' * 2_900  # 8,700 characters, and twice as many as JSON
    monkeypatch.setattr(compaction_hooks, "_made", lambda _: {"text": long, "host": "codex"})
    assert long.startswith(text_of(run("hook", "session-start", stdin=after(session))))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["claude_code.jsonl", "codex_cli.jsonl"])
def test_damaged_transcripts_give_nothing_or_a_valid_answer(run, fixtures, tmp_path, name):
    whole, file = (fixtures / name).read_bytes(), tmp_path / name
    told = 0
    for seed in range(size(100, 1_000)):
        file.write_bytes(_damaged(whole, random.Random(seed)))
        done = given(run, file, session_id=f"{seed}")
        assert (done.code, done.err) == (0, "")
        if done.out:
            text_of(done)
            told += 1
    assert told  # damage is mostly survived


def _damaged(data, chance):
    for _ in range(chance.randint(1, 4)):
        lines = data.split(b"\n")
        at, byte = chance.randrange(len(lines)), chance.randrange(len(data))
        match chance.randrange(7):
            case 0:
                data = data[:byte]
            case 1:
                data = data[:byte] + chance.randbytes(chance.randint(1, 40)) + data[byte:]
            case 2:
                data = data[:byte] + data[byte + chance.randint(1, 400) :]
            case 3:
                lines[at] = lines[chance.randrange(len(lines))]
                data = b"\n".join(lines)
            case 4:
                lines[at] = chance.choice([b"null", b"[]", b"7", b'"x"', b"{}", b'{"type":1}'])
                data = b"\n".join(lines)
            case 5:
                old, new = chance.choice(_KEYS), chance.choice((*_KEYS, b"null", b"[[{}]]", b"-1"))
                data = data.replace(old, new, chance.randint(1, 9))
            case _:
                data = b"\n".join(lines[::-1] if chance.random() < 0.3 else lines[at:])
        data = data or b"\n"
    return data


_KEYS = (b'"type"', b'"user"', b'"content"', b'"message"', b'"text"', b'"id"', b'"payload"')


@pytest.mark.parametrize("event", ["pre-compact", "session-start", "post-compact", ""])
@pytest.mark.parametrize(
    "given_json",
    [b"", b"{}", b"[]", b"null", b"\xff", b'{"session_id":', b'{"source":"compact"}',
     b'{"source":"compact","session_id":"s"}',
     b'{"source":"compact","session_id":{},"transcript_path":["/"]}',
     b'{"source":"compact","session_id":"s","transcript_path":"/none.jsonl"}'],
)  # fmt: skip
def test_whatever_a_host_writes_the_exit_code_is_0(run, event, given_json):
    done = run("hook", event, stdin=given_json)
    assert (done.code, done.out, done.err) == (0, "", "")


def test_where_nothing_can_be_kept_nothing_is_said(run, session, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    done = given(run, session)
    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_record_that_was_half_written_is_as_none(run, session, state):
    run("hook", "pre-compact", stdin=before(session))
    (record,) = state.glob("*.json")
    record.write_bytes(record.read_bytes()[:40])
    assert "- Never push" in text_of(run("hook", "session-start", stdin=after(session)))


def test_old_records_are_deleted(run, session, state):
    run("hook", "pre-compact", stdin=before(session, session_id="old"))
    (old,) = state.glob("*.json")
    os.utime(old, (0, 0))
    run("hook", "pre-compact", stdin=before(session))
    assert not old.exists()


def test_after_its_time_nothing_is_given(run, session, monkeypatch):
    import threading

    ends = threading.Event()
    monkeypatch.setattr(command, "SECONDS", 0.01)
    monkeypatch.setattr(compaction_hooks, "session_start", lambda _: ends.wait(60) and "late")
    monkeypatch.setattr(os, "_exit", lambda code: (_ for _ in ()).throw(SystemExit(code)))
    done = run("hook", "session-start", stdin=after(session))
    ends.set()
    assert (done.code, done.out) == (0, "")


def test_a_start_waits_while_another_gives(run, session, state, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    run("hook", "pre-compact", stdin=before(session))
    monkeypatch.setattr(command, "SECONDS", 1.0)
    monkeypatch.setattr(os, "_exit", lambda code: None)
    (record,) = state.glob("*.json")
    with record.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        done = run("hook", "session-start", stdin=after(session))
        assert (done.code, done.out) == (0, "")


# --- as processes ---------------------------------------------------------------------------------


def _run(event, stdin):
    root = Path(__file__).resolve().parents[2] / "src"
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "compact", "hook", event],
        input=stdin,
        env={**os.environ, "PYTHONPATH": path},
        cwd="/",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


@pytest.mark.slow
def test_of_two_starts_at_once_one_gives_the_text(session, state):
    assert _run("pre-compact", before(session)) == ""
    (record,) = state.glob("*.json")
    for _ in range(1_200):  # the maker is a process of its own
        if b'"text"' in record.read_bytes():
            break
        time.sleep(0.05)
    with ThreadPoolExecutor(2) as both:
        starts = [both.submit(_run, "session-start", after(session)) for _ in range(2)]
    first, second = sorted(start.result() for start in starts)
    assert first == ""
    assert "Never push" in second

"""Bad input gets one clear line and exit code 2, never a traceback (K-11).

What cannot fit ends with 1, a mistake of ours with 70. The error tests of NFR-4, for people.
"""

import json
import sys

import pytest

from tests.cli.conftest import refused

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ANSWER = {"role": "tool", "tool_call_id": "c1", "content": "x"}

FILES: dict[str, tuple[bytes | str, str]] = {
    "binary": (bytes(range(256)) * 20, "binary"),
    "empty": (b"", "empty"),
    "nan": (b'[{"role": "user", "content": NaN}]', "line 1: broken JSON: NaN"),
    "infinity": (b'[{"role": "user", "content": "a", "x": 1e999}]', "1e999"),
    "cut list": (b'[{"role": "user", "content": "a"}', "broken JSON"),
    "cut object": (b'{"role": "user", "content": ', "broken JSON"),
    "middle line": (
        b'{"role":"user","content":"a"}\nxx\n{"role":"user","content":"b"}\n',
        "line 2",
    ),
    "no messages": (b"[]", "no messages"),
    "unknown": (b'{"hello": "world"}', "unknown format"),
    "number": (b"42", "unknown format"),
    "not utf-8": (b'[{"role": "user", "content": "\xff"}]', "not UTF-8"),
    "utf-16": (b"\xff\xfe{\0\xd8", "UTF-16 that is broken"),
    "too deep": (b"[" * 100_000, "nested too deeply"),
    "wrong role": (json.dumps([{"role": "wizard", "content": "a"}]), "'wizard' is not one of"),
    "no role": (json.dumps([{"role": "user", "content": "a"}, {"content": "b"}]), "messages[1]"),
    "role is a list": (json.dumps([{"role": ["user"], "content": "a"}]), "messages[0]"),
    "content is a number": (json.dumps([{"role": "user", "content": 5}]), "messages[0].content"),
    "message is a text": (json.dumps([{"role": "user", "content": "a"}, "b"]), "messages[1]"),
    "result without call": (json.dumps([{"role": "user", "content": "a"}, ANSWER]), "'c1'"),
    "answered twice": (json.dumps([ASKS, ANSWER, ANSWER]), "answered twice"),
    "id used again": (json.dumps([ASKS, ASKS, ANSWER]), "used again"),
    "tools are no list": (
        json.dumps({"messages": [{"role": "user", "content": "a"}], "tools": 5}),
        "tools",
    ),
}


HUGE = "9" * 5_000


@pytest.mark.parametrize("name", FILES)
def test_a_broken_file_is_refused_in_one_line(run, tmp_path, name):
    content, reason = FILES[name]
    path = tmp_path / "file.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(run("tokens", path), "file.json", reason)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing.json", "no such file"),
        (".", "a directory"),
        ("", "an empty name"),
        ("a\nb", "no such file"),
        ("a\0b", "not a file's name"),
        ("x" * 5_000, "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_opened_is_refused(run, name, reason):
    assert reason in refused(run("tokens", name))


def test_empty_standard_input_is_refused(run):
    assert "standard input: the file is empty" in refused(run("tokens", "-"))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["compact"], "Missing argument 'FILE'"),
        (["compact", "FILE"], "give --max-tokens N"),
        (["compact", "FILE", "--max-tokens", "many"], "'many' is not a whole number"),
        (["compact", "FILE", "--max-tokens", "0"], "'0' is not a whole number"),
        (["compact", "FILE", "--max-tokens", "-5"], "'-5' is not a whole number"),
        (["compact", "FILE", "--max-tokens", "nan"], "'nan' is not a whole number"),
        (["compact", "FILE", "--max-tokens", HUGE], "is not a whole number"),
        (["compact", "FILE", "--max-tokns", "9"], "--max-tokens"),
        (["compact", "FILE", "--max-tokens"], "requires an argument"),
        (["compact", "FILE", "--max-tokens", "9000", "--json"], "give -o OUT"),
        (["compact", "FILE", "--max-tokens", "9000", "-o", ""], "an empty name"),
        (["compact", "FILE", "--max-tokens", "9000", "-o", "FILE"], "--force"),
        (["compact", "FILE", "--max-tokens", "9000", "-o", "."], "a directory"),
        (["compact", "FILE", "--max-tokens", "9000", "-o", "no/such/folder"], "No such file"),
        (["compact", "FILE", "--max-tokens", "9000", "--render", "html"], "'--render'"),
        (
            ["compact", "FILE", "--max-tokens", "9000", "--summarizer", "gpt"],
            "--summarizer: 'gpt' names no",
        ),
        (["tokens", "FILE", "--format", "chatt"], "did you mean 'chat'?"),
        (["tokens", "FILE", "--format", "specstory"], "which specstory is not"),
        (["tokens", "FILE", "--tokenizer", "o20k"], "did you mean 'o200k'?"),
        (["tokens", "FILE", "--tokenizer", "zzz"], "there are o200k"),
        (["tokens", "FILE", "--conversation", "7"], "there is no conversation 7"),
        (["tokens", "FILE", "--conversation", "0"], "'0' is not a whole number"),
        (["tokens", "FILE", "more"], "more"),
        (["dry-run", "FILE", "--max-tokens", "9000", "--pin", "9999"], "messages 0 to 510"),
        (["dry-run", "FILE", "--max-tokens", "9000", "--pin", "511"], "messages 0 to 510"),
        (["dry-run", "FILE", "--max-tokens", "9000", "--pin", "xyzzy!"], "no message contains"),
        (["dry-run", "FILE", "--max-tokens", "9000", "--pin", " "], "an empty text"),
        (["tokens", "FILE", "--config", "none.yaml"], "none.yaml: no such file"),
        (["validate-config", "none.yaml"], "none.yaml: no such file"),
        (["dry-run", "FILE", "--max-tokens", "8000", "--pin", f"-{HUGE}"], "messages 0 to 510"),
        (["recall", "harbour", "tide", "--most", HUGE], "1 to 1,000,000,000"),
        (["show", "harbour", "context", "--window", HUGE], "1 to 1,000,000,000"),
        (["show", "harbour", "history", "--from", HUGE], "0 to 1,000,000,000"),
        (["show", "harbour", "context", "--window", "100"], "--window: should be greater"),
        (["show", "harbour", "--store", ""], "--store: an empty name"),
        (["expand", "harbour", HUGE], "no message"),
        (["sessions", "compress", "harbour", "--target-ratio=0"], "not a share above 0"),
        (["sessions", "compress", "harbour", "--target-ratio=1.1"], "not a share above 0"),
        (["sessions", "compress", "harbour", "--target-ratio=nan"], "not a share above 0"),
    ],
)
def test_bad_usage_gets_one_line_that_says_what_to_do(run, sample, chat, arguments, reason):
    """A number beyond all measure is bad input too: nobody computes with it."""
    given = [str(sample) if argument == "FILE" else argument for argument in arguments]
    given += ["--store", str(chat)] if "harbour" in given and "--store" not in given else []
    line = refused(run(*given))
    assert reason in line
    assert len(line) < 500


def test_a_window_beyond_all_measure_is_refused_in_the_settings_too(run, chat, monkeypatch):
    monkeypatch.setenv("COMPACT_MAX_CONTEXT_TOKENS", "9" * 23)
    line = refused(run("undo", "harbour", "--store", chat))
    assert "max_context_tokens: should be at most 1,000,000,000 (from COMPACT_MAX" in line


@pytest.mark.parametrize("tool", [{"function": 5}, {"function": {"parameters": [1]}}])
def test_tools_that_are_none_are_refused(run, tmp_path, tool):
    value = {"messages": [{"role": "user", "content": "a"}], "tools": [tool]}
    (tmp_path / "a.json").write_text(json.dumps(value))
    for command in (["tokens"], ["sessions", "import"]):
        assert "a.json: tools: one is not a tool schema" in refused(run(*command, "a.json"))


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("COMPACT_TRIGGER_RATOI=0.5", "did you mean 'COMPACT_TRIGGER_RATIO'?"),
        ("COMPACT_TRIGGER_RATIO=70", "trigger_ratio: should be a fraction of 1"),
        ("COMPACT_TOKENIZER=o20k", "tokenizer: no tokenizer named 'o20k'"),
        ("COMPACT_MODEL=nonesuch", "model: no tokenizer is known for the model 'nonesuch'"),
    ],
)
@pytest.mark.parametrize("command", ["tokens", "validate-config", "demo"])
def test_a_wrong_setting_is_named_with_its_variable(
    run, sample, monkeypatch, command, setting, reason
):
    """K-10: the setting, and the variable it came from."""
    variable, _, value = setting.partition("=")
    monkeypatch.setenv(variable, value)
    line = refused(run(command, *([sample] if command == "tokens" else [])))
    assert reason in line
    assert variable in line


def test_an_env_file_that_is_no_text_is_refused(run, tmp_path):
    (tmp_path / ".env").write_bytes(b"COMPACT_MODEL=\xff")
    assert ".env: not UTF-8 text" in refused(run("demo"))


@pytest.mark.parametrize("command", ["compact", "dry-run", "diff"])
def test_what_cannot_fit_ends_with_1_and_the_breakdown(run, sample, command):
    """FR-3: the error shows the floor, part by part, and what to do."""
    line = refused(run(command, sample, "--max-tokens", "300"), code=1)
    for words in (
        "cannot fit 300 tokens",
        "system prompt ",
        "pins ",
        "Raise the limit (--max-tokens",
    ):
        assert words in line


def test_a_mistake_of_ours_is_one_line_too_and_a_traceback_when_asked_for(run, monkeypatch, sample):
    """Only the top level catches everything; 70 is no code of bad input."""
    from compact import wiring

    def broken(*_, **__):
        raise RuntimeError("oh\nno")

    monkeypatch.setattr(wiring, "read_transcript", broken)
    assert "RuntimeError: oh no (COMPACT_TRACEBACK=1" in refused(run("tokens", sample), code=70)
    monkeypatch.setenv("COMPACT_TRACEBACK", "1")
    told = run("tokens", sample)
    assert told.code == 70
    assert "Traceback (most recent call last)" in told.err
    assert "in broken\n" in told.err


@pytest.mark.slow
def test_closed_standard_streams_are_no_traceback(process, sample, tmp_path):
    code = (
        "import os, sys; os.close({0}); sys.std{1} = None; "
        "from compact.cli.main import main; sys.exit(main({2!r}))"
    )
    import os
    import subprocess

    for number, name in ((1, "out"), (2, "err")):
        arguments = ["compact", str(sample), "--max-tokens", "8000"]
        command = [sys.executable, "-c", code.format(number, name, arguments)]
        env = {**os.environ, "PYTHONPATH": str(sample.parents[3])}
        done = subprocess.run(command, capture_output=True, env=env, check=False, text=True)
        assert "Traceback" not in done.stderr
        assert done.returncode == (2 if name == "out" else 0), done.stderr

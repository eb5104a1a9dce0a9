"""The commands do what they say: compact, dry-run, diff, tokens, validate-config, demo (K-11)."""

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import compact
from compact import plan, wiring
from compact.cli.entry import run as run_command
from compact.cli.helping import GONE, GONE_OPTIONS
from compact.cli.main import COMMANDS, HELP
from compact.messages.events import STAGES
from compact.tui.slash import NAMES

DIGEST = re.compile(r"digest \w+")
"""Made with a key of the process, or of the person."""


def messages_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def tokens_of(path, tokenizer="o200k"):
    read = wiring.read_transcript(path)
    counter = wiring.token_counter(read.wire, tokenizer=tokenizer)
    return counter.messages(read.messages) + counter.tools(read.tools)


def test_the_paths_of_0_1_still_lead_to_the_command():
    """For one release: `python -m compact.apps.cli.main`, and the entry point of an old install."""
    command = [sys.executable, "-m", "compact.apps.cli.main", "--version"]
    env = {**os.environ, "PYTHONPATH": str(Path(compact.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, check=True, text=True, env=env)
    assert done.stdout.strip().endswith(str(compact.__version__))
    assert import_module("compact.apps.cli.entry").run is run_command


# --- every command --------------------------------------------------------------------------------


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - {"hook"}))  # other programs call it
def test_every_command_explains_itself_with_examples_and_speaks_json(run, command):
    """K-11: --help with examples, and --json, everywhere."""
    help_text = run(*command.split(), "--help").out
    assert "Examples:\n    compactctl" in help_text or "\n    COMPACT_" in help_text
    assert f"compactctl {command}" in help_text
    assert "--json" in help_text


def test_there_are_36_commands(run):
    assert len(COMMANDS) == 36
    code, out, _ = run()
    assert (code, HELP.splitlines()[0] in out) == (0, True)
    assert run("sessions").code == 0


@pytest.mark.parametrize("command", GONE)
def test_a_command_that_went_says_where_it_went(run, command):
    """For one release: in one line, with exit code 2; what it names is there."""
    done = run(*command.split(), "harbour", "--json")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"the command {command} is gone; use instead: " in done.err
    assert command not in COMMANDS
    for named in re.findall(r"compactctl ((?:sessions |memory )?[a-z-]+)", GONE[command]):
        assert named in COMMANDS
    for owner, method in re.findall(r"(\w+Manager)\.(\w+)\(", GONE[command]):
        assert hasattr(getattr(compact, owner), method)
    for slash in re.findall(r"/(\w+) in compactctl chat", GONE[command]):
        assert slash in NAMES


@pytest.mark.parametrize("option", GONE_OPTIONS)
def test_an_option_that_went_says_what_to_use(run, option):
    *command, name = option.split()
    done = run(*command, f"{name}=8000", "harbour")
    assert (done.code, done.out) == (2, "")
    assert (
        done.err
        == f"compactctl: the option {option} is gone; use instead: {GONE_OPTIONS[option]}\n"
    )
    assert name not in run(*command, "--help").out


def test_the_version_is_that_of_the_distribution(run):
    from importlib.metadata import PackageNotFoundError, version

    try:
        wanted = version("compactctl")
    except PackageNotFoundError:
        pytest.skip("not installed, only on the path")
    assert run("--version") == (0, f"compactctl {wanted}\n", "")


# --- compact --------------------------------------------------------------------------------------


def test_compact_writes_a_file_that_fits_in_the_same_format(run, sample, tmp_path):
    """K-11, FR-3: the result is counted as a whole and fits; the report is on stderr alone."""
    out = tmp_path / "out.jsonl"
    code, stdout, err = run("compact", sample, "--max-tokens", "8000", "-o", out)
    assert (code, stdout) == (0, "")
    assert 0.9 * 8000 <= tokens_of(out) <= 8000
    roles = [message["role"] for message in messages_of(out)]
    assert roles[:2] == ["system", "user"]
    assert messages_of(out)[0] == messages_of(sample)[0], "the system prompt, unknown fields too"
    assert "summarize" in err
    assert "at most 8,000 tokens" in err
    assert f"wrote {out}" in err


def test_compact_reads_standard_input(run, sample):
    stdin = sample.read_bytes()
    piped = run("compact", "-", "--max-tokens", "8000", stdin=stdin)
    assert piped.out == run("compact", sample, "--max-tokens", "8000").out
    assert all(json.loads(line) for line in piped.out.splitlines()), "data and nothing else"
    assert "\nstandard input\n" in piped.err


def test_what_fits_comes_back_byte_for_byte(run, fixtures):
    file = fixtures / "chat_object.json"
    code, out, err = run("compact", file, "--max-tokens", "8000")
    assert (code, out) == (0, file.read_text(encoding="utf-8"))
    assert "nothing was changed" in err


def test_render_text_prints_exactly_what_a_model_sees(run, sample):
    """K-11: tokens mean the model-visible text; --render text is that text."""
    code, out, _ = run("compact", sample, "--max-tokens", "8000", "--render", "text")
    made = plan(messages_of(sample), max_tokens=8000)
    assert code == 0
    assert DIGEST.sub("", out) == DIGEST.sub("", made.context.render_text() + "\n")
    assert wiring.token_counter("chat_completions").text(out) <= made.tokens_after


@pytest.mark.parametrize("pin", ["20", "-491", "m20", "Local time is easiest for him"])
def test_a_pinned_message_stays_word_for_word(run, sample, tmp_path, pin):
    """K-4: what is pinned is never pruned; by number, from the end, by id, by text."""
    wanted = messages_of(sample)[20]
    assert "Local time is easiest for him" in wanted["content"]
    out = tmp_path / "out.jsonl"
    assert run("compact", sample, "--max-tokens", "8000", "-o", out, "--pin", pin).code == 0
    assert wanted in messages_of(out)


def test_what_a_model_shall_keep_is_not_dropped_in_silence(run, sample):
    done = run("compact", sample, "--max-tokens", "8000", "--keep", "the berths")
    assert "--keep has no effect" in done.err
    assert "--keep" not in run("compact", sample, "--max-tokens", "8000").err


def test_the_limit_may_come_from_the_settings(run, sample, tmp_path):
    """K-10, C-7: the window's usable part, not the window."""
    (tmp_path / "c.yaml").write_text("max_context_tokens: 8000\n")
    done = run("dry-run", sample, "--config", tmp_path / "c.yaml", "--json")
    assert json.loads(done.out)["limit"] == 7_000
    asked = run("dry-run", sample, "--config", "c.yaml", "--max-tokens", "6,000", "--json")
    assert json.loads(asked.out)["limit"] == 6_000


@pytest.mark.slow
def test_events_are_json_lines_on_stderr(run, sample):
    """K-8, FR-5: events of the six stages, when asked for."""
    done = run("dry-run", sample, "--max-tokens", "8000", "--events")
    events = [json.loads(line) for line in done.err.splitlines()]
    stages = [event["stage"] for event in events if event["name"] == "compact.stage_started"]
    assert stages == list(STAGES)
    assert run("dry-run", sample, "--max-tokens", "8000").err == ""


def test_one_of_several_conversations_is_chosen_by_number(run, fixtures):
    file = fixtures / "chat_conversations.jsonl"
    one, two = (run("compact", file, "--max-tokens", "9000", "--conversation", n) for n in (1, 2))
    assert one.code == two.code == 0
    assert one.out != two.out
    assert {one.out, two.out} <= set(file.read_text(encoding="utf-8").splitlines(keepends=True))


@pytest.mark.parametrize("option", [(), ("--tokenizer", "o200k")])
def test_an_estimate_is_called_one_with_its_margin(run, fixtures, option):
    """K-3: Anthropic messages are estimated, unless a tokenizer is chosen."""
    file = fixtures / "claude_code.jsonl"
    err = run("compact", file, "--max-tokens", "9000", *option).err
    assert ("o200k, exact" in err) == bool(option)
    assert bool(re.search(r"claude, an estimate, about \d+% above", err)) != bool(option)
    told = json.loads(run("tokens", file, "--json", *option).out)
    assert (told["exact"], told["margin"] > 0.1) == (bool(option), not option)


# --- dry-run --------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [4_000, 8_000, 40_000, 100_000])
def test_the_plans_numbers_add_up(run, sample, limit):
    plan_of = json.loads(run("dry-run", sample, "--max-tokens", limit, "--json").out)
    assert plan_of["limit"] == limit
    assert sum(plan_of["window"].values()) == limit
    assert all(tokens >= 0 for tokens in plan_of["window"].values())
    assert plan_of["tokens_after"] + plan_of["window"]["free"] == limit
    assert sum(n for row in plan_of["fates"].values() for n in row.values()) == 511
    names = [rung["name"] for rung in plan_of["rungs"]]
    assert not plan_of["unchanged"], "the sample's crashed call is answered by a note"
    assert (names == ["close"]) == (limit == 100_000)


# --- diff -----------------------------------------------------------------------------------------


def test_diff_accounts_for_every_message_and_every_token(run, sample):
    """K-11: what went where, message by message."""
    shown = json.loads(run("diff", sample, "--max-tokens", "12000", "--json").out)
    rows = shown["messages"]
    assert [row["number"] for row in rows if row["number"] is not None] == list(range(511))
    framing = shown["window"]["tools and framing"]
    assert sum(row["tokens_after"] for row in rows) + framing == shown["tokens_after"]
    assert sum(row["tokens_before"] for row in rows) + framing == shown["tokens_before"]
    by_fate = {row["fate"]: row for row in rows}
    assert by_fate["covered"]["tokens_after"] == 0
    assert by_fate["masked"]["tokens_after"] < by_fate["masked"]["tokens_before"]
    assert by_fate["checkpoint"]["number"] is None
    for row in rows:
        if row["number"] is not None:
            assert row["why"].startswith(row["fate"]), "the reason is of what became of it"


def test_nothing_a_conversation_holds_steers_the_terminal(run, tmp_path):
    """Escape sequences in a message are shown, not obeyed; markup is text."""
    evil = "\x1b]0;owned\x07\x1b[2J[bold red]hi[/] \u202e"
    (tmp_path / "e.json").write_text(json.dumps([{"role": "user", "content": evil}]))
    out = run("diff", "e.json", "--max-tokens", "800").out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "\u202e" not in out
    assert "[bold red]hi[/]" in out


# --- tokens ---------------------------------------------------------------------------------------


def test_every_token_is_counted_once(run, fixtures, transcript):
    """FR-3: the kinds together are the whole prompt."""
    told = json.loads(run("tokens", fixtures / transcript, "--tokenizer", "o200k", "--json").out)
    assert told["tokens"] == tokens_of(fixtures / transcript)
    assert sum(kind["tokens"] for kind in told["kinds"].values()) == told["tokens"]


def test_tokens_are_told_apart_by_kind_and_by_tool(run, sample):
    """K-11: where the window goes."""
    told = json.loads(run("tokens", sample, "--json").out)
    kinds = told["kinds"]
    assert told["exact"]
    assert kinds["tool_results"]["pieces"] == 215
    assert kinds["images"]["pieces"] == 1
    by_tool = told["tools"]
    calls_and_results = sum(t["call_tokens"] + t["result_tokens"] for t in by_tool.values())
    assert calls_and_results == kinds["tool_calls"]["tokens"] + kinds["tool_results"]["tokens"]
    assert next(iter(by_tool)) == "run_shell", "the costliest first"
    shown = run("tokens", sample).out
    assert "run_shell" in shown
    assert "o200k, exact" in shown


def test_what_a_tool_injected_is_not_a_persons(run, tmp_path):
    text = "Hi there.\n<system-reminder>Do not forget the milk.</system-reminder>"
    (tmp_path / "a.json").write_text(json.dumps([{"role": "user", "content": text}]))
    kinds = json.loads(run("tokens", "a.json", "--json").out)["kinds"]
    assert kinds["person"]["tokens"] == 3
    assert kinds["injected"]["tokens"] > 5


# --- validate-config ------------------------------------------------------------------------------


def test_validate_config_shows_each_setting_and_where_it_came_from(run, tmp_path, monkeypatch):
    """K-10: file, then .env, then environment; only the command line reads .env."""
    (tmp_path / "c.yaml").write_text("trigger_ratio: 0.5\nkeep_tool_pairs: 9\nmodel: gpt-4o\n")
    (tmp_path / ".env").write_text(
        "SECRET=x\n# a comment\nexport COMPACT_KEEP_TOOL_PAIRS='8'\n"
        "COMPACT_TARGET_RATIO=0.3 # why\n"
    )
    monkeypatch.setenv("COMPACT_TARGET_RATIO", "0.2")
    told = json.loads(run("validate-config", "c.yaml", "--json").out)
    settings = told["settings"]
    assert settings["trigger_ratio"] == {"value": 0.5, "from": "c.yaml"}
    assert settings["keep_tool_pairs"] == {"value": 8, "from": "COMPACT_KEEP_TOOL_PAIRS in .env"}
    assert settings["target_ratio"] == {"value": 0.2, "from": "COMPACT_TARGET_RATIO"}
    assert settings["keep_user_messages"]["from"] == "default"
    assert told["usable"] == 123_904  # without the room for an answer
    shown = run("validate-config", "c.yaml").out
    assert "123,904" in shown
    assert "All settings are valid." in shown


# --- demo -----------------------------------------------------------------------------------------


def test_the_sample_can_be_had_as_a_file(run, sample, tmp_path):
    """Somebody new has no conversation at hand; nothing else is ever replaced by it."""
    for _ in range(2):
        done = run("demo", "--save", "harbour.jsonl")
        assert (done.code, done.out) == (0, "")
        assert "wrote harbour.jsonl (" in done.err
        assert (tmp_path / "harbour.jsonl").read_bytes() == sample.read_bytes()
    told = json.loads(run("demo", "--save", "other.jsonl", "--json").out)
    assert told == {"saved": "other.jsonl", "bytes": sample.stat().st_size}
    (tmp_path / "mine.jsonl").write_text("mine")
    done = run("demo", "--save", "mine.jsonl")
    assert (done.code, "mine.jsonl already exists" in done.err) == (2, True)
    assert (tmp_path / "mine.jsonl").read_text() == "mine"
    assert "an empty name" in run("demo", "--save", "").err
    assert "compactctl demo --save harbour.jsonl" in run("demo").out


@pytest.mark.parametrize("name", ["gemini_cli.json", "specstory_claude.md"])
def test_what_will_be_written_is_what_is_counted(run, fixtures, name):
    """Chat completions have no place for reasoning: it is not counted, and a note says so."""
    done = run("compact", fixtures / name, "--max-tokens", "9000", "-o", "out.jsonl", "--json")
    report = json.loads(done.out)
    assert any("of reasoning, which chat completions" in note for note in report["notes"])
    written = json.loads(run("tokens", "out.jsonl", "--json").out)
    assert written["tokens"] == report["tokens_after"] == report["tokens_before"]
    assert written["messages"] == report["messages_after"]
    read = json.loads(run("tokens", fixtures / name, "--json").out)
    assert read["tokens"] == written["tokens"] + read["kinds"]["reasoning"]["tokens"]

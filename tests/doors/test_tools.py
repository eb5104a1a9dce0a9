"""K-10, K-11, K-16 and A-3 as they are written: settings, command line, gates."""

import json
import re
from pathlib import Path

import pytest

from compact import (
    CompactConfig,
    CompactError,
    compress,
)
from tests.doors.talking import QUICK, STORY, chat_key, session, size_of, turns, words_of
from tests.scripted import ScriptedServer

ROOT = Path(__file__).resolve().parents[2]


ROOT = Path(__file__).resolve().parents[2]


# --- K-10 -----------------------------------------------------------------------------------------


def test_settings_are_layered_and_errors_name_the_field(tmp_path):
    """K-10: "YAML/JSON file, `COMPACT_*` environment overrides (flat names), defaults, errors that
    name the field"; "percentages are fractions 0–1".
    """
    for name, text in (
        ("a.yaml", "trigger_ratio: 0.8\nkeep_tool_pairs: 2\n"),
        ("a.json", '{"trigger_ratio": 0.8, "keep_tool_pairs": 2}'),
    ):
        file = tmp_path / name
        file.write_text(text)
        config = CompactConfig.load(file, environ={"COMPACT_KEEP_TOOL_PAIRS": "3"})
        assert (config.trigger_ratio, config.keep_tool_pairs, config.target_ratio) == (0.8, 3, None)
    for wrong in ({"trigger_ratio": 80}, {"trigger_ptc": 0.8}, {"keep_tool_pairs": "many"}):
        with pytest.raises(CompactError, match=next(iter(wrong))):
            CompactConfig.load(environ={}, **wrong)


def test_every_option_is_documented_and_there_is_an_example_file(run):
    """K-10: "example file; every option documented"."""
    page = (ROOT / "docs" / "configuration.md").read_text()
    example = (ROOT / "examples" / "compact.yaml").read_text()
    for name in CompactConfig.names():
        assert f"`{name}`" in page
        assert re.search(rf"^{name}:", example, re.M), name
    assert run("validate-config", ROOT / "examples" / "compact.yaml").code == 0


# --- K-11 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["dry-run", "diff", "compact"])
def test_the_command_line_has_its_commands(run, tmp_path, command):
    """K-11: "CLI `compactctl`: `dry-run`, `diff`, `compact`, `validate-config`"."""
    file = tmp_path / "talk.json"
    file.write_text(json.dumps(list(turns(30))))
    done = run(command, file, "--max-tokens", "3000")
    assert done.code == 0, done
    assert done.out
    assert run(command, file, "--max-tokens", "100").code == 1, "cannot fit"
    assert run(command, "nothing.jsonl", "--max-tokens", "100").code == 2, "bad input"


# --- K-16 -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_session_of_three_times_the_window_is_served():
    """K-16: "a session of three times the window"."""
    ctx = session()
    messages = list(turns(60, words=100))
    assert size_of(messages) > 3 * 4_096
    for i in range(0, len(messages), 2):
        ctx.add_messages(messages[i : i + 2])
        assert size_of(ctx.get_context_for_model()) <= 4_096


@pytest.mark.parametrize("share", [0.40, 0.70, 0.93])
def test_asked_for_it_frees_at_least_forty_percent(share):
    """K-16: "`/compact` frees at least 40 %", also of a context that is not half full."""
    ctx, number = session(window=16_384), 0
    while ctx.budget.used_tokens < share * ctx.window.trigger:
        ctx.add_messages(list(turns(2, start=number)))
        number += 2
    before = size_of(ctx.get_context_for_model())
    done = ctx.compress_conversation()
    assert size_of(ctx.get_context_for_model()) <= 0.6 * before
    assert done.explain()


def test_where_little_can_be_freed_the_plan_says_why():
    """K-16: a context of little else than what may not be shortened."""
    ctx = session()
    ctx.add_message(role="system", content="You keep the harbour's ledger. " * 200)
    ctx.add_message(role="user", content="Begin.")
    words = ctx.compress_conversation().explain()
    assert re.search(r"are all there is", words), words


def test_types_and_style_are_gates():
    """K-16: "mypy strict, ruff": what checks them is in the project."""
    project = (ROOT / "pyproject.toml").read_text()
    assert re.search(r"^\[tool\.mypy\]$.*?^strict = true$", project, re.M | re.S)
    gates = (ROOT / ".ci" / "run").read_text() + (ROOT / "tasks.py").read_text()
    assert "mypy" in gates
    assert "ruff" in gates


# --- A-3 ------------------------------------------------------------------------------------------


def test_quotes_facts_and_decisions_survive_without_a_model():
    """A-3: "key sentences by deterministic scoring …; without a model the extractive path alone.
    Quotes, facts and decisions survive."
    """
    told = [
        "Never moor a ship at pier 7.",
        'The keeper said "the lamp goes out at four" and left.',
        "We decided to keep the ledger in SQLite.",
        "The harbour is 417 metres long.",
    ]
    messages = []
    for i, fact in enumerate(told):
        messages.append({"role": "user", "content": fact})
        messages += turns(6, start=6 * i)
    out = words_of(compress([*messages, *turns(12, start=40)], max_tokens=2_500))
    for sign in ("Never moor a ship at pier 7", "the lamp goes out at four", "SQLite", "417"):
        assert sign in out


def test_abstractive_by_a_model_and_extractive_beside_it():
    """A-3: "Hybrid of extractive and abstractive": a model tells the story, code the rules."""
    with ScriptedServer(STORY) as server:
        ctx = session(summarizer=chat_key(server), patience=QUICK)
        ctx.add_message(role="user", content="Never touch the folder vendor.")
        ctx.add_messages(list(turns(15, words=100)))
        words = words_of(ctx.get_context_for_model())
    assert "the new scheduler read them all" in words
    assert "Never touch the folder vendor." in words

"""K-1 to K-5 as they are written: the compaction kit."""

import importlib
import json
import re
import socket
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import compact
from compact import (
    CompactConfig,
    CompactError,
    CompactManager,
    CompactPolicy,
    NoopEstimator,
    TiktokenEstimator,
    compress,
    plan,
    protocols,
    testing,
)
from compact.testing import check_token_estimator
from tests import checker
from tests.doors.talking import (
    QUICK,
    STORY,
    Dict,
    Listener,
    called,
    chat_key,
    session,
    size_of,
    turns,
    verbatim,
)
from tests.scripted import Busy, ScriptedServer
from tests.telemetry.ariadne_server import AriadneServer
from tests.telemetry.collector import Collector

ROOT = Path(__file__).resolve().parents[2]


# --- K-1 ------------------------------------------------------------------------------------------


def test_the_package_is_a_proper_one():
    """K-1: "pyproject with the setuptools build backend, uv and its lock, `requirements.txt` and
    `requirements-dev.txt` …, examples, docs, .gitignore (`.venv/`, caches, `.compact/`)".
    """
    project = (ROOT / "pyproject.toml").read_text()
    assert 'build-backend = "setuptools.build_meta"' in project
    assert "line-length = 100" in project
    assert 'target-version = "py311"' in project
    for name in (
        "uv.lock",
        "requirements.txt",
        "requirements-dev.txt",
        "examples",
        "docs",
        "tests",
    ):
        assert (ROOT / name).exists(), name
    ignored = (ROOT / ".gitignore").read_text()
    assert all(name in ignored for name in (".venv/", ".compact/", "__pycache__"))
    assert "uv venv && uv pip install ." in (ROOT / "README.md").read_text()


def test_a_dot_env_file_is_read(run, tmp_path):
    """K-1, K-10: "a `.env` file read"; "only the command line reads `.env`"."""
    (tmp_path / ".env").write_text("COMPACT_KEEP_TOOL_PAIRS=7\n")
    done = run("validate-config", "--json")
    assert done.code == 0, done
    assert json.loads(done.out)["settings"]["keep_tool_pairs"]["value"] == 7
    assert CompactConfig.load().keep_tool_pairs == 4


# --- K-2 ------------------------------------------------------------------------------------------


def published(name):
    """A name where users find it: in `compact`, or in the one module that has all protocols."""
    for module in ("compact", "compact.protocols", "compact.messages.protocols"):
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise AssertionError(f"nobody publishes {name}")


@pytest.mark.parametrize("name", ["TokenEstimator", "StorageAdapter", "Exporter", "Summarizer"])
def test_the_protocols_are_published_under_the_names_users_know(name):
    """K-2: "protocols `TokenEstimator`, `StorageAdapter`, `Exporter`, `Summarizer`"."""
    assert getattr(published(name), "_is_protocol", False)
    assert len(compact.__all__) <= 39


def test_what_a_published_suite_tests_is_published():
    """Issue 13: "the four protocols as published extension points with conformance suites"."""
    suites = [name.removeprefix("check_") for name in dir(testing) if name.startswith("check_")]
    ports = {suite.title().replace("_", "") for suite in suites}
    assert {"TokenEstimator", "StorageAdapter", "Exporter", "Summarizer"} <= ports
    assert ports <= {*protocols.__all__}


def test_policy_and_config_hold_what_they_are_said_to_hold():
    """K-2: "`CompactPolicy` (trigger thresholds, keep counts, strategy), `CompactConfig` (model,
    max context tokens, adapters)".
    """
    policy = CompactPolicy(
        trigger_ratio=0.6,
        trigger_tokens=9_000,
        keep_user_messages=5,
        keep_tool_pairs=2,
        keep_recent_turns=3,
        strategy="brief",
    )
    config = CompactConfig(
        model="gpt-4o",
        max_context_tokens=32_000,
        store="chat.db",
        summarizer="extractive",
        console_events=True,
    )
    window = config.window()
    assert window
    assert window.size == 32_000
    for wrong in (lambda: CompactConfig(model=["x"]), lambda: CompactConfig(trigger_ratio=70)):
        with pytest.raises(CompactError, match=r"model|trigger_ratio"):
            wrong()
    with pytest.raises(ValueError, match="frozen"):
        setattr(policy, "strategy", "off")  # noqa: B010 - types forbid it too


def before(messages, **options):
    """Tokens of a prompt as it is."""
    return plan(messages, max_tokens=1_000, **options).tokens_before or 0


def test_what_users_write_by_the_protocols_is_used():
    """K-2: by shape, no base class needed."""

    class Letters:
        name, exact = "letters", True

        def count(self, text):
            return len(text)

    messages = [{"role": "user", "content": "x" * 500}]
    assert before(messages, tokenizer=Letters()) >= 500
    check_token_estimator(Letters())


# --- K-8 ------------------------------------------------------------------------------------------

LONG = [
    {"role": role, "content": f"Gate {i} is painted blue, then sealed. " * 12}
    for i in range(40)
    for role in ("user", "assistant")
]


class Down:
    """A summarizer that never answers."""

    name, waits = "down", False

    async def summarize(self, request):
        raise ConnectionError("nobody there")


def reported(**options):
    """Events of a compression."""
    heard: list[Any] = []
    config = CompactConfig(max_context_tokens=4_000, **options)
    with CompactManager(config, on_event=heard.append, summarizer=Down()) as manager:
        manager.preflight("s-8", LONG)
    return {event.name: event for event in heard}


def test_each_decision_is_an_event():
    """K-8: "Events `compact.token_estimate`, `compact.trigger_decision` (with the policy that was
    applied), `compact.summary_created`, `compact.pruned_messages`, `compact.error` …, with
    timestamps, session id, counts".
    """
    found = reported(keep_tool_pairs=3)
    estimate, decision = found["compact.token_estimate"], found["compact.trigger_decision"]
    assert estimate.tokens > estimate.limit
    assert estimate.messages == 80
    assert decision.policy.keep_tool_pairs == 3
    assert found["compact.summary_created"].summary
    assert found["compact.pruned_messages"].covered > 10
    assert found["compact.error"].error == "ConnectionError"
    assert all(event.session_id == "s-8" and event.at.tzinfo for event in found.values())


def wait(is_there):
    """Until something is there that a thread sends."""
    until = time.monotonic() + 60
    while not is_there():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_exporters_are_configured_like_everything_else(monkeypatch, capfd):
    """K-8: "Exporters: console (JSON lines on stderr), Ariadne HTTP …, OTLP"."""
    monkeypatch.setenv("COMPACT_CONSOLE_EVENTS", "true")
    with closing(AriadneServer()) as ariadne, closing(Collector()) as collector:
        monkeypatch.setenv("COMPACT_ARIADNE_URL", ariadne.url)
        monkeypatch.setenv("COMPACT_OTLP_ENDPOINT", collector.url)
        with CompactManager(CompactConfig.load()) as manager:
            manager.preflight("s-8", LONG)
            wait(lambda: "compact.compression" in {span["name"] for span in ariadne.spans()})
            wait(lambda: "compact.compression" in {span.name for span in collector.spans})
        named = {span["name"] for span in ariadne.spans()}
        assert {span.name for span in collector.spans} == named
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert {line["name"] for line in lines} - named == {"compact.stage_started"}
    assert {line["session_id"] for line in lines} == {"s-8"}


def test_events_are_a_tree_in_ariadne(monkeypatch):
    """K-15: "events render as a trace tree …, privacy of summary payloads"."""
    with closing(AriadneServer()) as ariadne:
        monkeypatch.setenv("COMPACT_ARIADNE_URL", ariadne.url)
        with CompactManager(CompactConfig.load()) as manager:
            manager.preflight("s-15", LONG)
            wait(lambda: "compact.compression" in {span["name"] for span in ariadne.spans()})
        spans = {span["span_id"]: span for span in ariadne.spans()}
    (whole,) = (span for span in spans.values() if span["name"] == "compact.compression")
    within = [span for span in spans.values() if span.get("parent_id") == whole["span_id"]]
    assert {span["kind"] for span in within} == {"stage", "event"}
    (made,) = (span for span in within if span["name"] == "compact.summary_created")
    assert "output" not in made["data"]
    assert "summary" not in made["data"]


# --- K-3 ------------------------------------------------------------------------------------------

KNOWN = [
    ("gpt-4", "antidisestablishmentarianism", 6),
    ("gpt-4", "2 + 2 = 4", 7),
    ("gpt-4", "お誕生日おめでとう", 9),
    ("gpt-4o", "antidisestablishmentarianism", 6),
    ("gpt-4o", "2 + 2 = 4", 7),
    ("gpt-4o", "お誕生日おめでとう", 8),
]
"""From OpenAI's cookbook, "How to count tokens with tiktoken"."""
COOKBOOK = [
    ("system", None, "You are a helpful, pattern-following assistant that translates corporate "
     "jargon into plain English."),
    ("system", "example_user", "New synergies will help drive top-line growth."),
    ("system", "example_assistant", "Things working well together will increase revenue."),
    ("system", "example_user", "Let's circle back when we have more bandwidth to touch base on "
     "opportunities for increased leverage."),
    ("system", "example_assistant", "Let's talk later when we're less busy about how to do "
     "better."),
    ("user", None, "This late pivot means we don't have time to boil the ocean for the client "
     "deliverable."),
]  # fmt: skip


@pytest.fixture
def offline(monkeypatch):
    """No way to the network."""

    def refused(*_):
        raise OSError("this machine is offline")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)


@pytest.mark.parametrize(("model", "text", "tokens"), KNOWN)
def test_the_estimator_of_a_model_counts_as_is_known(model, text, tokens, offline):
    """K-3: "`TiktokenEstimator` (model-specific encoding …)"; "tests against known counts. Works on
    a machine that is offline."
    """
    estimator = TiktokenEstimator(model)
    assert estimator.exact
    assert estimator.count(text) == tokens


@pytest.mark.parametrize(("model", "tokens"), [("gpt-4", 129), ("gpt-4o", 124)])
def test_a_whole_prompt_counts_as_is_known(model, tokens, offline):
    """K-3: "message framing": OpenAI's own example, by its own API's numbers."""
    messages = [{"role": r, "content": c} | ({"name": n} if n else {}) for r, n, c in COOKBOOK]
    assert before(messages, model=model) == tokens


def test_system_prompt_and_tool_schemas_are_counted():
    """K-3: "system prompt and tool schemas counted"."""
    messages, tool = (
        [{"role": "user", "content": "Hello."}],
        {
            "type": "function",
            "function": {"name": "tide", "description": "Tells the tide.", "parameters": {}},
        },
    )
    alone = before(messages)
    system = before(messages, system="Be kind. " * 50)
    tools = before(messages, tools=[tool])
    assert system >= alone + checker.tokens("Be kind. " * 50)
    assert tools >= alone + checker.tokens("tide") + checker.tokens("Tells the tide.")


def test_the_other_estimator_needs_nothing():
    """K-3: "`NoopEstimator`": an estimate, not below what is exact where people talk."""
    estimator = NoopEstimator()
    assert not estimator.exact
    for text in (STORY, KNOWN[2][1], *(words for _, _, words in COOKBOOK)):
        assert estimator.count(text) >= checker.tokens(text)
    check_token_estimator(estimator)
    check_token_estimator(TiktokenEstimator("o200k"))


# --- K-4 ------------------------------------------------------------------------------------------


def worked(count):
    """A developer's session: at each turn a call and its result."""
    for i in range(count):
        function = {"name": "read", "arguments": json.dumps({"path": f"src/part_{i}.py"})}
        yield {"role": "user", "content": f"Look into part {i} of the ledger."}
        yield {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"c{i}", "type": "function", "function": function}],
        }
        yield {"role": "tool", "tool_call_id": f"c{i}", "content": f"line of part {i}\n" * 60}
        yield {"role": "assistant", "content": f"Part {i} has sixty lines."}


def test_what_is_protected_is_never_pruned_and_pairs_stay_together():
    """K-4: "Partition: pinned, recent, tool I/O, remainder"; "what is protected is never pruned";
    "4 tool pairs, roles system and developer never pruned".
    """
    messages = [{"role": "system", "content": "You keep the ledger."}, *worked(40)]
    messages.insert(60, {"role": "developer", "content": "Write no tests."})
    planned = plan(messages, max_tokens=5_000, pin=[34])
    assert set(planned.parts) == {"pinned", "recent", "tool I/O", "remainder"}
    out = compress(messages, max_tokens=5_000, pin=[34])
    assert size_of(out) <= 5_000
    for position in (0, 34, 60, len(messages) - 4):
        assert messages[position] in out
    assert checker.broken_rules(out, "chat_completions") == []
    results = [m for m in messages if m["role"] == "tool"]
    assert verbatim(results, out)[-4:] == results[-4:]


@pytest.mark.parametrize("limit", [6_000, 3_000, 1_500, 900])
def test_keep_counts_are_lowered_step_by_step_when_over_budget(limit):
    """K-4: "fallback that lowers the keep counts step by step when over budget"."""
    messages = list(worked(40))
    kept = len(verbatim(messages, compress(messages, max_tokens=limit)))
    fewer = len(verbatim(messages, compress(messages, max_tokens=limit * 2 // 3)))
    assert kept >= fewer >= 1


# --- K-5 ------------------------------------------------------------------------------------------

STRATEGIES = ("task_state", "brief", "decision_log", "code_delta")


def told_by(strategy, *, tools):
    """A checkpoint of thirty steps, each a decision, a change of a file, or an open question."""
    said: list[Dict] = []
    for i in range(30):
        said.append({"role": "user", "content": f"Please see to matter {i} of the harbour."})
        words = (
            f"We decided on rope {i}, because the old one of pier {i} was worn.",
            f"I changed src/pier_{i}.py: `moor_{i}()` takes a length now.",
            f"It is still open whether crane {i} may be used at night.",
        )[i % 3]
        if tools and i % 3 == 1:
            changed = {"file_path": f"src/pier_{i}.py", "new_string": f"def moor_{i}(length):"}
            said += called(f"c{i}", "edit", "done", **changed)
            words = "That is done."
        more = f" The keeper of pier {i} wrote it down and went home." * 4
        said.append({"role": "assistant", "content": words + more})
    made = plan(said, max_tokens=1_800, policy=CompactPolicy(strategy=strategy))
    assert made.checkpoint
    return made.checkpoint.summary, made.context.render_text()


@pytest.mark.parametrize("tools", [False, True])
def test_the_four_strategies_differ_without_a_model_as_their_names_say(tools):
    """K-5: "strategies `task_state` (goals, entities, constraints, decisions, open actions),
    `brief`, `decision_log`, `code_delta`".
    """
    both = {strategy: told_by(strategy, tools=tools) for strategy in STRATEGIES}
    told = {strategy: summary for strategy, (summary, _) in both.items()}
    assert len(set(told.values())) == 4, "some do not differ"
    assert len(told["brief"]) < len(told["task_state"])
    signs = {"decision_log": r"rope \d+, because", "code_delta": r"pier_\d+\.py"}
    for strategy, sign in signs.items():
        found = {name: len(set(re.findall(sign, text))) for name, (_, text) in both.items()}
        assert found[strategy] == max(found.values()) > found["brief"], (sign, found)


@pytest.mark.slow
def test_a_model_is_told_the_strategy_with_examples():
    """K-5: "few-shot prompts", one for each strategy."""
    prompts = {}
    for strategy in STRATEGIES:
        name = "gpt-4o"
        with ScriptedServer(STORY, model=name) as server:
            ctx = session(
                summarizer=f"{server.url}/v1#{name}",
                patience=QUICK,
                policy=CompactPolicy(strategy=strategy),
            )
            ctx.add_messages(list(turns(15, words=100)))
            ctx.get_context_for_model()
            prompts[strategy] = server.prompts[0].prompt
    assert len({prompt.partition("<<<")[0] for prompt in prompts.values()}) == 4
    assert all("example" in prompt.lower() for prompt in prompts.values())


def test_a_busy_model_is_asked_again_ever_later_then_a_cheaper_one():
    """K-5: "retries with exponential backoff; cheaper fallback models"; a summarizer that does not
    answer gives way to the next one at once, since a person waits.
    """
    heard = Listener()
    patience = compact.Patience(attempts=4, each=5, together=20, first_wait=0.004, longest_wait=1)
    with ScriptedServer(Busy()) as busy, ScriptedServer(STORY) as cheap:
        keys = [chat_key(busy), chat_key(cheap)]
        options = {"patience": patience, "on_event": heard.append}
        asked = session(model=keys[0], fallbacks=keys[1:], summarizer="extractive", **options)
        asked.add_message(role="user", content="And the ledger?")
        assert asked.send().text == STORY
        assert [e.attempt for e in heard.named("compact.model_asked_again")] == [1, 2, 3]
        again = heard.named("compact.model_asked_again")
        assert all(0 <= e.wait <= 0.004 * 2**i for i, e in enumerate(again))
        assert [e.by for e in heard.named("compact.model_replaced")] == [keys[1]]
        ctx = session(summarizer=keys, **options)
        ctx.add_messages(list(turns(15, words=100)))
        ctx.get_context_for_model()
    assert len(heard.named("compact.model_asked_again")) == 3
    assert {e.by for e in heard.named("compact.model_replaced")} == {keys[1]}
    assert {c.made_by.rpartition("#")[2] for c in ctx.checkpoints} == {"scripted"}


@pytest.mark.slow
def test_the_same_input_gives_the_same_bytes(run, process, tmp_path):
    """K-5: "deterministic golden tests": in any process."""
    file = tmp_path / "talk.json"
    file.write_text(json.dumps(list(turns(30))))
    command = ("compact", file, "--max-tokens", "3000")
    first, second = run(*command), process(*command, env={"PYTHONHASHSEED": "1"})
    assert first.code == 0, first
    assert first.out == second.out


# --- K-6, K-7 -------------------------------------------------------------------------------------


def test_preflight_fits_and_goes_on_where_something_fails():
    """K-6: "`CompactManager.preflight(session_id, messages)` and `manual_compact(session_id,
    messages, note)` …; a failure falls back to pruning only, and the call still succeeds within
    budget. Exactly one summary view exists per span …, and identical messages are never lost".
    """
    config = CompactConfig(max_context_tokens=4_096, tokenizer="o200k")
    messages = [*turns(30), *[{"role": "user", "content": "hi"}] * 5, *turns(30, start=30)]
    with CompactManager(config, summarizer=Down()) as manager:
        for stop in range(2, len(messages) + 1):
            sent = manager.preflight("s", messages[:stop])
            assert checker.prompt_tokens(sent) <= 4_096
        sent = manager.manual_compact("s", messages, "keep the questions")
        session = manager.session("s")
        spans = [(c.span.first, c.span.last) for c in session.checkpoints]
        assert len(set(spans)) == len(spans) > 0
        assert sum(m.text == "hi" for m in session.history) == 5
        assert checker.prompt_tokens(sent) < 4_096


def test_what_was_compacted_is_archived_in_files(tmp_path):
    """K-7: "`FileStorage` under `.compact/archive/{session_id}/` with `save_transcript` (full
    pre-compaction history), `save_summary` (by step), `save_event` …; tests that no secret leaks".
    """
    config = CompactConfig(max_context_tokens=4_096, archive=str(tmp_path))
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    messages = list(turns(60))
    messages[0]["content"] += f" The token is {secret}."
    with CompactManager(config) as manager:
        manager.preflight("s", messages)
    found = {path.name: path.read_text() for path in tmp_path.glob("s/*")}
    assert set(found) == {"transcript-pre-compact-001.jsonl", "summary-001.json", "events.jsonl"}
    assert len(found["transcript-pre-compact-001.jsonl"].splitlines()) == len(messages)
    assert not any(secret in text for text in found.values())

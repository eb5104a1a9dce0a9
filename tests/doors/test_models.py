"""FR-13, FR-14 and FR-16 as they are written: models, their limits, the prompt they read."""

import asyncio
import json

import pytest

from compact import CompactConfig, ContextManager, PromptParts
from compact.errors import UnknownModel
from compact.testing import ScriptedModel
from tests.doors.talking import QUICK, STORY, Listener, Retelling, session, turns, words_of
from tests.scripted import Overflow, ScriptedServer

GOALS = ["Empty every drawer before the tenth of May.", "Lose no entry of the old ledger."]
SPOKEN = {
    "openai": "{url}/v1#scripted",
    "responses": "responses+{url}/v1#scripted",
    "anthropic": "anthropic+{url}#scripted",
    "ollama": "ollama+{url}#scripted",
}
WIRE = {"openai": "chat_completions"}


GOALS = ["Empty every drawer before the tenth of May.", "Lose no entry of the old ledger."]


# --- FR-13 ----------------------------------------------------------------------------------------


def book(tmp_path, *entries):
    """What is known of models, with these beside: by a person's own file."""
    file = tmp_path / "models.json"
    file.write_text(json.dumps({"models": list(entries)}))
    return CompactConfig.load(environ={}, models_file=str(file)).book()


SIZES = [
    ("405B", 0.95, 10), ("70.6B", 0.95, 10), ("70B", 0.95, 10),
    ("32.8B", 0.85, 10), ("30B", 0.85, 10), ("14.8B", 0.70, 10), ("13.0B", 0.70, 7),
    ("13B", 0.70, 7), ("8B", 0.50, 7), ("7.6B", 0.50, 5), ("7B", 0.50, 5), ("7.2B", 0.50, 5),
    ("4B", 0.30, 5), ("3.2B", 0.30, 3), ("3B", 0.30, 3), ("1.5B", 0.30, 3),
]  # fmt: skip


@pytest.mark.parametrize(("size", "factor", "after"), SIZES, ids=[size for size, *_ in SIZES])
def test_model_size_feeds_the_score_and_the_warning(size, factor, after, tmp_path):
    """FR-13: "≥70B .95, ≥30B .85, ≥13B .70, ≥7B .50, else .30"; "after 3/5/7/10 compressions for
    ≤3B/≤7B/≤13B/larger", sizes as people name them.
    """
    entry = {
        "id": "house:1",
        "parameters": size,
        "max_context_window": 8_192,
        "tool_support": True,
        "context_profiles": [{"size": 8_192, "ollama_context_size": 6_963}],
    }
    ctx = session(model="ollama:house:1", window=8_192, models=book(tmp_path, entry))
    assert ctx.reliability.score == pytest.approx(factor)
    assert ctx.reliability.warn_after == after


@pytest.mark.parametrize("writer", [None, Retelling()], ids=["code", "a model"])
def test_each_compression_costs_trust_and_the_warning_comes_in_time(tmp_path, writer):
    """FR-13: "× 0.9 per compression" and "warning thresholds"; what code wrote is no reason to
    begin a new session.
    """
    heard, number = Listener(), 0
    entry = {
        "id": "house:1",
        "parameters": "3B",
        "max_context_window": 4_096,
        "context_profiles": [{"size": 4_096, "ollama_context_size": 3_482}],
    }
    own = {"models": book(tmp_path, entry), "summarizer": writer}
    ctx = session(model="ollama:house:1", on_event=heard.append, **own)
    for done in range(1, 5):
        ctx.add_messages(list(turns(20, start=number)))
        number += 20
        ctx.compress_conversation()
        assert ctx.compressions == done
        assert ctx.reliability.score == pytest.approx(0.30 * 0.9**done)
        assert (ctx.reliability.warning is not None) == (writer is not None and done >= 3)
    assert ("code wrote" in ctx.reliability.meaning) == (writer is None)
    told = heard.named("compact.trust_faded")
    assert len(told) == (writer is not None)
    assert all("an estimate, by the model's size" in event.warning for event in told)


@pytest.mark.slow
def test_level_and_cap_of_a_new_checkpoint_depend_on_the_summarizers_size():
    """FR-13: "level and cap of a new checkpoint depend on the summarizer's size"."""
    asked = {}
    for name in ("llama3.2:3b", "llama3.1:8b", "llama3.1:70b"):
        with ScriptedServer(STORY, model=name) as server:
            ctx = session(window=8_192, summarizer=f"{server.url}/v1#{name}", patience=QUICK)
            ctx.add_messages(list(turns(28, words=100)))
            ctx.compress_conversation(0.4)
            asked[name] = (ctx.checkpoints[0].level, server.prompts[0].max_tokens or 0)
    assert [level for level, _ in asked.values()] == ["moderate", "detailed", "detailed"]
    caps = [cap for _, cap in asked.values()]
    assert caps == sorted(caps), asked
    assert caps[0] < caps[-1], asked


def test_tool_support_may_appear_and_vanish(tmp_path):
    """FR-13: "tool support may appear or vanish"."""
    tool = {"type": "function", "function": {"name": "tide", "parameters": {"type": "object"}}}
    rows = [{"size": 8_192, "ollama_context_size": 6_963}]
    entries = [
        {
            "id": f"house:{i}",
            "parameters": "8B",
            "tool_support": able,
            "context_profiles": rows,
            "max_context_window": 8_192,
        }
        for i, able in enumerate((True, False))
    ]
    with ScriptedServer("It is high.") as server:
        keys = [f"ollama+{server.url}#house:{i}" for i in range(2)]
        ctx = session(model=keys[0], window=8_192, tools=[tool], models=book(tmp_path, *entries))
        for key in (keys[0], keys[1], keys[0]):
            ctx.set_model(key)
            ctx.add_message(role="user", content="How high is the tide?")
            ctx.send()
        assert [bool(request.body.get("tools")) for request in server.prompts] == [
            True,
            False,
            True,
        ]
    assert len(ctx.history) == 6


def test_a_model_swap_keeps_the_state():
    """FR-13: "a model swap keeps the state" (C-9)."""
    ctx = session(window=8_192)
    ctx.goals.set(GOALS)
    ctx.set_mode("planning")
    ctx.add_messages(list(turns(60)))
    ctx.get_context_for_model()
    told = [c.id for c in ctx.checkpoints]
    for key in ("ollama:llama3.2:3b", "gpt-4o", "claude-sonnet-4-5"):
        ctx.set_model(key, 8_192)
        assert ctx.active_context().tokens <= ctx.window.usable
        assert (len(ctx.history), ctx.mode) == (120, "planning")
        assert [goal.text for goal in ctx.goals] == GOALS
    assert told


# --- FR-14 ----------------------------------------------------------------------------------------


def test_provider_limits_are_read_from_profiles_and_sent(tmp_path):
    """FR-14: "a file of models with `context_profiles` rows …; the given `ollama_context_size` …
    (6963 for 8192) is used as is and sent as `num_ctx`".
    """
    row = {"size": 8_192, "size_label": "8k", "vram_estimate": "6 GB", "ollama_context_size": 6_963}
    entry = {
        "id": "house:1",
        "parameters": "8B",
        "max_context_window": 8_192,
        "context_profiles": [row],
    }
    with ScriptedServer("Yes.") as server:
        key = f"ollama+{server.url}#house:1"
        ctx = session(model=key, window=8_192, models=book(tmp_path, entry))
        assert ctx.window.size == 6_963
        ctx.add_message(role="user", content="Is it so?")
        ctx.send()
        assert server.prompts[0].body["options"]["num_ctx"] == 6_963


@pytest.mark.parametrize("vendor", ["openai", "anthropic", "llama.cpp", "vllm", "google"])
def test_a_providers_error_triggers_an_emergency_action(vendor):
    """FR-14: "provider errors trigger emergency actions; open for other providers"."""
    with ScriptedServer(Overflow(vendor), "It is done.") as server:
        key = f"{server.url}/v1#scripted"
        ctx = session(model=key, window=8_192, patience=QUICK, summarizer="extractive")
        ctx.add_messages(list(turns(28)))
        ctx.add_message(role="user", content="And now?")
        assert ctx.send().text == "It is done."
        first, second = server.prompts
        assert second.tokens < first.tokens
    assert [snapshot.purpose for snapshot in ctx.time.snapshots()] == ["emergency"]


def test_other_providers_are_open():
    """FR-14: "open for other providers": any object of the protocol is a model."""
    ctx, model = session(), ScriptedModel("Of course.")
    ctx.add_message(role="user", content="May anybody come in?")
    assert ctx.send(model).text == "Of course."


# --- FR-16 ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_prompt_orchestrator_builds_the_system_prompt():
    """FR-16: "mode template, mandates, goals, skills, tools, hooks, MCP prompts, extra
    instructions; checkpoints have their place in the prompt; compression never touches that
    assembly".
    """
    parts = PromptParts(
        mandates="Never lie.",
        skills=({"name": "knots", "text": "Tie a bowline."},),
        tools=({"name": "tide", "text": "Ask it first."},),
        hooks=({"name": "night", "text": "Put out the lamp."},),
        mcp_prompts=({"name": "log", "text": "Write it down."},),
        instructions="Answer in Danish.",
    )
    ctx = session(window=32_768, prompt=parts)
    ctx.goals.set(GOALS)
    ctx.add_messages(list(turns(20)))
    before = ctx.get_context_for_model()[0]
    for text in (
        "Never lie.",
        "Tie a bowline.",
        "Ask it first.",
        "Put out the lamp.",
        "Write it down.",
        "Answer in Danish.",
    ):
        assert text in before["content"]
    assert "mode assistant" in ctx.system_prompt.included
    ctx.add_messages(list(turns(300, start=20)))
    prompt = ctx.get_context_for_model()
    assert prompt[0] == before
    told = [words_of([message]) for message in prompt]
    goals = next(i for i, words in enumerate(told) if GOALS[0] in words)
    checkpoint = next(i for i, words in enumerate(told) if words.startswith("[Checkpoint"))
    assert 0 < goals < checkpoint < len(prompt) - 1


# --- windows that nobody has listed ---------------------------------------------------------------


def test_the_window_of_an_unknown_model_is_asked_of_its_server(tmp_path):
    """As the chat does; what is known, or given, is not asked for."""
    assert session(model="echo:4k", window=None).window.size == 4_000
    assert session(model="echo:4k", window=3_000).window.size == 3_000
    ctx = session(window=8_192)
    ctx.set_model("echo:2k")
    assert ctx.window.size == 2_000
    with pytest.raises(UnknownModel, match="give its size with window="):
        ContextManager("http://127.0.0.1:9/v1#mine")


def test_who_runs_an_event_loop_is_told_to_give_the_window():
    """The server would be waited for."""

    async def opens():
        return ContextManager("echo:4k")

    with pytest.raises(UnknownModel, match="give its size with window="):
        asyncio.run(opens())

"""N-1: where user and assistant take turns in a list, they do so in whatever comes back of it, at
every budget and in every format. Many chat templates refuse anything else.
"""

import pytest

from compact import CompactConfig, CompactManager, compress
from compact.errors import CannotFit
from tests import checker
from tests.strategies import (
    Dict,
    Writer,
    as_ollama,
    as_responses,
    code,
    log,
    parallel,
    prose,
    tool_step,
)

WIRES = ("chat_completions", "responses", "anthropic", "ollama")
BUDGETS = [tenth / 10 for tenth in range(1, 10)] + [0.97, 1.0]


def listed(wire, seed, turns=9):
    """A conversation whose turns alternate, with calls of tools inside them."""
    writer = Writer("anthropic" if wire == "anthropic" else "chat_completions", seed, MAKERS)
    r, said = writer.r, writer.made.messages
    if seed % 2:
        writer.system("Keep to the rules of the house.")
    for turn in range(turns):
        writer.person(f"{turn}. {writer.text(r.choice((5, 20, 60, 150)))}")
        for _ in range(r.choice((0, 0, 1, 2, 3))):
            r.choice((tool_step, tool_step, parallel))(writer, r.choice((5, 30, 90, 250)))
            if said[-1]["role"] == "assistant":
                said.pop()
        writer.add(
            {"role": "assistant", "content": f"{turn}: {writer.text(r.choice((5, 20, 60)))}"}
        )
    writer.person("And what is left to do?")
    if wire == "responses":
        return as_responses(said, reasons=bool(seed % 3))
    return as_ollama(said) if wire == "ollama" else said


MAKERS = (prose, log, code)


def sizes_of(messages, wire):
    total = checker.prompt_tokens(messages) + 3
    return [max(120, int(total * share)) for share in BUDGETS]


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("seed", range(20))
def test_compress_keeps_the_turns(wire, seed):
    said = listed(wire, seed)
    assert checker.takes_turns(said, wire) == []
    compressed = 0
    for size in sizes_of(said, wire):
        try:
            prompt = compress(said, max_tokens=size, format=wire, tokenizer="o200k")
        except CannotFit:
            continue
        compressed += prompt != said
        assert checker.takes_turns(prompt, wire) == [], size
        assert checker.broken_rules(prompt, wire) == [], size
        assert checker.prompt_tokens(prompt) <= size
    assert compressed > 5


def asked_at(said):
    """How many messages of a list there are each time that the model is asked."""
    ours = [m.get("role") in ("user", "tool") or "output" in m for m in said]
    ends = [i for i in range(1, len(said)) if ours[i - 1] and not ours[i]]
    return [*ends, len(said)]


@pytest.mark.parametrize("goes_on_from", ["its own list", "what it was given"])
@pytest.mark.parametrize("wire", WIRES)
def test_lists_that_are_resent_keep_the_turns(wire, goes_on_from, tmp_path):
    """The turns stay; what was sent stays as it was until the next compression; nothing is stored
    twice, and nothing of ours is.
    """
    said = listed(wire, 1)
    window = max(700, checker.prompt_tokens(said) // 3)
    config = CompactConfig(max_context_tokens=window, output_reserve=64, tokenizer="o200k")
    with CompactManager(config, store=tmp_path / "kept.db") as manager:
        ctx = manager.session("one", format=wire)
        given: list[Dict] = []
        before: list[Dict] = []
        known, moves = 0, 0
        for length in asked_at(said):
            prompt = manager.preflight("one", [*given, *said[known:length]])
            assert checker.takes_turns(prompt, wire) == []
            assert checker.broken_rules(prompt, wire) == []
            assert len(ctx.history) == length, "the history has what was said, each of it once"
            number = max((c.number for c in ctx.checkpoints), default=0)
            assert number > moves or prompt[: len(before)] == before
            moves, before = number, prompt
            given = said[:length] if goes_on_from == "its own list" else prompt
            known = length
        assert moves > 1
        assert ctx.get_context_for_model() == prompt


def test_an_id_that_is_used_again_gets_a_number(tmp_path):
    """Proxies that count calls from 0 in each reply: every call has an id of its own when it is
    sent, and its own result.
    """
    said: list[Dict] = []
    for turn in range(3):
        function = {"name": "tide", "arguments": "{}"}
        call = {"id": "call_0", "type": "function", "function": function}
        said += [
            {"role": "user", "content": f"And at {turn}?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_0", "content": f"High at {turn}."},
            {"role": "assistant", "content": f"It is high at {turn}."},
        ]
    said.append({"role": "user", "content": "Thank you."})
    with CompactManager(CompactConfig(max_context_tokens=4_000)) as manager:
        for prompt in (compress(said, max_tokens=4_000), manager.preflight("a", said)):
            calls = [m["tool_calls"][0]["id"] for m in prompt if m.get("tool_calls")]
            results = {m["tool_call_id"]: m["content"] for m in prompt if m["role"] == "tool"}
            assert len(set(calls)) == 3
            assert [results[call] for call in calls] == [f"High at {turn}." for turn in range(3)]
        assert manager.preflight("a", [*prompt, said[3], said[0]])[: len(prompt)] == prompt


def test_hosted_items_are_responses_and_preflight_takes_a_format():
    items: list[Dict] = [
        {"role": "user", "content": "Look it up."},
        {"type": "mcp_list_tools", "tools": []},
    ]
    with CompactManager(CompactConfig(max_context_tokens=4_000)) as manager:
        assert manager.preflight("told", items) == items
        assert manager.session("told").history[0].wire_format == "responses"
        texts = [{"role": "user", "content": "Hello."}]
        manager.preflight("asked", texts, format="anthropic")
        assert manager.session("asked").history[0].wire_format == "anthropic"


def test_half_an_emoji_never_leaves():
    said = [{"role": "user", "content": "Fine \ud83d"}]
    with CompactManager(CompactConfig(max_context_tokens=4_000)) as manager:
        for prompt in (compress(said, max_tokens=400), manager.preflight("a", said)):
            assert prompt == [{"role": "user", "content": "Fine \ufffd"}]

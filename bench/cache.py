"""Prefix cache: what a real server must read anew over a session of 200 turns, by its own
`cached_tokens`.

The same turns, with their calls, results and answers, are gone through in three ways: with
compact, with a sliding window, and with LangChain's SummarizationMiddleware. Before each answer the
prompt is sent to a llama.cpp server (`tests/models/tiny_llama.py`), which keeps the last one. What
is unavoidable is told from the prompts themselves: what is new in each, and of one with a new
checkpoint, or another new summary, all from there on. A window that slides makes none: whatever it
has read again is its own doing.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from bench import histories, peers
from bench.histories import Record
from bench.measuring import CannotMeasure, Check, Setting, Table, number
from compact.messages.characters import all_defused
from compact.messages.checkpoints import is_checkpoint_text
from compact.messages.formats.known import format_named, prompt_of
from compact.messages.protocols import TokenEstimator
from compact.messages.tokens import TokenCounter
from compact.models.providers.anthropic_messages import with_marks
from compact.session.context_manager import ContextManager
from compact.wiring import token_counter

TURNS, WINDOW, SEED = 200, 8_192, 7
MOST_TOKENS = 1_500
"""Tokens of a turn at most, so that each way can keep a few of them."""
MOST_RATIO = 1.5
LOOKBACK = 20
"""Blocks before a mark in which Anthropic looks for what it has cached."""
LEAST_CACHED = 1_024
"""Tokens of a prefix that it caches."""
RUNNER = Path(__file__).with_name("peer_cache.py")
SYSTEM: Record = {
    "role": "system",
    "content": "You are a careful software agent. Keep to the user's rules, and answer briefly.",
}


@dataclass(slots=True)
class Way:
    """One way to make prompts: the prompts, and how often it left something out anew."""

    name: str
    prompts: list[list[Record]]
    cuts: int
    note: str = ""
    reported: int = 0
    uncached: int = 0
    unavoidable: int = 0
    summaries: list[int] = field(default_factory=list)


def measure(setting: Setting) -> list[Table]:
    """Three ways beside each other, then what Anthropic's rule would read from its cache."""
    try:
        from compact.models.providers.tokenizers import HuggingFaceEstimator
        from tests.models import tiny_llama

        folder = Path(tempfile.mkdtemp())
        model = tiny_llama.build(folder)
    except ImportError as error:
        raise CannotMeasure(f"a llama.cpp server needs the development packages: {error}") from None
    estimator = HuggingFaceEstimator(model.tokenizer, framing=tiny_llama.FRAMING)
    counter = token_counter("chat_completions", tokenizer=estimator)
    script = _script(counter, TURNS // 4 if setting.quick else TURNS)
    ours, marked = _ours(script, estimator)
    usable, trigger, target = _limits(estimator)
    ways = [ours, _sliding(script, counter, trigger, target)]
    if setting.peers:
        summary = round(statistics.mean(ours.summaries))
        ways.append(_langchain(script, model.tokenizer, trigger, target - summary, summary))
    _same_work(script, ways)
    with tiny_llama.serving(folder, WINDOW) as url:
        for way in ways:
            _send(way, url, usable)
            way.unavoidable = _unavoidable(way.prompts, counter)
    return [_table(script, ways), _anthropic(marked)]


# --- the turns ------------------------------------------------------------------------------------


def _script(counter: TokenCounter, turns: int) -> list[Record]:
    """A system prompt, then whole turns of at most `MOST_TOKENS`."""
    small = (turn for turn in histories.turns(SEED) if _tokens(turn, counter) <= MOST_TOKENS)
    return [SYSTEM, *chain.from_iterable(islice(small, turns))]


# --- the ways -------------------------------------------------------------------------------------


def _limits(estimator: TokenEstimator) -> tuple[int, int, int]:
    with ContextManager(window=WINDOW, tokenizer=estimator) as manager:
        window = manager.window
    return window.usable, window.trigger, window.target


def _ours(script: Sequence[Record], estimator: TokenEstimator) -> tuple[Way, list[dict[str, Any]]]:
    """Our own, with the extractive summarizer, and the same prompts as requests to Anthropic."""
    way, marked = Way("**compact**", [], 0, "defaults, extractive"), []
    with ContextManager(window=WINDOW, tokenizer=estimator) as manager:
        for message in script:
            if message["role"] == "assistant":
                before = manager.compressions
                way.prompts.append(list(manager.get_context_for_model()))
                if manager.compressions > before:
                    way.summaries.append(sum(c.token_count for c in manager.checkpoints))
                said = prompt_of(manager.active_context(), "anthropic")
                system = [m["content"] for m in said if m["role"] == "system"]
                rest = [m for m in said if m["role"] != "system"]
                marked.append(with_marks({"system": "\n".join(system), "messages": rest}))
            manager.add_message(message)
        way.cuts = manager.compressions
    return way, marked


def _sliding(script: Sequence[Record], counter: TokenCounter, above: int, down_to: int) -> Way:
    """The newest messages, the oldest dropped when there are more tokens than `above`, until they
    take no more than `down_to`; cut before a person's words, so that calls keep their results.
    """
    note = f"as ours, above {above:,} down to {down_to:,} tokens"
    way = Way("sliding window", [], 0, note)
    kept: list[Record] = []
    for message in script[1:]:
        if message["role"] == "assistant":
            if _tokens([SYSTEM, *kept], counter) > above:
                way.cuts += 1
                starts = [i for i, m in enumerate(kept) if m["role"] == "user"]
                for start in starts:
                    if _tokens([SYSTEM, *kept[start:]], counter) <= down_to:
                        break
                kept = kept[start:]
            way.prompts.append([SYSTEM, *kept])
        kept.append(message)
    return way


def _langchain(
    script: Sequence[Record], tokenizer: Path, trigger: int, keep: int, summary: int
) -> Way:
    """LangChain's middleware with the same trigger; what it keeps and its summary take together
    what our context takes after a compression.

    Raises:
        CannotMeasure: it cannot be installed, or failed.
    """
    try:
        known = peers.versions()
    except peers.NoPeers as reason:
        raise CannotMeasure(f"langchain: {reason}; --no-peers leaves it out") from None
    with tempfile.TemporaryDirectory() as name:
        given, out = Path(name) / "script.json", Path(name) / "prompts.json"
        given.write_text(json.dumps(script), encoding="utf-8")
        numbers = map(str, (trigger, keep, summary))
        done = subprocess.run(
            [peers.PYTHON, RUNNER, given, tokenizer, *numbers, out],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise CannotMeasure(f"langchain failed: {done.stderr.strip().splitlines()[-1]}")
        made = json.loads(out.read_text(encoding="utf-8"))
    note = (
        f"langchain {known['langchain']}, trigger ('tokens', {trigger:,}), keep ('tokens', "
        f"{keep:,}), summaries of {summary:,} tokens, nothing trimmed"
    )
    return Way("SummarizationMiddleware", made["prompts"], made["summaries"], note)


# --- what the server says -------------------------------------------------------------------------


def _send(way: Way, url: str, usable: int) -> None:
    import httpx

    with httpx.Client(timeout=120, trust_env=False) as client:
        for prompt in way.prompts:
            body = {"messages": all_defused(prompt), "max_tokens": 1, "cache_prompt": True}
            answer = client.post(f"{url}/v1/chat/completions", json=body)
            if answer.status_code != 200:
                raise CannotMeasure(f"{way.name}: {answer.text[:200]}")
            usage = answer.json()["usage"]
            if usage["prompt_tokens"] > usable:
                raise CannotMeasure(f"{way.name}: {usage['prompt_tokens']} of {usable} tokens")
            way.reported += usage["prompt_tokens"]
            cached = usage["prompt_tokens_details"]["cached_tokens"]
            way.uncached += usage["prompt_tokens"] - cached


def _unavoidable(prompts: Sequence[Sequence[Record]], counter: TokenCounter) -> int:
    """Tokens of each prompt from its new checkpoint on, where it has one, else from its first
    message that the one before had not; and of what primes the answer.
    """
    total, before = 0, frozenset[str]()
    for prompt in prompts:
        keys = [json.dumps(message, sort_keys=True) for message in prompt]
        new = [i for i, key in enumerate(keys) if key not in before]
        made = [i for i in new if is_checkpoint_text(str(prompt[i]["content"]))]
        start = (made or new or [len(keys)])[0]
        total += _tokens(prompt[start:], counter) + counter.framing.priming
        before = frozenset(keys)
    return total


def _tokens(messages: Sequence[Record], counter: TokenCounter) -> int:
    parse = format_named("chat_completions").parse
    return sum(counter.message(parse(m, i)) for i, m in enumerate(messages))


# --- tables ---------------------------------------------------------------------------------------


def _table(script: Sequence[Record], ways: Sequence[Way]) -> Table:
    turns = sum(message["role"] == "user" for message in script)
    table = Table(
        f"Prefix cache: {turns} turns against llama.cpp, n_ctx {WINDOW:,}, by its cached_tokens",
        ("way", "prompts", "cuts", "context, mean tokens", "uncached tokens", "unavoidable",
         "ratio"),
    )  # fmt: skip
    for way in ways:
        ratio = way.uncached / way.unavoidable
        table.rows.append(
            (way.name, f"{len(way.prompts):,}", f"{way.cuts:,}",
             f"{way.reported / len(way.prompts):,.0f}", f"{way.uncached:,}",
             f"{way.unavoidable:,}", number(ratio))
        )  # fmt: skip
        table.notes.append(f"{way.name}: {way.note}.")
    what = "compact, uncached ÷ unavoidable"
    table.checks.append(Check(what, ways[0].uncached / ways[0].unavoidable, MOST_RATIO))
    return table


def _same_work(script: Sequence[Record], ways: Sequence[Way]) -> None:
    """Every way was asked at the same moments, and shows what the person said last, as it was."""
    answers = [i for i, m in enumerate(script) if m["role"] == "assistant"]
    for way in ways:
        if len(way.prompts) != len(answers):
            raise CannotMeasure(f"{way.name} made {len(way.prompts)} of {len(answers)} prompts")
        for at, prompt in zip(answers, way.prompts, strict=True):
            said = next(m["content"] for m in reversed(script[:at]) if m["role"] == "user")
            if not any(m["content"] == said for m in prompt):
                raise CannotMeasure(f"{way.name} lost what was asked before message {at}")


def _anthropic(requests: Sequence[Mapping[str, Any]]) -> Table:
    """Of each prompt, what Anthropic's rule finds in its cache: the longest prefix that ends at a
    mark of an earlier request, at most `LOOKBACK` blocks before a mark of this one.
    """
    counter = token_counter("anthropic", tokenizer="o200k")
    written: set[int] = set()
    read = total = most = 0
    for request in requests:
        blocks = list(_blocks(request))
        ends, tokens, key = [], 0, 0
        for block, marked in blocks:
            text = json.dumps(block, sort_keys=True, ensure_ascii=False)
            key, tokens = hash((key, text)), tokens + counter.text(text)
            ends.append((key, tokens, marked))
        marks = [i for i, (_, _, marked) in enumerate(ends) if marked]
        most = max(most, len(marks))
        places = {j for i in marks for j in range(max(0, i - LOOKBACK + 1), i + 1)}
        read += max((ends[j][1] for j in places if ends[j][0] in written), default=0)
        total += tokens
        written |= {ends[i][0] for i in marks if ends[i][1] >= LEAST_CACHED}
    table = Table(
        "The same prompts by Anthropic's rule, marked by us, simulated",
        ("prompts", "most marks", "tokens", "read from the cache", "share"),
    )
    share = f"{read / total:.1%}"
    table.rows.append((f"{len(requests):,}", f"{most}", f"{total:,}", f"{read:,}", share))
    table.notes.append("Tokens by o200k, JSON of the blocks included.")
    table.checks.append(Check("marks of a request", most, 4))
    return table


def _blocks(request: Mapping[str, Any]) -> Iterator[tuple[Any, bool]]:
    """The blocks of a request in the order they are cached, each with whether it is marked."""
    contents = [request["system"], *(m["content"] for m in request["messages"])]
    for content in contents:
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            bare = {key: value for key, value in block.items() if key != "cache_control"}
            yield bare, len(bare) < len(block)

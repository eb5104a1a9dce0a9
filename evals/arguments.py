"""Tool calls after a compaction: are the values that an agent passes next still there (K-13)?

Conversations of tau-bench and tau2-bench are replayed turn by turn through `CompactManager`, at
windows of a half and of a quarter of each conversation's tokens, so that each is compacted. Before
each turn in which the real agent called tools, the values of its arguments that stood in the
conversation until then are looked for: in the prompt, else in the first answer of `recall` to the
argument's name and the newest words of the customer. Beside it, in the same tokens and behind the
system prompt: the newest messages that fit, and LangChain's SummarizationMiddleware, which has no
recall (`middleware`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from bench.peers import NoPeers
from compact import CompactConfig, CompactError, CompactManager, ContextManager
from compact.messages.formats.known import format_named
from compact.messages.messages import Message
from compact.messages.tokens import TokenCounter
from compact.wiring import token_counter
from evals import formats
from evals.middleware import Middleware
from evals.passing import Dict, arguments_of, stands, text_of
from evals.split import Half, columns, half_of, table

FILES = (
    "tau_bench/gpt-4o-airline.json",
    "tau2_bench/claude-sonnet-4-5_airline_1trial.json",
    "tau2_bench/gpt-4.1_telecom_no-user_1trial.json",
)
SHARES = (0.5, 0.25)
"""Windows, as shares of a conversation's tokens."""
COUNTER = token_counter("chat_completions", tokenizer="o200k")
MIDDLEWARE = """\
LangChain {} SummarizationMiddleware, in an environment of its own: it summarizes when its messages
reach the window, keeps that share of it, and trims nothing. No model writes: an extracted summary
is what our `compress` makes of the same messages in the tokens left, an ideal one holds the values
that will be passed. It has no recall."""
LEAST_WINDOW = 1_000
"""Tokens of the smallest window that settings can name."""


@dataclass(frozen=True)
class Replayed:
    """What became of one conversation at one window."""

    name: str
    half: Half
    share: float
    window: int
    compressions: int
    values: int
    """Arguments' values that stood in the conversation before they were passed, after the first
    compaction."""
    shown: int
    """Those that the prompt shows."""
    recalled: int
    """Those of the others that the first answer of `recall` brings."""
    newest: int
    """Those that the newest messages alone would show."""
    refused: int
    """Turns at which no prompt could be made: the floor is larger than the window."""
    peers: dict[str, int]
    """Those that LangChain's middleware would show, by its setting."""
    over: int
    """How many of these, of all settings, its prompts show that are larger than the window."""


def conversations(folder: Path) -> Iterator[tuple[str, Sequence[Message]]]:
    """Every conversation of the files, with its name."""
    for file in FILES:
        path = folder / file
        count = formats.read(path, conversation=1).conversations
        for number in range(1, count + 1):
            read = formats.read(path, conversation=number)
            yield f"{path.stem}-{number}", read.messages


def run(folder: Path, every: int = 1) -> tuple[list[Replayed], str]:
    """Each conversation of so many at every window, and what is to be known of the middleware."""
    found = islice(conversations(folder), 0, None, every)
    try:
        peer: Middleware | None = Middleware(COUNTER)
        about = MIDDLEWARE.format(peer.version)
    except NoPeers as reason:
        peer, about = None, f"LangChain's SummarizationMiddleware is LEFT OUT: {reason}"
    with peer or nullcontext():
        return [replayed(name, m, share, peer) for name, m in found for share in SHARES], about


def replayed(
    name: str, messages: Sequence[Message], share: float, peer: Middleware | None
) -> Replayed:
    """One conversation, turn by turn."""
    wire, counter = format_named("chat_completions"), COUNTER
    given = wire.render(messages)
    window = max(LEAST_WINDOW, int(share * counter.messages(messages)))
    config = CompactConfig(max_context_tokens=window, tokenizer="o200k")
    values = shown = recalled = newest = refused = over = 0
    with CompactManager(config) as manager:
        ctx = manager.session(name)
        sent = dict(peer.shown(given, messages, ctx.window.usable)) if peer else {}
        found = Counter(dict.fromkeys(sent, 0))
        for position, message in enumerate(given):
            if not message.get("tool_calls"):
                continue
            try:
                prompt = manager.preflight(name, given[:position])
            except CompactError:
                refused += 1
                continue
            if not ctx.compressions:
                continue
            before = text_of(given[:position])
            known = {v: k for k, v in arguments_of(message) if stands(v, before)}
            values += len(known)
            for setting, prompts in sent.items():
                there = sum(stands(value, prompts[position].text) for value in known)
                found[setting] += there
                over += there * (not prompts[position].fits)
            now, truncated = text_of(prompt), text_of(_newest(ctx, counter, messages[:position]))
            for value, key in known.items():
                newest += stands(value, truncated)
                if stands(value, now):
                    shown += 1
                else:
                    recalled += _recalls(ctx, key, value, given[:position])
        compressions = ctx.compressions
    half = half_of(name)
    counts = (values, shown, recalled, newest, refused, dict(found), over)
    return Replayed(name, half, share, window, compressions, *counts)


def _newest(ctx: ContextManager, counter: TokenCounter, messages: Sequence[Message]) -> list[Dict]:
    """The system prompt and the newest messages that fit the same tokens."""
    system = [m for m in messages[:1] if m.role == "system"]
    left = ctx.window.usable - counter.messages(system)
    kept: list[Message] = []
    for message in reversed(messages[len(system) :]):
        left -= counter.message(message)
        if left < 0:
            break
        kept.append(message)
    return format_named("chat_completions").render([*system, *reversed(kept)])


def _recalls(ctx: ContextManager, key: str, value: str, given: Sequence[Dict]) -> bool:
    """Whether the first answer to what an agent may ask brings the value."""
    words = next((str(m["content"]) for m in reversed(given) if m["role"] == "user"), "")
    return stands(value, ctx.tools.call("recall", {"query": f"{key.replace('_', ' ')} {words}"}))


def report(rows: Sequence[Replayed], about: str) -> str:
    """Shares of the values, in both halves."""
    tables = []
    settings = list(rows[0].peers)
    for share in dict.fromkeys(row.share for row in rows):
        found = columns(
            [row for row in rows if row.share == share],
            {
                "conversations": len,
                "of them compacted": lambda part: sum(row.compressions > 0 for row in part),
                "turns without a prompt": lambda part: sum(row.refused for row in part),
                "values passed after that": lambda part: sum(row.values for row in part),
                "in the prompt": lambda part: _share(part, "shown"),
                "there or recalled": lambda part: _share(part, "shown", "recalled"),
                "newest messages alone": lambda part: _share(part, "newest"),
                **{f"LangChain: {each}": _of_peer(each) for each in settings},
                "of these, in prompts over the window": _over,
            },
        )
        tables.append(table(f"window of {share:.0%}", found))
    return "\n\n".join([*tables, about])


def _share(rows: Sequence[Replayed], *names: str) -> float | None:
    total = sum(row.values for row in rows)
    return sum(getattr(row, name) for row in rows for name in names) / total if total else None


def _over(rows: Sequence[Replayed]) -> float | None:
    total = sum(sum(row.peers.values()) for row in rows)
    return sum(row.over for row in rows) / total if total else None


def _of_peer(setting: str) -> Callable[[Sequence[Replayed]], float | None]:
    def share(rows: Sequence[Replayed]) -> float | None:
        total = sum(row.values for row in rows)
        return sum(row.peers[setting] for row in rows) / total if total else None

    return share


def as_json(rows: Sequence[Replayed]) -> list[dict[str, Any]]:
    """The rows as JSON values."""
    return [asdict(row) for row in rows]

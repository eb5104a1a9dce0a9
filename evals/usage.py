"""Token counts against recorded usage: what a provider charged between two calls, and what we count
for it.

A session's prompt grows, from one call to the next, by the former reply and by what came between:
tool results and a person's words. System prompt and tools cancel out. Steps across a compaction or
with images are left out. OpenAI's side (tau2-bench, gpt-4.1) is exact, so its framing can be fitted
to the token; Anthropic publishes no tokenizer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compact.messages.messages import Image, Message, Thinking, ToolCall
from compact.transcripts.transcript import Transcript
from compact.wiring import read_transcript, token_counter
from evals import data
from evals.stats import quantile

TELECOM = "tau2_bench/gpt-4.1_telecom_no-user_1trial.json"
AIRLINE = "tau2_bench/claude-sonnet-4-5_airline_1trial.json"
CALL_HEADER = 12
"""OpenAI: tokens of one call and its result beside the name (once as it is, once as
functions.NAME), arguments, text.
"""


@dataclass(frozen=True)
class Step:
    """The messages between two calls of one session, and how the prompt grew by them."""

    growth: int
    text: int
    """o200k tokens of their text, arguments and tool names, thinking left out."""
    thinking: int
    """o200k tokens of their thinking."""
    ours: int
    """What our `claude` estimate counts for them."""
    messages: int
    calls: int
    results: int
    loop: bool
    """Whether nothing but tool results came between: no words of a person, no reminder."""


@dataclass(frozen=True)
class Summary:
    """How the steps of one session compare."""

    name: str
    steps: int
    total: float
    """Growth by our text and thinking, over the whole session."""
    bare: float
    """The same without thinking."""
    median: float
    low: float
    high: float
    """Median, 5 % and 95 % quantile of growth by text and thinking, over steps."""
    safe: float
    """Share of steps that the `claude` estimate, framing included, does not undercount."""
    ours: float
    """The estimate by the growth, over the whole session."""


def claude_code_steps(path: Path) -> list[Step]:
    """The steps of one Claude Code session."""
    return list(_steps(read_transcript(path), _stretches(path)))


def _stretches(path: Path) -> dict[str, int]:
    """Row id → how many compactions were before it: what lies between two compactions is one
    stretch.
    """
    found: dict[str, int] = {}
    stretch = 0
    for line in path.read_text(encoding="utf-8").split("\n"):
        row = json.loads(line) if line.strip() else {}
        if row.get("subtype") == "compact_boundary" and not row.get("isSidechain"):
            stretch += 1
        if isinstance(row.get("uuid"), str):
            found[row["uuid"]] = stretch
    return found


def _steps(transcript: Transcript, stretches: dict[str, int]) -> Iterator[Step]:
    before: int | None = None
    between: list[Message] = []
    reply: str | None = None
    here = 0
    for message in transcript.messages:
        prompt = _prompt_of(transcript, message)
        if stretches.get(message.id, here) != here or message.metadata.source == "checkpoint":
            here = stretches.get(message.id, here)
            before, between, reply = None, [], None
        if prompt is not None and message.reply_id != reply:
            if before is not None and not any(_has_image(m) for m in between):
                yield _step(prompt - before, between)
            before, between, reply = prompt, [], message.reply_id
        between.append(message)


def _prompt_of(transcript: Transcript, message: Message) -> int | None:
    """Tokens of the prompt that this reply answered."""
    for row in transcript.rows.get(message.id, ()):
        inner = row.get("message")
        usage = inner.get("usage") if isinstance(inner, dict) else None
        if usage and message.role == "assistant":
            keys = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            return sum(int(usage.get(key) or 0) for key in keys)
    return None


def _has_image(message: Message) -> bool:
    pictures = any(p.type == "image" for p in message.parts)
    return pictures or any(r.images for r in message.tool_results)


def _step(growth: int, messages: Sequence[Message]) -> Step:
    counter = token_counter("anthropic", tokenizer="o200k")
    estimate = token_counter("anthropic")
    parts = [p for m in messages for p in m.parts]
    thinking = sum(counter.text(p.text) for p in parts if isinstance(p, Thinking))
    calls = [p for p in parts if isinstance(p, ToolCall)]
    text = sum(counter.text(c.name) + counter.text(c.arguments) for c in calls)
    said = [p for p in parts if not isinstance(p, ToolCall | Thinking | Image)]
    text += sum(counter.text(p.text) for p in said)
    return Step(
        growth,
        text,
        thinking,
        sum(map(estimate.message, messages)),
        len(messages),
        len(calls),
        sum(len(m.tool_results) for m in messages),
        all(m.tool_results and not m.text for m in messages[1:]),
    )


def summary(name: str, steps: Sequence[Step]) -> Summary:
    """Compare the steps of a session."""
    ratios = [s.growth / (s.text + s.thinking) for s in steps]
    growth = sum(s.growth for s in steps)
    text = sum(s.text for s in steps)
    safe = sum(s.ours >= s.growth for s in steps)
    return Summary(
        name,
        len(steps),
        growth / (text + sum(s.thinking for s in steps)),
        growth / text,
        quantile(ratios, 0.5),
        quantile(ratios, 0.05),
        quantile(ratios, 0.95),
        safe / len(steps),
        sum(s.ours for s in steps) / growth,
    )


def fit(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Least squares without a constant, by the normal equations; an empty column gets 0."""
    n = len(rows[0])
    left = [[sum(r[i] * r[j] for r in rows) for j in range(n)] for i in range(n)]
    right = [sum(r[i] * v for r, v in zip(rows, values, strict=True)) for i in range(n)]
    for i in range(n):
        if abs(left[i][i]) < 1e-9:
            continue
        for k in range(n):
            if k != i and left[k][i]:
                share = left[k][i] / left[i][i]
                left[k] = [a - share * b for a, b in zip(left[k], left[i], strict=True)]
                right[k] -= share * right[i]
    return [right[i] / left[i][i] if abs(left[i][i]) >= 1e-9 else 0.0 for i in range(n)]


def trimmed(steps: Iterable[Step]) -> list[Step]:
    """Steps without those in which something grew or vanished that is not in the file (reminders,
    old thinking).
    """
    some = [s for s in steps if s.text + s.thinking > 0]
    ratios = [(s.growth - 40) / (s.text + s.thinking) for s in some]
    return [s for s, r in zip(some, ratios, strict=True) if 0.5 < r < 2.5]


@dataclass(frozen=True)
class Exact:
    """How OpenAI's framing fits a formula: differences to it and how many steps had them."""

    words: Counter[int]
    """A person's or an assistant's message: growth beside the text, for two messages."""
    single: Counter[int]
    """One call and its result: growth beside `CALL_HEADER` and what it names."""
    parallel: Counter[tuple[int, int]]
    """Calls side by side, by their number: growth beside what our counter says."""
    over: Counter[int]
    """One call and its result: how much more our counter says."""


def exact(folder: Path) -> Exact:
    """Fit OpenAI's framing on the tau2-bench records, whose usage is exact."""
    found = Exact(Counter(), Counter(), Counter(), Counter())
    for simulation in _simulations(folder / AIRLINE):
        for growth, rows in _recorded(simulation["messages"], "user"):
            words = [r["content"] for r in rows if r.get("content") and _is_words(r)]
            if len(words) == 2:
                found.words[growth - sum(map(_count, words))] += 1
    for simulation in _simulations(folder / TELECOM):
        for growth, rows in _recorded(simulation["messages"], "assistant"):
            _note_calls(found, growth, rows)
    return found


def _is_words(row: data.Row) -> bool:
    return row["role"] != "tool" and not row.get("tool_calls")


def _note_calls(found: Exact, growth: int, rows: Sequence[data.Row]) -> None:
    reply, results = rows[0], rows[1:]
    if reply.get("content") or not results or any(r["role"] != "tool" for r in results):
        return
    calls = [c["function"] for c in reply["raw_data"]["message"]["tool_calls"] or ()]
    text = sum(_count(c["name"]) + _count(c["arguments"]) for c in calls)
    text += sum(_count(str(r["content"])) for r in results)
    framing = token_counter("chat_completions", tokenizer="o200k").framing
    ours = text + framing.per_message * (1 + len(results))
    ours += framing.per_call * (len(calls) + len(results))
    if len(calls) == 1:
        found.single[growth - text - _count("functions." + calls[0]["name"]) - CALL_HEADER] += 1
        found.over[ours - growth] += 1
    elif calls:
        found.parallel[len(calls), growth - ours] += 1


def _count(text: str) -> int:
    return token_counter("chat_completions", tokenizer="o200k").text(text)


def _simulations(path: Path) -> list[data.Row]:
    if not path.is_file():
        return []
    found: list[data.Row] = json.loads(path.read_text(encoding="utf-8"))["simulations"]
    return found


def _recorded(rows: Sequence[data.Row], role: str) -> Iterator[tuple[int, list[data.Row]]]:
    """Growth of the prompt from one call of a role's model to the next, and the rows between, the
    reply first.
    """
    before: int | None = None
    between: list[data.Row] = []
    for row in rows:
        usage = row.get("usage") if row["role"] == role else None
        if usage:
            if before is not None:
                yield usage["prompt_tokens"] - before, between
            before, between = usage["prompt_tokens"], []
        between.append(row)


def run(folder: Path) -> dict[str, list[Step]]:
    """The steps of every Claude Code session."""
    every = {path.stem: claude_code_steps(path) for path in data.claude_code_sessions(folder)}
    return {name: steps for name, steps in every.items() if steps}


def report(sessions: dict[str, list[Step]], openai: Exact) -> str:
    """Sessions, pooled fits, and OpenAI's framing."""
    lines = [
        "steps  total  no thinking  median     5%    95%  not undercounted  ours/true  session"
    ]
    pooled = [s for steps in sessions.values() for s in steps]
    for s in [summary(n, x) for n, x in [*sessions.items(), ("all", pooled)]]:
        lines.append(
            f"{s.steps:5}  {s.total:5.2f}  {s.bare:11.2f}  {s.median:6.2f}  {s.low:5.2f}"
            f"  {s.high:5.2f}  {s.safe:16.3f}  {s.ours:9.2f}  {s.name}"
        )
    for title, some in (("all steps", pooled), ("tool loops", [s for s in pooled if s.loop])):
        usable = trimmed(some)
        a, b, c = fit([(s.text, s.thinking, s.calls) for s in usable], [s.growth for s in usable])
        lines.append(
            f"{title}, {len(usable)} of {len(some)}: growth = "
            f"{a:.3f} x text + {b:.3f} x thinking + {c:.1f} a call with its result"
        )
    lines += [
        f"OpenAI, two messages of words, tokens beside the text: {_shown(openai.words)}",
        f"OpenAI, one call and result, against name twice + {CALL_HEADER}: {_shown(openai.single)}",
        f"OpenAI, one call and result, our count over the true one: {_shown(openai.over)}",
        f"OpenAI, calls side by side (number, true over ours): {_shown(openai.parallel)}",
    ]
    return "\n".join(lines)


def _shown(counts: Counter[Any]) -> str:
    return ", ".join(f"{key}: {n}" for key, n in sorted(counts.items())) or "-"


def as_json(sessions: dict[str, list[Step]]) -> dict[str, Any]:
    """The same for machines."""
    return {name: asdict(summary(name, steps)) for name, steps in sessions.items()}

"""`compress()` of one long session: time beside one tokenizer pass over its text, and memory
beside its messages.

The session is the largest of `$COMPACT_DATA`'s Claude Code sessions, or without it the bundled
sample, repeated. Every run is a fresh process, so that nothing is cached; the vocabulary is
loaded by the tokenizer pass before.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import compact.session.compress  # noqa: F401 - loaded before the clock starts
from bench.measuring import CannotMeasure, Check, Setting, Spread, Table, child, number
from compact import wiring
from compact.messages.messages import Message
from compact.session.one_call import compress

LIMIT = 32_000
MOST_PASSES = 20.0
MOST_MEMORY = 2.0
SAMPLE_TOKENS = 244_000
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def measure(setting: Setting) -> list[Table]:
    """A fresh process for each run, and two for memory."""
    runs = [child("bench.whole", "time") for _ in range(setting.runs)]
    memory, resident = child("bench.whole", "memory"), child("bench.whole", "resident")
    about = runs[0]
    passes, cpu, wall = (
        Spread(tuple(run[key] for run in runs)) for key in ("pass_ms", "cpu_ms", "wall_ms")
    )
    table = Table(
        f"compress() of {about['name']} to {LIMIT:,} tokens, cold, fresh processes",
        ("what", "figure"),
        notes=[
            f"{about['messages']:,} messages, {about['tokens']:,} tokens of text, "
            f"{about['bytes'] / 1e6:.2f} MB. The result has {about['after']:,} tokens."
        ],
    )
    ratio = cpu.over(passes)
    table.rows = [
        ("one tokenizer pass over its text, CPU ms", passes.text()),
        ("compress(), CPU ms", cpu.text()),
        ("compress(), wall ms", wall.text()),
        ("compress() ÷ tokenizer pass", ratio.text()),
        ("parsed messages, MB (tracemalloc)", number(memory["parsed"] / 1e6)),
        ("most held in compress(), with them, MB (tracemalloc)", number(memory["peak"] / 1e6)),
    ]  # fmt: skip
    if resident["rise"] is not None:
        table.rows += [
            ("resident memory: rise by reading the file, MB", number(resident["read"] / 1e6)),
            ("resident memory: further rise in compress(), MB", number(resident["rise"] / 1e6)),
        ]
    table.checks = [
        Check("compress() ÷ one tokenizer pass", ratio.median, MOST_PASSES),
        Check("peak memory ÷ parsed messages", memory["peak"] / memory["parsed"], MOST_MEMORY),
    ]
    return [table]


def load() -> tuple[str, list[Message]]:
    """The session and what to call it.

    Raises:
        CannotMeasure: the data folder is named but holds no session.
    """
    if named := os.environ.get("COMPACT_DATA"):
        files = sorted(Path(named).glob("claude_code_sessions/*.jsonl"))
        if not files:
            raise CannotMeasure("COMPACT_DATA names a folder without Claude Code sessions")
        largest = max(files, key=lambda file: file.stat().st_size)
        return largest.stem, list(wiring.read_transcript(largest).messages)
    return "the bundled sample, repeated", _repeated_sample()


def _repeated_sample() -> list[Message]:
    """The sample's messages, over and over up to `SAMPLE_TOKENS`, each round with own call ids."""
    import compact.cli

    file = Path(compact.cli.__file__).parent / "sample" / "harbour.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines if line.strip()]
    tokens = wiring.token_counter("chat_completions").messages(_parsed(records))
    rounds = list(records)
    for number_of_round in range(1, -(-SAMPLE_TOKENS // tokens)):
        text = json.dumps(records[1:])
        for call_id in {c["id"] for r in records for c in r.get("tool_calls", ())}:
            text = text.replace(f'"{call_id}"', f'"{call_id}_{number_of_round}"')
        rounds += json.loads(text)
    return _parsed(rounds)


def _parsed(records: Sequence[dict[str, Any]]) -> list[Message]:
    data = "\n".join(json.dumps(record) for record in records).encode()
    return list(wiring.read_transcript("sample.jsonl", data=data).messages)


def texts_of(messages: Sequence[Message]) -> Iterator[str]:
    """Every text a tokenizer sees of the messages."""
    for message in messages:
        for part in message.parts:
            match part.type:
                case "tool_call":
                    yield part.name
                    yield part.arguments
                case "image":
                    continue
                case _:
                    yield part.text


def _time() -> dict[str, Any]:
    name, messages = load()
    texts = list(texts_of(messages))
    counter = wiring.token_counter("chat_completions", tokenizer="o200k")
    count = counter.estimator.count
    count("load the vocabulary")
    gc.collect()
    started = time.process_time()
    tokens = sum(map(count, texts))
    pass_ms = (time.process_time() - started) * 1e3
    gc.collect()
    started, clock = time.process_time(), time.perf_counter()
    result = compress(messages, max_tokens=LIMIT, tokenizer="o200k")
    cpu_ms, wall_ms = (time.process_time() - started) * 1e3, (time.perf_counter() - clock) * 1e3
    return {
        "name": name,
        "messages": len(messages),
        "tokens": tokens,
        "bytes": sum(len(text.encode("utf-8", "replace")) for text in texts),
        "after": counter.messages(result),
        "pass_ms": pass_ms,
        "cpu_ms": cpu_ms,
        "wall_ms": wall_ms,
    }


def _memory() -> dict[str, Any]:
    """Bytes held by the messages, and the most held at once, as Python's allocator sees it."""
    _warm()
    gc.collect()
    tracemalloc.start()
    _, messages = load()
    gc.collect()
    parsed, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    compress(messages, max_tokens=LIMIT, tokenizer="o200k")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"parsed": parsed, "peak": peak}


def _warm() -> None:
    """Import everything and load the vocabulary, so that only messages are measured."""
    say = [
        {"role": "user", "content": "word " * 400},
        {"role": "assistant", "content": "Yes. " * 400},
    ]
    compress([*say * 4, say[0]], max_tokens=1_500, tokenizer="o200k")


def _resident() -> dict[str, Any]:
    """Rises of resident memory by reading and in compress(); None where nobody tells."""
    _warm()
    gc.collect()
    try:
        RESET.write_text("5")
        empty = _status("VmRSS")
    except OSError:
        return {"read": None, "rise": None}
    _, messages = load()
    gc.collect()
    before = _status("VmRSS")
    RESET.write_text("5")
    compress(messages, max_tokens=LIMIT, tokenizer="o200k")
    return {"read": before - empty, "rise": _status("VmHWM") - before}


def _status(key: str) -> int:
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


if __name__ == "__main__":
    print(json.dumps({"time": _time, "memory": _memory, "resident": _resident}[sys.argv[1]]()))

"""Golden summaries: the extractive summaries of fixture histories are what they were, byte for byte
(K-5), and hold more than nine in ten of their sources' key entities (K-13).

Where a change of the words is wanted, `python -m tests.compression.test_golden renew` writes
`tests/fixtures/golden` anew: read the difference before it is committed. The histories are the
command line's sample session, a short invented one in three languages (`kiln.jsonl`), and one made
by `evals.generated`.

Summaries are written at the caps that levels have in a window of 32k tokens; `compact` at that of
a 64k window, as 409 tokens do not hold nine in ten. At 819 tokens the sample is near the edge: of
its first 100 to 300 messages (12 to 51 thousand tokens) 82 to 95 % of the key entities are kept, at
1,638 tokens all of them.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from compact import CompactPolicy, plan
from compact.compression.extraction.extractive import ExtractiveSummarizer
from compact.core.checkpoints import Level, Summary, SummaryRequest
from compact.core.levels import LEVELS, Caps
from compact.core.messages import Message
from compact.core.modes import MODES
from compact.core.policy import Strategy
from compact.wiring import read_transcript, token_counter
from evals import generated
from evals.retention import entities, unnamed

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "fixtures" / "golden"
SAMPLE = ROOT / "src" / "compact" / "apps" / "cli" / "sample" / "harbour.jsonl"
COUNTER = token_counter("chat_completions", tokenizer="o200k")
CAPS = {level: Caps(32_768).of(level) for level in LEVELS} | {"compact": Caps(65_536).of("compact")}
SUMMARIZING = ("task_state", "brief", "decision_log", "code_delta")
RETAINED = 0.9
WANTED: list[tuple[str, Level]] = [("assistant", level) for level in LEVELS]
WANTED += [(mode, "detailed") for mode in MODES if mode != "assistant"]


@cache
def history(name: str) -> tuple[Message, ...]:
    """The messages that are summarized; what is pinned is never among them."""
    if name == "scattered":
        return generated.scattered(3).messages[:60]
    path, stop = (SAMPLE, 160) if name == "harbour" else (GOLDEN / "kiln.jsonl", -4)
    messages = read_transcript(path).messages[1:stop]
    return tuple(m for m in messages if not m.metadata.pinned)


HISTORIES = ("harbour", "kiln", "scattered")


def request(name: str, mode: str, level: Level, **more) -> SummaryRequest:
    cap = CAPS[level]
    return SummaryRequest(**{
        "messages": history(name), "max_tokens": cap, "max_instruction_tokens": cap // 3,
        "mode": mode, "level": level, **more,
    })  # fmt: skip


def written(asked: SummaryRequest) -> Summary:
    return ExtractiveSummarizer(COUNTER).extracted(asked)


def carried_on(*, from_notes: bool) -> str:
    """A summary of the second half that carries on one of the first, from its notes or, as after a
    restart, from its text.
    """
    whole = history("kiln")
    first = written(request("kiln", "assistant", "moderate", messages=whole[:20]))
    before = first if from_notes else first.model_copy(update={"memo": None})
    asked = request("kiln", "assistant", "moderate", messages=whole[20:], previous=before)
    return written(asked).text


def checkpoint(path: Path, size: int, strategy: Strategy) -> str:
    """The checkpoint of a whole compression, its heading included."""
    policy = CompactPolicy(strategy=strategy)
    messages = read_transcript(path).messages
    found = plan(messages, max_tokens=size, tokenizer="o200k", policy=policy).checkpoint
    assert found is not None
    return found.text


def texts() -> Iterator[tuple[str, str]]:
    """The name of each golden file, and what it should hold now."""
    for name in HISTORIES:
        for mode, level in WANTED:
            yield f"{name}.{mode}.{level}.md", written(request(name, mode, level)).text
    yield "kiln.carried-on.md", carried_on(from_notes=True)
    yield "kiln.carried-on-from-text.md", carried_on(from_notes=False)
    for strategy in get_args(Strategy):
        yield f"kiln.plan.{strategy}.md", checkpoint(GOLDEN / "kiln.jsonl", 1_200, strategy)
        yield f"harbour.plan.{strategy}.md", checkpoint(SAMPLE, 8_000, strategy)


@cache
def now() -> dict[str, bytes]:
    return {name: text.encode() for name, text in texts()}


def digest() -> str:
    """Of all golden texts as they are now."""
    found = hashlib.sha256()
    for name, text in now().items():
        found.update(f"{name}\0{len(text)}\0".encode() + text)
    return found.hexdigest()


def test_summaries_are_what_they_were():
    """For each history, level, mode and strategy the same words, byte for byte (K-5)."""
    stored = {path.name: path.read_bytes() for path in GOLDEN.glob("*.md")}
    assert set(stored) == set(now())
    changed = [name for name, text in now().items() if stored[name] != text]
    assert not changed, "read the header of this file"


@pytest.mark.parametrize("strategy", SUMMARIZING)
def test_an_extractive_summary_has_one_form_for_all_strategies(strategy):
    """What is extracted keeps its sections, however a model would be asked to write (K-5)."""
    asked = request("kiln", "assistant", "detailed", strategy=strategy)
    assert written(asked).text.encode() == now()["kiln.assistant.detailed.md"]


@pytest.mark.parametrize("seed", ["1", "4242"])
def test_another_process_writes_the_same(seed):
    """Neither the process nor the order of its hashes shows in a summary (K-5)."""
    command = [sys.executable, "-m", "tests.compression.test_golden", "digest"]
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    known = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
    told = subprocess.run(command, cwd=ROOT, env=known, capture_output=True, check=True, text=True)
    assert told.stdout.strip() == digest()


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize(("mode", "level"), WANTED)
def test_key_entities_are_kept(name, mode, level):
    """More than nine in ten of the likeliest names stand in the summary (K-13)."""
    asked = request(name, mode, level)
    summary = written(asked)
    assert COUNTER.text(summary.text) <= asked.max_tokens
    names = entities(asked.messages)
    missing = unnamed(names, summary.text)
    assert 1 - len(missing) / len(names) > RETAINED, missing


def renew() -> None:
    """Write all golden files anew, and remove those that no case has."""
    for path in GOLDEN.glob("*.md"):
        if path.name not in now():
            path.unlink()
    for name, text in now().items():
        (GOLDEN / name).write_bytes(text)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["renew"]:
            renew()
        case ["digest"]:
            print(digest())
        case _:
            sys.exit("usage: python -m tests.compression.test_golden renew|digest")

"""Golden checkpoints: stories, whole checkpoints and a session's record of fixture histories are
what they were, byte for byte (K-5), and whole ones hold their sources' key entities (K-13).

Where a change of the words is wanted, `python -m tests.engine.test_golden renew` (with
`PYTHONPATH=src`) writes `tests/fixtures/golden` anew: read the difference before it is committed,
in a commit of its own. The histories are the command line's sample session, a short invented one in
three languages (`kiln.jsonl`), and one made by `evals.generated`.

Stories are written at the caps that levels have in a window of 32k tokens, whole checkpoints by
mode in `WHOLE` tokens.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import get_args

import pytest

from compact import CompactPolicy, ContextManager, plan
from compact.engine.checkpoint_text import Composer
from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.engine.chronology.notes import Notes
from compact.messages import clock_and_ids
from compact.messages.checkpoints import LEVELS, Caps, Level, SummaryRequest
from compact.messages.messages import Message
from compact.messages.own_text import headed, keyed
from compact.messages.policy import Strategy
from compact.text.modes import MODES
from compact.wiring import read_transcript, token_counter
from evals import generated
from evals.retention import entities, unnamed

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "fixtures" / "golden"
SAMPLE = ROOT / "src" / "compact" / "cli" / "sample" / "harbour.jsonl"
COUNTER = token_counter("chat_completions", tokenizer="o200k")
CAPS = {level: Caps(32_768).of(level) for level in LEVELS}
WHOLE = 1_600
RETAINED = 0.9


@cache
def read(path: Path) -> tuple[Message, ...]:
    """The messages of a file, by ids that are the same in every run."""
    rows = read_transcript(path).messages
    return tuple(m.model_copy(update={"id": f"m{i}"}) for i, m in enumerate(rows))


@cache
def history(name: str) -> tuple[Message, ...]:
    """The messages that are summarized; what is pinned is never among them."""
    if name == "scattered":
        rows = generated.scattered(3).messages[:60]
        return tuple(m.model_copy(update={"id": f"m{i}"}) for i, m in enumerate(rows))
    path, stop = (SAMPLE, 160) if name == "harbour" else (GOLDEN / "kiln.jsonl", -4)
    messages = read(path)[1:stop]
    return tuple(m for m in messages if not m.metadata.pinned)


KEY = b"the key of golden files"
HISTORIES = ("harbour", "kiln", "scattered")


def request(name: str, level: Level, **more) -> SummaryRequest:
    return SummaryRequest(**{
        "messages": history(name), "max_tokens": CAPS[level],
        "level": level, **more,
    })  # fmt: skip


def story(asked: SummaryRequest) -> str:
    return ExtractiveSummarizer(COUNTER).extracted(asked).text


def whole(name: str, mode: str, room: int = WHOLE) -> str:
    """What stands now, chronology and names, as one call writes them."""
    return Composer(Notes().read(history(name)), COUNTER, mode=mode).written(None, room)


def lived() -> str:
    """What a session of the sample shows of its past at the end: checkpoints and record."""
    ids = (f"id-{i}" for i in count())
    with clock_and_ids.using(new_id=lambda: next(ids)):
        ctx = ContextManager(window=8_192, tokenizer="o200k")
        for message in read(SAMPLE):
            ctx.add_message(message)
            ctx.get_context_for_model()
        shown = ctx.active_context().messages
    return "\n\n".join(m.text for m in shown if headed(m.text))


def checkpoint(path: Path, size: int, strategy: Strategy) -> str:
    """The checkpoint of a whole compression, its heading included."""
    policy = CompactPolicy(strategy=strategy)
    messages = read(path)
    made = plan(messages, max_tokens=size, tokenizer="o200k", policy=policy, key=KEY)
    found = made.checkpoint
    assert found is not None
    return found.text(keyed(KEY))


def texts() -> Iterator[tuple[str, str]]:
    """The name of each golden file, and what it should hold now."""
    for name in HISTORIES:
        for level in LEVELS:
            yield f"{name}.story.{level}.md", story(request(name, level))
        for mode in MODES:
            yield f"{name}.whole.{mode}.md", whole(name, mode)
    yield "harbour.session.md", lived()
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


@pytest.mark.slow
def test_summaries_are_what_they_were():
    """For each history, level, mode and strategy the same words, byte for byte (K-5)."""
    stored = {path.name: path.read_bytes() for path in GOLDEN.glob("*.md")}
    assert set(stored) == set(now())
    changed = [name for name, text in now().items() if stored[name] != text]
    assert not changed, "read the header of this file"


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["4242", "1"])
def test_another_process_writes_the_same(seed):
    """Neither the process nor the order of its hashes shows in a summary (K-5)."""
    command = [sys.executable, "-m", "tests.engine.test_golden", "digest"]
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    known = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
    told = subprocess.run(command, cwd=ROOT, env=known, capture_output=True, check=True, text=True)
    assert told.stdout.strip() == digest()


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("level", LEVELS)
def test_stories_keep_to_their_caps(name, level):
    assert COUNTER.text(now()[f"{name}.story.{level}.md"].decode()) <= CAPS[level]


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("mode", MODES)
def test_key_entities_are_kept(name, mode):
    """More than nine in ten of the likeliest names stand in the whole checkpoint (K-13)."""
    text = now()[f"{name}.whole.{mode}.md"].decode()
    assert COUNTER.text(text) <= WHOLE
    names = entities(history(name))
    missing = unnamed(names, text)
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
            sys.exit("usage: python -m tests.engine.test_golden renew|digest")

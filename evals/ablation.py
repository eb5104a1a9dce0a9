"""What each detector of texts earns: `python -m evals.ablation text.sentences:_LOG_LINE …`.

A detector is named by its module and name. A pattern then never matches. After `=` stands what
takes the place of anything else: `text.facts:_is_function='lambda word: False'`. Names joined by
`+` go together. All sessions are compressed with the detector and without it; printed are the means
of the differences, for each measure and half, with an interval in which sessions are drawn. Choose
on the half that is looked at, and trust the other one.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean

from compact import plan
from compact.errors import CannotFit
from compact.messages.context import render_text
from compact.messages.messages import Message
from compact.wiring import read_transcript, token_counter
from evals import contexts, coverage, data, instructions, person, plain
from evals.split import HALVES, half_of
from evals.stats import clustered_interval

NEVER = re.compile(r"(?!)")
TALK_SIZES = (1_000, 2_000)
Measures = Mapping[str, float]


@dataclass(frozen=True)
class Item:
    """One session to compress, and how it is scored."""

    half: str
    session: str
    score: Callable[[], Measures]


def items(folder: Path) -> Iterator[Item]:
    """All that is compressed: cases of coverage, rules that a person said, and plain talk."""
    cases = coverage.Cases(folder)
    for case in cases:
        yield Item(case.half, case.session, partial(_covered, cases, case))
    for path in data.every_claude_code_session(folder):
        half, messages = half_of(path.stem, folder=path.parent.name), read_transcript(path).messages
        said = person.said(person.rows_of(path))
        yield Item(half, path.stem, partial(_kept, messages, said))
    count = token_counter("chat_completions", tokenizer="o200k").text
    talks = {"LoCoMo": plain.locomo(folder), "LongMemEval": plain.longmemeval(folder, count)}
    for source, chats in talks.items():
        for chat in chats:
            yield Item(chat.part, chat.name, partial(_answered, source, chat, count))


def _covered(cases: coverage.Cases, case: coverage.Case) -> Measures:
    text = render_text(coverage.compressed(case).context.messages)
    memory = case.definition.get("from_memory")
    found = {"coverage": float(cases.tool.coverage(case.definition, text))}
    if memory:
        found["from memory"] = float(cases.tool.coverage(case.definition, text, memory))
    if case.said:
        found["sentences"] = mean(each in contexts.squeezed(text) for each in case.said)
    return found


def _kept(messages: Sequence[Message], said: Sequence[person.Said]) -> Measures:
    tokens = token_counter("anthropic", tokenizer="o200k").messages(messages)
    try:
        done = plan(messages, max_tokens=tokens // instructions.RATIO, tokenizer="o200k")
    except CannotFit:
        return {}
    there = contexts.squeezed(done.context.render_text())
    kept = [x in there for each in said for x in map(contexts.squeezed, each.statements())]
    return {"statements": mean(kept)} if kept else {}


def _answered(source: str, chat: plain.Chat, count: Callable[[str], int]) -> Measures:
    found = {}
    for size in TALK_SIZES:
        text = plain.compressed(chat, size, count)
        found[f"{source}, {size:,}"] = mean(plain.found(text, x)[1] for x in chat.questions)
    return found


def switch_off(detector: str) -> None:
    """Put something else in the place of a detector, wherever it is imported.

    Raises:
        AttributeError: the module has no such name.
    """
    for one in detector.split("+"):
        place, _, value = one.partition("=")
        module, _, name = place.partition(":")
        old = getattr(importlib.import_module(f"compact.{module}"), name)
        new = eval(value) if value else NEVER
        for each in [m for key, m in sys.modules.items() if key.startswith("compact")]:
            if getattr(each, name, None) is old:
                setattr(each, name, new)


_ITEMS: list[Item] = []


def _scores(detector: str) -> list[Measures]:
    if detector:
        switch_off(detector)
    return [item.score() for item in _ITEMS]


def differences(before: list[Measures], after: list[Measures]) -> Iterator[str]:
    """A line for each measure and half that changes."""
    for name in dict.fromkeys(name for row in before for name in row):
        for half in HALVES:
            clusters: dict[str, list[float]] = {}
            for item, was, now in zip(_ITEMS, before, after, strict=True):
                if item.half == half and name in was:
                    clusters.setdefault(item.session, []).append(now.get(name, 0.0) - was[name])
            if any(map(any, clusters.values())):
                low, high = clustered_interval(list(clusters.values()))
                all_of = mean(x for rows in clusters.values() for x in rows)
                yield f"  {name:18} {half:6} {all_of:+.4f}  {low:+.4f} to {high:+.4f}"


def main(argv: list[str] | None = None) -> None:
    """Print what changes without each detector."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("detectors", nargs="+")
    options = parser.parse_args(argv)
    _ITEMS.extend(items(data.folder()))
    # Each run is a process of its own, since texts that were read are remembered.
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        before = pool.apply(_scores, ("",))
        for detector in options.detectors:
            print(detector, *differences(before, pool.apply(_scores, (detector,))), sep="\n")


if __name__ == "__main__":
    main()

"""`python -m bench.versus SRC… [--rounds N] [--only TEXT]`: the same work by several trees,
so that what a change costs is told from what the machine does meanwhile.

Each tree has a process of its own; they do each work in turn, A B C A B C …. CPU times; the first
tree is what the others are divided by, round by round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bench.histories import Record, history
from bench.measuring import REPO_ROOT, WINDOWS, CannotMeasure, Spread, Table, Work, cpu_ms
from bench.session import session
from bench.whole import LIMIT, load
from compact.session.context_manager import ContextManager
from compact.session.one_call import compress

TURNS, SUMMARIZED = 3_000, 1_000
OPENINGS = 5


# --- one tree -------------------------------------------------------------------------------------


def serve() -> None:
    """Do each work whose name comes in, and print the CPU milliseconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        works = _works(Path(folder))
        print(json.dumps(list(works)), flush=True)
        for line in sys.stdin:
            work, times = works[line.rstrip("\n")]
            print(cpu_ms(work) / times, flush=True)


def _works(folder: Path) -> dict[str, tuple[Work, int]]:
    """What is done, and how many of what is measured it does at once."""
    messages = history(TURNS)
    few, stored = messages[:SUMMARIZED], folder / "stored.db"
    files = (folder / f"{number}.db" for number in range(1_000_000))

    def kept(file: Path) -> ContextManager:
        return ContextManager(window=WINDOWS[0], store=file, session_id="one")

    with kept(stored) as manager:
        _turns(lambda: manager, few)

    def open_stored() -> None:
        for _ in range(OPENINGS):
            with kept(stored) as manager:
                manager.get_context_for_model()

    works: dict[str, tuple[Work, int]] = {}
    for window in WINDOWS:
        off, on = partial(session, window), partial(session, window, "extractive")
        works[f"a turn, no summarizer, {window:,}"] = partial(_turns, off, messages), TURNS
        works[f"a turn, extractive, {window:,}"] = partial(_turns, on, few), SUMMARIZED
    in_store = partial(_turns, lambda: kept(next(files)), few)
    works[f"a turn, extractive, {WINDOWS[0]:,}, in a store"] = in_store, SUMMARIZED
    works["opening that, and its prompt"] = open_stored, OPENINGS
    name, real = load()
    works[f"compress() of {name}"] = partial(compress, real, max_tokens=LIMIT, tokenizer="o200k"), 1
    return works


def _turns(opened: Callable[[], ContextManager], messages: Sequence[Record]) -> None:
    manager = opened()
    for message in messages:
        manager.add_message(message)
        manager.get_context_for_model()
    manager.close()


# --- several trees --------------------------------------------------------------------------------


class Tree:
    """A process that imports one tree."""

    def __init__(self, source: str) -> None:
        self._source = source
        paths = os.pathsep.join((source, str(REPO_ROOT)))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.versus", "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": paths},
        )
        self.works: list[str] = json.loads(self._line())

    def ms(self, work: str) -> float:
        """CPU milliseconds that the work takes by this tree."""
        assert self._process.stdin is not None
        print(work, file=self._process.stdin, flush=True)
        return float(self._line())

    def close(self) -> None:
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise CannotMeasure(f"{self._source}: its process ended")
        return line


def table(sources: Sequence[str], rounds: int, only: str = "") -> Table:
    """Each work by each tree, the later ones divided by the first."""
    trees = [Tree(source) for source in sources]
    ratios = [f"{source} ÷ {sources[0]}" for source in sources[1:]]
    found = Table(f"{rounds} rounds in turn, CPU ms", ("", *sources, *ratios))
    for work in (work for work in trees[0].works if only in work):
        taken = [[tree.ms(work) for tree in trees] for _ in range(rounds + 1)][1:]
        columns = [Spread(values) for values in zip(*taken, strict=True)]
        columns += [column.over(columns[0]) for column in columns[1:]]
        found.rows.append((work, *(column.text() for column in columns)))
    for tree in trees:
        tree.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.versus", description=__doc__)
    parser.add_argument("sources", nargs="*", metavar="SRC", help="folders that hold `compact`")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", metavar="TEXT", help="what is named so alone")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
    else:
        print(table(given.sources, given.rounds, given.only).markdown())


if __name__ == "__main__":
    main()

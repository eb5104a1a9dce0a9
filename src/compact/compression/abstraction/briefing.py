"""Briefing: what a model is told when it is to summarize, put together from templates.

The rules stand before the data, what is asked for now after them. What people and goals say is
given word for word, but for control tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from string import Template
from typing import Literal

from compact.compression.fencing import Block, fenced, harmless
from compact.core.checkpoints import SummaryRequest
from compact.core.context import ActiveContext
from compact.core.messages import Message
from compact.core.modes import mode_named
from compact.core.templates import template
from compact.core.tokens import TokenCounter

WORDS_PER_TOKEN = 0.6
"""Words that a model is allowed for each token of the cap: names take more tokens than prose."""
FEWEST_WORDS = 20
Form = Literal["full", "plain", "short"]
"""How much the rules say: with an example, without it, or what small windows have room for."""


@dataclass(frozen=True, slots=True)
class Briefing:
    """What is said before the data and after them."""

    rules: str
    ask: str

    def context(self, blocks: Iterable[Block], marker: str, counter: TokenCounter) -> ActiveContext:
        """The prompt with these blocks as its data."""
        data = f"{fenced(blocks, marker)}\n\n{self.ask}"
        messages = (
            Message(role="system", content=self.rules, id="summary-rules"),
            Message(role="user", content=data, id="summary-data"),
        )
        return ActiveContext(messages=messages, tokens=counter.messages(messages))


FORMS: Mapping[Form, tuple[str, ...]] = {
    "full": ("rules.md", "{}.md", "examples/{}.md"),
    "plain": ("rules.md", "{}.md"),
    "short": ("short/rules.md", "short/{}.md"),
}
"""The templates of each form, which are named after the strategy; from long to short."""


def rules_of(request: SummaryRequest, form: Form) -> str:
    """The rules of a request's strategy and level, and its wishes."""
    blocks = [template(f"summary/{name.format(request.strategy)}") for name in FORMS[form]]
    blocks.append(template(f"summary/{request.level}.md"))
    wishes = (
        ("focus", mode_named(request.mode).focus),
        ("guidance", request.guidance),
        ("goals", _listed(request.goals)),
        ("open_tasks", _listed(request.open_tasks)),
    )
    blocks += [_filled(name, text=harmless(text)) for name, text in wishes if text.strip()]
    return "\n\n".join(blocks)


def whole(rules: str, tokens: int) -> Briefing:
    """For all of the data at once."""
    return Briefing(rules, _ask(tokens))


def part(rules: str, tokens: int, number: int, total: int) -> Briefing:
    """For one part of them."""
    told = _filled("map", number=number, total=total)
    return Briefing(rules, f"{_ask(tokens)} {told}")


def reduction(rules: str, tokens: int, total: int) -> Briefing:
    """For the summaries of parts, which are put together."""
    told = _filled("reduce", total=total)
    return Briefing(rules, f"{_ask(tokens)} {told}")


def repair(headings: Iterable[str], missing: Iterable[str]) -> Briefing:
    """For lines about what a summary misses."""
    rules = _filled("repair", headings=", ".join(headings))
    return Briefing(rules, _filled("repair_ask", text=harmless(_listed(missing))))


def _ask(tokens: int) -> str:
    return _filled("ask", words=max(FEWEST_WORDS, int(tokens * WORDS_PER_TOKEN)))


def _filled(name: str, **values: object) -> str:
    return Template(template(f"summary/{name}.md")).substitute(values)


def _listed(texts: Iterable[str]) -> str:
    return "\n".join(f"- {' '.join(text.split())}" for text in texts)

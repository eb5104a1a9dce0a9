"""Briefing: what a model is told when it is to tell the story, put together from templates.

The rules stand before the data, what is asked for now after them. What people and goals say is
data like the messages, in the same fence and cleaned like them: it is told in their words, and
gives no orders.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from string import Template
from typing import Literal

from compact.compression.fencing import (
    GOALS,
    TASKS,
    WANTED,
    WRITTEN,
    Block,
    Clean,
    cleaned,
    fenced,
    shortened,
)
from compact.core.checkpoints import SummaryRequest
from compact.core.context import ActiveContext
from compact.core.messages import Message, visible_texts
from compact.core.modes import mode_named
from compact.core.templates import template
from compact.core.tokens import TokenCounter

WORDS_PER_TOKEN, FEWEST_WORDS = 0.6, 20
"""Words that a model is allowed for each token of the cap (names take more tokens than prose), and
at least: a smaller number would ask for no sentence."""
Form = Literal["full", "plain", "short", "shortest"]
"""How much the rules say: with an example, without, or what small models have room for."""


@dataclass(frozen=True, slots=True)
class Briefing:
    """What is said before the data and after them, and what stands in every request's data."""

    rules: str
    ask: str
    beside: Sequence[Block] = ()

    def context(self, blocks: Iterable[Block], marker: str, counter: TokenCounter) -> ActiveContext:
        """The prompt with these blocks as its data."""
        data = f"{fenced([*self.beside, *blocks], marker)}\n\n{self.ask}"
        messages = (
            Message(role="system", content=self.rules, id="summary-rules"),
            Message(role="user", content=data, id="summary-data"),
        )
        return ActiveContext(messages=messages, tokens=counter.messages(messages))


@dataclass(frozen=True, slots=True)
class Words:
    """The words in which a request's story is asked for."""

    form: Form
    rules: str
    beside: Sequence[Block] = ()

    def whole(self, tokens: int) -> Briefing:
        """For all of the data at once."""
        return Briefing(self.rules, self._ask(tokens), self.beside)

    def part(self, tokens: int, number: int, total: int) -> Briefing:
        """For one part of them."""
        told = _filled("map", number=number, total=total)
        return Briefing(self.rules, f"{told} {self._ask(tokens)}", self.beside)

    def reduction(self, tokens: int, total: int) -> Briefing:
        """For the stories of parts, which are put together."""
        told = _filled("reduce", total=total)
        return Briefing(self.rules, f"{told} {self._ask(tokens)}", self.beside)

    def _ask(self, tokens: int) -> str:
        words = max(FEWEST_WORDS, int(tokens * WORDS_PER_TOKEN))
        return _filled("ask_short" if self.form in SMALL_FORMS else "ask", words=words)


FORMS: Mapping[Form, Sequence[str]] = {
    "full": ("rules", "strategies/{strategy}", "{level}", "focus", "{answer}", "example"),
    "plain": ("rules", "strategies/{strategy}", "{level}", "focus", "{answer}"),
    "short": ("short", "strategies/{strategy}", "{level}", "focus", "{answer}"),
    "shortest": ("short", "{level}", "{answer}"),
}
"""The templates of each form, from long to short."""
SMALL_FORMS: Sequence[Form] = ("short", "shortest")
"""Those that a small model is not lost in."""


def words_of(
    request: SummaryRequest, form: Form, *, structured: bool, beside: Sequence[Block] = ()
) -> Words:
    """How a request is put in that form; `structured` where a server holds the answer to JSON."""
    names = [
        name.format(
            strategy=request.strategy, level=request.level, answer="json" if structured else ""
        )
        for name in FORMS[form]
    ]
    focus = mode_named(request.mode).focus
    rules = "\n\n".join(_filled(name, text=focus) for name in names if name)
    return Words(form, rules, beside)


def again(told: Briefing, wishes: Iterable[str]) -> Briefing:
    """The same once more, with what was wrong about the first answer."""
    return replace(told, ask=f"{_filled('again', text=' '.join(wishes))} {told.ask}")


def beside(request: SummaryRequest, most: int) -> list[Block]:
    """What is said beside the messages, as blocks; the record of at most so many characters."""
    texts = (request.record, request.guidance, *request.goals, *request.open_tasks)
    clean = cleaned([*visible_texts(request.messages), *texts])
    rows = (
        (WRITTEN, shortened(clean(request.record), most)),
        (GOALS, _listed(request.goals, clean)),
        (TASKS, _listed(request.open_tasks, clean)),
        (WANTED, clean(request.guidance)),
    )
    return [Block(speaker, text, -1) for speaker, text in rows if text]


def _filled(name: str, **values: object) -> str:
    return Template(template(f"summary/{name}.md")).substitute(values)


def _listed(texts: Iterable[str], clean: Clean) -> str:
    return "; ".join(" ".join(clean(text).split()) for text in texts)

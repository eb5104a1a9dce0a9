"""Briefing: the prompt that asks for a summary (story), built from templates.

Rules come before the data and the request comes after it. User text and goals are fenced as data,
like the messages; they are not instructions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from string import Template
from typing import Literal

from compact.engine.chronology.work import WORKS
from compact.engine.fencing import (
    GOALS,
    IN_VIEW,
    TASKS,
    TOLD,
    WANTED,
    WRITTEN,
    Block,
    Clean,
    blocks_of,
    cleaned,
    fenced,
    one_line,
    shortened,
)
from compact.messages.checkpoints import Level, SummaryRequest, summary_of
from compact.messages.context import ActiveContext
from compact.messages.messages import SYSTEM_ROLES, Message, visible_texts
from compact.messages.tokens import TokenCounter
from compact.text.anchors import keys_of
from compact.text.modes import MODES, mode_named
from compact.text.templates import template

WORDS_PER_TOKEN, WORDS_OF_WORK, FEWEST_WORDS = 0.6, 0.5, 20
"""`WORDS_PER_TOKEN`: words to ask for per token of the cap. `WORDS_OF_WORK`: the same if tools were
called, since names take more tokens. `FEWEST_WORDS`: fewest words to ask for."""
DENSE = 20
"""With more than this many tokens of messages per token of summary, not every step can be told."""
LINE = 600
"""Most characters shown of a message that stays in the prompt."""
Form = Literal["full", "plain", "short", "shortest"]
"""How long the rules are: with an example, without one, or short for small models."""


@dataclass(frozen=True, slots=True)
class Briefing:
    """The text before the data, the text after it, and other blocks beside the messages."""

    rules: str
    ask: str
    beside: Sequence[Block] = ()

    def context(self, blocks: Iterable[Block], marker: str, counter: TokenCounter) -> ActiveContext:
        """Return the prompt with these blocks as its data."""
        before = [block for block in self.beside if block.speaker != IN_VIEW]
        after = [block for block in self.beside if block.speaker == IN_VIEW]
        data = f"{fenced([*before, *blocks, *after], marker)}\n\n{self.ask}"
        messages = (
            Message(role="system", content=self.rules, id="summary-rules"),
            Message(role="user", content=data, id="summary-data"),
        )
        return ActiveContext(messages=messages, tokens=counter.messages(messages))


@dataclass(frozen=True, slots=True)
class Words:
    """The texts with which a summary is requested."""

    form: Form
    rules: str
    beside: Sequence[Block] = ()
    per_token: float = WORDS_PER_TOKEN

    def whole(self, tokens: int) -> Briefing:
        """Build the briefing for all of the data at once."""
        return Briefing(self.rules, self._ask(tokens), self.beside)

    def part(self, tokens: int, number: int, total: int) -> Briefing:
        """Build the briefing for one part of the data."""
        told = _filled("map", number=number, total=total)
        return Briefing(self.rules, f"{told} {self._ask(tokens)}", self.beside)

    def reduction(self, tokens: int, total: int) -> Briefing:
        """Build the briefing for joining the summaries of parts."""
        told = _filled("reduce", total=total)
        return Briefing(self.rules, f"{told} {self._ask(tokens)}", self.beside)

    def _ask(self, tokens: int) -> str:
        words = max(FEWEST_WORDS, int(tokens * self.per_token))
        return _filled("ask_short" if self.form in SMALL_FORMS else "ask", words=words)


FORMS: Mapping[Form, Sequence[str]] = {
    "full": ("rules", "strategies/{strategy}", "{level}", "{older}", "focus", "{json}", "example"),
    "plain": ("rules", "strategies/{strategy}", "{level}", "{older}", "focus", "{json}"),
    "short": ("short", "strategies/{strategy}", "{level}", "focus", "{json}"),
    "shortest": ("short", "{level}", "{json}"),
}
"""The templates of each form, from long to short."""
SMALL_FORMS: Sequence[Form] = ("short", "shortest")
"""The forms for small models."""


def words_of(
    request: SummaryRequest, form: Form, *, structured: bool, beside: Sequence[Block] = ()
) -> Words:
    """Return the texts for a request in a form. `structured`: the answer must be JSON."""
    level, json = _level_of(request), "json" if structured else ""
    older = "" if request.level == "detailed" else "older"
    names = [
        name.format(strategy=request.strategy, level=level, older=older, json=json)
        for name in FORMS[form]
    ]
    is_work = any(message.tool_calls for message in request.messages)
    focus = mode_named(_mode_of(request)).focus
    rules = "\n\n".join(_filled(name, text=focus) for name in names if name)
    return Words(form, rules, beside, WORDS_OF_WORK if is_work else WORDS_PER_TOKEN)


def _level_of(request: SummaryRequest) -> Level:
    """Return the level to ask for: lower if there are many steps and few words for them."""
    said = sum(map(len, visible_texts(request.messages))) // 4
    is_dense = request.level == "detailed" and said > DENSE * request.max_tokens
    return "moderate" if is_dense else request.level


def _mode_of(request: SummaryRequest) -> str:
    """Return the mode, guessed from the calls if nobody set one."""
    calls = (call for message in request.messages for call in message.tool_calls)
    if request.mode != MODES[0] or all(WORKS.isdisjoint(keys_of(c.arguments)) for c in calls):
        return request.mode
    return "developer"


def again(told: Briefing, wishes: Iterable[str]) -> Briefing:
    """Return the same briefing, and say first what was wrong with the earlier answer."""
    return replace(told, ask=f"{_filled('again', text=' '.join(wishes))} {told.ask}")


def beside(request: SummaryRequest, most: int, *, in_view: bool = True) -> list[Block]:
    """Return what is shown in addition to the messages, as blocks: guidance, goals, the record and,
    if `in_view`, what stays in the prompt. The last two have at most `most` characters each.
    """
    texts = (request.record, request.guidance, *request.goals, *request.open_tasks)
    clean = cleaned([*visible_texts(request.messages), *texts])
    told, view = _in_view(request.kept, most, clean) if in_view else ("", "")
    rows = (
        (TOLD, told),
        (IN_VIEW, view),
        (WRITTEN, shortened(clean(request.record), most)),
        (GOALS, _listed(request.goals, clean)),
        (TASKS, _listed(request.open_tasks, clean)),
        (WANTED, clean(request.guidance)),
    )
    return [Block(speaker, text, -1) for speaker, text in rows if text]


def _in_view(kept: Sequence[Message], most: int, clean: Clean) -> tuple[str, str]:
    """Return the newest summary in the prompt, and its newest messages in one line each."""
    stories = [m for m in kept if m.metadata.source == "checkpoint"]
    told = shortened(clean(summary_of(stories[-1].text)), most) if stories else ""
    lines = list[str]()
    others = [m for m in kept if m.metadata.source != "checkpoint" and m.role not in SYSTEM_ROLES]
    for block in reversed(blocks_of(others, longest=LINE)):
        if most > 0:
            lines.append(f"- {block.speaker}: {one_line(block.text, LINE)}")
            most -= len(lines[-1])
    return told, "".join(f"\n{line}" for line in reversed(lines))


def _filled(name: str, **values: object) -> str:
    return Template(template(f"summary/{name}.md")).substitute(values)


def _listed(texts: Iterable[str], clean: Clean) -> str:
    return "; ".join(" ".join(clean(text).split()) for text in texts)

"""The gate: judges a summary before it may stand in for messages. Pure: no I/O, no model.

Start reading at `RULES`. What breaks a rule is repaired by code where it can be, else the summary
is rejected, or it is only told. A verdict says how the summary was *written*, and what was done
about it; size and cap are measured last, after all repairs. What was written is never cut to make
it fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compact.compression import (
    gate_answer,
    gate_facts,
    gate_instructions,
    gate_orders,
    gate_work,
)
from compact.compression.extractive import ORDER
from compact.compression.matter import Finding, Matter
from compact.compression.notes import LISTED
from compact.core.checkpoints import Summary, SummaryRequest, Verdict
from compact.core.tokens import TokenCounter


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the gate."""

    name: str
    check: Callable[[Summary, Matter], Finding]


RULES: tuple[Rule, ...] = (
    Rule("pins", gate_answer.pins),
    Rule("garbage", gate_answer.garbage),
    Rule("finish", gate_answer.finish),
    Rule("echo", gate_answer.echo),
    Rule("subject", gate_answer.subject),
    Rule("language", gate_answer.language),
    Rule("injection", gate_orders.injection),
    Rule("hallucinated", gate_facts.hallucinated),
    Rule("sections", gate_answer.sections),
    Rule("goals", gate_work.goals),
    Rule("secrets", gate_facts.secrets),
    Rule("tasks", gate_work.tasks),
    Rule("instructions", gate_instructions.instructions),
    Rule("anchors", gate_facts.anchors),
    Rule("retention", gate_facts.retention),
    Rule("size", gate_answer.size),
    Rule("cap", gate_answer.cap),
)
"""In the order they are asked: whether it is noise is told by all that was written, what takes out
comes before what appends, and what is measured last."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A summary, possibly repaired, and what each rule found."""

    summary: Summary
    verdicts: tuple[Verdict, ...]
    """One of each rule, in the order of `RULES`."""
    rejected_by: tuple[str, ...] = ()
    """The rules for which it may not stand in."""

    @property
    def accepted(self) -> bool:
        """Whether it may stand in: no rule rejects it."""
        return not self.rejected_by


def judge(
    summary: Summary,
    request: SummaryRequest,
    counter: TokenCounter,
    *,
    source_tokens: int,
) -> Judged:
    """Hold a summary to the rules. Never raises, whatever was written.

    `source_tokens` is the size of all it stands in for.
    """
    matter = Matter(request, counter, source_tokens, summary.prompt)
    verdicts: list[Verdict] = []
    rejected_by: list[str] = []
    for rule in RULES:
        found = rule.check(summary, matter)
        summary = found.repaired or summary
        share = None if found.share is None else round(found.share, 4)
        verdicts.append(
            Verdict(rule=rule.name, passed=found.passed, detail=found.detail, share=share)
        )
        if found.rejects:
            rejected_by.append(rule.name)
    return Judged(summary, tuple(verdicts), tuple(rejected_by))


@dataclass(frozen=True, slots=True)
class Missing:
    """What a summary lacks that its maker may be asked for once more; false where nothing."""

    anchors: tuple[str, ...] = ()
    """Names it should hold, likeliest first."""
    tasks: tuple[str, ...] = ()
    """Open tasks it dropped."""
    sections: tuple[str, ...] = ()
    """The sections it might have, where it has none of them."""

    def __bool__(self) -> bool:
        return bool(self.anchors or self.tasks or self.sections)


def missing(summary: Summary, request: SummaryRequest, counter: TokenCounter) -> Missing:
    """What the rules would find missing in a summary; nothing that they would let pass."""
    tokens = sum(map(counter.message, request.messages))
    matter = Matter(request, counter, tokens, summary.prompt)
    asked = gate_facts.wanted(matter)
    names = matter.unnamed(asked, summary.text)
    if len(asked) - len(names) >= gate_facts.LEAST_COVERED * len(asked):
        names = []
    has_sections = gate_answer.sections(summary, matter).passed
    return Missing(
        anchors=tuple(name for name, _ in names),
        tasks=gate_work.dropped(summary.text, matter),
        sections=() if has_sections else tuple(t for t in ORDER if t not in LISTED),
    )

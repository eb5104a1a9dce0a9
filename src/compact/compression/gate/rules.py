"""The gate: judges a summary before it may stand in for messages. Pure: no I/O, no model.

Start reading at `RULES`. What breaks a rule is repaired by code where it can be, else the summary
is rejected, or it is only told. A verdict says how the summary was *written*, and what was done
about it; size and cap are measured last, after all repairs. What was written too long is never cut
to make it fit; what leaves no room for rules and tasks is, and then judged once more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compact.compression.extraction.extractive import ORDER
from compact.compression.extraction.notes import LISTED
from compact.compression.gate import answer, facts, injection, instructions, tasks
from compact.compression.gate.marks import unmarked
from compact.compression.gate.matter import Finding, Matter
from compact.core.checkpoints import Summary, SummaryRequest, Verdict
from compact.core.tokens import TokenCounter


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the gate."""

    name: str
    check: Callable[[Summary, Matter], Finding]


RULES: tuple[Rule, ...] = (
    Rule("pins", answer.pins),
    Rule("garbage", answer.garbage),
    Rule("finish", answer.finish),
    Rule("substance", answer.substance),
    Rule("echo", answer.echo),
    Rule("subject", answer.subject),
    Rule("language", answer.language),
    Rule("injection", injection.injection),
    Rule("hallucinated", facts.hallucinated),
    Rule("sections", answer.sections),
    Rule("goals", tasks.goals),
    Rule("secrets", facts.secrets),
    Rule("tasks", tasks.tasks),
    Rule("instructions", instructions.instructions),
    Rule("anchors", facts.anchors),
    Rule("retention", facts.retention),
    Rule("size", answer.size),
    Rule("cap", answer.cap),
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
    matter = Matter(request, counter, source_tokens, summary.prompt, summary.text)
    judged, is_cut = _held(summary, matter)
    return _again(judged, summary, matter) if is_cut and judged.accepted else judged


def _held(summary: Summary, matter: Matter) -> tuple[Judged, bool]:
    """What the rules find, one after the other, and whether they left out lines of its prose."""
    verdicts: list[Verdict] = []
    rejected_by: list[str] = []
    is_cut = False
    for rule in RULES:
        found = rule.check(summary, matter)
        summary = found.repaired or summary
        is_cut |= found.is_cut
        share = None if found.share is None else round(found.share, 4)
        verdicts.append(
            Verdict(rule=rule.name, passed=found.passed, detail=found.detail, share=share)
        )
        if found.rejects:
            rejected_by.append(rule.name)
    return Judged(summary, tuple(verdicts), tuple(rejected_by)), is_cut


def _again(judged: Judged, written: Summary, matter: Matter) -> Judged:
    """The same summary, judged by what is left of its maker's lines: what code put in would hide
    that they say nothing. A rule that rejects them rejects the summary, and its verdict says why.
    """
    own = frozenset(unmarked(written.text).split("\n"))
    left = [line for line in unmarked(judged.summary.text).split("\n") if line in own]
    anew, _ = _held(written.model_copy(update={"text": "\n".join(left)}), matter)
    pairs = zip(judged.verdicts, anew.verdicts, strict=True)
    verdicts = tuple(new if new.rule in anew.rejected_by else old for old, new in pairs)
    return Judged(judged.summary, verdicts, anew.rejected_by)


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


def is_copy(summary: Summary, request: SummaryRequest, counter: TokenCounter) -> bool:
    """Whether most of it is copied: what orders its lines would hide that."""
    copied = answer.copied_of(summary, Matter(request, counter, 0, summary.prompt))
    return copied.whole or copied.share >= answer.ECHO_SHARE


def missing(summary: Summary, request: SummaryRequest, counter: TokenCounter) -> Missing:
    """What the rules would find missing in a summary; nothing that they would let pass."""
    tokens = sum(map(counter.message, request.messages))
    matter = Matter(request, counter, tokens, summary.prompt)
    asked = facts.wanted(matter)
    names = matter.unnamed(asked, summary.text)
    if len(asked) - len(names) >= facts.LEAST_COVERED * len(asked):
        names = []
    has_sections = answer.sections(summary, matter).passed
    return Missing(
        anchors=tuple(name for name, _ in names),
        tasks=tasks.dropped(summary.text, matter),
        sections=() if has_sections else tuple(t for t in ORDER if t not in LISTED),
    )

"""The gate: judges a summary (story) before it may replace messages. It does no I/O and asks no
model.

Start at `RULES`. The gate accepts or refuses a summary, and never changes one. Summaries that code
extracts are not judged. The gate does not look for orders that a model copied, for example from a
web page. A summary reports an order as something past, and prompts mark summaries as reference. A
copied order cannot get among the user's words, because code writes those. docs/evidence.md says
what each detector misses and where it is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.engine.gate import echoes, form, ground, work_log
from compact.engine.gate.summary_source import RuleResult, SummarySource
from compact.engine.summarize import Answer
from compact.errors import CompactError
from compact.messages.checkpoints import PERSON, Summary, SummaryRequest, Verdict
from compact.messages.events import SummaryReplaced
from compact.messages.protocols import Emit
from compact.messages.tokens import TokenCounter
from compact.secrets.redaction import Known, redact


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the gate."""

    name: str
    check: Callable[[SummarySource], RuleResult]
    wish: str = ""
    """What to ask of a model that broke this rule. Empty if asking again does not help."""
    holds_for_persons: bool = False
    """Whether the rule also applies to a summary that the user wrote. Rules on truth and
    completeness apply only to a model's."""
    refuses: bool = True
    """Whether a summary that breaks the rule is refused. If not, the model is asked once more. If
    that does not help, the summary is used with a remark."""


RULES: Sequence[Rule] = (
    Rule("finished", form.finished, "It was not finished. Write a shorter one, to its end."),
    Rule("echo", echoes.echo),
    Rule("loop", echoes.loop),
    Rule(
        "marks",
        form.marks,
        "Leave out pictures, links to pictures and control tokens.",
        holds_for_persons=True,
    ),
    Rule(
        "secrets",
        form.secrets,
        "It held a password, key or token. Leave those out.",
        holds_for_persons=True,
    ),
    Rule("headings", form.headings, "Write no headings.", holds_for_persons=True),
    Rule("voices", form.voices, "Tell who said what in sentences; write no calls of tools."),
    Rule("told", echoes.told, "Tell it in the third person, as the past; speak to nobody."),
    Rule("language", form.language, "Write in the language of the conversation."),
    Rule("subject", ground.subject, "Tell only what the messages say."),
    Rule("invented", ground.invented, "Name only what the messages name."),
    Rule(
        "checks",
        work_log.checks,
        "It called done what had failed. Say how each check, commit, push and change ended.",
        refuses=False,
    ),
    Rule("cap", form.cap, "It was too long. Tell less of it.", holds_for_persons=True),
    Rule("length", ground.length, "It was too short. Tell more of what happened and why."),
    Rule("coverage", ground.coverage, "It was too thin. Name who, what, where and how much."),
)
"""The rules in the order of checking. Those that search the whole source come last."""
MARKED = frozenset(rule.name for rule in RULES if not rule.refuses)
RULES_FOR_PERSONS = tuple(rule for rule in RULES if rule.holds_for_persons)


@dataclass(frozen=True, slots=True)
class Judged:
    """A summary as it was written, and the verdict of each rule."""

    summary: Summary
    verdicts: tuple[Verdict, ...]
    """One verdict for each rule, in the order of `RULES`."""
    instead_of: Judged | None = None
    """The refused summary that this one replaces."""

    @property
    def rejected_by(self) -> tuple[str, ...]:
        """Names of the rules that refuse the summary."""
        return tuple(v.rule for v in self.verdicts if not v.passed and v.rule not in MARKED)

    @property
    def accepted(self) -> bool:
        """Whether no rule refuses the summary."""
        return not self.rejected_by

    @property
    def is_too_long(self) -> bool:
        """Whether the summary is too long and asking again could help."""
        is_over = "cap" in self.rejected_by or self.summary.finish == "length"
        return is_over and bool(self.wishes)

    @property
    def reason(self) -> str:
        """The broken rules, and what each found. Empty if no rule is broken."""
        return "; ".join(f"{x.rule}: {x.detail}" for x in self.verdicts if not x.passed)

    @property
    def marks(self) -> tuple[str, ...]:
        """Remarks to add after the summary if it is used."""
        return tuple(x.detail for x in self.verdicts if not x.passed and x.rule in MARKED)

    @property
    def wishes(self) -> tuple[str, ...]:
        """What to ask of the model in a second request. Empty if asking again does not help."""
        names = {verdict.rule for verdict in self.verdicts if not verdict.passed}
        broken = [rule for rule in RULES if rule.name in names]
        return tuple(rule.wish for rule in broken) if all(rule.wish for rule in broken) else ()


def judge(
    summary: Summary,
    request: SummaryRequest,
    counter: TokenCounter,
    *,
    extracted: Summary | None,
    source_tokens: int,
    rules: Sequence[Rule] = RULES,
) -> Judged:
    """Judge a summary by the rules. Never raises. `source_tokens` is the size of all that it
    replaces. `extracted` is the summary to be used if this one is refused.
    """
    source = SummarySource(summary, request, counter, source_tokens, extracted)
    return Judged(summary, tuple(_verdict(rule, source) for rule in rules))


def _verdict(rule: Rule, source: SummarySource) -> Verdict:
    passed, detail, share = rule.check(source)
    rounded = None if share is None else round(share, 4)
    return Verdict(rule=rule.name, passed=passed, detail=detail, share=rounded)


STANDS_IN = "stands in"
"""Name of the verdict that says why the extracted summary is used instead of the model's."""


def judged_or_extracted(
    written: Answer,
    request: SummaryRequest,
    counter: TokenCounter,
    *,
    source_tokens: int | None,
    secrets: Known,
    emit: Emit,
) -> Judged:
    """Return the written summary if the gate accepts it, else an extracted one, with a verdict that
    says why. A summary that code wrote is not judged.
    """
    if isinstance(written, Summary) and written.made_by == ExtractiveSummarizer.name:
        return Judged(written, ())
    found = None
    room = request.stand_in_tokens or request.max_tokens
    larger = request.model_copy(update={"max_tokens": max(room, request.max_tokens)})
    extracted = ExtractiveSummarizer(counter).extracted(larger)
    if isinstance(written, Summary):
        size = _size_of(request, counter, source_tokens)
        found = judge(written, request, counter, extracted=extracted, source_tokens=size)
        if found.accepted:
            return _marked(found)
        why = found.reason
        if written.asked_again:
            why += f"; asked again: {written.asked_again}"
    else:
        why = _failure(written) if written is not None else "nothing was written"
    rules = found.rejected_by if found else ()
    emit(SummaryReplaced(made_by=extracted.made_by, reason=why, rules=rules))
    told = redact(why, secrets).text  # the reason is stored, and shown with the checkpoint
    verdict = Verdict(rule=STANDS_IN, passed=False, detail=told)
    return Judged(extracted, (verdict,), instead_of=found)


def _marked(found: Judged) -> Judged:
    if not found.marks:
        return found
    marks = "".join(f"\n\n[The work log says otherwise: {mark}]" for mark in found.marks)
    return replace(
        found, summary=found.summary.model_copy(update={"text": found.summary.text + marks})
    )


def by_person(
    text: str, request: SummaryRequest, counter: TokenCounter, *, source_tokens: int | None
) -> Judged:
    """Judge a summary that the user wrote."""
    return judge(
        Summary(text=text, made_by=PERSON),
        request,
        counter,
        extracted=None,
        source_tokens=_size_of(request, counter, source_tokens),
        rules=RULES_FOR_PERSONS,
    )


def _size_of(request: SummaryRequest, counter: TokenCounter, known: int | None) -> int:
    return sum(map(counter.message, request.messages)) if known is None else known


def _failure(error: Exception) -> str:
    """Describe an error. Ours are sentences; others are shown with their type."""
    return str(error) if isinstance(error, CompactError) else f"{type(error).__name__}: {error}"

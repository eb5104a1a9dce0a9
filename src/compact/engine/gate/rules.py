"""The gate: judges a story before it may stand in for messages. Pure: no I/O, no model.

Start at `RULES`. The gate refuses and changes nothing. It does not guess what a line means to do:
an order that a model copied from a page is told as the past, in a part that is marked as reference,
and never in the sections of a person, which code writes. Extracted stories are not judged.
docs/evidence.md says what each detector misses and where it is wrong.
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
    """What the model is asked for if it broke this rule. Empty if asking is no help."""
    holds_for_persons: bool = False
    """Whether it also holds for the words of a person. Whether a story is true and enough is asked
    only of a model."""
    refuses: bool = True
    """Whether a story that breaks it is refused. Otherwise the model is asked once, and the story
    then stands with a mark."""


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
        "It called a check passed whose last run failed. Say how each check came out last.",
        refuses=False,
    ),
    Rule("cap", form.cap, "It was too long. Tell less of it.", holds_for_persons=True),
    Rule("length", ground.length, "It was too short. Tell more of what happened and why."),
    Rule("coverage", ground.coverage, "It was too thin. Name who, what, where and how much."),
)
"""In the order they are checked. Rules that search the whole source come last."""
MARKED = frozenset(rule.name for rule in RULES if not rule.refuses)
RULES_FOR_PERSONS = tuple(rule for rule in RULES if rule.holds_for_persons)


@dataclass(frozen=True, slots=True)
class Judged:
    """A story as it was written, and the verdict of each rule."""

    summary: Summary
    verdicts: tuple[Verdict, ...]
    """One for each rule, in the order of `RULES`."""
    instead_of: Judged | None = None
    """The refused story that it replaces."""

    @property
    def rejected_by(self) -> tuple[str, ...]:
        """The rules that refuse it."""
        return tuple(v.rule for v in self.verdicts if not v.passed and v.rule not in MARKED)

    @property
    def accepted(self) -> bool:
        """Whether no rule refuses it."""
        return not self.rejected_by

    @property
    def is_too_long(self) -> bool:
        """Whether it is too long, and asking again could mend it."""
        is_over = "cap" in self.rejected_by or self.summary.finish == "length"
        return is_over and bool(self.wishes)

    @property
    def reason(self) -> str:
        """Why it is refused, in words. Empty if it is not."""
        return "; ".join(f"{x.rule}: {x.detail}" for x in self.verdicts if not x.passed)

    @property
    def marks(self) -> tuple[str, ...]:
        """What is said behind it where it stands in."""
        return tuple(x.detail for x in self.verdicts if not x.passed and x.rule in MARKED)

    @property
    def wishes(self) -> tuple[str, ...]:
        """What the model may be asked for once more. Empty if asking is no help."""
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
    """Hold a story to the rules. Never raises. `source_tokens` is the size of all that it stands in
    for. `extracted` is the story that replaces it if it is refused.
    """
    source = SummarySource(summary, request, counter, source_tokens, extracted)
    return Judged(summary, tuple(_verdict(rule, source) for rule in rules))


def _verdict(rule: Rule, source: SummarySource) -> Verdict:
    passed, detail, share = rule.check(source)
    rounded = None if share is None else round(share, 4)
    return Verdict(rule=rule.name, passed=passed, detail=detail, share=rounded)


STANDS_IN = "stands in"
"""The rule that says why a summary is not the one that was asked for."""


def judged_or_extracted(
    written: Answer,
    request: SummaryRequest,
    counter: TokenCounter,
    *,
    source_tokens: int | None,
    secrets: Known,
    emit: Emit,
) -> Judged:
    """Return what may stand in for the messages: the written story, or else the extracted one. Its
    verdicts then say why. A story that code wrote is not judged.
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
    told = redact(why, secrets).text  # it is kept, and shown with the checkpoint
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
    """Judge a story that a person wrote."""
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
    """Our errors are sentences. Others are shown with their type."""
    return str(error) if isinstance(error, CompactError) else f"{type(error).__name__}: {error}"

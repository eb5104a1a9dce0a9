"""How a story is asked for, and what stands in where none came or the gate refused it. The same for
checkpoints and for digests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.engine.gate.rules import RULES_FOR_PERSONS, Judged, judge
from compact.engine.reporting import STANDS_IN
from compact.errors import CompactError, ContextOverflow, SummaryRejected
from compact.messages.checkpoints import PERSON, Summary, SummaryRequest, Verdict
from compact.messages.events import ErrorRaised, SummaryReplaced
from compact.messages.protocols import Emit, Summarizer
from compact.messages.tokens import TokenCounter
from compact.secrets.redaction import Known, redact

Answer = Summary | Exception | None
"""What a summarizer wrote, or how it failed; None where nothing was asked for."""


async def all_asked(
    summarizer: Summarizer, requests: Iterable[SummaryRequest | None], emit: Emit
) -> list[Answer]:
    """What the summarizer wrote for each request, or how it failed. One that does not answer is
    asked no more: the same became of the requests after that.
    """
    answers, down = list[Answer](), None
    for request in requests:
        if request is not None and down is None:
            answer = await asked(summarizer, request, emit)
            down = answer if is_down(answer) else None
        else:
            answer = down if request else None
        answers.append(answer)
    return answers


def is_down(answer: Answer) -> bool:
    """Whether nobody answered, so that asking for another story is in vain as well."""
    return isinstance(answer, Exception) and not isinstance(
        answer, ContextOverflow | SummaryRejected
    )


async def asked(summarizer: Summarizer, request: SummaryRequest, emit: Emit) -> Answer:
    """What the summarizer wrote, or how it failed."""
    try:
        return await summarizer.summarize(request)
    except Exception as error:  # noqa: BLE001 - somebody else's code: a session goes on without it
        emit(ErrorRaised.of(error, "summarize", serves="an extracted summary"))
        return error


def judged(
    written: Answer,
    request: SummaryRequest,
    counter: TokenCounter,
    *,
    source_tokens: int | None,
    secrets: Known,
    emit: Emit,
) -> Judged:
    """What may stand in for the request's messages: the story that was told, else the one by
    extraction. The verdicts say why it is not the first. The engine's own is not judged: who made
    it is known.
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
    """The story, and behind it what the work log says otherwise."""
    if not found.marks:
        return found
    marks = "".join(f"\n\n[The work log says otherwise: {mark}]" for mark in found.marks)
    return replace(
        found, summary=found.summary.model_copy(update={"text": found.summary.text + marks})
    )


def by_person(
    text: str, request: SummaryRequest, counter: TokenCounter, *, source_tokens: int | None
) -> Judged:
    """A person's words as what may stand in for the request's messages, if the gate lets them."""
    return judge(
        Summary(text=text, made_by=PERSON),
        request,
        counter,
        extracted=None,
        source_tokens=_size_of(request, counter, source_tokens),
        rules=RULES_FOR_PERSONS,
    )


def _size_of(request: SummaryRequest, counter: TokenCounter, known: int | None) -> int:
    """Tokens of what is summarized, counted where they are not known."""
    return sum(map(counter.message, request.messages)) if known is None else known


def _failure(error: Exception) -> str:
    """Our errors are sentences; what others raise is told with its kind."""
    return str(error) if isinstance(error, CompactError) else f"{type(error).__name__}: {error}"

"""The stage *summarize*: the summarizer is asked for each story. The only stage that may wait."""

from __future__ import annotations

from collections.abc import Iterable

from compact.errors import ContextOverflow, SummaryRejected
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.events import ErrorRaised
from compact.messages.protocols import Emit, Summarizer

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

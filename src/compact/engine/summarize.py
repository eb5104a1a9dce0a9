"""The stage *summarize*: ask the summarizer for each summary. Only this stage may wait."""

from __future__ import annotations

from collections.abc import Iterable

from compact.errors import ContextOverflow, SummaryRejected
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.events import ErrorRaised
from compact.messages.protocols import Emit, Summarizer

Answer = Summary | Exception | None
"""A summary, or the error that the summarizer raised. None if nothing was requested."""


async def all_asked(
    summarizer: Summarizer, requests: Iterable[SummaryRequest | None], emit: Emit
) -> list[Answer]:
    """Send each request; return the answers. If the summarizer does not answer, it is not asked
    again: the later requests get the same error.
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
    """Whether the summarizer did not answer, so that asking again is useless."""
    return isinstance(answer, Exception) and not isinstance(
        answer, ContextOverflow | SummaryRejected
    )


async def asked(summarizer: Summarizer, request: SummaryRequest, emit: Emit) -> Answer:
    """Ask for one summary; return it, or the error."""
    try:
        return await summarizer.summarize(request)
    except Exception as error:  # noqa: BLE001 - somebody else's code: a session goes on without it
        emit(ErrorRaised.of(error, "summarize", serves="an extracted summary"))
        return error

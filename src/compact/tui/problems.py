"""Turns errors into text that tells what to do in the chat."""

from __future__ import annotations

from collections.abc import Mapping

from compact.errors import WAYS, CannotFit, CompactError, ModelFailed
from compact.secrets.redaction import Known, redact, without_credentials
from compact.secrets.redactor import Redactor
from compact.tui.looks import visible

LONGEST = 600
"""The most characters of an error text."""
WAYS_HERE: Mapping[str, str] = {
    **WAYS,
    "limit": "Take a model with a larger window (/model KEY)",
    "newest user message": "send a shorter message",
    "pins": "unpin messages (/pin off N)",
    "goals": "end goals (/goal done N)",
}
"""Content that cannot be shortened → what the user can do about it with the chat's commands."""


def in_words(error: BaseException, redactor: Redactor) -> str:
    """Return a text that describes an error, without secrets."""
    match error:
        case CannotFit():
            words = error.told(WAYS_HERE)
        case ModelFailed():
            words = (
                f"{error}. Your message is kept: /retry asks again, /model KEY asks another one."
            )
        case CompactError():
            words = str(error)
        case ImportError():
            words = f"A package is missing: {error}"
        case _:
            words = f"A bug in compact: {type(error).__name__}: {error}. Nothing is lost."
    line = without_credentials(redact(words, Known(redactor=redactor)).text)
    line = " ".join(visible(line).split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"

"""Puts errors into words, and says what to do in the chat."""

from __future__ import annotations

from collections.abc import Mapping

from compact.errors import WAYS, CannotFit, CompactError, ModelFailed
from compact.secrets.redaction import Known, redact, without_credentials
from compact.secrets.redactor import Redactor
from compact.tui.looks import visible

LONGEST = 600
"""The longest error text, in characters."""
WAYS_HERE: Mapping[str, str] = {
    **WAYS,
    "limit": "Take a model with a larger window (/model KEY)",
    "newest user message": "send a shorter message",
    "pins": "unpin messages (/pin off N)",
    "goals": "end goals (/goal done N)",
}
"""What cannot be shortened → what the user can do about it, with the chat's commands."""


def in_words(error: BaseException, redactor: Redactor) -> str:
    """Describe an error in words, without secrets."""
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

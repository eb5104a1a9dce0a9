"""Follows a session's events: the progress and result of a compression, and notices."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from compact.messages.events import (
    STAGES,
    DraftMade,
    Event,
    ModelAskedAgain,
    PromptOverBudget,
    StageStarted,
    StoryAsked,
    TriggerDecision,
)
from compact.secrets.redactor import Redactor
from compact.session.context_manager import ContextManager
from compact.telemetry import plain_words
from compact.telemetry.plain_words import redacted


@dataclass(frozen=True)
class ProgressStep:
    """The progress of a compression for which the user waits."""

    words: str
    done: float
    """The share of the work that is done, 0 to 1. A negative number: it has not changed."""
    detail: str = ""
    """What a request to a model in this step is doing. It is empty if no model is asked."""


@dataclass(frozen=True)
class Notice:
    """A sentence for the user."""

    words: str


@dataclass(frozen=True)
class Ahead:
    """Work in the background, as text. An empty text means that it has ended."""

    words: str


class Following:
    """Turns the session's events into what the chat shows.

    A compression for which the user waits and a draft in the background cause the same events. The
    trigger decision before them tells which it is: if it triggered, the user waits.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._waits = False
        self._before = (0, 0)
        """The prompt's tokens, and the number of messages that checkpoints replaced, at `begin`."""
        self._compresses = False
        """Whether the session was compressed since `begin`."""
        self.stage = ""
        """The stage of the compression for which the user waits. Otherwise empty."""
        self._lock = threading.Lock()

    def begin(self, ctx: ContextManager) -> None:
        """Record that work begins. From now on the user waits for each compression."""
        self._before = (ctx.window_use.used, covered_by(ctx))
        self._waits, self._compresses = True, False

    def take(self, event: Event) -> ProgressStep | Notice | Ahead | None:
        """Return how to show an event, or None if it is not shown. Any thread may call this."""
        with self._lock:
            return self._display(event)

    def _display(self, event: Event) -> ProgressStep | Notice | Ahead | None:
        match event:
            case TriggerDecision(triggered=False):
                self._waits = False
            case TriggerDecision():
                self._waits = self._compresses = True
            case StageStarted(done=done):
                words = plain_words.stage_of(event)
                self.stage = words if self._waits else ""
                if not self._waits:
                    return Ahead("drafting a summary ahead")
                return ProgressStep(words, done)
            case StoryAsked() | ModelAskedAgain() if self._waits and self.stage:
                return ProgressStep(self.stage, -1.0, self._sentence(event))
            case StoryAsked() | PromptOverBudget():  # the user did not write this prompt
                return None
            case DraftMade():
                return Ahead("")
            case _:
                words = self._sentence(event)
                return Notice(words) if words else None
        return None

    def end(self, ctx: ContextManager) -> str:
        """Return one text about all compressions since `begin`. It is empty if there were none."""
        is_done, self._compresses = self._compresses, False
        self._waits, self.stage = False, ""
        if not is_done:
            return ""
        tokens, covered = self._before
        freed = tokens - ctx.window_use.used
        messages = covered_by(ctx) - covered
        words = plain_words.compressed(messages, freed) if messages or freed > 0 else ""
        return f"{words}; {ctx.checkpoints[-1].written}" if words and ctx.checkpoints else words

    def _sentence(self, event: Event) -> str:
        return plain_words.sentence(redacted(event, self._redactor))


def covered_by(ctx: ContextManager) -> int:
    """Return how many messages the checkpoints in the prompt replace."""
    return sum(checkpoint.span.messages for checkpoint in ctx.checkpoints)


def share_of(step: ProgressStep, before: float) -> float:
    """Return the share done after a step. A step without a share keeps the previous one."""
    return before if step.done < 0 else min(1.0, step.done + 1 / (2 * len(STAGES)))

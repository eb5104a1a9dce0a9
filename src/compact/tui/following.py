"""What a chat shows of a session's events: how far a compression is, what it came to, and what a
person should know. Nothing here draws.
"""

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
from compact.telemetry.event_privacy import redacted


@dataclass(frozen=True)
class ProgressStep:
    """A compression goes on, and a person waits for it."""

    words: str
    done: float
    """The share behind it, 0 to 1; below 0 where that is as before."""
    detail: str = ""
    """What a model is asked meanwhile."""


@dataclass(frozen=True)
class Notice:
    """A sentence for a person."""

    words: str


@dataclass(frozen=True)
class Ahead:
    """What is done in the background; nobody waits for it. Empty words: nothing any more."""

    words: str


class Following:
    """Follows a session's events while something is asked of it.

    Events of a compression that somebody waits for and of one that is drafted ahead look the same.
    They are told apart by the decision before: until a prompt was found to fit, a person waits.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._waits = False
        self._before = (0, 0)
        """Tokens of the prompt, and messages in checkpoints, when something was asked last."""
        self._compresses = False
        """Whether it was compressed since."""
        self.stage = ""
        """The stage that a person waits for."""
        self._lock = threading.Lock()

    def begin(self, ctx: ContextManager) -> None:
        """Something is asked of the session: whatever is compressed now, a person waits for."""
        self._before = (ctx.window_use.used, covered_by(ctx))
        self._waits, self._compresses = True, False

    def take(self, event: Event) -> ProgressStep | Notice | Ahead | None:
        """What is to be shown of the event; from any thread, as soon as it happens."""
        with self._lock:
            return self._taken(event)

    def _taken(self, event: Event) -> ProgressStep | Notice | Ahead | None:
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
            case StoryAsked() | PromptOverBudget():  # the prompt here is nobody's own
                return None
            case DraftMade():
                return Ahead("")
            case _:
                words = self._sentence(event)
                return Notice(words) if words else None
        return None

    def end(self, ctx: ContextManager) -> str:
        """What was compressed since `begin`, in words: the figures of all checkpoints together;
        empty where nothing was.
        """
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
    """How many messages the checkpoints in view stand in for."""
    return sum(checkpoint.span.messages for checkpoint in ctx.checkpoints)


def share_of(step: ProgressStep, before: float) -> float:
    """The share of the work that is behind it; a step that does not say keeps the one before."""
    return before if step.done < 0 else min(1.0, step.done + 1 / (2 * len(STAGES)))

"""Writes sentences for users: what an event reports, and how far a compression is.

Events that users need not know about have no sentence. A reason may come from a model, a server or
an application's code, so it is put on one line.

`without_content` and `redacted` remove the conversation's text and secrets from events before
exporters get them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from compact.messages.events import (
    CONTENT,
    STAGES,
    BreakerOpened,
    DraftDropped,
    EmergencyRung,
    ErrorRaised,
    Event,
    EventsDropped,
    MemoryAged,
    ModelAskedAgain,
    ModelReplaced,
    PromptOverBudget,
    RedactionOff,
    Stage,
    StageStarted,
    StoryAsked,
    SummarizerChosen,
    SummaryReplaced,
    ToolsWithdrawn,
    TriggerDecision,
    TrustFaded,
    WindowCapped,
)
from compact.messages.policy import CompactPolicy
from compact.secrets.redaction import Known, redact
from compact.secrets.redactor import NOTHING_ELSE, Redactor

LONGEST = 400
"""How many characters of a reason are shown at most."""
SOON = 1.0
"""A wait of fewer seconds than this is not mentioned."""
_EXTRACTIVE = "extractive"
_DOING: Mapping[Stage, str] = {
    "identify": "choosing what stays in view",
    "prepare": "preparing what is summarized",
    "summarize": "summarizing",
    "checkpoint": "writing the checkpoint",
    "update": "putting the new context together",
    "validate": "checking the result",
}
"""The name of each stage of a compression in a sentence."""


def stage_of(event: StageStarted) -> str:
    """Return the progress of a compression, such as `stage 3 of 6, summarizing`."""
    number = STAGES.index(event.stage) + 1
    return f"stage {number} of {len(STAGES)}, {_DOING[event.stage]}"


def compressed(messages: int, freed: int) -> str:
    """Return a sentence that tells what a compression did.

    `messages` is how many messages the new checkpoints replace. `freed` is the number of tokens by
    which the prompt shrank.
    """
    what = f"Compressed {counted(messages, 'message')}" if messages else "Shortened what is in view"
    if freed > 0:
        return f"{what}, freed {counted(freed, 'token')}"
    return f"{what}; the prompt is no smaller for it"


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun, such as `1 message` or `2,000 messages`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def sentence(event: Event) -> str:
    """Return the sentence for an event. It is empty if users need not know about the event."""
    match event:
        case ModelAskedAgain(model=model, reason=reason, wait=wait):
            when = f"in {wait:.0f} seconds" if wait >= SOON else "again"
            return f"{model} is asked {when}: {_line(reason)}"
        case ModelReplaced(model=model, by=other, reason=reason):
            return f"{other} is asked instead of {model}: {_line(reason)}"
        case SummaryReplaced(made_by=maker, reason=reason):
            other = "an extracted one" if maker == _EXTRACTIVE else f"one by {maker}"
            return f"The summary was not used, {other} is: {_line(reason)}"
        case BreakerOpened(failures=failures, until=until):
            often = "" if failures == 1 else f" {failures} times in a row"
            return (
                f"The summarizer failed{often}; until {until:%H:%M} UTC "
                "summaries are extracted without it"
            )
        case ErrorRaised(stage="summarize", message=message):
            return f"The summarizer failed, and the conversation goes on: {_line(message)}"
        case ErrorRaised(stage="track", message=message):
            return f"Progress of the goals is not noted until the next one is: {_line(message)}"
        case ErrorRaised(stage="recall", message=message):
            return f"Nothing is recalled, and the conversation goes on: {_line(message)}"
        case ErrorRaised(stage=stage, message=message, serves=serves):
            so = f"{serves} is served" if serves else "and nothing else fits"
            return f"Compressing failed at '{stage}', {so}: {_line(message)}"
        case _:
            return _of_session(event)


def _of_session(event: Event) -> str:
    match event:
        case StoryAsked():
            return _story_progress(event)
        case MemoryAged(digests=digests, archived=archived, problem=why):
            done = f"{counted(digests, 'digest')} written, {archived:,} archived"
            return f"Memory has aged: {done}" + (f"; it failed: {why}" if why else "")
        case WindowCapped(asked=asked, size=size):
            return f"The model takes {size:,} tokens, not {asked:,}; prompts are kept within that"
        case EmergencyRung(rung=rung, tokens_before=before, tokens_after=after):
            became = "nothing could be made" if after is None else f"{after:,} tokens are left"
            return f"The prompt of {before:,} tokens was too large; {rung}: {became}"
        case DraftDropped():
            return "A compression that was never ended was dropped; nothing is lost"
        case ToolsWithdrawn(model=model, reason=reason):
            return f"{model} is asked without tools from now on: {_line(reason)}"
        case TrustFaded(warning=warning):
            return warning[:1].upper() + warning[1:]
        case PromptOverBudget(part=part, tokens=tokens, is_left_out=True, reason=reason):
            return f"The system prompt leaves out {part} of {tokens:,} tokens: {_line(reason)}"
        case PromptOverBudget(tokens=tokens, budget=budget, window=window):
            return (
                f"The system prompt has {tokens:,} tokens, {budget:,} are meant for it in a window "
                f"of {window:,}; it is sent whole"
            )
        case _:
            return _of_reports(event)


def _of_reports(event: Event) -> str:
    match event:
        case SummarizerChosen(model="", reason=reason):
            return f"Summaries are written by code: {_line(reason)}"
        case SummarizerChosen(model=model):
            return f"Summaries are written by {model}; with the summarizer 'extractive', by code"
        case EventsDropped(exporter=exporter, count=count):
            return f"{count:,} events did not reach {exporter}; nothing else is affected"
        case RedactionOff():
            return "WARNING: redaction is off; secrets leave in reports and copies as they are"
        case _:
            return ""


def _story_progress(event: StoryAsked) -> str:
    part = "" if event.parts == 1 else f", part {event.part} of {event.parts}"
    limit = "" if event.limit is None else f" of at most {event.limit:.0f}"
    return f"{event.model} writes{part}, after {event.elapsed:.0f}{limit} seconds"


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"


# --- event privacy --------------------------------------------------------------------------------

E = TypeVar("E", bound=Event)


def without_content(event: E) -> E:
    """Return the event with every field emptied that may quote the conversation."""
    about = type(event).model_fields
    quoting = [name for name, field in about.items() if field.json_schema_extra == CONTENT]
    empty: dict[str, Any] = {name: type(getattr(event, name))() for name in quoting}
    if isinstance(event, TriggerDecision) and event.policy is not None:
        empty["policy"] = event.policy.model_copy(update={"guidance": ""})
    return event.model_copy(update=empty)


def redacted(event: E, redactor: Redactor = NOTHING_ELSE) -> E:
    """Return the event with its secrets redacted. Return the same object if it has none."""
    fields, known = dict(event), Known(redactor=redactor)
    clean = {name: _clean(value, known) for name, value in fields.items()}
    changed: dict[str, Any] = {n: value for n, value in clean.items() if value != fields[n]}
    return event.model_copy(update=changed) if changed else event


def _clean(value: object, known: Known) -> object:
    match value:
        case str():
            return redact(value, known).text
        case tuple():
            return tuple(_clean(item, known) for item in value)
        case Mapping():
            return {_clean(key, known): _clean(item, known) for key, item in value.items()}
        case CompactPolicy() if value.guidance:
            return value.model_copy(update={"guidance": redact(value.guidance, known).text})
        case _:
            return value

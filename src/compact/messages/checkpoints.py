"""Checkpoints: summaries that replace spans of history. Their headings, levels and sizes.

A checkpoint is sent as a user message at the start of its span. Its first line carries an id and a
digest of the text below (`messages.own_text`). When a client sends the text back, a matching digest
proves that compact wrote it, so it is never taken for the user's. A heading that somebody else
wrote has no matching digest.

A checkpoint's level changes as it ages (FR-4): detailed → moderate → compact → merged. It changes
by schedule, or earlier to save tokens. Each level has a cap, and so have all checkpoints together,
so a prompt stays bounded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from compact.messages import clock_and_ids
from compact.messages.messages import Message, MessageMetadata
from compact.messages.own_text import OwnText, below, headed
from compact.messages.replies import Finish

Level = Literal["detailed", "moderate", "compact", "merged"]

REFERENCE_LINE = "For reference only: a summary of earlier messages. The newest user message wins."
PERSON = "person"
"""The value of `made_by` for a summary that a person wrote or changed."""
NO_MODELS = frozenset((PERSON, "extractive", "receipt"))
"""Values of `made_by` that are not the name of a model."""


class Span(BaseModel, frozen=True, defer_build=True):
    """The messages that a checkpoint replaces: their positions in the log, both ends included."""

    first: int = Field(ge=0)
    last: int = Field(ge=0)
    messages: int = Field(ge=0)
    """How many messages of the span are replaced. The others are kept."""
    tokens: int | None = Field(default=None, ge=0)
    """Tokens of the replaced messages, if they were counted."""


class Summary(BaseModel, frozen=True, defer_build=True):
    """A summary as its writer (a model or code) returned it."""

    text: str
    """The summary in prose: what happened and why. The record that code writes is separate."""
    made_by: str
    anchors: tuple[str, ...] = ()
    """Facts that are kept word for word, the most important first."""
    finish: Finish = "stop"
    """Why the model's answer ended."""
    seconds: float | None = None
    """How many seconds the model took to write the summary."""
    asked_again: str = Field(default="", exclude=True, repr=False)
    """Why a second attempt was no better. It is empty if there was none."""
    prompt: str = Field(default="", exclude=True, repr=False)
    """The instructions that the model got. They are kept to recognize them in the answer."""


class SummaryRequest(BaseModel, frozen=True, defer_build=True):
    """The input of a summarizer."""

    messages: Sequence[Message]
    """The messages to summarize, in order."""
    kept: Sequence[Message] = ()
    """Messages that the prompt shows next to the summary. The summary need not repeat them."""
    answers: Mapping[str, str] = Field(default_factory=dict)
    """The id of a message to summarize → the user's reply to it, if that is in a kept message."""
    max_tokens: int = Field(ge=1)
    """Most tokens that the summary may have."""
    stand_in_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of an extractive summary that replaces a model's. It may exceed `max_tokens`,
    because a small model is asked for less than there is room for. None means `max_tokens`."""
    strategy: str = "task_state"
    level: Level = "detailed"
    """How much detail is wanted. The token cap follows from it."""
    mode: str = "assistant"
    """What the session is used for. It decides what a summary keeps first (`text.modes`)."""
    guidance: str = ""
    """What else the summary should keep, in the user's words."""
    goals: tuple[str, ...] = ()
    """Texts of the open goals. A summary must not call them done."""
    open_tasks: tuple[str, ...] = ()
    """Texts of the open subtasks. A summary must keep what was said about each of them."""
    record: str = ""
    """The record that code writes next to the summary. The reader of the summary sees both."""
    notes: Any = Field(default=None, exclude=True, repr=False)
    """Notes taken while the history was read, so that it is not read again. They are not stored."""
    reach: tuple[int, int] = (0, 1 << 60)
    """The positions of these messages in the notes: the first, and the end (excluded)."""
    previous: Summary | None = None
    """The summary of everything before these messages, or None. The new summary continues it."""


class Verdict(BaseModel, frozen=True, defer_build=True):
    """The result of one rule of the gate, which checks every summary."""

    rule: str
    passed: bool
    detail: str = ""
    """What was measured, and what was done if the summary broke the rule."""
    share: float | None = None
    """The share (0 to 1) that the rule measured. It is None if it measures none."""


IN_RECORD = Verdict.model_construct(
    rule="record", passed=True, detail="a model sees it told in the record"
)
"""Marks a checkpoint whose facts are in the record. For such a checkpoint, models see a reference
to the record and people see the summary."""
TOLD_IN_RECORD = "What was said and done is told in the record below."
"""The text that a model sees instead of the summary of a checkpoint marked by `IN_RECORD`."""


OURS = MessageMetadata(source="checkpoint")
"""The metadata of a checkpoint's message."""


class Checkpoint(BaseModel, frozen=True, defer_build=True):
    """A summary that replaces a span of history. It never changes: ageing makes another one."""

    id: str
    span: Span
    summary: str
    level: Level = "detailed"
    number: int = Field(default=1, ge=1)
    """The number (from 1) of the compression that made the checkpoint, or that made the newest of
    its sources. The checkpoint's age counts from there."""
    kept: tuple[int, ...] = ()
    """Positions inside the span whose messages stayed in the prompt."""
    released: tuple[int, ...] = ()
    """Positions before the span that an earlier checkpoint kept. This checkpoint replaces them."""
    anchors: tuple[str, ...] = ()
    token_count: int = Field(default=0, ge=0)
    made_by: str = "extractive"
    seconds: float | None = Field(default=None, exclude=True, repr=False)
    """How many seconds the model took to write the summary; not stored."""
    parents: tuple[str, ...] = ()
    """Ids of the checkpoints that this one replaced."""
    verdicts: tuple[Verdict, ...] = ()
    """What the gate found in the summary, one verdict for each rule."""
    until: datetime = Field(default_factory=clock_and_ids.now)
    """The time of the last message that the checkpoint replaces."""

    @property
    def is_by_person(self) -> bool:
        """Whether a person wrote or changed the summary."""
        return self.made_by.partition(", ")[0] == PERSON

    @property
    def is_by_model(self) -> bool:
        """Whether a model wrote the summary, or part of it."""
        return not NO_MODELS.issuperset(self.made_by.split(", "))

    @property
    def written(self) -> str:
        """How it was written, such as `checkpoint by qwen3:8b, 3.1 s, 4,210 → 310 tokens`."""
        who = "code" if self.made_by == "extractive" else self.made_by
        took = "" if self.seconds is None else f", {self.seconds:.1f} s"
        before = "" if self.span.tokens is None else f"{self.span.tokens:,} → "
        return f"checkpoint by {who}{took}, {before}{self.token_count:,} tokens"

    @property
    def story(self) -> str:
        """The summary without its reference line."""
        return self.summary.removeprefix(REFERENCE_LINE).strip()

    @property
    def body(self) -> str:
        """What a model sees below the heading: the summary, or a reference to the record."""
        return TOLD_IN_RECORD if IN_RECORD in self.verdicts else self.summary

    def covered(self) -> list[int]:
        """Return the positions of the replaced messages, in order."""
        kept = frozenset(self.kept)
        span = (i for i in range(self.span.first, self.span.last + 1) if i not in kept)
        return [*self.released, *span]

    def text(self, own: OwnText) -> str:
        """Return the heading and the body, as a model sees them."""
        span = self.span
        size = "" if span.tokens is None else f", {span.tokens:,} tokens"
        about = f"{span.messages:,} of messages {span.first:,} to {span.last:,}{size}"
        return own.under(f"Checkpoint {self.id} · {about}", self.body)

    def message(self, own: OwnText) -> Message:
        """Return the message that stands for the checkpoint in a prompt."""
        return Message.trusted(
            role="user",
            content=self.text(own),
            id=self.id,
            token_count=self.token_count or None,
            timestamp=self.until,
            metadata=OURS,
        )


def checkpoint_id(span: Span, source_ids: Sequence[str], summary: str) -> str:
    """Return a hash of the span, sources and summary as an id. Equal input gives an equal id."""
    sample = "\x00".join((*source_ids, summary))
    seed = f"{span.first}:{span.last}:{span.messages}:{sample}"
    return "ck-" + hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def record_message(text: str, *, messages: int, until: datetime, own: OwnText) -> Message:
    """Return the record of the session's first `messages` messages, as a user message."""
    whole = own.under(f"Record · as of message {messages:,}", f"{REFERENCE_LINE}\n\n{text}")
    return Message(
        role="user",
        content=whole,
        id=f"rc-{own.digest(whole)}",
        timestamp=until,
        metadata=MessageMetadata(source="checkpoint"),
    )


def is_checkpoint_text(text: str) -> bool:
    """Whether the text opens with a heading of a checkpoint or record, whoever wrote it."""
    return headed(text) in ("Checkpoint", "Record")


def summary_of(text: str) -> str:
    """Return the text below a checkpoint's or record's heading, or the whole text without one."""
    return below(text) if is_checkpoint_text(text) else text


# --- levels ---------------------------------------------------------------------------------------

LEVELS: Sequence[Level] = ("detailed", "moderate", "compact", "merged")
SCHEDULE: Mapping[Level, int] = {"detailed": 0, "moderate": 3, "compact": 6, "merged": 10}
"""The number of compressions after which a checkpoint gets the level."""
SHARES: Mapping[Level, float] = {
    "detailed": 0.04,
    "moderate": 0.02,
    "compact": 0.01,
    "merged": 0.03,
}
"""Share of the usable window for one checkpoint. A new one may also use what the others leave."""
LEAST: Mapping[Level, int] = {"detailed": 400, "moderate": 240, "compact": 160, "merged": 400}
"""Tokens that a checkpoint may take even in a small window. Fewer hold little but the heading."""
ALL_SHARE = 0.20
"""Largest share of the usable window for all checkpoints together."""
RECORD_SHARE = 0.12
"""Share of the usable window for the record that code writes. It may also take spare tokens."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Computes caps in tokens from the usable window."""

    usable: int

    def of(self, level: Level) -> int:
        """Return the cap of one checkpoint of that level, heading included."""
        return min(max(int(SHARES[level] * self.usable), LEAST[level]), self.together // 2)

    @property
    def record(self) -> int:
        """Tokens reserved for the record that code writes."""
        return int(RECORD_SHARE * self.usable)

    @property
    def together(self) -> int:
        """Cap of all checkpoints together."""
        return int(ALL_SHARE * self.usable)


def level_at(age: int) -> Level:
    """Return the scheduled level at an age, which is a number of compressions."""
    return next(level for level in reversed(LEVELS) if age >= SCHEDULE[level])


def aged(checkpoint: Checkpoint, number: int) -> Checkpoint:
    """Return the checkpoint at the level that the schedule gives it at the session's compression
    `number`.

    The level follows from stored numbers, so it is the same after the session is opened again.
    """
    level = level_at(max(0, number - checkpoint.number))
    return at_level(checkpoint, older(checkpoint.level, level))


def at_level(checkpoint: Checkpoint, level: Level) -> Checkpoint:
    """Return the same checkpoint with another level."""
    if level == checkpoint.level:
        return checkpoint
    return checkpoint.model_copy(update={"level": level})


def older(one: Level, other: Level) -> Level:
    """Return the later of two levels in the order of `LEVELS`."""
    return max(one, other, key=LEVELS.index)

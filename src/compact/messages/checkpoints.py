"""Checkpoints: a summary that replaces a span of history, and the heading it is recognized by.

A checkpoint stands at its span's start as a user-role message. Its first line carries an id and a
digest of the text below (`messages.own_text`). When a text with a matching digest comes back, it is
compact's and is never taken for a person's. A heading that somebody else wrote has no matching
digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
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
"""Maker of a summary that a person wrote or changed."""
NO_MODELS = frozenset((PERSON, "extractive", "receipt"))
"""Makers of summaries that are not models."""


class Span(BaseModel, frozen=True, defer_build=True):
    """The messages a checkpoint replaces: positions in the log, the last one included."""

    first: int = Field(ge=0)
    last: int = Field(ge=0)
    messages: int = Field(ge=0)
    """How many messages of the span are replaced; the others are kept."""
    tokens: int | None = Field(default=None, ge=0)
    """Their tokens, if counted."""


class Summary(BaseModel, frozen=True, defer_build=True):
    """What a summarizer wrote."""

    text: str
    """The story: what happened and why. The record that code writes is not part of it."""
    made_by: str
    anchors: tuple[str, ...] = ()
    """Facts kept word for word, the most important first."""
    finish: Finish = "stop"
    """Why the writer stopped."""
    seconds: float | None = None
    """Seconds a model took for it."""
    asked_again: str = Field(default="", exclude=True, repr=False)
    """Why the second attempt was no better, if there were two."""
    prompt: str = Field(default="", exclude=True, repr=False)
    """The instructions a model got beside the messages, so that they are recognized later."""


class SummaryRequest(BaseModel, frozen=True, defer_build=True):
    """The input of a summarizer."""

    messages: Sequence[Message]
    """The messages to summarize, in order."""
    kept: Sequence[Message] = ()
    """Messages that stay in view beside the summary; they need no repetition."""
    answers: Mapping[str, str] = Field(default_factory=dict)
    """Id of a message to summarize → a person's reply to it in a kept message."""
    max_tokens: int = Field(ge=1)
    """Upper bound of the story, in tokens."""
    stand_in_tokens: int | None = Field(default=None, ge=1)
    """Upper bound of an extractive story that replaces this one: a small model is asked for less
    than there is room for. None means `max_tokens`."""
    strategy: str = "task_state"
    level: Level = "detailed"
    """How much detail is wanted. The cap follows from it."""
    mode: str = "assistant"
    """The use of the session. It decides what a summary keeps first (`text.modes`)."""
    guidance: str = ""
    """What else a person wants kept, in their words."""
    goals: tuple[str, ...] = ()
    """Texts of the open goals. A summary must not call them done."""
    open_tasks: tuple[str, ...] = ()
    """Texts of the open subtasks. A summary must keep what is said about them."""
    record: str = ""
    """The record that code writes beside the story. The reader sees it."""
    notes: Any = Field(default=None, exclude=True, repr=False)
    """Notes that were already taken of the history, so that it is not read again; not stored."""
    reach: tuple[int, int] = (0, 1 << 60)
    """Range of the messages' positions in the notes; the end is excluded."""
    previous: Summary | None = None
    """The summary of everything before these messages, to be continued."""


class Verdict(BaseModel, frozen=True, defer_build=True):
    """A finding of the gate by one of its rules."""

    rule: str
    passed: bool
    detail: str = ""
    """The measurement, and the action taken if the rule was broken."""
    share: float | None = None
    """The share (0 to 1) that a rule measured in the text."""


IN_RECORD = Verdict.model_construct(
    rule="record", passed=True, detail="a model sees it told in the record"
)
"""Marks a session's checkpoint without a written story: its summary is for people."""
TOLD_IN_RECORD = "What was said and done is told in the record below."
"""The model's view of it."""


class Checkpoint(BaseModel, frozen=True, defer_build=True):
    """A summary that replaces a span of history. It never changes: ageing makes another one."""

    id: str
    span: Span
    summary: str
    level: Level = "detailed"
    number: int = Field(default=1, ge=1)
    """The session's compression (from 1) that made it or its first source. Its age counts from
    there."""
    kept: tuple[int, ...] = ()
    """Positions of the span that stayed in view when it was made."""
    released: tuple[int, ...] = ()
    """Positions before the span that an earlier checkpoint kept, and that this one replaces."""
    anchors: tuple[str, ...] = ()
    token_count: int = Field(default=0, ge=0)
    made_by: str = "extractive"
    seconds: float | None = Field(default=None, exclude=True, repr=False)
    """Seconds a model took for its summary; not stored."""
    parents: tuple[str, ...] = ()
    """Ids of the checkpoints it replaced."""
    verdicts: tuple[Verdict, ...] = ()
    """The gate's findings on its summary."""
    until: datetime = Field(default_factory=clock_and_ids.now)
    """The time of the last message it replaces."""

    @property
    def is_by_person(self) -> bool:
        """Whether a person wrote it, or a part of its source."""
        return self.made_by.partition(", ")[0] == PERSON

    @property
    def is_by_model(self) -> bool:
        """Whether a model wrote it, or a part of it."""
        return not NO_MODELS.issuperset(self.made_by.split(", "))

    @property
    def written(self) -> str:
        """Writer, seconds and size: `checkpoint by qwen3:8b, 3.1 s, 4,210 → 310 tokens`."""
        who = "code" if self.made_by == "extractive" else self.made_by
        took = "" if self.seconds is None else f", {self.seconds:.1f} s"
        before = "" if self.span.tokens is None else f"{self.span.tokens:,} → "
        return f"checkpoint by {who}{took}, {before}{self.token_count:,} tokens"

    @property
    def story(self) -> str:
        """The summary of a session's checkpoint, without its reference line."""
        return self.summary.removeprefix(REFERENCE_LINE).strip()

    @property
    def body(self) -> str:
        """The text below the heading: the summary, or a reference to the record that tells it."""
        return TOLD_IN_RECORD if IN_RECORD in self.verdicts else self.summary

    def covered(self) -> list[int]:
        """The positions it replaces, in order."""
        kept = frozenset(self.kept)
        span = (i for i in range(self.span.first, self.span.last + 1) if i not in kept)
        return [*self.released, *span]

    def text(self, own: OwnText) -> str:
        """The heading line and the body, as a model sees them."""
        span = self.span
        size = "" if span.tokens is None else f", {span.tokens:,} tokens"
        about = f"{span.messages:,} of messages {span.first:,} to {span.last:,}{size}"
        return own.under(f"Checkpoint {self.id} · {about}", self.body)

    def message(self, own: OwnText) -> Message:
        """The checkpoint as the message at its span's start."""
        return Message(
            role="user",
            content=self.text(own),
            id=self.id,
            token_count=self.token_count or None,
            timestamp=self.until,
            metadata=MessageMetadata(source="checkpoint"),
        )


def checkpoint_id(span: Span, source_ids: Sequence[str], summary: str) -> str:
    """An id made from span, sources and summary: equal input gives an equal id."""
    sample = "\x00".join((*source_ids, summary))
    seed = f"{span.first}:{span.last}:{span.messages}:{sample}"
    return "ck-" + hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def record_message(text: str, *, messages: int, until: datetime, own: OwnText) -> Message:
    """A session's standing record, as of its first `messages` messages, as a message."""
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
    """The text below a checkpoint's or record's heading; the whole text if there is none."""
    return below(text) if is_checkpoint_text(text) else text

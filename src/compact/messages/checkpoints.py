"""Checkpoints: a summary that stands in for a span of history, and the heading it is recognized by.

A checkpoint stands at its span's start as a user-role message. Its first line carries an id and a
digest of the text below (`messages.own_text`); a text whose digest matches is ours when it comes
back, and is never taken for something a person said. Whoever else writes such a heading does not
match.
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
"""The maker of a summary that a person wrote or changed."""
NO_MODELS = frozenset((PERSON, "extractive", "receipt"))
"""Who makes summaries beside models."""


class Span(BaseModel, frozen=True, defer_build=True):
    """The messages a checkpoint stands in for: positions in the log, the last one included."""

    first: int = Field(ge=0)
    last: int = Field(ge=0)
    messages: int = Field(ge=0)
    """How many messages of the span it stands in for (the others are kept)."""
    tokens: int | None = Field(default=None, ge=0)
    """Their tokens, where they were counted."""


class Summary(BaseModel, frozen=True, defer_build=True):
    """What a summarizer wrote."""

    text: str
    """The story alone: what happened and why. What code writes beside it is no part of it."""
    made_by: str
    anchors: tuple[str, ...] = ()
    """Facts kept word for word, most needed first."""
    finish: Finish = "stop"
    """Why its maker stopped writing."""
    seconds: float | None = None
    """Time that a model took for it."""
    asked_again: str = Field(default="", exclude=True, repr=False)
    """Why its second try was no better, where it was asked twice."""
    prompt: str = Field(default="", exclude=True, repr=False)
    """What a model was told beside the messages, so that it is recognized when it comes back."""


class SummaryRequest(BaseModel, frozen=True, defer_build=True):
    """What a summarizer is asked for."""

    messages: Sequence[Message]
    """What is to be summarized, in order."""
    kept: Sequence[Message] = ()
    """What the reader will see beside the summary, and need not be told again."""
    answers: Mapping[str, str] = Field(default_factory=dict)
    """Id of a message to be summarized → what a person said to it in a message that is kept."""
    max_tokens: int = Field(ge=1)
    """Tokens that the story may have."""
    stand_in_tokens: int | None = Field(default=None, ge=1)
    """Tokens that the story by extraction may have where it takes this one's place: a small model
    is asked for less than there is room for. None is as many."""
    strategy: str = "task_state"
    level: Level = "detailed"
    """How much of the messages' detail is wanted; their cap follows from it."""
    mode: str = "assistant"
    """What the session is used for: it says what a summary keeps first (`text.modes`)."""
    guidance: str = ""
    """What a person wants kept beside that, in their words."""
    goals: tuple[str, ...] = ()
    """The words of the open goals: no summary may call them done."""
    open_tasks: tuple[str, ...] = ()
    """The words of what is still to do for them: no summary may drop what is said of it."""
    record: str = ""
    """What code writes beside the story: the reader sees it, it need not be told again."""
    notes: Any = Field(default=None, exclude=True, repr=False)
    """What was taken down of the history already, so that it is not read again; not stored."""
    reach: tuple[int, int] = (0, 1 << 60)
    """Where in the notes the messages stand: positions, the second one not included."""
    previous: Summary | None = None
    """The summary of what came before these messages, to be carried on."""


class Verdict(BaseModel, frozen=True, defer_build=True):
    """What the gate found by one of its rules."""

    rule: str
    passed: bool
    detail: str = ""
    """What was measured, and what was done where the rule was broken."""
    share: float | None = None
    """The share, 0 to 1, that a rule of shares has measured in what was written."""


IN_RECORD = Verdict.model_construct(
    rule="record", passed=True, detail="a model sees it told in the record"
)
"""Stands with a session's checkpoint of which nobody wrote a story: its summary is for people."""
TOLD_IN_RECORD = "What was said and done is told in the record below."
"""What a model sees of it."""


class Checkpoint(BaseModel, frozen=True, defer_build=True):
    """A summary standing in for a span of history. Never changed: ageing makes another one."""

    id: str
    span: Span
    summary: str
    level: Level = "detailed"
    number: int = Field(default=1, ge=1)
    """The session's compression, from 1, that its age counts from: it or its first source's."""
    kept: tuple[int, ...] = ()
    """Positions of the span that stayed in view when it was made."""
    released: tuple[int, ...] = ()
    """Positions before the span that an earlier checkpoint had kept, and that it stands in for."""
    anchors: tuple[str, ...] = ()
    token_count: int = Field(default=0, ge=0)
    made_by: str = "extractive"
    seconds: float | None = Field(default=None, exclude=True, repr=False)
    """Time that a model took for its summary; not stored."""
    parents: tuple[str, ...] = ()
    """Ids of the checkpoints it took the place of."""
    verdicts: tuple[Verdict, ...] = ()
    """What the gate said of its summary."""
    until: datetime = Field(default_factory=clock_and_ids.now)
    """The time of the last message it stands in for."""

    @property
    def is_by_person(self) -> bool:
        """Whether a person wrote it, or some of what it was made from."""
        return self.made_by.partition(", ")[0] == PERSON

    @property
    def is_by_model(self) -> bool:
        """Whether a model wrote it, or some of it."""
        return not NO_MODELS.issuperset(self.made_by.split(", "))

    @property
    def written(self) -> str:
        """Who wrote it, how long that took, and what it came to: `checkpoint by qwen3:8b, 3.1 s,
        4,210 → 310 tokens`.
        """
        who = "code" if self.made_by == "extractive" else self.made_by
        took = "" if self.seconds is None else f", {self.seconds:.1f} s"
        before = "" if self.span.tokens is None else f"{self.span.tokens:,} → "
        return f"checkpoint by {who}{took}, {before}{self.token_count:,} tokens"

    @property
    def story(self) -> str:
        """What a session's checkpoint says, without the line that says what it is."""
        return self.summary.removeprefix(REFERENCE_LINE).strip()

    @property
    def body(self) -> str:
        """What a model sees below its heading: the summary, unless the record tells it."""
        return TOLD_IN_RECORD if IN_RECORD in self.verdicts else self.summary

    def covered(self) -> list[int]:
        """The positions it stands in for, in order."""
        kept = frozenset(self.kept)
        span = (i for i in range(self.span.first, self.span.last + 1) if i not in kept)
        return [*self.released, *span]

    def text(self, own: OwnText) -> str:
        """The heading line and the summary, as a model sees them."""
        span = self.span
        size = "" if span.tokens is None else f", {span.tokens:,} tokens"
        about = f"{span.messages:,} of messages {span.first:,} to {span.last:,}{size}"
        return own.under(f"Checkpoint {self.id} · {about}", self.body)

    def message(self, own: OwnText) -> Message:
        """The checkpoint as the message that stands at its span's start."""
        return Message(
            role="user",
            content=self.text(own),
            id=self.id,
            token_count=self.token_count or None,
            timestamp=self.until,
            metadata=MessageMetadata(source="checkpoint"),
        )


def checkpoint_id(span: Span, source_ids: Sequence[str], summary: str) -> str:
    """An id that depends on what is covered and what is said of it: the same gives the same id."""
    sample = "\x00".join((*source_ids, summary))
    seed = f"{span.first}:{span.last}:{span.messages}:{sample}"
    return "ck-" + hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def record_message(text: str, *, messages: int, until: datetime, own: OwnText) -> Message:
    """A session's standing record, as of its first so many messages, as a message."""
    whole = own.under(f"Record · as of message {messages:,}", f"{REFERENCE_LINE}\n\n{text}")
    return Message(
        role="user",
        content=whole,
        id=f"rc-{own.digest(whole)}",
        timestamp=until,
        metadata=MessageMetadata(source="checkpoint"),
    )


def is_checkpoint_text(text: str) -> bool:
    """Whether the text opens as a checkpoint of ours does, whoever wrote it."""
    return headed(text) in ("Checkpoint", "Record")


def summary_of(text: str) -> str:
    """The text below a checkpoint's or a record's heading; the whole text where there is none."""
    return below(text) if is_checkpoint_text(text) else text

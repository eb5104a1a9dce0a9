"""Ageing of conversations: levels, digests and metadata, as pure values.

A store keeps a `CompressedConversation` beside the originals, never in their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, NoReturn

from pydantic import BaseModel, Field

from compact.errors import InvalidArgument
from compact.messages import clock_and_ids
from compact.messages.calls import got
from compact.messages.checkpoints import Verdict
from compact.text.archived import ArchiveReport
from compact.text.conversation import Conversation


class CompressionLevel(StrEnum):
    """How much of a conversation is at hand, from all to least."""

    FULL = "full"
    """Every word."""
    KEY_POINTS = "key_points"
    """A digest of 60 to 70 % of the tokens."""
    SUMMARY = "summary"
    """A digest of 30 to 40 % of the tokens."""
    ARCHIVED = "archived"
    """The same digest. The originals belong in the archive."""
    METADATA = "metadata"
    """Metadata without a digest. The originals belong in the archive."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        levels = ", ".join(repr(each.value) for each in cls)
        raise InvalidArgument("value", f"a level is one of {levels}, not {got(value)}")

    @property
    def is_archived(self) -> bool:
        """Whether the originals belong in the archive."""
        return self in (CompressionLevel.ARCHIVED, CompressionLevel.METADATA)


class Survival(BaseModel, frozen=True, defer_build=True):
    """Shares of a conversation, 0 to 1, that its digest keeps; None where it had no such item."""

    entities: float | None = None
    """Share of the 60 names most likely needed again (`text.anchors`). In plain talk, of the names
    that occur most often."""
    anchors: float | None = None
    """Share of all names: files, commands, identifiers, addresses and numbers, as written."""
    decisions: float | None = None
    """Share of the sentences that state a decision (`text.sentences`)."""
    questions: float | None = None
    """Share of a person's questions."""


class ConversationMetadata(BaseModel, frozen=True, defer_build=True):
    """Metadata of a conversation."""

    id: str
    title: str | None = None
    begun: datetime | None = None
    """Time of its earliest message; None if it has none."""
    ended: datetime | None = None
    """Time of its latest message."""
    messages: int = 0
    roles: Mapping[str, int] = Field(default_factory=dict)
    """Role → number of messages."""
    tokens: int = 0
    topics: tuple[str, ...] = ()
    """Its most telling words, the most telling first."""
    entities: tuple[str, ...] = ()
    """The names most likely needed again, the likeliest first."""


class Written(BaseModel, frozen=True, defer_build=True):
    """A digest and how it was written."""

    text: str
    source_tokens: int
    """Tokens of its source messages, counted as in a prompt, without system prompts."""
    tokens: int
    """Tokens of the digest."""
    kept: Survival = Survival()
    made_by: str = "extractive"
    verdicts: tuple[Verdict, ...] = ()
    """The gate's verdicts on a model's story; empty for an extracted one."""

    @property
    def ratio(self) -> float:
        """The digest's tokens as a share of the source's; 1 for an empty source."""
        return self.tokens / self.source_tokens if self.source_tokens else 1.0


class ConversationSummary(Written, frozen=True):
    """A summary of a conversation."""

    conversation_id: str
    target_ratio: float
    """The requested ratio."""


class KeyPoint(NamedTuple):
    """One point of a digest."""

    section: str
    """Its section of the digest, such as `Decisions`."""
    text: str


class CompressedConversation(Written, frozen=True):
    """A conversation at a level. It is always made from the originals."""

    level: CompressionLevel
    about: ConversationMetadata
    score: float | None = None
    """How much it deserves to be kept whole, 0 to 1; None if that was not computed."""
    fingerprint: str = ""
    """Hash of the source and the settings. A digest with another hash is outdated."""
    made_at: datetime = Field(default_factory=clock_and_ids.now)
    original: Conversation | None = Field(default=None, exclude=True, repr=False)
    """The source, while it is in memory. No store keeps it here."""

    @property
    def id(self) -> str:
        """The conversation's id."""
        return self.about.id

    @property
    def in_short(self) -> str:
        """Its text, or its topics and names if it has no text."""
        return self.text or ", ".join((*self.about.topics, *self.about.entities))


class DigestNote(NamedTuple):
    """Metadata of a stored digest."""

    level: CompressionLevel
    score: float | None
    fingerprint: str
    original_tokens: int
    tokens: int
    bytes: int
    """Size of its text."""


class Lease(NamedTuple):
    """The right to do a piece of work. One holder has it at a time."""

    name: str
    holder: str


class AgeingRow(BaseModel, frozen=True, defer_build=True):
    """What ageing did, or would do, with one session."""

    session_id: str
    title: str | None
    age_days: int
    """Whole days since the last activity."""
    now: CompressionLevel
    """The level before ageing."""
    due: CompressionLevel
    """The level for its age."""
    action: str
    """`none`; `write` a digest; `drop` a digest that is no longer due; `archive` the originals. A
    `write` or `drop` may come with it, as in `write, archive`."""
    tokens_before: int | None = None
    """Tokens of the originals; None if they stay whole or were not counted."""
    tokens_after: int | None = None
    """Tokens of the digest; None if it is not written."""
    bytes_originals: int = 0
    """Bytes of the originals in the store."""
    bytes_digest: int | None = None
    """Bytes of the digest's text; None if it is not written."""
    why: str = ""
    """Why the session is kept whole, or what went wrong."""

    @property
    def is_to_archive(self) -> bool:
        """Whether its originals still have to go into the archive."""
        return self.action.endswith("archive")


class AgeingReport(BaseModel, frozen=True, defer_build=True):
    """The result of ageing, or of a dry run."""

    rows: tuple[AgeingRow, ...] = ()
    dry_run: bool = False
    complete: bool = True
    """Whether every session was looked at. False if another process is doing the work."""
    archive: ArchiveReport | None = None
    """The result of archiving; None if nothing was due or no archive is configured."""

    @property
    def written(self) -> int:
        """Number of digests that were written, or would be."""
        return sum(row.action.startswith("write") for row in self.rows)

    @property
    def freed_when_archived(self) -> int:
        """Approximate bytes that the store loses when all due originals are archived."""
        due = [row for row in self.rows if row.is_to_archive]
        return sum(row.bytes_originals - (row.bytes_digest or 0) for row in due)

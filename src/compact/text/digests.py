"""What age leaves of a conversation: its levels, the digest that stands for it, and what of it is
known without reading it. Pure values; a store keeps a `CompressedConversation` beside the
originals, and never in their place.
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
    """How much of a conversation is at hand; the later, the less."""

    FULL = "full"
    """Every word."""
    KEY_POINTS = "key_points"
    """A digest of 60 to 70 % of the tokens."""
    SUMMARY = "summary"
    """A digest of 30 to 40 % of the tokens."""
    ARCHIVED = "archived"
    """The same digest; the originals belong into the archive."""
    METADATA = "metadata"
    """What is known about it, and no digest; the originals belong into the archive."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        levels = ", ".join(repr(each.value) for each in cls)
        raise InvalidArgument("value", f"a level is one of {levels}, not {got(value)}")

    @property
    def is_archived(self) -> bool:
        """Whether the originals belong into the archive."""
        return self in (CompressionLevel.ARCHIVED, CompressionLevel.METADATA)


class Survival(BaseModel, frozen=True, defer_build=True):
    """What of a conversation its digest still says, as shares 0 to 1; None where there was none."""

    entities: float | None = None
    """Of the 60 names that are needed again likeliest (`text.anchors`; of plain talk, those that
    are named most often)."""
    anchors: float | None = None
    """Of all names: files, commands, identifiers, addresses, numbers, as they were written."""
    decisions: float | None = None
    """Of the sentences in which somebody decides (`text.sentences`)."""
    questions: float | None = None
    """Of a person's questions."""


class ConversationMetadata(BaseModel, frozen=True, defer_build=True):
    """What is known about a conversation without reading it."""

    id: str
    title: str | None = None
    begun: datetime | None = None
    """The time of its earliest message; None where there is none."""
    ended: datetime | None = None
    """The time of its latest one."""
    messages: int = 0
    roles: Mapping[str, int] = Field(default_factory=dict)
    """Role → how many of them it has."""
    tokens: int = 0
    topics: tuple[str, ...] = ()
    """The words that tell most, the most telling first."""
    entities: tuple[str, ...] = ()
    """The names that are needed again likeliest, the likeliest first."""


class Written(BaseModel, frozen=True, defer_build=True):
    """A digest as it was written."""

    text: str
    source_tokens: int
    """Tokens of the messages that it was written from, as a prompt counts them; system prompts are
    none of them."""
    tokens: int
    """Its own."""
    kept: Survival = Survival()
    made_by: str = "extractive"
    verdicts: tuple[Verdict, ...] = ()
    """What the gate said of a model's story; empty for an extracted one."""

    @property
    def ratio(self) -> float:
        """Its tokens as a share of the source's, as counted; 1 of an empty source."""
        return self.tokens / self.source_tokens if self.source_tokens else 1.0


class ConversationSummary(Written, frozen=True):
    """A summary of a conversation."""

    conversation_id: str
    target_ratio: float
    """The ratio that was asked for."""


class KeyPoint(NamedTuple):
    """One thing that a digest says."""

    section: str
    """The section of the digest in which it stands, such as `Decisions`."""
    text: str


class CompressedConversation(Written, frozen=True):
    """A conversation at a level, always made from the originals."""

    level: CompressionLevel
    about: ConversationMetadata
    score: float | None = None
    """How much it is worth to be kept whole, 0 to 1, where that was asked."""
    fingerprint: str = ""
    """Of what it was made from, and by which settings: others make another digest."""
    made_at: datetime = Field(default_factory=clock_and_ids.now)
    original: Conversation | None = Field(default=None, exclude=True, repr=False)
    """What it was made from, while that is in memory; no store keeps it here."""

    @property
    def id(self) -> str:
        """The conversation's id."""
        return self.about.id

    @property
    def in_short(self) -> str:
        """Its text; topics and names where it has none."""
        return self.text or ", ".join((*self.about.topics, *self.about.entities))


class DigestNote(NamedTuple):
    """What is known of a stored digest without reading it."""

    level: CompressionLevel
    score: float | None
    fingerprint: str
    original_tokens: int
    tokens: int
    bytes: int
    """Of its text."""


class Lease(NamedTuple):
    """The right to do a piece of work, which one holder has at a time."""

    name: str
    holder: str


class AgeingRow(BaseModel, frozen=True, defer_build=True):
    """What ageing does, or would do, with one session."""

    session_id: str
    title: str | None
    age_days: int
    """Whole days since the last activity."""
    now: CompressionLevel
    """The level it had before."""
    due: CompressionLevel
    """The level that it has by now."""
    action: str
    """`none`, `write` a digest, `drop` one that is due no more; `archive`, or with it behind, where
    the originals belong into the archive and are not there."""
    tokens_before: int | None = None
    """Of the originals; None where they stay whole, or were not looked at."""
    tokens_after: int | None = None
    """Of the digest; None while it is not written."""
    bytes_originals: int = 0
    """Bytes of the originals in the store."""
    bytes_digest: int | None = None
    """Bytes of the digest's text; None while it is not written."""
    why: str = ""
    """Why it is kept whole; or what went wrong."""

    @property
    def is_to_archive(self) -> bool:
        """Whether its originals belong into the archive, and are not there."""
        return self.action.endswith("archive")


class AgeingReport(BaseModel, frozen=True, defer_build=True):
    """What ageing did, or would do."""

    rows: tuple[AgeingRow, ...] = ()
    dry_run: bool = False
    complete: bool = True
    """Whether every session was looked at; not where another process does the work."""
    archive: ArchiveReport | None = None
    """What became of the originals that belong into the archive; None where there were none, and
    where nothing moves them."""

    @property
    def written(self) -> int:
        """Digests that were written, or would be."""
        return sum(row.action.startswith("write") for row in self.rows)

    @property
    def freed_when_archived(self) -> int:
        """About how many bytes the file loses as what is due goes into the archive."""
        due = [row for row in self.rows if row.is_to_archive]
        return sum(row.bytes_originals - (row.bytes_digest or 0) for row in due)

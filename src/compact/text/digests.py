"""Values for ageing: as a conversation gets older, a store keeps less of it at hand.

A store keeps a `CompressedConversation` in addition to the originals. It never replaces them.
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
    """How much of a conversation is at hand. The first level is the whole, the last the least."""

    FULL = "full"
    """Every word."""
    KEY_POINTS = "key_points"
    """A digest of 60 to 70 % of the tokens."""
    SUMMARY = "summary"
    """A digest of 30 to 40 % of the tokens."""
    ARCHIVED = "archived"
    """The same digest as `summary`. The originals belong in the archive."""
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
    """What share of each kind of item a digest keeps, 0 to 1; None if the source has none."""

    entities: float | None = None
    """Share of the 60 names most likely needed again (`text.anchors`). In everyday talk, share of
    the names that occur most often."""
    anchors: float | None = None
    """Share of all names as written: files, commands, identifiers, addresses and numbers."""
    decisions: float | None = None
    """Share of the sentences that state a decision (`text.sentences`)."""
    questions: float | None = None
    """Share of the user's questions."""


class ConversationMetadata(BaseModel, frozen=True, defer_build=True):
    """Metadata of a conversation."""

    id: str
    title: str | None = None
    begun: datetime | None = None
    """Time of the earliest message; None if there are no messages."""
    ended: datetime | None = None
    """Time of the latest message; None if there are no messages."""
    messages: int = 0
    roles: Mapping[str, int] = Field(default_factory=dict)
    """Role → number of messages."""
    tokens: int = 0
    topics: tuple[str, ...] = ()
    """The words that say most about the conversation, the best first."""
    entities: tuple[str, ...] = ()
    """The names that are most likely needed again, the likeliest first."""


class Written(BaseModel, frozen=True, defer_build=True):
    """A digest and how it was written."""

    text: str
    source_tokens: int
    """Tokens of the source messages, counted as in a prompt, without system prompts."""
    tokens: int
    """Tokens of the digest."""
    kept: Survival = Survival()
    made_by: str = "extractive"
    verdicts: tuple[Verdict, ...] = ()
    """The gate's verdicts on a summary by a model; empty for a summary by code."""

    @property
    def ratio(self) -> float:
        """The digest's tokens as a share of the source's; 1 for an empty source."""
        return self.tokens / self.source_tokens if self.source_tokens else 1.0


class ConversationSummary(Written, frozen=True):
    """A summary of a conversation."""

    conversation_id: str
    target_ratio: float
    """The requested ratio of the summary's tokens to the source's tokens."""


class KeyPoint(NamedTuple):
    """One point of a digest."""

    section: str
    """The section of the digest that holds the point, such as `Decisions`."""
    text: str


class CompressedConversation(Written, frozen=True):
    """A conversation, compressed to a level. It is always made from the originals."""

    level: CompressionLevel
    about: ConversationMetadata
    score: float | None = None
    """How much the conversation deserves to be kept whole, 0 to 1; None if not computed."""
    fingerprint: str = ""
    """Hash of the source and the settings. If the hash has changed, the digest is outdated."""
    made_at: datetime = Field(default_factory=clock_and_ids.now)
    original: Conversation | None = Field(default=None, exclude=True, repr=False)
    """The source conversation, while it is in memory. Stores do not save this field."""

    @property
    def id(self) -> str:
        """The conversation's id."""
        return self.about.id

    @property
    def in_short(self) -> str:
        """The digest's text, or topics and names if there is no text."""
        return self.text or ", ".join((*self.about.topics, *self.about.entities))


class DigestNote(NamedTuple):
    """Metadata of a stored digest."""

    level: CompressionLevel
    score: float | None
    fingerprint: str
    original_tokens: int
    tokens: int
    bytes: int
    """Size of the digest's text."""


class Lease(NamedTuple):
    """The right to do a piece of work. Only one holder has this right at a time."""

    name: str
    holder: str


class AgeingRow(BaseModel, frozen=True, defer_build=True):
    """What ageing did with one session, or would do in a dry run."""

    session_id: str
    title: str | None
    age_days: int
    """Whole days since the last activity."""
    now: CompressionLevel
    """The level before ageing."""
    due: CompressionLevel
    """The level that fits the session's age."""
    action: str
    """`none`, `write` (a digest; the originals are packed too), `drop` (a digest that is no longer
    due), `archive` (the originals), `pack` (originals, or the old part of those of a session in
    use), or two of these, such as `write, archive` and `drop, pack`."""
    tokens_before: int | None = None
    """Tokens of the originals; None if the session stays whole or was not counted."""
    tokens_after: int | None = None
    """Tokens of the digest; None if no digest is written."""
    bytes_originals: int = 0
    """Bytes of the originals in the store."""
    bytes_digest: int | None = None
    """Bytes of the digest's text; None if no digest is written."""
    why: str = ""
    """Why the session is kept whole or ages slower, or what went wrong."""

    @property
    def is_to_archive(self) -> bool:
        """Whether the session's originals still have to go into the archive."""
        return self.action.endswith("archive")


class AgeingReport(BaseModel, frozen=True, defer_build=True):
    """What ageing did, or what it would do if it is a dry run."""

    rows: tuple[AgeingRow, ...] = ()
    dry_run: bool = False
    complete: bool = True
    """Whether every session was examined. False if another process is doing the work."""
    archive: ArchiveReport | None = None
    """The result of archiving; None if nothing was due or no archive is configured."""

    @property
    def written(self) -> int:
        """Number of digests that were written, or that a dry run would write."""
        return sum(row.action.startswith("write") for row in self.rows)

    @property
    def freed_when_archived(self) -> int:
        """About how many bytes smaller the store gets when all due originals are archived."""
        due = [row for row in self.rows if row.is_to_archive]
        return sum(max(0, row.bytes_originals - (row.bytes_digest or 0)) for row in due)

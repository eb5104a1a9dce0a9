"""Which conversations are kept whole, and which age more slowly (A-6): `RetentionPolicy`. The
levels by age (A-2): `Ages`.

    importance = 1                                        if a person marked it as important
    importance = Σ weight × part, each part 0 to 1        otherwise

    engagement   ½ length + ½ back and forth
        length          ln(1 + words) / ln(1 + 1,500), at most 1, of a person's own words
        back and forth  1 − e^(−(n − 1) / 8), for n messages of a person
    density      names and figures (`text.facts`) and rules (`text.instructions`) in a person's
        words: 1 − e^(−found / 12)
    questions    1 − e^(−questions / 5), of a person
    span         ln(1 + hours) / ln(1 + 48), at most 1, from the first message to the last
    worth        the mean importance (`text.importance`, without recency) of the 5 messages of a
        person that count most

Pasted text, tool output and replies count nothing, because they can be had again. The weights were
set on forty labelled conversations and are scored on twenty others (`python -m evals importance`,
docs/evidence.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from heapq import nlargest
from typing import Any, NamedTuple, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from compact.messages.calls import of_field
from compact.messages.codec import instant
from compact.messages.messages import Message
from compact.messages.sessions import Session
from compact.messages.times import FIRST_YEAR, Times
from compact.text.conversation import Conversation
from compact.text.digests import CompressionLevel
from compact.text.facts import entities
from compact.text.importance import lasting
from compact.text.instructions import instructions_in
from compact.text.speakers import own_words_of, speaker_of

MUCH_SAID, TURNS, NAMED, ASKED, HOURS = 1_500, 8, 12, 5, 48
"""Saturation points. With this many words of a person, or this many hours, a part is 1. With this
many messages, names or questions, it is 1 − 1/e."""
BEST = 5
"""The importance is averaged over this many of the user's best messages."""
READ = 20_000
"""How many characters of a message are read."""
MARKED = "marked as important"
"""The reason in reports for a marked session."""


class Parts(NamedTuple):
    """The parts of an importance, each 0 to 1."""

    engagement: float = 0.0
    density: float = 0.0
    questions: float = 0.0
    span: float = 0.0
    worth: float = 0.0


WEIGHTS = Parts(engagement=0.4, density=0.2, questions=0.1, span=0.1, worth=0.2)
"""The weight of each part. The weights sum to 1."""


class Importance(BaseModel, frozen=True, defer_build=True):
    """How much it is worth to keep a conversation whole."""

    score: float = Field(ge=0, le=1)
    marked: bool = False
    """Whether a person marked it as important. Then the score is 1."""
    parts: Parts = Parts()
    weights: Parts = WEIGHTS

    def told(self) -> dict[str, float]:
        """Return what each part adds to the score."""
        return {
            name: part * weight
            for name, part, weight in zip(Parts._fields, self.parts, self.weights, strict=True)
        }


class RetentionTally:
    """Counts the parts of an importance message by message, in bounded memory."""

    def __init__(self) -> None:
        self.messages = self.words = self.questions = 0
        self.named = 0.0
        self._best: list[float] = []
        self._times: tuple[int, int] | None = None

    def read(self, messages: Iterable[Message]) -> Self:
        """Count the next messages."""
        for message in messages:
            self._spans(message.timestamp)
            if speaker_of(message) == "person":
                self._hear(message)
        return self

    def _spans(self, time: datetime) -> None:
        at = instant(time)
        first, last = self._times or (at, at)
        self._times = min(first, at), max(last, at)

    def _hear(self, message: Message) -> None:
        words = own_words_of(message)[:READ]
        if not words.strip():
            return
        self.messages += 1
        self.words += len(words.split())
        self.questions += words.count("?") + words.count("？")
        self.named += len(entities(words)) + sum(x.is_rule for x in instructions_in(words))
        self._best = nlargest(BEST, [*self._best, lasting(message)])

    @property
    def parts(self) -> Parts:
        """The parts for the messages counted so far."""
        if not self.messages:
            return Parts()
        first, last = self._times or (0, 0)
        hours = 24 * (last - first) / DAY
        length = min(1.0, math.log1p(self.words) / math.log1p(MUCH_SAID))
        return Parts(
            engagement=(length + _much(self.messages - 1, TURNS)) / 2,
            density=_much(self.named, NAMED),
            questions=_much(self.questions, ASKED),
            span=min(1.0, math.log1p(hours) / math.log1p(HOURS)),
            worth=min(1.0, sum(self._best) / BEST),
        )


def _much(count: float, typical: float) -> float:
    return 1 - math.exp(-count / typical)


class RetentionPolicy(BaseModel, frozen=True, defer_build=True):
    """Decides which conversations keep every word. Frozen: updating returns a new policy."""

    keep_score: float = Field(default=0.5, ge=0, le=1)
    """A conversation with at least this importance is kept whole for longer."""
    keep_days: int | None = Field(default=None, ge=0)
    """Up to this age in days an important conversation is kept whole. Then it ages more slowly, by
    the same factor. None: for ever; a memory takes the setting `retain_days`. A marked one is kept
    for ever."""
    fresh_days: int = Field(default=7, ge=0)
    """Every conversation is kept whole up to this age in days."""

    def calculate_importance_score(self, conversation: Conversation) -> Importance:
        """Return the importance of a conversation, with each part of the score."""
        return self.importance(RetentionTally().read(conversation.messages), conversation.metadata)

    def importance(self, tally: RetentionTally, metadata: Mapping[str, Any]) -> Importance:
        """Return the importance from a tally, for callers that do not have all messages at once."""
        parts, marked = tally.parts, bool(metadata.get("important"))
        score = sum(part * weight for part, weight in zip(parts, WEIGHTS, strict=True))
        return Importance(score=1.0 if marked else min(1.0, score), marked=marked, parts=parts)

    def should_retain_full(self, conversation: Conversation, age_days: float) -> bool:
        """Return whether a conversation keeps every word at an age in days. A mark decides first,
        then the importance, then the age.
        """
        return self.retains(self.calculate_importance_score(conversation), age_days)

    def retains(self, importance: Importance, age_days: float) -> bool:
        """Like `should_retain_full`, for a known importance."""
        return self.aged(importance, age_days) <= self.fresh_days

    def aged(self, importance: Importance, age_days: float) -> int:
        """Return the age in whole days that decides the level. It is 0 for what is kept for ever.
        Other important conversations are on day `keep_days` as old as the rest on day `fresh_days`.
        """
        days = int(max(0.0, age_days))
        if not self.reason(importance):
            return days
        if importance.marked or self.keep_days is None:
            return 0
        return days * (self.fresh_days + 1) // (max(self.keep_days, self.fresh_days) + 1)

    def reason(self, importance: Importance) -> str:
        """Return why a conversation is kept whole for longer; an empty string if it is not."""
        if importance.marked:
            return MARKED
        if importance.score < self.keep_score:
            return ""
        return f"importance {importance.score:.2f}, at least {self.keep_score:g}"

    def update_retention_policy(self, **thresholds: float | None) -> RetentionPolicy:
        """Return a policy with these thresholds changed.

        Raises:
            InvalidArgument: there is no such threshold, or its value is out of bounds.
        """
        try:
            return type(self).model_validate({**self.model_dump(), **thresholds}, extra="forbid")
        except ValidationError as error:
            raise of_field(error) from None


# --- levels by age --------------------------------------------------------------------------------


DAY = 86_400_000_000
"""A day in microseconds."""
RESTORED = "restored_at"
"""Metadata key of a session: when it was restored from the archive."""


class Ages(BaseModel, frozen=True, defer_build=True):
    """The last day of each level, in whole days since the last activity. The defaults were chosen,
    not measured (A-2).
    """

    full: int = Field(default=7, ge=0)
    """Up to this day every word is kept."""
    key_points: int = Field(default=30, ge=0)
    """Up to this day the digest has 60 to 70 % of the tokens."""
    summary: int = Field(default=90, ge=0)
    """Up to this day the originals stay, and the digest has 30 to 40 % of the tokens."""
    archived: int = Field(default=364, ge=0)
    """Up to this day there is a digest. Afterwards only metadata is left."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.full <= self.key_points <= self.summary <= self.archived:
            raise ValueError("each level's last day should be no earlier than the one before it")
        return self

    def level(self, age_days: float) -> CompressionLevel:
        """Return the level at an age. Only whole days count. A date in the future has age 0."""
        days = int(max(0.0, age_days))
        if days <= self.full:
            return CompressionLevel.FULL
        if days <= self.key_points:
            return CompressionLevel.KEY_POINTS
        if days <= self.summary:
            return CompressionLevel.SUMMARY
        return CompressionLevel.ARCHIVED if days <= self.archived else CompressionLevel.METADATA


def days_unused(session: Session, now: datetime, latest: int | None = None) -> float:
    """Return how many days ago a session was last used: the latest plausible time of a message or
    of a restoration from the archive, else its creation. `latest` is the latest plausible time of a
    message, if the last message does not have it.
    """
    times = [instant(session.updated_at), latest or 0]
    # there is none, or an application uses the key for something else
    with suppress(TypeError, ValueError):
        times.append(instant(datetime.fromisoformat(session.metadata.get(RESTORED, ""))))
    soonest, _, last = sensible(now)
    for known in (times, [instant(session.created_at)]):
        if right := [each for each in known if soonest <= each <= last]:
            return (instant(now) - max(right)) / DAY
    return 0.0


def sensible(now: datetime, days: int = 0) -> Times:
    """Return the earliest and the latest time at which a session can have been used, and between
    them the time since when it is at most `days` old, in microseconds. A later time would keep a
    session young for ever. The latest is a day from now, because a time may lack its zone.
    """
    first = instant(datetime(FIRST_YEAR, 1, 1, tzinfo=UTC))
    return first, instant(now) - (days + 1) * DAY, instant(now) + DAY


def days_between(earlier: datetime, later: datetime) -> float:
    """Return the days between two times, as a fraction. A time without a zone counts as UTC."""
    return (instant(later) - instant(earlier)) / DAY

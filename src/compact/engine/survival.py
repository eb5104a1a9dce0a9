"""Measure what a digest still says about its conversation: names, decisions and questions.

Each is searched word for word, with white space squeezed. A paraphrase counts as lost, so the
shares are lower bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import add

from compact.engine.chronology.notes import Notes
from compact.engine.excerpts import is_asked_or_decided
from compact.messages.messages import Message
from compact.text import anchors, sentences
from compact.text.digests import Survival
from compact.text.facts import Said, entities
from compact.text.speakers import own_words_of, speaker_of

MOST_ENTITIES = 60
"""How many names count as entities: those most likely to be needed again."""


@dataclass(frozen=True, slots=True)
class Kept:
    """How many entities, names, decisions and questions a digest says (`said`) of all (`of`)."""

    said: tuple[int, ...] = (0, 0, 0, 0)
    of: tuple[int, ...] = (0, 0, 0, 0)

    def __add__(self, other: Kept) -> Kept:
        return Kept(
            tuple(map(add, self.said, other.said)),
            tuple(map(add, self.of, other.of)),
        )

    @property
    def shares(self) -> Survival:
        """The share of the facts of each kind that a digest says."""
        shares = [a / b if b else None for a, b in zip(self.said, self.of, strict=True)]
        entities, names, decisions, questions = shares
        return Survival(entities=entities, anchors=names, decisions=decisions, questions=questions)


class Facts:
    """Facts that could be lost: read message by message, then compared with digests."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._named: Counter[str] = Counter()
        self._decisions: set[str] = set()
        self._questions: set[str] = set()

    def read(self, messages: Iterable[Message]) -> Facts:
        """Read the facts in the messages."""
        for message in messages:
            speaker = speaker_of(message)
            if speaker in ("system", "injected", "checkpoint"):
                continue
            texts = [message.text, *(x.text for x in message.tool_results)]
            texts += [call.arguments for call in message.tool_calls]
            for text in texts:
                self._names |= anchors.texts_of(anchors.find(text))
            if speaker in ("person", "assistant"):
                own = own_words_of(message) if speaker == "person" else message.text
                self._named.update(entities(own))
                self._hear(own, "person" if speaker == "person" else "assistant")
        return self

    def _hear(self, words: str, speaker: str) -> None:
        for line in sentences.lines_of(words):
            for said in sentences.sentences_of(line):
                if len(said) < sentences.SHORTEST:
                    continue
                is_own = speaker == "person"
                if is_own and said.endswith(("?", "？")):
                    self._questions.add(_squeezed(said))
                elif is_asked_or_decided(Said(0, "person" if is_own else "assistant", said)):
                    self._decisions.add(_squeezed(said))

    def kept_in(self, text: str, notes: Notes) -> Kept:
        """Return how many of the facts a digest says."""
        own = _squeezed(text)
        groups = (self.entities(notes), self._names, self._decisions, self._questions)
        found = [[_squeezed(each) in own for each in group] for group in groups]
        return Kept(tuple(map(sum, found)), tuple(map(len, found)))

    def entities(self, notes: Notes) -> Sequence[str]:
        """Return the names that are most likely needed again."""
        ranked = [text for text, *_ in notes.ranked()[:MOST_ENTITIES]]
        if not notes.is_plain_talk and ranked:
            return ranked
        most = sorted(self._named.items(), key=lambda row: (-row[1], row[0]))
        return [text for text, _ in most[:MOST_ENTITIES]]


def _squeezed(text: str) -> str:
    return " ".join(text.replace("*", "").replace("`", "").split())

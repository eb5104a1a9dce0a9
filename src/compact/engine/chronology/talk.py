"""Plain talk: the sentences that say most for their tokens, in order and with their speakers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from compact.engine.chronology.cutting import info_of
from compact.engine.chronology.items import (
    Item,
    Spoken,
    demand_of,
    marked,
    question_of,
    without_superseded,
)
from compact.engine.chronology.notes import Notes
from compact.messages.cached import cached_property
from compact.messages.tokens import TokenCounter
from compact.text import anchors
from compact.text.facts import Candidates, Said
from compact.text.modes import KindWeights
from compact.text.restatements import NAMED
from compact.text.sentences import lines_of, sentences_of, topic_of
from compact.text.speakers import Speaker

SPEAKERS: Mapping[str, str] = {"person": "User: ", "assistant": "Assistant: "}
SPOKEN = frozenset((*SPEAKERS.values(), "System: ", "Tool: "))
"""Speaker labels that do not count as names, so that no text can pose as another speaker."""
MOST_JUDGED = 40
"""How many requests, the newest ones, decide whether this is a conversation between people."""
RULES_SHARE, LEAST_RULES, CLEAR = 0.2, 160, 0.65
"""The user's clear demands come first, with this share of the room, or with this many tokens, up to
half of the room. A demand is clear from the third number on (0 to 1)."""
TALK_POWER = 0.2
"""Exponent that reduces the weights of kinds for sentences. Those weights are meant for deeds; a
sentence competes only with other sentences."""
TOPICS: Mapping[str, str] = {"errors": "failed", "decisions": "decided"}
"""Topic of a sentence → the kind whose weight it gets."""
SPARE = 0.03
"""If more than this share of the room is left, it is filled with further sentences."""
SPEAKER_TOKENS, LEAST_TOKENS = 8, 12
"""`SPEAKER_TOKENS`: most tokens of a line's speaker. `LEAST_TOKENS`: a smaller room stays empty."""
SHORT_ANSWER = 4.0
"""An answer with less information (`info_of`) is shown with its question."""
_ENDS = (".", "!", "?", "…", ":", ";", "。", "！", "？", "”", ".)", ".`")


class Talk:
    """Selects the sentences that say most, important messages first. Leaves out pasted text. Each
    sentence is weighed once for all sizes.
    """

    def __init__(
        self, items: Sequence[Item], notes: Notes, counter: TokenCounter, weights: KindWeights
    ) -> None:
        items = [item for item in items if item.kind != "pasted"]
        pairs = zip([None, *items], items, strict=False)
        self._said = [said for pair in pairs for said in _said_in(*pair)]
        self._marked = [x for x in self._said if x.position in notes.marked]
        self._counter, self._weigh = counter, _weighing(weights)
        self._costs = {x.text: counter.text(x.text) + 1 for x in self._said}
        self._is_people = is_record(items)
        self._names = _names_of(items) if self._is_people else {}
        self._before_ids = dict[int, dict[str, Sequence[str]]]()
        for item in items:
            if item.kind in ("earlier", "host"):  # the text names its speaker
                self._names[item.position] = ""
            self._before_ids.setdefault(item.position, {}).update(item.before_ids)
        self._rest: tuple[list[Said], Candidates] | None = None

    def told(self, room: int) -> str:
        """Return the lines in at most `room` tokens."""
        left = room
        while left > LEAST_TOKENS and self._said:
            rules = max(int(RULES_SHARE * left), min(left // 2, LEAST_RULES))
            chosen = self._select(left, 0 if self._is_people else rules)
            lines = "\n".join(_lines(chosen, self._names, self._before_ids))
            over = self._counter.text(lines) - room
            if over <= 0:
                return lines
            left -= over + SPEAKER_TOKENS
        return ""

    @cached_property
    def _clear(self) -> list[Said]:
        """The user's clear demands, the clearest and newest first."""
        persons = ((i, x) for i, x in enumerate(self._said) if x.speaker == "person")
        clear = [(demand_of(x.text), x.position, i) for i, x in persons]
        return [self._said[i] for demand, _, i in sorted(clear, reverse=True) if demand >= CLEAR]

    def _select(self, budget: int, rules: int) -> Sequence[Said]:
        """Choose important messages, then demands up to `rules` tokens, then what is new. Fill the
        room that is left by weight, the newest first among equals.
        """
        said = self._said
        first = Candidates(self._marked, self._costs.__getitem__).within(budget)
        for one in self._clear if rules else ():
            took = self._costs[one.text]
            if took <= rules and one not in first:
                first.append(one)
                rules -= took
        left = budget - sum(self._costs[x.text] for x in first)
        rest = self._beside(first).within(left)
        left -= sum(self._costs[x.text] for x in rest)
        chosen = set(map(id, (*first, *rest)))
        told = {x.text for x in (*first, *rest)}
        newest_first = said[::-1] if left > SPARE * budget else []
        for one in sorted(newest_first, key=self._weigh, reverse=True):
            if one.text not in told and (took := self._costs[one.text] + SPEAKER_TOKENS) <= left:
                chosen.add(id(one))
                told.add(one.text)
                left -= took
        return [x for x in said if id(x) in chosen]

    def _beside(self, first: list[Said]) -> Candidates:
        if self._rest is None or self._rest[0] != first:
            at = {x.position for x in first}
            others = [x for x in self._said if x.position not in at or x not in first]
            self._rest = first, Candidates(others, self._costs.__getitem__, self._weigh)
        return self._rest[1]


def is_record(items: Sequence[Item]) -> bool:
    """Whether the items record what people said to each other: most requests name their speaker,
    and the same few speak often.
    """
    newest = [item.text for item in items if item.kind == "request"][-MOST_JUDGED:]
    names = [found[0] for found in map(NAMED.match, newest) if found]
    return 2 * len(names) > len(newest) > 1 and len(names) >= 2 * len(set(names))


def _names_of(items: Sequence[Item]) -> dict[int, str]:
    found = ((item.position, NAMED.match(item.text)) for item in items)
    return {at: name[0] for at, name in found if name and name[0] not in SPOKEN}


def _said_in(before: Item | None, item: Item) -> Sequence[Said]:
    """Return an item's sentences. If the first one is short, it begins with the question it
    answers.
    """
    spoken, asked = _spoken(item), item.before
    if not asked and before is not None and spoken.opening < SHORT_ANSWER:
        asked = _spoken(before).question
    if not asked or not spoken.said:
        return spoken.said
    first, *others = spoken.said
    return [Said(item.position, first.speaker, f"(asked: {asked}) {first.text}"), *others]


def _spoken(item: Item) -> Spoken:
    if item.spoken is None:
        speaker: Speaker = "person" if item.kind in ("request", "aside") else "assistant"
        lines = lines_of(without_superseded(item.text))
        said = [Said(item.position, speaker, x) for line in lines for x in sentences_of(line)]
        opening = info_of(said[0].text) if said else SHORT_ANSWER
        item.spoken = Spoken(said, opening, question_of(item.text))
    return item.spoken


def _weighing(weights: KindWeights) -> Callable[[Said], float]:
    more = {
        k: math.pow(weights.more(k), TALK_POWER) for k in ("request", "wrote", *TOPICS.values())
    }

    if all(by == 1 for by in more.values()):
        return lambda _: 1.0

    def weigh(said: Said) -> float:
        by = more["request"] if said.speaker == "person" else 1.0
        if more["wrote"] != 1 and anchors.find(said.text):
            by *= more["wrote"]
        kind = TOPICS.get(topic_of(said.text))
        if more["failed"] != 1 and anchors.error_lines(said.text, most=1):
            kind = "failed"
        if kind:
            by *= more[kind]
        return by

    return weigh


def _lines(
    rows: Sequence[Said],
    names: Mapping[int, str],
    before_ids: Mapping[int, Mapping[str, Sequence[str]]],
) -> Iterator[str]:
    """Yield one line per message, with its speaker and with marks of earlier values. A speaker that
    the message names comes first.
    """
    for (at, speaker), said in groupby(rows, key=lambda x: (x.position, x.speaker)):
        *before, last = [x.text for x in said]
        words = "".join(f"{x} " if x.endswith(_ENDS) else f"{x}; " for x in before) + last
        words = marked(words, before_ids[at])
        name = names.get(at, SPEAKERS[speaker])
        yield f"- {name}{words.replace(name, '', 1) if name and at in names else words}"

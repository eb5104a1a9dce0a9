"""Adds to a search's hits what a person said that lasts: later words on the subject of a hit, and
standing sentences on the topic of the question.

So an old value is shown with the newer one, a cancelled plan with its cancellation, and a subject
that the person does not want to talk about with that rule. "How do I write a login?" also finds
"Always show code with types". Only messages with the role `user` and without a speaker's name
count. In such messages a person talks to an assistant and says what holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from compact.memory.lexical import FEW, SMALL_TALK
from compact.text.terms import looked_for, searchable
from compact.text.turns import LONG, ROLE_NUMBERS, Keys, Trait, TurnTable, forgotten_in

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from compact.wiring import SQLiteManager

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

SEAT, SEATS = 7, 3
"""Where standing sentences are inserted in the results, and how many at most."""
BREVITY, BRIEF = 6.0, 10
"""A bonus for short standing sentences: nearly `BREVITY` for one word, half of it for `BRIEF`
words. A short sentence is usually a rule. A long one is about something else too."""
MEANING = 20.0
"""How much the cosine with the question adds for a standing sentence."""
ON_TOPIC = 0.4
"""The least cosine of a rule that is recalled although it answers nothing. Of questions on a rule's
topic 6 of 11 are so near (BEAM, look), of 200 questions without an answer 4 (companion, look).
"""
HEADS = 5
"""How many of the first hits to find later words for."""
ANSWERS = 0.4
"""Later words answer the question themselves if they share at least this much of what the hit
shares with it."""
MOSTLY = 3
"""Later words are about the hit if at least one word in three is a rare word of the hit."""
LINKED = 0.65
"""Words shared with the hit must weigh at least this share of ln(messages). Words that are also in
the question weigh twice. A lower value adds more messages on other subjects."""
NEAR_IN_MEANING = 0.38
"""The least cosine between the question and a message that counts as near in meaning."""
ALIKE = 1.05
"""Two statements answer a question alike if the earlier one shares at most this much more with it.
"""
MOST_RULES = 8
"""How many requests not to talk about something come with what is recalled."""
COMMON, COMMON_IN_FILE = 200, 1_000
"""A word in more messages of the scope than the first number does not link messages. A word in more
messages of the file than the second is not looked up, because that takes long."""
MOST_REQUESTS = 50
"""Only this many requests to forget something count, the newest ones."""


class Asked(NamedTuple):
    """What a search knows about its question."""

    names: Sequence[Sequence[str]]
    """The words of the question."""
    own: Floats
    """For each message, the weight of the words that it shares with the question."""
    cosines: Floats
    """For each message, its cosine with the question; 0 if it is not near."""
    may: Mask
    """Which messages the search may return."""
    within: Sequence[tuple[int, int]]
    """The ranges of keys that are searched; empty for all."""


def with_later(
    index: SQLiteManager, turns: TurnTable, places: list[int], asked: Asked
) -> list[int]:
    """Add to each of the first hits the person's later words about it. They may change it, cancel
    it, or forbid to talk about it.

    Candidates are messages with a word of change (`Trait.CHANGE`). For each hit at most two are
    added: the one that shares most rare words with it, and the one nearest in meaning to the
    question. A message is put before the hit if it is mostly about the hit, or answers the question
    about as well. Otherwise it is put after the hit.
    """
    import numpy as np

    changes = np.flatnonzero(asked.may & persons(turns, Trait.CHANGE))
    heads = [place for place in places[:HEADS] if persons(turns, Trait(0))[place]]
    if not len(changes) or not heads:
        return places
    messages, _, _ = index.told([int(turns.keys[place]) for place in heads], ())
    found = ((place, messages.get(int(turns.keys[place]))) for place in heads)
    texts = {place: searchable(message) for place, message in found if message is not None}
    words = {
        place: [word for word in looked_for(text) if not SMALL_TALK.issuperset(word)]
        for place, text in texts.items()
    }
    every = list(dict.fromkeys(word for each in words.values() for word in each))
    holding = index.holding(every, asked.within, COMMON_IN_FILE)
    held = {
        word: own
        for word, keys in zip(every, holding, strict=True)
        if 0 < len(own := turns.places(keys)) <= COMMON
    }
    order = list[int]()
    for place in places:
        before, after = list[int](), list[int]()
        of_place = {word: held[word] for word in words.get(place, ()) if word in held}
        for later in _later(turns, place, of_place, changes, asked) if place in words else ():
            shared = sum(later in own for own in of_place.values())
            is_on_hit = shared > 1 and shared * MOSTLY >= turns.rows["length"][later]
            is_answer = any(
                each[later] > 0 and each[later] >= ANSWERS * each[place]
                for each in (asked.own, asked.cosines)
            )
            (before if is_on_hit or is_answer else after).append(later)
        order += [*before, place, *after]
    return list(dict.fromkeys(order))


def _later(
    turns: TurnTable,
    place: int,
    held: Mapping[tuple[str, ...], Keys],
    changes: Keys,
    asked: Asked,
) -> Iterator[int]:
    """Yield those of `changes` that came after a message and are about the same subject, newest
    first. `held` is rare word of the message → places that have it.
    """
    import numpy as np

    at = turns.rows["at"]
    later = changes[_is_later(turns, changes, place)]
    if not len(later):
        return
    weights = np.zeros(len(turns))
    for word, places in held.items():
        rare = math.log((len(turns) + FEW) / (len(places) + 0.5))
        weights[places] += rare * (2 if word in asked.names else 1)
    own, cosines = weights[later], asked.cosines[later]
    linked = LINKED * math.log(len(turns) + FEW)
    most = (own >= linked) & (own >= np.sort(own)[-2:][0])
    nearest = (cosines >= NEAR_IN_MEANING) & (cosines == cosines.max())
    every = [later[each] for each in (most & (own == own.max()), most, nearest)]
    newest = {int(some[np.lexsort((some, at[some]))[-1]]) for some in every if len(some)}
    if most.sum() == 2:
        newest.update(later[most].tolist())
    yield from sorted(newest, key=lambda each: (at[each], each), reverse=True)


def barred(turns: TurnTable, places: Sequence[int], asked: Asked) -> list[int]:
    """Return the person's requests not to talk about something, at most `MOST_RULES`: those nearest
    to the question or to one of the first hits first, then the newest.

    A request may name its matter in other words than the hit ("my gambling", "poker"). So all are
    returned if they are few, whatever the hits are.
    """
    import numpy as np

    every = np.flatnonzero(asked.may & persons(turns, Trait.BARRED))
    at, beside = turns.rows["at"][every], np.isin(every, places)
    order = np.lexsort((at, asked.own[every], asked.cosines[every], beside))[::-1]
    rules: list[int] = every[order[:MOST_RULES]].tolist()
    return rules


def newest_first(turns: TurnTable, places: list[int], asked: Asked) -> list[int]:
    """Put the later of two statements that answer the question alike before the earlier one, among
    the first hits. Both are the person's, and share the same words with the question.
    """
    may, order = persons(turns, Trait(0)), places[:HEADS]
    is_asked = turns.rows["signs"] & Trait.QUESTION > 0
    for place in places[1:HEADS]:
        if not may[place] or is_asked[place]:
            continue
        for other in order[: order.index(place)]:
            is_alike = may[other] and not is_asked[other]
            is_alike &= 0 < asked.own[other] <= asked.own[place] * ALIKE
            if is_alike and _came_after(turns, place, other):
                order.remove(place)
                order.insert(order.index(other), place)
                break
    return [*order, *places[HEADS:]]


def without_forgotten(index: SQLiteManager, turns: TurnTable, places: list[int]) -> list[int]:
    """Leave out messages that the person later asked to forget. These are earlier messages that
    share two words with the request, or one if it has only one.
    """
    import numpy as np

    every = np.flatnonzero(persons(turns, Trait.FORGET))
    if not len(every):
        return places
    newest = np.argsort(turns.rows["at"][every], kind="stable")[-MOST_REQUESTS:]
    requests = every[newest].tolist()
    messages, _, _ = index.told([int(turns.keys[place]) for place in requests], ())
    some = np.array(places, int)
    stays = np.ones(len(some), bool)
    for request in requests:
        message = messages.get(int(turns.keys[request]))
        names = looked_for(forgotten_in(message.text)) if message is not None else []
        words = [each for each in names if not SMALL_TALK.issuperset(each)]
        counts = np.zeros(len(turns), int)
        for keys in index.holding(words):
            counts[turns.places(keys)] += 1
        is_named = counts[some] >= min(2, max(1, len(words)))
        stays &= ~is_named | _is_later(turns, some, request) | (some == request)
    return [place for place, is_kept in zip(places, stays, strict=True) if is_kept]


def standing(turns: TurnTable, asked: Asked) -> list[int]:
    """Return the person's standing sentences that share most with the question in words and
    meaning, at most `SEATS`. A rule often shares no word with what it is for.
    """
    import numpy as np

    may = asked.may & persons(turns, Trait.STANDING)
    if len(asked.names) < 2:  # one word is looked up; it has no topic
        may &= asked.own > 0
    every = np.flatnonzero(may)
    scores = asked.own[every] + BREVITY / (1 + turns.rows["length"][every] / BRIEF)
    scores += MEANING * asked.cosines[every]
    best: list[int] = every[np.argsort(-scores, kind="stable")][:SEATS].tolist()
    return best


def _came_after(turns: TurnTable, place: int, other: int) -> bool:
    at = turns.rows["at"]
    return bool((at[place], place) > (at[other], other))


def _is_later(turns: TurnTable, places: Keys, place: int) -> Mask:
    """Return for each of `places` whether it came after `place`. At equal times, by order."""
    at = turns.rows["at"]
    later: Mask = (at[places] > at[place]) | ((at[places] == at[place]) & (places > place))
    return later


def persons(turns: TurnTable, sign: Trait) -> Mask:
    """Return a mask of the messages from a person to an assistant that have all these traits."""

    def made() -> Mask:
        rows = turns.rows
        is_persons = (rows["role"] == ROLE_NUMBERS["user"]) & (turns.speakers == 0)
        may: Mask = is_persons & (rows["length"] <= LONG) & (rows["signs"] & sign == sign)
        return may

    return turns.once(f"persons {sign:d}", made)

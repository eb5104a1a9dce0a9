"""Scores how well messages answer a question by their words and traits, without a model.

A message's score is the BM25 of the message and its neighbours in the session; nearer ones count
more. For an answer comes next to its question, and a topic is often named only once. Small weights
are added for who speaks, for questions, and for what an answer needs (a name, a number, a time).
The weights were chosen by hand on five conversations (docs/evidence.md, search).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from compact.memory.questions import Question
from compact.memory.retention import DAY
from compact.messages.codec import instant
from compact.text.dates import Time
from compact.text.languages import words_of
from compact.text.terms import STOP_WORDS
from compact.text.turns import ROLE_NUMBERS, SCORED, Keys, Trait, TurnTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
NEIGHBOURS = {-3: 0.4, -2: 0.6, -1: 0.8, 0: 1.0, 1: 0.6, 2: 0.4, 3: 0.2}
"""How much a neighbour counts, by its distance. Earlier messages count more than later ones."""
ANSWER = 0.5
"""How much a question counts for an assistant's answer."""
REACH = 3
"""Distance of the farthest neighbour."""
_KERNEL = [NEIGHBOURS[-distance] for distance in range(-REACH, REACH + 1)]
LONG = 200
"""A message with more words does not count for its neighbours: a log or a document has almost any
word."""
K1, B = 1.2, 0.75
"""BM25 (Robertson and Zaragoza, 2009): K1 limits how much repetition counts, B how much length."""


class Weights(NamedTuple):
    """What each part adds to a message's score."""

    words: float = 5.0
    """Added for the message whose words match best. Others get a share."""
    prior: float = 0.5
    """Added for the named speaker and each trait in `FOR`; subtracted for others and `AGAINST`."""
    answer: float = 1.0
    """Added for each trait that an answer must have."""
    date: float = 5.0
    """Added for the named day; less for longer times, and for days near to it."""
    own: float = 1.0
    """Added for what the user said if the question speaks of the user, as in `my` and `I`."""
    meaning: float = 8.0
    """Multiplied by how far the cosine is above that of the last message that was found."""


WEIGHTS = Weights()
FOR, AGAINST = Trait.SELF | Trait.AFTER_QUESTION, Trait.QUESTION
"""Traits that count for and against a message, whatever the question."""
SPREAD = 0.1
"""How much less a longer time weighs: a day 1, a week .82, a month .71, a year .55."""
NEAR = 2 * DAY
"""How far from the named time the weight is halved. People err by a few days."""
OTHER_YEARS = 0.5
"""Which share of the weight other years get if a date is named without its year."""
SHARPNESS = 3.0
"""How close the soft maximum in a session's score is to the score of the best message."""
PLEASANTRIES = frozenset().union(*words_of("replies").values(), STOP_WORDS)
"""Words such as `thanks`. A message of these alone asks memory nothing."""
SMALL_TALK = PLEASANTRIES.union(*words_of("talk").values())
"""Words that say nothing about what a message is about."""


def words_score(turns: TurnTable, held: Sequence[Keys]) -> tuple[Keys, Floats]:
    """Return the places of messages that have words of the question, or have such neighbours, and
    the BM25 score of each. The best score is 1.

    `held` are the places of the messages that have each word. A word counts once per message, with
    the weight ln(1 + (N - n + ½) / (n + ½)), if n of N messages have it.
    """
    import numpy as np

    score = np.zeros(len(turns))
    weight = turns.once("weight", lambda: _length_weight(turns))
    for places in held:
        if not len(places):
            continue
        often = spread(turns, places)
        rare = math.log(1 + (len(turns) - len(places) + 0.5) / (len(places) + 0.5))
        score += (rare * (K1 + 1)) * often / (often + weight)
    touched = np.flatnonzero(score)
    return touched, score[touched] / score.max(initial=1e-9)


def prior(turns: TurnTable, question: Question, weights: Weights = WEIGHTS) -> Floats:
    """Score each message without its words: by who speaks, and its traits."""
    import numpy as np

    score: Floats = np.array(_worths(question.asks, weights))[_signs(turns) & SCORED]
    if question.speaker:
        is_named = turns.speakers == question.speaker
        score += np.where(is_named, weights.prior, -weights.prior)
    if question.is_own:
        is_user = (turns.rows["role"] == ROLE_NUMBERS["user"]) & (turns.speakers == 0)
        score += weights.own * is_user
    return score


@cache
def _worths(asks: Trait, weights: Weights) -> list[float]:
    """Return the score of each combination of traits."""

    def worth(sign: Trait) -> float:
        own = (sign in FOR) - (sign in AGAINST)
        return weights.prior * own + weights.answer * (sign in asks)

    return [sum(map(worth, Trait(each))) for each in range(SCORED + 1)]


def session_scores(turns: TurnTable, scores: Floats) -> Floats:
    """Score each session: the soft maximum (log of summed exponentials) of its messages' scores.
    The best message counts most, and several good messages count more than one.
    """
    import numpy as np

    best = float(scores.max(initial=0.0))
    share = np.exp(SHARPNESS * (scores - best))
    sums = np.bincount(session_of(turns), share, len(turns.sessions))
    return best + np.log(sums + np.finfo(float).tiny) / SHARPNESS


# --- columns that are made once ------------------------------------------------------------------


def session_of(turns: TurnTable) -> Keys:
    """Return the place of each message's session."""
    import numpy as np

    def made() -> Keys:
        return np.repeat(np.arange(len(turns.sessions)), np.diff(turns.starts))

    return turns.once("session_of", made)


def spread(turns: TurnTable, places: Keys, weights: Floats | None = None) -> Floats:
    """Spread the weights of some places to their neighbours by distance, within a session.

    Where speakers have no names, a person talks to an assistant. There only a question's weight is
    spread, to its answer: the next message is on something else. A long message's weight is never
    spread.
    """
    import numpy as np

    own, scores = session_of(turns), np.zeros(len(turns))
    values = np.ones(len(places)) if weights is None else weights
    is_short, is_named = turns.rows["length"][places] <= LONG, turns.speakers[places] > 0
    is_spread = is_short & is_named
    if is_spread.any():
        # Sessions stand REACH places apart, so that the kernel reaches no other session.
        apart = turns.once("apart", lambda: np.arange(len(turns)) + REACH * own)
        row = np.zeros(int(apart[-1]) + 1)
        row[apart[places[is_spread]]] = values[is_spread]
        scores = np.convolve(row, _KERNEL)[REACH:][apart]
    scores[places[~is_spread]] += values[~is_spread]
    is_question = turns.rows["signs"][places] & Trait.QUESTION > 0
    asked = is_short & ~is_named & is_question & (places + 1 < len(turns))
    asked[asked] = own[places[asked]] == own[places[asked] + 1]
    scores[places[asked] + 1] += ANSWER * values[asked]
    return scores


def _length_weight(turns: TurnTable) -> Floats:
    """Return BM25's length term for each message with its neighbours."""
    import numpy as np

    lengths = spread(turns, np.arange(len(turns)), turns.rows["length"].astype(float))
    mean = float(lengths.mean()) if len(turns) else 0.0
    return K1 * (1 - B + B * lengths / max(mean, 1.0))


def _signs(turns: TurnTable) -> NDArray[np.uint16]:
    """Return each message's traits, and mark those that follow a question in their session."""
    import numpy as np

    def made() -> NDArray[np.uint16]:
        signs = turns.rows["signs"].copy()
        after = np.flatnonzero(signs[:-1] & Trait.QUESTION) + 1
        own = session_of(turns)
        signs[after[own[after] == own[after - 1]]] |= np.uint16(Trait.AFTER_QUESTION)
        return signs

    return turns.once("signs", made)


def nearness(
    turns: TurnTable, times: Sequence[Time], may: NDArray[np.bool_]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return for each message how well its time fits the times that a question names, 0 to 1, and
    whether it lies in one of them. If no year is named, the latest that has messages counts, of
    those where `may` is True.
    """
    import numpy as np

    fits, inside = np.zeros(len(turns)), np.zeros(len(turns), bool)
    if not times or not may.any():
        return fits, inside
    at, share = turns.rows["at"], 1.0
    first, last = at[may].min(), at[may].max()
    for is_first, span in ((not place, span) for time in times for place, span in enumerate(time)):
        share = 1.0 if is_first else share
        start, stop = instant(span.start), instant(span.stop)
        if span.yearly and (stop <= first or start > last):
            continue
        away = np.maximum(np.maximum(start - at, at - (stop - 1)), 0)
        weight = share * min(1.0, (DAY / (stop - start)) ** SPREAD)
        fits = np.maximum(fits, weight * NEAR / (NEAR + away))
        if share == 1.0:
            inside |= away == 0
        if span.yearly and not away[may].all():
            share = OTHER_YEARS
    return fits, inside


# --- how much memory knows about a message ------------------------------------------------------

FEW = 40
"""So many messages without any of the words are assumed beside those in memory. A lower value
recalls more on small talk in a new memory, a higher value needs more shared words there."""


class Evidence(NamedTuple):
    """How much one stored message has in common with a text."""

    distinct: float = 0.0
    """The weight of the shared words as a share of ln(messages), about the weight of a word that
    one message has."""
    covered: float = 0.0
    """The same as a share of the weight of all words of the text."""
    is_personal: bool = False
    """Whether the text names a speaker, or has first-person words where speakers have no names."""
    is_of_past: bool = False
    """Whether the text is a question of a past time that has messages."""
    cosine: float | None = None
    """The cosine of the message that is nearest in meaning. None without vectors."""


def shared(
    turns: TurnTable,
    names: Sequence[Sequence[str]],
    held: Sequence[Keys],
    may: NDArray[np.bool_],
) -> tuple[Floats, Evidence]:
    """Return the weight of the words that each message shares with a text, of those where `may` is
    True, and the evidence. `held` are the places of the messages that have each word of the text.

    A word weighs ln(messages / messages that have it). Words of small talk weigh nothing.
    Neighbours do not count: they say what a message is about, but they have no answer.
    """
    import numpy as np

    weights, total, messages = np.zeros(len(turns)), 0.0, int(may.sum()) + FEW
    for name, every in zip(names, held, strict=True):
        if len(name) == 1 and name[0] in SMALL_TALK:
            continue
        places = every[may[every]]
        # A word that no message has may be as rare as the rarest.
        rare = math.log(messages / (max(1, len(places)) + 0.5))
        total += rare
        weights[places] += rare
    best = float(weights.max(initial=0.0))
    return weights, Evidence(best / math.log(messages), best / max(total, 1e-9))

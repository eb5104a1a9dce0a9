"""How well messages answer a question by their words and signs, without a model.

A message counts by the BM25 of itself and its neighbours in the session, the nearer ones more: an
answer stands beside its question, and what a talk is about is named once. To that are added small
weights of what a message is: who speaks, whether it asks, whether it holds what answers have. The
weights were chosen by hand on five conversations (docs/evidence.md, search); none is sharp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from compact.memory.questions import Dates, Question
from compact.text.turns import Keys, Trait, TurnTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEIGHBOURS = {-3: 0.4, -2: 0.6, -1: 0.8, 0: 1.0, 1: 0.6, 2: 0.4, 3: 0.2}
"""How much a message so many places later counts: what stands before counts more than what follows.
"""
REACH = 3
"""Places of the farthest neighbour."""
_KERNEL = [NEIGHBOURS[-distance] for distance in range(-REACH, REACH + 1)]
LONG = 200
"""Words from which a message speaks for itself alone: a log or a document names everything."""
K1, B = 1.2, 0.75
"""Of BM25 (Robertson and Zaragoza, 2009): how soon a word counts no more, how much length does."""


class Weights(NamedTuple):
    """What is added up for a message."""

    words: float = 5.0
    """What the best message by words gets."""
    prior: float = 0.5
    """For the speaker who is named, and taken from others then; for `FOR` and `AGAINST`."""
    answer: float = 1.0
    """For each sign that an answer has."""
    date: float = 2.5
    """For the day that is named; half of it for the month alone."""
    meaning: float = 8.0
    """For a cosine of 1 above that of the last message which is near in meaning."""


WEIGHTS = Weights()
FOR, AGAINST = Trait.SELF | Trait.AFTER_QUESTION, Trait.QUESTION
"""Signs that speak for a message, and against it, whatever is asked."""
YEAR_ALONE = 0.15
"""The share of it for the year alone."""
NEAR_DAYS = 2
"""Days by which a day that is named may be missed."""
SHARPNESS = 3.0
"""Of a session's score, which is the soft maximum of its messages' scores."""


def words_score(turns: TurnTable, keys_by_word: Sequence[Keys]) -> tuple[Keys, Floats]:
    """Where messages stand that hold words of the question, or are neighbours of such; and the BM25
    of each with its neighbours, that of the best one 1.

    `found` are the messages that hold each word. A word counts once in a message, and in all by
    ln(1 + (N - n + ½) / (n + ½)), where n of N messages hold it.
    """
    import numpy as np

    score = np.zeros(len(turns))
    weight = turns.once("weight", lambda: _length_weight(turns))
    for keys in keys_by_word:
        places = turns.places(keys)
        if not len(places):
            continue
        often = spread(turns, places)
        rare = math.log(1 + (len(turns) - len(places) + 0.5) / (len(places) + 0.5))
        score += (rare * (K1 + 1)) * often / (often + weight)
    touched = np.flatnonzero(score)
    return touched, score[touched] / score.max(initial=1e-9)


def prior(turns: TurnTable, question: Question, weights: Weights = WEIGHTS) -> Floats:
    """What each message gets for what it is, whatever its words."""
    import numpy as np

    score = np.array(_worths(question.asks, weights))[_signs(turns)]
    if question.speaker:
        is_named = turns.speakers == question.speaker
        score += np.where(is_named, weights.prior, -weights.prior)
    if question.dates.months or question.dates.years:
        score += weights.date * _date_match(turns, question.dates)
    return score


@cache
def _worths(asks: Trait, weights: Weights) -> list[float]:
    """What a message gets for each combination of signs."""

    def worth(sign: Trait) -> float:
        own = (sign in FOR) - (sign in AGAINST)
        return weights.prior * own + weights.answer * (sign in asks)

    return [sum(map(worth, Trait(each))) for each in range(2 * Trait.AFTER_QUESTION)]


def session_scores(turns: TurnTable, scores: Floats) -> Floats:
    """The soft maximum of the scores of each session's messages: the logarithm of the sum of
    exponentials, of `SHARPNESS`. So one that fits best counts most, and several count for more.
    """
    import numpy as np

    best = float(scores.max(initial=0.0))
    share = np.exp(SHARPNESS * (scores - best))
    sums = np.bincount(session_of(turns), share, len(turns.sessions))
    return best + np.log(sums + np.finfo(float).tiny) / SHARPNESS


# --- columns that are made once ------------------------------------------------------------------


def session_of(turns: TurnTable) -> Keys:
    """The place of each message's session."""
    import numpy as np

    def made() -> Keys:
        return np.repeat(np.arange(len(turns.sessions)), np.diff(turns.starts))

    return turns.once("session_of", made)


def spread(turns: TurnTable, places: Keys, weights: Floats | None = None) -> Floats:
    """What each message gets of those at some places, by their distance; nothing of another
    session's, and of a long one only itself.
    """
    import numpy as np

    apart = turns.once("apart", lambda: np.arange(len(turns)) + REACH * session_of(turns))
    values = np.ones(len(places)) if weights is None else weights
    is_short = turns.rows["length"][places] <= LONG
    # Sessions stand REACH places apart, so that the kernel reaches no other session.
    row = np.zeros(int(apart[-1]) + 1 if len(apart) else 0)
    row[apart[places[is_short]]] = values[is_short]
    scores = np.convolve(row, _KERNEL)[REACH:][apart] if len(row) else row
    scores[places[~is_short]] += values[~is_short]
    return scores


def _length_weight(turns: TurnTable) -> Floats:
    """What BM25 adds to how often a word stands somewhere, by the length there with neighbours."""
    import numpy as np

    lengths = spread(turns, np.arange(len(turns)), turns.rows["length"].astype(float))
    mean = float(lengths.mean()) if len(turns) else 0.0
    return K1 * (1 - B + B * lengths / max(mean, 1.0))


def _signs(turns: TurnTable) -> NDArray[np.uint16]:
    """The signs of each message, with that of following a question in the same session."""
    import numpy as np

    def made() -> NDArray[np.uint16]:
        signs = turns.rows["signs"].copy()
        after = np.flatnonzero(signs[:-1] & Trait.QUESTION) + 1
        own = session_of(turns)
        signs[after[own[after] == own[after - 1]]] |= np.uint16(Trait.AFTER_QUESTION)
        return signs

    return turns.once("signs", made)


def _date_match(turns: TurnTable, dates: Dates) -> Floats:
    """1 where a message was written on a day that is named, ½ in its month, less in its year."""
    import numpy as np

    at = turns.rows["at"].astype("datetime64[us]")
    month = at.astype("datetime64[M]")
    number = month.astype(np.int64)
    day = (at.astype("datetime64[D]") - month.astype("datetime64[D]")).astype(np.int64) + 1
    in_year = np.isin(number // 12 + 1970, list(dates.years)) | (not dates.years)
    if not dates.months:
        return np.where(in_year, YEAR_ALONE, 0.0)
    near = np.zeros(len(turns), bool)
    for each in dates.days:
        near |= abs(day - each) <= NEAR_DAYS
    in_month = in_year & np.isin(number % 12 + 1, list(dates.months))
    return np.where(in_month, np.where(near, 1.0, 0.5), 0.0)


# --- whether a message is about something in memory -----------------------------------------------


FEW = 8
"""Stretches that a memory is taken to have at least. Fewer recall more for small talk where memory
is new; more ask for more shared words there."""
STRETCH = 20
"""Messages of a stretch of talk. Fewer make words of a long talk rare that are common in it."""
DISTINCT = 0.9
"""The share of ln(stretches) that shared words must tell. Less recalls more for small talk."""
COVERED = 0.25
"""The share of what all words of the message tell that shared ones must have. Less recalls more for
messages on other things."""


def is_about(turns: TurnTable, keys_by_word: Sequence[Keys], may: NDArray[np.bool_]) -> bool:
    """Whether a message is about what is said in one of the places where `may` holds; `found` are
    the messages that hold each of its words.
    """
    distinct, covered = about(turns, keys_by_word, may)
    return distinct >= DISTINCT and covered >= COVERED


def about(
    turns: TurnTable, keys_by_word: Sequence[Keys], may: NDArray[np.bool_]
) -> tuple[float, float]:
    """How much the words tell that a message shares with the best place of those: as a share of
    what tells one stretch from all others, and of what all its words tell. The talk that goes on is
    a stretch more, which has none of them.
    """
    import numpy as np

    stretch = stretch_of(turns)
    stretches = 1 + len(np.unique(stretch[may]))
    if not may.any():
        return 0.0, 0.0
    shared, total = np.zeros(len(turns)), 0.0
    for keys in keys_by_word:
        places = turns.places(keys)
        places = places[may[places]]
        if not len(places):
            total += math.log(2 * stretches)
            continue
        rare = math.log(stretches / len(np.unique(stretch[places])))
        total += rare
        shared += rare * (spread(turns, places) > 0)
    best = float(shared[may].max())
    return best / math.log(max(stretches, FEW)), best / max(total, 1e-9)


def stretch_of(turns: TurnTable) -> Keys:
    """The number of each message's stretch; a session begins a new one."""
    import numpy as np

    def made() -> Keys:
        own = session_of(turns)
        place = np.arange(len(turns)) - turns.starts[own]
        lengths = -(-np.diff(turns.starts) // STRETCH)
        before = np.cumsum(np.append(0, lengths))[:-1]
        number: Keys = before[own] + place // STRETCH
        return number

    return turns.once("stretch_of", made)

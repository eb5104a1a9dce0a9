"""A search of memory: from a question to the messages and sessions that answer it, the best first.

Every way of searching proposes messages and none shuts out what another found. Boosts are bounded:
they decide between neighbours in the order and never hide anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from compact.core.codec import instant
from compact.core.found import SearchFilter
from compact.core.protocols import TurnIndex
from compact.core.turns import ROLE_NUMBERS, Keys, Turns
from compact.memory.lexical import (
    WEIGHTS,
    Weights,
    prior,
    session_of,
    session_scores,
    words_score,
)
from compact.memory.questions import understood

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

BOOST = 0.1
"""The share by which being recent, or near to the topic, may raise a score at most."""
HALF_LIFE = 30 * 86_400_000_000
"""Microseconds after which being recent counts half."""


class Ways(NamedTuple):
    """How much everything counts."""

    weights: Weights = WEIGHTS

    recent: bool = False
    """Whether newer messages come before older ones that fit as well."""
    about: str = ""
    """What the talk is about now."""


WAYS = Ways()


class Ranked(NamedTuple):
    """Messages and sessions as places among the turns, the best first; scores are 0 to 1."""

    turns: Turns
    places: Sequence[int]
    scores: Sequence[float]
    sessions: Sequence[int]
    session_scores: Sequence[float]


def ranked(
    index: TurnIndex,
    scope: str | None,
    text: str,
    *,
    most: int,
    only: SearchFilter,
    ways: Ways = WAYS,
) -> Ranked:
    """The messages that answer a text best, at most so many, and as many sessions."""
    import numpy as np

    turns = index.turns(scope)
    within: list[tuple[int, int]] = []
    if only.sessions:
        turns = turns.of(only.sessions)
        within = _runs(turns.keys)
    is_meant = _meant(index, turns, only)
    question = understood(text, turns.names)
    touched, words = words_score(turns, index.holding(question.names, within))
    scores = prior(turns, question, ways.weights)
    scores[touched] += ways.weights.words * words
    scores *= _boost(index, turns, ways, within)
    scores[~is_meant] = -np.inf
    found = touched[is_meant[touched]]
    best = found[_best(scores[found], most)]
    by_session = session_scores(turns, scores)
    own = np.flatnonzero(np.bincount(session_of(turns)[is_meant], minlength=len(turns.sessions)))
    sessions = own[_best(by_session[own], most)]
    return Ranked(
        turns,
        best.tolist(),
        _shares(scores[best]),
        sessions.tolist(),
        _shares(by_session[sessions]),
    )


def _meant(index: TurnIndex, turns: Turns, only: SearchFilter) -> NDArray[np.bool_]:
    """Which messages may be found."""
    import numpy as np

    rows, meant = turns.rows, np.ones(len(turns), bool)
    if only.roles:
        meant &= np.isin(rows["role"], [ROLE_NUMBERS[role] for role in only.roles])
    if only.since is not None:
        meant &= rows["at"] >= instant(only.since)
    if only.until is not None:
        meant &= rows["at"] <= instant(only.until)
    if only.least_importance is not None:
        meant &= np.isin(turns.keys, index.important(only.least_importance))
    return meant


def _runs(keys: Keys) -> list[tuple[int, int]]:
    """Runs of keys that follow each other, by their first and last."""
    import numpy as np

    if not len(keys):
        return []
    ends = np.flatnonzero(np.diff(keys) != 1)
    firsts, lasts = np.append(0, ends + 1), np.append(ends, len(keys) - 1)
    return list(zip(keys[firsts].tolist(), keys[lasts].tolist(), strict=True))


def _boost(index: TurnIndex, turns: Turns, ways: Ways, within: Sequence[tuple[int, int]]) -> Floats:
    """By which each score is multiplied."""
    import numpy as np

    factor = np.ones(len(turns))
    if ways.recent and len(turns):
        at = turns.rows["at"]
        factor += BOOST * np.exp2(-(at.max() - at) / HALF_LIFE)
    if ways.about:
        topic = understood(ways.about, turns.names)
        places, words = words_score(turns, index.holding(topic.names, within))
        factor[places] += BOOST * words
    return factor


def _best(scores: Floats, most: int) -> Keys:
    """The places of the highest scores, highest first; the later one first among equals."""
    import numpy as np

    some = np.arange(len(scores))
    if most < len(scores):
        some = np.argpartition(-scores, most - 1)[:most] if most > 0 else some[:0]
    return some[np.lexsort((-some, -scores[some]))]


def _shares(scores: Floats) -> list[float]:
    """Scores as shares of the best one; what is below nothing is 0."""
    best = float(scores.max(initial=0.0))
    return [max(0.0, float(score)) / best if best else 0.0 for score in scores]

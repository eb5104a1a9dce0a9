"""What a person said that lasts, beside what a search finds: standing sentences on the question's
topic, and what was said later on the matter of a hit.

Only messages of the role `user` count, and only where speakers have no names: a person talks to an
assistant there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from compact.memory.lexical import FEW, SMALL_TALK
from compact.messages.memory_protocols import TurnIndex
from compact.text.terms import looked_for, searchable
from compact.text.turns import LONG, ROLE_NUMBERS, Keys, Trait, TurnTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

SEAT, SEATS = 7, 3
"""At which place of a search standing sentences come, and at most how many."""
BREVITY, BRIEF = 6.0, 10
"""A standing sentence of few words counts as if it shared more: by `BREVITY` for one word, by half
of it for `BRIEF` words. A short sentence is a rule; a long one is on something else, too."""
HEADS = 3
"""For how many hits to look for later words."""
LINKED = 6.5
"""Words shared with the hit must weigh at least this much. Words of the question weigh twice. A
lower value brings more that is on something else."""
COMMON = 200
"""A word in more messages links nothing."""


def with_standing(turns: TurnTable, places: list[int], own: Floats, most: int) -> list[int]:
    """Seat the standing sentences that share most with the question among the places that were
    found. `own` is the weight of the words that each message shares with the question.
    """
    import numpy as np

    if most <= SEAT:
        return places
    standing = np.flatnonzero(_persons(turns, Trait.STANDING) & (own > 0))
    scores = own[standing] + BREVITY / (1 + turns.rows["length"][standing] / BRIEF)
    seated = standing[np.argsort(-scores, kind="stable")][:SEATS].tolist()
    first = places[:SEAT]
    return list(dict.fromkeys([*first, *seated, *places[SEAT:]]))[:most]


def with_later(
    index: TurnIndex,
    turns: TurnTable,
    places: list[int],
    names: Sequence[Sequence[str]],
    own: Floats,
    may: Mask,
    within: Sequence[tuple[int, int]],
) -> list[int]:
    """Put what changes, withdraws or bars the matter of one of the first hits beside the hit:
    before it if it is on the question too, else after it.

    It is the person's later message that says so (`Trait.CHANGE`) and shares most rare words with
    the hit. `names` are the question's words.
    """
    heads = [place for place in places[:HEADS] if _persons(turns, Trait(0))[place]]
    messages, _, _ = index.told([int(turns.keys[place]) for place in heads], ())
    order = list[int]()
    for place in places:
        message = messages.get(int(turns.keys[place])) if place in heads else None
        later = None
        if message is not None:
            later = _later(index, turns, place, searchable(message), names, may, within)
        if later is None:
            order.append(place)
        elif later in places or own[later] > 0:
            order += [later, place]
        else:
            order += [place, later]
    return list(dict.fromkeys(order))


def _later(
    index: TurnIndex,
    turns: TurnTable,
    place: int,
    text: str,
    names: Sequence[Sequence[str]],
    may: Mask,
    within: Sequence[tuple[int, int]],
) -> int | None:
    import numpy as np

    rows = turns.rows
    candidates = may & _persons(turns, Trait.CHANGE) & (rows["at"] > rows["at"][place])
    if not candidates.any():
        return None
    words = [each for each in looked_for(text) if not SMALL_TALK.issuperset(each)]
    weights = np.zeros(len(turns))
    for word, keys in zip(words, index.holding(words, within, COMMON), strict=True):
        places: Keys = turns.places(keys)
        rare = math.log((len(turns) + FEW) / (len(places) + 0.5)) if len(places) else 0.0
        weights[places] += rare * (2 if word in names else 1)
    weights[~candidates] = 0.0
    best = float(weights.max())
    same = np.flatnonzero(weights == best)
    return int(same[np.argmax(rows["at"][same])]) if best >= LINKED else None


def _persons(turns: TurnTable, sign: Trait) -> Mask:
    """Return a mask of the messages of a person to an assistant that have all these traits."""

    def made() -> Mask:
        rows = turns.rows
        is_persons = (rows["role"] == ROLE_NUMBERS["user"]) & (turns.speakers == 0)
        return is_persons & (rows["length"] <= LONG) & (rows["signs"] & sign == sign)

    return turns.once(f"persons {sign:d}", made)

"""Whether a message is about something that memory holds: without a list of greetings.

A word tells much if it stands in few stretches of talk, and nothing if it stands in all of them, as
"thanks" does. The words that a message shares with one place of memory must nearly tell that
stretch from all others, and be a part of what the message says. Chance would do the first for one
stretch if they told as much as ln(stretches).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from compact.memory.lexical import session_of, spread
from compact.text.turns import Keys, TurnTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEW = 8
"""Stretches that a memory is taken to have at least. Fewer recall more for small talk where memory
is new; more ask for more shared words there."""
STRETCH = 20
"""Messages of a stretch of talk. Fewer make words of a long talk rare that are common in it."""
TOLD = 0.9
"""The share of ln(stretches) that shared words must tell. Less recalls more for small talk."""
COVERED = 0.25
"""The share of what all words of the message tell that shared ones must have. Less recalls more for
messages on other things."""


def is_about(turns: TurnTable, found: Sequence[Keys], may: NDArray[np.bool_]) -> bool:
    """Whether a message is about what is said in one of the places where `may` holds; `found` are
    the messages that hold each of its words.
    """
    told, covered = about(turns, found, may)
    return told >= TOLD and covered >= COVERED


def about(turns: TurnTable, found: Sequence[Keys], may: NDArray[np.bool_]) -> tuple[float, float]:
    """How much the words tell that a message shares with the best place of those: as a share of
    what tells one stretch from all others, and of what all its words tell. The talk that goes on is
    a stretch more, which has none of them.
    """
    import numpy as np

    stretch = stretch_of(turns)
    stretches = 1 + len(np.unique(stretch[may]))
    if not may.any():
        return 0.0, 0.0
    told, total = np.zeros(len(turns)), 0.0
    for keys in found:
        places = turns.places(keys)
        places = places[may[places]]
        if not len(places):
            total += math.log(2 * stretches)
            continue
        rare = math.log(stretches / len(np.unique(stretch[places])))
        total += rare
        told += rare * (spread(turns, places) > 0)
    best = float(told[may].max())
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
